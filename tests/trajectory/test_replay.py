"""Every request that a run sent, rebuilt and proven; and what is said when it cannot be."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, task, user
from tests.trajectory.generators import plain_body, runs
from tests.trajectory.story import Story
from tinyagent.core.errors import RecordError
from tinyagent.core.events import (
    Compacted,
    Event,
    MessageAdded,
    ModelCalled,
    ReasoningStripped,
    Record,
    RunResumed,
)
from tinyagent.core.types import Json, Message, Request, ToolMessage
from tinyagent.core.view import Entry
from tinyagent.trajectory.native import changed_messages, dump, from_native, to_native
from tinyagent.trajectory.replay import Change, check, diff, request_number, requests


def story() -> Story:
    """Three requests: before the first call, after its result, after the elision of that result."""
    made = Story()
    made.say(task())
    made.ask()
    made.say(assistant("", call("c1")), result("c1", "a long listing"))
    made.ask()
    made.say(assistant("", call("c2")), result("c2", "short"))
    made.note(Compacted("budget", 3, 90, 40, (1, 2, 3, 4, 5), ("elide",), {3: "[output elided: 14 chars]"}, (3,)))
    made.ask()
    return made


@given(runs())
def test_every_request_of_a_run_rebuilds_to_the_digest_on_record(records: list[Record]) -> None:
    assert check(records, plain_body) == []
    assert [s.number for s in requests(records)] == list(range(1, 1 + sum(is_request(r.event) for r in records)))


def is_request(event: Event) -> bool:
    return isinstance(event, ModelCalled)


@given(runs(), st.data())
def test_a_message_changed_in_the_journal_is_named_by_each_request_that_carried_it(
    records: list[Record], data: st.DataObject
) -> None:
    places = [i for i, r in enumerate(records) if isinstance(r.event, MessageAdded)]
    place = data.draw(st.sampled_from(places)) if places else 0
    event = records[place].event
    if not isinstance(event, MessageAdded):
        return
    edited = replace(event, message=replace(event.message, text=event.message.text + " and more besides"))
    message_id = 1 + places.index(place)
    carried = [s.number for s in requests(records) if sends(s.entries, message_id, event.message)]
    found = check([*records[:place], replace(records[place], event=edited), *records[place + 1 :]], plain_body)
    assert [mismatch.number for mismatch in found] == carried
    assert all(any(name.startswith(f"message {message_id} (") for name in m.suspects) for m in found)


def sends(entries: tuple[Entry, ...], message_id: int, message: Message) -> bool:
    """Whether the message is sent with the text it was added with, so that an edit of that text shows."""
    return any(e.id == message_id and e.message.text == message.text for e in entries)


def test_a_message_changed_in_the_document_is_named() -> None:
    document = json.loads(dump(to_native(story().records)))
    document["messages"][5]["content"] = "shore"  # as many tokens as before
    records = from_native(document)
    (mismatch,) = check(records, plain_body, changed=changed_messages(document))
    assert (mismatch.number, mismatch.step) == (3, 3)
    assert mismatch.suspects == ("message 5 (result of bash, call c2)",)


def test_a_changed_system_prompt_is_named() -> None:
    made = story()
    made.records[0] = Record(1, 100.0, replace(made.start, system="You are a pirate."))
    assert "the system prompt" not in check(story().records, plain_body)
    assert [m.number for m in check(made.records, plain_body)] == [1, 2, 3]


def test_changed_options_are_named_where_all_before_is_proven() -> None:
    made = story()
    made.ask(options={"temperature": 1.0})
    last = made.records[-1]
    assert isinstance(last.event, ModelCalled)
    made.records[-1] = replace(last, event=replace(last.event, options={"temperature": 0.0}))
    (mismatch,) = check(made.records, plain_body)
    assert mismatch.suspects[-1] == "the options"


def test_a_request_without_a_digest_is_passed_over() -> None:
    made = story()
    made.note(ModelCalled("step", 4, "", 9))
    assert check(made.records, plain_body) == []


def test_a_request_shows_the_view_as_it_was_then() -> None:
    records = story().records
    assert [len(s.request.messages) for s in requests(records)] == [1, 3, 5]
    assert text_of(records, 2) == "a long listing"
    assert text_of(records, 3) == "[output elided: 14 chars]"


def text_of(records: list[Record], number: int) -> str:
    """The text of the first tool result that a request carried."""
    return next(m.text for m in request_number(records, number).request.messages if isinstance(m, ToolMessage))


def test_failed_requests_are_counted_and_rebuilt_too() -> None:
    made = story()
    made.ask(error="overloaded: later", max_output_tokens=100)
    made.ask(max_output_tokens=50)
    assert [(s.number, s.error) for s in requests(made.records)][3:] == [(4, "overloaded: later"), (5, "")]
    assert check(made.records, plain_body) == []


@pytest.mark.parametrize("number", [0, -1, 4, 99])
def test_a_request_that_was_never_sent_is_told_with_how_many_were(number: int) -> None:
    with pytest.raises(RecordError, match=f"there is no request {number}: the run sent 3"):
        request_number(story().records, number)


@pytest.mark.parametrize("tools", [True, False])
def test_a_summary_request_is_rebuilt_from_its_own_messages(tools: bool) -> None:
    made = story()
    own = Request("Write notes.", (user("the transcript"),), made.state.tools if tools else (), 2000)
    digest = hashlib.sha256(plain_body(own, {})).hexdigest()
    shown: Json = {"system": own.system, "messages": [{"role": "user", "text": "the transcript"}], "tools": tools}
    made.note(ModelCalled("summary", 4, digest, 9, 2000, options={}, request=shown))
    assert request_number(made.records, 4).request == own
    assert check(made.records, plain_body) == []


def test_a_summary_request_that_cannot_be_read_is_told_by_its_number() -> None:
    made = story()
    made.note(ModelCalled("summary", 4, "d", 9, request={"system": "s", "messages": [{"role": "robot"}]}))
    with pytest.raises(RecordError, match="request 4 has no messages of its own that can be read"):
        check(made.records, plain_body)


def test_options_of_a_resumed_run_count_from_there_on() -> None:
    made = story()
    made.note(RunResumed("0.2.0", replace(made.start.setup, model="openai/other", options={"model": "other"})))
    made.ask()
    assert [s.options.get("model") for s in requests(made.records)] == ["gpt-x", "gpt-x", "gpt-x", "other"]
    assert check(made.records, plain_body) == []


def test_reasoning_left_out_after_a_refusal_is_left_out_in_the_replay() -> None:
    made = story()
    made.say(replace(assistant("thought"), wire={"signature": "s"}, wire_format="anthropic:x"), user("go on"))
    made.ask(error="reasoning: bound to a different conversation")
    made.note(ReasoningStripped("bound to a different conversation"))
    made.ask()
    assert check(made.records, plain_body) == []
    before, after = (plain_body(sent.request, sent.options) for sent in list(requests(made.records))[3:5])
    assert b"signature" in before
    assert b"signature" not in after


def test_a_difference_names_added_and_replaced_messages() -> None:
    assert diff(story().records, 2, 3) == [
        Change("replaced", "message 3 (result of bash, call c1)", "a long listing", "[output elided: 14 chars]"),
        Change("added", "message 4 (assistant)", None, "bash {'command': 'ls'}"),
        Change("added", "message 5 (result of bash, call c2)", None, "short"),
    ]


def test_a_difference_names_what_a_summary_took_the_place_of() -> None:
    made = story()
    made.note(Compacted("budget", 4, 90, 40, (1, -1, 4, 5), ("summarize",), summarized=(2, 3), summary="So far."))
    made.ask(max_output_tokens=77)
    changes = diff(made.records, 3, 4)
    assert [(c.kind, c.what) for c in changes] == [
        ("replaced", "max_output_tokens"),
        ("removed", "message 2 (assistant)"),
        ("removed", "message 3 (result of bash, call c1)"),
        ("added", "the summary"),
    ]


def test_a_request_does_not_differ_from_itself() -> None:
    assert diff(story().records, 3, 3) == []
