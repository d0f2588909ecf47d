"""The journal is the one source of progress and of the account, also for a run that was killed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import assistant, call, result, task, usage
from tinyagent.batch.attempt import TryTail, begin_again
from tinyagent.batch.progress import JournalTail, awaits_model, read_progress, spent_usd
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    Event,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Record,
    RunEnded,
    RunStarted,
)
from tinyagent.core.pricing import Prices
from tinyagent.core.types import Window
from tinyagent.trajectory.journal import Journal, line_of

PRICES = Prices(10.0, 10.0)
SETUP = ModelSetup("openai/x", {}, Window(10_000, "configured"), 1000, PRICES)
STARTED = RunStarted("run", "0", "/w", SETUP, "system", (), settings={"cost_limit": 1.0})
ASKED = MessageAdded(task(), 10)
CALLED = ModelCalled("step", 1, "d", 100, usage=usage(1000, 100), context_tokens=1100, cost_usd=0.011, model="x-2")
REPLY = MessageAdded(assistant("", call()), 20)
RESULT = MessageAdded(result(), 20)


def write(folder: Path, *events: Event) -> Path:
    with Journal.create(folder) as journal:
        for number, event in enumerate(events, 1):
            journal.append(Record(number, 1.0, event))
    return folder / "journal.jsonl"


def test_progress_has_steps_cost_context_and_the_model_that_answered(tmp_path: Path) -> None:
    progress = read_progress(write(tmp_path / "r", STARTED, ASKED, CALLED, REPLY))
    assert (progress.spend.steps, progress.spend.cost_usd, progress.context_tokens) == (1, 0.011, 1100)
    assert (progress.model, progress.model_returned, progress.window.tokens) == ("openai/x", "x-2", 10_000)


def test_a_tail_reads_each_line_once_and_waits_for_the_rest_of_a_torn_one(tmp_path: Path) -> None:
    path = write(tmp_path / "r", STARTED, ASKED)
    tail = JournalTail(path)
    assert tail.look().spend.requests == 0
    line = line_of(Record(3, 1.0, CALLED))
    with path.open("ab") as file:
        file.write(line[:20])
        file.flush()
        assert tail.look().spend.requests == 0
        file.write(line[20:])
    assert tail.look().spend.requests == 1
    assert tail.look().spend.requests == 1


def test_a_journal_that_is_not_there_yet_is_no_progress(tmp_path: Path) -> None:
    assert JournalTail(tmp_path / "none").look().run_id == ""
    assert spent_usd(tmp_path, reserved_usd=1.0) is None


def test_a_try_that_starts_afresh_is_not_shown_with_the_steps_of_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path / "home" / "runs" / "first", STARTED, ASKED, CALLED)
    tail = TryTail(tmp_path)
    assert tail.look().answers == 1
    begin_again(tmp_path)
    assert tail.look().run_id == ""
    write(tmp_path / "home" / "runs" / "second", STARTED, ASKED)
    assert (tail.look().run_id, tail.look().answers) == ("run", 0)


def test_refused_rounds_and_passes_are_counted(tmp_path: Path) -> None:
    refused = ModelCalled("step", 1, "d", 100, error="rate: slow down")
    compacted = Compacted("budget", 1, 9000, 4000, (1,), ("elide",))
    progress = read_progress(write(tmp_path / "r", STARTED, ASKED, refused, CALLED, REPLY, compacted))
    assert (progress.trouble, progress.answers, progress.compactions, progress.context_tokens) == (1, 1, 1, 4000)


def test_a_run_that_ended_cost_what_it_says(tmp_path: Path) -> None:
    write(tmp_path / "r", STARTED, ASKED, CALLED, RunEnded("submitted"))
    assert spent_usd(tmp_path / "r", reserved_usd=1.0) == 0.011


@pytest.mark.parametrize(
    ("events", "waits"),
    [
        ((STARTED,), False),  # found here: it was taken up without its task, and crashed for good
        ((STARTED, ASKED), True),
        ((STARTED, ASKED, CALLED, REPLY), False),
        ((STARTED, ASKED, CALLED, REPLY, RESULT), True),
    ],
)
def test_a_request_that_may_have_been_under_way_counts_at_its_worst_case(
    tmp_path: Path, events: Sequence[Event], waits: bool
) -> None:
    path = write(tmp_path / "r", *events)
    spent = spent_usd(tmp_path / "r", reserved_usd=1.0)
    known = read_progress(path).spend.cost_usd
    assert awaits_model(path) == waits
    assert spent is not None
    assert known is not None
    if waits:
        assert known + 0.01 < spent < 0.1  # 1,000 tokens of output at ten dollars a million, and the prompt
    else:
        assert spent == known


def test_no_more_than_the_reservation_is_booked_for_what_was_under_way(tmp_path: Path) -> None:
    write(tmp_path / "r", STARTED, ASKED, CALLED, REPLY, RESULT)
    assert spent_usd(tmp_path / "r", reserved_usd=0.012) == 0.012


@pytest.mark.parametrize("is_known", [True, False])
def test_a_sub_agent_that_was_killed_with_its_run_counts_once(tmp_path: Path, is_known: bool) -> None:
    """R65: one account for sub-agents too."""
    child = RunStarted("run.1", "0", "/w", SETUP, "system", (), parent="run")
    ended = [ChildEnded("c1", "run.1", "submitted", usage(1000, 100), 0.011, 1)] if is_known else []
    write(tmp_path / "r", STARTED, ASKED, CALLED, REPLY, *ended)
    write(tmp_path / "r" / "children" / "1", child, ASKED, CALLED, REPLY)
    assert spent_usd(tmp_path / "r", reserved_usd=1.0) == pytest.approx(0.022)


def test_an_unknown_price_leaves_the_cost_unknown(tmp_path: Path) -> None:
    write(tmp_path / "r", STARTED, ASKED, ModelCalled("step", 1, "d", 1, usage=usage(), cost_usd=None), REPLY)
    assert spent_usd(tmp_path / "r", reserved_usd=None) is None
