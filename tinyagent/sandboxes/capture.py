"""Keeps the output of a command: what fits in memory, else its head and tail there and all of it in a file."""

import os
from pathlib import Path
from typing import Self

SPOOL_CAP_BYTES = 256 * 1024 * 1024
_MARKER_ROOM = 80  # bytes set aside for the sentence that stands where the middle was cut out


class Capture:
    """A byte stream of any length in bounded memory: at most twice `max_bytes`, whatever arrives.

    The spool file is made once there is more than that: it gets every byte up to `spool_cap`; beyond it a note and the
    last bytes. A spool that cannot be written (a full disk) costs the file, never the command: the text then says so.
    """

    def __init__(self, max_bytes: int, *, spool: Path | None, spool_cap: int = SPOOL_CAP_BYTES) -> None:
        self.total = 0
        self._max = max_bytes
        self._head_max = max_bytes // 2
        self._tail_max = max_bytes - self._head_max
        self._head = bytearray()
        self._tail = bytearray()
        self._spool_path = spool
        self._spool_fd: int | None = None
        self._spool_cap = spool_cap
        self._spooled = 0
        self._spool_problem = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._end_spool()

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self.total <= self._max < self.total + len(chunk):
            self._begin_spool(bytes(self._head + self._tail))
        self.total += len(chunk)
        if self._spool_fd is not None and self._spooled < self._spool_cap:
            self._spool(self._spool_fd, chunk[: self._spool_cap - self._spooled])
        room = self._head_max - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_max:  # trimmed rarely, so a byte is moved about once
            del self._tail[: len(self._tail) - self._tail_max]

    def text(self) -> str:
        """What is kept, decoded, with the count of missing bytes where the middle was cut out."""
        text = self._kept_text()
        if self._spool_problem:
            text += f"\n[the full output could not be written to a file: {self._spool_problem}]\n"
        return text

    def _kept_text(self) -> str:
        if self.total <= self._max:
            return _decoded(bytes(self._head + self._tail))
        room = max(0, self._max - _MARKER_ROOM)
        head = _without_torn_end(bytes(self._head[: room - room // 2]))
        tail = _without_torn_start(bytes(self._tail[len(self._tail) - room // 2 :]))
        missing = self.total - len(head) - len(tail)
        return f"{_decoded(head)}\n[... {missing} of {self.total} bytes left out ...]\n{_decoded(tail)}"

    def _begin_spool(self, data: bytes) -> None:
        """Make the file, with all that came so far."""
        if self._spool_path is None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._spool_fd = os.open(self._spool_path, flags, 0o600)
        except OSError as error:
            self._spool_problem = str(error)
            return
        self._spool(self._spool_fd, data[: self._spool_cap])

    def _spool(self, fd: int, data: bytes) -> None:
        self._spooled += len(data)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError as error:
            self._spool_problem = str(error)
            self._spool_fd = None
            os.close(fd)

    def _end_spool(self) -> None:
        fd = self._spool_fd
        if fd is None:
            return
        unspooled = self.total - self._spooled
        if unspooled > 0:
            tail = bytes(self._tail[-min(unspooled, self._tail_max) :]) if self._tail_max else b""
            missing = unspooled - len(tail)
            note = f"\n[... {missing} of {self.total} bytes left out ...]\n".encode() if missing else b""
            self._spool(fd, note + tail)
        if self._spool_fd is not None:
            self._spool_fd = None
            os.close(fd)


def _decoded(data: bytes) -> str:
    """Text with U+FFFD for what is not UTF-8 and for NUL, which some servers refuse in JSON."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def _without_torn_end(data: bytes) -> bytes:
    """The bytes without an unfinished UTF-8 sequence at their end."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
        if byte < 0x80:
            return data
    return data


def _without_torn_start(data: bytes) -> bytes:
    """The bytes without the rest of a UTF-8 sequence at their start."""
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]
