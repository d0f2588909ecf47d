"""Commands on this machine, as the user who started the agent."""

import itertools
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tinyagent.core.errors import SandboxLost
from tinyagent.core.types import Completed
from tinyagent.sandboxes.hostfiles import read_regular, write_regular
from tinyagent.sandboxes.process import GRACE_S, run_process
from tinyagent.sandboxes.tree import end_tree, new_mark

_CLOSING_S = 5.0


class LocalSandbox:
    """Real bash in the workspace, with the environment that is handed in.

    Covers: ends what it started, no terminal, no waiting for input; files are written only inside the workspace.
    Does not cover: what a command reads, writes or sends. It has all rights of the user.

    `mark` names its process tree; with one that a later process knows too, that can end what a killed one has left.
    May be used from several threads. The base of the other sandboxes, which put another argv round the command.
    """

    def __init__(self, root: Path, *, env: Mapping[str, str], mark: str = "") -> None:
        self._root = root.resolve()
        self._env = dict(env)
        self._mark = mark or new_mark()
        self._numbers = itertools.count(1)
        self._running = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def root(self) -> Path:
        return self._root

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, command: str, *, timeout_s: float, max_bytes: int, spool: Path | None = None) -> Completed:
        with self._changed:
            if self._closed:
                raise SandboxLost("the sandbox is closed")
            self._running += 1
        mark = f"{self._mark}.{next(self._numbers)}"
        finished = False
        try:
            result = run_process(
                self.argv(command, mark=mark),
                cwd=self._root,
                env=self._env,
                timeout_s=timeout_s,
                max_bytes=max_bytes,
                spool=spool,
                mark=mark,
            )
            finished = not result.timed_out
            return result
        finally:
            if not finished:
                self.end_command(mark)
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def read_bytes(self, path: str, *, max_bytes: int) -> bytes:
        return read_regular(self._root / path, max_bytes=max_bytes)

    def write_bytes(self, path: str, data: bytes) -> None:
        write_regular(self._root / path, data, root=self._root)

    def argv(self, command: str, *, mark: str) -> list[str]:
        """What is executed for a command; `mark` names its process tree."""
        return bash_argv(command)

    def end_command(self, mark: str) -> None:
        """End what the runner cannot reach after a command was stopped; here there is nothing."""

    def close(self) -> None:
        """End every process that is left, also those of commands that other threads are running. Safe to call twice."""
        with self._changed:
            self._closed = True
        deadline = time.monotonic() + _CLOSING_S
        while True:
            with self._changed:
                idle = self._running == 0
            end_tree(self._mark, grace_s=GRACE_S)
            if idle or time.monotonic() > deadline:
                return
            with self._changed:  # a command that was just being started is found in the next round
                self._changed.wait_for(lambda: self._running == 0, timeout=0.05)


def bash_argv(command: str) -> list[str]:
    """Plain bash. Never a login shell: its profile costs 200 ms and brings back pagers and editors."""
    return ["bash", "--noprofile", "--norc", "-c", command]
