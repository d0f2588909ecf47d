"""Compaction off, and windows that nobody knows."""

import pytest

from tests.compaction.scripts import reading
from tests.generators import text
from tests.harness import ToyModel, World, say
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.events import Compacted, CompactionFailed, CompactionStarted

OFF = ContextPolicy(enabled=False)


@pytest.mark.parametrize("window", [16_000, None])
def test_off_sends_the_full_history_each_time_and_ends_on_an_overflow(window):
    """oc#16882, oc#30664, Roo-Code#7811: the switch was ignored on some path."""
    world = World(model=ToyModel(reading(30), window=16_000), window=window, policy=OFF)
    end = world.execute()
    assert end.reason == "context_truncated"
    assert "compaction is off" in end.error
    for sent in world.steps:
        assert sent.request.messages == world.state.messages[: sent.log]


def test_off_leaves_nothing_of_compaction_on_record():
    world = World(reading(30), window=16_000, policy=OFF)
    world.execute()
    assert not [e for e in world.events if isinstance(e, Compacted | CompactionStarted | CompactionFailed)]


def test_off_leaves_a_start_that_seems_too_large_to_the_provider():
    world = World(model=ToyModel([say()]), window=16_000, policy=OFF)
    assert world.execute(text("prose", 60_000)).reason == "submitted"


@pytest.mark.parametrize("window", [None, 0])
def test_without_a_window_there_is_no_proactive_pass(window):
    """hive PR#6756: a window of 0 meant a pass on every turn; oc#31152: a greeting looped."""
    world = World(model=ToyModel([*reading(30), say()]), window=window)
    assert world.execute().reason == "submitted"
    assert world.passes == []


def test_an_assumed_window_turns_it_on():
    world = World(model=ToyModel([*reading(30), say()]), window=8_192)
    assert world.execute().reason == "submitted"
    assert world.passes
    assert max(sent.prompt for sent in world.steps) < 8_192
