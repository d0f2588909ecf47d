"""What is asked of the records of any run: its start, its end, and how it kept its context."""

from collections.abc import Sequence

from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.codec import decode
from tinyagent.core.errors import ConfigError, RecordError
from tinyagent.core.events import Record, RunEnded, RunResumed, RunStarted
from tinyagent.core.types import Json


def start_of(records: Sequence[Record]) -> RunStarted:
    """The event that a run begins with. Raises RecordError if these records begin with another."""
    started = records[0].event if records else None
    if not isinstance(started, RunStarted):
        raise RecordError("the first record is not the start of a run")
    return started


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


def context_policy(settings: Json | None) -> ContextPolicy | None:
    """The policy in a run's settings; None where it is not known: those of another program, or of another version."""
    try:
        return decode(ContextPolicy, (settings or {})["context"])
    except (KeyError, TypeError, ValueError, ConfigError):
        return None


def reserved_output(settings: Json | None) -> int | None:
    """The user's own cap of an answer in a run's settings, None without one."""
    given = (settings or {}).get("max_output_tokens")
    return given if isinstance(given, int) and given > 0 else None
