"""Many runs under one budget: states that tell the truth, money that is never overspent, batches that go on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.batch.batches import DEAR, USD_PER_MTOK, Batch, bash, by_task, on, oracle, rows
from tests.fake_provider import FakeProvider
from tests.fake_wires import Say
from tests.faults import FAULTS, Fault, rate_limited
from tinyagent.batch.folder import BatchFolder
from tinyagent.core.errors import ConfigError, RecordError

MakeBatch = Callable[..., Batch]
WITH_ORACLE: dict[str, Any] = {"asked": {"oracle": True}}


def test_a_task_leaves_its_status_patch_trajectory_journal_and_log(batch: MakeBatch) -> None:
    one = batch(rows(1, oracle=oracle("echo solved > answer.txt"), check="grep solved answer.txt"), **WITH_ORACLE)
    outcome = one.run()
    folder = one.folder("t1")
    assert outcome.exit_code == 0
    assert one.status("t1").state == "passed"
    assert "+solved" in (folder / "patch.diff").read_text()
    assert json.loads((folder / "trajectory.json").read_bytes())["info"]["exit_status"] == "Submitted"
    assert (folder / "journal.jsonl").read_bytes().count(b"run_ended") == 1
    assert "grep solved answer.txt" in (folder / "log.txt").read_text()
    assert not (folder / "workspace").exists()
    assert not (folder / "home").exists()
    assert json.loads((one.out / "summary.json").read_bytes())["resolved"] == 1


def test_the_user_s_own_folders_take_no_part_and_get_nothing(batch: MakeBatch, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "AGENTS.md").write_text("Always say hello.", encoding="utf-8")
    (tmp_path / "home" / "config.yaml").write_text("step_limit: 7\n", encoding="utf-8")
    one = batch(rows(1, oracle=oracle("true")), environ={"TINYAGENT_RUNS": str(tmp_path / "runs")}, **WITH_ORACLE)
    one.run()
    trajectory = json.loads((one.folder("t1") / "trajectory.json").read_bytes())
    assert "Always say hello" not in json.dumps(trajectory)
    assert trajectory["info"]["config"]["step_limit"] == 7
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "home" / "runs").exists()


def test_results_and_predictions_have_a_line_for_each_task(batch: MakeBatch) -> None:
    several = batch(rows(5, oracle=oracle("echo x > x")), **WITH_ORACLE)
    several.run()
    assert [row["id"] for row in several.lines("results.jsonl")] == ["t1", "t2", "t3", "t4", "t5"]
    predictions = several.lines("preds.jsonl")
    assert [row["instance_id"] for row in predictions] == ["t1", "t2", "t3", "t4", "t5"]
    assert all("+x" in row["model_patch"] and row["model_name_or_path"] for row in predictions)


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"check": "true"}, "passed"),
        ({"check": "exit 7"}, "failed"),
        ({}, "submitted"),
        ({"limits": {"step_limit": 1}}, "limit"),
        ({"limits": {"step_limit": 1}, "check": "true"}, "limit"),
        ({"limits": {"time_limit": "1s"}, "oracle": oracle("sleep 30")}, "limit"),
        ({"oracle": oracle(*["echo again"] * 12)}, "loop"),
        ({"oracle": [{"tool": "bash", "arguments": {"command": "true"}}]}, "error"),
        ({"setup": "exit 3"}, "infrastructure"),
    ],
)
def test_the_state_tells_how_a_task_ended(batch: MakeBatch, more: dict[str, Any], state: str) -> None:
    one = batch(rows(1, **{"oracle": oracle("true", "true"), **more}), asked={"oracle": True, "max_retries": 0})
    outcome = one.run()
    assert one.status("t1").state == state
    assert outcome.exit_code == (1 if state in ("error", "infrastructure") else 0)


def test_a_patch_from_before_the_end_is_kept_and_marked(batch: MakeBatch) -> None:
    """R68 NeMo Gym#3185: unfinished tasks get a status and whatever patch exists."""
    one = batch(rows(1, oracle=oracle("echo half > x", "true"), limits={"step_limit": 1}), **WITH_ORACLE)
    one.run()
    assert one.status("t1").patch.partial
    (prediction,) = one.lines("preds.jsonl")
    assert "+half" in prediction["model_patch"]
    assert prediction["partial"]


def test_each_task_starts_from_a_fresh_copy(batch: MakeBatch, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("as it was\n", encoding="utf-8")
    solution = oracle("cat file > seen; echo changed > file; rm -rf .git")
    several = batch(rows(3, dir="source", oracle=solution, check="grep 'as it was' seen"), **WITH_ORACLE)
    assert several.run().exit_code == 0
    assert (tmp_path / "source" / "file").read_text() == "as it was\n"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_task_may_have_a_sandbox_of_its_own(batch: MakeBatch, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write = f"touch {outside} 2> /dev/null; echo inside > made"
    several = batch(
        rows(1, sandbox="bubblewrap", setup=write, oracle=oracle(write), check=f"{write}; test -e made"), **WITH_ORACLE
    )
    assert several.run().exit_code == 0
    assert several.status("t1").state == "passed"
    assert not outside.exists()


def test_setup_runs_before_the_task_with_the_task_s_environment(batch: MakeBatch) -> None:
    row = {"setup": "echo $WORD > made", "env": {"WORD": "hello"}, "check": 'grep hello made && test "$WORD" = hello'}
    one = batch(rows(1, oracle=oracle('grep "$WORD" made && echo y > y'), **row), **WITH_ORACLE)
    one.run()
    assert one.status("t1").state == "passed"
    assert "made" not in (one.folder("t1") / "patch.diff").read_text()


def test_the_same_command_again_does_nothing_to_what_is_done(batch: MakeBatch) -> None:
    several = batch(rows(3, oracle=oracle("date +%N > x"), check="false"), **WITH_ORACLE)
    several.run()
    before = [several.status(f"t{n}") for n in (1, 2, 3)]
    outcome = several.run()
    assert [several.status(f"t{n}") for n in (1, 2, 3)] == before
    assert outcome.pending == 0
    assert len(several.lines("results.jsonl")) == 3


@pytest.mark.parametrize(("option", "again"), [("retry_failed", ["t2"]), ("redo", ["t1", "t2"])])
def test_failed_or_all_tasks_can_be_run_again(batch: MakeBatch, option: str, again: list[str]) -> None:
    several = batch([*rows(1, oracle=oracle("true"), check="true")], **WITH_ORACLE)
    several.rows = [*several.rows, {**several.rows[0], "id": "t2", "check": "false"}]
    several.run()
    first = {name: several.status(name).run_id for name in ("t1", "t2")}
    several.asked = {"oracle": True, option: True}
    several.run()
    assert [name for name in ("t1", "t2") if several.status(name).run_id != first[name]] == again


def test_attempts_are_runs_of_their_own(batch: MakeBatch) -> None:
    one = batch(rows(2, oracle=oracle("echo x > x")), options={"batch.attempts": "3"}, **WITH_ORACLE)
    outcome = one.run()
    assert len(outcome.statuses) == 6
    assert len({one.status(task, k).run_id for task in ("t1", "t2") for k in (1, 2, 3)}) == 6
    assert len(one.lines("preds@3.jsonl")) == 2


def test_an_id_that_is_no_file_name_stays_inside(batch: MakeBatch) -> None:
    """S26."""
    one = batch([{"id": "../../x", "task": "Do it.", "oracle": oracle("true")}], **WITH_ORACLE)
    assert one.run().exit_code == 0
    assert one.status("../../x").state == "submitted"
    assert not (one.root.parent / "x").exists()


def test_two_drivers_never_work_in_one_folder(batch: MakeBatch) -> None:
    one = batch(rows(1, oracle=oracle("true")), **WITH_ORACLE)
    with BatchFolder(one.out), pytest.raises(RecordError, match=r"process \d+ on .* is working on the batch"):
        one.run()


def test_a_folder_holds_results_of_one_model_only(batch: MakeBatch) -> None:
    one = batch(rows(1, oracle=oracle("true")), options={"model": "openai/a"}, **WITH_ORACLE)
    one.run()
    with pytest.raises(ConfigError, match="model = 'openai/a', and now it is 'openai/b'"):
        one.run({"model": "openai/b"})


# --- money


def paid(server: FakeProvider) -> float:
    """What the server would bill at least: the prompts."""
    return sum(recorded.tokens for recorded in server.requests) * USD_PER_MTOK / 1e6


def test_the_total_is_never_passed_and_the_same_command_finishes_the_rest(batch: MakeBatch) -> None:
    """R65, ml-commons#4820: a limit of 0.60 spent 2.50, and all eight tasks were marked as done."""
    replies = {f"number {n}.": [bash(f"echo {k}") for k in range(3)] + [Say("Done.")] for n in range(1, 9)}
    with FakeProvider([by_task(replies)] * 100) as server:
        several = batch(rows(8, check="true"), options={**on(server), "cost_limit": "0.1"}, assignments=DEAR)
        first = several.run({"batch.total_cost_limit": "0.12"})
        assert first.exit_code == 3
        assert 0 < first.pending < 8
        assert all(board.balance.settled_usd + board.balance.open_usd <= 0.12 + 1e-9 for board in several.seen.boards)
        assert paid(server) <= 0.12
        done = {str(r["id"]) for r in several.rows if (several.folder(str(r["id"])) / "status.json").exists()}
        second = several.run({"batch.total_cost_limit": "1"})
    assert second.exit_code == 0
    assert set(several.states().values()) == {"passed"}
    assert len(done) + first.pending == 8
    assert len(server.requests) == 8 * 4


def test_a_limit_cut_short_by_the_total_is_no_verdict_on_the_task(batch: MakeBatch) -> None:
    endless = by_task({"number": [bash(f"echo {k}") for k in range(50)] + [Say("Done.")]})
    with FakeProvider([endless]) as server:
        one = batch(rows(1), options={**on(server), "cost_limit": "1"}, assignments=DEAR)
        first = one.run({"batch.total_cost_limit": "0.12"})
        assert one.status("t1").state == "budget"
        assert first.exit_code == 3
        sent = len(server.requests)
        second = one.run({"batch.total_cost_limit": "2"})
    assert second.exit_code == 0
    assert one.status("t1").steps == 51
    assert len(server.requests) == 51 > sent > 1


def test_money_that_a_task_did_not_need_lets_waiting_tasks_start(batch: MakeBatch) -> None:
    with FakeProvider(["Done."]) as server:
        several = batch(rows(6), options={**on(server), "cost_limit": "0.1"}, assignments=DEAR)
        outcome = several.run({"batch.total_cost_limit": "0.21"})
    assert outcome.exit_code == 0
    assert max(len(board.running) for board in several.seen.boards) <= 2


def test_a_total_needs_a_limit_for_each_task(batch: MakeBatch) -> None:
    one = batch(rows(1), options={"model": "openai/x", "cost_limit": "0", "batch.total_cost_limit": "1"})
    with pytest.raises(ConfigError, match="no cost limit of its own"):
        one.run()


def test_what_fails_before_a_run_begins_costs_nothing(batch: MakeBatch) -> None:
    options = {"model": "openai/x", "cost_limit": "0.5", "batch.total_cost_limit": "0.6"}
    one = batch(rows(1, setup="false"), options=options, assignments=DEAR, asked={"max_retries": 1})
    outcome = one.run()
    assert "setup command failed" in one.status("t1").error
    assert outcome.balance.settled_usd == 0


# --- meanwhile


def test_a_running_task_shows_how_far_it_is(batch: MakeBatch) -> None:
    with FakeProvider([bash("sleep 1.2"), Say("Done.")]) as server:
        one = batch(rows(1), options={**on(server), "cost_limit": "0.5"}, assignments=DEAR)
        one.run()
    seen = next(progress for progress in one.seen_running("t1") if progress.spend.steps)
    assert (seen.spend.steps, seen.ended) == (1, None)
    assert seen.spend.cost_usd
    assert seen.context_tokens


# --- the provider


def test_a_provider_that_refuses_everybody_for_a_while_costs_no_result(batch: MakeBatch) -> None:
    refused = {n: rate_limited(retry_after_ms="50") for n in range(1, 27)}
    with FakeProvider(["Done."], faults=refused) as server:  # pyright: ignore[reportArgumentType]
        several = batch(rows(6, check="true"), options={**on(server), "cost_limit": "0"})
        outcome = several.run()
    assert outcome.exit_code == 0
    assert set(several.states().values()) == {"passed"}


def test_a_wrong_key_stops_the_batch_and_leaves_the_tasks_to_be_run(batch: MakeBatch) -> None:
    with FakeProvider(faults={"all": FAULTS["bad_key"]}) as server:
        several = batch(rows(20), options={**on(server), "cost_limit": "0", "batch.workers": "2"})
        outcome = several.run()
        assert outcome.exit_code == 1
        assert len(server.requests) < 10
        assert "every other task would end in the same way" in several.seen.said[-1]
    with FakeProvider(["Done."]) as server:
        several.options = {**on(server), "cost_limit": "0"}
        (several.out / "run.json").unlink()  # the address is another one here
        assert several.run().exit_code == 0


def test_a_wrong_setting_stops_the_batch_with_its_own_words(batch: MakeBatch) -> None:
    several = batch(rows(9), options={"model": "openai/unheard-of", "cost_limit": "1", "batch.workers": "2"})
    several.environ = {"OPENAI_API_KEY": "key"}
    outcome = several.run()
    assert outcome.exit_code == 1
    assert outcome.pending >= 7
    assert outcome.balance.settled_usd == 0
    assert "price" in several.seen.said[-1]


def test_a_run_that_the_provider_broke_off_goes_on_where_it_was(batch: MakeBatch) -> None:
    gone: dict[int | str, Fault | str] = {
        n: Fault(503, body="{}", headers={"retry-after-ms": "20"}) for n in range(3, 9)
    }
    with FakeProvider([bash("echo 1 >> x"), bash("echo 2 >> x"), Say("Done.")], faults=gone) as server:
        one = batch(rows(1, check="test $(wc -l < x) = 2"), options={**on(server), "cost_limit": "0"})
        outcome = one.run()
    assert outcome.exit_code == 0
    assert one.status("t1").number == 2
    assert one.status("t1").steps == 3
