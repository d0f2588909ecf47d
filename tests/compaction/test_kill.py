"""A kill at any moment of a pass: the run that is taken up again sends the same next request."""

import pytest

from tests.compaction.scripts import reading, talking
from tests.harness import Item, ToyModel, World, notes, say
from tinyagent.compaction.plan import ContextPolicy, StageName
from tinyagent.core.events import Compacted, CompactionStarted, MessageAdded, ModelCalled, Record, RunResumed
from tinyagent.core.state import fold
from tinyagent.core.types import AssistantMessage, Request

SCRIPTS: dict[str, tuple[tuple[StageName, ...], list[Item]]] = {
    "elide": (("elide", "summarize", "prune"), reading(14)),
    "summarize": (("elide", "summarize", "prune"), talking(20)),
    "prune": (("prune",), [*reading(8), *talking(9)]),
}


def uninterrupted(name: str) -> World:
    stages, script = SCRIPTS[name]
    world = World(model=model_of([*script, say("Done.")]), policy=ContextPolicy(stages=stages))
    assert world.execute().reason == "submitted"
    return world


def model_of(script: list[Item]) -> ToyModel:
    return ToyModel(script, window=16_000, summaries=[notes("Half through.")] * 9)


def taken_up(name: str, records: list[Record]) -> World:
    stages, script = SCRIPTS[name]
    replies = sum(isinstance(r.event, MessageAdded) and isinstance(r.event.message, AssistantMessage) for r in records)
    model = model_of([*script[replies:], say("Done.")])
    return World(model=model, policy=ContextPolicy(stages=stages), records=records)


def next_request(world: World, after: int) -> Request:
    """The first request of a step that the uninterrupted run sent after that many records."""
    sent = sum(isinstance(record.event, ModelCalled) for record in world.records[:after])
    return next(s.request for s in world.model.sent[sent:] if not s.is_summary)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_kill_after_any_event_of_a_pass_changes_nothing_of_the_next_request(name):
    """hermes#79391, fast-jev-compaction#89: a kill during the summary lost history, a resume undid the pass."""
    world = uninterrupted(name)
    begin = next(i for i, record in enumerate(world.records) if isinstance(record.event, CompactionStarted))
    end = next(i for i, record in enumerate(world.records) if isinstance(record.event, Compacted))
    for kept in range(begin, end + 2):
        again = taken_up(name, world.records[:kept])
        assert again.execute(None).reason == "submitted"
        assert again.steps[0].request == next_request(world, kept)


def test_a_kill_between_two_steps_changes_nothing_of_the_next_request():
    world = uninterrupted("elide")
    places = [i for i, record in enumerate(world.records) if isinstance(record.event, MessageAdded)]
    for kept in places[2:-1:2]:
        again = taken_up("elide", world.records[: kept + 1])
        again.execute(None)
        assert again.steps[0].request == next_request(world, kept + 1)


def test_a_summary_that_was_paid_and_then_lost_stays_on_the_bill():
    world = uninterrupted("summarize")
    paid = next(
        i for i, r in enumerate(world.records) if isinstance(r.event, ModelCalled) and r.event.purpose == "summary"
    )
    before = fold([record.event for record in world.records[: paid + 1]]).spend
    again = taken_up("summarize", world.records[: paid + 1])
    again.execute(None)
    assert again.state.spend.requests == before.requests + len(again.model.sent)


def test_a_call_that_was_cut_off_by_the_kill_gets_a_result_that_says_so():
    world = uninterrupted("elide")
    reply = next(
        i
        for i, r in enumerate(world.records)
        if isinstance(r.event, MessageAdded) and isinstance(r.event.message, AssistantMessage)
    )
    again = taken_up("elide", world.records[: reply + 1])
    assert again.execute(None).reason == "submitted"
    assert "It may have run in part." in again.steps[0].texts


def test_the_guards_of_a_run_survive_the_kill():
    world = uninterrupted("prune")
    records = world.records[: next(i for i, r in enumerate(world.records) if isinstance(r.event, Compacted)) + 1]
    assert taken_up("prune", records).state.passes == fold([r.event for r in records]).passes


def test_a_run_that_is_taken_up_keeps_the_view_of_its_passes():
    """fast-jev-compaction#89: 166k tokens instead of 28k after a resume."""
    world = uninterrupted("summarize")
    again = taken_up("summarize", world.records)
    assert isinstance(again.records[-1].event, RunResumed)
    assert again.state.view == world.state.view
    assert again.state.narrative == world.state.narrative
