"""Batches on a Ray cluster of two nodes on this machine. Needs `pip install ray`."""

import importlib.util
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.batch.batches import DEAR, Batch, bash, by_task, on, oracle, rows
from tests.fake_provider import FakeProvider
from tests.fake_wires import Json, Say
from tests.faults import Fault, rate_limited
from tinyagent.batch.attempt import can_go_on
from tinyagent.batch.board import Board
from tinyagent.batch.tasks import Choice

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


def processes(name: bytes) -> list[int]:
    """Processes of this cluster whose command line begins so; Ray names its own by what they do."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(name) and is_below(int(folder.name), os.getpid()):
                found.append(int(folder.name))
    return found


def is_below(pid: int, ancestor: int) -> bool:
    while pid not in (0, ancestor):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == ancestor


def commands(words: str) -> list[bytes]:
    """What the processes of this machine run that begin so."""
    found: list[bytes] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((folder / "cmdline").read_bytes().replace(b"\0", b" "))
    return [line for line in found if line.startswith(words.encode())]


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
        for pid in processes(b"ray::make_try") if board.running and not killed else []:
            if not killed:
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    several = make(rows(3, oracle=oracle("sleep 3")), asked={"oracle": True})
    several.seen.on_look = kill_a_worker
    assert several.run().exit_code == 0
    assert killed
    assert sorted(several.status(f"t{n}").number for n in (1, 2, 3)) == [1, 1, 2]
    assert set(several.states().values()) == {"submitted"}


def test_a_killed_worker_s_run_dies_with_it(make: Any, tmp_path: Path) -> None:
    once, killed, long = tmp_path / "once", list[int](), f"sleep 60.{os.getpid()}"

    def kill_the_worker(board: Board) -> None:
        if not killed and once.exists():
            killed.extend(processes(b"ray::make_try"))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    several = make(rows(1, oracle=oracle(f"mkdir {once} && exec {long}; true")), asked={"oracle": True})
    several.seen.on_look = kill_the_worker
    assert several.run().exit_code == 0
    assert several.status("t1").number == 2
    assert not commands(long)


def test_shards_and_failed_tasks_are_chosen_as_without_a_cluster(make: Any) -> None:
    several = make(rows(4, oracle=oracle("true"), check="true"), asked={"oracle": True, "choice": Choice(shard="2/2")})
    several.rows[3]["check"] = "false"
    assert len(several.run().statuses) == 2
    first = {row["id"]: row["run_id"] for row in several.lines("results.jsonl")}
    several.asked |= {"retry_failed": True}
    several.run()
    again = {row["id"]: row["run_id"] for row in several.lines("results.jsonl")}
    assert [name for name in first if again[name] != first[name]] == ["t4"]


def test_a_running_task_shows_how_far_it_is_from_the_other_node_too(make: Any) -> None:
    script = {f"number {n}.": [bash("sleep 2"), Say("Done.")] for n in range(1, 5)}
    with FakeProvider([by_task(script)]) as server:
        several = make(rows(4), options={**on(server), "cost_limit": "0.5"}, assignments=DEAR)
        assert several.run().exit_code == 0
    for n in range(1, 5):
        seen = next(progress for progress in several.seen_running(f"t{n}") if progress.spend.steps)
        assert (seen.spend.steps, seen.ended) == (1, None)
        assert seen.spend.cost_usd
        assert seen.context_tokens


def test_a_wait_that_one_worker_was_told_is_kept_on_every_node(make: Any) -> None:
    """Four runs on two nodes go on in steps of a second, until one of them is refused for five."""
    script = by_task({f"number {n}.": [bash("sleep 1")] * 3 + [Say("Done.")] for n in range(1, 5)})
    asked: list[float] = []

    def reply(body: Json) -> Say:
        asked.append(time.monotonic())
        return script(body)

    with FakeProvider([reply], faults={7: rate_limited(retry_after="5")}) as server:
        several = make(rows(4), options={**on(server), "cost_limit": "0"})
        assert several.run().exit_code == 0
    waits = [after - before for before, after in pairwise(asked)]
    assert max(waits) > 3.5
    assert max(board.paused_s for board in several.seen.boards) > 3.5


def test_an_actor_that_is_killed_again_and_again_costs_no_task(make: Any) -> None:
    killed: set[int] = set()

    def kill_the_actor(board: Board) -> None:
        for pid in processes(b"ray::Exchange"):
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)

    several = make(rows(3, oracle=oracle("sleep 3")), asked={"oracle": True})
    several.seen.on_look = kill_the_actor
    assert several.run().exit_code == 0
    assert killed
    assert [several.status(f"t{n}").number for n in (1, 2, 3)] == [1, 1, 1]


def test_a_task_that_began_on_this_machine_starts_afresh_on_a_cluster_and_all_of_it_is_paid(make: Any) -> None:
    with FakeProvider([bash("true"), Say("Done.")], faults={2: Fault(first_byte_s=20)}) as server:
        one = make(rows(1), options={**on(server), "cost_limit": "0.5"}, assignments=DEAR)
        one.ray_address, address = None, one.ray_address
        first = one.run(interrupts=lambda: int(len(server.requests) == 2))
        assert can_go_on(one.folder("t1"))
        one.ray_address = address
        both = one.run()
    spent = one.status("t1").cost_usd
    assert spent
    assert both.balance.settled_usd == pytest.approx(first.balance.settled_usd + spent)


def test_tries_that_are_stopped_before_they_could_begin_cost_nothing(make: Any) -> None:
    script = {f"number {n}.": [bash("sleep 60"), Say("Done.")] for n in range(1, 7)}
    with FakeProvider([by_task(script)]) as server:
        options = {**on(server), "cost_limit": "0.5", "batch.workers": "6"}
        several = make(rows(6), options=options, assignments=DEAR)
        outcome = several.run(interrupts=lambda: 1)
    assert outcome.exit_code == 130
    assert outcome.balance.settled_usd < 0.1
    assert len(several.lines("results.jsonl")) == 6


def test_an_interrupt_ends_runs_in_good_order_and_the_same_command_goes_on(make: Any) -> None:
    script = {f"number {n}.": [bash("echo 1 >> x"), bash("sleep 5"), Say("Done.")] for n in range(1, 5)}
    with FakeProvider([by_task(script)]) as server:
        several = make(rows(4, check="grep 1 x"), options={**on(server), "cost_limit": "0.5"}, assignments=DEAR)
        seen = several.seen.boards
        first = several.run(
            interrupts=lambda: int(any(run.progress.spend.steps == 2 for board in seen for run in board.running))
        )
        assert first.exit_code == 130
        ended = [status for n in range(1, 5) if (status := several.status(f"t{n}")).run_id]
        assert {(status.state, status.reason) for status in ended} == {("infrastructure", "terminated")}
        assert all(0 < (status.cost_usd or 0) < 0.1 for status in ended)  # and not all that was reserved
        assert several.run().exit_code == 0
    assert set(several.states().values()) == {"passed"}
