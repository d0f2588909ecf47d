"""Which old tool outputs are replaced by a pointer, and in what order."""

from collections.abc import Sequence

from tinyagent.compaction.plan import Draft
from tinyagent.compaction.preview import is_failure, preview
from tinyagent.core.types import ToolMessage
from tinyagent.core.view import Block, Entry, with_text

MIN_SAVING = 20  # raw tokens; below that a pointer is no gain


def pointer_id(entry: Entry) -> str:
    """The id under which the output of an entry can be read again: its own, or its place in the log."""
    assert isinstance(entry.message, ToolMessage)
    return entry.message.output_id or f"m{entry.id}"


def elide(draft: Draft, older: Sequence[Block], *, target: int, gain: int, preview_lines: int) -> Draft | int:
    """Replace outputs of the older blocks until the request is under `target` and `gain` tokens are freed.

    If they are not to be had, the draft stays as it is, and what could have been freed comes back.
    """
    stubs: list[Entry] = []
    before = draft.tokens
    raw = draft.view.tokens
    for entry in elision_order(older, superseded(_outputs(draft.entries))):
        if draft.size(raw) <= min(target, before - gain):
            break
        stub = with_text(entry, stub_text(entry, preview_lines=preview_lines), elided=True)
        if entry.tokens - stub.tokens >= MIN_SAVING:
            stubs.append(stub)
            raw -= entry.tokens - stub.tokens
    freed = before - draft.size(raw)
    return draft.with_bodies(stubs, elided=True) if freed >= gain else freed


def stub_text(entry: Entry, *, preview_lines: int) -> str:
    """The size of an output, how to read it again, and its telling lines."""
    assert isinstance(entry.message, ToolMessage)
    chars = entry.message.facts.get("output_chars", len(entry.message.text))
    first = f'[output elided: {chars} chars] read_output("{pointer_id(entry)}") shows it again'
    lines = preview(entry.message, lines=preview_lines)
    return f"{first}\n{lines}" if lines else first


def elision_order(older: Sequence[Block], stale: set[int]) -> list[Entry]:
    """Stale outputs first, then the oldest; failing ones last, as they say what must not be repeated."""
    outputs = _outputs([entry for block in older for entry in block.entries])
    return sorted(outputs, key=lambda e: (e.id not in stale, e.id not in stale and _failed(e), e.id))


def superseded(outputs: Sequence[Entry]) -> set[int]:
    """Ids of outputs that a later one makes useless: the same text, or a newer read or change of the same lines."""
    found: set[int] = set()
    texts: set[str] = set()
    newer: dict[str, list[tuple[int, int]]] = {}
    for entry in reversed(outputs):
        message = entry.message
        assert isinstance(message, ToolMessage)
        if len(message.text) > 200 and message.text in texts:
            found.add(entry.id)
        texts.add(message.text)
        path = message.facts.get("path", "")
        if not path:
            continue
        if message.facts.get("changed"):
            newer.setdefault(path, []).append((0, 1 << 62))
            continue
        lines = (message.facts.get("first_line", 0), message.facts.get("last_line", 1 << 61))
        if any(first <= lines[0] and lines[1] <= last for first, last in newer.get(path, [])):
            found.add(entry.id)
        newer.setdefault(path, []).append(lines)
    return found


def _outputs(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if isinstance(entry.message, ToolMessage) and not entry.elided]


def _failed(entry: Entry) -> bool:
    return isinstance(entry.message, ToolMessage) and is_failure(entry.message)
