"""Sub-agents: a window of their own, and what is left of every limit."""

import signal
import subprocess

import pytest

from tests.e2e.bodies import faults, read_body
from tests.e2e.processes import all_dead, until
from tests.e2e.program import TASK, WIRES, Tinyagent
from tests.e2e.scripts import SUMMARY, bash, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.faults import Fault
from tests.generators import text
from tinyagent.core.events import ChildEnded

every_wire = pytest.mark.parametrize("api", WIRES)
SPAWN = Say("I let another look.", (Call("task", {"prompt": "Find the file and name it."}),))


@every_wire
def test_only_the_result_comes_back_and_all_that_it_cost_is_counted(tinyagent: Tinyagent, api: str) -> None:
    script: list[Scripted] = [SPAWN, bash("echo a secret path"), "It is x.py.", "All done."]
    with FakeProvider(script) as server:
        done = tinyagent.run(server, "--context-window", "20000", api=api)
    parent, first, second, last = (read_body(body, api) for body in server.bodies)
    assert (done.code, done.stdout) == (0, "All done.\n")
    assert set(parent.tools) - set(first.tools) == {"task"}
    assert TASK not in first.user_text
    assert "Find the file and name it." in first.user_text
    assert "a secret path" in second.results[0]
    assert last.results == ["It is x.py."]
    totals = done.info["model_stats"]
    assert (totals["api_calls"], totals["steps"]) == (4, 2)
    assert totals["input_tokens"] == sum(recorded.tokens for recorded in server.requests)
    assert done.folder is not None
    child = done.folder / "children" / "1" / "journal.jsonl"
    assert tinyagent.command("replay", str(child), "--check")[0] == 0


@every_wire
def test_a_sub_agent_has_a_window_of_its_own_and_compacts_in_it(tinyagent: Tinyagent, api: str) -> None:
    names = files(tinyagent, 8, chars=300)
    script: list[Scripted] = [SPAWN, *reads(names, said=text("prose", 3_500, 2)), "Found.", "All done."]
    with FakeProvider(script, window=8_000, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "--context-window", "8000", api=api)
    assert (done.code, done.stdout) == (0, "All done.\n")
    assert any(not body.get("tools") for body in server.bodies)
    assert done.passes == []
    assert server.requests[-1].tokens < 1_500
    assert [fault for body in server.bodies for fault in faults(read_body(body, api))] == []


@every_wire
def test_what_ends_a_sub_agent_early_is_told_to_the_model(tinyagent: Tinyagent, api: str) -> None:
    script: list[Scripted] = [SPAWN, bash("echo again"), "All done."]
    with FakeProvider(script, faults={3: "no_such_model"}) as server:
        done = tinyagent.run(server, api=api)
    assert (done.code, done.stdout) == (0, "All done.\n")
    assert "The sub-agent ended early" in read_body(server.bodies[-1], api).results[-1]


def test_a_sub_agent_cannot_spend_more_than_what_is_left(tinyagent: Tinyagent) -> None:
    """R65: one ledger; nothing left is not unlimited."""
    script: list[Scripted] = [SPAWN, *[bash(f"echo {n}") for n in range(100)]]
    with FakeProvider(script) as server:
        done = tinyagent.run(server, "--cost-limit", "0.05", "--context-window", "20000")
    assert (done.code, done.reason) == (3, "cost_limit")
    assert 0.03 < done.info["model_stats"]["instance_cost"] <= 0.05
    assert done.info["model_stats"]["api_calls"] == len(server.requests)


def test_steps_of_sub_agents_count_against_the_step_limit(tinyagent: Tinyagent) -> None:
    """R65. The limit is one of model requests, whoever makes them."""
    script: list[Scripted] = [Say("", SPAWN.calls * 3), *[bash(f"echo {n}") for n in range(100)]]
    with FakeProvider(script) as server:
        done = tinyagent.run(server, "--step-limit", "5")
    assert (done.code, done.reason, len(server.requests)) == (3, "step_limit", 5)


@every_wire
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_through_a_sub_agent(tinyagent: Tinyagent, number: signal.Signals, api: str) -> None:
    pids = tinyagent.workspace / "pids"
    with FakeProvider([SPAWN, bash("echo $$ >> pids; sleep 71")]) as server:
        process = tinyagent.start(server, "--output-format", "stream-json", api=api)
        until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        process.popen.send_signal(number)
        done = process.done(within_s=10)
    assert done.code == (130 if number == signal.SIGINT else 143)
    assert done.result["exit_code"] == done.code
    assert done.info["model_stats"]["api_calls"] == 2
    assert all_dead([int(pids.read_text())])


def test_a_time_limit_holds_in_a_sub_agent(tinyagent: Tinyagent) -> None:
    with FakeProvider([SPAWN, bash("sleep 71")], faults={}) as server:
        done = tinyagent.run(server, "--time-limit", "2")
        assert len(server.requests) == 2
    assert (done.code, done.reason) == (3, "time_limit")


@every_wire
def test_what_a_sub_agent_spent_before_a_kill_is_not_forgotten(tinyagent: Tinyagent, api: str) -> None:
    """R25 and R65 together."""
    with FakeProvider([SPAWN, bash("echo x"), "Done after all."], faults={3: Fault(first_byte_s=30)}) as server:
        process = tinyagent.start(server, "--context-window", "20000", api=api)
        until(lambda: len(server.requests) == 3)
        process.popen.send_signal(signal.SIGKILL)
        assert process.done().code == -signal.SIGKILL
        resumed = tinyagent.run(server, "-r", "latest", "--context-window", "20000", api=api, task=None)
    assert (resumed.code, resumed.stdout) == (0, "Done after all.\n")
    assert [event.requests for event in resumed.events(ChildEnded)] == [1]
    told = [server.requests[n].tokens for n in (0, 1, 3)]
    assert resumed.info["model_stats"]["input_tokens"] == sum(told)
    again = tinyagent.run(server, "-r", "latest", api=api, task=None)
    assert len(again.events(ChildEnded)) == 1
    assert subprocess.run(["pgrep", "-f", "echo x"], check=False, capture_output=True).stdout == b""


def test_a_command_of_a_sub_agent_that_a_kill_left_running_is_ended_when_the_run_goes_on(tinyagent: Tinyagent) -> None:
    with FakeProvider([SPAWN, bash("echo $$ > pid; sleep 83"), "All done."]) as server:
        process = tinyagent.start(server)
        pid = tinyagent.workspace / "pid"
        until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        process.popen.kill()
        process.done()
        done = tinyagent.run(server, "-r", "latest", task=None)
    assert (done.code, done.stdout) == (0, "All done.\n")
    assert all_dead([int(pid.read_text())], within_s=0)
    assert "ended what the killed run had left running" in done.stderr
