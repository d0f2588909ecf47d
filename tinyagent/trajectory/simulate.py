"""What another compaction policy would have sent and cost: a run on record, walked again without a model.

The compactor of a live run decides before each request that was answered. Sizes are those that the provider reported,
in proportion to what the view then holds; a prefix equal to that of the step before counts as cached.

Covers: passes, sizes, cached prefixes and costs of the run's own steps.
Does not cover: what the model would have said or read again under another view; summaries by a model (of the run as it
was they are in, as they were billed); failed requests; sub-agents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyagent.compaction.compactor import MIN_OUTPUT_TOKENS, Compactor
from tinyagent.compaction.ladder import NoReply, Summarizer
from tinyagent.compaction.plan import ContextPolicy, StageName
from tinyagent.core.errors import EndRun
from tinyagent.core.events import (
    Compacted,
    Event,
    Learned,
    MessageAdded,
    ModelCalled,
    ReasoningStripped,
    Record,
    RunResumed,
    RunStarted,
)
from tinyagent.core.pricing import Prices, cost
from tinyagent.core.state import Run, RunState, advance, fold
from tinyagent.core.types import Usage, Window
from tinyagent.core.view import View
from tinyagent.trajectory.records import reserved_output

UNITS = Prices(1.0, 0.0, 0.1, 1.25)  # to a plain input token: what providers with a prompt cache ask
STAGES: dict[str, tuple[StageName, ...]] = {
    "none": (),
    "elide": ("elide",),
    "prune": ("prune",),
    "elide+prune": ("elide", "prune"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy comes to. `cost` is in dollars where `has_prices`, else in millions of `UNITS`; None: not known.

    `too_large` counts requests that left no room for an answer in the window as it was known. `end` says why a live run
    would have ended before one, "" if it would not; the walk goes on, so that totals can be compared.
    """

    requests: int
    passes: int
    input_tokens: int
    cached_tokens: int
    cost: float | None
    largest: int
    too_large: int
    end: str


def named_policy(name: str, own: ContextPolicy) -> ContextPolicy:
    """The run's own policy with the stages of that name; of any other, its own with digests in place of summaries."""
    stages = STAGES.get(name)
    if stages is None:
        without_model: list[StageName] = ["prune" if stage == "summarize" else stage for stage in own.stages]
        return replace(own, stages=tuple(dict.fromkeys(without_model)))
    return replace(own, enabled=True, stages=stages) if stages else replace(own, enabled=False)


def simulate(records: Sequence[Record], policy: ContextPolicy | None, *, window: int | None = None) -> Outcome:
    """The run under a policy that asks no model; None: as it was. `window` in place of the run's own."""
    walk = _Walk(records, policy, window)
    for record in records:
        walk.take(record.event)
    return walk.outcome()


def has_prices(records: Sequence[Record]) -> bool:
    """Whether the price of each model of the run is on record."""
    return all(r.event.setup.prices is not None for r in records if isinstance(r.event, RunStarted | RunResumed))


class _Walk:
    """Two runs side by side: the one on record, and one whose view a compactor keeps; without it they are the same."""

    def __init__(self, records: Sequence[Record], policy: ContextPolicy | None, window: int | None) -> None:
        self._run = Run(sink=self._count, clock=lambda: 0.0)
        self._compactor = None if policy is None else _compactor(self._run, policy, records)
        self._has_prices = has_prices(records)
        self._window = window
        self._recorded = RunState()
        self._last_sent = View()
        self._passes = self._largest = self._too_large = 0
        self._end = ""

    def take(self, event: Event) -> None:
        match event:
            case RunStarted() | RunResumed():
                window = event.setup.window if self._window is None else Window(self._window, "configured")
                self._run.emit(replace(event, setup=replace(event.setup, window=window)))
            case MessageAdded() | ReasoningStripped():
                self._run.emit(event)
            case Learned() if self._window is None:
                self._run.emit(event)
            case Compacted() if self._compactor is None:
                self._run.emit(event)
            case ModelCalled(purpose="summary", error="") if self._compactor is None:
                units = cost(event.usage or Usage(), UNITS)
                self._run.emit(event if self._has_prices else replace(event, cost_usd=units))
            case ModelCalled(purpose="step", error=""):
                self._step(event)
            case _:
                pass
        self._recorded = advance(self._recorded, event)

    def outcome(self) -> Outcome:
        spend = self._run.state.spend
        return Outcome(
            requests=spend.requests,
            passes=self._passes,
            input_tokens=spend.usage.input_tokens,
            cached_tokens=spend.usage.cache_read_tokens,
            cost=spend.cost_usd,
            largest=self._largest,
            too_large=self._too_large,
            end=self._end,
        )

    def _count(self, record: Record) -> None:
        self._passes += isinstance(record.event, Compacted)

    def _step(self, call: ModelCalled) -> None:
        if self._compactor is not None:
            self._keep_inside(self._compactor)
        state, used = self._run.state, call.usage or Usage()
        reported = used.input_tokens or self._recorded.estimate
        size = round(reported * state.raw_total / self._recorded.raw_total)
        cached = round(size * _shared_tokens(self._last_sent, state) / state.raw_total)
        usage = Usage(size, used.output_tokens, cached, size - cached)
        prices = state.setup.prices if self._has_prices else UNITS
        known = None if call.context_tokens is None else size + call.context_tokens - reported
        self._run.emit(
            replace(call, estimate=state.estimate, usage=usage, cost_usd=cost(usage, prices), context_tokens=known)
        )
        self._last_sent = state.view
        self._largest = max(self._largest, size)
        self._too_large += state.window.tokens is not None and size + MIN_OUTPUT_TOKENS > state.window.tokens

    def _keep_inside(self, compactor: Compactor) -> None:
        state = self._run.state
        try:
            if state.step == 1:
                compactor.check_start()
            compactor.before_request()
        except EndRun as end:
            self._end = self._end or f"before step {state.step}: {end}"


def _compactor(run: Run, policy: ContextPolicy, records: Sequence[Record]) -> Compactor:
    nobody = Summarizer(lambda request, seconds: NoReply("there is no model"), lambda: None, "")
    reserved = reserved_output(fold([record.event for record in records]).settings)
    strips = any(isinstance(r.event, Compacted) and r.event.strip_reasoning for r in records)
    return Compactor(run, policy, nobody, reserved_output=reserved, strip_reasoning=strips)


def _shared_tokens(sent: View, state: RunState) -> int:
    """Raw tokens of the prefix that the next request shares with one that was sent, if one was."""
    if not sent.entries:
        return 0
    tokens = state.fixed
    for old, new in zip(sent.entries, state.view.entries, strict=False):
        if old.message is not new.message and old.message != new.message:
            break
        tokens += new.tokens
    return tokens
