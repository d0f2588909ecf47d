"""How workers on other machines and the driver hear of each other while tries run. Knows nothing of Ray.

Nobody waits for an answer: where the exchange or a node is dead, a sign of life is missing and nothing else.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from tinyagent.batch.progress import Progress


@dataclass(frozen=True, slots=True)
class Report:
    """What the driver hears: how far the tries are, by their marks, and the seconds that are left of the pause."""

    progress: Mapping[str, Progress]
    pause_s: float


class Exchange:
    """Where workers and driver meet: an actor. What is lost with it, workers tell again to the one that follows it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._progress: dict[str, Progress] = {}
        self._paused_until = 0.0

    def tell(self, mark: str, progress: Progress, pause_s: float) -> float:
        """A worker's report, with a pause that began there; returns what is left of the pause of all, in seconds."""
        self._progress[mark] = progress
        self._paused_until = max(self._paused_until, self._clock() + pause_s)
        return self._left_s()

    def report(self, marks: frozenset[str]) -> Report:
        """For the driver: the tries that run; all others are forgotten."""
        self._progress = {mark: progress for mark, progress in self._progress.items() if mark in marks}
        return Report(self._progress, self._left_s())

    def _left_s(self) -> float:
        return max(0.0, self._paused_until - self._clock())


class Line:
    """Calls one method of an actor, at most once at a time, and never waits; `hear` gets the answers.

    It is called in a thread of Ray's. A call that fails has no answer.
    """

    def __init__(self, method: Any, hear: Callable[[Any], None]) -> None:
        self._method = method
        self._hear = hear
        self._call: Future[Any] | None = None

    def call(self, *arguments: object) -> None:
        if self._call is None or self._call.done():
            with suppress(Exception):  # Ray's many
                self._call = call = cast("Future[Any]", self._method.remote(*arguments).future())
                call.add_done_callback(self._answered)

    def _answered(self, call: Future[Any]) -> None:
        with suppress(Exception):
            self._hear(call.result())
