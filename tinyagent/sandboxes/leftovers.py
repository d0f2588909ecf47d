"""What an agent that was killed has left running."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tinyagent.sandboxes.process import GRACE_S
from tinyagent.sandboxes.tree import TREE_VARIABLE, end_tree, living

_SHOWN = 5


def is_within(mark: str, environ: Mapping[str, str]) -> bool:
    """Whether a process with this environment belongs to the tree, as in a terminal multiplexer that a command started.

    Such a process must not end the tree: it would end itself.
    """
    own = environ.get(TREE_VARIABLE, "").split(":")
    return any(outer == mark or outer.startswith(f"{mark}.") for outer in own)


def end_leftovers(mark: str) -> str:
    """End the processes of a tree whose agent is dead; a sentence about it, "" if there were none or no mark is known.

    Covers: what the tree's mark finds, on this machine. Does not cover: systems without /proc (macOS), where nothing
    is found and nothing is said; the inside of a container.
    """
    pids = living(mark) if mark else []
    if not pids:
        return ""
    names = _names(pids)
    end_tree(mark, grace_s=GRACE_S)
    if left := living(mark):
        return f"of what the killed run had left running, {_count(left)} cannot be ended: {', '.join(map(str, left))}"
    return f"ended what the killed run had left running: {_count(pids)} ({names})"


def _count(pids: Sequence[int]) -> str:
    return "1 process" if len(pids) == 1 else f"{len(pids)} processes"


def _names(pids: Sequence[int]) -> str:
    """Names of programs, without arguments: those may hold secrets."""
    names: set[str] = set()
    for pid in pids:
        with suppress(OSError):  # ended meanwhile
            names.add(Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip())
    shown = sorted(names)
    return ", ".join(shown[:_SHOWN]) + (", ..." if len(shown) > _SHOWN else "")
