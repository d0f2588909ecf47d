"""What to make of damaged records: a lost message gets a stand-in, and passes that no longer fit are left out.

A lost message may not simply be missing: ids are positions, and every call needs its result. The file is never edited
for this, every reading comes to the same result, and each repair is told in a notice.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinyagent.core.events import SUMMARY_ID, Compacted, MessageAdded, Record
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

LOST_TEXT = "[the record of this message could not be read]"
_TOLD = 20  # places that are named one by one
_FILLED = 100  # missing records of one gap for which a stand-in is tried
_KIND = re.compile(rb'"event"\s*:\s*"(\w+)"')
_ROLE = re.compile(rb'"role"\s*:\s*"(user|assistant|tool)"')


@dataclass(frozen=True, slots=True)
class Lost:
    """A place in the file where a record cannot be read: `data` is what stands there instead."""

    line: int
    data: bytes
    why: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """Records that fold without an error, and what had to be done for it."""

    records: tuple[Record, ...]
    notices: tuple[str, ...] = ()


def repaired(found: Sequence[Record | Lost]) -> Repaired:
    """The records of one run, from what was found in the order of the file."""
    lost = [item for item in found if isinstance(item, Lost)]
    notices = [f"line {item.line}: {item.why}; it is left out" for item in lost[:_TOLD]]
    if len(lost) > _TOLD:
        notices.append(f"{len(lost) - _TOLD:,} more places cannot be read; they are left out")
    records = list(_filled(list(_with_gaps(found, notices))))
    return Repaired(tuple(_fitting(records, notices)), tuple(notices))


def _with_gaps(found: Sequence[Record | Lost], notices: list[str]) -> Iterator[Record | Lost]:
    """With a place for each record that the numbers say is missing."""
    last, lost = 0, 0
    for item in found:
        if isinstance(item, Lost):
            lost += 1
        else:
            missing = item.seq - last - 1 - lost
            if last and missing > 0:
                notices.append(f"before record {item.seq}, {missing:,} are missing; requests from there may differ")
                yield from [Lost(0, b"", "")] * min(missing, _FILLED)
            last, lost = item.seq, 0
        yield item


def _filled(found: Sequence[Record | Lost]) -> Iterator[Record]:
    """The records, with a stand-in for each message that is lost."""
    last: Record | None = None
    step = 0
    open_calls: Sequence[ToolCall] | None = None  # None: no message so far
    for item, results in zip(found, _results_after(found), strict=True):
        record = item
        if isinstance(record, Lost):
            message = _stand_in(record, open_calls, results)
            if message is None or last is None:
                continue
            record = Record(last.seq + 1, last.time, MessageAdded(message, message_tokens(message), step))
        if isinstance(record.event, MessageAdded):
            step = record.event.step
            open_calls = _still_open(open_calls or (), record.event.message)
        last = record
        yield record


def _results_after(found: Sequence[Record | Lost]) -> list[tuple[ToolMessage, ...]]:
    """For each place, the tool results that follow before the next message of another role."""
    following: list[tuple[ToolMessage, ...]] = []
    current: tuple[ToolMessage, ...] = ()
    for item in reversed(found):
        following.append(current)
        if isinstance(item, Record) and isinstance(item.event, MessageAdded):
            message = item.event.message
            current = (message, *current) if isinstance(message, ToolMessage) else ()
    return following[::-1]


def _still_open(open_calls: Sequence[ToolCall], message: Message) -> Sequence[ToolCall]:
    match message:
        case AssistantMessage():
            return message.tool_calls
        case ToolMessage():
            return [call for call in open_calls if call.id != message.call_id]
        case UserMessage():
            return ()


def _stand_in(lost: Lost, open_calls: Sequence[ToolCall] | None, results: Sequence[ToolMessage]) -> Message | None:
    """A message that keeps calls and results paired; None if no message was lost.

    `open_calls` are those without a result before it, None if it is the first message; `results` stand after it.
    """
    answered = {result.call_id for result in results}
    if unanswered := [call for call in open_calls or () if call.id not in answered]:
        return ToolMessage(unanswered[0].id, unanswered[0].name, LOST_TEXT, is_error=True)
    if answered - {call.id for call in open_calls or ()}:
        calls = [ToolCall(result.call_id, result.tool, None, "the record could not be read") for result in results]
        return AssistantMessage(LOST_TEXT, tuple(calls), "tool_calls")
    kind, role = _KIND.search(lost.data), _ROLE.search(lost.data)
    match (kind[1] if kind else b"message", role[1] if role else b""):
        case (b"message", b"assistant"):
            return AssistantMessage(LOST_TEXT)
        case (b"message", b"user"):
            return UserMessage(LOST_TEXT, "task" if open_calls is None else "notice")
        case _:
            return None


def _fitting(records: Sequence[Record], notices: list[str]) -> Iterator[Record]:
    """Without passes that speak of messages which are not in the view: it then is as it was before them."""
    in_view: set[int] = set()
    results: set[int] = set()
    last_id = 0
    for record in records:
        event = record.event
        if isinstance(event, MessageAdded):
            last_id += 1
            in_view.add(last_id)
            if isinstance(event.message, ToolMessage):
                results.add(last_id)
        elif isinstance(event, Compacted):
            if not _fits(event, in_view, results):
                notices.append(f"record {record.seq}: a change of the view does not fit the messages; it is left out")
                continue
            in_view = set(event.view)
        yield record


def _fits(event: Compacted, in_view: set[int], results: set[int]) -> bool:
    known = in_view if event.summary is None else in_view | {SUMMARY_ID}
    return known.issuperset(event.view) and results.issuperset(set(event.replaced) & set(event.view))
