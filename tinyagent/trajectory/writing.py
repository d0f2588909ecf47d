"""Files that are there as a whole or not at all."""

import contextlib
import os
from pathlib import Path

from tinyagent.core.errors import RecordError

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC


def write_file(path: Path, data: bytes) -> None:
    """Put the data in place of the file, mode 0600, by a temporary file beside it and a rename.

    A link is followed; a device or pipe is written to as it is. Folders above it are made. Raises RecordError with the
    reason; the old file is then as it was.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            _write_special(target, data)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, data)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, until Python 3.12
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"{path} cannot be written: {reason}") from error


def _replace(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # left by a killed process with the same number
    try:
        fd = os.open(temporary, _NEW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _write_special(target: Path, data: bytes) -> None:
    with target.open("wb") as file:
        file.write(data)
