"""Reads huge texts by line with flat memory, and searches them.

A line longer than `LINE_CHARS` counts as several, so that every part of a text can be reached by a line number.
Run as a script, this file is the search itself: a pattern that backtracks for ever can only be ended from outside, so
regular expressions and very large files are searched in a child process. Standard library only, for that reason.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

LINE_CHARS = 2_000
HIT_CHARS = 300  # shown of a line that matches
_BLOCK_CHARS = 1 << 18  # as lines of one character each they take some 10 MB
_QUICK_BYTES = 8 << 20  # a plain text is found in a file of this size within a second
_PIECE = re.compile(rf"[^\n]{{1,{LINE_CHARS}}}\n?|\n")
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")


@dataclass(frozen=True, slots=True)
class Window:
    """Some lines of a text: `lines` from number `first` (1-based) on, of `total`."""

    lines: tuple[str, ...]
    first: int
    total: int


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that matches; `text` is at most `HIT_CHARS` of it, around the match."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """`hits` are the first of `count`. `complete` is False if the search was stopped at its time limit."""

    hits: tuple[Hit, ...]
    count: int
    complete: bool = True


def open_text(path: Path) -> TextIO:
    """Open a text as it is: bytes that are no UTF-8 become U+FFFD, line ends stay."""
    return path.open(encoding="utf-8", errors="replace", newline="\n")


def blocks(stream: TextIO) -> Iterator[str]:
    """The text in blocks of about 260,000 characters that end where a line (or a piece of a long one) ends."""
    rest = ""
    while block := stream.read(_BLOCK_CHARS):
        rest += block
        # At least one character stays behind, so that a line of exactly LINE_CHARS keeps its line end.
        cut = rest.rfind("\n") + 1 or (len(rest) - 1) // LINE_CHARS * LINE_CHARS
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def window(stream: TextIO, *, first: int, limit: int, max_chars: int) -> Window:
    """At most `limit` lines from line `first` on, no more than `max_chars` in sum but always one."""
    taken: list[str] = []
    chars = 0
    number = 1  # of the block's first line
    full = False
    for block in blocks(stream):
        count = _count(block)
        if not full and number + count > first:
            for piece in _PIECE.findall(block)[max(0, first - number) :]:
                full = len(taken) == limit or bool(taken and chars + len(piece) > max_chars)
                if full:
                    break
                taken.append(piece)
                chars += len(piece)
        number += count
    return Window(tuple(taken), first, number - 1)


def find(stream: TextIO, pattern: str, *, first: int, limit: int, regex: bool) -> Iterator[Hit | int]:
    """The first `limit` lines from line `first` on that match, then the number of all that do."""
    locate = _locator(pattern, regex=regex)
    number = 1
    matches = 0
    for block in blocks(stream):
        count = _count(block)
        if number + count > first and (regex or pattern in block):
            for line, piece in enumerate(_PIECE.findall(block), number):
                at = locate(piece) if line >= first else None
                if at is None:
                    continue
                matches += 1
                if matches <= limit:
                    yield Hit(line, _around(piece.rstrip("\r\n"), at))
        number += count
    yield matches


def search(path: Path, pattern: str, *, first: int, limit: int, timeout_s: float) -> Found:
    """Find a plain text, or a regular expression if it is a valid one, within `timeout_s` or a little more.

    Does not cover: a match across a line end, or across the pieces of a line longer than `LINE_CHARS`.
    """
    regex = is_regex(pattern)
    if not regex and path.stat().st_size <= _QUICK_BYTES:
        with open_text(path) as stream:
            return _collect(find(stream, pattern, first=first, limit=limit, regex=False))
    job = json.dumps([str(path), pattern, first, limit, regex])
    try:
        done = subprocess.run(
            [sys.executable, "-I", __file__], input=job.encode(), stdout=subprocess.PIPE, timeout=timeout_s, check=True
        )
    except subprocess.TimeoutExpired as stopped:
        whole_lines = (stopped.stdout or b"").rpartition(b"\n")[0]
        hits = _collect(_parse(whole_lines)).hits
        return Found(hits, len(hits), complete=False)
    return _collect(_parse(done.stdout))


def is_regex(pattern: str) -> bool:
    """True if the pattern holds characters with a meaning and compiles; anything else is looked for as it stands."""
    if not _META.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _count(block: str) -> int:
    if _has_long_line(block):
        return sum(1 for _ in _PIECE.finditer(block))
    return block.count("\n") + (not block.endswith("\n"))


def _has_long_line(block: str) -> bool:
    """In steps of up to `LINE_CHARS` from line end to line end: a regular expression would look at each line often."""
    at = 0
    while len(block) - at > LINE_CHARS:
        end = block.rfind("\n", at, at + LINE_CHARS + 1)
        if end < 0:
            return True
        at = end + 1
    return False


def _locator(pattern: str, *, regex: bool) -> Callable[[str], int | None]:
    if regex:
        compiled = re.compile(pattern)
        return lambda line: found.start() if (found := compiled.search(line.rstrip("\r\n"))) else None
    return lambda line: at if (at := line.find(pattern)) >= 0 else None


def _around(line: str, at: int) -> str:
    if len(line) <= HIT_CHARS:
        return line
    start = max(0, min(at - HIT_CHARS // 3, len(line) - HIT_CHARS))
    end = start + HIT_CHARS
    return ("..." if start else "") + line[start:end] + ("..." if end < len(line) else "")


def _collect(found: Iterator[Hit | int]) -> Found:
    hits: list[Hit] = []
    count = 0
    for item in found:
        match item:
            case Hit():
                hits.append(item)
            case int():
                count = item
    return Found(tuple(hits), count)


def _parse(stdout: bytes) -> Iterator[Hit | int]:
    for row in map(json.loads, stdout.splitlines()):
        yield row if isinstance(row, int) else Hit(int(row[0]), str(row[1]))


def _main() -> None:
    path, pattern, first, limit, regex = json.loads(sys.stdin.buffer.read())
    with open_text(Path(path)) as stream:
        for item in find(stream, pattern, first=first, limit=limit, regex=regex):
            sys.stdout.write(json.dumps([item.line, item.text] if isinstance(item, Hit) else item) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _main()
