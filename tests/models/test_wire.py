"""What holds for every wire."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import BASH, assistant, call, request, result, task, turns, user
from tinyagent.core.types import AssistantMessage, Message, Request, ToolCall, ToolMessage
from tinyagent.models.wire import Api, MessageCache, WireOptions
from tinyagent.models.wires import WIRES, encode, encoder

APIS: list[Api] = ["anthropic", "openai", "responses", "ollama"]
every_wire = pytest.mark.parametrize("api", APIS)
texts = st.text(max_size=30)


@st.composite
def tool_calls(draw: st.DrawFn, suffix: str) -> ToolCall:
    """A call with any name and id, readable or not."""
    readable = ToolCall(draw(texts) + suffix, draw(texts), {"command": draw(texts)})
    return draw(st.sampled_from([readable, replace(readable, arguments=None, problem="cut", raw="{x")]))


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A legal history: a task, then user messages and turns with one result for each call."""
    messages: list[Message] = [task(draw(texts.filter(str.strip)))]
    for number in range(draw(st.integers(0, 4))):
        calls = [draw(tool_calls(f"{number}.{n}")) for n in range(draw(st.integers(0, 3)))]
        messages.append(AssistantMessage(draw(texts), tuple(calls), "tool_calls" if calls else "end"))
        messages += [ToolMessage(c.id, c.name, draw(texts), draw(st.booleans())) for c in calls]
        if not calls or draw(st.booleans()):
            messages.append(user(draw(texts.filter(str.strip))))
    return messages


@every_wire
@given(history=histories())
@settings(max_examples=40)
def test_the_cache_never_changes_a_body(api: Api, history: list[Message]) -> None:
    options, cache = WireOptions(api, "m"), MessageCache()
    for end in range(1, len(history) + 1):
        sent = request(*history[:end])
        assert WIRES[api].encode(sent, options, cache=cache) == WIRES[api].encode(sent, options)


@every_wire
def test_a_message_is_encoded_once(api: Api) -> None:
    history = turns(5)
    seen: list[Message] = []

    def encode_message(message: Message, options: WireOptions) -> tuple[bytes, ...]:
        seen.append(message)
        return (b"x",)

    cache, options = MessageCache(), WireOptions(api, "m")
    for end in (3, 5, 11):
        cache.messages(history[:end], options, encode_message)
    assert seen == history


@every_wire
def test_the_body_only_grows_at_its_end_while_the_history_grows(api: Api) -> None:
    history = turns(6)
    options = WireOptions(api, "m", cache_marks=False)
    shorter, longer = (WIRES[api].encode(request(*history[:n]), options) for n in (7, 9))
    last = shorter.index(b"step 3")
    assert longer.startswith(shorter[:last])


@every_wire
@given(history=histories())
@settings(max_examples=40)
def test_every_body_is_json_that_pairs_calls_with_results(api: Api, history: list[Message]) -> None:
    body = json.loads(WIRES[api].encode(request(*history), WireOptions(api, "m")))
    ids = list(find(body, "call_ids", api))
    results = list(find(body, "result_ids", api))
    assert ids == results
    assert len(set(ids)) == len(ids) == sum(isinstance(message, ToolMessage) for message in history)
    assert body["stream"] is True


def find(body: dict[str, object], what: str, api: Api) -> Iterator[str]:
    """The ids of a body's calls or results, in order."""
    call_keys = {"anthropic": "tool_use", "openai": "function", "responses": "function_call", "ollama": ""}
    result_keys = {"anthropic": "tool_use_id", "openai": "tool_call_id", "ollama": "tool_call_id", "responses": ""}

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, list):
            for item in value:
                yield from walk(item)
        if not isinstance(value, dict):
            return
        if what == "call_ids" and "id" in value and value.get("type", "") == call_keys[api]:
            yield value["id"]
        elif what == "call_ids" and value.get("type") == call_keys[api] == "function_call":
            yield value["call_id"]
        elif what == "result_ids" and result_keys[api] in value:
            yield value[result_keys[api]]
        elif what == "result_ids" and value.get("type") == "function_call_output":
            yield value["call_id"]
        for item in value.values():
            yield from walk(item)

    yield from walk(body.get("messages", body.get("input")))


@every_wire
def test_a_history_of_another_wire_is_rebuilt_from_the_neutral_fields(api: Api) -> None:
    foreign = replace(assistant("Look.", call("c1")), wire=[{"secret": "signature"}], wire_format="other:m")
    body = WIRES[api].encode(request(task(), foreign, result("c1")), WireOptions(api, "m"))
    assert b"signature" not in body
    assert b"Look." in body


@every_wire
def test_an_unreadable_call_is_sent_as_a_valid_object(api: Api) -> None:
    """R49: history is always valid."""
    broken = ToolCall("c1", "functions.bash", None, "cut", '{"command": "l')
    body = WIRES[api].encode(request(task(), assistant("", broken), result("c1")), WireOptions(api, "m"))
    assert b"unreadable_arguments" in body
    assert b"functions_bash" in body
    json.loads(body)


@every_wire
def test_the_cap_on_output_follows_the_messages(api: Api) -> None:
    body = WIRES[api].encode(request(max_output_tokens=777), WireOptions(api, "m"))
    assert body.index(b"777") > body.index(b"Fix the failing test.")


@every_wire
def test_options_of_a_record_give_the_same_body(api: Api) -> None:
    options = WireOptions(api, "m", temperature=0.5, reasoning_effort="high", num_ctx=4096, extra={"x": [1]})
    recorded = json.loads(json.dumps(options.to_json()))
    assert WireOptions.from_json(recorded) == options
    assert encode(request(*turns(2)), recorded) == WIRES[api].encode(request(*turns(2)), options)


@every_wire
def test_bodies_of_a_run_one_after_the_other_are_those_of_each_alone(api: Api) -> None:
    cool, warm = (WireOptions(api, "m", temperature=value).to_json() for value in (0.0, 1.0))
    history, encode_next = turns(4), encoder()
    for end, options in ((3, cool), (5, cool), (5, warm), (3, warm), (7, cool)):
        assert encode_next(request(*history[:end]), options) == encode(request(*history[:end]), options)


@every_wire
def test_a_request_without_tools_names_none(api: Api) -> None:
    body = json.loads(WIRES[api].encode(Request("", (task(),)), WireOptions(api, "m")))
    assert "tools" not in body
    assert "system" not in json.dumps(body)
    assert "tools" in json.loads(WIRES[api].encode(request(tools=(BASH,)), WireOptions(api, "m")))
