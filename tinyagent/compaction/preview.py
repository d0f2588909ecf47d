"""One to three lines that stand for an elided output: its exit code and the lines that say what went wrong."""

import re

from tinyagent.core.types import ToolMessage

LINE_LIMIT = 160
_TELLING = re.compile(
    r"\b(errors?|failed|failure|fatal|exception|panic|traceback|assert\w*|not found|undefined|denied|cannot|no such)\b",
    re.IGNORECASE,
)
_COUNTS = re.compile(r"\b\d+ (passed|failed|errors?|tests?|warnings?)\b", re.IGNORECASE)


def preview(message: ToolMessage, *, lines: int = 3) -> str:
    """The telling lines of an output, at most `lines`; "" for `lines` 0. Same input, same text."""
    if lines <= 0:
        return ""
    found = [_exit_line(message)] if "exit_code" in message.facts else []
    body = [line.strip() for line in message.text.splitlines() if line.strip()]
    telling = [line for line in body if _TELLING.search(line) or _COUNTS.search(line)]
    # the last error lines are nearest to the cause's name and the final count
    chosen = telling[-max(0, lines - len(found)) :] if telling else body[:1]
    return "\n".join([*found, *(_shorten(line) for line in chosen)][:lines])


def is_failure(message: ToolMessage) -> bool:
    """Whether the call went wrong, by its facts."""
    return message.is_error or ("exit_code" in message.facts and message.facts["exit_code"] != 0)


def _exit_line(message: ToolMessage) -> str:
    code = message.facts.get("exit_code")
    return "[stopped at its time limit]" if code is None else f"[exit code {code}]"


def _shorten(line: str) -> str:
    return line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…"
