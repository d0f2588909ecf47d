"""Where a view may be cut, what a provider would refuse in it, and unique call ids."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, task, turns, user
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import AssistantMessage, Message, ToolCall
from tinyagent.core.view import (
    Entry,
    View,
    blocks,
    open_calls,
    problems,
    rebuilt,
    summary_entry,
    view_of,
    with_unique_ids,
    without_reasoning,
)


def view(*messages: Message) -> View:
    return view_of([Entry(i, message, message_tokens(message)) for i, message in enumerate(messages, 1)])


BATCH = (assistant("", call("a"), call("b"), call("c")), result("a"), result("b"), result("c"))


def test_a_parallel_batch_is_one_block():
    """kcode#1053, forgecode PR#984: a cut inside a batch left an orphan that bricked the session."""
    assert [len(block.entries) for block in blocks(view(task(), *BATCH, user("and?")))] == [1, 4, 1]


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "there are no messages"),
        ([assistant("hello"), user("x")], "the first message is not the user's"),
        ([task(), assistant("hello")], "the last message is the assistant's"),
        ([task(), user(" \n")], "message 2 is empty"),
        ([task(), result("a")], "the result of call a does not follow its call"),
        ([task(), *BATCH[:3]], "calls ['a', 'b', 'c'] are answered by results ['a', 'b']"),
        ([task(), BATCH[0], result("b"), result("a"), result("c")], "are answered by results ['b', 'a', 'c']"),
        ([task(), assistant("", call("a")), result("a"), result("a")], "are answered by results ['a', 'a']"),
        ([task(), assistant("", call("a")), user("x"), result("a")], "the result of call a does not follow its call"),
        ([task(), *BATCH, assistant("", call("a")), result("a")], "call id a occurs twice"),
    ],
)
def test_what_a_provider_would_refuse_is_found_before_it_is_sent(messages, fault):
    """atomic#2051, claw#4739, fold PR#32, oc#27594: each of these ended somebody's session with status 400."""
    assert any(fault in found for found in problems(view(*messages)))


@pytest.mark.parametrize(
    "messages", [[task()], [task(), user("more")], [task(), *BATCH], [task(), *BATCH, user("x")], turns(5)]
)
def test_a_legal_view_has_no_problems(messages):
    assert problems(view(*messages)) == []


def test_calls_without_a_result_are_found_in_order():
    assert [c.id for c in open_calls(view(task(), *BATCH[:2]))] == ["b", "c"]
    assert open_calls(view(task(), *BATCH)) == []
    assert open_calls(view(task())) == []


def test_calls_of_an_older_turn_are_not_open():
    assert open_calls(view(task(), BATCH[0], user("x"))) == []


def test_ids_that_a_server_uses_again_become_unique():
    """Some local servers number the calls of each reply from one; two results with one id are a 400."""
    reply = with_unique_ids(assistant("", call("call_1"), call("call_1")), {"call_1"})
    assert [c.id for c in reply.tool_calls] == ["call_1_2", "call_1_3"]


@given(st.lists(st.sampled_from(["", "a", "a_2", "call", "call_2"]), max_size=6), st.sets(st.sampled_from("ab")))
def test_ids_are_unique_and_never_blank_whatever_comes(ids, used):
    reply = AssistantMessage("", tuple(ToolCall(i, "bash", {}) for i in ids))
    fresh = [c.id for c in with_unique_ids(reply, used).tool_calls]
    assert len({*fresh, *used}) == len(fresh) + len(used)
    assert all(fresh)


def test_a_reply_with_unique_ids_is_left_alone():
    reply = assistant("", call("a"), call("b"))
    assert with_unique_ids(reply, {"c"}) is reply


def test_a_rebuilt_view_keeps_every_message_that_was_not_replaced():
    before = view(*turns(4))
    order = [1, -1, 6, 7, 8, 9]
    after = rebuilt(before, order, replaced={7: "stub"}, elided=[7], summary=summary_entry(-1, "so far"))
    assert [entry.id for entry in after.entries] == order
    assert [entry.elided for entry in after.entries] == [False, False, False, True, False, False]
    assert after.entries[2] is before.entries[5]
    assert after.tokens == sum(entry.tokens for entry in after.entries)


def test_stripping_reasoning_changes_only_what_carries_a_payload():
    plain, loaded = assistant("a"), replace(assistant("b"), wire={"x": 1}, wire_format="w")
    before = view(task(), plain, user("and?"), loaded, user("so?"))
    after = without_reasoning(before)
    assert after.entries[1] is before.entries[1]
    assert after.entries[3].message == replace(loaded, wire=None, wire_format="")


def test_an_added_entry_is_summed_up():
    before = view(task())
    entry = Entry(2, user("x"), 7)
    assert before.added(entry) == view_of([*before.entries, entry])
