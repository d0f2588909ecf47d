# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# Ray is an optional extra: where it is not installed its functions are not known.
"""Tries on the nodes of a Ray cluster: one Ray task a try, which calls the same `work` as the local pool.

No shared disk is assumed: a task's folder goes out as bytes and the result's folder comes back as bytes. A `repo` must
be at the same path on every node. The ledger stays with the driver, which reserves before it submits; a worker needs
no call to it, since what it may spend is in its order. Ray's own retries are off: a killed worker's try is settled at
its worst case and, as infrastructure, made again by the driver.

While tries run, their workers and the driver talk through one small actor. Nobody waits for it: where it or a node is
dead, a sign of life is missing and nothing else.
"""

import io
import os
import pickle
import signal
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from tinyagent.batch.attempt import begin_again
from tinyagent.batch.exchange import Exchange, Line, Report
from tinyagent.batch.folder import PAUSE
from tinyagent.batch.launch import Launcher, open_launcher
from tinyagent.batch.local import Finished, LocalExecutor
from tinyagent.batch.order import Order
from tinyagent.batch.progress import Progress
from tinyagent.batch.status import Status, write_status
from tinyagent.batch.tasks import Folder
from tinyagent.core.errors import END_STATES, ConfigError
from tinyagent.models.pause import MirroredPause, SharedPause

NAMESPACE = "tinyagent"
OBJECT_STORE_BYTES = 256 * 1024 * 1024
REPORT_S = 0.5  # between two reports of a worker
# No report to Ray's makers, and no token: a token file that one start leaves makes the next one refuse its workers.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
_OF_THE_DRIVER = ("TINYAGENT_HOME", "TINYAGENT_CONFIG", "TINYAGENT_TREE", "TINYAGENT_PAUSE", "TINYAGENT_RUNS")
_LEFT_BEHIND = ("workspace", "home")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A try as it travels: the order, the folder it starts from, the user's settings, keys and addresses."""

    order: Order
    source: bytes | None
    config: bytes | None
    environ: dict[str, str]


@dataclass(frozen=True, slots=True)
class Returned:
    """What comes back: the status, and the task's folder."""

    status: Status
    folder: bytes


class RayExecutor:
    """Runs tries on a cluster: that at `address`, else one on this machine that ends with the batch."""

    goes_on = False

    def __init__(self, environ: Mapping[str, str], *, workers: int, address: str | None) -> None:
        ray = _ray()
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        own = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES} if address is None else {}
        on_term = signal.getsignal(signal.SIGTERM)  # Ray would end the driver at once
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="error", **own)
        signal.signal(signal.SIGTERM, on_term)
        cpus = float(ray.cluster_resources().get("CPU", 1))
        self._environ = dict(environ)
        # A run waits for its model most of the time, so that more of them than there are processors fit on a node. A
        # node takes whole tries only: the part of one that each may leave over is counted in, or some would wait.
        share = min(1.0, max(0.01, int(10_000 * cpus / (workers + len(ray.nodes()) - 1)) / 10_000))
        self._remote = ray.remote(num_cpus=share, max_retries=0)(make_try)
        self._running: dict[Any, Order] = {}
        self._exchange = ray.remote(num_cpus=0, max_restarts=-1)(Exchange).remote()
        self._line = Line(self._exchange.report, self._hear)
        self._progress: Mapping[str, Progress] = {}
        self._pause: SharedPause | None = None
        self._is_forced = False

    def start(self, order: Order) -> None:
        parcel = Parcel(order, _packed_source(order), _config_bytes(order.options), self._passed(order))
        begin_again(order.folder)  # an older journal there would pass for this try's, were this driver killed
        self._running[self._remote.remote(pickle.dumps(parcel), self._exchange)] = order
        self._pause = None if order.pause is None else SharedPause(order.pause)

    def finished(self, timeout_s: float) -> list[Finished]:
        if not self._running:
            return []
        done, _ = _ray().wait(list(self._running), num_returns=1, timeout=timeout_s)
        return [self._taken(ref) for ref in done]

    def progress(self) -> Mapping[str, Progress]:
        """As heard since the last call, since no answer is waited for."""
        self._line.call(frozenset(order.mark for order in self._running.values()))
        return self._progress

    def stop(self, *, force: bool) -> None:
        self._is_forced = force
        for ref in self._running:
            _ray().cancel(ref, force=force)

    def close(self) -> None:
        _ray().shutdown()

    def _hear(self, report: Report) -> None:
        self._progress = report.progress
        if self._pause is not None:
            self._pause.extend(report.pause_s)

    def _taken(self, ref: Any) -> Finished:
        order = self._running.pop(ref)
        try:
            returned = cast(Returned, pickle.loads(_ray().get(ref)))
        except Exception as error:  # Ray's many: the worker, its node or its result is gone, or it was cancelled
            if type(error) is not _ray().exceptions.TaskCancelledError or self._is_forced:
                return Finished(order, None, f"{type(error).__name__}: {error}")
            status = _unbegun(order)
        else:
            status = returned.status
            _unpack(returned.folder, order.folder)
        write_status(order.folder, status)
        return Finished(order, status)

    def _passed(self, order: Order) -> dict[str, str]:
        """Keys, addresses and our own settings; everything else is the node's own."""
        return {
            name: value
            for name, value in self._environ.items()
            if name not in _OF_THE_DRIVER
            and (name in order.key_names or name.startswith("TINYAGENT_") or name.endswith(("_BASE_URL", "_HOST")))
        }


def _unbegun(order: Order) -> Status:
    """Of a try that was stopped while it waited for a worker. It has cost nothing."""
    end, status = END_STATES["interrupted"], Status(order.task.id, order.attempt, order.number, "infrastructure")
    status = replace(status, exit_status=end.status, reason="interrupted", exit_code=end.exit_code, retryable=True)
    return replace(status, error="stopped before it began", cost_usd=0.0)


def make_try(data: bytes, exchange: Any) -> bytes:
    """In a Ray worker: unpack a try, make it, pack what came of it.

    Ray cancels a task by an interrupt of its main thread. Here it ends the run in good order, which then comes back
    with its account like any other.
    """
    stop = threading.Event()  # the handler may stay: this process makes nothing but tries
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    parcel = cast(Parcel, pickle.loads(data))
    with tempfile.TemporaryDirectory(prefix="tinyagent-") as place:
        root = Path(place)
        order = _at_home(parcel, root)
        environ = {**os.environ, **parcel.environ, "TINYAGENT_HOME": str(root / "home")}
        finished = _made(order, environ, exchange, stop)
        if finished.status is None:
            raise RuntimeError(finished.error)
        return pickle.dumps(Returned(finished.status, _pack(order.folder, leave_out=_LEFT_BEHIND)))


def _made(order: Order, environ: Mapping[str, str], exchange: Any, stop: threading.Event) -> Finished:
    """The try as the local pool makes it, told of meanwhile."""
    pause = MirroredPause(SharedPause(cast(Path, order.pause)))
    line = Line(exchange.tell, pause.hear)
    local = LocalExecutor(environ, launcher=_launcher())
    local.start(order)
    is_stopped = False
    while True:
        progress = local.progress()[order.mark]
        line.call(order.mark, progress, pause.news_s())
        if stop.is_set() and not is_stopped:
            local.stop(force=False)
            is_stopped = bool(progress.run_id)  # else there may have been no run yet to hear it
        if ended := local.finished(REPORT_S):
            return ended[0]


@cache
def _launcher() -> Launcher:
    """One for all tries that this worker makes, and for as long as it lives: a killed worker's run ends with it."""
    return open_launcher()


def _at_home(parcel: Parcel, root: Path) -> Order:
    """The order with the paths of this machine."""
    order = replace(parcel.order, folder=root / parcel.order.folder.name, pause=root / PAUSE)
    order.folder.mkdir()
    if parcel.source is not None:
        (root / "source").mkdir()
        _unpack(parcel.source, root / "source")
        order = replace(order, task=replace(order.task, source=Folder(root / "source")))
    if parcel.config is not None:
        (root / "config.yaml").write_bytes(parcel.config)
        order = replace(order, options=("--config", str(root / "config.yaml"), *order.options[2:]))
    return order


def _packed_source(order: Order) -> bytes | None:
    source = order.task.source
    return _pack(source.path) if isinstance(source, Folder) else None


def _config_bytes(options: tuple[str, ...]) -> bytes | None:
    return Path(options[1]).read_bytes() if options[:1] == ("--config",) else None


def _pack(folder: Path, *, leave_out: tuple[str, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for path in sorted(folder.iterdir()):
            if path.name not in leave_out:
                tar.add(path, arcname=path.name)
    return buffer.getvalue()


def _unpack(data: bytes, folder: Path) -> None:
    """Nothing in the archive can lead out of the folder: Python's own rules for data."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        tar.extractall(folder, filter=_inside)


def _inside(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """As `data_filter`, but a link that leads out of a copied folder is left as it was and not an error."""
    if member.issym():
        return member.replace(name=member.name, deep=False)
    return tarfile.data_filter(member, path)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--executor ray needs Ray: python -m pip install 'ray>=2.40'") from error
    return ray
