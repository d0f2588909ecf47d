"""A run as rows for people: steps with their calls and results, passes as folds, asides, and how it ended. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tinyagent.core.errors import END_STATES
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    Decision,
    Event,
    MessageAdded,
    ModelCalled,
    ReasoningStripped,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
)
from tinyagent.core.state import RunState, advance
from tinyagent.core.types import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tinyagent.trajectory.rows import (
    CallRow,
    EndRow,
    MessageRow,
    NoteRow,
    PassRow,
    RequestRow,
    Row,
    StartRow,
    StepRow,
    note_of,
)


def report(records: Sequence[Record]) -> list[Row]:
    """The rows of a run, in the order of what happened."""
    return list(_Reporter(records).rows())


@dataclass(slots=True)
class _Open:
    """A step in the making."""

    request: RequestRow
    reply: AssistantMessage | None = None
    reply_id: int | None = None
    results: dict[str, tuple[int, ToolMessage]] = field(default_factory=dict[str, "tuple[int, ToolMessage]"])
    notes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    after: list[Row] = field(default_factory=list[Row])

    def row(self) -> StepRow:
        calls = self.reply.tool_calls if self.reply else ()
        return StepRow(self.request.step, self.request, self.reply, self.reply_id, tuple(self._call(c) for c in calls))

    def _call(self, call: ToolCall) -> CallRow:
        result_id, result = self.results.get(call.id, (None, None))
        return CallRow(call, result, result_id, tuple(self.notes.get(call.id, ())))


class _Reporter:
    """Goes once through the records of one run."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._state = RunState()
        self._open: _Open | None = None
        self._summaries: list[RequestRow] = []
        self._last_id = 0
        self._began = self._now = 0.0
        self._worked_s = 0.0  # by processes that ended

    def rows(self) -> Iterator[Row]:
        for record in self._records:
            # The fold without messages: window, spend and setup need none, and a long run opens in half the time.
            if not isinstance(record.event, MessageAdded | Compacted | ReasoningStripped):
                self._state = advance(self._state, record.event)
            yield from self._event(record.event, record.time)
            self._now = record.time
        yield from self._close()
        if self._state.ended is None:
            yield self._end(None)

    @property
    def _step(self) -> int:
        """The step that is being worked on, or else the one to come."""
        return self._state.spend.steps + (self._open is None)

    def _event(self, event: Event, time: float) -> Iterator[Row]:
        match event:
            case MessageAdded():
                yield from self._message(event)
            case ModelCalled():
                yield from self._close()
                yield from self._called(event, time)
            case Compacted():
                yield from self._close()
                yield PassRow(event.step, event, tuple(self._summaries))
                self._summaries = []
            case RunStarted() | RunResumed():
                yield from self._close()
                yield self._start(event, time)
            case RunEnded():
                yield from self._close()
                self._now = time
                yield self._end(event)
            case _ if self._open is None:
                yield from self._aside(event)
            case _:
                self._open.after += self._aside(event)

    def _message(self, event: MessageAdded) -> Iterator[Row]:
        self._last_id += 1
        match event.message:
            case UserMessage() as message:
                yield from self._close()
                yield MessageRow(self._last_id, message.kind, message.text, self._step)
            case AssistantMessage() as reply:
                if self._open is None or self._open.reply is not None:  # it has no request: a foreign trajectory
                    yield from self._close()
                    self._open = _Open(RequestRow(event.step))
                self._open.reply, self._open.reply_id = reply, self._last_id
            case ToolMessage() as result if self._open is not None:
                self._open.results[result.call_id] = (self._last_id, result)
            case ToolMessage() as result:
                yield NoteRow(self._step, f"a result without its call {result.call_id}", result.text)

    def _called(self, event: ModelCalled, time: float) -> Iterator[Row]:
        used = event.usage
        row = RequestRow(
            event.step,
            time,
            used,
            event.cost_usd,
            event.duration_s,
            event.context_tokens or (used.input_tokens + used.output_tokens if used else event.estimate),
            self._state.window.tokens,
            event.attempts,
            event.error,
            event.purpose,
        )
        if event.purpose == "summary":
            self._summaries.append(row)
        elif event.error:
            yield row
        else:
            self._open = _Open(row)

    def _close(self) -> Iterator[Row]:
        """The step in the making, if there is one, is complete."""
        if self._open is not None:
            yield self._open.row()
            yield from self._open.after
        self._open = None

    def _start(self, event: RunStarted | RunResumed, time: float) -> StartRow:
        if self._began:
            self._worked_s += max(0.0, self._now - self._began)
        self._began = self._now = time
        state = self._state
        resumed = event if isinstance(event, RunResumed) else None
        return StartRow(
            time,
            state.run_id,
            event.version,
            state.setup.model,
            state.window,
            state.cwd,
            resumed is not None,
            "" if resumed is None else resumed.forked_from,
        )

    def _end(self, ended: RunEnded | None) -> EndRow:
        seconds = self._worked_s + max(0.0, self._now - self._began)
        return EndRow(self._state.spend.steps, ended, self._state.spend, seconds)

    def _aside(self, event: Event) -> Iterator[Row]:
        match event:
            case Decision():
                self._note(event.call_id, f"{'allowed' if event.allowed else 'not allowed'} by {event.by}")
            case ChildEnded():
                cost = "cost unknown" if event.cost_usd is None else f"${event.cost_usd:.4f}"
                words = f"{END_STATES[event.reason].words}, {event.requests} requests, {cost}"
                self._note(event.call_id, f"sub-agent {event.run_id}: {words}")
            case _:
                yield from note_of(event, self._step)

    def _note(self, call_id: str, text: str) -> None:
        if self._open is not None:
            self._open.notes.setdefault(call_id, []).append(text)
