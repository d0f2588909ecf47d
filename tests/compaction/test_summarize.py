"""What a summary request shows, within what budget, and which answers are taken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import BASH, assistant, call, result, task, user
from tests.generators import KINDS, text
from tests.harness import TOKENIZERS, counter, notes, true_tokens
from tinyagent.compaction.summarize import (
    HEADINGS,
    SummaryTask,
    prefix_request,
    reason_to_reject,
    transcript_request,
)
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import AssistantMessage, Message, Request

PROMPT = "Write notes."


def work(*older: Message, earlier: str = "", recent: tuple[Message, ...] = (), words: str = "Fix it.") -> SummaryTask:
    return SummaryTask(words, earlier, older, recent)


def transcript(task_: SummaryTask, *, room: int = 100_000, smaller: bool = False) -> Request | None:
    return transcript_request(task_, prompt=PROMPT, input_tokens=room, output_tokens=2_000, ratio=1.0, smaller=smaller)


def shown(task_: SummaryTask, **more) -> str:
    request = transcript(task_, **more)
    assert request is not None
    return request.messages[-1].text


TURN = (assistant("I look.", call("c1", command="cat a.py")), result("c1", "print(1)"))


def test_the_request_has_its_own_system_text_and_no_tools():
    """senpi#1067: tools were forwarded, and it became a tool call; pss-runtime PR#382: a persona stayed silent."""
    request = transcript(work(*TURN))
    assert request is not None
    assert (request.system, request.tools, len(request.messages)) == (PROMPT, (), 1)


def test_task_earlier_notes_transcript_and_what_follows_are_told_apart():
    """pi PR#1585, dirge PR#451: notes that did not know the tail repeated steps that it shows as done."""
    found = shown(work(*TURN, earlier="We chose plan B.", recent=(assistant("Now the tests."),)))
    places = [found.index(part) for part in ("Fix it.", "We chose plan B.", "print(1)", "Now the tests.")]
    assert places == sorted(places)


def test_calls_results_and_errors_stand_in_their_order():
    found = shown(work(user("also b"), *TURN, assistant("", call("c2")), result("c2", "boom", is_error=True)))
    assert found[found.index("[user]") :].split("\n")[:6] == [
        "[user] also b",
        "[agent] I look.",
        '[call] bash {"command": "cat a.py"}',
        "[result] print(1)",
        '[call] bash {"command": "ls"}',
        "[error] boom",
    ]


def test_an_earlier_summary_and_our_notices_are_not_part_of_the_transcript():
    """deepseek-harness#7212: a checkpoint summarised its own checkpoint; notices read like the user."""
    found = shown(work(user("OLD SUMMARY", "summary"), user("You repeat yourself.", "notice"), *TURN))
    assert "OLD SUMMARY" not in found
    assert "You repeat" not in found


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_field_is_clipped(kind):
    """pi#8196, pi#9602, zed#64560: thinking, arguments and base64 went into the summary call whole."""
    big = text(kind, 40_000)
    task_ = work(assistant(big, call("c", content=big)), result("c", big), user(big), words=big * 2)
    assert len(shown(task_)) < 45_000


@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=30), st.integers(600, 30_000), st.sampled_from(TOKENIZERS))
@settings(max_examples=40)
def test_the_rendered_request_fits_its_budget_or_is_not_made(kinds, room, tokenizer):
    """xagent PR#2072: each field was capped and the whole was not; Reasonix#8376: given up for three tokens."""
    older = [
        m for n, kind in enumerate(kinds) for m in (assistant("", call(f"c{n}")), result(f"c{n}", text(kind, 9_000)))
    ]
    request = transcript(work(*older), room=room)
    if request is not None:
        assert estimate_text(request.messages[0].text) <= room
        assert true_tokens(request, counter(tokenizer)) <= 1.15 * room + 50


def test_a_second_try_is_smaller_than_the_first():
    """kcode PR#836: a run of three hours was lost to five tries with the same bytes."""
    older: list[Message] = [
        m for n in range(10) for m in (assistant("", call(f"c{n}")), result(f"c{n}", text("code", 9_000, n)))
    ]
    sizes = [len(shown(work(*older), room=room)) for room in (100_000, 8_000)]
    again = [len(shown(work(*older), room=room, smaller=True)) for room in (100_000, 8_000)]
    assert again[0] < sizes[0]
    assert again[1] < sizes[1]


def test_there_is_no_second_try_where_nothing_can_be_made_smaller():
    assert transcript(work(*TURN), smaller=True) is None


def test_a_transcript_that_cannot_fit_is_not_sent():
    older: list[Message] = [
        m for n in range(500) for m in (assistant("", call(f"c{n}")), result(f"c{n}", "line " * 30))
    ]
    assert transcript(work(*older), room=2_000) is None


def test_the_prefix_form_appends_one_instruction_to_the_live_request():
    request = prefix_request("sys", (task(), *TURN), (BASH,), prompt=PROMPT, output_tokens=500)
    assert (request.system, request.tools) == ("sys", (BASH,))
    assert request.messages == (task(), *TURN, user(PROMPT, "notice"))


SKELETON = "\n".join(f"## {heading}" for heading in HEADINGS)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (AssistantMessage(""), "empty"),
        (AssistantMessage(" \n "), "empty"),
        (AssistantMessage("", reasoning="I think so."), "only reasoning"),
        (AssistantMessage("", (call("c"),), "tool_calls"), "it called a tool"),
        (AssistantMessage(notes().text, (call("c"),), "tool_calls"), "it called a tool"),
        (AssistantMessage(notes().text, stop="length"), "cut off"),
        (AssistantMessage("I cannot help with that.", stop="refusal"), "refused"),
        (AssistantMessage("I cannot help with that."), "the headings are missing or empty"),
        (AssistantMessage(SKELETON), "the headings are missing or empty"),
        (notes(headings=HEADINGS[:3]), "the headings are missing or empty"),
        (notes("word " * 800), "too long"),
        (notes("word " * 90), "not smaller than what it summarizes"),
    ],
)
def test_an_answer_that_is_no_summary_is_rejected_with_the_reason(reply, why):
    """claw#120663 (47 % empty skeletons), oh-my-pi#6093, ORG2 PR#341, gemini-cli#5432, qwen-code#1924."""
    assert reason_to_reject(reply, max_tokens=4_000, source_tokens=600).startswith(why)


@pytest.mark.parametrize("style", ["## {}", "# {}", "**{}**", "{}:", "3. {}", "### {} (as of now)", "## {}:"])
def test_headings_count_in_every_usual_form(style):
    reply = AssistantMessage("\n".join(f"{style.format(heading)}\n- some words" for heading in HEADINGS))
    assert reason_to_reject(reply, max_tokens=4_000, source_tokens=700) == ""


def test_four_filled_headings_are_enough_for_a_small_model():
    assert reason_to_reject(notes(headings=HEADINGS[:4]), max_tokens=4_000, source_tokens=700) == ""


def test_words_on_the_line_of_a_heading_count_as_its_content():
    reply = AssistantMessage("\n".join(f"{heading}: fix the parser" for heading in HEADINGS))
    assert reason_to_reject(reply, max_tokens=4_000, source_tokens=700) == ""
