"""The summary request: what it shows, within what budget, and which answers are accepted."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tinyagent.core.clip import clip
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import AssistantMessage, Message, Request, ToolMessage, ToolSpec, UserMessage

HEADINGS = (
    "Task",
    "Constraints",
    "Progress so far",
    "Files changed",
    "Key decisions",
    "Open problems",
    "Next steps",
)
_MIN_HEADINGS = 4  # of seven: small models leave out those they have nothing to say under
_FIELD_CHARS = (4000, 1500, 600, 200, 80)  # tried in this order until the whole fits
_HEADING = re.compile(r"^\s*(?:#{1,4}|\*\*)?\s*(?:\d+[.)]\s*)?(" + "|".join(HEADINGS) + r")\b[ \t:*_]*", re.I | re.M)


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """What one summary covers. `earlier` is the narrative of the last summary, "" without one."""

    task: str
    earlier: str
    older: tuple[Message, ...]
    recent: tuple[Message, ...]


def transcript_request(
    work: SummaryTask, *, prompt: str, input_tokens: int, output_tokens: int, ratio: float, smaller: bool = False
) -> Request | None:
    """A request without tools that shows the older messages as text; None if no form of it fits.

    `input_tokens` is what the summariser's window has room for; `ratio` is tokens per raw token. `smaller` takes the
    next shorter form than the first that fits: a second try never sends the same bytes (kcode PR#836).
    """
    first = ""
    for field_chars in _FIELD_CHARS:
        text = _render(work, field_chars, output_tokens)
        if text == first or (estimate_text(text) + estimate_text(prompt)) * ratio > input_tokens:
            continue
        if first or not smaller:
            return Request(prompt, (UserMessage(text),), (), output_tokens)
        first = text
    return None


def prefix_request(
    system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], *, prompt: str, output_tokens: int
) -> Request:
    """The live prefix with one instruction appended: the provider's cache already holds all but that."""
    return Request(system, (*messages, UserMessage(prompt, "notice")), tuple(tools), output_tokens)


def reason_to_reject(reply: AssistantMessage, *, max_tokens: int, source_tokens: int) -> str:
    """Why this answer cannot serve as a summary; "" if it can. Sizes are raw tokens."""
    text = reply.text.strip()
    if reply.tool_calls:
        return "it called a tool"
    if not text:
        return "only reasoning" if reply.reasoning else "empty"
    if reply.stop == "refusal":
        return "refused"
    if reply.stop != "end":
        return "cut off"
    if len(_filled_headings(text)) < _MIN_HEADINGS:
        return "the headings are missing or empty"
    size = estimate_text(text)
    if size > max_tokens:
        return f"too long (~{size} of {max_tokens} tokens)"
    if size >= source_tokens:
        return "not smaller than what it summarizes"
    return ""


def _filled_headings(text: str) -> set[str]:
    """Headings that have something beside or under them."""
    found = list(_HEADING.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {m.group(1).lower() for m, end in zip(found, ends, strict=False) if text[m.end() : end].strip()}


def _render(work: SummaryTask, field_chars: int, output_tokens: int) -> str:
    parts = [f"<task>\n{clip(work.task, 4 * field_chars)}\n</task>"]
    if work.earlier:
        parts.append(f"<earlier_notes>\n{work.earlier}\n</earlier_notes>")
    parts.append(f"<transcript>\n{_transcript(work.older, field_chars)}\n</transcript>")
    if work.recent:
        recent = _transcript(work.recent, min(field_chars, 400))
        parts.append(
            "The agent keeps these newer messages as they are; they only show you what came next:\n"
            f"<kept>\n{recent}\n</kept>"
        )
    words = output_tokens // 5  # the answer may be half the output, as reasoning counts too, and a word two tokens
    parts.append(f"Now write the notes, in at most {words} words.")
    return "\n\n".join(parts)


def _transcript(messages: Sequence[Message], field_chars: int) -> str:
    return "\n".join(line for message in messages for line in _lines(message, field_chars))


def _lines(message: Message, field_chars: int) -> list[str]:
    match message:
        case UserMessage(kind="summary" | "notice"):
            return []  # given as earlier notes, or words of ours that ask for nothing any more
        case UserMessage():
            return [f"[user] {clip(message.text, field_chars)}"]
        case AssistantMessage():
            said = [f"[agent] {clip(message.text.strip(), field_chars)}"] if message.text.strip() else []
            calls = [f"[call] {c.name} {clip(_arguments(c.arguments, c.raw), field_chars)}" for c in message.tool_calls]
            return said + calls
        case ToolMessage():
            mark = "error" if message.is_error else "result"
            return [f"[{mark}] {clip(message.text, field_chars)}"]


def _arguments(arguments: object, raw: str) -> str:
    return raw if arguments is None else json.dumps(arguments, ensure_ascii=False)
