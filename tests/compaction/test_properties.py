"""What holds of every run: context sizes by real tokenizers, legality, determinism, and one fold for all."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.generators import Script, scripts, text
from tests.harness import SYSTEM, TOKENIZERS, ToyModel, Turn, World, no_usage, truthful
from tinyagent.compaction.compactor import Compactor
from tinyagent.compaction.ladder import NoReply, Summarizer
from tinyagent.compaction.plan import ContextPolicy, StageName
from tinyagent.core.events import SUMMARY_ID, Compacted, MessageAdded
from tinyagent.core.limits import USEFUL_OUTPUT_TOKENS
from tinyagent.core.meter import SEED_FACTOR
from tinyagent.core.state import RunState, advance
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import AssistantMessage, UserMessage
from tinyagent.core.view import blocks, problems

WINDOWS = (4_096, 8_192, 16_384, 200_000)
STAGES: tuple[tuple[StageName, ...], ...] = (
    ("elide", "summarize", "prune"),
    ("prune",),
    ("elide", "prune"),
    ("summarize", "prune"),
)
few = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
SCRIPTS = scripts(max_turns=40)


def world_of(script: Script, window: int, *, stages: tuple[StageName, ...] = STAGES[0], **more) -> World:
    return World(
        model=ToyModel(script.items(), window=window, **more), window=window, policy=ContextPolicy(stages=stages)
    )


@pytest.mark.parametrize("window", WINDOWS)
@given(
    script=SCRIPTS,
    tokenizer=st.sampled_from(TOKENIZERS),
    report=st.sampled_from([truthful, no_usage]),
    stages=st.sampled_from(STAGES),
)
@few
def test_no_request_is_above_the_window_and_each_is_legal_with_task_and_newest_turn(
    window, script, tokenizer, report, stages
):
    world = world_of(script, window, stages=stages, tokenizer=tokenizer, report=report)
    assert world.execute().reason == "submitted"  # which asserts that each request was legal and had both
    assert world.refused == []
    assert all(sent.prompt + (sent.request.max_output_tokens or 0) <= window for sent in world.model.sent)


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]), st.sampled_from(STAGES))
@few
def test_the_fold_of_the_journal_is_the_live_state(script, window, stages):
    world = world_of(script, window, stages=stages)
    world.execute()
    assert world.refolded() == world.state


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]))
@few
def test_pruning_alone_is_deterministic(script, window):
    one, two = (world_of(script, window, stages=("prune",)) for _ in range(2))
    one.execute()
    two.execute()
    assert one.events == two.events


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]), st.sampled_from(STAGES))
@few
def test_a_second_look_right_after_a_pass_changes_nothing(script, window, stages):
    """Idempotent: gemini-cli#8586 compressed twice for one trigger."""
    world = world_of(script, window, stages=stages)
    world.execute()
    kinds = [type(event) for event in world.events]
    assert not any(one is two is Compacted for one, two in zip(kinds, kinds[2:], strict=False))


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]), st.sampled_from(STAGES))
@few
def test_every_pass_that_is_committed_shrinks_the_view_and_says_by_how_much(script, window, stages):
    """letta#3242, hermes#6217, claw#101052: one measure on both sides, taken on the rebuilt request."""
    world = world_of(script, window, stages=stages)
    world.execute()
    state = RunState()
    for event in world.events:
        before, state = state, advance(state, event)
        if isinstance(event, Compacted):
            assert event.tokens_before == before.estimate
            assert event.tokens_after == state.estimate < before.estimate
            assert problems(state.view) == []


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]), st.sampled_from(STAGES))
@few
def test_no_message_is_lost_in_silence(script, window, stages):
    """oh-my-pi PR#11515: a region was in neither summary nor tail."""
    world = world_of(script, window, stages=stages)
    world.execute()
    gone = [i for done in world.passes for i in (*done.summarized, *done.pruned)]
    here = [entry.id for entry in world.state.view.entries if entry.id != SUMMARY_ID]
    assert sorted(gone + here) == list(range(1, len(world.state.messages) + 1))


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]), st.sampled_from(STAGES))
@few
def test_replies_are_sent_back_unchanged_or_not_at_all(script, window, stages):
    world = world_of(script, window, stages=stages)
    world.execute()
    log = [m for m in world.state.messages if isinstance(m, AssistantMessage)]
    for sent in world.steps:
        assert all(m in log for m in sent.request.messages if isinstance(m, AssistantMessage))


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]), st.sampled_from(STAGES), st.sampled_from([1_000, 8_000]), st.booleans())
@few
def test_the_plan_stays_in_sight(script, window, stages, output, talks_a_lot):
    """At 16k ten items in Chinese lost their ends; at 3k, with the schemas of real tools, even a plan of 25 tokens."""
    world = World(
        model=ToyModel(script.items(), window=window),
        window=window,
        policy=ContextPolicy(stages=stages),
        system=text("prose", 2 * window) if talks_a_lot else SYSTEM,
        max_output_tokens=output,
    )
    world.execute()
    state = RunState()
    for event in world.events:
        state = advance(state, event)
        if isinstance(event, Compacted) and plan_fits(state, window):
            assert plan_is_in_sight(state)


def plan_fits(state: RunState, window: int) -> bool:
    """Whether the plan takes up to a quarter of the window, and has room beside task, newest turn and an answer."""
    plan = sum(estimate_text(f"- [doing] {item['text']}\n") for item in state.plan)
    newest = [block for block in blocks(state.view) if block.is_turn][-1:]
    pinned = state.fixed + state.view.entries[0].tokens + sum(block.tokens for block in newest)
    ratio = 1.1 * max(SEED_FACTOR, state.meter.whole)
    room = min(0.8 * window, window - window // 16 - USEFUL_OUTPUT_TOKENS)
    return ratio * plan <= window // 4 and ratio * (plan + pinned + 170) <= room


def plan_is_in_sight(state: RunState) -> bool:
    """Whether the digest or the call of a turn that was kept has every item word for word."""
    digest = next((e.message.text for e in state.view.entries if e.id == SUMMARY_ID), "")
    calls = [c.arguments for m in state.view.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    return {"items": list(state.plan)} in calls or all(" ".join(item["text"].split()) in digest for item in state.plan)


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]), st.data())
@few
def test_a_kill_between_steps_and_a_resume_give_the_same_next_request(script, window, data):
    world = world_of(script, window)
    world.execute()
    replies = [
        i
        for i, r in enumerate(world.records)
        if isinstance(r.event, MessageAdded) and isinstance(r.event.message, AssistantMessage)
    ]
    place = data.draw(st.sampled_from(replies))
    step = replies.index(place)
    items = script.items()
    model = ToyModel(items[step:], window=window, calls=sum(len(i.calls) for i in items[:step] if isinstance(i, Turn)))
    again = World(model=model, window=window, records=world.records[: place - 1])
    again.execute(None)
    assert again.steps[0].request == world.steps[step].request


@given(SCRIPTS, st.sampled_from(WINDOWS[:3]))
@few
def test_failing_passes_leave_estimate_and_view_alone(script, window):
    world = world_of(script, window)
    world.execute()
    state, run = world.state, world.run
    compactor = Compactor(
        run, ContextPolicy(stages=("summarize",)), Summarizer(lambda r, s: NoReply("no"), lambda: window, "p")
    )
    if not compactor.after_overflow():
        assert (run.state.view, run.state.meter) == (state.view, state.meter)


def test_a_task_is_never_touched_however_often_a_run_is_compacted():
    from tests.compaction.scripts import reading, talking

    world = World([*reading(30), *talking(40), *reading(30)], window=16_000)
    world.execute("Find the leak.")
    assert len(world.passes) >= 5
    assert world.steps[-1].request.messages[0] == UserMessage("Find the leak.", "task")
