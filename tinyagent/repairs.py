"""What is done about a request that a provider refused: each cause once a step, and never the same bytes again."""

from tinyagent.compaction.compactor import MIN_OUTPUT_TOKENS, Compactor, room
from tinyagent.compaction.explain import still_exceeds
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.errors import RECOVERY, EndRun, ModelError, Recovery
from tinyagent.core.events import Learned, ReasoningStripped
from tinyagent.core.limits import USEFUL_OUTPUT_TOKENS
from tinyagent.core.state import Run, RunState
from tinyagent.core.types import AssistantMessage, Model, Request

OVERFLOWS = ("overflow", "overflow_total")


class Repairs:
    """The repairs of one step.

    `served` is the size of the largest prompt that was answered so far, at least; `answered` its estimate.
    """

    def __init__(
        self, run: Run, model: Model, compactor: Compactor, policy: ContextPolicy, *, served: int, answered: int
    ) -> None:
        self._run = run
        self._model = model
        self._compactor = compactor
        self._policy = policy
        self._served = served
        self._answered = answered
        self._tried: set[Recovery] = set()

    def apply(self, error: ModelError, request: Request) -> int | None:
        """Change what made the request fail; the output cap for the next try, None for the usual one.

        Raises the error where nothing is left to change, and EndRun where the context cannot be made to fit.
        """
        self._learn(error)
        recovery, cap = self._recovery(error), None
        if recovery == "lower_output":
            recovery, cap = self._lower_output(error, request)
        match recovery:
            case "lower_output":
                pass
            case "compact":
                self._compact(error)
            case "strip_reasoning" if recovery not in self._tried and _has_payloads(self._run.state):
                self._run.emit(ReasoningStripped(str(error)))
            case "adjust" if self._model.adjust(error.parameter):
                pass
            case _:
                raise error
        self._tried.add(recovery)
        return cap

    def _learn(self, error: ModelError) -> None:
        if error.kind in OVERFLOWS and error.window is not None and not self._is_refuted(error.window):
            self._run.emit(Learned(window_tokens=error.window))
        elif error.kind == "output_cap" and error.max_output_tokens is not None:
            self._run.emit(Learned(max_output_tokens=error.max_output_tokens))

    def _is_refuted(self, window: int) -> bool:
        """Whether a window was said that is too small to work in, by a provider that has answered larger prompts."""
        state = self._run.state
        pinned = state.fixed + sum(e.tokens for e in state.view.entries if getattr(e.message, "kind", "") == "task")
        return window < self._served and window < 2 * pinned

    def _recovery(self, error: ModelError) -> Recovery:
        from tinyagent.models.overflow import is_suspicious_400  # not needed before the first error

        state = self._run.state
        if is_suspicious_400(error, state.estimate, state.window.tokens):
            return "compact"
        return RECOVERY[error.kind]

    def _lower_output(self, error: ModelError, request: Request) -> tuple[Recovery, int | None]:
        """A lower output cap, or what else is to be done where that would leave too little."""
        has_room = not self._policy.enabled or room(self._policy, self._run.state) >= USEFUL_OUTPUT_TOKENS
        cap = _lower_cap(error, request) if has_room else None
        if error.kind == "output_cap":
            if cap is not None and error.max_output_tokens is None:
                self._run.emit(Learned(max_output_tokens=cap))  # else each later step would try its way down again
            return ("stop", None) if cap is None else ("lower_output", cap)
        if error.kind == "overflow_total" and error.prompt_tokens is None:  # nobody says how much is free: by halves
            return ("compact", request.max_output_tokens) if cap is None else ("lower_output", cap)
        if cap is None or "lower_output" in self._tried:
            return "compact", None
        return "lower_output", cap

    def _compact(self, error: ModelError) -> None:
        again = "compact" in self._tried
        if self._policy.enabled and not again and self._compactor.after_overflow(answered=self._answered):
            return
        if error.kind not in OVERFLOWS:  # it was only taken for one, or is a limit on something else
            raise error
        if not self._policy.enabled:
            raise EndRun("context_truncated", f"the prompt is too long and compaction is off: {error}")
        state = self._run.state
        raise EndRun("context_truncated", f"{still_exceeds(state, state.window.tokens)}; the provider says: {error}")


def _lower_cap(error: ModelError, request: Request) -> int | None:
    """A smaller output cap that may be accepted; None if it would be too small to be useful, or no smaller."""
    present = request.max_output_tokens or 0
    cap = present // 2
    if error.max_output_tokens is not None:
        cap = error.max_output_tokens
    elif error.kind == "overflow_total" and error.window is not None and error.prompt_tokens is not None:
        free = error.window - error.prompt_tokens - MIN_OUTPUT_TOKENS
        cap = free if free < present else cap  # else the figures are not those of this request
    return cap if USEFUL_OUTPUT_TOKENS <= cap < present else None


def _has_payloads(state: RunState) -> bool:
    return any(isinstance(m, AssistantMessage) and m.wire is not None for m in state.view.messages)
