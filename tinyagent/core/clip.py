"""Cutting a text in the middle, with the true count of what is missing."""

_LINE_SLACK = 0.2  # how much of a half may be given up so that the cut falls on a line's end


def clip(text: str, limit: int, *, note: str = "") -> str:
    """Head and tail of a text with at most `limit` characters, and a line between that says what is missing.

    `note` ends that line, e.g. how to read the rest. A text that fits comes back unchanged.
    """
    if len(text) <= limit:
        return text
    marker = f"\n[... {len(text):,} characters left out{note} ...]\n"
    room = max(0, limit - len(marker))
    head, tail = _head(text, room - room // 2), _tail(text, room // 2)
    missing = len(text) - len(head) - len(tail)
    marker = f"\n[... {missing:,} characters left out{note} ...]\n"
    return (head + marker + tail)[:limit] if limit < len(marker) else head + marker + tail


def _head(text: str, length: int) -> str:
    part = text[:length]
    end = part.rfind("\n") + 1
    return part[:end].rstrip("\n") if end > length * (1 - _LINE_SLACK) else part


def _tail(text: str, length: int) -> str:
    part = text[len(text) - length :] if length else ""
    start = part.find("\n") + 1
    return part[start:] if 0 < start < length * _LINE_SLACK else part
