"""One to three lines that stand for an elided output: its exit code and the lines that say what went wrong."""

import re

from tinyagent.core.types import ToolMessage

LINE_LIMIT = 160
_WORDS = (
    *("error", "failed", "failure", "fatal", "exception", "panic", "traceback", "assert"),
    *("not found", "undefined", "denied", "cannot", "no such"),
)
_COUNTED = ("passed", "failed", "error", "test", "warning")
_TELLING = re.compile(rf"\b(?:{'|'.join(_WORDS)})|\b\d+ (?:{'|'.join(_COUNTED)})s?\b")


def preview(message: ToolMessage, *, lines: int = 3) -> str:
    """The telling lines of an output, at most `lines`; "" for `lines` 0. Same input, same text."""
    if lines <= 0:
        return ""
    found = [_exit_line(message)] if "exit_code" in message.facts else []
    # the last error lines are nearest to the cause's name and the final count
    telling = _last_telling(message.text, most=max(0, lines - len(found)))
    chosen = telling or _first_line(message.text)
    return "\n".join([*found, *(_shorten(line) for line in chosen)][:lines])


def is_failure(message: ToolMessage) -> bool:
    """Whether the call went wrong, by its facts."""
    return message.is_error or ("exit_code" in message.facts and message.facts["exit_code"] != 0)


def _exit_line(message: ToolMessage) -> str:
    code = message.facts.get("exit_code")
    return "[stopped at its time limit]" if code is None else f"[exit code {code}]"


def _shorten(line: str) -> str:
    return line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…"


def _last_telling(text: str, *, most: int) -> list[str]:
    """From the end, and only if one of the words is there at all: outputs are long and mostly say nothing."""
    lowered = text.lower()
    if not any(word in lowered for word in (*_WORDS, *_COUNTED)):
        return []
    found: list[str] = []
    for line in reversed(text.splitlines()):
        if len(found) == most:
            break
        if _TELLING.search(line.lower()):
            found.append(line.strip())
    return found[::-1]


def _first_line(text: str) -> list[str]:
    return [text.strip().split("\n", 1)[0].rstrip()] if text.strip() else []
