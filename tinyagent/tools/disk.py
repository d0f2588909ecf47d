"""Files of the workspace through the sandbox: every trouble becomes a sentence for the model."""

import hashlib
import mimetypes
import posixpath
import shlex
from dataclasses import dataclass

from tinyagent.core.types import Sandbox

MAX_FILE_BYTES = 10_000_000
LISTED = 500  # entries of a folder
_LIST_TIMEOUT_S = 20
_KINDS = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"SQLite format 3\0", "an SQLite database"),
)


class Refused(Exception):
    """A call on a file that cannot be done; the text is the call's error result."""


class Missing(Refused):
    """The file does not exist."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it is now. `name` is its path as facts have it: relative to the workspace where it lies inside."""

    name: str
    data: bytes

    @property
    def digest(self) -> str:
        """The sha256 of the bytes, in hex."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def kind(self) -> str:
        """What a file that is no text seems to be, from its first bytes, else from its name."""
        for magic, words in _KINDS:
            if self.data.startswith(magic):
                return words
        guess = mimetypes.guess_type(self.name)[0]
        return f"binary ({guess})" if guess else "binary"


def load(path: str, sandbox: Sandbox) -> Found:
    """The file's bytes. Raises Refused: missing, no regular file, over 10 MB, not allowed."""
    try:
        return Found(name_of(path, sandbox), sandbox.read_bytes(path, max_bytes=MAX_FILE_BYTES))
    except FileNotFoundError as error:
        raise Missing(_sentence(path, error)) from error
    except (OSError, ValueError) as error:
        raise Refused(_sentence(path, error)) from error


def save(path: str, data: bytes, sandbox: Sandbox) -> Found:
    """Write the bytes and return the file as it is then. Raises Refused."""
    try:
        sandbox.write_bytes(path, data)
    except (OSError, ValueError) as error:
        raise Refused(_sentence(path, error)) from error
    return Found(name_of(path, sandbox), data)


def entries(path: str, sandbox: Sandbox) -> list[str] | None:
    """Names in a folder, sorted, folders with a slash, at most `LISTED` + 1 of them; None if it is no folder."""
    quoted = shlex.quote(path)
    command = f"[ -d {quoted} ] && ls -1Ap -- {quoted}/ | head -n {LISTED + 1}"
    try:
        done = sandbox.run(command, timeout_s=_LIST_TIMEOUT_S, max_bytes=(LISTED + 1) * 256)
    except ValueError:  # a NUL or half a surrogate pair in the path
        return None
    return sorted(done.output.splitlines()) if done.exit_code == 0 else None


def name_of(path: str, sandbox: Sandbox) -> str:
    """The path in one spelling: relative to the workspace if it lies inside, as the words say (links not followed)."""
    root = str(sandbox.root)
    full = posixpath.normpath(posixpath.join(root, path))
    return posixpath.relpath(full, root) if full == root or full.startswith(root.rstrip("/") + "/") else full


def _sentence(path: str, error: OSError | ValueError) -> str:
    shown = (path if len(path) <= 200 else path[:200] + "...") or "(no path)"
    match error:
        case FileNotFoundError():
            return f"{shown}: there is no such file."
        case OSError() if error.strerror:
            return f"{shown}: {error.strerror}."
        case _:
            return str(error)
