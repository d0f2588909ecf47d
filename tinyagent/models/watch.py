"""Time limits of an answer that is being read."""

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `first_byte_s` is long because a local server may read a long prompt for minutes."""

    connect_s: float = 10.0
    first_byte_s: float = 600.0
    idle_s: float = 120.0


class Watch:
    """Hangs up on a server that stays silent too long, from a thread of its own.

    A read timeout of the HTTP library is one fixed figure; this needs a long one before the first byte, a short one
    after it, and one for the whole round.
    """

    def __init__(self, hang_up: Callable[[], None], timeouts: Timeouts, *, ends_at: float | None) -> None:
        self.expired = ""  # a sentence, once it has hung up
        self._hang_up = hang_up
        self._timeouts = timeouts
        self._ends_at = ends_at
        self._deadline = time.monotonic() + timeouts.first_byte_s
        self._words = f"no answer within {timeouts.first_byte_s:g} s"
        self._wake = threading.Event()
        self._stopped = False
        threading.Thread(target=self._run, name="tinyagent-watch", daemon=True).start()

    def touch(self) -> None:
        """Something arrived."""
        self._words = f"the server was silent for {self._timeouts.idle_s:g} s"
        self._move(time.monotonic() + self._timeouts.idle_s)

    def hurry(self, seconds: float) -> None:
        self._move(time.monotonic() + seconds)

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def _move(self, deadline: float) -> None:
        is_earlier = deadline < self._deadline
        self._deadline = deadline
        if is_earlier:
            self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            now = time.monotonic()
            if self._ends_at is not None and now >= self._ends_at:
                self.expired = "the time limit of the request was reached"
            elif now >= self._deadline:
                self.expired = self._words
            if self.expired:
                self._hang_up()
                return
            ends = self._deadline if self._ends_at is None else min(self._deadline, self._ends_at)
            self._wake.wait(ends - now)


class NetworkStream(Protocol):
    """What httpx puts into a response's extensions."""

    def get_extra_info(self, info: str) -> object: ...


def hang_up(stream: NetworkStream | None) -> None:
    """Shut the socket of a response down."""
    raw = stream.get_extra_info("socket") if stream is not None else None
    if not isinstance(raw, socket.socket):
        return
    try:
        # The plain socket's own method: that of a TLS socket would drop the state that the reader is using.
        socket.socket.shutdown(raw, socket.SHUT_RDWR)
    except OSError:
        return  # already closed
