"""Runs that are taken up again: with another word, another model, another limit, in a copy."""

import pytest

from tests.e2e.bodies import faults, read_body
from tests.e2e.processes import until
from tests.e2e.program import MODELS, TASK, WIRES, Tinyagent, proven
from tests.e2e.scripts import SUMMARY, bash, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.faults import Fault
from tests.generators import text
from tinyagent.models.wires import encode
from tinyagent.trajectory import replay

SMALL = ("--context-window", "8000")
TALK = text("prose", 3_500, 7)
FOLLOW_UP = "Now rename the flag --quick to --fast, and keep 4f2a9c1b as it is."
every_wire = pytest.mark.parametrize("api", WIRES)


@every_wire
@pytest.mark.parametrize("stages", ["elide,summarize,prune", "prune"])
def test_task_and_follow_up_are_both_there_after_passes(tinyagent: Tinyagent, stages: str, api: str) -> None:
    """crush#3867: the latest follow-up was taken for the original request. codex#42611: answered ones came again."""
    names = files(tinyagent, 12, chars=300)
    options = (*SMALL, "-s", f"context.stages=[{stages}]")
    with FakeProvider(["First answer."]) as server:
        assert tinyagent.run(server, *options, api=api).stdout == "First answer.\n"
    script: list[Scripted] = [*reads(names, said=TALK), "Renamed."]
    with FakeProvider(script, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "-c", *options, api=api, task=FOLLOW_UP)
    sent = [read_body(body, api) for body in server.bodies if body.get("tools")]
    assert (done.code, done.stdout) == (0, "Renamed.\n")
    assert len(done.passes) >= 1
    assert [fault for body in sent for fault in faults(body)] == []
    assert all(TASK in body.user_text and FOLLOW_UP in body.user_text for body in sent)
    assert all(body.user_text.index(TASK) < body.user_text.index(FOLLOW_UP) for body in sent)


@pytest.mark.parametrize("second", MODELS)
@pytest.mark.parametrize("first", WIRES)
def test_a_run_begun_on_one_wire_goes_on_over_another(tinyagent: Tinyagent, first: str, second: str) -> None:
    with FakeProvider([bash("echo one", "echo two"), "Half of it."]) as server:
        begun = tinyagent.run(server, *SMALL, api=first)
        proven(begun, server)
    with FakeProvider([bash("echo three"), "All of it."]) as server:
        done = tinyagent.run(server, "-r", "latest", *SMALL, api=second, task="And the rest.")
        rebuilt = [encode(sent.request, sent.options) for sent in replay.requests(done.records)]
    assert (done.code, done.stdout) == (0, "All of it.\n")
    assert rebuilt[2:] == [recorded.raw for recorded in server.requests]
    assert replay.check(done.records, encode) == []
    body = read_body(server.bodies[0], second)
    assert faults(body) == []
    assert [text.splitlines()[0] for text in body.results] == ["one", "two"]


def test_a_fork_leaves_the_run_as_it_is(tinyagent: Tinyagent) -> None:
    big = bash("seq 1 30000")
    with FakeProvider([big, "Done."]) as server:
        first = tinyagent.run(server)
    assert first.folder is not None
    before = (first.folder / "journal.jsonl").read_bytes()
    again: list[Scripted] = [bash("echo x"), "Another way."]
    with FakeProvider(again) as server:
        fork = tinyagent.run(server, "-r", first.folder.name, "--fork", task="Do it another way.")
    assert (fork.code, fork.stdout, fork.folder != first.folder) == (0, "Another way.\n", True)
    assert (first.folder / "journal.jsonl").read_bytes() == before
    assert fork.info["run_id"] != first.info["run_id"]
    assert fork.folder is not None
    assert [path.name for path in (fork.folder / "outputs").iterdir()] != []


def test_a_run_in_progress_cannot_be_taken_up_by_another_process(tinyagent: Tinyagent) -> None:
    """R32 claude-code#20992: two processes on one session."""
    with FakeProvider([bash("echo x"), "Done."], faults={2: Fault(first_byte_s=2)}) as server:
        process = tinyagent.start(server)
        until(lambda: len(server.requests) == 2)
        second = tinyagent.run(server, "-r", "latest", task=None)
        assert process.done().code == 0
    assert second.code == 78
    assert f"process {process.pid} is working on the run" in second.stderr


def test_a_finished_run_with_nothing_to_add_costs_nothing(tinyagent: Tinyagent) -> None:
    with FakeProvider([bash("echo x"), "Done."]) as server:
        tinyagent.run(server)
        again = tinyagent.run(server, "-r", "latest", task=None)
    assert (again.code, again.stdout, len(server.requests)) == (0, "Done.\n", 2)


@every_wire
def test_what_was_elided_can_be_read_again_after_a_resume(tinyagent: Tinyagent, api: str) -> None:
    script: list[Scripted] = [*reads(files(tinyagent, 8, chars=3_600)), "Done."]
    with FakeProvider(script) as server:
        assert len(tinyagent.run(server, *SMALL, api=api).passes) == 1
    again = Say("", (Call("read_output", {"id": "m3"}),))
    with FakeProvider([again, "Read."], summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "-c", *SMALL, api=api, task="What was in the first file?")
    assert done.code == 0
    assert "file 1\n" in read_body(server.bodies[-1], api).results[-1]


@every_wire
def test_a_window_that_was_learned_is_kept(tinyagent: Tinyagent, api: str) -> None:
    """copilot-cli#3174: forgotten after a pass."""
    script: list[Scripted] = [*reads(files(tinyagent, 8, chars=3_000)), "Done."]
    with FakeProvider(script, window=5_000, summaries=[SUMMARY]) as server:
        tinyagent.run(server, api=api)
        first = sum(recorded.tokens >= 5_000 for recorded in server.requests)
    more: list[Scripted] = [*reads(files(tinyagent, 8, chars=3_000)), "Done again."]
    with FakeProvider(more, window=5_000, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "-c", api=api, task="Once more.")
        second = sum(recorded.tokens >= 5_000 for recorded in server.requests)
    assert (done.code, first, second) == (0, 1, 0)
