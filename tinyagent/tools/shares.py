"""How the results of one step share the room that they have together. Pure."""

from collections.abc import Sequence

_LEAST_CHARS = 80  # room for the note that says what is missing and where it is


def shares(sizes: Sequence[int], budget: int) -> list[int]:
    """How many characters each result may have, so that together they keep to the budget.

    Small results stay whole and large ones divide what is left evenly. The newest, which is last, gets a quarter of
    the budget if it needs it. No share is under 80 characters, so very many results may exceed a very small budget.
    """
    if sum(sizes) <= budget:
        return list(sizes)
    level = _level(sizes, budget)
    newest = min(sizes[-1], max(level, budget // 4))
    if newest > level:
        level = _level(sizes[:-1], budget - newest)
    return [min(size, max(level, _LEAST_CHARS)) for size in sizes[:-1]] + [max(newest, min(sizes[-1], _LEAST_CHARS))]


def _level(sizes: Sequence[int], budget: int) -> int:
    """The largest equal cap under which the sizes sum up to no more than the budget."""
    left = budget
    for taken, size in enumerate(sorted(sizes)):
        even = left // (len(sizes) - taken)
        if size > even:
            return even
        left -= size
    return max(sizes, default=0)
