"""A model that plays a list: for the demo, for tests and for batches without a server."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinyagent.core.errors import ConfigError, ModelError
from tinyagent.core.types import AssistantMessage, Json, Message, Request, Response, ToolCall, ToolMessage, Usage
from tinyagent.models.payload import as_list, as_object, as_text, dump, dump_arguments

SCRIPTED = "scripted"
HEADINGS = (
    "Task",
    "Constraints",
    "Progress so far",
    "Files changed",
    "Key decisions",
    "Open problems",
    "Next steps",
)
QUOTED_CHARS = 200  # of the source in a made-up summary


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply. A call is a tool's name and its arguments."""

    text: str = ""
    calls: tuple[tuple[str, Json], ...] = ()


ScriptItem = ScriptedReply | ModelError | Callable[[Request], ScriptedReply]


class ScriptedModel:
    """Plays `replies` in order, from `start` on; an error among them is raised, a function is asked.

    A request without tools is taken for a summary request and answered with a made-up summary, which uses up no reply.
    `count` counts the tokens of a text. With a `window`, a request that is larger is refused like a server does it.
    """

    def __init__(
        self,
        name: str,
        replies: Sequence[ScriptItem],
        *,
        window: int | None = None,
        count: Callable[[str], int] = lambda text: len(text) // 4 + 1,
        start: int = 0,
    ) -> None:
        self._name = name
        self._replies = replies
        self._window = window
        self._count = count
        self._next = start

    @property
    def name(self) -> str:
        return self._name

    def options(self) -> Json:
        return {"api": SCRIPTED, "model": self._name}

    def adjust(self, parameter: str) -> bool:
        return False

    def complete(
        self, request: Request, *, on_text: Callable[[str], None] | None = None, timeout_s: float | None = None
    ) -> Response:
        body = encode_neutral(request)
        digest = hashlib.sha256(body).hexdigest()
        prompt = self._count(body.decode())
        if self._window is not None and prompt > self._window:
            words = f"prompt is too long: {prompt} tokens > {self._window} maximum"
            raise ModelError(words, kind="overflow", window=self._window, prompt_tokens=prompt, digest=digest)
        reply = self._reply(request, digest)
        message = _message(reply, number=self._next)
        if reply.text and on_text is not None:
            on_text(reply.text)
        output = self._count(reply.text + "".join(name + dump_arguments(arguments) for name, arguments in reply.calls))
        return Response(message, Usage(prompt, output), output, model=self._name, digest=digest)

    def _reply(self, request: Request, digest: str) -> ScriptedReply:
        if not request.tools:
            return ScriptedReply(made_up_summary(request))
        if self._next >= len(self._replies):
            words = f"the script of {self._name} has only {len(self._replies)} replies"
            raise ModelError(words, kind="bad_request", digest=digest)
        item = self._replies[self._next]
        self._next += 1
        if isinstance(item, ModelError):
            item.digest = digest
            raise item
        return item if isinstance(item, ScriptedReply) else item(request)


def read_script(path: Path) -> list[ScriptItem]:
    """The replies in a JSON file. Raises ConfigError that names the file."""
    try:
        return script_of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as a script: {error}") from error


def script_of(items: object) -> list[ScriptItem]:
    """Replies from a list of {"tool", "arguments"}, {"calls": [those]} and {"final"} or {"text"} objects.

    `text` may stand beside calls. Raises ValueError with the number of the item that is none of these.
    """
    if not isinstance(items, list):
        raise ValueError("a script is a list")
    return [_scripted_reply(as_object(item), number) for number, item in enumerate(as_list(items), 1)]  # pyright: ignore[reportUnknownArgumentType]


def encode_neutral(request: Request) -> bytes:
    """A request as JSON in our own terms, which stands in for a body on a wire."""
    return dump(
        {
            "system": request.system,
            "messages": [_neutral(message) for message in request.messages],
            "tools": [
                {"name": t.name, "description": t.description, "parameters": t.parameters} for t in request.tools
            ],
            "max_output_tokens": request.max_output_tokens,
        }
    )


def made_up_summary(request: Request) -> str:
    """A well-formed summary that says nothing wrong: every heading, and the beginning of what was to be summarised."""
    source = " ".join(request.messages[-1].text.split()) if request.messages else ""
    count = sum(len(message.text) for message in request.messages)
    words = {
        "Task": source[:QUOTED_CHARS] or "None given.",
        "Progress so far": f"The earlier steps, {count:,} characters in all, are summarised here by a script.",
        "Next steps": "Go on with the task.",
    }
    return "\n\n".join(f"## {heading}\n{words.get(heading, 'None noted.')}" for heading in HEADINGS)


def _message(reply: ScriptedReply, *, number: int) -> AssistantMessage:
    calls = tuple(ToolCall(f"call_{number}_{n}", name, arguments) for n, (name, arguments) in enumerate(reply.calls, 1))
    return AssistantMessage(reply.text, calls, stop="tool_calls" if calls else "end")


def _scripted_reply(item: Json, number: int) -> ScriptedReply:
    calls = [as_object(call) for call in as_list(item.get("calls"))] or ([item] if "tool" in item else [])
    text = as_text(item.get("final")) or as_text(item.get("text"))
    if not calls and not text:
        raise ValueError(f'item {number} has no "tool", "calls", "text" or "final"')
    return ScriptedReply(text, tuple((as_text(call.get("tool")), as_object(call.get("arguments"))) for call in calls))


def _neutral(message: Message) -> Json:
    match message:
        case AssistantMessage():
            calls = [{"id": c.id, "name": c.name, "arguments": c.arguments, "raw": c.raw} for c in message.tool_calls]
            return {"role": "assistant", "text": message.text, "tool_calls": calls}
        case ToolMessage():
            return {"role": "tool", "id": message.call_id, "text": message.text, "is_error": message.is_error}
        case _:
            return {"role": "user", "text": message.text}
