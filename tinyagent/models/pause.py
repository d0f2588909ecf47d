"""One pause for many runs: what one of them is told to wait, all of them wait, and none has to ask to learn it.

The moment is kept as the time stamp of a file, which is read in microseconds and changed in one call.
"""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tinyagent.core.errors import ModelError
from tinyagent.core.types import Json, Model, Request, Response

PAUSE_VARIABLE = "TINYAGENT_PAUSE"  # names the file; set by a batch for its runs
WITHOUT_HINT_S = 1.0
LONGEST_S = 120.0
_SPREAD_S = 1.0  # so that those who waited do not all come back in the same moment
_SHARED_KINDS = ("rate", "overloaded")


class SharedPause:
    """A moment before which nobody asks; it only moves later. A file that is missing is no pause."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock

    def left_s(self) -> float:
        """Seconds until it is over, 0 if it is."""
        try:
            return min(LONGEST_S, max(0.0, self._path.stat().st_mtime - self._clock()))
        except OSError:
            return 0.0

    def extend(self, seconds: float) -> None:
        """Nobody asks for so many seconds from now."""
        if seconds <= self.left_s():
            return
        until = self._clock() + min(seconds, LONGEST_S)
        with suppress(OSError):  # the batch's folder is gone or full: each run then waits for itself
            self._path.touch()
            os.utime(self._path, (until, until))


class MirroredPause:
    """Keeps a pause in step with one that is kept where no file reaches. Only seconds left travel, as clocks differ.

    What was heard is not told again: with each round it would grow by the time that it travelled.
    """

    def __init__(self, pause: SharedPause, *, clock: Callable[[], float] = time.time) -> None:
        self._pause = pause
        self._clock = clock
        self._heard_until = 0.0

    def news_s(self) -> float:
        """Seconds left of a pause that began here; 0 if there is none, or none that goes beyond what was heard."""
        now, left = self._clock(), self._pause.left_s()
        return left if now + left > self._heard_until else 0.0

    def hear(self, left_s: float) -> None:
        """The other pause, in answer to the news: no shorter than what it was told."""
        self._pause.extend(left_s)
        self._heard_until = self._clock() + left_s  # taken after it was written, so that what was written is no news


class PausingModel:
    """A model that keeps to a shared pause, and starts one when the provider says that it is asked too much."""

    def __init__(
        self,
        model: Model,
        pause: SharedPause,
        *,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._pause = pause
        self._sleep = sleep
        self._chance = chance

    @property
    def name(self) -> str:
        return self._model.name

    def options(self) -> Json:
        return self._model.options()

    def adjust(self, parameter: str) -> bool:
        return self._model.adjust(parameter)

    def complete(
        self, request: Request, *, on_text: Callable[[str], None] | None = None, timeout_s: float | None = None
    ) -> Response:
        """Wait for the pause, then ask. Raises ModelError of kind "rate" if the pause is longer than there is time."""
        waited = 0.0
        while left := self._pause.left_s():
            wait = left + _SPREAD_S * self._chance()
            if timeout_s is not None and waited + wait >= timeout_s:
                raise ModelError(f"all runs of this batch wait {left:,.0f} s for the provider", kind="rate")
            self._sleep(wait)
            waited += wait
        try:
            return self._model.complete(
                request, on_text=on_text, timeout_s=None if timeout_s is None else timeout_s - waited
            )
        except ModelError as error:
            if error.kind in _SHARED_KINDS:
                self._pause.extend(WITHOUT_HINT_S if error.retry_after_s is None else error.retry_after_s)
            raise
