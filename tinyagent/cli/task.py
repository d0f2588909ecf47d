"""Where the task comes from: the command line, a file, or stdin."""

import os
import stat
from pathlib import Path

from tinyagent.config import UsageError

MOST_BYTES = 16 * 1024 * 1024
STDIN = 0
HOW = 'give a task, such as: tinyagent "fix the failing test" (tinyagent --help tells more, tinyagent demo shows a run)'


def read_task(task: str | None, file: str | None, *, may_be_none: bool) -> str | None:
    """The task's text; None only where a run is resumed without one. Raises UsageError.

    Without TASK and file, stdin is read if it is a file or a pipe. With one it is left alone, since the pipe may have
    been inherited and stay open for ever (pi #5571, codex #27019).
    """
    if task is not None and file is not None:
        raise UsageError("give the task as TASK or with --file, not both")
    if task == "-" or file == "-":
        return _checked(_decoded(_read(STDIN, "stdin"), "stdin"), "stdin")
    if task is not None:
        return _checked(task, "the task")
    if file is not None:
        return _checked(_decoded(_read_file(Path(file)), file), file)
    if may_be_none:
        return None
    if not _is_file_or_pipe(STDIN):
        raise UsageError(HOW)
    text = _decoded(_read(STDIN, "stdin"), "stdin")
    if not text.strip():
        raise UsageError(f"stdin is empty; {HOW}")
    return text


def _checked(text: str, name: str) -> str:
    if not text.strip():
        raise UsageError(f"{name} is empty; {HOW}" if name != "the task" else f"the task is empty; {HOW}")
    return text


def _read_file(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"--file: {path} cannot be read: {error.strerror}") from error
    try:
        if not _is_file_or_pipe(descriptor):
            raise UsageError(f"--file: {path} is neither a file nor a pipe")
        return _read(descriptor, str(path))
    finally:
        os.close(descriptor)


def _read(descriptor: int, name: str) -> bytes:
    """All bytes of a file, pipe or terminal."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise UsageError(f"{name} is larger than {MOST_BYTES:,} bytes, too large for a task")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    return b"".join(parts)


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}, line {line}: the task is not UTF-8 (byte {error.start})") from error


def _is_file_or_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
