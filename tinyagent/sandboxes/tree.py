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
    return _look(mark)[0]


def signal_tree(mark: str, number: signal.Signals, *, except_group: int = 0) -> None:
    """Send a signal once to every living process of the tree, but not to those of a group that already has it."""
    for pid in living(mark):
        with suppress(ProcessLookupError, PermissionError):  # gone meanwhile, or set-user-id: not ours to end
            if os.getpgid(pid) != except_group:
                os.kill(pid, number)


def kill_tree(mark: str) -> None:
    """SIGKILL until nothing of the tree is left, in bounded time; interrupts are raised when it is done."""
    interrupt: BaseException | None = None
    for _ in range(_KILL_ROUNDS):
        try:
            pids, unsettled = _look(mark)
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not pids and not unsettled:
                break
            time.sleep(_ROUND_S)
        except BaseException as error:  # a further Ctrl-C must not leave half of the tree
            interrupt = error
    if interrupt is not None:
        raise interrupt


def end_tree(mark: str, *, grace_s: float) -> None:
    """SIGTERM, then SIGKILL to what is left after the grace."""
    nothing_left = False
    try:
        nothing_left = _look(mark) == ([], False)  # the usual case; a look reads the environment of every process
        if not nothing_left:
            signal_tree(mark, signal.SIGTERM)
            deadline = time.monotonic() + grace_s
            while living(mark) and time.monotonic() < deadline:
                time.sleep(_ROUND_S)
    finally:
        if not nothing_left:
            kill_tree(mark)


def _look(mark: str) -> tuple[list[int], bool]:
    """The living processes of the tree, and whether any process is just being started and cannot be told yet."""
    needle = mark.encode()
    pids: list[int] = []
    unsettled = False
    for name in _processes():
        try:
            with open(f"{_PROC}/{name}/environ", "rb", buffering=0) as file:  # noqa: PTH123  half the time of pathlib
                environ = file.read()
        except OSError:  # ended meanwhile, or another user's
            continue
        if needle in environ and _carries(environ, mark):
            pids.append(int(name))
        unsettled = unsettled or (not environ and _is_in_exec(_PROC / name))
    return pids, unsettled


def _processes() -> list[str]:
    """The process ids, as /proc names them; none where there is no /proc."""
    with suppress(FileNotFoundError):
        return [name for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208
    return []


def _carries(environ: bytes, mark: str) -> bool:
    prefix = f"{TREE_VARIABLE}=".encode()
    marks = next((entry for entry in environ.split(b"\0") if entry.startswith(prefix)), b"")
    own = marks.removeprefix(prefix).decode("ascii", "replace").split(":")
    return any(other == mark or other.startswith(f"{mark}.") for other in own)


def _is_in_exec(folder: Path) -> bool:
    """Whether a process without an environment is between two programs: it has a program but no arguments either.

    A zombie and a kernel thread have no program; one started with an empty environment has arguments.
    """
    try:
        return bool((folder / "exe").readlink()) and not (folder / "cmdline").read_bytes()
    except OSError:
        return False
