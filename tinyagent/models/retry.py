"""A model that wraps a model and repeats rounds that failed for a passing reason."""

import random
import time
from collections.abc import Callable
from dataclasses import replace

from tinyagent.core.errors import RECOVERY, ModelError
from tinyagent.core.types import Json, Model, Request, Response

WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
LONGEST_HINT_S = 120.0  # a server that asks for more is not waited for
MALFORMED_TRIES = 2  # an answer that is no answer is billed each time and rarely heals

OnWait = Callable[[ModelError, float, int], None]
OnFailed = Callable[[ModelError], None]
IsPassing = Callable[[ModelError], bool]


class RetryingModel:
    """Waits and repeats; everything else passes through.

    `on_failed` gets every failed round that is followed by another one, so that its usage is booked; the last error is
    raised. `on_wait` gets the error, the seconds to wait and the number of the attempt that failed: text streamed in
    that attempt is void and comes again. `is_passing` is asked whether an error may pass whose kind does not say so.
    Ctrl-C ends a wait.
    """

    def __init__(
        self,
        model: Model,
        *,
        tries: int = 6,
        on_wait: OnWait | None = None,
        on_failed: OnFailed | None = None,
        is_passing: IsPassing = lambda error: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._tries = tries
        self._on_wait = on_wait
        self._on_failed = on_failed
        self._is_passing = is_passing
        self._clock = clock
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
        ends_at = None if timeout_s is None else self._clock() + timeout_s
        attempt = malformed = 0
        while True:
            attempt += 1
            remaining = None if ends_at is None else max(0.0, ends_at - self._clock())
            try:
                response = self._model.complete(request, on_text=on_text, timeout_s=remaining)
                return replace(response, attempts=attempt)
            except ModelError as error:
                error.attempts = attempt
                malformed += error.kind == "malformed"
                passes = RECOVERY[error.kind] == "retry" or self._is_passing(error)
                if not passes or attempt >= self._tries or malformed >= MALFORMED_TRIES:
                    raise
                self._wait(error, attempt, ends_at)

    def _wait(self, error: ModelError, attempt: int, ends_at: float | None) -> None:
        """Wait before the next attempt. Raises the error where the wait would be too long."""
        seconds = self._seconds(error, attempt)
        if (error.retry_after_s or 0.0) > LONGEST_HINT_S:
            raise _with_words(error, f"the server asks to wait {seconds:,.0f} s, which is too long")
        if ends_at is not None and self._clock() + seconds >= ends_at:
            raise _with_words(error, f"no time is left to wait {seconds:,.0f} s and try again")
        if self._on_failed is not None:
            self._on_failed(error)
        if self._on_wait is not None:
            self._on_wait(error, seconds, attempt)
        self._sleep(seconds)

    def _seconds(self, error: ModelError, attempt: int) -> float:
        """The server's own figure, never shortened, or a growing one; with jitter, so that workers do not march."""
        if error.retry_after_s is not None:
            return max(error.retry_after_s, 0.1) * (1 + 0.1 * self._chance())
        return WAITS_S[min(attempt, len(WAITS_S)) - 1] * (0.75 + 0.5 * self._chance())


def _with_words(error: ModelError, words: str) -> ModelError:
    error.args = (f"{error}; {words}",)
    return error
