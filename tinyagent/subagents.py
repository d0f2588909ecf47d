"""What a run and its sub-agents owe each other: limits, usage, results."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from tinyagent.agent import Terminated
from tinyagent.core.errors import END_STATES, RecordError
from tinyagent.core.events import ChildEnded, Event, Notice, RunEnded
from tinyagent.core.limits import Limits
from tinyagent.core.state import Run, RunState, fold
from tinyagent.core.types import ToolOutput
from tinyagent.tools.subagent import TASK
from tinyagent.trajectory.journal import JOURNAL
from tinyagent.trajectory.reading import read_journal


def what_is_left(limits: Limits, state: RunState, remaining_s: float | None) -> Limits | None:
    """What a sub-agent may use; None if a limit leaves nothing (0 would mean "no limit")."""
    cost = None if limits.cost_usd is None else limits.cost_usd - (state.spend.cost_usd or 0.0)
    steps = None if limits.steps is None else limits.steps - state.spend.steps - state.spend.delegated
    if any(value is not None and value <= 0 for value in (cost, steps, remaining_s)):
        return None
    return Limits(cost, steps, remaining_s)


def notices_only(listener: Callable[[Event, RunState], None]) -> Callable[[Event, RunState], None]:
    """A sub-agent's steps are its own; what the user must know comes through."""

    def listen(event: Event, state: RunState) -> None:
        if isinstance(event, Notice):
            listener(event, state)

    return listen


def report_back(parent: Run, child: RunState, end: RunEnded) -> ToolOutput:
    """Put a sub-agent's usage on the parent's record; its answer, or why there is none.

    Raises what ended it from outside, which is meant for the parent too.
    """
    spend = child.spend
    calls = [call for m in parent.state.messages[-1:] for call in getattr(m, "tool_calls", ())]
    call_id = next((call.id for call in calls if call.name == TASK.name), "")
    parent.emit(ChildEnded(call_id, child.run_id, end.reason, spend.usage, spend.cost_usd, spend.requests))
    if end.reason == "interrupted":
        raise KeyboardInterrupt
    if end.reason == "terminated":
        raise Terminated(end.error)
    if end.reason == "submitted":
        return ToolOutput(end.submission)
    return ToolOutput(f"The sub-agent ended early: {END_STATES[end.reason].words}. {end.error}", is_error=True)


def unreported(folder: Path, ended: Collection[str]) -> Iterator[ChildEnded]:
    """What sub-agents had used when the run was killed: it was spent, so the limits must know of it."""
    for path in sorted((folder / "children").glob(f"*/{JOURNAL}")):
        with suppress(RecordError):  # killed before its first record was whole: nothing was sent
            child = fold([record.event for record in read_journal(path).records])
            reason = child.ended.reason if child.ended else "terminated"
            spend = child.spend
            if child.run_id and child.run_id not in ended:
                yield ChildEnded("", child.run_id, reason, spend.usage, spend.cost_usd, spend.requests)
