"""What people are told of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, task, user
from tests.trajectory.files import events_of, seeded_run
from tests.trajectory.generators import runs
from tests.trajectory.story import Story
from tinyagent.core.events import (
    Attempt,
    ChildEnded,
    Compacted,
    CompactionFailed,
    Decision,
    Learned,
    MessageAdded,
    ModelCalled,
    Notice,
    ReasoningStripped,
    Record,
    RunEnded,
    RunResumed,
    Unknown,
)
from tinyagent.core.state import fold
from tinyagent.core.types import AssistantMessage, Usage, Window
from tinyagent.trajectory.report import report
from tinyagent.trajectory.rows import (
    CallRow,
    EndRow,
    MessageRow,
    NoteRow,
    PassRow,
    RequestRow,
    Row,
    StartRow,
    StepRow,
    clipped,
    of_step,
)


def rows_of(story: Story) -> list[Row]:
    return report(story.records)


def only(rows: list[Row], kind: type) -> list[Row]:
    return [row for row in rows if isinstance(row, kind)]


def step_rows(story: Story) -> list[StepRow]:
    return [row for row in rows_of(story) if isinstance(row, StepRow)]


def story_of_one_call() -> Story:
    made = Story()
    made.say(task())
    made.ask(usage=Usage(100, 10, 80), cost_usd=0.5, duration_s=1.5, context_tokens=110)
    made.say(assistant("I look.", call("c1"), call("c2")), result("c1", "one"))
    return made


def test_a_run_begins_with_its_start_and_its_task() -> None:
    start, first, *_ = rows_of(story_of_one_call())
    assert isinstance(start, StartRow)
    assert (start.run_id, start.model, start.cwd) == ("20261130-054112-7f3a", "openai/gpt-x", "/home/user/project")
    assert first == MessageRow(1, "task", "Fix the failing test.", 1)


def test_a_step_holds_its_request_its_reply_and_each_call_with_its_result() -> None:
    (step,) = step_rows(story_of_one_call())
    assert (step.step, step.reply_id) == (1, 2)
    assert step.reply is not None
    assert step.reply.text == "I look."
    assert step.calls == (CallRow(call("c1"), result("c1", "one"), 3), CallRow(call("c2")))


def test_a_request_tells_usage_cost_seconds_and_its_share_of_the_window() -> None:
    made = Story()
    made.note(Learned(window_tokens=1000))
    made.say(task())
    made.ask(usage=Usage(100, 10, 80), cost_usd=0.5, duration_s=1.5, context_tokens=110)
    request = step_rows(made)[0].request
    assert (request.usage, request.cost_usd, request.seconds) == (Usage(100, 10, 80), 0.5, 1.5)
    assert (request.context_tokens, request.window_tokens) == (110, 1000)


@pytest.mark.parametrize(
    ("usage", "context_tokens", "told"), [(None, None, 9), (Usage(100, 10), None, 110), (Usage(100, 10), 105, 105)]
)
def test_the_size_of_a_context_is_what_is_known_best(
    usage: Usage | None, context_tokens: int | None, told: int
) -> None:
    made = Story()
    made.say(task())
    made.ask(usage=usage, context_tokens=context_tokens)
    assert step_rows(made)[0].request.context_tokens == told


def test_a_failed_request_is_a_row_of_its_own() -> None:
    made = Story()
    made.say(task())
    made.ask(error="overloaded: later", attempts=3)
    made.ask()
    made.say(assistant("done"))
    failed, step = rows_of(made)[2:4]
    assert isinstance(failed, RequestRow)
    assert (failed.error, failed.attempts, failed.step) == ("overloaded: later", 3, 1)
    assert isinstance(step, StepRow)


def test_an_empty_reply_is_a_step_without_a_message() -> None:
    made = Story()
    made.say(task())
    made.ask()
    made.say(user("Your last reply was empty.", "notice"))
    step, notice = rows_of(made)[2:4]
    assert isinstance(step, StepRow)
    assert step.reply is None
    assert notice == MessageRow(2, "notice", "Your last reply was empty.", 2)


def test_a_pass_is_a_fold_with_its_summary_requests_between_the_steps() -> None:
    made = story_of_one_call()
    made.say(result("c2"))
    made.note(ModelCalled("summary", 2, "", 50, usage=Usage(40, 4), cost_usd=0.25, request={}))
    event = Compacted(
        "overflow", 2, 110, 40, (1, -1), ("elide", "summarize"), summarized=(2, 3, 4), summary="So far.",
        attempts=(Attempt("elide", "frees too little"),),
    )  # fmt: skip
    made.note(event)
    made.ask()
    made.say(assistant("done"))
    kinds = [type(row) for row in rows_of(made)]
    assert kinds == [StartRow, MessageRow, StepRow, PassRow, StepRow, EndRow]
    fold_row = rows_of(made)[3]
    assert isinstance(fold_row, PassRow)
    assert (fold_row.event, fold_row.step, fold_row.messages) == (event, 2, 2)
    assert [(s.usage, s.cost_usd) for s in fold_row.summaries] == [(Usage(40, 4), 0.25)]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Notice("the server cut the prompt"), "the server cut the prompt"),
        (Learned(window_tokens=4096), "the provider says that the window has 4,096 tokens"),
        (Learned(max_output_tokens=512), "the provider says that an answer has at most 512 tokens"),
        (ReasoningStripped("bound elsewhere"), "reasoning is no longer sent back: bound elsewhere"),
        (CompactionFailed("budget", "nothing to remove"), "no compaction: nothing to remove"),
        (Unknown("moon_rose", {}), "an event of a newer version: moon_rose"),
    ],
)
def test_what_else_happened_stands_after_the_step_in_which_it_happened(event: Notice, told: str) -> None:
    made = story_of_one_call()
    made.note(event)
    made.say(result("c2"))
    step, note, _ = rows_of(made)[2:]
    assert isinstance(step, StepRow)
    assert step.calls[1].result is not None
    assert isinstance(note, NoteRow)
    assert note.text == told


def test_decisions_and_sub_agents_are_told_at_their_call() -> None:
    made = story_of_one_call()
    made.note(Decision("c2", "bash", False, "rule 3"))
    made.note(ChildEnded("c1", "run.1", "submitted", Usage(5, 1), 0.25, 4))
    first, second = step_rows(made)[0].calls
    assert first.notes == ("sub-agent run.1: finished, 4 requests, $0.2500",)
    assert second.notes == ("not allowed by rule 3",)


def test_the_end_tells_reason_and_totals() -> None:
    made = story_of_one_call()
    made.note(RunEnded("cost_limit", "the next request could cost $3"))
    end = rows_of(made)[-1]
    assert isinstance(end, EndRow)
    assert end.words == "stopped at the cost limit"
    assert (end.spend.steps, end.spend.cost_usd, end.spend.usage) == (1, 0.5, Usage(100, 10, 80))
    assert end.seconds == 5.0  # the story's clock moves by a second an event


def test_a_run_without_an_end_says_so() -> None:
    end = rows_of(story_of_one_call())[-1]
    assert isinstance(end, EndRow)
    assert (end.ended, end.words) == (None, "no end on record")


def test_a_resumed_run_tells_where_it_was_taken_up_and_counts_working_time_alone() -> None:
    made = Story()
    made.say(task())
    made.note(RunEnded("interrupted"))
    made.records.append(Record(4, 9000.0, RunResumed("0.2.0", made.start.setup, forked_from="other")))
    made.records.append(Record(5, 9002.0, RunEnded("submitted")))
    *_, start, end = report(made.records)
    assert isinstance(start, StartRow)
    assert (start.resumed, start.origin, start.version) == (True, "other", "0.2.0")
    assert isinstance(end, EndRow)
    assert end.seconds == 4.0


def test_a_changed_window_counts_from_the_resume_on() -> None:
    made = Story()
    setup = made.start.setup
    made.note(RunResumed("0.2.0", type(setup)(setup.model, setup.options, Window(5000, "configured"))))
    made.say(task())
    made.ask()
    assert step_rows(made)[0].request.window_tokens == 5000


def test_a_step_alone_is_what_led_to_it_and_what_came_of_it() -> None:
    made = story_of_one_call()
    made.say(result("c2"), user("also this"))
    made.note(Compacted("budget", 2, 90, 40, (1, 2, 3, 4, 5), ("elide",)))
    made.ask()
    made.say(assistant("done"))
    assert [type(row) for row in of_step(rows_of(made), 2)] == [MessageRow, PassRow, StepRow]
    assert [type(row) for row in of_step(rows_of(made), 1)] == [MessageRow, StepRow]
    assert of_step(rows_of(made), 3) == []


@given(runs())
def test_nothing_of_a_run_is_missing_from_its_report(records: list[Record]) -> None:
    rows = report(records)
    state = fold(events_of(records))
    steps = [row for row in rows if isinstance(row, StepRow)]
    told = [row.id for row in rows if isinstance(row, MessageRow)]
    told += [row.reply_id for row in steps if row.reply_id is not None]
    told += [c.result_id for row in steps for c in row.calls if c.result_id is not None]
    assert sorted(told) == list(range(1, len(state.messages) + 1))
    assert len(steps) == state.spend.steps
    assert len(only(rows, PassRow)) == sum(isinstance(event, Compacted) for event in events_of(records))
    assert [row.spend for row in rows if isinstance(row, EndRow)][-1] == state.spend


@given(runs(), st.data())
def test_any_part_of_a_run_can_be_reported(records: list[Record], data: st.DataObject) -> None:
    """Foreign trajectories have messages without requests, damaged ones have gaps."""
    kept = [record for record in records[1:] if data.draw(st.booleans())]
    rows = report([records[0], *kept])
    replies = [e for e in events_of(kept) if isinstance(e, MessageAdded) and isinstance(e.message, AssistantMessage)]
    assert isinstance(rows[0], StartRow)
    assert only(rows, EndRow)
    assert sum(isinstance(row, StepRow) and row.reply is not None for row in rows) == len(replies)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a\nb\nc", "a\nb\nc"),
        ("1\n2\n3\n4", "1\n2\n3\n4"),
        ("1\n2\n3\n4\n5\n6", "1\n2\n[... 3 lines left out ...]\n6"),
    ],
)
def test_a_long_text_keeps_head_and_tail_with_the_count_between(text: str, shown: str) -> None:
    assert clipped(text, lines=3, chars=1000) == shown


def test_a_long_line_is_clipped_too() -> None:
    assert len(clipped("x" * 10_000, lines=3, chars=200)) <= 200


def test_a_report_reads_the_records_once_and_changes_nothing() -> None:
    records = seeded_run(4)
    assert report(records) == report(tuple(records))
