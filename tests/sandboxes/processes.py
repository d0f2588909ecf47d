"""Looks for processes of a test by a number that only this test's commands have in their arguments."""

import itertools
import os
import time
from pathlib import Path

_numbers = itertools.count(1)


def long_sleep() -> str:
    """The arguments of a `sleep` that no other test has."""
    return f"sleep 3600.{os.getpid()}{next(_numbers):04d}"


def alive(command: str) -> bool:
    """Whether a process with these arguments runs anywhere on the machine."""
    wanted = command.replace(" ", "\0").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().strip(b"\0") == wanted:
                return True
        except OSError:  # it ended while we looked
            continue
    return False


def comes_alive(command: str) -> bool:
    """Whether such a process appears within a few seconds."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if alive(command):
            return True
    return False
