import json

import pytest

from tests.builders import assistant, call, raises_model_error, request, result, task, turns, user
from tinyagent.core.types import AssistantMessage, Json, Message, ToolCall, Usage
from tinyagent.models.openai_chat import OpenAIChatWire
from tinyagent.models.wire import Reply, WireOptions

WIRE = OpenAIChatWire()
OPTIONS = WireOptions("openai", "m")


def body(*messages: Message, options: WireOptions = OPTIONS, max_output_tokens: int | None = None) -> Json:
    return json.loads(WIRE.encode(request(*messages, max_output_tokens=max_output_tokens), options))


def decode(message: Json, finish: str = "stop", **more: object) -> Reply:
    return WIRE.decode({"choices": [{"message": message, "finish_reason": finish}], **more}, OPTIONS)


def streamed(*deltas: Json, finish: str | None = "tool_calls", options: WireOptions = OPTIONS) -> AssistantMessage:
    decoder = WIRE.decoder(options)
    for delta in deltas:
        decoder.feed("", {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    decoder.feed("", {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return decoder.finish().message


def piece(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: object = ""
) -> Json:
    """A delta of one call; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    fields = {"index": index, "id": call_id, "function": {k: v for k, v in function.items() if v is not None}}
    return {key: value for key, value in fields.items() if value is not None}


def test_calls_go_out_with_text_arguments_and_an_empty_content_beside_them() -> None:
    """A real llama-cpp-python answers null content with 500."""
    sent = body(task(), assistant("", call("a", command="ls")), result("a"))["messages"]
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    assert sent[2] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a", "type": "function", "function": function}],
    }
    assert sent[3] == {"role": "tool", "tool_call_id": "a", "content": "ok"}


def test_neighbouring_user_messages_are_one_for_strict_templates() -> None:
    sent = body(task('one "'), user("two", "notice"), assistant("x"), user("three"))["messages"]
    assert [message["content"] for message in sent[1:]] == ['one "\n\ntwo', "x", "three"]


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_the_cap_on_output_has_the_endpoints_name(field: str) -> None:
    options = WireOptions.from_json({"api": "openai", "model": "m", "max_tokens_field": field})
    assert body(task(), options=options, max_output_tokens=9)[field] == 9


def test_no_cap_leaves_the_providers_default_in_force() -> None:
    assert not [key for key in body(task()) if key.startswith("max_")]


def test_usage_is_asked_for_only_in_streams() -> None:
    assert body(task())["stream_options"] == {"include_usage": True}
    assert "stream_options" not in body(task(), options=WireOptions("openai", "m", stream=False))
    assert "stream_options" not in body(task(), options=WireOptions("openai", "m", stream_usage=False))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning_details"])
def test_reasoning_that_must_come_back_does_so_unchanged_to_the_same_model_only(field: str) -> None:
    value = "because" if field == "reasoning_content" else [{"type": "reasoning.text", "text": "because"}]
    reply = decode({"content": "", "tool_calls": [piece(0, "a", "bash", "{}")], field: value}, "tool_calls").message
    assert body(task(), reply, result("a"))["messages"][2][field] == value
    other = body(task(), reply, result("a"), options=WireOptions("openai", "other"))["messages"][2]
    assert field not in other


def test_reasoning_details_that_came_in_pieces_go_back_as_whole_items() -> None:
    """A signature stands for the whole text before it."""
    text: Json = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    sealed: Json = {"type": "reasoning.encrypted", "data": "opaque==", "index": 1}
    pieces = [text | {"text": "be"}, text | {"text": "cause"}, text | {"signature": "sig"}, sealed]
    deltas = [{"reasoning_details": [piece]} for piece in pieces]
    message = streamed(*deltas, {"tool_calls": [piece(0, "a", "bash", "{}")]})
    whole = text | {"text": "because", "signature": "sig"}
    assert body(task(), message, result("a"))["messages"][2]["reasoning_details"] == [whole, sealed]


def test_reasoning_details_without_an_index_are_whole() -> None:
    details = [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.text", "text": "b"}]
    assert streamed({"content": "x", "reasoning_details": details}).wire == {"reasoning_details": details}


def test_reasoning_for_people_is_not_sent() -> None:
    reply = decode({"content": "Hi", "reasoning": "because"}).message
    assert (reply.reasoning, reply.wire) == ("because", None)


def test_deepseek_gets_an_empty_reasoning_field_with_calls_that_have_none() -> None:
    options = WireOptions("openai", "m", blank_reasoning=True)
    sent = body(task(), assistant("", call("a")), result("a"), assistant("done"), user("x"), options=options)[
        "messages"
    ]
    assert sent[2]["reasoning_content"] == ""
    assert "reasoning_content" not in sent[4]


def test_thought_signatures_of_gemini_go_back_with_their_calls_under_the_calls_present_ids() -> None:
    signature = {"google": {"thought_signature": "abc"}}
    calls = [piece(0, "a", "bash", "{}") | {"extra_content": signature}, piece(1, "b", "bash", "{}")]
    reply = decode({"content": None, "tool_calls": calls}, "tool_calls").message
    renamed = AssistantMessage(
        "", (ToolCall("a2", "bash", {}), ToolCall("b2", "bash", {})), wire=reply.wire, wire_format=reply.wire_format
    )
    sent = body(task(), renamed, result("a2"), result("b2"))["messages"][2]["tool_calls"]
    assert [(c["id"], c.get("extra_content")) for c in sent] == [("a2", signature), ("b2", None)]


def test_calls_of_other_models_get_a_stand_in_for_the_signature_on_the_first_of_each_step() -> None:
    options = WireOptions("openai", "m", stand_in_signature=True)
    signature = {"google": {"thought_signature": "abc"}}
    own = decode({"tool_calls": [piece(0, "c", "bash", "{}") | {"extra_content": signature}]}, "tool_calls").message
    history = [task(), assistant("", call("a"), call("b")), result("a"), result("b"), own, result("c")]
    sent = body(*history, options=options)["messages"]
    stand_in = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [c.get("extra_content") for m in sent for c in m.get("tool_calls", [])] == [stand_in, None, signature]


def test_thinking_chunks_of_mistral_go_back_as_content() -> None:
    chunks = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}]
    reply = decode({"content": chunks}).message
    assert reply.text == "Hi"
    assert body(task(), reply, user("x"))["messages"][2]["content"] == chunks


def test_cache_marks_go_to_the_system_text_and_the_newest_messages_when_asked_for() -> None:
    sent = body(*turns(5), options=WireOptions("openai", "anthropic/claude", cache_marks=True))["messages"]
    marked = [n for n, message in enumerate(sent) if isinstance(message["content"], list)]
    assert marked == [0, len(sent) - 5, len(sent) - 3, len(sent) - 1]
    assert sent[0]["content"] == [
        {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}
    ]


TWO = (ToolCall("a", "bash", {"x": 1}), ToolCall("b", "read", {"y": 2}))
STREAMS: dict[str, list[list[Json]]] = {
    "as OpenAI": [
        [piece(0, "a", "bash", "")],
        [piece(0, arguments='{"x"')],
        [piece(0, arguments=": 1}")],
        [piece(1, "b", "read", '{"y": 2}')],
    ],
    "two calls in one delta": [[piece(0, "a", "bash", '{"x": 1}'), piece(1, "b", "read", '{"y": 2}')]],
    "without index": [
        [piece(None, "a", "bash", '{"x":')],
        [piece(None, None, None, " 1}")],
        [piece(None, "b", "read", '{"y": 2}')],
    ],
    "one index for all": [[piece(0, "a", "bash", '{"x": 1}')], [piece(0, "b", "read", '{"y": 2}')]],
    "ids repeated": [
        [piece(0, "a", "bash", '{"x":')],
        [piece(0, "a", "bash", " 1}")],
        [piece(1, "b", "read", '{"y": 2}')],
    ],
    "arguments as an object": [[piece(0, "a", "bash", {"x": 1})], [piece(1, "b", "read", {"y": 2})]],
    "late id": [[piece(0, None, "bash", '{"x": 1}')], [piece(0, "a")], [piece(1, "b", "read", '{"y": 2}')]],
    "interleaved": [
        [piece(0, "a", "bash", '{"x"'), piece(1, "b", "read", '{"y"')],
        [piece(0, arguments=": 1}"), piece(1, arguments=": 2}")],
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_calls_of_a_stream_are_told_apart(name: str) -> None:
    """R52: missing, duplicate or reused ids and indexes, objects, two calls in one delta."""
    assert streamed(*({"tool_calls": calls} for calls in STREAMS[name])).tool_calls == TWO


def test_calls_without_index_and_ids_are_told_apart_and_get_ids() -> None:
    """R52."""
    calls = [{"tool_calls": [piece(0, "", "bash", '{"x": 1}')]}, {"tool_calls": [piece(0, "", "bash", '{"x": 1}')]}]
    assert [(c.id, c.arguments) for c in streamed(*calls).tool_calls] == [("call_1", {"x": 1}), ("call_2", {"x": 1})]


def test_a_call_reported_as_whole_but_cut_is_not_run() -> None:
    """R47; a real llama-cpp-python ends a cut call with finish_reason tool_calls."""
    message = streamed({"tool_calls": [piece(0, "a", "bash", '{"command": "')]})
    assert message.stop == "tool_calls"
    assert message.tool_calls[0].arguments is None


def test_a_call_at_the_output_limit_is_marked_as_cut_and_whole_ones_before_it_stay() -> None:
    calls = [piece(0, "a", "bash", '{"x": 1}'), piece(1, "b", "read", '{"y')]
    message = streamed({"tool_calls": calls}, finish="length")
    assert message.stop == "length"
    assert [(c.arguments, c.problem) for c in message.tool_calls] == [({"x": 1}, ""), (None, "cut")]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end"),
        ("eos", "end"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("sensitive", "refusal"),
        ("tool_calls", "end"),
    ],
)
def test_finish_reasons_are_translated_and_unknown_ones_judged_by_the_content(finish: str, stop: str) -> None:
    assert decode({"content": "x"}, finish).message.stop == stop


def test_a_refusal_is_one_whatever_the_finish_reason() -> None:
    message = decode({"content": None, "refusal": "I will not."}).message
    assert (message.text, message.stop) == ("I will not.", "refusal")


def test_a_reply_that_ran_into_the_window_is_an_overflow_with_its_usage() -> None:
    with raises_model_error("overflow") as caught:
        decode({"content": ""}, "model_context_window_exceeded", usage={"prompt_tokens": 900, "completion_tokens": 3})
    assert caught.value.usage == Usage(900, 3)


@pytest.mark.parametrize("reason", ["error", "network_error"])
def test_a_reply_that_the_provider_broke_off_is_tried_again(reason: str) -> None:
    with raises_model_error("overloaded"):
        decode({"content": "half a"}, reason)


@pytest.mark.parametrize("data", [{"choices": []}, {"id": "x"}, {"choices": None}])
def test_a_body_without_choices_is_malformed(data: Json) -> None:
    """R41."""
    with raises_model_error("malformed"):
        WIRE.decode(data, OPTIONS)


PLAIN = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
DIALECTS: dict[str, tuple[Json, Usage | None]] = {
    "OpenAI": (
        {
            "usage": PLAIN
            | {
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20},
                "completion_tokens_details": {"reasoning_tokens": 4},
            }
        },
        Usage(100, 10, 60, 20, 4),
    ),
    "DeepSeek": (
        {"usage": PLAIN | {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}},
        Usage(100, 10, 64),
    ),
    "Moonshot": ({"choices": [{"usage": PLAIN | {"cached_tokens": 64}}]}, Usage(100, 10, 64)),
    "Groq": ({"x_groq": {"usage": PLAIN}}, Usage(100, 10)),
    "xAI leaves reasoning out": (
        {"usage": PLAIN | {"total_tokens": 150, "completion_tokens_details": {"reasoning_tokens": 40}}},
        Usage(100, 50, reasoning_tokens=40),
    ),
    "llama.cpp timings": ({"timings": {"cache_n": 90, "prompt_n": 10, "predicted_n": 7}}, Usage(100, 7, 90)),
    "zero": ({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, None),
    "none": ({}, None),
    "null": ({"usage": None}, None),
    "nonsense": ({"usage": {"prompt_tokens": "many", "completion_tokens": []}}, None),
    "negative": ({"usage": {"prompt_tokens": 100, "completion_tokens": -5}}, Usage(100, 0)),
    "too much cached": (
        {"usage": PLAIN | {"prompt_tokens_details": {"cached_tokens": 999}}},
        Usage(100, 10, 100),
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_usage_is_read_in_every_dialect(name: str) -> None:
    data, expected = DIALECTS[name]
    choice = {"message": {"content": "x"}, "finish_reason": "stop"} | data.get("choices", [{}])[0]
    assert WIRE.decode(data | {"choices": [choice]}, OPTIONS).usage == expected


@pytest.mark.parametrize("name", DIALECTS)
def test_usage_of_a_stream_is_read_in_every_dialect(name: str) -> None:
    data, expected = DIALECTS[name]
    decoder = WIRE.decoder(OPTIONS)
    decoder.feed("", {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]})
    decoder.feed("", {"choices": [], "usage": None} | data)
    assert decoder.finish().usage == expected


def test_reasoning_that_does_not_go_back_leaves_the_context() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 40}}
    assert decode({"content": "x"}, usage=usage).reply_tokens == 10
    assert decode({"content": "x", "reasoning_content": "because"}, usage=usage).reply_tokens == 50


def test_a_cost_that_the_server_reports_is_kept() -> None:
    assert decode({"content": "x"}, usage=PLAIN | {"cost": 0.0012}).cost_usd == 0.0012
