"""The exported document, `trajectory_format: "tinyagent-1"`, and the records that it holds.

Nothing of a journal is lost: `from_native(to_native(records))` gives the same records, with times in milliseconds and
strict JSON values. `messages[i]` has the id i; 0 is the system prompt.
"""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

from tinyagent.core.codec import encode
from tinyagent.core.errors import END_STATES, RecordError
from tinyagent.core.events import (
    Compacted,
    CompactionStarted,
    MessageAdded,
    ModelCalled,
    Record,
    RunStarted,
    record_from_json,
    record_to_json,
)
from tinyagent.core.limits import Spend
from tinyagent.core.state import RunState, fold
from tinyagent.core.types import AssistantMessage, Json
from tinyagent.trajectory import shapes
from tinyagent.trajectory.foreign import objects
from tinyagent.trajectory.records import ending, start_of
from tinyagent.trajectory.strict import strict_json

FORMAT = "tinyagent-1"


def to_native(records: Sequence[Record], *, state: RunState | None = None) -> Json:
    """The document of a run, finished or not. Raises RecordError if the records do not begin with a run's start.

    `state` is what the records fold to, where that is known already.
    """
    started = start_of(records)
    records = _numbered(records)
    document: Json = {
        "trajectory_format": FORMAT,
        "info": _info(started, records, state or fold([record.event for record in records])),
        "messages": _messages(started, records),
        "compactions": _compactions(records),
        "requests": _requests(records),
        "tools": encode(started.tools),
        "system": started.system,
        "events": _events(records),
    }
    if not document["compactions"]:
        del document["compactions"]
    document = strict_json(document)
    for item in document["messages"]:
        item["extra"]["digest"] = shapes.message_digest(item)
    return document


def from_native(document: Json) -> list[Record]:
    """The records of a document. Raises RecordError that names the place in it."""
    messages, requests, passes, events = (
        objects(document.get(name), name) for name in ("messages", "requests", "compactions", "events")
    )
    if not messages or messages[0].get("role") != "system":
        raise RecordError("messages[0]: the system message is missing")
    _object(messages[0].get("extra"), "messages[0]: extra")
    start = {"system": messages[0].get("content"), "tools": document.get("tools", [])}
    records = [
        *_read(messages[1:], "messages", _message_record, first=1),
        *_read(requests, "requests", _plain_record("model_called", shapes.request_fields)),
        *_read(passes, "compactions", _plain_record("compacted", shapes.pass_fields)),
        *_read(events, "events", lambda item: _event_record(item, start)),
    ]
    records.sort(key=lambda record: record.seq)
    if not records or not isinstance(records[0].event, RunStarted):
        raise RecordError("events: the start of the run is missing")
    return records


def changed_messages(document: Json) -> list[int]:
    """Ids of messages that were changed after the export, by the digest that stands beside each.

    The document must be one that `from_native` takes.
    """
    messages: list[Json] = document["messages"]
    digests = [item["extra"].get("digest") for item in messages]
    changed = [i for i, item in enumerate(messages) if digests[i] not in (None, shapes.message_digest(item))]
    if document.get("system", messages[0]["content"]) != messages[0]["content"] and 0 not in changed:
        changed.insert(0, 0)
    return changed


def dump(document: Json) -> bytes:
    """The document's file: UTF-8, each message, request and event on a line of its own, with a newline at its end."""
    fields = [f"{_line(name)}: {_lines(value)}" for name, value in document.items()]
    return "".join(("{\n", ",\n".join(fields), "\n}\n")).encode("utf-8")


def _lines(value: object) -> str:
    if not isinstance(value, list):
        return _line(value)
    return "".join(("[\n", ",\n".join(map(_line, cast("list[object]", value))), "\n]"))


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _info(started: RunStarted, records: Sequence[Record], state: RunState) -> Json:
    """What a run came to. Without an end on record (killed, or still running) `exit_status` and `reason` are null and
    `retryable` is true: the run can be taken up again."""
    ended, ended_at = ending(records) or (None, 0.0)
    end = None if ended is None else END_STATES[ended.reason]
    return {
        "exit_status": None if end is None else end.status,
        "reason": None if ended is None else ended.reason,
        "retryable": end is None or end.retryable,
        "error": None if ended is None else ended.error or None,
        "submission": None if ended is None else ended.submission or None,
        "model": state.setup.model,
        "model_returned": _model_returned(records),
        "version": started.version,
        "run_id": started.run_id,
        "parent": started.parent or None,
        "cwd": started.cwd,
        "started_at": shapes.timestamp(records[0].time),
        "ended_at": None if ended is None else shapes.timestamp(ended_at),
        "config": state.settings or {},
        "context_window": {"tokens": state.window.tokens, "source": state.window.source},
        "model_stats": _totals(state.spend),
    }


def _totals(spend: Spend) -> Json:
    """All that was used, summaries, failed calls and sub-agents included. `instance_cost` null: a price was unknown."""
    counts = shapes.usage_item(spend.usage) or {}
    return {"api_calls": spend.requests, "steps": spend.steps, **counts, "instance_cost": spend.cost_usd}


def _model_returned(records: Sequence[Record]) -> str | None:
    calls = [r.event for r in records if isinstance(r.event, ModelCalled) and r.event.purpose == "step"]
    return next((call.model for call in reversed(calls) if call.model), None)


def _messages(started: RunStarted, records: Sequence[Record]) -> list[Json]:
    extra = {"id": 0, "timestamp": shapes.timestamp(records[0].time)}
    items: list[Json] = [{"role": "system", "content": started.system, "extra": extra}]
    call: ModelCalled | None = None
    for record in records:
        event = record.event
        if isinstance(event, ModelCalled) and event.purpose == "step" and not event.error:
            call = event
        elif isinstance(event, MessageAdded):
            item = shapes.message_item(record_to_json(record), len(items))
            if isinstance(event.message, AssistantMessage) and call is not None:
                item["extra"] |= {"usage": shapes.usage_item(call.usage), "cost_usd": call.cost_usd}
                call = None
            items.append(item)
    return items


def _requests(records: Sequence[Record]) -> list[Json]:
    calls = [record_to_json(record) for record in records if isinstance(record.event, ModelCalled)]
    return [shapes.request_item(data, number) for number, data in enumerate(calls, 1)]


def _compactions(records: Sequence[Record]) -> list[Json]:
    items: list[Json] = []
    summaries = Spend()
    for record in records:
        match record.event:
            case CompactionStarted():
                summaries = Spend()
            case ModelCalled(purpose="summary") as call:
                summaries = summaries.plus(call.usage, call.cost_usd)
            case ModelCalled() as call if items and not call.error and items[-1]["first_usage_after"] is None:
                items[-1]["first_usage_after"] = None if call.estimated else shapes.usage_item(call.usage)
            case Compacted():
                usage = summaries.usage if summaries.requests else None
                data = record_to_json(record)
                items.append(shapes.pass_item(data, summary_usage=usage, summary_cost_usd=summaries.cost_usd))
                summaries = Spend()
            case _:
                pass
    return items


def _events(records: Sequence[Record]) -> list[Json]:
    others = [r for r in records if not isinstance(r.event, MessageAdded | ModelCalled | Compacted)]
    return [shapes.event_item(record_to_json(record)) for record in others]


def _numbered(records: Sequence[Record]) -> Sequence[Record]:
    """The records with numbers that give their order: their own, where these ascend."""
    if all(a.seq < b.seq for a, b in pairwise(records)):
        return records
    return [Record(number, record.time, record.event) for number, record in enumerate(records, 1)]


def _read(items: Sequence[Json], name: str, read: Callable[[Json], Json], *, first: int = 0) -> list[Record]:
    records: list[Record] = []
    for index, item in enumerate(items, first):
        try:
            records.append(record_from_json(read(item)))
        except KeyError as error:
            raise RecordError(f"{name}[{index}]: {error.args[0]!r} is missing") from error
        except (TypeError, ValueError, AttributeError, RecursionError, RecordError) as error:
            raise RecordError(f"{name}[{index}]: {error}") from error
    return records


def _message_record(item: Json) -> Json:
    extra = _object(item["extra"], "extra")
    return _place(extra) | {"event": "message"} | shapes.message_fields(item)


def _plain_record(kind: str, fields: Callable[[Json], Json]) -> Callable[[Json], Json]:
    return lambda item: fields(item) | _place(item) | {"event": kind}


def _event_record(item: Json, start: Json) -> Json:
    """`start` has the fields of the first event that stand elsewhere in the document."""
    elsewhere = start if item["event"] == "run_started" else {}
    return _object(item["data"], "data") | elsewhere | _place(item) | {"event": item["event"]}


def _place(item: Json) -> Json:
    return {"seq": item["seq"], "time": shapes.time_of(item["timestamp"])}


def _object(value: object, where: str) -> Json:
    if not isinstance(value, dict):
        raise RecordError(f"{where}: an object is needed, not {type(value).__name__}")
    return cast(Json, value)
