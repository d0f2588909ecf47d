"""A pass that only elides: what the next request holds, and what is on record."""

import pytest

from tests.compaction.scripts import reading
from tests.generators import text
from tests.harness import SYSTEM, ToyModel, World, say
from tinyagent.core.types import ToolMessage, UserMessage, Window

WINDOW = 16_000


@pytest.fixture(scope="module")
def world() -> World:
    world = World([*reading(14), say("Fixed.")], window=WINDOW)
    assert world.execute().reason == "submitted"
    return world


def first_after(world: World):
    return next(sent for sent in world.steps if "[output elided" in sent.texts)


def test_over_four_fifths_of_the_window_old_outputs_give_way_and_no_summary_is_asked_for(world):
    (done,) = world.passes
    assert done.stages == ("elide",)
    assert world.summaries == []
    assert done.tokens_before > 0.8 * WINDOW
    assert done.tokens_after <= 0.5 * WINDOW


def test_system_tools_and_task_stay_as_they_were(world):
    for sent in world.steps:
        assert (sent.request.system, sent.request.tools) == (SYSTEM, world.state.tools)
        assert sent.request.messages[0] == UserMessage("Fix the failing test.", "task")


def test_recent_turns_stay_word_for_word(world):
    after = first_after(world)
    assert after.request.messages[-4:] == world.state.messages[: after.log][-4:]


def test_the_log_keeps_every_output_whole(world):
    outputs = [m.text for m in world.state.messages if isinstance(m, ToolMessage)]
    assert outputs == [text("code", 4_000, n) for n in range(14)]


def test_the_record_names_what_was_elided_and_what_is_sent_next(world):
    (done,) = world.passes
    assert done.elided == tuple(sorted(done.elided))
    assert all(isinstance(world.state.messages[i - 1], ToolMessage) for i in done.elided)
    assert set(done.replaced) == set(done.elided)
    assert list(done.view) == list(range(1, len(done.view) + 1))


def test_the_size_on_record_is_the_estimate_and_nearly_the_size_of_the_next_request(world):
    """letta#3242: before and after were measured by different counters."""
    (done,) = world.passes
    after = first_after(world)
    call = world.called[world.model.sent.index(after)]
    assert call.estimate == done.tokens_after
    assert abs(after.prompt - done.tokens_after) < 0.05 * after.prompt


def test_between_passes_the_view_only_grows(world):
    """Reasonix PR#238, ironclaw PR#5975, oc#32515: each edit of an old message took the provider's cache along."""
    broken = [
        two
        for one, two in zip(world.steps, world.steps[1:], strict=False)
        if two.request.messages[: len(one.request.messages)] != one.request.messages
    ]
    assert broken == [first_after(world)]


def test_the_configured_window_wins_over_a_larger_one_of_the_server():
    """goose#11049: the user's 32,768 became 1,000,000."""
    world = World(model=ToyModel([*reading(14), say()], window=200_000), window=WINDOW)
    world.execute()
    assert world.state.window == Window(WINDOW, "configured")
    assert max(sent.prompt for sent in world.steps) <= 0.82 * WINDOW


def test_what_a_pass_elided_stays_elided_in_the_next():
    world = World([*reading(40), say()], window=WINDOW)
    world.execute()
    assert len(world.passes) > 2
    elided = [i for done in world.passes for i in done.elided]
    assert len(elided) == len(set(elided))
