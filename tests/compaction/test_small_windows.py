"""4k, 8k and 16k windows with outputs of all kinds: every request fits by a real tokenizer, is legal, has the task."""

import pytest

from tests.builders import BASH
from tests.generators import KINDS, text
from tests.harness import TOKENIZERS, Call, Item, Report, ToyModel, Turn, World, no_usage, say, truthful, turn
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.types import Request, ToolSpec, UserMessage

WINDOWS = (4_096, 8_192, 16_384)
KIND_NAMES = sorted(KINDS)


def script_of_all_kinds(seed: int) -> list[Item]:
    items: list[Item] = []
    for n in range(26):
        kind, other = KIND_NAMES[(n + seed) % len(KIND_NAMES)], KIND_NAMES[(n * 5 + seed) % len(KIND_NAMES)]
        items.append(turn(text(kind, 30_000, n), text=text("prose", 200, n)))
        if n % 4 == 0:
            items.append(turn(text(other, 900, n), text(kind, 300, n), text("json", 2_000, n)))
    return [*items, say("Done.")]


def check(world: World, window: int) -> None:
    assert world.execute().reason == "submitted"
    assert world.refused == []
    assert world.passes
    for sent in world.model.sent:
        assert sent.prompt + (sent.request.max_output_tokens or 0) <= window
    assert all(UserMessage("Fix the failing test.", "task") in sent.request.messages for sent in world.steps)


@pytest.mark.parametrize("report", [truthful, no_usage])
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("window", WINDOWS)
def test_outputs_of_all_kinds_in_one_run(window, tokenizer, report: Report):
    model = ToyModel(script_of_all_kinds(window), window=window, tokenizer=tokenizer, report=report)
    check(World(model=model, window=window), window)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_outputs_of_one_kind_only(kind):
    """claw#103930: "keep 20k" kept 65 to 90 thousand tokens of Chinese."""
    script = [turn(text(kind, 9_000, n)) for n in range(25)]
    model = ToyModel([*script, say("Done.")], window=4_096, tokenizer="llama3")
    world = World(model=model, window=4_096)
    assert world.execute().reason == "submitted"
    assert world.refused == []


@pytest.mark.parametrize("stages", [("prune",), ("elide", "summarize"), ("elide", "prune"), ("summarize", "prune")])
@pytest.mark.parametrize("window", WINDOWS)
def test_every_choice_of_stages(window, stages):
    model = ToyModel(script_of_all_kinds(3), window=window, tokenizer="qwen2")
    check(World(model=model, window=window, policy=ContextPolicy(stages=stages)), window)


def test_one_line_of_two_megabytes():
    line = text("base64", 2_000_000)
    script = [turn(line), turn("ok"), turn(line[::-1]), turn("ok"), say("Done.")]
    world = World(script, window=4_096)
    assert world.execute().reason == "submitted"
    assert world.tools.stored["o1"] == line
    assert 'read_output("o1")' in world.steps[1].texts


def test_a_batch_whose_results_alone_exceed_the_window():
    """pi-ai and copilot reports of parallel reads: five files at once on a small model."""
    batch = turn(*(text("code", 40_000, n) for n in range(8)))
    world = World([batch, batch, batch, say("Done.")], window=8_192)
    assert world.execute().reason == "submitted"
    assert world.refused == []


def test_tool_schemas_of_a_third_of_the_window():
    """hermes#27566: schemas were counted twice, so a pass fired all the time."""
    fields = {f"field_{n}": {"type": "string", "description": "what it is for, in some words"} for n in range(100)}
    big = ToolSpec("big", "A tool with many fields.", {"type": "object", "properties": fields})
    world = World([*(turn(text("code", 900, n)) for n in range(30)), say("Done.")], window=8_192, tools=(BASH, big))
    assert world.execute().reason == "submitted"
    assert world.refused == []
    assert 1 <= len(world.passes) <= 8


def test_a_start_that_leaves_too_little_is_refused_with_the_biggest_parts_named():
    """oc#27924, BrowserOS PR#466: system and tools were larger than the trigger, and every pass was in vain."""
    world = World([say()], window=20_000, system=text("prose", 72_000))
    end = world.execute()
    assert end.reason == "context_truncated"
    assert world.model.sent == []
    assert "system prompt ~" in end.error
    assert "leaves too little to work in" in end.error


def test_a_task_of_nearly_three_quarters_of_the_window_is_worked_on():
    world = World([*(turn(text("code", 600, n)) for n in range(20)), say("Done.")], window=16_000)
    end = world.execute(text("prose", 47_500))
    assert world.refused == []
    assert end.reason == "submitted"
    assert len(world.failed_passes) <= 4


def test_a_pinned_part_that_grows_out_of_the_window_ends_with_the_named_reason():
    world = World([turn(text("code", 600)), say("Done.")], window=8_192, max_output_tokens=6_000)
    world.execute(text("prose", 20_000))
    end = world.execute(text("prose", 20_000))
    assert end.reason == "context_truncated"
    assert "context still exceeds the window after compaction" in end.error
    assert "user message" in end.error


def test_a_reply_of_most_of_the_window_is_never_edited():
    big = Turn((Call("Written.", "write", {"content": text("code", 17_000)}),))
    world = World(
        [turn(text("code", 900)), big, turn("ok"), turn("ok"), say("Done.")], window=8_192, max_output_tokens=6_000
    )
    assert world.execute().reason == "submitted"
    assert world.refused == []
    written = world.state.messages[3]
    assert written in world.steps[2].request.messages


def test_a_paste_of_the_user_of_a_third_of_the_window_stays_as_long_as_it_is_new():
    """pi PR#1585: a paste of 37k tokens with a tail of 20k was never summarised, or vanished."""
    script = [turn(text("code", 3_000, n)) for n in range(6)]
    world = World([*script, say("A done."), *script, *script, say("B done.")], window=16_000)
    assert world.execute().reason == "submitted"
    paste = text("log", 9_000)
    assert world.execute(paste).reason == "submitted"
    first = next(sent for sent in world.steps if sent.log > 14)
    assert first.request.messages[-1] == UserMessage(paste)
    assert paste[:500] in world.steps[-1].texts


@pytest.mark.parametrize("smaller", [8_192, 4_096])
def test_a_run_taken_up_with_a_smaller_window_fits_at_once(smaller):
    before = World([*(turn(text("code", 3_000, n)) for n in range(20)), say("Done.")], window=64_000)
    assert before.execute().reason == "submitted"
    after = World([turn("ok"), say("Done.")], window=smaller, records=before.records)
    assert after.execute("And now?").reason == "submitted"
    assert after.refused == []
    assert all(sent.prompt <= smaller for sent in after.model.sent)


def test_ids_that_the_server_uses_again_survive_passes_and_resumes():
    script = [Turn((Call(text("code", 2_000, n)), Call("ok")), ids=("call_0", "call_1")) for n in range(30)]
    world = World([*script, say("Done.")], window=8_192)
    assert world.execute().reason == "submitted"
    again = World([*script[:3], say("Done.")], window=8_192, records=world.records)
    assert again.execute("More.").reason == "submitted"


def test_a_large_window_is_kept_in_the_same_way():
    world = World(
        [*(turn(text(KIND_NAMES[n % len(KIND_NAMES)], 10_000, n)) for n in range(130)), say("Done.")], window=200_000
    )
    check(world, 200_000)


@pytest.mark.parametrize("output", ["ok", text("log", 9_000)], ids=["short", "long"])
@pytest.mark.parametrize("window", [2_048, *WINDOWS])
def test_a_reply_never_gets_so_long_that_its_results_no_longer_fit(window, output):
    """At 4k a first reply of 3,300 tokens ended the run: it has to stay, and so have its results in part."""

    def as_long_as_it_may(request: Request) -> Turn:
        return turn(output, output, text="word " * ((request.max_output_tokens or 0) - 60))

    world = World([*[as_long_as_it_may] * 12, say("Done.")], window=window, max_output_tokens=8_000)
    assert world.execute().reason == "submitted"
    assert world.refused == []


@pytest.mark.parametrize("stages", [("elide", "summarize", "prune"), ("elide", "prune")])
@pytest.mark.parametrize("window", WINDOWS[:2])
def test_after_a_pass_there_is_room_for_a_useful_answer(window, stages):
    """At 8k replies were cut at 64 tokens after every fourth pass: what cheap text had taught was not trusted then."""
    items = [turn(text("blank", 3_000, n), text("log", 6_000, n), text="word " * 150) for n in range(30)]
    world = World(
        model=ToyModel([*items, say("Done.")], window=window), window=window, policy=ContextPolicy(stages=stages)
    )
    assert world.execute().reason == "submitted"
    assert world.passes
    assert min(sent.request.max_output_tokens or 0 for sent in world.steps) >= 256
