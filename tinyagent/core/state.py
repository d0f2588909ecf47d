"""The state of a run: a pure fold over its events, used alike by the live run, resume, viewer, export and tests."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from tinyagent.core.events import (
    SUMMARY_ID,
    ChildEnded,
    Compacted,
    CompactionFailed,
    CompactionStarted,
    Decision,
    Event,
    Learned,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Notice,
    ReasoningStripped,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
    Unknown,
)
from tinyagent.core.limits import Spend
from tinyagent.core.loops import KEPT_SIGNATURES, repetitions, signature
from tinyagent.core.meter import Meter
from tinyagent.core.tokens import fixed_tokens
from tinyagent.core.types import AssistantMessage, Json, Message, ToolMessage, ToolSpec, Window
from tinyagent.core.view import Entry, View, rebuilt, summary_entry, without_reasoning


@dataclass(frozen=True, slots=True)
class Passes:
    """History of passes, for the guards.

    `ineffective` counts those in a row that did not help, the last of which left `stuck_at` tokens. `effective_at` are
    step counts, newest last, at most three: a step is the same in a run that was killed and taken up again.
    """

    ineffective: int = 0
    stuck_at: int = 0
    effective_at: tuple[int, ...] = ()
    running: bool = False


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything that is true of a run now. Only `advance` makes one.

    `messages[i]` is the message with id i + 1 (0 is the system prompt). `output_cap` is a learned limit of the model's
    output. `ended` is None while the run goes on.
    """

    run_id: str = ""
    cwd: str = ""
    setup: ModelSetup = ModelSetup("", {}, Window(None))
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: Json | None = None
    fixed: int = 0  # raw tokens of system and tools
    messages: tuple[Message, ...] = ()
    view: View = View()
    meter: Meter = Meter()
    spend: Spend = Spend()
    window: Window = Window(None)
    output_cap: int | None = None
    plan: tuple[Json, ...] = ()
    passes: Passes = Passes()
    narrative: str = ""
    notices: frozenset[str] = frozenset()
    signatures: tuple[str, ...] = ()
    turn: tuple[AssistantMessage, tuple[ToolMessage, ...]] | None = None
    ended: RunEnded | None = None

    @property
    def raw_total(self) -> int:
        return self.fixed + self.view.tokens

    @property
    def estimate(self) -> int:
        """Tokens of the next request as the view stands."""
        return self.meter.estimate(self.raw_total)

    @property
    def repeated(self) -> int:
        """How often the newest cycle of turns was seen in a row."""
        newest = () if self.turn is None else (signature(*self.turn),)
        return repetitions((*self.signatures, *newest))

    @property
    def step(self) -> int:
        """Number of the step in progress, from 1."""
        return self.spend.steps + 1


def advance(state: RunState, event: Event) -> RunState:
    """The state after one event."""
    match event:
        case RunStarted():
            return _started(event)
        case RunResumed():
            return _resumed(state, event)
        case MessageAdded():
            return _message_added(state, event)
        case ModelCalled():
            return _model_called(state, event)
        case Learned():
            return _learned(state, event)
        case ReasoningStripped():
            view = without_reasoning(state.view)
            return replace(state, view=view, meter=state.meter.voided(state.raw_total))
        case CompactionStarted():
            return replace(state, passes=replace(state.passes, running=True))
        case Compacted():
            return _compacted(state, event)
        case CompactionFailed():
            return replace(state, passes=_ineffective(state.passes, state.estimate))
        case ChildEnded():
            spent = state.spend.plus(event.usage, event.cost_usd, requests=event.requests, delegated=event.requests)
            return replace(state, spend=spent)
        case RunEnded():
            return replace(state, ended=event)
        case Notice():
            return replace(state, notices=state.notices | {event.code}) if event.code else state
        case Decision() | Unknown():
            return state


def fold(events: Sequence[Event]) -> RunState:
    """The state after all of them."""
    state = RunState()
    for event in events:
        state = advance(state, event)
    return state


class Run:
    """A run in progress: the one way in for events. The sink (the journal) has each before anyone acts on it.

    `unbroken` is entered round the writing of an event and its effect; whoever turns signals into exceptions holds them
    back in it. An event that was written and had no effect would be written again: a call with two results, which no
    provider takes.
    """

    def __init__(
        self,
        *,
        sink: Callable[[Record], None],
        clock: Callable[[], float],
        listeners: Sequence[Callable[[Event, RunState], None]] = (),
        state: RunState | None = None,
        next_seq: int = 1,
        unbroken: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.state = state or RunState()
        self._sink = sink
        self._clock = clock
        self._listeners = tuple(listeners)
        self._seq = next_seq
        self._unbroken = unbroken

    def emit(self, event: Event) -> None:
        """Write the event, then let it take effect, then tell the listeners."""
        with self._unbroken():
            self._sink(Record(self._seq, self._clock(), event))
            self._seq += 1
            self.state = advance(self.state, event)
        for listener in self._listeners:
            listener(event, self.state)


def _started(event: RunStarted) -> RunState:
    return RunState(
        run_id=event.run_id,
        cwd=event.cwd,
        setup=event.setup,
        system=event.system,
        tools=event.tools,
        settings=event.settings,
        fixed=fixed_tokens(event.system, event.tools),
        window=_known(event.setup.window),
    )


def _resumed(state: RunState, event: RunResumed) -> RunState:
    same_model = event.setup.model == state.setup.model
    return replace(
        state,
        setup=event.setup,
        settings=event.settings,
        window=_smaller(state.window, _known(event.setup.window)) if same_model else _known(event.setup.window),
        output_cap=state.output_cap if same_model else None,
        meter=state.meter if same_model else Meter(),
        passes=replace(state.passes, running=False),
        ended=None,
    )


def _known(window: Window) -> Window:
    """Some servers say 0 for a window that they do not know."""
    return window if window.tokens else Window(None)


def _smaller(old: Window, new: Window) -> Window:
    """A learned window survives a resume, unless the user configured one."""
    if old.source != "learned" or new.source == "configured" or old.tokens is None:
        return new
    return old if new.tokens is None or old.tokens < new.tokens else new


def _message_added(state: RunState, event: MessageAdded) -> RunState:
    message = event.message
    entry = Entry(len(state.messages) + 1, message, event.tokens)
    state = replace(
        state,
        messages=(*state.messages, message),
        view=state.view.added(entry),
        meter=_with_added(state.meter, event),
    )
    match message:
        case AssistantMessage():
            return replace(_close_turn(state), turn=(message, ()))
        case ToolMessage() if state.turn is not None:
            plan = message.facts.get("plan")
            turn = (state.turn[0], (*state.turn[1], message))
            return replace(state, turn=turn, plan=state.plan if plan is None else tuple(plan))
        case _:
            return _close_turn(state)


def _with_added(meter: Meter, event: MessageAdded) -> Meter:
    """The reply to a request whose usage was believed is in the anchor already."""
    if meter.awaits_reply and isinstance(event.message, AssistantMessage):
        return replace(meter, awaits_reply=False)
    return meter.added(event.tokens)


def _close_turn(state: RunState) -> RunState:
    if state.turn is None:
        return state
    signatures = (*state.signatures, signature(*state.turn))[-KEPT_SIGNATURES:]
    return replace(state, signatures=signatures, turn=None)


def _model_called(state: RunState, event: ModelCalled) -> RunState:
    succeeded_step = event.purpose == "step" and not event.error
    spend = state.spend.plus(event.usage, event.cost_usd, steps=int(succeeded_step))
    setup = state.setup if event.options is None else replace(state.setup, options=event.options)
    state = replace(_close_turn(state), spend=spend, setup=setup)
    return replace(state, meter=_metered(state, event)) if event.purpose == "step" else state


def _metered(state: RunState, event: ModelCalled) -> Meter:
    meter, tokens = state.meter, event.context_tokens
    if event.error:
        return meter if tokens is None else meter.counted(tokens, raw_total=state.raw_total)
    if event.usage is None or tokens is None:
        return meter.sent(event.estimate)
    return meter.observed(reported_input=event.usage.input_tokens, context_tokens=tokens, raw_total=state.raw_total)


def _learned(state: RunState, event: Learned) -> RunState:
    window, cap = state.window, state.output_cap
    if event.window_tokens is not None and (window.tokens is None or event.window_tokens < window.tokens):
        window = Window(event.window_tokens, "learned")
    if event.max_output_tokens is not None and (cap is None or event.max_output_tokens < cap):
        cap = event.max_output_tokens
    return replace(state, window=window, output_cap=cap)


def _compacted(state: RunState, event: Compacted) -> RunState:
    carried = next((entry for entry in state.view.entries if entry.id == SUMMARY_ID), None)
    summary = carried if event.summary is None else summary_entry(SUMMARY_ID, event.summary)
    view = rebuilt(state.view, event.view, replaced=event.replaced, elided=event.elided, summary=summary)
    if event.effective:
        passes = Passes(effective_at=(*state.passes.effective_at, state.spend.steps)[-3:])
    else:
        passes = _ineffective(state.passes, event.tokens_after)
    return replace(
        state,
        view=without_reasoning(view) if event.strip_reasoning else view,
        meter=state.meter.voided(state.raw_total),
        passes=passes,
        narrative=event.narrative or state.narrative,
    )


def _ineffective(passes: Passes, tokens: int) -> Passes:
    return replace(passes, running=False, ineffective=passes.ineffective + 1, stuck_at=tokens)
