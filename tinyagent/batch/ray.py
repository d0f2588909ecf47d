# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# Ray is an optional extra: where it is not installed its functions are not known.
"""Tries on the nodes of a Ray cluster: one Ray task a try, which calls the same `work` as the local pool.

No shared disk is assumed: a task's folder goes out as bytes and the result's folder comes back as bytes. A `repo` must
be at the same path on every node. The ledger stays with the driver, which reserves before it submits; a worker needs
no call to it, since what it may spend is in its order. Ray's own retries are off: a killed worker's try is settled at
its worst case and, as infrastructure, made again by the driver.
"""

import io
import os
import pickle
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tinyagent.batch.launch import PlainLauncher
from tinyagent.batch.local import Finished
from tinyagent.batch.order import Order
from tinyagent.batch.status import Status, write_status
from tinyagent.batch.tasks import Folder
from tinyagent.batch.worker import work
from tinyagent.core.errors import ConfigError

NAMESPACE = "tinyagent"
OBJECT_STORE_BYTES = 256 * 1024 * 1024
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

    def __init__(self, environ: Mapping[str, str], *, workers: int, address: str | None) -> None:
        ray = _ray()
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        own = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES} if address is None else {}
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="error", **own)
        cpus = float(ray.cluster_resources().get("CPU", 1))
        self._environ = dict(environ)
        # A run waits for its model most of the time, so that more of them than there are processors fit on a node.
        share = min(1.0, max(0.01, cpus / workers))
        self._remote = ray.remote(num_cpus=share, max_retries=0)(make_try)
        self._running: dict[Any, Order] = {}

    def start(self, order: Order) -> None:
        parcel = Parcel(order, _packed_source(order), _config_bytes(order.options), self._passed(order))
        self._running[self._remote.remote(pickle.dumps(parcel))] = order

    def finished(self, timeout_s: float) -> list[Finished]:
        if not self._running:
            return []
        done, _ = _ray().wait(list(self._running), num_returns=1, timeout=timeout_s)
        return [self._taken(ref) for ref in done]

    def stop(self, *, force: bool) -> None:
        for ref in self._running:
            _ray().cancel(ref, force=force)

    def close(self) -> None:
        _ray().shutdown()

    def _taken(self, ref: Any) -> Finished:
        order = self._running.pop(ref)
        try:
            returned = cast(Returned, pickle.loads(_ray().get(ref)))
        except Exception as error:  # Ray's many: the worker, its node or its result is gone, or it was cancelled
            return Finished(order, None, f"{type(error).__name__}: {error}")
        _unpack(returned.folder, order.folder)
        write_status(order.folder, returned.status)
        return Finished(order, returned.status)

    def _passed(self, order: Order) -> dict[str, str]:
        """Keys, addresses and our own settings; everything else is the node's own."""
        return {
            name: value
            for name, value in self._environ.items()
            if name not in _OF_THE_DRIVER
            and (name in order.key_names or name.startswith("TINYAGENT_") or name.endswith(("_BASE_URL", "_HOST")))
        }


def make_try(data: bytes) -> bytes:
    """In a Ray worker: unpack a try, make it, pack what came of it."""
    parcel = cast(Parcel, pickle.loads(data))
    with tempfile.TemporaryDirectory(prefix="tinyagent-") as place:
        root = Path(place)
        order = _at_home(parcel, root)
        status = work(order, PlainLauncher(), {**os.environ, **parcel.environ, "TINYAGENT_HOME": str(root / "home")})
        return pickle.dumps(Returned(status, _pack(order.folder, leave_out=_LEFT_BEHIND)))


def _at_home(parcel: Parcel, root: Path) -> Order:
    """The order with the paths of this machine."""
    order = replace(parcel.order, folder=root / parcel.order.folder.name, pause=None)
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
        raise ConfigError("--executor ray needs Ray: pip install 'tinyagent[ray]'") from error
    return ray
