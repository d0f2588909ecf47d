"""Reads and writes single files of the host so that no link, device or race leads elsewhere.

A path is resolved when it is used, judged, and then opened folder by folder without following links, so that a link
planted between the judgement and the opening makes the call fail (CVE-2026-39861).
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tinyagent.security.paths import inside, real

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # opening a FIFO must not wait for its writer


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """The bytes of a regular file. Raises OSError; ValueError if it is something else or larger than `max_bytes`."""
    target = real(path)
    with _folder(target.parent, create=False) as parent:
        fd = os.open(target.name, os.O_RDONLY | _FILE, dir_fd=parent)
    with os.fdopen(fd, "rb") as file:
        size = _regular_size(file.fileno(), path)
        if size > max_bytes:
            raise ValueError(f"{path} has {size:,} bytes, more than the {max_bytes:,} that can be read at once")
        data = file.read(max_bytes + 1)  # files of /proc say 0 bytes and give more
    if len(data) > max_bytes:
        raise ValueError(f"{path} has more than the {max_bytes:,} bytes that can be read at once")
    return data


def write_regular(path: Path, data: bytes, *, root: Path) -> None:
    """Replace or create a regular file inside `root` by renaming a finished one into place.

    Keeps mode and owner of a file that was there. A link to a place inside `root` is followed, others are refused.
    Raises OSError; ValueError if the place is outside or not a regular file.
    """
    target = real(path)
    if not inside(root, target):
        raise ValueError(f"{path} is outside the workspace {root}: files are written only inside it")
    with _folder(target.parent, create=True) as parent:
        old = _replaceable(target.name, parent, path)
        temporary = f".{target.name[:100]}.{secrets.token_hex(4)}.tmp"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=parent)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if old is not None:
                    _copy_owner_and_mode(file.fileno(), old)
            os.rename(temporary, target.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)
            raise


@contextmanager
def _folder(path: Path, *, create: bool) -> Generator[int]:
    """A descriptor of an absolute folder, opened part by part; a link on the way is an OSError."""
    fd = os.open(path.anchor, _DIRECTORY)
    try:
        for part in path.parts[1:]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=fd)
            below = os.open(part, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _regular_size(fd: int, path: Path) -> int:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        raise ValueError(f"{path} is {_kind(info.st_mode)}, not a regular file")
    return info.st_size


def _replaceable(name: str, parent: int, path: Path) -> os.stat_result | None:
    """What is there now; None if nothing is."""
    try:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(info.st_mode):
        raise ValueError(f"{path} is {_kind(info.st_mode)}, not a regular file")
    if not os.access(name, os.W_OK, dir_fd=parent):
        raise PermissionError(f"{path} is read-only")
    return info


def _copy_owner_and_mode(fd: int, old: os.stat_result) -> None:
    with suppress(PermissionError):  # only root can give a file away; others own what they may replace, or lose nothing
        os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
