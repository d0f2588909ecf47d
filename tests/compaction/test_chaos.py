"""Everything at once: refusals, interrupts, bad summaries, odd usage, other windows after a resume.

The harness looks at each request; the rest is that no run ever crashes and that its journal tells all of it.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import call
from tests.generators import KINDS, Script, text
from tests.harness import (
    TOKENIZERS,
    Item,
    Report,
    ToyModel,
    Turn,
    World,
    no_usage,
    notes,
    say,
    truthful,
    with_numbers,
    without_numbers,
    zero_usage,
)
from tinyagent.agent import Terminated
from tinyagent.compaction.plan import ContextPolicy, StageName
from tinyagent.core.errors import ErrorKind, ModelError
from tinyagent.core.types import AssistantMessage, ToolCall, Usage

REFUSALS: tuple[ErrorKind, ...] = (
    *("overflow", "overflow_total", "reasoning", "bad_request", "body_too_large", "output_cap", "rate_tier"),
    *("overloaded", "stream_cut", "history"),
)
STAGES: tuple[tuple[StageName, ...], ...] = (
    ("elide", "summarize", "prune"),
    ("prune",),
    ("elide", "summarize"),
    ("elide", "prune"),
    ("summarize", "prune"),
    ("elide",),
)
BAD_SUMMARIES: tuple[Item, ...] = (
    say(""),
    say("", reasoning="hm"),
    say("Here is what I did."),
    say(notes().text, stop="length"),
    say("no", stop="refusal"),
    notes("many words " * 300),
    AssistantMessage("", (call("s1"),), "tool_calls"),
    ModelError("too long", kind="overflow"),
    ModelError("the stream ended early", kind="stream_cut", billed=True),
)


def half(prompt: int, output: int) -> Usage:
    return Usage(prompt // 2, output)


def huge(prompt: int, output: int) -> Usage:
    return Usage(10**8, output)


REPORTS: tuple[Report, ...] = (truthful, truthful, no_usage, zero_usage, half, huge)


def chaotic(rng: random.Random) -> Iterator[Item]:
    """Turns of all kinds, and between them whatever can go wrong."""
    unreadable = ToolCall("broken", "bash", None, "no JSON", "{")
    while True:
        for item in Script(rng.randrange(10**6), 8, tuple(rng.sample(sorted(KINDS), 3))).items():
            if rng.random() < 0.12:
                yield ModelError("the server's words", kind=rng.choice(REFUSALS), status=400)
            if rng.random() < 0.08:
                yield rng.choice((KeyboardInterrupt, Terminated))
            if rng.random() < 0.05:
                yield rng.choice(
                    (say(""), say("half", stop="length"), AssistantMessage("", (unreadable,), "tool_calls"))
                )
            if isinstance(item, Turn) and rng.random() < 0.2:
                item = replace(item, ids=tuple(f"call_{n}" for n in range(len(item.calls))), wire={"signature": 1})
            yield item


def summaries(rng: random.Random) -> Iterator[Item]:
    while True:
        yield rng.choice(BAD_SUMMARIES) if rng.random() < 0.4 else notes(f"As of {rng.randrange(99)}.")


def run_of(rng: random.Random) -> World:
    window = rng.choice((4_096, 8_192, 16_384, None))
    model = ToyModel(
        chaotic(rng),
        summaries=summaries(rng),
        window=rng.choice((window, window, 6_000)),
        tokenizer=rng.choice(TOKENIZERS),
        report=rng.choice(REPORTS),
        refuse=rng.choice((with_numbers, without_numbers)),
        cuts=rng.random() < 0.15,
    )
    form = rng.choice(("transcript", "prefix"))
    policy = ContextPolicy(stages=rng.choice(STAGES), summary_form=form, enabled=rng.random() < 0.95)
    strip, records, words = rng.random() < 0.3, (), text("prose", rng.choice((40, 2_000)))
    world = World(model=model, window=window, policy=policy, strip_reasoning=strip)
    for _ in range(12):
        world.execute(words)
        records = world.records
        words = text(rng.choice(sorted(KINDS)), rng.choice((20, 300, 3_000)), rng.randrange(50)) or "Go on."
        if rng.random() < 0.4:
            other = rng.choice((window, 4_096, 100_000))
            world = World(model=model, window=other, policy=policy, strip_reasoning=strip, records=records)
    return world


@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
def test_no_run_crashes_no_request_is_illegal_and_the_journal_tells_all_of_it(seed):
    world = run_of(random.Random(seed))
    assert world.refolded() == world.state
