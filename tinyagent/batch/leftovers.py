"""What a killed driver may have left running."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tinyagent.core.errors import RecordError
from tinyagent.sandboxes.tree import kill_tree
from tinyagent.trajectory.journal import LOCK, is_locked

_WAIT_S = 10.0
_ROUND_S = 0.02


def end_try(run_folder: Path, mark: str) -> None:
    """End the processes of a try that nobody watches any more. Raises RecordError if one does not die.

    A run that was forked does not carry the mark in its environment, as the kernel shows it; it holds its journal's
    lock, and the lock's file names it.
    """
    kill_tree(mark)
    deadline = time.monotonic() + _WAIT_S
    while is_locked(run_folder):
        with suppress(OSError, ValueError):  # gone meanwhile
            os.kill(int((run_folder / LOCK).read_text(encoding="ascii")), signal.SIGKILL)
        if time.monotonic() > deadline:
            raise RecordError(f"the run in {run_folder} still goes on and cannot be ended")
        time.sleep(_ROUND_S)
    kill_tree(mark)
