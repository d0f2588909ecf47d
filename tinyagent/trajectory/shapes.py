"""How each kind of journal record looks in the exported document, and the way back: pairs of pure functions.

The journal form of a record is that of `core.events.record_to_json`. Every item keeps the record's `seq` and time, so
that the document's lists can be put together again in their order.
"""

import hashlib
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import cast

from tinyagent.core.types import Json, Usage

# What `extra` holds beside the fields of the message itself, which stand there under their own names.
_EXTRA_ONLY = {"id", "seq", "timestamp", "step", "tokens", "usage", "cost_usd", "digest", "exit_code", "facts"}
SYSTEM_ID = 0
_PLACE = {"seq", "time", "event"}
_LATEST_TIME = 253402300799.0  # year 9999, the last that ISO 8601 and datetime can name


def timestamp(time: float) -> str:
    """ISO 8601 in UTC with milliseconds; the nearest that can be named for a time out of range."""
    known = min(max(time, 0.0), _LATEST_TIME) if math.isfinite(time) else 0.0
    return datetime.fromtimestamp(round(known, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of(text: str) -> float:
    """Seconds since 1970 of such a timestamp. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()


def usage_item(usage: Usage | None) -> Json | None:
    """All five counts, also those that are 0; None where nothing is known."""
    return None if usage is None else asdict(usage)


def message_item(data: Json, message_id: int) -> Json:
    """A message in the form that chat programs share, with everything else in `extra`."""
    message: Json = data["message"]
    role: str = message["role"]
    extra = {
        "id": message_id,
        "seq": data["seq"],
        "timestamp": timestamp(data["time"]),
        "step": data.get("step", 0),
        "tokens": data["tokens"],
    }
    item: Json = {"role": role, "content": message["text"]}
    apart = {"role", "text"}
    match role:
        case "assistant":
            apart |= {"tool_calls"}
            if "tool_calls" in message:
                item["tool_calls"] = [call_item(call) for call in message["tool_calls"]]
            extra["stop"] = message.get("stop", "end")
        case "tool":
            apart |= {"call_id", "tool", "facts"}
            item |= {"tool_call_id": message["call_id"], "name": message["tool"]}
            extra |= _facts_item(message.get("facts", {}))
        case _:
            extra["kind"] = message.get("kind", "user")
    return item | {"extra": extra | _without(message, apart)}


def message_fields(item: Json) -> Json:
    """The journal's fields for such a message. Raises KeyError, TypeError or ValueError."""
    extra: Json = item["extra"]
    role: str = item["role"]
    message: Json = _without(extra, _EXTRA_ONLY) | {"role": role, "text": item["content"]}
    match role:
        case "assistant":
            message["tool_calls"] = [_call_fields(call) for call in cast("list[Json]", item.get("tool_calls") or [])]
        case "tool":
            message |= {"call_id": item["tool_call_id"], "tool": item["name"], "facts": _facts_fields(extra)}
        case "user":
            message["kind"] = extra["kind"]
        case _:
            raise ValueError(f"the role {role!r} is not known")
    return {"message": message, "tokens": extra["tokens"], "step": extra["step"]}


def call_item(call: Json) -> Json:
    """A call as chat programs write it: arguments as text. `problem` is there if and only if they were not readable."""
    arguments: Json | None = call["arguments"]
    raw: str = call.get("raw", "")
    text = raw if arguments is None else json.dumps(arguments, ensure_ascii=False)
    item: Json = {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": text}}
    return item | ({"problem": call.get("problem", "")} if arguments is None else {})


def message_digest(item: Json) -> str:
    """A fingerprint of all that is sent of a message, by which a later change of the document is noticed."""
    extra: Json = item["extra"]
    sent = [item["role"], item["content"], item.get("tool_calls"), item.get("tool_call_id"), extra.get("wire")]
    text = json.dumps(sent, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def request_item(data: Json, number: int) -> Json:
    """A request: what it was for, the digest of its body, what it cost. `number` counts from 1."""
    usage: Json | None = data.get("usage")
    return {
        "number": number,
        "seq": data["seq"],
        "timestamp": timestamp(data["time"]),
        **_without(data, {*_PLACE, "duration_s"}),
        "usage": None if usage is None else asdict(Usage()) | usage,
        "cost_usd": data.get("cost_usd"),
        "seconds": data.get("duration_s", 0.0),
        "max_output_tokens": data.get("max_output_tokens"),
    }


def request_fields(item: Json) -> Json:
    """The journal's fields for such a request."""
    return _without(item, {"number", "seconds"}) | {"duration_s": item["seconds"]}


def pass_item(data: Json, *, summary_usage: Usage | None, summary_cost_usd: float | None) -> Json:
    """A change of the view. `stage` is the deepest rung of `stages`; `summary_cost_usd` None: the price is unknown.

    `view` begins with 0: the system prompt is the first of the document's messages and is sent with every request.
    """
    stages: list[str] = data["stages"]
    return {
        "seq": data["seq"],
        "timestamp": timestamp(data["time"]),
        "step": data["step"],
        "reason": data["trigger"],
        "stage": _deepest(stages),
        "stages": stages,
        "tokens_before": data["tokens_before"],
        "tokens_after": data["tokens_after"],
        "elided": data.get("elided", []),
        "clipped": data.get("clipped", []),
        "summarized": data.get("summarized", []),
        "pruned": data.get("pruned", []),
        "pruned_turns": data.get("pruned_turns", 0),
        "summary": data.get("summary"),
        "summary_cost_usd": summary_cost_usd,
        "summary_usage": usage_item(summary_usage),
        "attempts": data.get("attempts", []),
        "first_usage_after": None,
        "strip_reasoning": data.get("strip_reasoning", False),
        "view": [SYSTEM_ID, *data["view"]],
        "replaced": data.get("replaced", {}),
        **_without(data, {*_PLACE, "trigger", "view"}),
    }


def pass_fields(item: Json) -> Json:
    """The journal's fields for such a change."""
    return item | {"trigger": item["reason"], "view": [i for i in item["view"] if i != SYSTEM_ID]}


def event_item(data: Json) -> Json:
    """Any other event. The system prompt and the tools of a run's start have their own places in the document."""
    fields = _without(data, _PLACE | ({"system", "tools"} if data["event"] == "run_started" else set[str]()))
    return {"seq": data["seq"], "timestamp": timestamp(data["time"]), "event": data["event"], "data": fields}


def _without(data: Json, names: Collection[str]) -> Json:
    return {name: value for name, value in data.items() if name not in names}


def _call_fields(item: Json) -> Json:
    function: Json = item["function"]
    text: str = function["arguments"]
    call: Json = {"id": item["id"], "name": function["name"]}
    if "problem" in item:
        return call | {"arguments": None, "problem": item["problem"], "raw": text}
    arguments: object = json.loads(text)
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of call {item['id']} are not an object")
    return call | {"arguments": cast(Json, arguments)}


def _facts_item(facts: Json) -> Json:
    """The exit code stands where scripts look for it; the other facts stay together."""
    others = _without(facts, {"exit_code"})
    code = {"exit_code": facts["exit_code"]} if "exit_code" in facts else {}
    return code | ({"facts": others} if others else {})


def _facts_fields(extra: Json) -> Json:
    code = {"exit_code": extra["exit_code"]} if "exit_code" in extra else {}
    return code | extra.get("facts", {})


def _deepest(stages: Sequence[str]) -> str:
    ladder = ("clip", "elide", "summarize", "prune")
    return max(stages, key=lambda stage: ladder.index(stage) if stage in ladder else len(ladder), default="")
