"""OpenRouter's `reasoning_details`, which must go back as a whole answer has them."""

from collections.abc import Sequence

from tinyagent.core.types import Json
from tinyagent.models.payload import as_object

_TEXTS = ("text", "summary")  # fields whose pieces are joined


class ReasoningDetails:
    """Puts the items of a stream together: pieces of one item come one after the other under the same index.

    Sent back in pieces, an item's signature would stand on a part of its text. Items without an index are whole.
    """

    def __init__(self) -> None:
        self._items: list[object] = []
        self._pieces: dict[str, list[str]] = {}  # of the last item

    def add(self, items: Sequence[object]) -> None:
        for item in items:
            piece = as_object(item)
            if not self._continues(piece):
                self._close()
                self._items.append(dict(piece) if piece else item)
            self._take(piece)

    def joined(self) -> list[object]:
        self._close()
        return self._items

    def _continues(self, piece: Json) -> bool:
        last = as_object(self._items[-1]) if self._items else {}
        return piece.get("index") is not None and all(piece.get(key) == last.get(key) for key in ("index", "type"))

    def _take(self, piece: Json) -> None:
        last = as_object(self._items[-1])
        for key, value in piece.items():
            if key in _TEXTS and isinstance(value, str):
                self._pieces.setdefault(key, []).append(value)
            elif value is not None:
                last[key] = value

    def _close(self) -> None:
        if self._items:
            as_object(self._items[-1]).update({key: "".join(texts) for key, texts in self._pieces.items()})
        self._pieces = {}
