"""JSON as servers really send it, read without surprises, and written the same way every time."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from tinyagent.core.types import Json, ToolCall

UNREADABLE_CHARS = 500  # of a broken call's text that the model is shown again
DEEPEST_ARGUMENTS = 100
ID_CHARS = 64  # OpenAI refuses longer call ids and tool names
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
SPACED_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False)
ESCAPES = ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\t", b"\\t"), (b"\r", b"\\r"))
CONTROLS = bytes(c for c in range(32) if c not in b"\n\t\r")
ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")  # Anthropic: ^[a-zA-Z0-9_-]+$


def dump(value: object) -> bytes:
    """Compact JSON in UTF-8. Lone surrogates, which no server accepts, become "?"."""
    return ENCODER.encode(value).encode("utf-8", "replace")


def dump_text(text: str) -> bytes:
    """As `dump`, in less than half of its time: almost all of a body is text."""
    data = text.encode("utf-8", "replace")
    if len(data.translate(None, CONTROLS)) < len(data):
        return dump(text)
    for plain, escaped in ESCAPES:
        data = data.replace(plain, escaped)
    return b'"%b"' % data


def dump_arguments(arguments: Json) -> str:
    """Arguments as text with spaces, as models write it themselves: so a server's prompt cache still matches."""
    return SPACED_ENCODER.encode(arguments)


def load(text: str | bytes) -> object:
    """Any JSON value; NaN and infinities become null. Raises ValueError for what is no JSON."""
    try:
        return json.loads(text, strict=False, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error


def as_object(value: object) -> Json:
    """The value if it is a JSON object, else an empty one."""
    return cast(Json, value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """The value if it is a JSON array, else an empty one."""
    return cast(list[object], value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """A token count: 0 for anything that is not a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or value == float("inf"):
        return 0
    return int(value)


def as_cost(value: object) -> float | None:
    """A cost in USD; None for anything that is not a number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        cost = float(value)
    except ValueError:
        return None
    return cost if 0 <= cost < float("inf") else None


def read_call(call_id: str, name: str, arguments: object, *, cut: bool = False) -> ToolCall:
    """A tool call as a server sent it. What is not a JSON object is kept as text with a problem, never repaired.

    `cut`: the reply hit its output limit, so that arguments which cannot be read were cut off. Raw control characters
    inside strings are read as they stand.
    """
    raw = arguments if isinstance(arguments, str) else ""
    try:
        value = _read_arguments(arguments)
    except ValueError as error:
        return ToolCall(call_id, name, None, "cut" if cut else f"the arguments are {error}", raw)
    if _is_deep(value):
        return ToolCall(call_id, name, None, "the arguments are nested too deeply", raw)
    if not isinstance(value, dict):
        problem = "cut" if cut else "the arguments are not a JSON object"
        return ToolCall(call_id, name, None, problem, raw or dump(value).decode())
    return ToolCall(call_id, name, as_object(cast(object, value)))


def with_unique_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls of one reply with ids that are present and differ; ids that already are good stay."""
    given = {call.id for call in calls}
    taken: set[str] = set()
    unique: list[ToolCall] = []
    for number, call in enumerate(calls, 1):
        stem, suffix, call_id = call.id or "call", number, call.id
        while not call_id or call_id in taken:
            candidate = f"{stem}_{suffix}"
            call_id, suffix = ("" if candidate in given else candidate), suffix + 1
        taken.add(call_id)
        unique.append(call if call_id == call.id else replace(call, id=call_id))
    return tuple(unique)


def sent_arguments(call: ToolCall) -> Json:
    """The arguments to send back: always an object, also for a call that could not be read.

    A server that parses history fails on broken JSON at every later request (llama.cpp answers 500).
    """
    if call.arguments is not None:
        return call.arguments
    return {"unreadable_arguments": call.raw[:UNREADABLE_CHARS]}


def legal_id(call_id: str) -> str:
    """The id in letters that every API takes, at most 64: the same for the same id, different for different ones."""
    if call_id and len(call_id) <= ID_CHARS and not ILLEGAL.search(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{ILLEGAL.sub('_', call_id)[: ID_CHARS - 13] or 'call'}_{digest}"


def legal_name(name: str) -> str:
    """A tool name that every API takes back, also where the model made one up ("functions.bash")."""
    return ILLEGAL.sub("_", name)[:ID_CHARS] or "unnamed"


def _read_arguments(arguments: object) -> object:
    """The value, parsed if it came as text. Raises ValueError that says what the arguments are."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        raise ValueError("empty")
    try:
        return json.loads(arguments, strict=False, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from error


def _is_deep(value: object) -> bool:
    """Whether a value is nested deeper than any tool's arguments, so that writing it could exhaust the stack."""
    level: list[object] = [value]
    for _ in range(DEEPEST_ARGUMENTS):
        level = [
            item
            for holder in level
            for item in (as_list(holder) or as_object(holder).values())
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
