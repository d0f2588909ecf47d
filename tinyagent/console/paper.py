"""Writing to a terminal or a file: colours only where they are wanted, and never a character that acts."""

import os
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

Style = Literal["plain", "bold", "dim", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ASCII = str.maketrans({"→": "->", "…": "...", "·": "|", "⏎": "\\n", "›": ">"})


@dataclass
class Paper:
    """A stream to write on. A stream that cannot be written to any more is given up in silence: the run goes on.

    `is_live`: a person watches, so that text may appear piece by piece.
    """

    stream: TextIO
    is_live: bool = False
    has_colours: bool = False
    has_unicode: bool = True
    columns: Callable[[], int] = lambda: 80
    at_line_start: bool = True
    is_gone: bool = False

    def line(self, text: str, style: Style = "plain") -> None:
        """One line of its own."""
        self.fresh()
        self._write(self._styled(self._fitting(text), style) + "\n")

    def clipped(self, text: str, style: Style = "plain") -> None:
        """One line of its own, cut to the width of the terminal."""
        self.line(clip_cells(self._fitting(text), self.columns() - 1 if self.is_live else 200), style)

    def piece(self, text: str) -> None:
        """Text that goes on where the last piece ended."""
        self._write(self._fitting(text))

    def fresh(self) -> None:
        """Start a new line unless at the start of one."""
        if not self.at_line_start:
            self._write("\n")

    def _fitting(self, text: str) -> str:
        text = legible(text)
        return text if self.has_unicode else text.translate(_ASCII).encode("ascii", "backslashreplace").decode()

    def _styled(self, text: str, style: Style) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.has_colours and style != "plain" else text

    def _write(self, text: str) -> None:
        if self.is_gone or not text:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # a closed terminal or pipe, a closed file
            self.is_gone = True
        self.at_line_start = text.endswith("\n")


def paper_for(stream: TextIO, environ: Mapping[str, str]) -> Paper:
    """A paper that suits the stream and the environment (NO_COLOR, TERM, the encoding)."""
    live = stream.isatty()
    dumb = environ.get("TERM", "dumb") == "dumb"
    return Paper(
        stream,
        is_live=live,
        has_colours=live and not dumb and not environ.get("NO_COLOR"),
        has_unicode=_takes_unicode(stream),
        columns=lambda: _columns(stream),
    )


def legible(text: str) -> str:
    """A text of a model or a file for a terminal: control, bidirectional and zero-width characters become escapes.

    New lines and tabs stay, and wide or unbreakable blanks become plain ones.
    """
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else _escaped(char) for char in text)


def one_line(text: str) -> str:
    """The text on one line, with marks for where the others began."""
    return " ⏎ ".join(line.strip() for line in text.strip().splitlines())


def clip_cells(text: str, cells: int) -> str:
    """The text cut to a width in terminal cells, with an ellipsis if something is missing."""
    text = legible(text).expandtabs(4)
    if len(text) * 2 <= cells or _cells(text) <= cells:
        return text
    kept, used = 0, 1
    for char in text:
        used += _cells(char)
        if used > cells:
            break
        kept += 1
    return text[:kept] + "…"


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _escaped(char: str) -> str:
    if unicodedata.category(char) == "Zs":
        return " "
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _takes_unicode(stream: TextIO) -> bool:
    try:
        "→…·⏎".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return stream.encoding.lower().replace("-", "") == "utf8"


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
