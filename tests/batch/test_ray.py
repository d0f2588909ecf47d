"""Batches on a Ray cluster of two nodes on this machine. Needs `pip install ray`."""

import importlib.util
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.batch.batches import DEAR, Batch, bash, by_task, on, oracle, rows
from tests.fake_provider import FakeProvider
from tests.fake_wires import Say
from tinyagent.batch.board import Board

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes. 127.0.0.1 would be replaced by the machine's own address, where nobody listens."""
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_raylet_start_wait_time_s": "60",
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
    }
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    sizes = {"num_cpus": 2, "object_store_memory": 80 * 1024 * 1024}
    nodes = Cluster(initialize_head=True, head_node_args={"node_ip_address": "127.0.0.2", **sizes})
    nodes.add_node(node_ip_address="127.0.0.3", **sizes)
    yield nodes
    nodes.shutdown()


@pytest.fixture
def make(cluster: Any, tmp_path: Path) -> Any:
    return lambda task_rows, **more: Batch(tmp_path, task_rows, ray_address=cluster.address, **more)


def test_tasks_run_on_the_cluster_and_come_back_whole(make: Any, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("given\n", encoding="utf-8")
    several = make(
        rows(6, dir="source", oracle=oracle("cat file > seen"), check="grep given seen"), asked={"oracle": True}
    )
    assert several.run().exit_code == 0
    folder = several.folder("t3")
    assert "+given" in (folder / "patch.diff").read_text()
    assert json.loads((folder / "trajectory.json").read_bytes())["info"]["reason"] == "submitted"
    assert (folder / "journal.jsonl").exists()
    assert len(several.lines("results.jsonl")) == 6


def test_the_total_holds_on_a_cluster_too(make: Any) -> None:
    replies = {f"number {n}.": [bash("true")] * 3 + [Say("Done.")] for n in range(1, 7)}
    with FakeProvider([by_task(replies)]) as server:
        several = make(rows(6), options={**on(server), "cost_limit": "0.1"}, assignments=DEAR)
        first = several.run({"batch.total_cost_limit": "0.11"})
        assert first.exit_code == 3
        assert first.balance.settled_usd <= 0.11
        assert several.run({"batch.total_cost_limit": "2"}).exit_code == 0


def test_a_killed_worker_s_task_is_made_again(make: Any) -> None:
    killed: list[int] = []

    def kill_a_worker(board: Board) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if not killed and board.running and name.startswith(b"ray::make_try"):
                killed.append(int(folder.name))
                os.kill(int(folder.name), signal.SIGKILL)

    several = make(rows(3, oracle=oracle("sleep 3")), asked={"oracle": True})
    several.seen.on_look = kill_a_worker
    assert several.run().exit_code == 0
    assert killed
    assert sorted(several.status(f"t{n}").number for n in (1, 2, 3)) == [1, 1, 2]
    assert set(several.states().values()) == {"submitted"}
