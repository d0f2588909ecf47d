"""Time limits of an answer that is being read."""

import math
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `first_byte_s` is long because a local server may read a long prompt for minutes."""

    connect_s: float = 10.0
    first_byte_s: float = 600.0
    idle_s: float = 120.0


class Watchdog:
    """Hangs up on servers that stay silent too long, from one thread for all rounds of a transport.

    A read timeout of the HTTP library is one fixed figure; this needs a long one before the first byte, a short one
    after it, and one for the whole round.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        # Python's own lock in each `with`: the methods of a condition can be interrupted with the lock taken.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._watched: list[Watch] = []
        self._thread: threading.Thread | None = None
        self._looks_at = math.inf

    @contextmanager
    def watch(self, hang_up: Callable[[], None], *, ends_at: float | None) -> "Generator[Watch]":
        """Watch a round, which ends at the latest at `ends_at` (monotonic)."""
        watch = Watch(self, hang_up, self._timeouts, math.inf if ends_at is None else ends_at)
        with self._lock:
            self._watched.append(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tinyagent-watch", daemon=True)
                self._thread.start()
            self._look_by(watch.due)
        try:
            yield watch
        finally:
            with self._lock:
                self._watched.remove(watch)

    def move(self, watch: "Watch", deadline: float) -> None:
        """Give a round another deadline."""
        with self._lock:
            watch.deadline = deadline
            self._look_by(deadline)

    def close(self) -> None:
        """End the thread. Another round starts another one."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._changed.notify()
        if thread is not None:
            thread.join()

    def _look_by(self, moment: float) -> None:
        """Have the thread look by then. It is not woken to look later than it was going to."""
        if moment < self._looks_at:
            self._changed.notify()

    def _run(self) -> None:
        own = threading.current_thread()
        with self._lock:
            while self._thread is own:
                now = time.monotonic()
                for watch in self._watched:
                    watch.look(now)
                self._looks_at = min((watch.due for watch in self._watched if not watch.expired), default=math.inf)
                self._changed.wait(None if self._looks_at == math.inf else max(0.0, self._looks_at - now))


class Watch:
    """The time limits of one round. `expired` is a sentence, once the server was hung up on."""

    def __init__(self, dog: Watchdog, hang_up: Callable[[], None], timeouts: Timeouts, ends_at: float) -> None:
        self.expired = ""
        self._dog = dog
        self._hang_up = hang_up
        self._idle_s = timeouts.idle_s
        self._ends_at = ends_at
        self.deadline = time.monotonic() + timeouts.first_byte_s
        self._words = f"no answer within {timeouts.first_byte_s:g} s"

    @property
    def due(self) -> float:
        return min(self.deadline, self._ends_at)

    def touch(self) -> None:
        """Something arrived."""
        self._words = f"the server was silent for {self._idle_s:g} s"
        self.hurry(self._idle_s)

    def hurry(self, seconds: float) -> None:
        """Something must arrive within so many seconds."""
        self._dog.move(self, time.monotonic() + seconds)

    def look(self, now: float) -> None:
        """Hang up if it is time."""
        if self.expired or now < self.due:
            return
        self.expired = self._words if self.deadline < self._ends_at else "the time limit of the request was reached"
        self._hang_up()


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
