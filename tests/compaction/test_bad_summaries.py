"""Summaries that are none: the next rung, the view untouched by them, and every attempt on the bill."""

import pytest

from tests.builders import call
from tests.compaction.scripts import talking
from tests.harness import ToyModel, World, notes, say
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.errors import ModelError
from tinyagent.core.limits import Limits
from tinyagent.core.types import AssistantMessage, UserMessage
from tinyagent.models.scripted import HEADINGS

SKELETON = AssistantMessage("\n".join(f"## {heading}" for heading in HEADINGS))
BAD = {
    "empty": say(""),
    "only reasoning": say("", reasoning="Let me think about it."),
    "it called a tool": AssistantMessage("", (call("s1"),), "tool_calls"),
    "cut off": AssistantMessage(notes().text, stop="length"),
    "refused": AssistantMessage("I cannot help with that.", stop="refusal"),
    "too long": notes("many words " * 200),
    "the headings are missing or empty": SKELETON,
    "malformed": ModelError("no choices", kind="malformed", billed=True),
    "stream_cut": ModelError("the stream ended early", kind="stream_cut", billed=True),
    "overloaded": ModelError("try again later", kind="overloaded"),
    "quota": ModelError("no money", kind="quota"),
    "overflow": ModelError("too long", kind="overflow"),
    "history": ModelError("messages must alternate", kind="history"),
}
ONCE = {"malformed", "stream_cut", "overloaded", "quota", "history"}  # a smaller request would not do better


def world_with(*summaries, number: int = 20, **more) -> World:
    model = ToyModel([*talking(number), say()], window=16_000, summaries=[*summaries] * 3)
    return World(model=model, **more)


@pytest.mark.parametrize("why", sorted(BAD))
def test_a_bad_summary_is_followed_by_a_smaller_try_at_most_and_then_by_pruning(why):
    """claw#120663, senpi#1067, oh-my-pi#6093, oc#30834, pi-ai reports of every kind: see cases C9."""
    world = world_with(BAD[why])
    assert world.execute().reason == "submitted"
    (done,) = world.passes
    summarize, prune = done.attempts[-2:]
    assert summarize.rejected.startswith(why)
    assert (prune.stage, prune.rejected) == ("prune", "")
    assert len(world.summaries) == (1 if why in ONCE else 2)


@pytest.mark.parametrize("why", sorted(set(BAD) - ONCE))
def test_the_second_try_is_smaller_than_the_first(why):
    """kcode PR#836: a run of three hours was lost to five tries with the same bytes."""
    world = world_with(BAD[why])
    world.execute()
    first, second = world.summaries
    assert second.prompt < first.prompt


@pytest.mark.parametrize("why", sorted(BAD))
def test_a_failed_attempt_leaves_no_trace_in_the_messages(why):
    """wisp-science PR#632, PI-Desktop PR#249: an internal instruction was executed, a failure became "the summary"."""
    world = world_with(BAD[why])
    world.execute()
    assert all(m.kind == "task" for m in world.state.messages if isinstance(m, UserMessage))
    assert world.state.narrative == ""
    assert "cannot help" not in world.steps[-1].texts


@pytest.mark.parametrize("why", sorted(BAD))
def test_every_attempt_is_booked_and_is_no_step(why):
    world = world_with(BAD[why])
    world.execute()
    booked = [event for event in world.called if event.purpose == "summary"]
    assert len(booked) == len(world.summaries)
    assert world.state.spend.requests == len(world.model.sent)
    assert world.state.spend.steps == len(world.steps)


def test_a_good_second_answer_is_taken():
    world = world_with(BAD["empty"], notes("Half through."))
    world.execute()
    assert world.passes[0].stages[-1] == "summarize"
    assert "Half through." in world.steps[-1].texts


def test_a_slow_summary_is_given_up_at_its_own_time_limit():
    """lossless-claw#711, oh-my-openagent#6871: a pass hung for twenty minutes."""
    model = ToyModel([*talking(20), say()], window=16_000, seconds=1_000)
    world = World(model=model, policy=ContextPolicy(summary_time_limit=30))
    assert world.execute().reason == "submitted"
    assert [sent.timeout_s for sent in world.summaries] == [30]
    assert model.clock.now == 1_030
    assert world.passes[0].stages[-1] == "prune"


def test_a_slow_summary_counts_against_the_time_limit_of_the_run():
    model = ToyModel([*talking(20), say()], window=16_000, seconds=1_000)
    world = World(model=model, limits=Limits(time_s=50))
    assert world.execute().reason == "time_limit"
    assert model.clock.now == 1_050


def test_a_summary_larger_than_what_it_stands_for_is_not_taken():
    """gemini-cli#5432, Roo-Code#3911: 738k became 1.48 million, and was called compressed."""
    world = world_with(notes("word " * 90), policy=ContextPolicy(stages=("elide", "summarize")), number=19)
    world.execute()
    for done in world.passes:
        assert done.tokens_after < done.tokens_before


def test_the_overflow_of_the_summary_call_itself_is_no_overflow_of_the_run():
    """codex#18572, #24014: compaction failed with the very overflow that it should cure."""
    world = world_with(ModelError("too long", kind="overflow", window=5_000, prompt_tokens=5_001))
    assert world.execute().reason == "submitted"
    assert world.state.window.tokens == 16_000
    assert [done.trigger for done in world.passes] == ["budget"]


def test_without_a_stage_that_always_works_the_old_state_stays():
    """agenc-core#2497: a headless run ended when compaction failed; four trials, about 290 dollars."""
    policy = ContextPolicy(stages=("elide", "summarize"))
    world = world_with(BAD["empty"], number=19, policy=policy)
    assert world.execute().reason == "submitted"
    assert world.passes == []
    assert world.failed_passes
    assert world.steps[-1].request.messages == world.state.messages[:-1]


def test_after_two_passes_that_did_not_help_no_more_are_tried_while_the_request_fits():
    """oc#27924: about 35 compactions an hour, none of which got under the limit."""
    policy = ContextPolicy(stages=("elide", "summarize"), summary_time_limit=5)
    world = world_with(BAD["empty"], number=19, policy=policy)
    world.execute()
    assert len(world.failed_passes) <= 2
    assert len(world.summaries) <= 2
