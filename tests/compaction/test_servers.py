"""Servers that cut prompts in silence, report nothing, zero or nonsense, or think without saying so."""

import pytest

from tests.compaction.scripts import reading
from tests.generators import text
from tests.harness import ToyModel, World, no_usage, say, turn, zero_usage
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.events import Notice
from tinyagent.core.limits import Limits
from tinyagent.core.pricing import Prices
from tinyagent.core.types import Usage, Window


def half(prompt: int, output: int) -> Usage:
    return Usage(prompt // 2, output)


def huge(prompt: int, output: int) -> Usage:
    return Usage(10**9, output)


def negative(prompt: int, output: int) -> Usage:
    return Usage(-prompt, -output)


def only_new(prompt: int, output: int) -> Usage:
    return Usage(prompt % 1_200 + 1, output)


def double(prompt: int, output: int) -> Usage:
    return Usage(2 * prompt, output)


REPORTS = {
    "nothing": no_usage,
    "zero": zero_usage,
    "half": half,
    "huge": huge,
    "negative": negative,
    "only new": only_new,
    "double": double,
}


@pytest.mark.parametrize("tokenizer", ["o200k_base", "qwen2"])
@pytest.mark.parametrize("report", sorted(set(REPORTS) - {"half"}))
def test_whatever_usage_says_every_request_fits_and_the_run_goes_on(report, tokenizer):
    """oc#37871: total = 0 led to 104 compactions on an 8k model."""
    model = ToyModel([*reading(30), say()], window=16_000, report=REPORTS[report], tokenizer=tokenizer)
    world = World(model=model)
    assert world.execute().reason == "submitted"
    assert all("cut prompts in silence" in call.error for call in world.refused)  # an honest mistake, and a cheap one
    assert len(world.refused) <= (2 if report == "only new" else 0)
    assert 2 <= len(world.passes) <= 14


def test_half_the_truth_costs_refused_requests_and_not_the_run():
    world = World(model=ToyModel([*reading(30), say()], window=16_000, report=half))
    assert world.execute().reason == "submitted"
    assert all(call.error.startswith("overflow") for call in world.refused)


@pytest.mark.parametrize("report", ["zero", "nothing", "huge", "negative"])
def test_no_pass_starts_under_the_trigger_because_of_usage(report):
    world = World(model=ToyModel([*reading(8), say()], window=16_000, report=REPORTS[report]))
    assert world.execute().reason == "submitted"
    assert world.passes == []


def test_nonsense_is_not_charged():
    prices = Prices(3.0, 15.0)
    model = ToyModel([*reading(5), say()], window=16_000, report=huge)
    world = World(model=model, prices=prices, limits=Limits(cost_usd=1.0))
    assert world.execute().reason == "submitted"
    assert all(call.estimated for call in world.called)
    assert 0.05 < (world.state.spend.cost_usd or 0.0) < 0.2


def test_usage_that_is_not_used_is_said_once():
    world = World(model=ToyModel([*reading(5), say()], window=16_000, report=huge))
    world.execute()
    notices = [event for event in world.events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "the estimate stands" in notices[0].text


@pytest.mark.parametrize("tokenizer", ["o200k_base", "llama3"])
@pytest.mark.parametrize("served", [4_096, 8_192, 10_000])
def test_a_server_that_cuts_in_silence_counts_as_an_overflow_and_its_window_is_learned(served, tokenizer):
    """ollama#3839, PuPu#129: the front of the prompt, system text and all, is dropped with status 200."""
    script = [turn(text("code", 1_500, n)) for n in range(40)]
    model = ToyModel([*script, say()], window=served, cuts=True, tokenizer=tokenizer)
    world = World(model=model, window=32_000, max_output_tokens=500)
    assert world.execute().reason == "submitted"
    assert world.state.window.source == "learned"
    assert abs((world.state.window.tokens or 0) - served) <= 2
    (cut,) = world.refused
    assert "it seems to cut prompts in silence" in cut.error
    assert sum(sent.prompt > served for sent in world.steps) <= (1 if served % 256 == 0 else 2)


def test_a_server_that_cuts_at_the_window_that_we_know_is_noticed_too():
    model = ToyModel([*reading(30), say()], window=14_000, cuts=True)
    world = World(model=model, window=14_000)
    assert world.execute().reason == "submitted"
    assert world.refused == []


def test_a_first_prompt_that_was_cut_ends_the_run_with_the_window_named():
    """ollama#18107: the user's own words were cut away."""
    model = ToyModel([say()], window=4_096, cuts=True)
    world = World(model=model, window=32_000)
    end = world.execute(text("prose", 40_000))
    assert end.reason == "context_truncated"
    assert "seems to cut prompts in silence" in end.error


def test_an_empty_answer_at_a_full_window_counts_as_an_overflow():
    """lmstudio-bug-tracker#2339: status 200, a well-formed stream, and not one word."""
    model = ToyModel([*reading(11), say(""), say("Done.")], window=16_000)
    world = World(model=model, policy=ContextPolicy(trigger_ratio=0.95))
    assert world.execute().reason == "submitted"
    (done,) = world.passes
    assert (done.trigger, done.tokens_after <= 8_000) == ("overflow", True)


def test_thinking_that_is_not_told_apart_does_not_count_into_the_view():
    def thinks(prompt: int, output: int) -> Usage:
        return Usage(prompt, output + 3_000)

    world = World(model=ToyModel([*reading(8), say()], window=16_000, report=thinks))
    assert world.execute().reason == "submitted"
    assert world.passes == []
    assert world.refused == []


def test_output_of_thinking_is_charged_all_the_same():
    world = World(model=ToyModel([say()], report=lambda prompt, output: Usage(prompt, 5_000)))
    world.execute()
    assert world.state.spend.usage.output_tokens == 5_000


def test_an_unknown_window_that_is_cut_in_silence_is_learned():
    script = [turn(text("code", 1_500, n)) for n in range(30)]
    model = ToyModel([*script, say()], window=8_192, cuts=True)
    world = World(model=model, window=None, max_output_tokens=500)
    assert world.execute().reason == "submitted"
    assert world.state.window == Window(8_192, "learned")
