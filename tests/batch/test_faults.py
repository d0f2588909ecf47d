"""What dies, hangs or is deleted costs at most a step: every task ends exactly once, and files stay whole."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Semaphore

import pytest

from tests.batch.batches import DEAR, Batch, bash, by_task, on, oracle, rows
from tests.fake_provider import FakeProvider
from tests.fake_wires import Say
from tests.faults import Fault
from tinyagent.batch.board import Board
from tinyagent.batch.launch import Command, Exit
from tinyagent.batch.ledger import Ledger

MakeBatch = Callable[..., Batch]
SLOW: dict[int | str, Fault | str] = {"all": Fault(first_byte_s=0.05)}


def processes(word: str) -> list[int]:
    """Processes whose command line or folder names the word, this one left out."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            names = (folder / "cmdline").read_text() + str((folder / "cwd").readlink())
        except OSError:
            continue
        if word in names and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def until(condition: Callable[[], object], *, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not come true in time"
        time.sleep(0.02)


def drive(batch: Batch, server: FakeProvider, *more: str) -> "subprocess.Popen[bytes]":
    """The driver as a process of its own, as a user starts it."""
    options = [w for key, text in {**on(server), "cost_limit": "0.5"}.items() for w in ("--set", f"{key}={text}")]
    prices = [w for text in DEAR for w in ("--set", text)]
    argv = [sys.executable, "-m", "tinyagent", "batch", str(batch.write_tasks()), "-o", str(batch.out), "-w", "4"]
    environ = {**os.environ, "TINYAGENT_HOME": str(batch.root / "home")}
    with (batch.root / "driver.log").open("ab") as log:
        return subprocess.Popen([*argv, *options, *prices, *more], env=environ, stdout=log, stderr=log)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_driver_killed_again_and_again_loses_and_doubles_nothing(batch: MakeBatch, seed: int) -> None:
    """R25, R70: SIGKILL at random moments."""
    chance, kills = random.Random(seed), 0
    script = {f"number {n}.": [bash("echo 1 >> x"), bash("echo 2 >> x"), Say("Done.")] for n in range(1, 9)}
    with FakeProvider([by_task(script)], faults=SLOW) as server:
        several = batch(rows(8, check="sort -u x | wc -l | grep -q 2"))
        while True:
            driver = drive(several, server, "--total-cost-limit", "50")
            try:
                driver.wait(chance.uniform(0.8, 2.0) if kills < 4 else 60)
                break
            except subprocess.TimeoutExpired:
                driver.kill()
                driver.wait()
                kills += 1
                until(lambda: not processes(str(several.out)))
                for result in several.lines("results.jsonl") if (several.out / "results.jsonl").exists() else []:
                    assert result["state"] in ("passed", "infrastructure")
        sent = len(server.requests)
    assert driver.returncode == 0, (several.root / "driver.log").read_text()[-2000:]
    assert set(several.states().values()) == {"passed"}
    assert sorted(row["id"] for row in several.lines("results.jsonl")) == [f"t{n}" for n in range(1, 9)]
    assert sorted(row["instance_id"] for row in several.lines("preds.jsonl")) == [f"t{n}" for n in range(1, 9)]
    assert sent <= 8 * 3 + kills * 4 * 3  # those that were broken off inside a command begin again
    with Ledger(several.out / "ledger.sqlite", total_usd=50) as ledger:
        assert not ledger.open()
        costs = [several.status(f"t{n}").cost_usd or 0 for n in range(1, 9)]
        assert sum(costs) <= ledger.balance().settled_usd + 1e-6


def test_a_killed_run_is_run_again_and_the_others_go_on(batch: MakeBatch) -> None:
    several = batch(
        rows(4, oracle=oracle("sleep 1.5"), check="true"),
        asked={"oracle": True},
    )
    killed: list[int] = []

    def kill_one(board: Board) -> None:
        lock = next(several.folder("t2").glob("home/runs/*/journal.lock"), None)
        if lock is not None and not killed and (text := lock.read_text().strip()):
            killed.append(int(text))
            os.kill(int(text), signal.SIGKILL)

    several.seen.on_look = kill_one
    outcome = several.run()
    assert killed
    assert outcome.exit_code == 0
    assert [several.status(f"t{n}").number for n in (1, 2, 3, 4)] == [1, 2, 1, 1]
    assert set(several.states().values()) == {"passed"}


def test_a_run_that_is_always_killed_is_given_up_after_the_retries(batch: MakeBatch) -> None:
    one = batch(rows(1, oracle=oracle(*["kill -9 $PPID"] * 3)), asked={"oracle": True, "max_retries": 1})
    outcome = one.run()
    status = one.status("t1")
    assert (status.state, status.reason, status.number) == ("infrastructure", "killed", 2)
    assert "signal 9" in status.error
    assert outcome.exit_code == 1


def test_a_run_that_hangs_is_ended_at_its_deadline_and_is_dead_then(batch: MakeBatch) -> None:
    """R68 NeMo Gym#3185, R71 OpenHands benchmarks#346: the parent keeps the deadline, and what it ends is dead."""
    hang = oracle("echo half > x; (setsid sleep 321 &) ; kill -STOP $PPID; sleep 321")
    one = batch(rows(1, oracle=hang, limits={"time_limit": "1s"}), asked={"oracle": True}, grace_s=0.5)
    one.run()
    status = one.status("t1")
    assert (status.state, status.reason) == ("limit", "time_limit")
    assert "+half" in (one.folder("t1") / "patch.diff").read_text()
    assert not processes("sleep\x00321")
    assert json.loads((one.folder("t1") / "trajectory.json").read_bytes())["messages"]


def test_what_a_run_leaves_behind_is_ended_with_it(batch: MakeBatch) -> None:
    one = batch(rows(1, oracle=oracle("setsid sleep 322 > /dev/null 2>&1 &")), asked={"oracle": True})
    one.run()
    assert one.status("t1").state == "submitted"
    assert not processes("sleep\x00322")


@pytest.mark.parametrize(
    ("deed", "state"),
    [
        ("rm -rf $PWD", "failed"),
        ("rm -rf $(dirname $(dirname $PWD))", "infrastructure"),
        ("rm -rf .* * 2> /dev/null; true", "failed"),
    ],
)
def test_a_task_that_deletes_its_folder_harms_only_itself(batch: MakeBatch, deed: str, state: str) -> None:
    several = batch(
        [
            {"id": "bad", "task": "x", "oracle": oracle(deed), "check": "test -e kept"},
            {"id": "good", "task": "x", "oracle": oracle("touch kept"), "check": "test -e kept"},
        ],
        asked={"oracle": True, "max_retries": 1},
    )
    several.run()
    assert several.states() == {"bad": state, "good": "passed"}
    assert several.status("bad").cost_usd == (None if state == "infrastructure" else 0)
    assert len(several.lines("results.jsonl")) == 2


def test_an_interrupt_ends_running_tasks_in_good_order_and_the_same_command_goes_on(batch: MakeBatch) -> None:
    """R23: Ctrl-C in a batch."""
    script = {f"number {n}.": [bash("echo 1 >> x"), bash("sleep 1"), Say("Done.")] for n in range(1, 5)}
    with FakeProvider([by_task(script)]) as server:
        several = batch(rows(4, check="grep 1 x"), options={**on(server), "cost_limit": "0", "batch.workers": "2"})
        first = several.run(interrupts=lambda: int(any(board.running for board in several.seen.boards)))
        assert first.exit_code == 130
        assert first.pending >= 2
        assert not list(several.out.rglob("journal.lock")) or not processes(str(several.out))
        second = several.run()
    assert second.exit_code == 0
    assert set(several.states().values()) == {"passed"}


def test_a_run_that_was_just_being_started_hears_the_stop_too(tmp_path: Path) -> None:
    class Starting:
        """Its runs are not there yet when the first stop comes."""

        def __init__(self) -> None:
            self.stops = Semaphore(0)

        def run(self, command: Command, *, timeout_s: float, grace_s: float = 0.0) -> Exit:
            heard = [self.stops.acquire(timeout=20) for _ in range(2)]
            return Exit(143 if all(heard) else 1)

        def stop(self, mark: str) -> None:
            self.stops.release()

        def close(self) -> None:
            """Nothing is open."""

    several = Batch(tmp_path, rows(1), launcher=Starting())
    outcome = several.run(interrupts=lambda: int(any(board.running for board in several.seen.boards)))
    assert outcome.exit_code == 130
    assert "exit code 143" in several.status("t1").error


def test_a_terminated_driver_ends_its_runs_and_says_so(batch: MakeBatch) -> None:
    script = {f"number {n}.": [bash("sleep 20")] for n in range(1, 5)}
    with FakeProvider([by_task(script)]) as server:
        several = batch(rows(4))
        driver = drive(several, server)
        until(lambda: len(server.requests) >= 4)
        driver.terminate()
        assert driver.wait(20) == 143
    assert not processes(str(several.out))
    assert json.loads((several.out / "summary.json").read_bytes())["stopped"] == "interrupted"


def test_the_fork_server_s_death_costs_no_task(batch: MakeBatch) -> None:
    several = batch(rows(3, oracle=oracle("sleep 0.5"), check="true"), asked={"oracle": True})
    killed: list[int] = []

    def kill_server(board: Board) -> None:
        if board.running and not killed:
            killed.extend(pid for pid in processes("batch.forkserver") if parent(pid) == os.getpid())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    several.seen.on_look = kill_server
    assert several.run().exit_code == 0
    assert killed
    assert set(several.states().values()) == {"passed"}
