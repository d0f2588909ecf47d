"""Waiting for something to happen, and whether a process is alive."""

import time
from collections.abc import Callable
from pathlib import Path

LONGEST_S = 20.0


def until(happened: Callable[[], bool], *, within_s: float = LONGEST_S) -> None:
    """Return as soon as it happened; an AssertionError if it does not."""
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def all_dead(pids: list[int], *, within_s: float = 2.0) -> bool:
    deadline = time.monotonic() + within_s
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(is_alive(pid) for pid in pids)
