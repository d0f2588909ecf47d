"""The provider says that the prompt is too long: one pass, one retry with other bytes, or a clear end."""

from itertools import pairwise

import pytest

from tests.compaction.scripts import reading, talking
from tests.generators import text
from tests.harness import ToyModel, World, no_usage, say, truthful, turn, without_numbers
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.errors import ErrorKind, ModelError
from tinyagent.core.types import Request, Window

REPLY = turn("ok", text="Going on.")


def refusal(kind: ErrorKind = "overflow", **more) -> ModelError:
    return ModelError("too long", kind=kind, **more)


def refused_twice(kind: ErrorKind, **more) -> World:
    return World(model=ToyModel([*reading(8), refusal(kind, **more), refusal(kind, **more), say()]), window=None)


@pytest.mark.parametrize("kind", ["overflow", "body_too_large"])
def test_an_overflow_with_no_known_window_costs_one_pass_and_one_retry(kind):
    world = World(model=ToyModel([*reading(8), refusal(kind), REPLY, say()]), window=None)
    assert world.execute().reason == "submitted"
    (done,) = world.passes
    assert done.trigger == "overflow"
    assert done.tokens_after <= done.tokens_before / 2
    failed = next(i for i, call in enumerate(world.called) if call.error)
    assert world.model.sent[failed].request != world.model.sent[failed + 1].request


def test_a_second_overflow_of_the_same_step_ends_the_run_after_exactly_one_retry():
    """docker-agent PR#2235: overflow, compact, the same overflow, and so on."""
    world = refused_twice("overflow")
    end = world.execute()
    assert end.reason == "context_truncated"
    assert "context still exceeds the window after compaction" in end.error
    assert len(world.refused) == 2
    assert len(world.passes) == 1


def test_an_overflow_of_a_later_step_has_a_pass_of_its_own():
    script = [*reading(8), refusal(), *reading(4), refusal(), say()]
    world = World(model=ToyModel(script), window=None)
    assert world.execute().reason == "submitted"
    assert len(world.passes) == 2


def test_nothing_to_remove_ends_the_run_without_a_retry():
    world = World(model=ToyModel([refusal()]), window=None)
    assert world.execute().reason == "context_truncated"
    assert len(world.steps) == 1


@pytest.mark.parametrize("policy", [ContextPolicy(), ContextPolicy(enabled=False)])
@pytest.mark.parametrize("kind", ["rate_tier", "body_too_large"])
def test_another_limit_that_nothing_can_be_removed_for_is_not_called_the_windows(kind, policy):
    """It ended as "context still exceeds the window", at 1,840 of 3,000 tokens."""
    world = World(model=ToyModel([refusal(kind)] * 3), window=16_000, policy=policy)
    end = world.execute()
    assert (end.reason, end.error) == ("provider_error", "too long")


def test_a_stated_window_is_learned_and_kept():
    """copilot-cli#3174: the window was forgotten after a pass."""
    world = World(model=ToyModel([*reading(20), say()], window=16_000), window=None)
    assert world.execute().reason == "submitted"
    assert world.state.window == Window(16_000, "learned")
    assert len(world.refused) <= 2  # prompt and answer together, then the prompt; never again


def test_the_count_in_the_refusal_becomes_the_estimate():
    told = refusal(window=13_000, prompt_tokens=13_500)
    model = ToyModel([*reading(8), told, REPLY, say()], report=no_usage)
    world = World(model=model, window=None)
    assert world.execute().reason == "submitted"
    (done,) = world.passes
    assert done.tokens_before == 13_500
    assert done.tokens_after <= 6_500


def test_a_count_that_cannot_be_true_is_not_believed():
    model = ToyModel([*reading(8), refusal(window=20_000, prompt_tokens=10**8), REPLY, say()])
    world = World(model=model, window=None)
    assert world.execute().reason == "submitted"
    assert world.passes[0].tokens_before < 20_000


@pytest.mark.parametrize("kind", ["rate", "quota", "auth", "output_cap", "parameter", "bad_request"])
def test_look_alikes_never_compact(kind):
    """oc#13015, pi#1038: a rate limit that spoke of tokens led to a needless pass."""
    world = World(model=ToyModel([*reading(8), refusal(kind), refusal(kind), say()]), window=None)
    world.execute()
    assert world.passes == []


def test_a_request_too_large_for_the_account_asks_for_less_and_then_shrinks():
    """claw#130096: one request was larger than the tokens allowed in a minute, so waiting never helped."""
    world = refused_twice("rate_tier")
    assert world.execute().reason == "submitted"
    assert [sent.request.max_output_tokens for sent in world.steps[8:11]] == [1_000, 500, 1_000]
    assert len(world.passes) == 1
    assert world.state.window == Window(None)


def test_prompt_and_output_over_the_window_lower_the_output_first():
    """continue#6080, Roo-Code#11998, kcode#834: 199,759 + 8,192 > 200,000."""
    both = refusal("overflow_total", window=9_000, prompt_tokens=8_000)
    world = World(model=ToyModel([*reading(7), both, REPLY, say()]), window=None, max_output_tokens=4_000)
    assert world.execute().reason == "submitted"
    assert world.steps[8].request.messages == world.steps[7].request.messages
    assert 256 <= (world.steps[8].request.max_output_tokens or 0) <= 1_000
    assert world.model.sent.index(world.steps[8]) == 8


def test_only_then_is_the_prompt_made_smaller():
    both = refusal("overflow_total", window=9_000, prompt_tokens=8_000)
    world = World(model=ToyModel([*reading(7), both, both, REPLY, say()]), window=None, max_output_tokens=4_000)
    assert world.execute().reason == "submitted"
    assert [sent.request.messages == world.steps[7].request.messages for sent in world.steps[7:10]] == [
        True,
        True,
        False,
    ]
    assert len(world.passes) == 1


def test_without_figures_the_output_is_halved_until_it_would_be_of_no_use():
    both = refusal("overflow_total")
    world = World(model=ToyModel([*reading(7), *[both] * 4, REPLY, say()]), window=None, max_output_tokens=4_000)
    assert world.execute().reason == "submitted"
    assert [sent.request.max_output_tokens for sent in world.steps[7:13]] == [4_000, 2_000, 1_000, 500, 500, 4_000]


def test_too_little_room_for_an_answer_compacts_at_once():
    both = refusal("overflow_total", window=9_000, prompt_tokens=8_990)
    world = World(model=ToyModel([*reading(7), both, REPLY, say()]), window=None)
    assert world.execute().reason == "submitted"
    assert len(world.passes) == 1


@pytest.mark.parametrize("stated", [2_000, None])
def test_an_output_limit_of_the_model_is_learned_and_is_no_window(stated):
    """hermes PR#106769: "output limit of 16384" was learned as the window."""
    limit = 2_000

    def answer(request: Request):
        if (request.max_output_tokens or 0) > limit:
            return refusal("output_cap", max_output_tokens=stated)
        return REPLY if len(request.messages) < 8 else say()

    world = World(model=ToyModel([answer] * 20), window=None, max_output_tokens=16_000)
    assert world.execute().reason == "submitted"
    assert world.state.window == Window(None)
    assert world.state.output_cap == limit
    assert [call.step for call in world.refused] == [1] * len(world.refused)


def test_no_request_is_sent_twice_with_the_same_bytes():
    script = [*reading(8), refusal(), *talking(3), refusal("overflow_total"), REPLY, refusal(), say()]
    world = World(model=ToyModel(script), window=None)
    assert world.execute().reason == "submitted"
    requests = [sent.request for sent in world.model.sent]
    assert not any(one == two for one, two in pairwise(requests))


def test_an_unexplained_refusal_of_a_full_request_counts_as_an_overflow_once():
    unclear = refusal("bad_request", status=400)
    full = [*reading(11), *talking(2, chars=2_000)]
    policy = ContextPolicy(trigger_ratio=0.95)
    world = World(model=ToyModel([*full, unclear, unclear, say()], window=16_000), window=16_000, policy=policy)
    assert world.execute().reason == "provider_error"
    assert [done.trigger for done in world.passes] == ["overflow"]


def test_a_server_that_gives_no_numbers_is_survived_from_start_to_end():
    """goose#11049 with a runtime that really serves half of what is configured."""
    model = ToyModel([*reading(30), say()], window=16_000, refuse=without_numbers)
    world = World(model=model, window=32_000)
    assert world.execute().reason == "submitted"
    assert all(done.trigger == "overflow" for done in world.passes)


@pytest.mark.parametrize(
    "stages", [("elide", "summarize", "prune"), ("prune",), ("elide", "summarize"), ("summarize", "prune")]
)
def test_every_order_of_stages_gets_over_an_overflow(stages):
    script = [*reading(8), *talking(3), refusal(), say()]
    world = World(model=ToyModel(script), window=None, policy=ContextPolicy(stages=stages))
    assert world.execute().reason == "submitted"
    assert len(world.passes) == 1


def test_a_single_output_larger_than_the_window_is_clipped_and_not_fatal():
    """Roo-Code#4186, reyn#5888: one result was the protected tail, nothing else could be removed."""
    model = ToyModel([turn(text("log", 60_000)), say()], window=16_000)
    world = World(model=model, window=None, max_chars=10**9)
    world.tools._max_chars = 10**9
    assert world.execute().reason == "submitted"
    assert "read_output(" in world.steps[-1].texts


@pytest.mark.parametrize("believed", [None, 40_000])
@pytest.mark.parametrize("report", [truthful, no_usage])
def test_a_jump_far_over_a_window_that_nobody_states_is_taken_back_to_what_was_answered(believed, report):
    """Half of 12,000 tokens was over 4,096 still, and the run ended: only one retry is made."""
    jump = turn(*(text("log", 9_000, n) for n in range(4)))
    script = [*reading(2, chars=2_000), jump, *reading(2, chars=2_000), jump, say()]
    model = ToyModel(script, window=4_096, refuse=without_numbers, report=report)
    world = World(model=model, window=believed, max_output_tokens=300)
    assert world.execute().reason == "submitted"
    assert len(world.refused) <= 3
