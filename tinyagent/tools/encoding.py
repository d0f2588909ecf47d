"""Text files as they are on disk: encoding, byte order mark and line ends survive a change."""

import re
from dataclasses import dataclass

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xef\xbb\xbf", "utf-8"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1b")) + b"\x7f"
_BINARY_SHARE = 0.02  # of control characters, from which on bytes that are no UTF-8 count as binary
NEWLINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A decoded file. `text` has its own line ends; `mark` is the byte order mark, b"" if there is none."""

    text: str
    codec: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """The bytes of a new text in the same encoding. Raises UnicodeEncodeError for what it cannot hold."""
        return self.mark + text.encode(self.codec)

    @property
    def newline(self) -> str:
        """The line end of all lines, "" if there is none or they differ."""
        if "\r" not in self.text:
            return "\n" if "\n" in self.text else ""
        ends: set[str] = set(NEWLINE.findall(self.text))
        return ends.pop() if len(ends) == 1 else ""


def decode(data: bytes) -> TextFile | None:
    """The text of a file, or None if it is binary. Encoding it again gives the same bytes.

    Tried in order: a byte order mark, UTF-8, Latin-1. The last fits any bytes, so it shows other eight-bit encodings
    with wrong letters but keeps them.
    """
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], codec, mark)
    return _decoded(data, "utf-8", b"")


def _decoded(body: bytes, codec: str, mark: bytes) -> TextFile | None:
    try:
        text = body.decode(codec)
    except UnicodeDecodeError:
        if codec != "utf-8" or len(body) - len(body.translate(None, _CONTROLS)) > len(body) * _BINARY_SHARE:
            return None
        codec, text = "latin-1", body.decode("latin-1")
    return None if "\0" in text else TextFile(text, codec, mark)


def flat(text: str) -> str:
    """The text with every line end as `\\n`, the form that models read and write."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def describe(file: TextFile) -> str:
    """What is unusual about a file, as the end of a heading: ", CRLF, utf-16-le"; "" for plain UTF-8 with `\\n`."""
    names = {"\r\n": "CRLF", "\r": "CR line ends", "\n": "", "": "mixed line ends" if "\r" in file.text else ""}
    codec = f"{file.codec} with BOM" if file.mark else file.codec
    parts = [names[file.newline], "" if codec == "utf-8" else codec]
    if file.text and not file.text.endswith(("\n", "\r")):
        parts.append("no line end at the end")
    return "".join(f", {part}" for part in parts if part)
