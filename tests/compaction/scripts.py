"""Scripts that fill a window in a known way."""

from tests.generators import text
from tests.harness import Item, turn


def reading(number: int, *, chars: int = 4_000, kind: str = "code") -> list[Item]:
    """Turns whose outputs fill the window: about 1,170 tokens of code each."""
    return [turn(text(kind, chars, n), text=f"I read part {n}.") for n in range(number)]


def talking(number: int, *, chars: int = 3_500) -> list[Item]:
    """Turns whose own words fill the window, about 730 tokens each: eliding does not help."""
    return [turn("ok", text=text("prose", chars, n)) for n in range(number)]


BATCH = turn(text("code", 900, 71), text("code", 900, 72), text("code", 900, 73), text="Three at once.")
