"""A process that has imported everything and forks one run per order: start-up is paid once for a whole batch.

It has one thread, so that a fork copies no lock in a strange state. Orders come in over a socket, each with the file
for the run's output; the end of each run goes back. When the socket closes, because the driver ended or was killed,
everything that was started is killed, and a run is also killed by the kernel if this process dies.
"""

import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn, cast

from tinyagent.batch.rehearsal import rehearse
from tinyagent.core.types import Json
from tinyagent.sandboxes.tree import kill_tree

_ORDER_BYTES = 1 << 18  # Linux's own limit for one packet is about 200 KB
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class _Child:
    id: str
    pid: int
    pidfd: int


def serve(link: socket.socket) -> None:
    """Take orders until the other end is closed."""
    children: dict[str, _Child] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in selector.select():
                    if isinstance(key.data, _Child):
                        selector.unregister(key.data.pidfd)
                        _ended(children.pop(key.data.id), link)
                    elif not _order(link, children, selector):
                        return
        finally:
            for child in children.values():
                _kill_group(child.pid, signal.SIGKILL)
                kill_tree(child.id)


def _order(link: socket.socket, children: dict[str, _Child], selector: selectors.BaseSelector) -> bool:
    """Do what one message asks for; False if there is none any more."""
    data, files, _, _ = socket.recv_fds(link, _ORDER_BYTES, 1)
    if not data:
        return False
    order = cast(Json, json.loads(data))
    name = str(order["id"])
    if "signal" in order:
        if name in children:
            _kill_group(children[name].pid, signal.Signals[str(order["signal"])])
        return True
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        inherited = [link.fileno(), *(child.pidfd for child in children.values())]
        selector.close()
        _become_run(order, files[0], inherited)
    for file in files:
        os.close(file)
    child = _Child(name, pid, os.pidfd_open(pid))
    children[name] = child
    selector.register(child.pidfd, selectors.EVENT_READ, child)
    return True


def _ended(child: _Child, link: socket.socket) -> None:
    """Its group is ended before its id is given back, and its end told."""
    _kill_group(child.pid, signal.SIGKILL)
    _, status = os.waitpid(child.pid, 0)
    os.close(child.pidfd)
    with suppress(OSError):  # the driver is gone; the next look at the link finds that
        link.send(json.dumps({"id": child.id, "status": status}).encode())


def _kill_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
    with suppress(ProcessLookupError, PermissionError):  # it may not have made its group yet
        os.kill(pid, number)


def _become_run(order: Json, log: int, inherited: list[int]) -> NoReturn:
    """In the fork: be as a process that was started for this run. Never returns."""
    code = 1
    try:
        os.setsid()
        _die_with_parent()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        _use_files(log, inherited)
        os.environ.clear()
        os.environ.update(cast("dict[str, str]", order["environ"]))
        os.chdir(str(order["cwd"]))
        arguments = cast("list[str]", order["arguments"])
        sys.argv = ["tinyagent", *arguments]
        code = _command_line(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # whatever it is, the copy of the server must not go on as a second server
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _use_files(log: int, inherited: list[int]) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for file in {null, log, *inherited}:
        if file > 2:
            os.close(file)


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when the server dies (Linux; elsewhere the driver's look at resume does)."""
    parent = os.getppid()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before the request was made
        os._exit(1)


def main() -> None:
    """Rehearse, say so, serve."""
    rehearse(_command_line)
    gc.collect()
    gc.freeze()  # the collector must not write into pages that the forks share
    with socket.socket(fileno=int(sys.argv[1])) as link, suppress(BrokenPipeError):  # the driver was killed meanwhile
        link.send(b"ready" if threading.active_count() == 1 else b"a thread is left of the rehearsal")
        serve(link)


def _command_line(arguments: list[str]) -> int:
    return cast("Callable[[list[str]], int]", import_module("tinyagent.cli.app").command_line)(arguments)
