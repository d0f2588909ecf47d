"""When a pass starts, what it aims for, and what it leaves alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, task, turns, user
from tests.compaction.views import POLICY, draft, entries, run_of, sizes, split
from tinyagent.compaction.plan import ContextPolicy, figures, is_due, safety, zones
from tinyagent.core.errors import ConfigError
from tinyagent.core.view import summary_entry

WINDOWS = st.integers(1_000, 1_000_000)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trigger_ratio": 0.5}, "target_ratio < trigger_ratio"),
        ({"trigger_ratio": 1.2}, "trigger_ratio <= 0.95"),
        ({"target_ratio": 0.9}, "target_ratio < trigger_ratio"),
        ({"deep_target_ratio": 0.0}, "0.05 <= deep_target_ratio"),
        ({"deep_target_ratio": 0.6}, "deep_target_ratio <= target_ratio"),
        ({"protect_ratio": 0.7}, "protect_ratio"),
        ({"protect_ratio": -0.1}, "protect_ratio"),
        ({"protect_turns": 0}, "protect_turns"),
        ({"stages": ()}, "context.enabled"),
        ({"stages": ("elide", "elide")}, "each once"),
    ],
)
def test_settings_that_cannot_work_together_are_refused_by_name(changes, words):
    with pytest.raises(ConfigError, match=words):
        ContextPolicy(**changes)


@pytest.mark.parametrize(
    ("estimate", "growth", "due"),
    [
        (8_000, 0, False),
        (8_001, 0, True),
        (7_000, 2_000, False),
        (7_600, 2_000, True),
        (7_600, 9_000, True),
        (2_000, 9_000, False),
    ],
)
def test_a_pass_starts_over_the_trigger_or_when_the_next_step_would_jump_past_the_window(estimate, growth, due):
    assert is_due(POLICY, sizes(10_000), estimate=estimate, growth=growth) is due


@pytest.mark.parametrize(
    ("reserved", "trigger"),
    [(None, 8_000), (1_000, 8_000), (3_000, 6_488), (6_000, 5_000), (10_000, 5_000), (99_999, 5_000)],
)
def test_room_reserved_for_the_answer_lowers_the_trigger_but_never_below_half(reserved, trigger):
    """oc#45368, OpenHands#9937: an output cap as large as the window left nothing, and every request compacted."""
    assert figures(POLICY, 10_000, reserved_output=reserved).trigger == trigger


@given(WINDOWS, st.none() | st.integers(0, 2_000_000))
def test_target_and_trigger_are_in_order_for_every_window(window, reserved):
    for deep in (False, True):
        found = figures(POLICY, window, reserved_output=reserved, deep=deep)
        assert 0 < found.target <= found.trigger < window


@given(WINDOWS)
def test_a_request_under_the_trigger_always_leaves_room_for_an_answer(window):
    """At 3k a pass that landed under a trigger of 0.95 was called enough, and the run ended for want of room."""
    high = ContextPolicy(trigger_ratio=0.95)
    answer = window - safety(high, window) - figures(high, window, reserved_output=None).trigger
    assert answer >= min(256, window // 16)


@given(WINDOWS)
def test_safety_never_takes_a_large_share_of_a_small_window(window):
    assert safety(POLICY, window) <= window / 16


def test_the_head_is_the_task():
    parts = split(draft(*turns(3)), 10_000)
    assert [entry.id for entry in parts.head] == [1]


def test_the_protected_zone_holds_a_quarter_of_the_window():
    parts = split(draft(*run_of(*["word " * 100] * 10)), 2_000)
    protected = sum(block.tokens for block in parts.protected)
    newest_older = parts.older[-1].tokens
    assert protected <= 500 < protected + newest_older


def test_it_never_holds_fewer_than_two_turns():
    parts = split(draft(*run_of(*["word " * 900] * 4)), 2_000)
    assert len([block for block in parts.protected if block.is_turn]) == 2


def test_it_starts_at_an_assistant_message():
    messages = [
        task(),
        user("small"),
        assistant("", call("a")),
        result("a"),
        user("more"),
        assistant("", call("b")),
        result("b"),
    ]
    parts = zones(entries(*messages), POLICY, sizes(10_000), ratio=1.0)
    assert parts.protected[0].is_turn


def test_what_the_user_said_after_the_newest_turn_is_protected():
    parts = split(draft(*turns(6), user("stop, do this first"), user("and this")), 400)
    assert [block.entries[0].message.text for block in parts.protected[-2:]] == ["stop, do this first", "and this"]


def test_what_the_user_said_before_any_turn_is_protected():
    """A run that was taken up with a message before its first reply: the message is what is to be answered."""
    parts = zones(
        (*entries(task()), summary_entry(-1, "so far"), *entries(user("a"), user("b"))), POLICY, sizes(9_000), ratio=1.0
    )
    assert [len(parts.older), len(parts.protected)] == [1, 2]


@given(st.integers(0, 12), st.integers(500, 20_000), st.integers(1, 900))
def test_the_three_zones_are_the_whole_view_in_order(count, window, words):
    whole = draft(*run_of(*["word " * words] * count))
    parts = split(whole, window)
    cut = [*parts.head, *(e for block in (*parts.older, *parts.protected) for e in block.entries)]
    assert tuple(cut) == whole.entries
