"""One request out, its outcome on record: what it used is charged before anything is interpreted."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tinyagent.core.codec import encode
from tinyagent.core.errors import EndRun, ModelError
from tinyagent.core.events import ModelCalled, Purpose
from tinyagent.core.limits import Limits, allow_request, remaining_s
from tinyagent.core.pricing import Prices, cost
from tinyagent.core.state import Run
from tinyagent.core.tokens import believable, fixed_tokens, message_tokens
from tinyagent.core.types import Json, Model, Request, Response, Usage
from tinyagent.models.overflow import looks_truncated

# A figure far below the estimate is believed to be a cut prompt this often in a run; after that it is the server's
# way of counting.
_TRUNCATIONS_BELIEVED = 2
_FULL = 0.8  # an empty answer above this share of the window is an overflow that the server did not report


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model with what it costs. `prices` None: unknown."""

    model: Model
    prices: Prices | None


class Sender:
    """Sends the requests of one run within its limits."""

    def __init__(
        self,
        run: Run,
        limits: Limits,
        *,
        on_text: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._limits = limits
        self._on_text = on_text
        self._clock = clock
        self._started = clock()
        self._truncations = 0
        self._current: tuple[Purpose, Endpoint, Request, int] | None = None

    def remaining_s(self) -> float | None:
        """Seconds left of the time limit; None without one. Raises EndRun when none is left."""
        left = remaining_s(self._limits, self._clock() - self._started)
        if left is not None and left <= 0:
            raise EndRun("time_limit", f"time limit of {self._limits.time_s:g} s reached")
        return left

    def step(self, endpoint: Endpoint, request: Request) -> Response:
        """The reply to the next step. Raises ModelError; a reply to a prompt that was cut in silence is an overflow."""
        state = self._run.state
        return self._send("step", endpoint, request, state.estimate, timeout_s=self.remaining_s())

    def summary(self, endpoint: Endpoint, request: Request, seconds: float) -> Response:
        """The reply to a summary request. Raises ModelError."""
        left = self.remaining_s()
        estimate = round(self._run.state.meter.whole * _raw_size(request))
        return self._send("summary", endpoint, request, estimate, timeout_s=min(seconds, left or seconds))

    def round_failed(self, error: ModelError) -> None:
        """Book a failed round that will be repeated. Raises EndRun if the repetition could pass the cost limit."""
        if self._current is None:
            return
        purpose, endpoint, request, estimate = self._current
        self._record_failure(error, purpose, endpoint, request, estimate)
        state = self._run.state
        allowed = allow_request(
            self._limits,
            state.spend,
            endpoint.prices,
            input_tokens=self._bound(purpose, request),
            max_output_tokens=request.max_output_tokens or 0,
            is_step=False,
        )
        if allowed.stop or (allowed.max_output_tokens or 0) < (request.max_output_tokens or 0):
            raise EndRun(
                "cost_limit", allowed.why or f"cost limit of ${self._limits.cost_usd:g}: no retry is affordable"
            )

    def _bound(self, purpose: Purpose, request: Request) -> int:
        state = self._run.state
        return state.meter.upper_bound(state.raw_total) if purpose == "step" else 2 * _raw_size(request)

    def _send(
        self, purpose: Purpose, endpoint: Endpoint, request: Request, estimate: int, *, timeout_s: float | None
    ) -> Response:
        on_text = self._on_text if purpose == "step" else None
        self._current = (purpose, endpoint, request, estimate)
        try:
            response = endpoint.model.complete(request, on_text=on_text, timeout_s=timeout_s)
        except ModelError as error:
            self._record_failure(error, purpose, endpoint, request, estimate)
            self.remaining_s()
            raise
        except BaseException as error:  # Ctrl-C or a signal: the request is out, so it may be billed
            if not isinstance(error, Exception):
                cut = ModelError("interrupted", kind="network", billed=True)
                self._record_failure(cut, purpose, endpoint, request, estimate)
            raise
        finally:
            self._current = None
        return self._record_success(response, purpose, endpoint, request, estimate)

    def _record_success(
        self, response: Response, purpose: Purpose, endpoint: Endpoint, request: Request, estimate: int
    ) -> Response:
        usage, reported = response.usage, response.usage is not None and response.usage.input_tokens > 0
        if usage is None or not reported:
            output = max(usage.output_tokens if usage else 0, message_tokens(response.message))
            usage = Usage(estimate, output)
        doubt = self._doubt(response, estimate) if purpose == "step" else None
        believed = reported and doubt is None and self._believable(usage, estimate)
        reply_tokens = usage.output_tokens if response.reply_tokens is None else response.reply_tokens
        self._run.emit(
            ModelCalled(
                purpose=purpose,
                step=self._run.state.step,
                digest=response.digest,
                estimate=estimate,
                max_output_tokens=request.max_output_tokens,
                usage=usage,
                estimated=not reported,
                context_tokens=usage.input_tokens + reply_tokens if believed and purpose == "step" else None,
                cost_usd=response.cost_usd if response.cost_usd is not None else cost(usage, endpoint.prices),
                duration_s=round(response.duration_s, 3),
                model=response.model,
                request_id=response.request_id,
                attempts=response.attempts,
                error=f"{doubt.kind}: {doubt}" if doubt else "",
                options=self._changed_options(purpose, endpoint),
                request=_own_request(request) if purpose == "summary" else None,
            )
        )
        if doubt:
            raise doubt
        return response

    def _record_failure(
        self, error: ModelError, purpose: Purpose, endpoint: Endpoint, request: Request, estimate: int
    ) -> None:
        usage = error.usage or (Usage(estimate) if error.billed else None)
        self._run.emit(
            ModelCalled(
                purpose=purpose,
                step=self._run.state.step,
                digest=error.digest,
                estimate=estimate,
                max_output_tokens=request.max_output_tokens,
                usage=usage,
                estimated=usage is not None and error.usage is None,
                cost_usd=0.0 if usage is None else cost(usage, endpoint.prices),
                attempts=error.attempts,
                error=f"{error.kind}: {error}",
                options=self._changed_options(purpose, endpoint),
                request=_own_request(request) if purpose == "summary" else None,
            )
        )

    def _doubt(self, response: Response, estimate: int) -> ModelError | None:
        """An overflow that the server kept to itself, if the reply shows one."""
        window = self._run.state.window.tokens
        message = response.message
        empty = not message.text.strip() and not message.tool_calls
        if window is not None and empty and estimate >= _FULL * window:
            words = f"the answer is empty at ~{estimate:,} of {window:,} tokens: taken for an overflow"
            return ModelError(words, kind="overflow", digest=response.digest)
        usage = response.usage
        if usage is None or self._truncations >= _TRUNCATIONS_BELIEVED:
            return None
        if not looks_truncated(usage.input_tokens, estimate, window, output_tokens=usage.output_tokens):
            return None
        self._truncations += 1
        words = (
            f"the server reports {usage.input_tokens:,} tokens for a prompt of ~{estimate:,}: it seems to cut prompts "
            "in silence; raise its context size or set context_window to what it really serves"
        )
        return ModelError(words, kind="overflow", window=_served_window(usage.input_tokens), digest=response.digest)

    def _believable(self, usage: Usage, estimate: int) -> bool:
        return believable(usage.input_tokens, estimate=estimate, previous=self._run.state.meter.anchor)

    def _changed_options(self, purpose: Purpose, endpoint: Endpoint) -> Json | None:
        options = endpoint.model.options()
        return options if purpose == "summary" or options != self._run.state.setup.options else None


def _served_window(reported: int) -> int:
    """The window of a server that cut a prompt to `reported` tokens. Ollama keeps half of it and two tokens more
    (ollama#3839); others fill it."""
    doubled = 2 * (reported - 2)
    return doubled if doubled % 256 == 0 else reported


def _raw_size(request: Request) -> int:
    return fixed_tokens(request.system, request.tools) + sum(message_tokens(m) for m in request.messages)


def _own_request(request: Request) -> Json:
    """What no view shows: the messages of a summary request, and whether it carried the run's tools."""
    return {"system": request.system, "messages": encode(request.messages), "tools": bool(request.tools)}
