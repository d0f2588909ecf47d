"""Finds and ends every process that a command started, also those that left its process group.

A command's environment carries a mark that its children inherit. On Linux the mark is found again in /proc.

Covers: children in other groups and sessions (`setsid`, daemons) or whose parent died, and agents run inside agents.
Does not cover: a process that clears its environment and leaves the group, or that changed to another user; systems
without /proc, where the process group is all that can be ended. A sandbox with a process namespace covers these.
"""

import os
import secrets
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

TREE_VARIABLE = "TINYAGENT_TREE"
_PROC = Path("/proc")
_KILL_ROUNDS = 100  # a process can fork between the look and the signal; each round finds what the last one missed
_ROUND_S = 0.01


def new_mark() -> str:
    """A mark that no other process carries. `MARK.N` is a part of MARK's tree."""
    return secrets.token_hex(8)


def marked_environment(env: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment with the mark added to those it already carries (an agent inside an agent keeps both)."""
    marks = [outer for outer in env.get(TREE_VARIABLE, "").split(":") if outer]
    return {**env, TREE_VARIABLE: ":".join([*marks, mark])}


def living(mark: str) -> list[int]:
    """Process ids of the tree. A zombie has no environment any more and is not counted."""
    try:
        names = os.listdir(_PROC)  # noqa: PTH208 - names only: no stat, no path object for each process
    except FileNotFoundError:
        return []
    return [int(name) for name in names if name.isdigit() and _carries(name, mark)]


def signal_tree(mark: str, number: signal.Signals) -> bool:
    """Send a signal to every living process of the tree; True if there was any."""
    pids = living(mark)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):  # gone meanwhile, or set-user-id: not ours to end
            os.kill(pid, number)
    return bool(pids)


def kill_tree(mark: str) -> None:
    """SIGKILL until nothing of the tree is left, in bounded time."""
    for _ in range(_KILL_ROUNDS):
        if not signal_tree(mark, signal.SIGKILL):
            return
        time.sleep(_ROUND_S)


def end_tree(mark: str, *, grace_s: float) -> None:
    """SIGTERM, then SIGKILL to what is left after the grace."""
    try:
        if not signal_tree(mark, signal.SIGTERM):
            return
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and living(mark):
            time.sleep(_ROUND_S)
    finally:
        kill_tree(mark)


def _carries(pid: str, mark: str) -> bool:
    try:
        environ = (_PROC / pid / "environ").read_bytes()
    except OSError:  # ended meanwhile, or another user's
        return False
    if mark.encode() not in environ:
        return False
    prefix = f"{TREE_VARIABLE}=".encode()
    marks = next((entry for entry in environ.split(b"\0") if entry.startswith(prefix)), b"")
    own = marks.removeprefix(prefix).decode("ascii", "replace").split(":")
    return any(other == mark or other.startswith(f"{mark}.") for other in own)
