"""What to make of damaged records: they are put in order, lost messages get a stand-in, impossible passes are left out.

The file is never edited for this, and every reading comes to the same result. Each repair is told in a notice.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tinyagent.core.events import SUMMARY_ID, Compacted, MessageAdded, Record, RunStarted
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

LOST_TEXT = "[the record of this message could not be read]"
_KIND = re.compile(rb'"event"\s*:\s*"(\w+)"')
_ROLE = re.compile(rb'"role"\s*:\s*"(user|assistant|tool)"')
_SEQ = re.compile(rb'"seq"\s*:\s*(\d{1,15})\b')
_TASK = re.compile(rb'"kind"\s*:\s*"task"')


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
    notices = [f"line {item.line}: {item.why}; it is left out" for item in found if isinstance(item, Lost)]
    items = list(_first_run(found, notices))
    if not _ascending(items):
        items = _in_order(items, notices)
    records = list(_filled(items)) if any(isinstance(item, Lost) for item in items) else _records(items)
    notices += _gaps(records)
    return Repaired(tuple(_possible(records, notices)), tuple(notices))


def _first_run(found: Sequence[Record | Lost], notices: list[str]) -> Iterator[Record | Lost]:
    started: RunStarted | None = None
    for item in found:
        event = item.event if isinstance(item, Record) else None
        if isinstance(event, RunStarted):
            if started is not None and event != started:
                notices.append(f"another run ({event.run_id}) follows in the same file; it is left out")
                return
            started = event
        yield item


def _records(items: Sequence[Record | Lost]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def _ascending(items: Sequence[Record | Lost]) -> bool:
    return all(a.seq < b.seq for a, b in pairwise(_records(items)))


def _in_order(items: Sequence[Record | Lost], notices: list[str]) -> list[Record | Lost]:
    """Sorted by number, copies dropped. Two different records of one number both stay, in the order of the file: an
    interrupt can come between a record's writing and the counting of it."""
    by_seq: dict[int, list[Record]] = {}
    kept: list[tuple[int, Record | Lost]] = []
    last = 0
    for item in items:
        if isinstance(item, Lost):
            kept.append((_seq_of(item, last), item))
            continue
        last = item.seq
        same = by_seq.setdefault(item.seq, [])
        if item in same:
            notices.append(f"record {item.seq} is there twice; the copy is left out")
        else:
            same.append(item)
            kept.append((item.seq, item))
    if any(b < a for (a, _), (b, _) in pairwise(kept)):
        notices.append("the records were out of order; they are read by their numbers")
    return [item for _, item in sorted(kept, key=lambda pair: pair[0])]


def _filled(items: Sequence[Record | Lost]) -> Iterator[Record]:
    """The records, with a stand-in for each message that is lost, since the ids of later ones count on it."""
    taken = {record.seq for record in _records(items)}
    last: Record | None = None
    step = 0
    open_calls: list[ToolCall] = []
    for index, item in enumerate(items):
        if isinstance(item, Lost):
            seq = _seq_of(item, last.seq if last else 0)
            message = None if seq in taken or last is None else _stand_in(item, open_calls, items[index + 1 :])
            if message is None or last is None:
                continue
            record = Record(seq, last.time, MessageAdded(message, message_tokens(message), step))
        else:
            record = item
        last = record
        if isinstance(record.event, MessageAdded):
            step = record.event.step
            open_calls = _still_open(open_calls, record.event.message)
        yield record


def _seq_of(lost: Lost, last: int) -> int:
    match = _SEQ.search(lost.data)
    return int(match.group(1)) if match else last + 1


def _still_open(open_calls: Sequence[ToolCall], message: Message) -> list[ToolCall]:
    match message:
        case AssistantMessage():
            return list(message.tool_calls)
        case ToolMessage():
            return [call for call in open_calls if call.id != message.call_id]
        case UserMessage():
            return []


def _stand_in(lost: Lost, open_calls: Sequence[ToolCall], later: Sequence[Record | Lost]) -> Message | None:
    """A message in place of a lost one that keeps calls and results paired; None if no message was lost there."""
    kind, role = _KIND.search(lost.data), _ROLE.search(lost.data)
    if kind is not None and kind.group(1) != b"message":
        return None
    results = _results(later)
    orphans = [r for r in results if r.call_id not in {call.id for call in open_calls}]
    unanswered = [call for call in open_calls if call.id not in {r.call_id for r in results}]
    wanted = role.group(1) if role else b"assistant" if orphans else b"tool" if unanswered else b""
    if wanted == b"assistant":
        calls = tuple(ToolCall(r.call_id, r.tool, None, "the record could not be read") for r in results)
        return AssistantMessage(LOST_TEXT, calls, "tool_calls" if calls else "end")
    if wanted == b"tool" and unanswered:
        return ToolMessage(unanswered[0].id, unanswered[0].name, LOST_TEXT, is_error=True)
    if kind is None and role is None:
        return None
    return UserMessage(LOST_TEXT, "task" if _TASK.search(lost.data) else "notice")


def _results(later: Sequence[Record | Lost]) -> list[ToolMessage]:
    """The tool results before the next message of another role."""
    found: list[ToolMessage] = []
    for record in _records(later):
        if not isinstance(record.event, MessageAdded):
            continue
        if not isinstance(record.event.message, ToolMessage):
            break
        found.append(record.event.message)
    return found


def _gaps(records: Sequence[Record]) -> Iterator[str]:
    for before, after in pairwise(records):
        if after.seq > before.seq + 1:
            missing = f"{before.seq + 1} to {after.seq - 1}" if after.seq > before.seq + 2 else f"{before.seq + 1}"
            yield f"records missing: {missing}; requests after that may not be rebuilt exactly"


def _possible(records: Sequence[Record], notices: list[str]) -> Iterator[Record]:
    """Without passes that speak of messages which are not there: the view then is as it was before them."""
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
