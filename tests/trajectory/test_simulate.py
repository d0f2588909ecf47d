"""What other policies would have sent: the same as the run did where they are the same, and plausible where not."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import assistant, call, result, task
from tests.generators import Script, scripts
from tests.harness import ToyModel, World, no_usage, say, truthful, turn
from tests.trajectory.generators import runs
from tests.trajectory.story import Story
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.events import Compacted, ModelCalled, Record, RunStarted
from tinyagent.core.pricing import Prices
from tinyagent.core.types import Usage, Window
from tinyagent.trajectory.simulate import STAGES, has_prices, named_policy, simulate

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
OWN = ContextPolicy()


def long_run(policy: ContextPolicy = OWN, *, window: int = 8_000, turns: int = 20) -> World:
    world = World([*(turn(f"{n} " * 900) for n in range(turns)), say()], window=window, policy=policy)
    assert world.execute().reason == "submitted"
    return world


def until_last_answer(records: list[Record]) -> list[Record]:
    """Without what came after it: a pass whose request never left is none of the walk's."""
    answered = [i for i, r in enumerate(records) if isinstance(r.event, ModelCalled) and not r.event.error]
    return records[: answered[-1] + 1] if answered else records[:1]


def priced(records: list[Record], prices: Prices | None) -> list[Record]:
    start = records[0].event
    assert isinstance(start, RunStarted)
    return [replace(records[0], event=replace(start, setup=replace(start.setup, prices=prices))), *records[1:]]


@given(scripts(), st.sampled_from([4_096, 8_192, 16_384]), st.sampled_from(sorted(STAGES)), st.booleans())
@few
def test_the_policy_that_a_run_had_sends_what_the_run_sent(
    script: Script, window: int, name: str, reports: bool
) -> None:
    policy = named_policy(name, OWN)
    model = ToyModel(script.items(), window=window, report=truthful if reports else no_usage)
    world = World(model=model, window=window, policy=policy)
    world.execute()
    records = until_last_answer(world.records)
    assert replace(simulate(records, policy), end="") == simulate(records, None)


@given(runs())
def test_any_run_can_be_walked_under_any_policy(records: list[Record]) -> None:
    steps = [r for r in records if isinstance(r.event, ModelCalled) and r.event.purpose == "step" and not r.event.error]
    for name in (*STAGES, "default"):
        outcome = simulate(records, named_policy(name, OWN), window=4_096)
        assert outcome.requests == len(steps)
        assert outcome.cached_tokens <= outcome.input_tokens


def test_the_run_as_it_was_counts_its_summaries_with_what_they_used() -> None:
    world = long_run(turns=30)
    used = [event.usage or Usage() for event in world.called]
    outcome = simulate(world.records, None)
    assert world.summaries
    assert outcome.passes == len(world.passes)
    assert (outcome.requests, outcome.input_tokens) == (len(used), sum(usage.input_tokens for usage in used))


def test_without_compaction_requests_grow_and_are_counted_once_they_no_longer_fit() -> None:
    world = long_run()
    none, own = simulate(world.records, named_policy("none", OWN)), simulate(world.records, None)
    assert none.passes == 0
    assert none.largest > 8_000 > own.largest
    assert none.too_large > 0 == own.too_large
    assert none.input_tokens > own.input_tokens


def test_a_larger_window_needs_no_pass_and_has_the_longest_cached_prefix() -> None:
    world = long_run()
    wide = simulate(world.records, OWN, window=200_000)
    assert wide == replace(simulate(world.records, named_policy("none", OWN)), too_large=0)
    assert wide.cached_tokens / wide.input_tokens > 0.8


def test_a_window_too_small_for_the_start_says_where_a_live_run_would_have_ended() -> None:
    outcome = simulate(long_run().records, OWN, window=80)
    assert outcome.end.startswith("before step 1: system prompt, tools and task need")


def test_a_run_that_only_elides_may_come_to_its_end() -> None:
    outcome = simulate(long_run(turns=60).records, named_policy("elide", OWN), window=2_500)
    assert "context still exceeds the window after compaction" in outcome.end
    assert outcome.requests == 61  # the walk goes on


def test_a_window_that_was_learned_counts_from_there_on() -> None:
    model = ToyModel([*(turn(f"{n} " * 900) for n in range(20)), say()], window=8_000)
    world = World(model=model, window=None)
    world.execute()
    assert isinstance(world.records[0].event, RunStarted)
    assert world.records[0].event.setup.window == Window(None)
    assert simulate(world.records, named_policy("none", OWN)).too_large > 0
    assert simulate(world.records, named_policy("prune", OWN)).too_large == 0


def test_the_name_of_no_stages_keeps_the_runs_own_with_digests_for_summaries() -> None:
    assert named_policy("default", OWN).stages == ("elide", "prune")
    assert named_policy("default", replace(OWN, stages=("summarize",))).stages == ("prune",)
    assert named_policy("elide", replace(OWN, enabled=False, trigger_ratio=0.7)) == replace(
        OWN, stages=("elide",), trigger_ratio=0.7
    )


def two_steps() -> list[Record]:
    """Requests of 100 and 200 tokens; the first is a prefix of the second."""
    story = Story()
    story.say(task())
    story.ask(usage=Usage(100, 10), context_tokens=110)
    story.say(assistant("", call("c1")), result("c1", "a listing"))
    story.ask(usage=Usage(200, 10), context_tokens=210)
    return story.records


@pytest.mark.parametrize(
    ("prices", "of_plain", "of_cached", "of_output"),
    [(Prices(2.0, 10.0), 2.0, 2.0, 10.0), (Prices(2.0, 10.0, 0.2, 2.5), 2.5, 0.2, 10.0), (None, 1.25, 0.1, 0.0)],
)
def test_a_prefix_that_was_sent_before_costs_what_cached_tokens_cost(
    prices: Prices | None, of_plain: float, of_cached: float, of_output: float
) -> None:
    records = priced(two_steps(), prices)
    outcome = simulate(records, None)
    assert has_prices(records) == (prices is not None)
    assert 0 < outcome.cached_tokens < 200
    plain = outcome.input_tokens - outcome.cached_tokens
    expected = (plain * of_plain + outcome.cached_tokens * of_cached + 20 * of_output) / 1e6
    assert outcome.cost == pytest.approx(expected)


def test_a_pass_ends_the_cached_prefix_where_it_changed_the_view() -> None:
    change = Compacted("budget", 2, 90, 80, (1, 2, 3), ("elide",), {3: "[output elided: 9 chars]"}, (3,))
    sent = two_steps()
    last = sent[-1]
    again = [*sent, replace(last, seq=90)]
    passed = [*sent, Record(90, 200.0, change), replace(last, seq=91)]
    assert simulate(passed, None).cached_tokens < simulate(again, None).cached_tokens
    assert simulate(passed, None).passes == 1
