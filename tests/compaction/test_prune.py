"""Whole turns that are dropped, outputs that are clipped, and what is never touched."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import assistant, call, task, user
from tests.compaction.views import draft, output, run_of, sizes, split
from tests.generators import KINDS, text
from tinyagent.compaction.plan import Draft
from tinyagent.compaction.prune import clip_recent, prune
from tinyagent.core.events import SUMMARY_ID
from tinyagent.core.types import ToolMessage, UserMessage
from tinyagent.core.view import problems, summary_entry, view_of

LONG = "word " * 200


def pruned(whole: Draft, window: int, digest: str = "digest") -> Draft:
    figures = sizes(window)
    return prune(whole, split(whole, window), text=digest, target=figures.target, goal=figures.trigger)


def test_the_oldest_turns_are_dropped_whole_behind_the_digest():
    done = pruned(draft(*run_of(*[LONG] * 8)), 2_000)
    assert [entry.id for entry in done.entries][:3] == [1, SUMMARY_ID, 10]
    assert done.pruned == (2, 3, 4, 5, 6, 7, 8, 9)
    assert done.pruned_turns == 4
    assert done.tokens <= sizes(2_000).target


def test_the_digest_is_one_user_message_of_its_own_kind():
    done = pruned(draft(*run_of(*[LONG] * 8)), 2_000, "what happened")
    assert done.entries[1].message == UserMessage("what happened", "summary")


def test_a_parallel_batch_is_dropped_or_kept_as_a_whole():
    batch = [assistant("", *(call(f"b{n}") for n in range(3))), *(output(f"b{n}", LONG) for n in range(3))]
    done = pruned(draft(*run_of(*[LONG] * 2), *batch, *run_of(LONG, LONG)[1:]), 1_600)
    assert problems(view_of(done.entries)) == []


def test_recent_turns_are_dropped_only_to_get_under_the_trigger_and_the_newest_never():
    whole = draft(*run_of(LONG, LONG * 2, LONG * 2, LONG))
    done = pruned(whole, 800)
    assert done.entries[-2:] == whole.entries[-2:]
    assert done.tokens <= sizes(800).trigger


def test_a_later_message_of_the_user_after_the_newest_turn_stays():
    whole = draft(*run_of(*[LONG] * 6), user("and now this"))
    assert pruned(whole, 500).entries[-1].message == user("and now this")


def test_nothing_to_drop_leaves_the_draft_as_it_is():
    """pi#2562: the cut was at index 0, nothing was removed, and the pass was called a success."""
    whole = draft(*run_of(LONG * 5))
    assert pruned(whole, 500) is whole


def test_an_older_digest_is_replaced_and_not_stacked():
    whole = draft(*run_of(*[LONG] * 6))
    with_digest = Draft((whole.entries[0], summary_entry(SUMMARY_ID, "the old one"), *whole.entries[1:]), whole.size)
    done = pruned(with_digest, 1_000, "the new one")
    assert [e.message.text for e in done.entries if e.id == SUMMARY_ID] == ["the new one"]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=15), st.integers(300, 6_000))
def test_pruning_is_deterministic_and_legal(words, window):
    whole = draft(*run_of(*["word " * n for n in words]))
    done = pruned(whole, window)
    again = pruned(whole, window)
    assert done.entries == again.entries
    assert problems(view_of(done.entries)) == []
    assert done.entries[0] == whole.entries[0]
    assert done.entries[-2:] == whole.entries[-2:]


def clipped(whole: Draft, goal: int) -> Draft:
    return clip_recent(whole, split(whole, 10_000_000).protected, goal=goal, ratio=1.0)


def test_an_output_that_alone_does_not_fit_keeps_head_tail_and_its_id():
    """Roo-Code#4186, claw#113701, reyn#5888: one result of megabytes was the protected tail: nothing was eligible."""
    body = "first line\n" + LONG * 20 + "\nlast line"
    messages = [task(), assistant("", call("c1")), ToolMessage("c1", "bash", body, output_id="o3")]
    done = clipped(draft(*messages), 800)
    shown = done.entries[-1].message.text
    assert shown.startswith("first line")
    assert shown.endswith("last line")
    assert 'read_output("o3")' in shown
    assert done.tokens <= 800
    assert done.clipped == (3,)


def test_the_newest_output_is_clipped_last():
    done = clipped(draft(*run_of(LONG * 3, LONG * 3)), 900)
    assert done.clipped == (3,)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5), st.integers(300, 4_000))
def test_outputs_of_every_kind_can_be_clipped_to_fit(kinds, goal):
    whole = draft(*run_of(*[text(kind, 6_000) for kind in kinds]))
    least = 60 + len(kinds) * 450  # 120 characters of head and tail each, three tokens a character at the most
    done = clipped(whole, goal)
    assert done.tokens <= max(goal, least)


@pytest.mark.parametrize("total", [None, 2_000_000])
def test_the_count_of_what_is_missing_is_that_of_the_whole_output(total):
    message = output("c1", LONG * 10, output_chars=total) if total else ToolMessage("c1", "bash", LONG * 10)
    shown = clipped(draft(task(), assistant("", call("c1")), message), 500).entries[-1].message.text
    missing = int(shown.split("[... ")[1].split(" characters")[0].replace(",", ""))
    head, tail = shown.split("[... ")[0], shown.split("...]")[1]
    assert missing == (total or len(LONG) * 10) - len(head.rstrip("\n")) - len(tail.lstrip("\n"))
