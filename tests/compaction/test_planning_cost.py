"""Planning is quick in the length of a run, and looking whether a pass is due costs the same at any length."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.compaction.scripts import long_state, reading
from tests.harness import World, say
from tinyagent.compaction.compactor import Compactor
from tinyagent.compaction.ladder import Ladder, NoReply, Summarizer
from tinyagent.compaction.plan import ContextPolicy, figures
from tinyagent.core.state import Run, RunState
from tinyagent.core.view import Entry, View

KINDS = ("log", "code", "json", "prose")
NOBODY = Summarizer(lambda request, seconds: NoReply("nobody"), lambda: None, "p")


def seconds(work: Callable[[], object], *, times: int = 7) -> float:
    spent: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        spent.append(time.perf_counter() - begin)
    return statistics.median(spent)


@pytest.mark.parametrize("stages", [("elide",), ("prune",), ("elide", "prune")])
def test_planning_a_pass_over_two_thousand_messages_is_quick(stages):
    """The goal is 50 ms on a machine of its own; the bound here only catches what grows with the square."""
    state = long_state(1_000)
    policy = ContextPolicy(stages=stages)
    sizes = figures(policy, round(state.estimate / 0.82), reserved_output=None)
    assert seconds(lambda: Ladder(policy, NOBODY).climb(state, sizes)) < 0.5


def test_planning_grows_with_the_length_and_not_with_its_square():
    policy = ContextPolicy(stages=("elide", "prune"))

    def cost(turns: int) -> float:
        state = long_state(turns)
        sizes = figures(policy, round(state.estimate / 0.82), reserved_output=None)
        return seconds(lambda: Ladder(policy, NOBODY).climb(state, sizes))

    assert cost(1_200) < 30 * cost(150)


class Counted(View):
    """A view whose entries cannot be looked at."""

    @property
    def entries(self) -> tuple[Entry, ...]:  # type: ignore[override]
        raise AssertionError("the entries were looked at")


def test_where_nothing_is_due_the_messages_are_not_even_looked_at():
    state = long_state(50)
    blind = object.__new__(Counted)
    object.__setattr__(blind, "tokens", state.view.tokens)
    run = Run(sink=lambda record: None, clock=lambda: 0.0, state=replace_view(state, blind))
    Compactor(run, ContextPolicy(), NOBODY).before_request()


def replace_view(state: RunState, view: View) -> RunState:
    return replace(state, view=view)


def test_a_step_costs_the_same_after_many_passes():
    """Memory and time of a step do not grow with the number of passes: the view has no more parts than it had."""
    world = World([*reading(150), say()], window=16_000)
    world.execute()
    assert len(world.passes) > 10
    lengths = [len(sent.request.messages) for sent in world.steps]
    assert max(lengths[len(lengths) // 2 :]) <= 1.5 * max(lengths[: len(lengths) // 2])
