"""The one process runner: starts a command, keeps its output, and ends all of it at its time limit."""

import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tinyagent.core.errors import SandboxLost
from tinyagent.core.types import Completed
from tinyagent.sandboxes.capture import Capture
from tinyagent.sandboxes.tree import kill_tree, living, marked_environment, new_mark, signal_tree

GRACE_S = 0.5  # between SIGTERM and SIGKILL
_CHUNK_BYTES = 1 << 16  # a pipe's usual capacity on Linux
_QUIET_S = 0.1  # how long a pipe that background processes hold may stay silent before it is left
_DRAIN_S = 0.5  # and how long it is read at most, however much they write
_POLL_S = 0.02  # where the end of a process cannot be waited for together with its output
_LONGEST_WAIT_S = 60.0  # select() takes no infinity
_LAST_WAIT_S = 2.0  # for a killed process to be gone; only one stuck in the kernel takes longer
_CANNOT_EXECUTE = 126  # the shell's code for a command that was found but cannot be run


def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    spool: Path | None = None,
    grace_s: float = GRACE_S,
    mark: str = "",
) -> Completed:
    """Run a program in a session and process group of its own, without a terminal, stdin closed.

    Returns when the program itself ends: it waits for the process and never for the end of the pipe, which background
    children may hold for hours (opencode #47350). Those live on, and what they write later is dropped. At the time
    limit and on any exception (Ctrl-C) everything that was started is ended: see `tree` for what that covers.
    `mark` names the tree; with none given, it is a fresh one.

    Raises `SandboxLost` when the program cannot be started for a reason that holds for every command.
    """
    mark = mark or new_mark()
    started = time.monotonic()
    with Capture(max_bytes, spool=spool) as capture:
        try:
            process = _Process(argv, cwd=cwd, env=marked_environment(env, mark), capture=capture, mark=mark)
        except ValueError as error:  # NUL or a lone surrogate in the command
            return _not_run(f"the command cannot be passed to a program: {error}")
        except OSError as error:
            if error.errno == errno.E2BIG:
                size = sum(len(os.fsencode(word)) for word in argv)
                return _not_run(f"the command is too long to be run ({size} bytes): write a file, then run that")
            raise _lost(argv, cwd, error) from error
        except BaseException:  # an interrupt after the program was started, before there is an object for it
            kill_tree(mark)
            raise
        try:
            process.pump(until=started + timeout_s)
            timed_out = not process.exited
            if timed_out:
                process.end(grace_s)
            process.drain()
        except BaseException:
            process.end(grace_s)
            raise
        finally:
            process.close()
    exit_code, signal_name = _exit_code(process.returncode)
    return Completed(
        exit_code=None if timed_out else exit_code,
        output=capture.text(),
        output_bytes=capture.total,
        timed_out=timed_out,
        signal="" if timed_out else signal_name,
        duration_s=time.monotonic() - started,
    )


class _Process:
    """A started program, the pipe that its output comes through, and how to end both."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], capture: Capture, mark: str) -> None:
        self.exited = False
        self._capture = capture
        self._mark = mark
        self._ended = False
        self._pipe: int | None
        self._pipe, write_end = os.pipe()
        try:
            self._child = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(write_end)
        _prefer_for_oom_killer(self._child.pid)
        self._exit_fd = _exit_fd(self._child.pid)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe, selectors.EVENT_READ)
        if self._exit_fd is not None:
            self._selector.register(self._exit_fd, selectors.EVENT_READ)

    @property
    def returncode(self) -> int:
        """As Popen gives it: negative for a signal."""
        return self._child.returncode if self._child.returncode is not None else -signal.SIGKILL

    def pump(self, *, until: float) -> None:
        """Read output until the program has ended or the (monotonic) time has come."""
        while not self.exited:
            left = until - time.monotonic()
            if left <= 0:
                return
            self._read_ready(left)

    def drain(self) -> None:
        """Read what is still in the pipe, without waiting for those who hold it."""
        deadline = time.monotonic() + _DRAIN_S
        while self._pipe is not None and time.monotonic() < deadline and self._read_ready(_QUIET_S):
            pass

    def end(self, grace_s: float) -> None:
        """End everything that was started: politely, then by force, also when interrupted meanwhile."""
        self._ended = True
        try:
            self._signal_group(signal.SIGTERM)
            signal_tree(self._mark, signal.SIGTERM, except_group=self._child.pid)
            deadline = time.monotonic() + grace_s
            while time.monotonic() < deadline and not (self.exited and not living(self._mark)):
                self._read_ready(_POLL_S)
        finally:
            self._signal_group(signal.SIGKILL)
            kill_tree(self._mark)
            self.pump(until=time.monotonic() + _LAST_WAIT_S)

    def close(self) -> None:
        """Reap the program and let go of the pipe. The group must not be signalled after this: its id is free."""
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: nothing can be done about it
            self._child.wait(timeout=_LAST_WAIT_S)
        self._forget(self._exit_fd)
        self._selector.close()
        if self._pipe is None:
            return
        pipe, self._pipe = self._pipe, None
        if self._ended:
            os.close(pipe)
        else:
            threading.Thread(target=_discard, args=(pipe,), daemon=True).start()

    def _read_ready(self, wait_s: float) -> bool:
        """Take one chunk or note the end, waiting at most so long; False if nothing came."""
        must_poll = self._exit_fd is None and not self.exited
        ready = self._selector.select(min(wait_s, _POLL_S if must_poll else _LONGEST_WAIT_S))
        for key, _ in ready:
            if key.fd != self._pipe:
                self.exited = True
                self._forget(key.fd)
                self._exit_fd = None
            elif chunk := os.read(key.fd, _CHUNK_BYTES):
                self._capture.add(chunk)
            else:
                self._forget(key.fd)
                self._pipe = None
        if must_poll:
            self.exited = self._child.poll() is not None
        return bool(ready)

    def _forget(self, fd: int | None) -> None:
        if fd is not None:
            self._selector.unregister(fd)
            os.close(fd)

    def _signal_group(self, number: signal.Signals) -> None:
        """The group's id is ours as long as the program is not reaped."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)


def _exit_fd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, without reaping it; None where there is none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # kernels before 5.3, and filters that do not know the call
        return None


def _prefer_for_oom_killer(pid: int) -> None:
    """Out of memory, the kernel should take the command and not the agent (claude-code #70204)."""
    with suppress(OSError):  # no /proc, or not allowed: a preference only
        Path(f"/proc/{pid}/oom_score_adj").write_text("500", encoding="ascii")


def _discard(pipe: int) -> None:
    """Read and drop what background processes write, slowly enough to cost nothing, so that they do not break."""
    try:
        while chunk := os.read(pipe, _CHUNK_BYTES):
            if len(chunk) == _CHUNK_BYTES:
                time.sleep(0.05)
    finally:
        os.close(pipe)


def _exit_code(returncode: int) -> tuple[int, str]:
    """The shell's exit code and the signal's name, which is "" if the program ended by itself."""
    if returncode >= 0:
        return returncode, ""
    try:
        name = signal.Signals(-returncode).name
    except ValueError:  # a real-time signal
        name = f"signal {-returncode}"
    return 128 - returncode, name


def _not_run(reason: str) -> Completed:
    return Completed(exit_code=_CANNOT_EXECUTE, output=reason, output_bytes=len(reason.encode()))


def _lost(argv: Sequence[str], cwd: Path, error: OSError) -> SandboxLost:
    if not cwd.is_dir():
        return SandboxLost(f"the workspace {cwd} does not exist any more: restore it, then resume the run")
    return SandboxLost(f"cannot start {argv[0]}: {error.strerror or error}")
