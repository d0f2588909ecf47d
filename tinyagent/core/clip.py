"""Cutting a text in the middle, with the true count of what is missing."""


def clip(text: str, limit: int, *, again: str = "", total: int | None = None) -> str:
    """At most `limit` characters: the head, a note with the count of what is missing, the tail.

    `total` is the true length where `text` itself already has a hole in its middle; the hole must lie outside its
    first and last `limit / 2` characters. `again` says how the whole can be read. Cuts fall on line ends where that
    costs little, never inside a surrogate pair.
    """
    whole = max(total or 0, len(text))
    if whole <= limit:
        return text
    room = limit - len(_note(whole, again)) - 2
    if room < 2:
        return _note(whole, again)[: max(limit, 0)]
    head = _head(text, room // 2)
    tail = _tail(text, room - room // 2)
    note = _note(whole - len(head) - len(tail), again)
    before = "" if head.endswith("\n") else "\n"
    after = "" if tail.startswith("\n") else "\n"
    return head + before + note + after + tail


def _note(missing: int, again: str) -> str:
    return f"[... {missing:,} characters left out{'; ' + again if again else ''} ...]"


def _head(text: str, size: int) -> str:
    border = text.rfind("\n", 0, size) + 1
    if border > size * 3 // 4:
        return text[:border]
    return text[: size - 1] if _splits_pair(text, size) else text[:size]


def _tail(text: str, size: int) -> str:
    start = len(text) - size
    border = text.find("\n", start - 1) + 1
    if border and border - start < size // 4:
        return text[border:]
    return text[start + 1 :] if _splits_pair(text, start) else text[start:]


def _splits_pair(text: str, at: int) -> bool:
    return 0 < at < len(text) and "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at] <= "\udfff"
