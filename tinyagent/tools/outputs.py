"""The tool that reads stored outputs again."""

from collections.abc import Sequence
from pathlib import Path

from tinyagent.core.types import Json, OutputStore, Tool, ToolContext, ToolOutput
from tinyagent.tools.lines import is_regex, open_text, search, window
from tinyagent.tools.store import FileOutputStore

_DEFAULT_LINES = 2_000
_HEADING_CHARS = 300
_SEARCH_TIMEOUT_S = 10.0
_MOST_HITS = 1_000


def read_output(arguments: Json, context: ToolContext) -> ToolOutput:
    output_id: str = arguments["id"]
    first = int(arguments.get("offset", 1))
    limit = int(arguments.get("limit", _DEFAULT_LINES))
    pattern: str = arguments.get("pattern", "")
    max_chars = context.max_chars - _HEADING_CHARS
    try:
        path = _file(context.store, output_id)
    except KeyError:
        return ToolOutput(f"There is no output {output_id[:40]!r}.", is_error=True)
    if pattern:
        return _matches(output_id, path, pattern, first=first, limit=limit, max_chars=max_chars)
    return _range(output_id, path, first=first, limit=limit, max_chars=max_chars)


READ_OUTPUT = Tool(
    name="read_output",
    description="Read an earlier output again: a range of its lines, or the lines that match a pattern.",
    parameters={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "offset": {"type": "integer", "description": "first line, from 1", "minimum": 1},
            "limit": {"type": "integer", "minimum": 1},
            "pattern": {"type": "string", "description": "regular expression or plain text", "minLength": 1},
        },
        "required": ["id"],
        "additionalProperties": False,
    },
    effect="read",
    run=read_output,
)


def _file(store: OutputStore, output_id: str) -> Path:
    match store:
        case FileOutputStore():
            return store.path(output_id)
        case _:
            raise TypeError(f"read_output needs a store of files, not {type(store).__name__}")


def _range(output_id: str, path: Path, *, first: int, limit: int, max_chars: int) -> ToolOutput:
    with open_text(path) as stream:
        part = window(stream, first=first, limit=limit, max_chars=max_chars)
    if first > max(1, part.total):
        return ToolOutput(f"{output_id} has {part.total:,} lines: offset {first:,} is past its end.", is_error=True)
    last = first - 1 + len(part.lines)
    heading = f"[{output_id}, lines {first}-{last} of {part.total}]\n"
    more = f"[go on with offset={last + 1}]" if last < part.total else ""
    body = "".join(part.lines)
    return ToolOutput(heading + body + ("\n" if more and not body.endswith("\n") else "") + more)


def _matches(output_id: str, path: Path, pattern: str, *, first: int, limit: int, max_chars: int) -> ToolOutput:
    found = search(path, pattern, first=first, limit=min(limit, _MOST_HITS), timeout_s=_SEARCH_TIMEOUT_S)
    rows = [f"{hit.line}: {hit.text}" for hit in found.hits]
    shown = _fitting(rows, max_chars)
    kind = "match" if is_regex(pattern) else "contain"
    heading = f"[{output_id}, {found.count:,} lines {kind} {pattern[:100]!r}"
    if len(shown) < found.count:
        heading += f", the first {len(shown)} shown"
    if not found.complete:
        heading += f"; the search was stopped after {_SEARCH_TIMEOUT_S:.0f} s, there may be more: simplify the pattern"
    return ToolOutput("\n".join((heading + "]", *shown)))


def _fitting(rows: Sequence[str], room: int) -> list[str]:
    shown: list[str] = []
    for row in rows:
        room -= len(row) + 1
        if shown and room < 0:
            break
        shown.append(row)
    return shown
