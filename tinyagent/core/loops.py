"""Repeated calls: the same calls with the same results, over and over. Reads the log, so elision hides nothing."""

import hashlib
import json
import re
from collections.abc import Sequence

from tinyagent.core.types import AssistantMessage, ToolMessage

LONGEST_CYCLE = 3
WARN_AT = 3
STOP_AT = 6
KEPT_SIGNATURES = LONGEST_CYCLE * STOP_AT

# What differs in every run of the same command: "1 failed in 0.12s", "[exit code 1, 0.3 s]", the id of a cut output.
_CHANGING = re.compile(r"\d+(\.\d+)? ?m?s\b|read_output\(\"o\d+\"\)")


def signature(turn: AssistantMessage, results: Sequence[ToolMessage]) -> str:
    """A fingerprint of what was called and what came of it; "" for a turn without calls."""
    if not turn.tool_calls:
        return ""
    calls = [[c.name, c.arguments if c.arguments is not None else c.raw] for c in turn.tool_calls]
    outcomes = [_CHANGING.sub("", m.text) for m in results]
    text = json.dumps([calls, outcomes], sort_keys=True, ensure_ascii=True)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:16]


def repetitions(signatures: Sequence[str]) -> int:
    """How often the newest cycle of up to three turns has been seen in a row; 1: nothing repeats.

    Polling with changing output never counts, as its signatures differ.
    """
    return max((_repeats(signatures, length) for length in range(1, LONGEST_CYCLE + 1)), default=1)


def _repeats(signatures: Sequence[str], length: int) -> int:
    cycle = list(signatures[-length:])
    if len(cycle) < length or "" in cycle:
        return 1
    count = 1
    while list(signatures[-length * (count + 1) : -length * count]) == cycle:
        count += 1
    return count
