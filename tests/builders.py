"""Short ways to write the core's values in tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tinyagent.core.errors import ErrorKind, ModelError
from tinyagent.core.types import (
    AssistantMessage,
    Json,
    Message,
    Request,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserKind,
    UserMessage,
)

BASH = ToolSpec(
    "bash",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


def user(text: str, kind: UserKind = "user") -> UserMessage:
    return UserMessage(text, kind)


def task(text: str = "Fix the failing test.") -> UserMessage:
    return UserMessage(text, "task")


def call(call_id: str = "c1", name: str = "bash", **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, arguments or {"command": "ls"})


def assistant(text: str = "", *calls: ToolCall, stop: StopReason | None = None) -> AssistantMessage:
    return AssistantMessage(text, calls, stop or ("tool_calls" if calls else "end"))


def result(call_id: str = "c1", text: str = "ok", *, tool: str = "bash", is_error: bool = False) -> ToolMessage:
    return ToolMessage(call_id, tool, text, is_error)


def turns(number: int, *, chars: int = 40) -> list[Message]:
    """A task and that many turns of one call and its result."""
    messages: list[Message] = [task()]
    for n in range(1, number + 1):
        messages += [
            assistant(f"step {n}", call(f"c{n}", command=f"cat {n}.txt")),
            result(f"c{n}", f"{n} " * (chars // 2)),
        ]
    return messages


def request(
    *messages: Message,
    system: str = "You are a coding agent.",
    tools: tuple[ToolSpec, ...] = (BASH,),
    max_output_tokens: int | None = None,
) -> Request:
    return Request(system, messages or (task(),), tools, max_output_tokens)


def usage(input_tokens: int = 100, output_tokens: int = 10, **more: int) -> Usage:
    return Usage(input_tokens, output_tokens, **more)


@contextmanager
def raises_model_error(kind: ErrorKind) -> Iterator[pytest.ExceptionInfo[ModelError]]:
    """`pytest.raises` for a ModelError of one kind."""
    with pytest.raises(ModelError) as caught:
        yield caught
    assert caught.value.kind == kind, caught.value


class Clock:
    """A clock that only moves when somebody sleeps; `waits` are the sleeps so far."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def json_object(value: object) -> Json:
    """The value, checked to be a JSON object."""
    assert isinstance(value, dict)
    return value
