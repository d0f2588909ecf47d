"""Tries on this machine: a thread for each that waits for its process."""

import queue
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tinyagent.batch.attempt import TryTail
from tinyagent.batch.launch import Launcher, open_launcher
from tinyagent.batch.order import Order
from tinyagent.batch.progress import Progress
from tinyagent.batch.status import Status
from tinyagent.batch.worker import work
from tinyagent.sandboxes.tree import kill_tree, signal_tree


@dataclass(frozen=True, slots=True)
class Finished:
    """A try that is over. `status` None: the worker itself failed, `error` says how."""

    order: Order
    status: Status | None
    error: str = ""


class Executor(Protocol):
    """Where tries are made. Called from the driver's thread only.

    `goes_on`: a try takes up what an earlier one left in the task's folder, so that its run has cost something already.
    """

    goes_on: bool

    def start(self, order: Order) -> None:
        """Begin a try; returns at once."""
        ...

    def finished(self, timeout_s: float) -> list[Finished]:
        """The tries that ended since the last call; waits at most so long for the first."""
        ...

    def progress(self) -> Mapping[str, Progress]:
        """How far the tries are that run, by their marks; one that has given no sign of life yet may be missing.

        Returns at once: who cannot be asked now is told of as last heard.
        """
        ...

    def stop(self, *, force: bool) -> None:
        """End all that runs: in good order, or by force. Their ends still come through `finished`."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Running:
    thread: threading.Thread
    tail: TryTail


class LocalExecutor:
    """Runs `work` in a thread for each try."""

    goes_on = True

    def __init__(self, environ: Mapping[str, str], *, launcher: Launcher | None = None) -> None:
        self._environ = dict(environ)
        self._launcher = launcher or open_launcher()
        self._ended: queue.SimpleQueue[Finished] = queue.SimpleQueue()
        self._running: dict[str, _Running] = {}

    def start(self, order: Order) -> None:
        thread = threading.Thread(target=self._work, args=(order,), name=order.folder.name, daemon=True)
        self._running[order.mark] = _Running(thread, TryTail(order.folder))
        thread.start()

    def finished(self, timeout_s: float) -> list[Finished]:
        found: list[Finished] = []
        try:
            found.append(self._ended.get(timeout=timeout_s))
            while True:
                found.append(self._ended.get_nowait())
        except queue.Empty:
            pass
        for one in found:
            self._running.pop(one.order.mark).thread.join()
        return found

    def progress(self) -> Mapping[str, Progress]:
        return {mark: running.tail.look() for mark, running in self._running.items()}

    def stop(self, *, force: bool) -> None:
        import signal

        for mark in list(self._running):
            self._launcher.stop(mark)
            if force:
                kill_tree(mark)
            else:
                signal_tree(mark, signal.SIGTERM)

    def close(self) -> None:
        self._launcher.close()

    def _work(self, order: Order) -> None:
        try:
            self._ended.put(Finished(order, work(order, self._launcher, self._environ)))
        except BaseException as error:  # one task's trouble, a full disk included, must not end the others
            self._ended.put(Finished(order, None, f"{error}\n{traceback.format_exc()}"))
