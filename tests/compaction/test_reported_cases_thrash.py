"""Faults that users of other agents reported: passes without end, and summaries that grow (kinds C1, C2, C7, C15)."""

from itertools import pairwise

import pytest

from tests.builders import BASH
from tests.compaction.scripts import reading, talking
from tests.generators import text
from tests.harness import Call, ToyModel, Turn, World, notes, say, turn, zero_usage
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.events import Compacted, CompactionFailed, ModelCalled, Notice
from tinyagent.core.types import ToolSpec


def wide_tool(tokens: int) -> ToolSpec:
    """A tool whose schema has about that many tokens."""
    fields = {f"field_{n}": {"type": "string", "description": "what it is for"} for n in range(tokens // 17)}
    return ToolSpec("wide", "Does much.", {"type": "object", "properties": fields})


def test_a_pinned_part_over_the_limit_is_named_at_the_start_and_never_compacted():
    """oc#27924, oc PR#27919, PR#37584: about 35 passes an hour, none of which got under the limit."""
    world = World([say()], window=20_000, tools=(BASH, wide_tool(9_000)), system=text("prose", 40_000))
    end = world.execute("Hello.")
    assert (end.reason, world.model.sent, world.events[-1]) == ("context_truncated", [], end)
    assert "tool schemas ~" in end.error
    assert "system prompt ~" in end.error


def test_a_greeting_is_answered_where_the_model_has_no_known_limit():
    """oc#31152: a plain greeting looped, as the model's record had no input limit."""
    world = World([say("Hello.")], window=None)
    assert world.execute("Hi").submission == "Hello."
    assert len(world.model.sent) == 1


def test_a_server_that_reports_zero_compacts_no_earlier_than_any_other():
    """oc#37871: an 8k model reported total = 0; 104 compactions."""
    script = [*reading(4), say()]
    world = World(model=ToyModel(script, window=8_192, report=zero_usage), window=8_192)
    assert world.execute().reason == "submitted"
    assert world.passes == world.failed_passes == []


@pytest.mark.parametrize("output", [16_000, 64_000])
def test_an_output_cap_as_large_as_the_window_leaves_half_of_it_to_work_in(output):
    """oc#45368, OpenHands#9937, #7023: usable was 0 on a 16k window; 30 compactions in 15 minutes."""
    world = World([*reading(5), say()], window=16_000, max_output_tokens=output, reserved_output=output)
    assert world.execute().reason == "submitted"
    assert world.passes == []
    assert world.refused == []


def test_a_pass_is_a_success_only_under_its_trigger_also_if_the_recent_turns_fill_the_window():
    """codex#35032: the window was 80 % full after a completed compaction; Reasonix PR#2571: six messages were 0.9 W."""
    script = [turn(*[text("code", 9_000, 3 * n + m) for m in range(3)]) for n in range(3)]
    world = World([*script, say()], window=16_000, max_chars=9_000, policy=ContextPolicy(step_output_ratio=0.95))
    assert world.execute().reason == "submitted"
    assert world.passes
    assert all(done.tokens_after <= 0.8 * 16_000 for done in world.passes if done.effective)
    assert world.refused == []


def test_two_hundred_messages_of_the_user_do_not_fill_what_a_pass_leaves():
    """codex#45296: 192 old messages, 1.95 million characters, were kept word for word: 187k tokens after a pass."""
    world = World([say(f"Done with {n}.") for n in range(60)], window=32_000)
    for n in range(60):
        assert world.execute(f"{n}: {text('prose', 10_000, n)}").reason == "submitted"
    assert world.refused == []
    assert all(done.tokens_after <= 0.55 * 32_000 for done in world.passes)


@pytest.mark.parametrize("files", [1, 2, 3])
def test_reading_the_same_large_files_again_and_again_ends_with_a_readable_reason(files):
    """cc#60600, cc#82131, cc#6541, cc#72857: each pass was followed by the same reads, and they refilled the window."""
    contents = [Call(text("code", 40_000, n), "read", {"path": f"f{n}.py"}) for n in range(files)]
    world = World([Turn((contents[n % files],)) for n in range(200)], window=8_192)
    end = world.execute()
    assert end.reason == "loop_detected"
    assert "the same calls with the same results" in end.error
    assert world.refused == []


def test_a_window_too_small_for_the_work_is_said_once_and_the_run_goes_on():
    """codex#13279: it read more than the window, compacted, forgot, and read again."""
    world = World([*reading(60, chars=9_000), say()], window=8_192)
    assert world.execute().reason == "submitted"
    said = [event for event in world.events if isinstance(event, Notice) and event.code == "small_window"]
    assert len(said) == 1
    assert "8,192" in said[0].text


def test_deeper_passes_come_less_often():
    script = [*reading(80, chars=5_500), say()]
    world, plain = (
        World(script, window=16_000),
        World(script, window=16_000, policy=ContextPolicy(deep_target_ratio=0.5)),
    )
    assert world.execute().reason == plain.execute().reason == "submitted"
    assert len(world.passes) < len(plain.passes)


def test_there_is_one_pass_for_a_request_whatever_crossed_the_trigger():
    """gemini-cli#8586: history and the pending message both crossed it, and two compressions ran."""
    world = World(
        [*reading(10), turn(*[text("code", 4_000, n) for n in range(90, 94)]), *reading(4), say()], window=16_000
    )
    assert world.execute().reason == "submitted"
    kinds = [type(event) for event in world.events if isinstance(event, Compacted | CompactionFailed | ModelCalled)]
    assert not any(one is not ModelCalled and two is not ModelCalled for one, two in pairwise(kinds))


def test_large_tool_schemas_beside_a_short_history_start_no_pass():
    """hermes#27566: schemas were counted twice, so a pass fired far too early, all the time."""
    world = World([*reading(3), say()], window=16_000, tools=(BASH, wide_tool(4_800)))
    assert world.execute().reason == "submitted"
    assert world.passes == []


def test_a_success_is_measured_on_the_request_that_is_sent_next():
    """claw#101052, claw#119824: four "successes", and 135 % of the window."""
    world = World([*reading(30), say()], window=16_000)
    world.execute()
    for one, two in pairwise(e for e in world.events if isinstance(e, Compacted | ModelCalled)):
        if isinstance(one, Compacted):
            assert isinstance(two, ModelCalled)
            assert two.estimate == one.tokens_after


def test_a_pass_may_follow_a_pass_if_the_request_is_still_too_large():
    """claw#120455, claw PR#125210: refused as "already compacted" at 95 and 98 % of the window."""
    before = World([*talking(20), say()], window=16_000)
    before.execute()
    assert before.passes
    after = World([say()], window=4_096, records=before.records)
    assert after.execute("And?").reason == "submitted"
    assert after.steps[0].prompt < 4_096
    assert len(after.passes) == len(before.passes) + 1


def test_a_small_message_right_after_a_pass_starts_no_second_one():
    """pi#1860, pi#1834, codex#31834, infinity#64, xum PR#886: usage from before the pass triggered the next one."""
    world = World([*reading(11), say("Done."), *reading(1), say("Done too.")], window=16_000)
    world.execute()
    passes = len(world.passes)
    assert passes == 1
    world.execute("Thanks. One more thing.")
    assert len(world.passes) == passes


def test_a_pass_that_finds_nothing_to_remove_says_so():
    """windmill PR#10928: trigger by one count, cut by another: it found nothing, in silence, for ever; hermes#6217."""
    world = World([*talking(19), say()], window=16_000, policy=ContextPolicy(stages=("elide",)))
    world.execute()
    assert world.passes == []
    assert world.failed_passes
    assert all("would remain" in failed.why and failed.attempts for failed in world.failed_passes)


def test_a_summary_as_long_as_its_source_makes_no_pass():
    """qwen-code#1924: 81,651 tokens became 81,273, and then again; gemini-cli#15225."""

    def echo(request):
        return notes(request.messages[-1].text[:20_000])

    model = ToyModel([*talking(19), say()], window=16_000, summaries=[echo] * 9)
    world = World(model=model, policy=ContextPolicy(stages=("summarize",)))
    assert world.execute().reason == "submitted"
    assert all(done.tokens_before - done.tokens_after >= 1_600 for done in world.passes)


def test_passes_are_rare_and_each_frees_much():
    """Reasonix PR#238, stella#4381, oc#32515, cc#94177, ironclaw PR#5975: each edit of the past costs the cache."""
    world = World([*reading(60), say()], window=32_000)
    world.execute()
    assert len(world.passes) <= 60 * 1_170 / (0.25 * 32_000)
    assert all(done.tokens_before - done.tokens_after >= 0.1 * 32_000 for done in world.passes)
