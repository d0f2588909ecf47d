"""The things that the page shows, as JSON values; `k` says what one is."""

from typing import cast

from tinyagent.compaction.explain import pass_line
from tinyagent.core.codec import encode
from tinyagent.core.errors import END_STATES
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    CompactionFailed,
    ModelCalled,
    RunEnded,
    RunResumed,
    RunStarted,
)
from tinyagent.core.types import AssistantMessage, Json, Message, ToolCall, ToolMessage, UserMessage
from tinyagent.trajectory.rows import NoteRow

_LABEL_CHARS = 90
_TELLING = ("command", "path", "pattern", "prompt", "id")


def system(event: RunStarted) -> Json:
    return {
        "k": "system",
        "text": event.system,
        "tools": encode(event.tools),
        "settings": {"options": event.setup.options, **event.settings},
        "files": event.context_files,
    }


def resumed(event: RunResumed) -> Json:
    origin = f", as a copy of {event.forked_from}" if event.forked_from else ""
    return {"k": "note", "text": f"The run was taken up again with {event.setup.model}{origin}."}


def message(added: Message, message_id: int) -> Json:
    match added:
        case UserMessage():
            return {"k": "user", "id": message_id, "kind": added.kind, "text": added.text}
        case AssistantMessage():
            calls = [_call(call) for call in added.tool_calls]
            reply = {"k": "reply", "id": message_id, "text": added.text, "reasoning": added.reasoning, "calls": calls}
            return reply | ({} if added.stop in ("end", "tool_calls") else {"stop": added.stop})
        case ToolMessage():
            return {
                "k": "result",
                "id": message_id,
                "call": added.call_id,
                "tool": added.tool,
                "text": added.text,
                "error": added.is_error,
                "output": added.output_id,
                "facts": dict(added.facts),
            }


def label(added: Message) -> Json:
    """A message in one short line, for the list of steps: its first call, or its text."""
    match added:
        case AssistantMessage(tool_calls=(call, *_)):
            return {"tool": _short(call.name), "label": _short(_telling(call))}
        case _:
            return {"label": _short(added.text)}


def request(event: ModelCalled) -> Json:
    """The row of a request; what is unknown or 0 is left out by the caller. `size` is its prompt in tokens."""
    usage = event.usage
    return {
        "step": event.step,
        "summary": event.purpose == "summary" or None,
        "size": event.estimate if usage is None or event.error else usage.input_tokens,
        "estimated": (usage is None or event.estimated) or None,
        "cached": usage and usage.cache_read_tokens,
        "output": usage and usage.output_tokens,
        "cost": event.cost_usd,
        "free": (event.cost_usd == 0) or None,
        "s": round(event.duration_s, 3),
        "attempts": event.attempts if event.attempts > 1 else None,
        "error": event.error,
        "cap": event.max_output_tokens,
        "digest": event.digest[:12],
    }


def call(event: ModelCalled, number: int) -> Json:
    """A request that has no reply in the log: failed, or for a summary, which has a system text of its own."""
    return {"k": "call", "n": number, "summary": event.purpose == "summary", "error": event.error, "own": event.request}


def passed(event: Compacted, number: int) -> Json:
    return {
        "k": "pass",
        "n": number,
        "trigger": event.trigger,
        "stages": event.stages,
        "before": event.tokens_before,
        "after": event.tokens_after,
        "elided": event.elided,
        "clipped": event.clipped,
        "summarized": event.summarized,
        "pruned": event.pruned,
        "pruned_turns": event.pruned_turns,
        "summary": event.summary,
        "replaced": {str(message_id): text for message_id, text in event.replaced.items()},
        "attempts": encode(event.attempts),
    }


def failed_pass(event: CompactionFailed) -> Json:
    return {"k": "failed_pass", "trigger": event.trigger, "why": event.why, "attempts": encode(event.attempts)}


def pass_label(event: Compacted | CompactionFailed) -> str:
    """What a pass did, in short."""
    return pass_line(event).partition(": ")[2] if isinstance(event, Compacted) else event.why


def child(event: ChildEnded) -> Json:
    return {
        "run": event.run_id,
        "words": END_STATES[event.reason].words,
        "requests": event.requests,
        "tokens": event.usage.input_tokens,
        "cost": event.cost_usd,
    }


def ended(event: RunEnded) -> Json:
    end = END_STATES[event.reason]
    return {
        "k": "end",
        "status": end.status,
        "words": end.words,
        "error": event.error,
        "submission": event.submission,
    }


def note(row: NoteRow) -> Json:
    return {"k": "note", "text": row.text, "detail": row.detail}


def _call(call: ToolCall) -> Json:
    if call.arguments is None:
        return {"id": call.id, "name": call.name, "problem": call.problem, "raw": call.raw}
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _telling(call: ToolCall) -> str:
    """The argument that says most about a call."""
    arguments = call.arguments
    if arguments is None:
        return call.raw
    values = (arguments[name] for name in _TELLING if isinstance(arguments.get(name), str))
    return cast(str, next(values, "")) or ", ".join(_sized(name, value) for name, value in arguments.items())


def _sized(name: str, value: object) -> str:
    return f"{len(cast('list[object]', value))} {name}" if isinstance(value, list) else f"{name} {value}"


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _LABEL_CHARS].split())
    return line if len(line) <= _LABEL_CHARS else line[: _LABEL_CHARS - 1] + "…"
