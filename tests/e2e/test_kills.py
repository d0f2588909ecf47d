"""`kill -9`: whatever was going on, the run can be read, and taken up where it was."""

import json
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.bodies import Json, faults, read_body
from tests.e2e.processes import all_dead, is_alive, until
from tests.e2e.program import WIRES, Done, Process, Tinyagent
from tests.e2e.scripts import SUMMARY, bash, files, read, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Say
from tests.generators import text
from tinyagent.models.wires import encode
from tinyagent.trajectory import replay

SMALL = ("--context-window", "8000")
TALK = text("prose", 3_500, 7)


class Killer:
    """Kills a process from inside the provider's answer, or a moment after it."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._started = threading.Event()
        self._done = threading.Event()

    def watch(self, process: Process) -> Process:
        self._process = process
        self._started.set()
        return process

    def kill(self) -> None:
        self._started.wait()
        assert self._process is not None
        self._process.popen.send_signal(signal.SIGKILL)  # does nothing to one that has ended
        self._done.set()

    def at_once(self, say: Say) -> Callable[[Json], Say]:
        def answer(body: Json) -> Say:
            self.kill()
            return say

        return answer

    def after(self, seconds: float, say: Say) -> Callable[[Json], Say]:
        def answer(body: Json) -> Say:
            self._started.wait()
            threading.Timer(seconds, self.kill).start()
            return say

        return answer

    def then(self, say: Say) -> Callable[[Json], Say]:
        """An answer that is not given before the kill."""

        def answer(body: Json) -> Say:
            self._done.wait()
            return say

        return answer


@pytest.mark.parametrize("api", WIRES)
def test_a_kill_during_a_pass_is_followed_by_the_same_next_requests_as_without_it(
    tinyagent: Tinyagent, api: str
) -> None:
    """hermes#79391: an interrupted pass had deleted the history."""
    script: list[Scripted] = [*reads(files(tinyagent, 8, chars=300), said=TALK), "Done."]
    with FakeProvider(script, summaries=[SUMMARY]) as whole:
        done = tinyagent.run(whole, *SMALL, api=api)
    assert (done.code, len(done.passes)) == (0, 1)
    killer = Killer()
    with FakeProvider(script, summaries=[killer.at_once(Say(SUMMARY)), SUMMARY]) as broken:
        killed = killer.watch(tinyagent.start(broken, *SMALL, api=api)).done()
        before = len(broken.requests)
        resumed = tinyagent.run(broken, "-r", "latest", *SMALL, api=api, task=None)
    wanted = [recorded.raw for recorded in whole.requests]
    at = next(number for number, body in enumerate(whole.bodies) if not body.get("tools"))
    assert (killed.code, resumed.code, before) == (-signal.SIGKILL, 0, at + 1)
    assert [recorded.raw for recorded in broken.requests[:before]] == wanted[: at + 1]
    assert [recorded.raw for recorded in broken.requests[before:]][:2] == wanted[at : at + 2]


def readable(tinyagent: Tinyagent, done: Done) -> None:
    """The commands that read runs take this one."""
    assert done.folder is not None
    code, listed, _ = tinyagent.command("runs", "--json")
    assert (code, [run["id"] for run in json.loads(listed)]) == (0, [done.folder.name])
    assert tinyagent.command("show", done.folder.name)[0] == 0
    path = done.folder.parent.parent / "export.json"
    assert tinyagent.command("export", done.folder.name, "--to", "native", "-o", str(path))[0] == 0
    assert json.loads(path.read_text("utf-8"))["trajectory_format"] == "tinyagent-1"


SEEDS = range(15)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_kill_anywhere_the_run_loads_and_goes_on_to_its_end(tinyagent: Tinyagent, seed: int) -> None:
    """R25 claude-code#52387, copilot-cli#4098: SIGKILL at random points."""
    rng = random.Random(seed)
    api, killer = WIRES[seed % len(WIRES)], Killer()
    names = files(tinyagent, 6, chars=3_600)
    script: list[Say] = [
        step
        for number, name in enumerate(names)
        for step in (read(name), bash(f"echo {number} >> log; sleep 0.02", "cat log"))
    ]
    at = rng.randrange(len(script))
    answers: list[Scripted] = [*script, killer.then(Say("Done."))]
    answers[at] = killer.after(rng.uniform(0.0, 0.08), script[at])
    with FakeProvider(answers, summaries=[SUMMARY]) as server:
        killed = killer.watch(tinyagent.start(server, *SMALL, api=api)).done()
        assert killed.code == -signal.SIGKILL
        if killed.folder is not None:
            readable(tinyagent, killed)
        resumed = tinyagent.run(server, "-r", "latest", *SMALL, api=api, task=None)
    assert (resumed.code, resumed.stdout) == (0, "Done.\n")
    assert [fault for body in server.bodies for fault in faults(read_body(body, api))] == []
    received = {recorded.raw for recorded in server.requests}
    assert all(encode(sent.request, sent.options) in received for sent in replay.requests(resumed.records))
    assert replay.check(resumed.records, encode) == []
    assert len({record.seq for record in resumed.records}) == len(resumed.records)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.02, 0.05])
def test_after_a_kill_while_the_run_ends_it_loads_and_is_still_finished(tinyagent: Tinyagent, seconds: float) -> None:
    killer = Killer()
    with FakeProvider([bash("echo here"), killer.after(seconds, Say("Done."))]) as server:
        killed = killer.watch(tinyagent.start(server, *SMALL)).done()
        readable(tinyagent, killed)
        resumed = tinyagent.run(server, "-r", "latest", *SMALL, task=None)
    assert killed.code in (0, -signal.SIGKILL)
    assert (resumed.code, resumed.stdout) == (0, "Done.\n")
    assert len(server.requests) in (2, 3)
    if killed.path.exists():
        assert killed.info["run_id"] == resumed.info["run_id"]


def test_a_run_that_was_killed_before_its_task_was_on_record_asks_for_the_task(tinyagent: Tinyagent) -> None:
    """Found here: it sent an empty task, or rather crashed over it. A batch lost the task."""
    with FakeProvider(["Done."]) as server:
        first = tinyagent.run(server)
        assert first.folder is not None
        journal = first.folder / "journal.jsonl"
        journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
        without = tinyagent.run(server, "-r", "latest", task=None)
        again = tinyagent.run(server, "-r", "latest", task="Do it.")
    assert (without.code, without.reason, len(server.requests)) == (78, "config", 2)
    assert "give the task again" in without.stderr
    assert (again.code, again.stdout) == (0, "Done.\n")


LEFT = "setsid sleep 81 & echo $! >> pids; sleep 82 & echo $! >> pids; echo $$ >> pids; touch ready; wait"


def started_pids(tinyagent: Tinyagent) -> list[int]:
    until(lambda: (tinyagent.workspace / "ready").exists())
    return [int(line) for line in (tinyagent.workspace / "pids").read_text().split()]


@pytest.mark.parametrize("options", [("-r", "latest"), ("-c",), ("-r", "latest", "--fork")], ids=" ".join)
def test_what_a_killed_run_left_running_is_ended_before_it_goes_on(
    tinyagent: Tinyagent, options: tuple[str, ...]
) -> None:
    """Found here: nothing ever ended it, and it went on writing in the workspace beside the resumed run."""
    with FakeProvider([bash(LEFT), "Done."]) as server:
        process = tinyagent.start(server)
        pids = started_pids(tinyagent)
        process.popen.kill()
        process.done()
        assert all(is_alive(pid) for pid in pids)
        resumed = tinyagent.run(server, *options, task=None if "--fork" not in options else "Again.")
    assert all_dead(pids, within_s=0)
    assert (resumed.code, resumed.stdout) == (0, "Done.\n")
    assert resumed.stderr.count("ended what the killed run had left running: 3 processes (bash, sleep)") == 1


def test_a_fork_leaves_the_commands_of_a_living_run_alone(tinyagent: Tinyagent) -> None:
    with FakeProvider([bash(LEFT), "Done."]) as server:
        process = tinyagent.start(server)
        pids = started_pids(tinyagent)
        fork = tinyagent.run(server, "-r", "latest", "--fork", task="Again.")
        assert all(is_alive(pid) for pid in pids)
        process.popen.send_signal(signal.SIGINT)
        process.done()
    assert (fork.code, "had left running" in fork.stderr) == (0, False)
    assert all_dead(pids)


def test_a_run_that_is_taken_up_from_inside_its_own_leftovers_does_not_end_itself(tinyagent: Tinyagent) -> None:
    """As in a tmux that a command of the killed run has started."""
    with FakeProvider([bash(LEFT), "Done."]) as server:
        process = tinyagent.start(server)
        pids = started_pids(tinyagent)
        process.popen.kill()
        process.done()
        (shell, *_) = [entry for entry in environ_of(pids[-1]) if entry.startswith("TINYAGENT_TREE=")]
        inside = tinyagent.start(
            server, "-r", "latest", task=None, environ={"TINYAGENT_TREE": shell.partition("=")[2]}
        ).done()
        assert all(is_alive(pid) for pid in pids)
        assert inside.code == 0
        tinyagent.run(server, "-r", "latest", task="Once more.")
    assert all_dead(pids, within_s=0)


def environ_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")
