"""Finds a text in a file and replaces it, leaving every other byte alone. Pure."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches, unified_diff
from itertools import islice

from tinyagent.tools.encoding import NEWLINE, flat

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_SNIPPET_LINES = 24
_SNIPPET_CHARS = 200  # of a line
_SEARCHED_LINES = 20_000  # for a similar line: a second or two
_TRIED_PLACES = 1_000  # for the same lines with other white space
_MOST_PLACES = 100_000
_MOST_NEW_CHARS = 50_000_000


@dataclass(frozen=True, slots=True)
class Edited:
    """A text changed at `places` places, the first at the 1-based `line`; `snippet` shows that one."""

    text: str
    places: int
    line: int
    snippet: str


def edit(text: str, old: str, new: str, *, everywhere: bool) -> Edited | str:
    """The text with `old` replaced by `new`, or a sentence that says why it was not.

    Line ends are compared as equal whatever they are. Lines of `old` that come back in `new` keep their bytes; new
    lines end as the lines around them do.
    """
    wanted, given, body = flat(old), flat(new), flat(text)
    if not wanted:
        return "`old` is empty: give the text to replace, or use write for a new file."
    if wanted == given:
        return "`old` and `new` are the same."
    places = _places(body, wanted, overlapping=not everywhere)
    if not places:
        return f"`old` was not found. {similar(body, wanted)}"
    if len(places) > _MOST_PLACES or len(places) * len(given) > _MOST_NEW_CHARS:
        return f"`old` occurs more than {len(places) - 1:,} times, too many for one edit."
    lines = [body.count("\n", 0, at) + 1 for at in places[:20]]
    if len(places) > 1 and not everywhere:
        listed = ", ".join(map(str, lines)) + (" and more" if len(places) > len(lines) else "")
        return (
            f"`old` occurs {len(places)} times, at lines {listed}: "
            "give more of the lines around the right one, or set replace_all."
        )
    changed = _replaced(text, places, wanted, given)
    return Edited(changed, len(places), lines[0], _snippet(body, places[0], wanted, given))


def similar(body: str, wanted: str) -> str:
    """What in the text comes nearest to what was looked for, with line numbers."""
    lines = body.split("\n")
    sought = wanted.strip("\n").split("\n")
    at = _same_but_for_space(lines, sought)
    if at is not None:
        return f"It is there with other white space:\n{_numbered(lines, at, len(sought))}"
    longest = max(sought, key=len)
    pool = [line[:400] for line in lines[:_SEARCHED_LINES]]
    near = get_close_matches(longest[:400], pool, n=1) if longest.strip() else []
    if not near:
        return "No line of the file is like it."
    at = max(0, pool.index(near[0]) - sought.index(longest))
    return f"The nearest lines are:\n{_numbered(lines, at, len(sought))}"


def _places(body: str, wanted: str, *, overlapping: bool) -> list[int]:
    step = 1 if overlapping else len(wanted)
    places: list[int] = []
    at = body.find(wanted)
    while at >= 0 and len(places) <= _MOST_PLACES:
        places.append(at)
        at = body.find(wanted, at + step)
    return places


def _replaced(text: str, places: Sequence[int], wanted: str, given: str) -> str:
    # Offsets in the flat text of the line ends that take two characters in the real one.
    wide = [found.start() - i for i, found in enumerate(re.finditer("\r\n", text))] if "\r\n" in text else []
    parts: list[str] = []
    done = 0
    for place in places:
        start = place + bisect_left(wide, place)
        end = place + len(wanted) + bisect_left(wide, place + len(wanted))
        parts += (text[done:start], _fitted(text, start, end, given))
        done = end
    return "".join((*parts, text[done:]))


def _fitted(text: str, start: int, end: int, given: str) -> str:
    """The replacement of text[start:end] with the line ends that belong there."""
    if "\r" not in text:
        return given
    old = text[start:end]
    ends = set(NEWLINE.findall(old))
    if len(ends) > 1:
        return _merged(old, given)
    return given.replace("\n", ends.pop() if ends else _newline_near(text, start, end))


def _newline_near(text: str, start: int, end: int) -> str:
    if after := NEWLINE.search(text, end):
        return after.group()
    last = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start))
    return "\r\n" if text.endswith("\r\n", 0, last + 1) else text[last]


def _merged(old: str, given: str) -> str:
    """`given`, where lines that `old` has too keep their line ends and others take that of the line they stand for."""
    old_lines: list[str] = _LINE.findall(old)
    new_lines: list[str] = _LINE.findall(given)
    parts: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, [flat(line) for line in old_lines], new_lines).get_opcodes():
        if tag == "equal":
            parts += old_lines[i1:i2]
            continue
        for row, line in enumerate(new_lines[j1:j2], i1):
            model = NEWLINE.search(old_lines[min(row, len(old_lines) - 1)]) or NEWLINE.search(old)
            parts.append(line.replace("\n", model.group() if model else "\n"))
    return "".join(parts)


def _same_but_for_space(lines: Sequence[str], sought: Sequence[str]) -> int | None:
    bare = [line.strip() for line in lines]
    target = [line.strip() for line in sought]
    if not any(target):
        return None
    places = islice((at for at, line in enumerate(bare) if line == target[0]), _TRIED_PLACES)
    return next((at for at in places if bare[at : at + len(target)] == target), None)


def _numbered(lines: Sequence[str], at: int, count: int) -> str:
    rows = lines[at : at + min(count, 12)]
    return "\n".join(f"{number}: {line[:_SNIPPET_CHARS]}" for number, line in enumerate(rows, at + 1))


def _snippet(body: str, place: int, wanted: str, given: str) -> str:
    """The first change as a diff with one line of context."""
    start = body.rfind("\n", 0, max(0, body.rfind("\n", 0, place))) + 1
    end = place + len(wanted)
    for _ in range(2):
        end = body.find("\n", end) + 1 or len(body)
    before = body[start:end].split("\n")
    after = (body[start:place] + given + body[place + len(wanted) : end]).split("\n")
    if len(before) + len(after) > 1_000:
        return ""
    if before[-1] == after[-1] == "":  # what is behind the last line end is no line
        before, after = before[:-1], after[:-1]
    first = body.count("\n", 0, start)
    rows = list(unified_diff(before, after, n=1, lineterm=""))[2:]
    rows = [_heading(row, first) if row.startswith("@@") else row for row in rows]
    shown = [row[:_SNIPPET_CHARS] for row in rows[:_SNIPPET_LINES]]
    if len(rows) > len(shown):
        shown.append(f"... {len(rows) - len(shown)} more lines")
    return "\n".join(shown)


def _heading(row: str, first: int) -> str:
    """A hunk's heading with line numbers of the file instead of those of the excerpt."""
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + first}", row)
