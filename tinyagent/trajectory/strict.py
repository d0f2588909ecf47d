"""Values that every JSON reader takes: no NaN or infinity, no lone surrogates."""

import math
from typing import Any, cast

from tinyagent.core.types import Json


def strict_json(value: Any) -> Any:
    """A copy with null for numbers that JSON does not have and "?" for each lone surrogate.

    A request body has "?" there too (`str.encode` with "replace"), so the copy still gives the same bytes.
    """
    if isinstance(value, str):
        return strict_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {strict_text(str(k)): strict_json(v) for k, v in cast(Json, value).items()}
    if isinstance(value, list | tuple):
        return [strict_json(v) for v in cast("list[Any]", value)]
    return value


def strict_text(text: str) -> str:
    """The text with "?" for each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
