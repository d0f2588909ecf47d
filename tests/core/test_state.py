"""The fold: what is true of a run after its events."""

import pytest
from hypothesis import given, settings

from tests.builders import BASH, assistant, call, result, task, turns, usage, user
from tests.trajectory.generators import runs
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    CompactionFailed,
    CompactionStarted,
    Event,
    Learned,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Notice,
    ReasoningStripped,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
    Unknown,
    record_from_json,
    record_to_json,
)
from tinyagent.core.state import Run, RunState, advance, fold
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import Facts, Message, ToolMessage, Usage, Window


def setup(window: Window | None = None, model: str = "toy/model") -> ModelSetup:
    return ModelSetup(model, {}, window or Window(8_000, "catalogue"))


def started(window: Window | None = None) -> RunStarted:
    return RunStarted("r1", "0", "/w", setup(window), "system", (BASH,))


def added(*messages: Message) -> list[Event]:
    return [MessageAdded(m, message_tokens(m)) for m in messages]


def called(reported: int | None = None, *, output: int = 10, **more) -> ModelCalled:
    context = None if reported is None else reported + output
    return ModelCalled("step", 1, "d", 500, usage=usage(reported or 500, output), context_tokens=context, **more)


@given(runs())
@settings(max_examples=40)
def test_the_state_folded_from_journal_lines_is_the_live_state(records):
    live = RunState()
    for record in records:
        live = advance(live, record.event)
    assert fold([record_from_json(record_to_json(record)).event for record in records]) == live


@given(runs())
@settings(max_examples=40)
def test_the_size_of_the_view_is_the_sum_of_its_entries(records):
    state = fold([record.event for record in records])
    assert state.view.tokens == sum(entry.tokens for entry in state.view.entries)
    assert state.raw_total == state.fixed + state.view.tokens


def test_ids_are_places_in_the_log():
    state = fold([started(), *added(*turns(2))])
    assert [entry.id for entry in state.view.entries] == [1, 2, 3, 4, 5]
    assert state.messages[2] == state.view.entries[2].message


def test_the_reply_to_a_believed_report_is_in_the_anchor_already():
    events = [started(), *added(task()), called(100, output=40), *added(assistant("x " * 300, call()))]
    assert fold(events).estimate == 140


def test_a_reply_after_a_refusal_that_told_the_size_is_counted_if_no_usage_came():
    refused = ModelCalled("step", 1, "d", 500, context_tokens=900, error="overflow: too long")
    events = [started(), *added(task()), refused, called(), *added(assistant("x " * 300, call()))]
    assert fold(events).estimate > 1_150


def test_results_that_wait_for_the_next_request_are_counted():
    """kimi-cli#2011: the meter said under 50 % and the request overflowed; pending results were not counted."""
    events = [started(), *added(task()), called(100), *added(assistant("", call()), result("c1", "x y " * 1000))]
    assert fold(events).estimate > 2_000


def test_a_reply_whose_usage_was_not_believed_is_estimated():
    events = [started(), *added(task()), called(), *added(assistant("x " * 300, call()))]
    assert fold(events).estimate > 300


def test_failed_requests_and_summaries_cost_but_are_no_steps():
    events = [
        started(),
        called(error="overloaded: later", cost_usd=0.1),
        ModelCalled("summary", 1, "d", 9, usage=usage(50, 5), cost_usd=0.2),
        called(100, cost_usd=0.3),
        ChildEnded("c1", "r2", "submitted", Usage(7, 3), 0.4, 2),
    ]
    spend = fold(events).spend
    assert (spend.steps, spend.requests) == (1, 5)
    assert spend.cost_usd == pytest.approx(1.0)
    assert spend.usage == Usage(500 + 50 + 100 + 7, 10 + 5 + 10 + 3)


def test_an_unknown_price_makes_the_total_unknown():
    assert fold([started(), called(100, cost_usd=None), called(100, cost_usd=1.0)]).spend.cost_usd is None


@pytest.mark.parametrize(
    ("window", "learned", "expected"),
    [
        (Window(None), 4_096, Window(4_096, "learned")),
        (Window(8_000, "catalogue"), 4_096, Window(4_096, "learned")),
        (Window(4_000, "configured"), 4_096, Window(4_000, "configured")),
        (Window(8_000, "catalogue"), None, Window(8_000, "catalogue")),
    ],
)
def test_learning_only_shrinks_a_window(window, learned, expected):
    """hermes PR#40477: a run learned more than it had."""
    assert fold([started(window), Learned(window_tokens=learned)]).window == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (setup(Window(200_000, "catalogue")), 4_096),
        (setup(Window(None)), 4_096),
        (setup(Window(2_000, "catalogue")), 2_000),
        (setup(Window(200_000, "configured")), 200_000),
        (setup(Window(200_000, "catalogue"), model="toy/other"), 200_000),
    ],
)
def test_a_learned_window_survives_a_resume_unless_the_user_says_otherwise(new, expected):
    """copilot-cli#3174: the window was forgotten after a pass; goose#11049: the user's own figure was replaced."""
    state = fold([started(), Learned(window_tokens=4_096), RunResumed("0", new)])
    assert state.window.tokens == expected


def test_another_model_starts_with_a_fresh_calibration():
    events = [started(), *added(task()), called(100)]
    assert fold([*events, RunResumed("0", setup(model="toy/other"))]).meter.observations == 0
    assert fold([*events, RunResumed("0", setup())]).meter.observations == 1


def test_a_learned_output_limit_only_shrinks():
    assert fold([started(), Learned(max_output_tokens=4_096), Learned(max_output_tokens=9_000)]).output_cap == 4_096


COMPACTED = Compacted("budget", 2, 900, 500, (1, 2, 3, 4, 5), ("elide",), {3: "[output elided: 40 chars]"}, (3,))


def test_a_pass_changes_the_view_and_not_the_log():
    state = fold([started(), *added(*turns(2)), COMPACTED])
    assert state.view.entries[2].elided
    assert state.messages[2] == turns(2)[2]


def test_a_failed_pass_changes_nothing_but_the_count():
    before = fold([started(), *added(*turns(2)), called(100)])
    after = fold(
        [started(), *added(*turns(2)), called(100), CompactionStarted("budget", 9), CompactionFailed("budget", "x")]
    )
    assert (after.view, after.meter, after.estimate) == (before.view, before.meter, before.estimate)
    assert after.passes.ineffective == 1


def test_a_committed_pass_voids_the_usage_from_before():
    before = fold([started(), *added(*turns(2)), called(9_000)])
    assert before.meter.anchor is not None
    assert advance(before, COMPACTED).meter.anchor is None


def test_a_pass_that_was_begun_and_never_ended_changes_nothing():
    """hermes#79391, zero PR#166: a kill during the summary lost history or hid what came after."""
    events = [started(), *added(*turns(2))]
    dangling = fold([*events, CompactionStarted("budget", 900), RunResumed("0", setup()), *added(user("go on"))])
    plain = fold([*events, RunResumed("0", setup()), *added(user("go on"))])
    assert dangling == plain


def test_an_effective_pass_resets_the_count_of_those_that_did_not_help():
    state = fold([started(), *added(*turns(2)), CompactionFailed("budget", "x"), CompactionFailed("budget", "x")])
    assert state.passes.ineffective == 2
    assert advance(state, COMPACTED).passes.ineffective == 0


def test_events_of_a_newer_version_are_skipped():
    state = fold([started(), *added(task())])
    assert advance(state, Unknown("something_new", {"x": 1})) == state


def test_the_plan_is_that_of_the_newest_plan_call():
    first, second = [{"text": "a", "status": "open"}], [{"text": "a", "status": "done"}]
    planned = [
        assistant("", call("p1", "plan"), call("p2", "plan")),
        ToolMessage("p1", "plan", "ok", facts=Facts(plan=first)),
        ToolMessage("p2", "plan", "ok", facts=Facts(plan=second)),
    ]
    assert fold([started(), *added(task(), *planned)]).plan == tuple(second)


def test_what_is_said_once_is_remembered_by_its_code():
    assert fold([started(), Notice("careful", code="usage"), Notice("plain")]).notices == {"usage"}


def test_stripped_reasoning_takes_its_anchor_along():
    state = fold([started(), *added(task()), called(100), ReasoningStripped("bound to another conversation")])
    assert state.meter.anchor is None


def test_a_run_that_ended_goes_on_after_a_resume():
    events = [started(), *added(task()), RunEnded("interrupted")]
    assert fold(events).ended is not None
    assert fold([*events, RunResumed("0", setup())]).ended is None


def test_each_event_is_in_the_journal_before_anyone_acts_on_it():
    seen: list[tuple[str, int]] = []
    run = Run(
        sink=lambda record: seen.append(("journal", record.seq)),
        clock=lambda: 5.0,
        listeners=[lambda event, state: seen.append(("listener", len(state.messages)))],
    )
    for event in (started(), *added(task())):
        run.emit(event)
    assert seen == [("journal", 1), ("listener", 0), ("journal", 2), ("listener", 1)]


def test_an_event_that_could_not_be_written_did_not_happen():
    def full(record: Record) -> None:
        raise OSError("no space left on device")

    run = Run(sink=full, clock=lambda: 0.0)
    with pytest.raises(OSError, match="no space"):
        run.emit(started())
    assert run.state == RunState()
