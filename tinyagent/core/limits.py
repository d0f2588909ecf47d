"""Limits as values, checked against the worst case before anything is spent."""

from dataclasses import dataclass

from tinyagent.core.errors import EndReason
from tinyagent.core.pricing import Prices, affordable_output, worst_case
from tinyagent.core.types import Usage

# An answer shorter than this cannot hold a useful tool call: better to stop than to pay for a cut one.
USEFUL_OUTPUT_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit. `time_s` is wall-clock time of this process's work on the run."""

    cost_usd: float | None = None
    steps: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """Everything used so far: steps, summaries, failed calls, sub-agents. `cost_usd` None: a price was unknown.

    `delegated` are the requests of sub-agents, which count against the step limit.
    """

    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    requests: int = 0
    steps: int = 0
    delegated: int = 0

    def plus(
        self, usage: Usage | None, cost_usd: float | None, *, requests: int = 1, steps: int = 0, delegated: int = 0
    ) -> "Spend":
        total = None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd
        used = self.usage if usage is None else self.usage + usage
        return Spend(used, total, self.requests + requests, self.steps + steps, self.delegated + delegated)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the limits leave for the next request: its output cap, or the reason why none may be sent."""

    max_output_tokens: int | None = None
    stop: EndReason | None = None
    why: str = ""


def allow_request(
    limits: Limits,
    spend: Spend,
    prices: Prices | None,
    *,
    input_tokens: int,
    max_output_tokens: int,
    is_step: bool = True,
) -> Allowed:
    """Check step and cost limits for one request of at most `input_tokens`.

    The output cap is lowered to what the money pays for, as long as that is useful; a request whose worst case would
    pass the cost limit is never allowed.
    """
    if is_step and limits.steps is not None and spend.steps + spend.delegated >= limits.steps:
        return Allowed(stop="step_limit", why=f"step limit of {limits.steps} reached")
    if limits.cost_usd is None:
        return Allowed(max_output_tokens)
    if prices is None or spend.cost_usd is None:
        return Allowed(stop="cost_limit", why="the cost limit cannot be kept: the price of this model is not known")
    left = limits.cost_usd - spend.cost_usd
    affordable = affordable_output(left, input_tokens, prices)
    if affordable is None:
        return Allowed(max_output_tokens)
    if affordable < min(USEFUL_OUTPUT_TOKENS, max_output_tokens):
        worst = worst_case(input_tokens, min(USEFUL_OUTPUT_TOKENS, max_output_tokens), prices)
        return Allowed(
            stop="cost_limit",
            why=f"cost limit of ${limits.cost_usd:g}: ${spend.cost_usd:.4f} spent, "
            f"the next request could cost ${worst:.4f}",
        )
    return Allowed(min(max_output_tokens, affordable))


def remaining_s(limits: Limits, elapsed_s: float) -> float | None:
    """Seconds left of the time limit, at least 0; None without one."""
    return None if limits.time_s is None else max(0.0, limits.time_s - elapsed_s)
