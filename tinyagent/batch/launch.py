"""Starting our own command line for one task: as a new process, or as a fork of a process that has imported all.

Both give the same: a process in a session of its own, its output in a file, ended for certain at its deadline.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, cast

from tinyagent.core.errors import SandboxLost
from tinyagent.core.types import Json
from tinyagent.sandboxes.process import run_process
from tinyagent.sandboxes.tree import kill_tree, marked_environment, signal_tree

GRACE_S = 10.0  # for a run that is told to end: its journal, trajectory and last line
# The package is found where this one was found. Python's own rules would look into the current folder first, where a
# task may have put a module of the same name as one of ours.
_ROOT = Path(__file__).resolve().parent.parent.parent
_MAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tinyagent.__main__ import main; main()"
_SERVE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tinyagent.batch.forkserver import main; main()"
_START_S = 60.0
_LAST_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Command:
    """Arguments of `tinyagent`, the whole environment, and the file that gets its output. `mark` names its tree."""

    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path
    log: Path
    mark: str


@dataclass(frozen=True, slots=True)
class Exit:
    """`code` None: it was ended at its deadline. `signal` is the number of the signal that killed it, or 0."""

    code: int | None
    signal: int = 0


class Launcher(Protocol):
    """Starts commands and waits for them; used from many threads."""

    def run(self, command: Command, *, timeout_s: float, grace_s: float = GRACE_S) -> Exit:
        """Run it to its end; everything that it started is dead afterwards. Raises SandboxLost if it cannot start.

        At the deadline it is told to end, and killed after the grace.
        """
        ...

    def stop(self, mark: str) -> None:
        """Tell a command that runs to end in good order."""
        ...

    def close(self) -> None: ...


class PlainLauncher:
    """A new interpreter for each task: half a second of imports each time, and it works everywhere."""

    def run(self, command: Command, *, timeout_s: float, grace_s: float = GRACE_S) -> Exit:
        argv = [sys.executable, "-P", "-c", _MAIN, str(_ROOT), *command.arguments]
        earlier = command.log.stat().st_size if command.log.exists() else 0
        spool = command.log if not earlier else command.log.with_suffix(".new")
        done = run_process(
            argv,
            cwd=command.cwd,
            env=dict(command.environ),
            timeout_s=timeout_s,
            max_bytes=0,  # all of it goes to the file
            spool=spool,
            grace_s=grace_s,
            mark=command.mark,
        )
        if spool != command.log and spool.exists():
            with command.log.open("ab") as log:
                log.write(spool.read_bytes())
            spool.unlink()
        kill_tree(command.mark)
        killed = done.exit_code is not None and bool(done.signal)
        return Exit(done.exit_code, done.exit_code - 128 if killed and done.exit_code else 0)

    def stop(self, mark: str) -> None:
        import signal

        signal_tree(mark, signal.SIGTERM)

    def close(self) -> None:
        """Nothing is kept open."""


class ForkLauncher:
    """A fork of one prepared process for each task: see forkserver.py. Linux only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server = _Server()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, command: Command, *, timeout_s: float, grace_s: float = GRACE_S) -> Exit:
        server = self._living_server()
        try:
            waiting = server.start(command)
            if waiting.done.wait(timeout_s):
                return waiting.exit()
            server.signal(command.mark, "SIGTERM")
            if not waiting.done.wait(grace_s):
                server.signal(command.mark, "SIGKILL")
                if not waiting.done.wait(_LAST_WAIT_S):
                    raise SandboxLost("a killed run does not end")
            waiting.exit()
            return Exit(None)
        finally:
            server.forget(command.mark)
            kill_tree(command.mark)

    def stop(self, mark: str) -> None:
        self._server.signal(mark, "SIGTERM")

    def close(self) -> None:
        self._server.close()

    def _living_server(self) -> "_Server":
        """The server; a new one where somebody killed it."""
        with self._lock:
            if self._server.is_lost:
                self._server.close()
                self._server = _Server()
            return self._server


class _Server:
    """One fork server and the thread that hears from it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVE, str(_ROOT), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the driver
            )
        self._socket = ours
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self.is_lost = False
        self._reader = threading.Thread(target=self._read, name="fork server", daemon=True)
        self._wait_until_ready()
        self._reader.start()

    def start(self, command: Command) -> "_Waiting":
        """Have a command started. Raises SandboxLost."""
        env = marked_environment(dict(command.environ), command.mark)
        order = {"id": command.mark, "arguments": command.arguments, "environ": env, "cwd": str(command.cwd)}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        waiting = _Waiting()
        try:
            log = os.open(command.log, flags, 0o600)
        except OSError as error:
            raise SandboxLost(f"{command.log} cannot be written: {error.strerror}") from error
        try:
            with self._lock:
                if self.is_lost:
                    raise SandboxLost("the fork server ended")
                self._waiting[command.mark] = waiting
                socket.send_fds(self._socket, [json.dumps(order).encode()], [log])
        except OSError as error:
            raise SandboxLost(f"the fork server cannot be reached: {error}") from error
        finally:
            os.close(log)
        return waiting

    def signal(self, mark: str, name: str) -> None:
        """Through the server, which knows whether the process is still the one that was started."""
        with self._lock, suppress(OSError):  # the server is gone, and what it started with it
            self._socket.send(json.dumps({"id": mark, "signal": name}).encode())

    def forget(self, mark: str) -> None:
        with self._lock:
            self._waiting.pop(mark, None)

    def close(self) -> None:
        """End the server, which ends what it started."""
        with suppress(OSError):  # the server is gone already
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader, which a mere close would not
        try:
            self._process.wait(_LAST_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._reader.is_alive():
            self._reader.join()
        self._socket.close()

    def _wait_until_ready(self) -> None:
        self._socket.settimeout(_START_S)
        try:
            hello = self._socket.recv(64)
        except OSError as error:
            hello = str(error).encode()
        if hello != b"ready":
            self.close()
            raise SandboxLost(f"the fork server did not start: {hello.decode('utf-8', 'replace') or 'it ended'}")
        self._socket.settimeout(None)

    def _read(self) -> None:
        while data := self._receive():
            message = cast(Json, json.loads(data))
            with self._lock:
                waiting = self._waiting.get(str(message["id"]))
            if waiting is not None:
                waiting.status = int(message["status"])
                waiting.done.set()
        with self._lock:
            self.is_lost = True
            for waiting in self._waiting.values():
                waiting.done.set()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 12)
        except OSError:
            return b""


class _Waiting:
    """A command that was handed to the server. `status` is as waitpid gives it; None: the server is gone."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.status: int | None = None

    def exit(self) -> Exit:
        if self.status is None:
            raise SandboxLost("the fork server ended while the run was on")
        code = os.waitstatus_to_exitcode(self.status)
        return Exit(128 - code, -code) if code < 0 else Exit(code)


def open_launcher() -> Launcher:
    """The quick one where it works, else the plain one."""
    if not hasattr(os, "pidfd_open") or not hasattr(socket, "SOCK_SEQPACKET"):
        return PlainLauncher()
    try:
        return ForkLauncher()
    except (OSError, SandboxLost):
        return PlainLauncher()
