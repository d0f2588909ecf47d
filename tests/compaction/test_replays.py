"""Real runs of other agents, played through our engine with a real tokenizer on the other side."""

from typing import Any

import pytest

from tests.compaction.replays import play, replays, script_of
from tests.harness import TOKENIZERS, ToyModel, World, no_usage, truthful
from tinyagent.compaction.plan import ContextPolicy, StageName

SAMPLE: dict[int, slice] = {
    4_096: slice(2, 40, 6),
    8_192: slice(4, 48, 6),
    16_384: slice(8, 56, 6),
    200_000: slice(-2, None),
}
# Where a person pasted more than such a window holds, beside a task that cannot be dropped either.
TOO_LARGE = "user message"


def world_of(run: Any, window: int, number: int, **more: Any) -> World:
    report = no_usage if number % 4 == 3 else truthful
    model = ToyModel(script_of(run), window=window, tokenizer=TOKENIZERS[number % len(TOKENIZERS)], report=report)
    return World(model=model, window=window, max_output_tokens=4_000, **more)


def check(run: Any, window: int, number: int, stages: tuple[StageName, ...]) -> World:
    world = world_of(run, window, number, policy=ContextPolicy(stages=stages))
    end = play(world, run)
    assert end.reason == "submitted" or (end.reason == "context_truncated" and TOO_LARGE in end.error), end
    assert [call.error for call in world.refused if not call.error.endswith("interrupted")] == []
    assert all(sent.prompt + (sent.request.max_output_tokens or 0) <= window for sent in world.model.sent)
    assert world.refolded() == world.state
    return world


@pytest.mark.parametrize("window", sorted(SAMPLE))
def test_every_request_of_a_real_run_fits_is_legal_and_has_the_task(window):
    passes = 0
    for number, run in enumerate(replays()[SAMPLE[window]]):
        passes += len(check(run, window, number, ("elide", "summarize", "prune")).passes)
    assert passes > 0


def test_the_same_holds_without_a_model_for_summaries():
    for number, run in enumerate(replays()[5:50:7]):
        check(run, 8_192, number, ("prune",))
