"""The journal: the one file that is the truth of a run. JSON lines, append-only, one writer, mode 0600.

Each record is one `write` to a file opened for appending: what the operating system has taken survives a `kill -9` of
this process, and four killed writers of 200 KB lines left no torn line where Python's own buffering left one.
`fsync` is called when the journal is closed, not for every record: a power failure may cost the last seconds of a run
in progress, and never damages what was written before.
"""

import contextlib
import errno
import fcntl
import json
import os
import time
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tinyagent.core.errors import RecordError
from tinyagent.core.events import Record, record_to_json
from tinyagent.trajectory.reading import Contents, read_journal, whole_bytes
from tinyagent.trajectory.strict import strict_json

JOURNAL = "journal.jsonl"
LOCK = "journal.lock"
_TAIL_BYTES = 1 << 16
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_LOCK_TRIES = 4  # `is_locked` of a listing may hold the lock for a moment
_LOCK_PAUSE_S = 0.05


class Journal:
    """The open journal of a run folder. Owns the file and the folder's lock; use as a context manager or `close` it.

    `contents` is what was in it when it was opened, with notices of what was repaired; empty for a new one. `mark` is
    what the run's processes are told apart by, see `dead_mark`.
    """

    def __init__(self, fd: int, lock: "_Lock", contents: Contents) -> None:
        self.contents = contents
        self.path = contents.path
        self.mark = lock.mark
        self._fd = fd
        self._lock_fd = lock.fd
        self._torn = False

    @classmethod
    def create(cls, folder: Path) -> Self:
        """A new journal in a folder that is made if need be (mode 0700). Raises RecordError."""
        path = folder / JOURNAL
        with _sentence(path, "cannot be created"):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        lock = _lock(folder)
        try:
            with _sentence(path, "cannot be created"):
                fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except BaseException:
            os.close(lock.fd)
            raise
        return cls(fd, lock, Contents(path, notices=lock.notices))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The journal of an earlier run, to go on with. Raises RecordError, also if another process has it open.

        A torn last line is cut off, after its bytes were saved beside the journal.
        """
        path = folder / JOURNAL
        if not path.is_file():
            raise RecordError(f"{path} does not exist: there is no run in this folder")
        lock = _lock(folder)
        try:
            contents = read_journal(path)
            with _sentence(path, "cannot be opened for writing"):
                fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
                repairs = _repair_tail(fd, path)
        except BaseException:
            os.close(lock.fd)
            raise
        return cls(fd, lock, Contents(path, contents.records, (*contents.notices, *lock.notices, *repairs)))

    def append(self, record: Record) -> None:
        """Write one record. Raises RecordError if it cannot be written whole; the file then ends as it did before."""
        start = os.fstat(self._fd).st_size
        try:
            if self._torn:
                raise OSError(errno.EIO, "a record that was cut off could not be removed from its end")
            _write_whole(self._fd, line_of(record))
        except OSError as error:
            self._cut_back(start)
            raise RecordError(
                f"{self.path} cannot be written: {error.strerror or error}. "
                "All records before are safe; the run can be resumed once there is room."
            ) from error

    def close(self) -> None:
        """Put everything on the disk and give up the lock. Again: nothing happens."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # not every file system can sync; the records are written
            os.fsync(self._fd)
        os.close(self._fd)
        os.close(self._lock_fd)
        self._fd = self._lock_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _cut_back(self, start: int) -> None:
        try:
            os.ftruncate(self._fd, start)
        except OSError:
            self._torn = os.fstat(self._fd).st_size != start
        else:
            self._torn = False


def line_of(record: Record) -> bytes:
    """One line of the file. Lone surrogates are kept as escapes; numbers that JSON does not have become null."""
    data = record_to_json(record)
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        data = strict_json(data)
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode("ascii") + b"\n"


def is_locked(folder: Path) -> bool:
    """Whether a process is working on the run in this folder now."""
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


@contextlib.contextmanager
def dead_mark(folder: Path) -> Generator[str]:
    """The mark of the processes of a run that nobody works on, and nobody can while it is looked at; else "".

    It is made of the place of the lock's file on the disk, so that it needs no record: it is the same in every process
    that works on the run, another one for a fork or a copy of the folder (whose original may be at work), and unknown
    for a folder that came from elsewhere, whose processes are not here either. Without locks there is none: nobody can
    tell then whether the run is dead.
    """
    try:
        lock = _lock(folder)
    except RecordError:  # at work, or not ours to write
        yield ""
        return
    try:
        yield lock.mark
    finally:
        os.close(lock.fd)


@dataclass(frozen=True, slots=True)
class _Lock:
    """A descriptor that holds a folder's lock until it is closed, and what there is to say about it."""

    fd: int
    mark: str
    notices: tuple[str, ...] = ()


@contextlib.contextmanager
def _sentence(path: Path, what: str) -> Generator[None]:
    try:
        yield
    except FileExistsError as error:
        raise RecordError(f"{path} {what}: there is one already") from error
    except OSError as error:
        raise RecordError(f"{path} {what}: {error.strerror or error}") from error


def _lock(folder: Path) -> _Lock:
    """Take the folder's lock. Raises RecordError that names who has it."""
    with _sentence(folder / LOCK, "cannot be written"):
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            notices = _take_lock(fd, folder)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(fd)
            raise
    return _Lock(fd, "" if notices else _mark(fd, folder.name), notices)


def _mark(fd: int, name: str) -> str:
    """Device, file and name: the number of a deleted file may be given to another run's."""
    file = os.fstat(fd)
    return f"{file.st_dev:x}-{file.st_ino:x}-{zlib.crc32(os.fsencode(name)):08x}"


def _take_lock(fd: int, folder: Path) -> tuple[str, ...]:
    for tries_left in reversed(range(_LOCK_TRIES)):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if not tries_left:
                raise RecordError(_in_use(fd, folder)) from error
            time.sleep(_LOCK_PAUSE_S)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return (f"{folder} is on a file system without locks: do not work on this run from two processes",)
        else:
            break
    return ()


def _in_use(fd: int, folder: Path) -> str:
    pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    who = f"process {pid}" if pid.isdigit() else "another process"
    return (
        f"{who} is working on the run in {folder}: wait until it has ended, stop it, or go on in a copy (--fork). "
        "Two processes never write one journal."
    )


def _repair_tail(fd: int, path: Path) -> tuple[str, ...]:
    """Make the file end with a whole line; torn bytes are saved in a file of their own first."""
    size = os.fstat(fd).st_size
    tail = _tail(fd, size)
    torn = tail[whole_bytes(tail) :]
    if torn:
        saved = path.with_name(f"{path.name}.torn-{size - len(torn)}")
        with os.fdopen(os.open(saved, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(torn)
        os.ftruncate(fd, size - len(torn))
        return (f"{path.name}: a record that was cut off at the end ({len(torn):,} bytes) was moved to {saved.name}",)
    if tail and not tail.endswith(b"\n"):
        _write_whole(fd, b"\n")
    return ()


def _tail(fd: int, size: int) -> bytes:
    """The end of the file from a line's start on, or from before it."""
    length = _TAIL_BYTES
    while True:
        start = max(0, size - length)
        tail = os.pread(fd, size - start, start)
        if start == 0 or b"\n" in tail:
            return tail
        length *= 4


def _write_whole(fd: int, data: bytes) -> None:
    """One write; the loop is for the short ones of a disk that is filling up. Raises OSError."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])
