"""Faults that users of other agents reported: payloads, windows, learning, resumes, loops (kinds C10 to C17)."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.compaction.scripts import reading, talking
from tests.generators import text
from tests.harness import Call, Sent, ToyModel, Turn, World, notes, say, turn
from tinyagent.core.errors import ModelError
from tinyagent.core.events import Learned, ReasoningStripped, RunResumed, Unknown
from tinyagent.core.types import AssistantMessage, Facts, UserMessage, Window


def thinking(number: int) -> list[Turn]:
    """Turns with a payload of the provider's own: thinking with a signature."""
    return [
        replace(turn(text("code", 4_000, n)), wire={"signature": f"s{n}"}, reasoning=text("prose", 300, n))
        for n in range(number)
    ]


def payloads(sent: Sent) -> int:
    return sum(isinstance(m, AssistantMessage) and m.wire is not None for m in sent.request.messages)


def test_payloads_are_sent_back_unchanged_as_long_as_nothing_before_them_changes():
    """cc#12973, oc#31188: thinking blocks were invalid after a pass."""
    world = World([*thinking(6), say()], window=16_000)
    world.execute()
    assert [payloads(sent) for sent in world.steps] == list(range(7))


def test_where_signatures_bind_to_the_past_a_pass_leaves_none_behind():
    """claw#85717, claw#90108: signatures of kept turns were bound to messages that were gone."""
    world = World([*thinking(14), say()], window=16_000, strip_reasoning=True)
    assert world.execute().reason == "submitted"
    counts = [payloads(sent) for sent in world.steps]
    (after,) = [n for n, (one, two) in enumerate(pairwise(counts), 1) if two < one]
    assert counts[after] == 0
    assert counts[after + 1] == 1


@pytest.mark.parametrize("kind", ["reasoning", "history"])
def test_a_refused_signature_is_stripped_and_tried_once(kind):
    refusal = ModelError("thinking is bound to a different conversation", kind=kind)
    world = World([*thinking(3), refusal, say()], window=16_000)
    assert world.execute().reason == "submitted"
    assert [payloads(sent) for sent in world.steps[-2:]] == [3, 0]
    assert sum(isinstance(event, ReasoningStripped) for event in world.events) == 1


def test_a_signature_refused_twice_ends_the_run():
    refusal = ModelError("thinking is bound to a different conversation", kind="reasoning")
    world = World([*thinking(3), refusal, refusal, say()], window=16_000)
    assert world.execute().reason == "provider_error"
    assert len(world.steps) == 5


def test_encoded_pictures_do_not_get_into_a_summary_request_whole():
    """agentlys PR#347, senpi PR#1672: a summary call of 2.1 million tokens, all of it base64."""
    world = World([*(turn(text("base64", 9_000, n)) for n in range(30)), say()], window=32_000)
    assert world.execute().reason == "submitted"
    assert all(sent.prompt < 20_000 for sent in world.summaries)


@pytest.mark.parametrize("kind", ["stream_cut", "network", "overloaded", "malformed"])
def test_streams_that_break_teach_no_window(kind):
    """billion-context#570: three cut streams shrank the window, for good and across restarts."""
    cut = ModelError("the stream ended early", kind=kind, billed=True)
    world = World([*reading(9), cut], window=16_000)
    assert world.execute().reason == "transient_provider_error"
    for _ in range(2):
        world = World([cut], window=16_000, records=world.records)
        assert world.execute(None).reason == "transient_provider_error"
    assert not [event for event in world.events if isinstance(event, Learned)]
    assert world.state.window == Window(16_000, "configured")


def test_a_window_stays_what_it_was_over_many_passes():
    """copilot-cli#3174: 1,081k became 160k after a pass."""
    world = World([*reading(60), say()], window=16_000)
    world.execute()
    assert len(world.passes) > 3
    assert world.state.window == Window(16_000, "configured")


def test_records_of_another_version_between_the_others_hide_nothing():
    """penguin-harness PR#329: a begin record without its end hid everything that came after it."""
    world = World([*reading(12), say()], window=16_000)
    world.execute()
    odd = replace(world.records[5], event=Unknown("compaction_begun", {"at": 5}))
    again = World([say()], window=16_000, records=[*world.records[:6], odd, *world.records[6:]])
    assert again.state.view == world.state.view
    assert again.execute("More?").reason == "submitted"


def test_a_failed_summary_of_one_process_is_no_summary_for_the_next():
    """PI-Desktop PR#249: a failure notice was saved as "previous summary" and updated for ever."""
    first = World(
        model=ToyModel([*talking(20), say()], window=16_000, summaries=[say("Compaction failed: timeout")] * 9)
    )
    first.execute()
    second = World(model=ToyModel([*talking(30), say()], window=16_000), records=first.records)
    second.execute("More.")
    assert second.summaries
    assert "Compaction failed" not in second.summaries[0].texts
    assert "<earlier_notes>" not in second.summaries[0].texts


@pytest.mark.parametrize("window", [200_000, 1_000_000])
def test_in_a_large_window_many_fresh_results_keep_all_of_their_text(window):
    """claw#100042: a fixed cap over all results blanked fresh ones in a window of a million."""
    outputs = [text("code", 9_000, n) for n in range(10)]
    world = World([turn(*outputs), say()], window=window)
    world.execute()
    assert all(output in world.steps[1].texts for output in outputs)


def test_the_newest_of_many_results_gets_its_share_in_a_small_window():
    world = World([turn(*[text("code", 9_000, n) for n in range(10)]), say()], window=8_192)
    world.execute()
    last = world.steps[1].request.messages[-1]
    assert len(last.text) >= 0.2 * 0.2 * 8_192 * 2.5


def test_reading_a_file_again_after_a_pass_is_no_loop():
    """hermes PR#109845, #114441, #101648: the second read was punished, or a stub hid what was gone."""
    read = Turn((Call(text("code", 4_000, 500), "read", {"path": "a.py"}, Facts(path="a.py")),))
    world = World([read, *reading(12), read, say()], window=16_000)
    assert world.execute().reason == "submitted"
    assert world.passes
    assert not [m for m in world.state.messages if isinstance(m, UserMessage) and m.kind == "notice"]
    assert text("code", 4_000, 500) in world.steps[-1].texts


def test_repeats_are_counted_in_the_log_and_not_in_what_a_pass_left_of_it():
    """stella#554, claw#126545: 248 identical calls in 14 hours, as each pass hid them."""
    stuck = Turn((Call(text("log", 9_000), "bash", {"command": "make"}, Facts(command="make", exit_code=2)),))
    world = World([*reading(3), *[stuck] * 20], window=8_192)
    end = world.execute()
    assert end.reason == "loop_detected"
    assert world.passes
    assert sum(isinstance(m, UserMessage) and m.kind == "notice" for m in world.state.messages) == 1


def test_a_pass_at_the_first_step_of_a_loop_does_not_reset_its_count():
    stuck = Turn((Call(text("code", 5_000), "bash", {"command": "make"}),))
    world = World([*reading(8), *[stuck] * 20], window=16_000)
    assert world.execute().reason == "loop_detected"
    assert sum(isinstance(m, AssistantMessage) for m in world.state.messages) == 8 + 6


def test_a_summary_message_beside_words_of_the_user_stays_a_message_of_its_own():
    """claux#39: two user messages in a row; the wires merge them for servers that refuse it."""
    model = ToyModel([*talking(20), say("Done."), *talking(2), say()], window=16_000, summaries=[notes()] * 3)
    world = World(model=model)
    world.execute()
    world.execute("And now?")
    kinds = [m.kind for m in world.steps[-1].request.messages if isinstance(m, UserMessage)]
    assert kinds == ["task", "summary", "user"]


def test_a_run_that_is_taken_up_says_so_and_keeps_its_spend():
    world = World([*reading(12), say()], window=16_000)
    world.execute()
    again = World([say()], window=16_000, records=world.records)
    assert isinstance(again.records[-1].event, RunResumed)
    again.execute("More?")
    assert again.state.spend.requests == world.state.spend.requests + 1
