"""The deterministic, model-free stage."""

from tests.compaction.scripts import BATCH, reading, talking
from tests.harness import Call, ToyModel, Turn, World, notes, say
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.events import SUMMARY_ID
from tinyagent.core.types import AssistantMessage, Facts, ToolMessage

PRUNE = ContextPolicy(stages=("prune",))


def pruned() -> World:
    script = [*reading(10), BATCH, *talking(6), *reading(5), say("Fixed.")]
    world = World(script, window=16_000, policy=PRUNE)
    assert world.execute().reason == "submitted"
    return world


def test_the_same_log_gives_the_same_result_twice():
    one, two = pruned(), pruned()
    assert one.passes
    assert one.events == two.events


def test_no_model_is_asked():
    assert pruned().summaries == []


def test_only_whole_turns_go_and_head_and_newest_turn_stay():
    world = pruned()
    for done in world.passes:
        assert done.stages == ("prune",)
        dropped = [world.state.messages[i - 1] for i in done.pruned]
        calls = [c.id for m in dropped if isinstance(m, AssistantMessage) for c in m.tool_calls]
        assert calls == [m.call_id for m in dropped if isinstance(m, ToolMessage)]
        assert done.view[:2] == (1, SUMMARY_ID)
        assert done.pruned_turns == sum(isinstance(m, AssistantMessage) for m in dropped)


def test_a_pass_lands_under_its_target():
    for done in pruned().passes:
        assert done.tokens_after <= 0.5 * 16_000


def test_the_narrative_of_an_earlier_summary_is_carried_on():
    """claw PR#127997: the summary before was overwritten by "no prior history"."""
    summaries = [notes("The parser is the culprit."), *[say("")] * 50]
    world = World(model=ToyModel([*talking(40), say()], window=16_000, summaries=summaries))
    world.execute()
    assert "prune" in world.passes[-1].stages
    assert "The parser is the culprit." in world.steps[-1].texts


def test_facts_of_what_was_dropped_stay_in_the_digest():
    """cc#11483: a summary called the work complete while the tests were failing."""
    facts = Facts(command="pytest -q", exit_code=1)
    failing = Turn((Call("E  assert 3 == 4\n1 failed", "bash", {"command": "pytest -q"}, facts),))
    world = World([failing, *reading(20), say()], window=16_000, policy=PRUNE)
    world.execute()
    assert "`pytest -q`: exit code 1" in world.steps[-1].texts
    assert "1 failed" in world.steps[-1].texts
