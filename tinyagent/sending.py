"""One request out, its outcome on record: what it used is charged before anything is interpreted."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tinyagent.core.codec import encode
from tinyagent.core.errors import EndRun, ModelError
from tinyagent.core.events import ModelCalled, Notice, Purpose
from tinyagent.core.limits import Limits, allow_request, remaining_s
from tinyagent.core.meter import Cut, silent_cut
from tinyagent.core.pricing import Prices, cost
from tinyagent.core.state import Run
from tinyagent.core.tokens import estimate_text, fixed_tokens, message_tokens
from tinyagent.core.types import AssistantMessage, Json, Model, Request, Response, Usage

# What looks like a cut prompt is believed to be one this often in a run; after that it is the server's way of counting.
_CUTS_BELIEVED = 2
_COUNTS_DIFFER = 1.5  # a server's count of a prompt in an error, to its counts in usage: another tokenizer at most
_FULL = 0.8  # an empty answer above this share of the window is an overflow that the server did not report


@dataclass(frozen=True, slots=True)
class PricedModel:
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
        redact: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._limits = limits
        self._on_text = on_text
        self._redact = redact
        self._clock = clock
        self._started: float | None = None  # looking up the model beforehand is no work on the run
        self._heard: list[str] = []  # text of the round in progress
        self._cuts = 0
        self._reports: set[int] = set()  # prompt sizes that were believed
        self._stuck_at: int | None = None  # the last report that looked like a filled window
        self._current: tuple[Purpose, PricedModel, Request, int] | None = None

    def remaining_s(self) -> float | None:
        """Seconds left of the time limit, which runs from the first call on; None without one. Raises EndRun at 0."""
        now = self._clock()
        self._started = now if self._started is None else self._started
        left = remaining_s(self._limits, now - self._started)
        if left is not None and left <= 0:
            raise EndRun("time_limit", f"time limit of {self._limits.time_s:g} s reached")
        return left

    def step(self, priced: PricedModel, request: Request) -> Response:
        """The reply to the next step. Raises ModelError; a reply to a prompt that was cut in silence is an overflow."""
        state = self._run.state
        return self._send("step", priced, request, state.estimate, timeout_s=self.remaining_s())

    def summary(self, priced: PricedModel, request: Request, seconds: float) -> Response:
        """The reply to a summary request. Raises ModelError."""
        left = self.remaining_s()
        estimate = round(self._run.state.meter.whole * _raw_size(request))
        return self._send("summary", priced, request, estimate, timeout_s=min(seconds, left or seconds))

    def is_passing(self, error: ModelError) -> bool:
        """Whether a step that was refused as too long may be answered later, as it stands."""
        from tinyagent.models.overflow import is_full_of_others  # not needed before the first error

        state = self._run.state
        is_step = self._current is not None and self._current[0] == "step"
        return is_step and is_full_of_others(error, state.estimate, state.window)

    def round_failed(self, error: ModelError) -> None:
        """Book a failed round that will be repeated. Raises EndRun if the repetition could pass the cost limit."""
        if self._current is None:
            return
        purpose, priced, request, estimate = self._current
        self._record_failure(error, purpose, priced, request, estimate)
        self._heard.clear()
        state = self._run.state
        allowed = allow_request(
            self._limits,
            state.spend,
            priced.prices,
            input_tokens=self._bound(purpose, request),
            max_output_tokens=request.max_output_tokens or 0,
            is_step=False,
        )
        if allowed.stop or (allowed.max_output_tokens or 0) < (request.max_output_tokens or 0):
            raise EndRun(
                "cost_limit", allowed.why or f"cost limit of ${self._limits.cost_usd:g}: no retry is affordable"
            )

    def _hear(self, delta: str) -> None:
        self._heard.append(delta)
        self._on_text(delta)

    def _bound(self, purpose: Purpose, request: Request) -> int:
        state = self._run.state
        return state.meter.upper_bound(state.raw_total) if purpose == "step" else 2 * _raw_size(request)

    def _send(
        self, purpose: Purpose, priced: PricedModel, request: Request, estimate: int, *, timeout_s: float | None
    ) -> Response:
        on_text = self._hear if purpose == "step" else None
        self._heard.clear()
        self._current = (purpose, priced, request, estimate)
        try:
            response = priced.model.complete(request, on_text=on_text, timeout_s=timeout_s)
        except ModelError as error:
            self._record_failure(error, purpose, priced, request, estimate)
            self.remaining_s()
            raise
        except BaseException as error:  # Ctrl-C or a signal: the request is out, so it may be billed
            if not isinstance(error, Exception):
                made = Usage(output_tokens=estimate_text("".join(self._heard)))
                cut = ModelError("interrupted", kind="network", billed=True, usage=made)
                self._record_failure(cut, purpose, priced, request, estimate)
            raise
        finally:
            self._current = None
        return self._record_success(response, purpose, priced, request, estimate)

    def _record_success(
        self, response: Response, purpose: Purpose, priced: PricedModel, request: Request, estimate: int
    ) -> Response:
        reported = response.usage if self._is_reported(response.usage) else None
        usage = reported or Usage(estimate, message_tokens(response.message))
        doubt = self._doubt(response.message, reported, estimate, response.digest) if purpose == "step" else None
        context_tokens = self._context_tokens(response, reported) if purpose == "step" and not doubt else None
        self._run.emit(
            ModelCalled(
                purpose=purpose,
                step=self._run.state.step,
                digest=response.digest,
                estimate=estimate,
                max_output_tokens=request.max_output_tokens,
                usage=usage,
                estimated=reported is None,
                context_tokens=context_tokens,
                cost_usd=response.cost_usd if response.cost_usd is not None else cost(usage, priced.prices),
                duration_s=round(response.duration_s, 3),
                model=response.model,
                request_id=response.request_id,
                attempts=response.attempts,
                error=f"{doubt.kind}: {doubt}" if doubt else "",
                options=self._changed_options(purpose, priced),
                request=_own_request(request) if purpose == "summary" else None,
            )
        )
        if doubt:
            raise doubt
        if purpose == "step" and response.usage is not None and response.usage.input_tokens and context_tokens is None:
            self._warn_of_usage(response.usage, estimate)
        return response

    def _record_failure(
        self, error: ModelError, purpose: Purpose, priced: PricedModel, request: Request, estimate: int
    ) -> None:
        error.args = (self._redact(str(error)),)  # servers and proxies echo what they were sent
        usage = _billed_usage(error, estimate)
        self._run.emit(
            ModelCalled(
                purpose=purpose,
                step=self._run.state.step,
                digest=error.digest,
                estimate=estimate,
                max_output_tokens=request.max_output_tokens,
                usage=usage,
                estimated=usage is not None and (error.usage is None or not error.usage.input_tokens),
                context_tokens=self._prompt_tokens(error) if purpose == "step" else None,
                cost_usd=0.0 if usage is None else cost(usage, priced.prices),
                attempts=error.attempts,
                error=f"{error.kind}: {error}",
                options=self._changed_options(purpose, priced),
                request=_own_request(request) if purpose == "summary" else None,
            )
        )

    def _context_tokens(self, response: Response, reported: Usage | None) -> int | None:
        """What a believed report says of the size of the view with this reply."""
        state = self._run.state
        window = state.window.tokens
        if reported is None or not state.meter.believes(
            reported.input_tokens, raw_total=state.raw_total, window=window
        ):
            return None
        self._reports.add(reported.input_tokens)
        reply = reported.output_tokens if response.reply_tokens is None else response.reply_tokens
        if response.message.wire is None:  # what is not sent back takes no room, also where the server does not tell
            reply = min(reply, 2 * message_tokens(response.message))
        return reported.input_tokens + reply

    def _is_reported(self, usage: Usage | None) -> bool:
        """Whether a usage says anything that can be true of the request: then it is what is charged."""
        state = self._run.state
        if usage is None or usage.output_tokens < 0:
            return False
        return state.meter.is_possible(usage.input_tokens, raw_total=state.raw_total, window=state.window.tokens)

    def _prompt_tokens(self, error: ModelError) -> int | None:
        """A provider's own count of a prompt that it refused, if it can be true."""
        state, tokens = self._run.state, error.prompt_tokens
        if tokens is None or not state.meter.believes(tokens, raw_total=state.raw_total):
            return None
        if state.meter.anchor is not None and tokens > _COUNTS_DIFFER * state.meter.upper_bound(state.raw_total):
            return None  # not what it has reported for the same messages so far
        return tokens

    def _doubt(
        self, message: AssistantMessage, reported: Usage | None, estimate: int, digest: str
    ) -> ModelError | None:
        """An overflow that the server kept to itself, if the reply shows one."""
        state = self._run.state
        window = state.window.tokens
        empty = not message.text.strip() and not message.tool_calls
        if window is not None and empty and estimate >= _FULL * window:
            words = f"the answer is empty at ~{estimate:,} of {window:,} tokens: taken for an overflow"
            return ModelError(words, kind="overflow", digest=digest)
        if reported is None or self._cuts >= _CUTS_BELIEVED:
            return None
        cut = silent_cut(state.meter, reported, raw_total=state.raw_total, window=window)
        if cut is None or not self._is_telling(cut, reported):
            return None
        self._cuts += 1
        words = (
            f"the server reports {reported.input_tokens:,} tokens for a prompt of ~{estimate:,}: it seems to cut "
            "prompts in silence; raise its context size or set context_window to what it really serves"
        )
        return ModelError(words, kind="overflow", window=cut.window, digest=digest)

    def _is_telling(self, cut: Cut, reported: Usage) -> bool:
        """Whether no other way to count explains it: a proxy may count four characters as a token, or always say 1,000.

        Half of a window that is a multiple of 256, the known window and a shrunken prompt are telling at once. A server
        that fills its window says the same figure again, and before that it said how the prompt grew.
        """
        tokens = reported.input_tokens
        if cut.window is None or cut.window == self._run.state.window.tokens:
            return True
        if tokens == cut.window // 2 + 2 and cut.window % 256 == 0:
            return True
        last, self._stuck_at = self._stuck_at, tokens
        has_grown = any(report < 0.9 * tokens for report in self._reports)
        return has_grown and last is not None and abs(tokens - last) <= 0.02 * last

    def _warn_of_usage(self, usage: Usage, estimate: int) -> None:
        if "usage" in self._run.state.notices:
            return
        words = f"the server reports {usage.input_tokens:,} tokens for a prompt of ~{estimate:,}: the estimate stands"
        self._run.emit(Notice(words, code="usage"))

    def _changed_options(self, purpose: Purpose, priced: PricedModel) -> Json | None:
        options = priced.model.options()
        return options if purpose == "summary" or options != self._run.state.setup.options else None


def _billed_usage(error: ModelError, estimate: int) -> Usage | None:
    """What a failed request used, as far as it is known; None if nothing is to be paid."""
    usage = error.usage or (Usage() if error.billed else None)
    return usage if usage is None or usage.input_tokens else replace(usage, input_tokens=estimate)


def _raw_size(request: Request) -> int:
    return fixed_tokens(request.system, request.tools) + sum(message_tokens(m) for m in request.messages)


def _own_request(request: Request) -> Json:
    """What no view shows: the messages of a summary request, and whether it carried the run's tools."""
    return {"system": request.system, "messages": encode(request.messages), "tools": bool(request.tools)}
