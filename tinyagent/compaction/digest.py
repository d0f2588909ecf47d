"""What can be said of older messages without a model: files, commands, last test result, user's words, plan.

Models get exactly these wrong in summaries, so they are taken from the facts of the log. Everything is bounded, newest
kept, and identifiers stand as they were.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinyagent.compaction.preview import preview
from tinyagent.core.clip import clip
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import Json, Message, ToolMessage, UserMessage

_TEST_COMMAND = re.compile(
    r"\b(pytest|unittest|tox|nox|nose2?|jest|vitest|mocha|rspec|phpunit|ctest|gtest)\b"
    r"|\b(npm|yarn|pnpm|make|cargo|go|mvn|gradle|gradlew|dotnet|mix|swift|bazel|rake)\b.*\b(test|check)\b"
)


@dataclass(frozen=True, slots=True)
class DigestSize:
    """How much of each list is kept: counts of items, and characters for each text."""

    paths: int = 40
    commands: int = 15
    command_chars: int = 160
    user_chars: int = 4000  # all later user messages together


SMALL = DigestSize(paths=12, commands=5, command_chars=80, user_chars=600)

# Characters of each item that is done and of each that is not, tried in this order; None: all, 0: it is only counted.
_PLAN_FORMS = ((None, None), (160, None), (40, None), (0, None), (0, 160), (0, 80), (0, 40))
_LEAST_CHARS = 80  # less than that of a list or a narrative says nothing
_LEAST_WORDS = 100  # raw tokens of the user's later messages: one of them may be what is to be done
INTRODUCTION = "This stands for older messages of this run that were left out to save room. They are not a new request."


def compose(messages: Sequence[Message], plan: Sequence[Json], narrative: str, *, most: int, plan_most: int) -> str:
    """The text that takes the place of older messages: a narrative if a model wrote one, the plan, and the digest.

    The plan stands whole where that takes at most `plan_most` raw tokens. What is beside it is the fullest form of
    about `most`: the lists give way first, then the narrative. Some words of the user always stay.
    """
    pinned = plan_within(plan, plan_most)
    for size in (DigestSize(), SMALL):
        facts = digest(messages, size)
        if estimate_text(_framed(narrative, "", facts)) <= most:
            return _framed(narrative, pinned, facts)
    narrative = _within(narrative, most * 3 // 4)
    room = most - estimate_text(_framed(narrative, "", ""))
    words = _within(_titled(_user_section(messages, SMALL)), max(room, _LEAST_WORDS))
    lists = _within(_titled(*_lists(messages, SMALL)), room - estimate_text(words))
    return _framed(narrative, pinned, "\n\n".join(part for part in (lists, words) if part))


def plan_within(plan: Sequence[Json], most: int) -> str:
    """The plan in at most about `most` raw tokens. Items that are done give way before those that are not."""
    text = ""
    for done, others in _PLAN_FORMS:
        text = _plan(plan, done_chars=done, other_chars=others)
        if estimate_text(text) <= most:
            return text
    return _within(text, most)


def _framed(narrative: str, plan: str, facts: str) -> str:
    parts = [f"[summary of earlier work]\n{INTRODUCTION}", narrative, plan, facts, "[end of summary]"]
    return "\n\n".join(part for part in parts if part)


def _within(text: str, most: int) -> str:
    """The text with at most `most` raw tokens, cut in its middle; "" if there is hardly any room."""
    while (size := estimate_text(text)) > max(0, most):
        limit = int(len(text) * most / size * 0.9)
        if limit < _LEAST_CHARS:
            return ""
        text = clip(text, limit)
    return text


def digest(messages: Sequence[Message], size: DigestSize) -> str:
    """Sections on what happened in `messages` (the whole log so far); "" if there is nothing to say."""
    return _titled(*_lists(messages, size), _user_section(messages, size))


def _titled(*sections: tuple[str, str]) -> str:
    return "\n\n".join(f"## {title}\n{body}" for title, body in sections if body)


def _lists(messages: Sequence[Message], size: DigestSize) -> list[tuple[str, str]]:
    results = [m for m in messages if isinstance(m, ToolMessage)]
    return [
        ("Files changed", _paths(results, size, changed=True)),
        ("Files read", _paths(results, size, changed=False)),
        ("Commands that were run, oldest first, all of them done", _commands(results, size)),
        ("Last test result", _last_test(results, size)),
    ]


def _user_section(messages: Sequence[Message], size: DigestSize) -> tuple[str, str]:
    title = "Later messages of the user, oldest first; the last one is open unless it was answered"
    return title, _user(messages, size)


def _paths(results: Sequence[ToolMessage], size: DigestSize, *, changed: bool) -> str:
    changed_paths = _unique(m.facts["path"] for m in results if m.facts.get("changed") and "path" in m.facts)
    if changed:
        return _listed(changed_paths, size.paths)
    read = _unique(m.facts["path"] for m in results if "path" in m.facts and not m.is_error)
    return _listed([path for path in read if path not in changed_paths], size.paths)


def _commands(results: Sequence[ToolMessage], size: DigestSize) -> str:
    lines = [f"`{_one_line(m.facts.get('command', ''), size.command_chars)}`: {_outcome(m)}" for m in _run(results)]
    return _listed(lines, size.commands)


def _last_test(results: Sequence[ToolMessage], size: DigestSize) -> str:
    tests = [m for m in _run(results) if _TEST_COMMAND.search(m.facts.get("command", ""))]
    if not tests:
        return ""
    command = _one_line(tests[-1].facts.get("command", ""), size.command_chars)
    return f"`{command}`: {_outcome(tests[-1])}\n{preview(tests[-1], lines=4)}"


def _plan(plan: Sequence[Json], *, done_chars: int | None, other_chars: int | None) -> str:
    lines: list[str] = []
    for item in plan:
        limit = done_chars if item.get("status") == "done" else other_chars
        if limit != 0:
            lines.append(f"- [{item.get('status', 'open')}] {_one_line(str(item.get('text', '')), limit)}")
    left_out = len(plan) - len(lines)
    counted = [f"- ({left_out} more are done)"] if left_out else []
    return "\n".join(["## Plan", *counted, *lines]) if plan else ""


def _user(messages: Sequence[Message], size: DigestSize) -> str:
    """Newest first within the budget, shown in order: an old remark must not push out the request that is open."""
    kept: list[str] = []
    left = size.user_chars
    for message in reversed(messages):
        if not isinstance(message, UserMessage) or message.kind != "user":
            continue
        if left < 80:
            kept.append("(earlier ones left out)")
            break
        text = clip(message.text, left)
        left -= len(text)
        kept.append(text)
    return "\n---\n".join(reversed(kept))


def _run(results: Sequence[ToolMessage]) -> list[ToolMessage]:
    return [m for m in results if m.facts.get("command") and "exit_code" in m.facts]


def _outcome(message: ToolMessage) -> str:
    code = message.facts.get("exit_code")
    return "stopped at its time limit" if code is None else f"exit code {code}"


def _listed(items: Sequence[str], most: int) -> str:
    left_out = len(items) - most
    first = [f"- (and {left_out} earlier ones)"] if left_out > 0 else []
    return "\n".join([*first, *(f"- {item}" for item in items[-most:])])


def _unique(items: Iterable[str]) -> list[str]:
    """Each item once, where it stood last."""
    return list(reversed(dict.fromkeys(reversed(list(items)))))


def _one_line(text: str, limit: int | None) -> str:
    """The text without line ends, cut at `limit` characters; None: whole."""
    line = " ".join(text.split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"
