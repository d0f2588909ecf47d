"""The tools that read, write and edit files of the workspace."""

from collections.abc import Sequence

from tinyagent.core.types import Facts, Json, Tool, ToolContext, ToolOutput
from tinyagent.tools.disk import LISTED, Found, Missing, Refused, entries, load, name_of, save
from tinyagent.tools.edits import edit
from tinyagent.tools.encoding import TextFile, decode, describe, flat

_LINE_CHARS = 2_000
_DEFAULT_LINES = 2_000
_HEADING_CHARS = 300  # kept free for what is said around the lines


def read(arguments: Json, context: ToolContext) -> ToolOutput:
    path: str = arguments["path"]
    try:
        found = load(path, context.sandbox)
    except Missing as missing:
        return _error(missing)
    except Refused as refused:
        return _listing(path, context) or _error(refused)
    file = decode(found.data)
    if file is None:
        return _error(f"{found.name} is {found.kind}, {len(found.data):,} bytes: it cannot be shown as text.")
    first = int(arguments.get("offset", 1))
    limit = int(arguments.get("limit", _DEFAULT_LINES))
    return _part(found, file, first=first, limit=limit, max_chars=context.max_chars)


READ = Tool(
    name="read",
    description="Read a text file by lines, or list a folder. A long file comes in parts.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "offset": {"type": "integer", "description": "first line, from 1", "minimum": 1},
            "limit": {"type": "integer", "description": "number of lines", "minimum": 1},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    effect="read",
    run=read,
)


def write(arguments: Json, context: ToolContext) -> ToolOutput:
    path: str = arguments["path"]
    content: str = arguments["content"]
    try:
        try:
            found = load(path, context.sandbox)
        except Missing:
            found = None
        old = decode(found.data) if found else None
        data = _bytes_like(old, content)
        if found and found.data == data:
            return _written(f"{found.name} has exactly this content already", found, changed=False)
        if found:
            _check_seen(found, context, unread_ok=False)
        saved = save(path, data, context.sandbox)
    except Refused as refused:
        return _error(refused)
    did = "replaced" if found else "created"
    style = describe(decode(data) or TextFile("")) if old else ""
    return _written(f"{did} {saved.name}: {_count(_lines(content))}, {len(data):,} bytes{style}", saved)


WRITE = Tool(
    name="write",
    description="Create a file, or replace a whole file that you have read.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
        "additionalProperties": False,
    },
    effect="write",
    run=write,
)


def edit_file(arguments: Json, context: ToolContext) -> ToolOutput:
    path: str = arguments["path"]
    everywhere: bool = arguments.get("replace_all", False)
    try:
        found = load(path, context.sandbox)
        file = decode(found.data)
        if file is None:
            return _error(f"{found.name} is {found.kind}: only text can be edited.")
        _check_seen(found, context, unread_ok=True)
        edited = edit(file.text, arguments["old"], arguments["new"], everywhere=everywhere)
        if isinstance(edited, str):
            return _error(f"{found.name}: {edited}")
        saved = save(path, _encoded(file, edited.text), context.sandbox)
    except Refused as refused:
        return _error(refused)
    where = f"line {edited.line}" if edited.places == 1 else f"{edited.places} places, the first at line {edited.line}"
    return _written(f"edited {saved.name}, {where}\n{edited.snippet}".rstrip("\n"), saved)


EDIT = Tool(
    name="edit",
    description="Replace text in a file. `old` is exact, white space included, and occurs once unless replace_all.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "old": {"type": "string"},
            "new": {"type": "string"},
            "replace_all": {"type": "boolean"},
        },
        "required": ["path", "old", "new"],
        "additionalProperties": False,
    },
    effect="write",
    run=edit_file,
)


def _part(found: Found, file: TextFile, *, first: int, limit: int, max_chars: int) -> ToolOutput:
    lines = _lines(file.text)
    if first > max(1, len(lines)):
        return _error(f"{found.name} has {len(lines):,} lines: offset {first:,} is past its end.")
    shown = _fitting(lines[first - 1 : first - 1 + limit], max_chars - _HEADING_CHARS)
    last = first - 1 + len(shown)
    span = _count(lines) if len(shown) == len(lines) else f"lines {first}-{last} of {len(lines)}"
    more = f"\n[go on with offset={last + 1}]" if last < len(lines) else ""
    facts = Facts(path=found.name, digest=found.digest, first_line=first, last_line=last)
    return ToolOutput("\n".join((f"[{found.name}, {span}{describe(file)}]", *shown)) + more, facts=facts)


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as there is room for, but one at least; very long ones cut."""
    shown: list[str] = []
    for line in lines:
        over = len(line) - _LINE_CHARS
        text = f"{line[:_LINE_CHARS]} [... {over:,} more characters in this line]" if over > 0 else line
        room -= len(text) + 1
        if shown and room < 0:
            break
        shown.append(text)
    return shown


def _listing(path: str, context: ToolContext) -> ToolOutput | None:
    names = entries(path, context.sandbox)
    if names is None:
        return None
    count = f"the first {LISTED} of more" if len(names) > LISTED else str(len(names))
    heading = f"[{name_of(path, context.sandbox)} is a folder, entries: {count}]"
    return ToolOutput("\n".join((heading, *names[:LISTED])))


def _check_seen(found: Found, context: ToolContext, *, unread_ok: bool) -> None:
    known = context.seen.get(found.name)
    if known is None and not unread_ok:
        raise Refused(f"{found.name} exists and you have not read it: read it first, or use edit.")
    if known is not None and known != found.digest:
        raise Refused(f"{found.name} has changed since you last read it: read it again first.")


def _bytes_like(old: TextFile | None, content: str) -> bytes:
    """The content as a file; one that replaces another takes over its line ends, its mark and, if it can, its codec.

    Otherwise a file with CRLF, which models see and write with plain line ends, would change in every line.
    """
    if old is None:
        return _encoded(TextFile(""), content)
    text = content.replace("\n", old.newline) if old.newline and "\r" not in content else content
    try:
        return old.encode(text)
    except UnicodeEncodeError:
        return _encoded(TextFile(""), text)


def _encoded(file: TextFile, text: str) -> bytes:
    try:
        return file.encode(text)
    except UnicodeEncodeError as error:
        char = text[error.start]
        raise Refused(f"U+{ord(char):04X} cannot be written in {file.codec}, the encoding of this file.") from error


def _lines(text: str) -> list[str]:
    lines = flat(text).split("\n")
    return lines if lines[-1] else lines[:-1]


def _count(lines: Sequence[str]) -> str:
    return f"{len(lines):,} line{'' if len(lines) == 1 else 's'}"


def _written(text: str, saved: Found, *, changed: bool = True) -> ToolOutput:
    return ToolOutput(text, facts=Facts(path=saved.name, digest=saved.digest, changed=changed))


def _error(sentence: str | Refused) -> ToolOutput:
    return ToolOutput(str(sentence), is_error=True)
