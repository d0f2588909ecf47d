"""Reading documents that other programs wrote: lenient about what is missing, never about what a value is."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar, cast, get_args, get_type_hints

from tinyagent.core.errors import RecordError
from tinyagent.core.events import Event, MessageAdded, ModelCalled, Record
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import (
    AssistantMessage,
    Facts,
    Json,
    Message,
    ToolCall,
    ToolMessage,
    Usage,
    UserKind,
    UserMessage,
)
from tinyagent.core.view import with_unique_ids

T = TypeVar("T")

_NO_COUNT = 1 << 62


class Recorder:
    """Puts events into a list of records, with times that never go back and call ids that are unique.

    `open_calls` are those of the last reply that have no result yet.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.messages: list[Message] = []
        self.steps = 0
        self.open_calls: list[ToolCall] = []
        self._time = 0.0
        self._ids: set[str] = set()
        self._new_ids: dict[str, str] = {}

    def add(self, event: Event, *, time: float | None = None) -> None:
        self._time = max(self._time, time or 0.0)
        self.records.append(Record(len(self.records) + 1, self._time, event))

    def say(self, message: Message, *, time: float | None = None) -> None:
        """A message; the call ids of a reply may be changed, and its results follow suit."""
        if isinstance(message, AssistantMessage):
            original, message = message, with_unique_ids(message, self._ids)
            self._new_ids = {a.id: b.id for a, b in zip(original.tool_calls, message.tool_calls, strict=True)}
            self._ids.update(call.id for call in message.tool_calls)
            self.open_calls = list(message.tool_calls)
        self.messages.append(message)
        self.add(MessageAdded(message, message_tokens(message), self.steps), time=time)

    def say_as_user(self, text: str, kind: object, *, time: float | None = None) -> None:
        """A message in the user's role. Where the document has no kind for it, the first one is the task."""
        default: UserKind = "user" if self.messages else "task"
        self.say(UserMessage(text, one_of(kind, get_args(UserKind), default)), time=time)

    def called(self, usage: Usage | None, cost_usd: float | None, *, time: float | None = None, **more: Any) -> None:
        """An answered request of the next step; `more` are further fields of ModelCalled.

        No digest: the format does not hold all that was sent, so there is nothing to prove it by.
        """
        self.steps += 1
        size = 0 if usage is None else usage.input_tokens
        fields: Json = {"estimate": size, "usage": usage, "cost_usd": cost_usd, **more}
        self.add(ModelCalled("step", self.steps, "", **fields), time=time)

    def take_call(self, call_id: object) -> ToolCall | None:
        """The open call that a result belongs to: by its id, or the oldest if the result names none."""
        name = None if call_id is None else self._new_ids.get(str(call_id), str(call_id))
        for call in self.open_calls:
            if name is None or call.id == name:
                self.open_calls.remove(call)
                return call
        return None

    def answer(self, call: ToolCall | None, text: str, extra: Json, *, time: float | None = None) -> None:
        """What came of a call, with what our own exports tell in `extra`; without one, what the agent was told."""
        if call is None:
            self.say(UserMessage(text, "notice"), time=time)
            return
        is_error, output_id = extra.get("is_error") is True, str(extra.get("output_id") or "")
        self.say(ToolMessage(call.id, call.name, text, is_error, output_id, facts_of(extra.get("facts"))), time=time)


def an_object(value: object, place: str) -> Json:
    """An object; nothing counts as an empty one. Raises RecordError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RecordError(f"{place}: an object is needed, not {type(value).__name__}")
    return cast(Json, value)


def if_object(value: object) -> Json:
    """The value if it is an object, else an empty one."""
    return cast(Json, value) if isinstance(value, dict) else {}


def objects(value: object, place: str) -> list[Json]:
    """A list of objects; nothing counts as an empty one. Raises RecordError."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordError(f"{place}: a list is needed, not {type(value).__name__}")
    return [an_object(item, f"{place}[{index}]") for index, item in enumerate(cast("list[Any]", value))]


def text_of(content: object) -> str:
    """A text, or the texts of a list of content parts, with a word in place of each image."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(part for part in map(_part, cast("list[Any]", content)) if part)
    return json.dumps(content, ensure_ascii=False)


def number(value: object) -> float | None:
    """A number that is not negative and could be a count, a price or a time, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _NO_COUNT:
        return None
    return float(value)


def count(value: object) -> int:
    """A count, 0 for what is none."""
    return int(number(value) or 0)


def facts_of(value: object) -> Facts:
    """Those facts of a call that are what they should be."""
    given, plain = if_object(value), (str, int, bool)
    types = {name: kind for name, kind in get_type_hints(Facts).items() if kind in plain}
    facts: Json = {name: given[name] for name, kind in types.items() if type(given.get(name)) is kind}
    code, plan = given.get("exit_code", ""), given.get("plan")
    if code is None or type(code) is int:
        facts["exit_code"] = code
    if isinstance(plan, list):
        facts["plan"] = [item for item in cast("list[Any]", plan) if isinstance(item, dict)]
    return cast(Facts, facts)


def one_of(value: object, allowed: Iterable[T], default: T) -> T:
    """The value, if it is one of those that are known."""
    return next((known for known in allowed if known == value), default)


def seconds(value: object) -> float | None:
    """UTC seconds since 1970 of an ISO 8601 text or of such a number; None for anything else."""
    if not isinstance(value, str):
        return number(value)
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError):
        return None


def call_of(call_id: object, name: object, arguments: object) -> ToolCall:
    """A call whose arguments may be an object, the text of one, or neither."""
    known_id, tool = str(call_id or "call"), str(name or "")
    if isinstance(arguments, dict):
        return ToolCall(known_id, tool, cast(Json, arguments))
    raw = text_of(arguments)
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return ToolCall(known_id, tool, cast(Json, value))
    return ToolCall(known_id, tool, None, "the arguments are not a JSON object", raw)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    fields = cast(Json, part)
    text = fields.get("text")
    if isinstance(text, str):
        return text
    kind = str(fields.get("type", ""))
    return f"[{kind}]" if kind else ""
