"""How a run ended, if it did."""

from collections.abc import Sequence

from tinyagent.core.events import Record, RunEnded, RunResumed


def ending(records: Sequence[Record]) -> tuple[RunEnded, float] | None:
    """The end that holds, with its time; None if the run was never ended, or was taken up again after it."""
    for record in reversed(records):
        match record.event:
            case RunEnded() as event:
                return event, record.time
            case RunResumed():
                return None
            case _:
                pass
    return None
