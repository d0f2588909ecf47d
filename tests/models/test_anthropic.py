import json

import pytest

from tests.builders import assistant, call, raises_model_error, request, result, task, turns, user
from tinyagent.core.types import AssistantMessage, Json, Message, ToolCall, Usage
from tinyagent.models.anthropic import AnthropicWire
from tinyagent.models.wire import WireOptions

WIRE = AnthropicWire()
OPTIONS = WireOptions("anthropic", "claude", cache_marks=False)
USE: Json = {"type": "tool_use", "id": "a", "name": "bash", "input": {}}
THINKING: Json = {"type": "thinking", "thinking": "hmm", "signature": "sig"}


def body(*messages: Message, options: WireOptions = OPTIONS) -> Json:
    return json.loads(WIRE.encode(request(*messages), options))


def decode(*content: Json, stop_reason: str = "end_turn", **usage: object) -> AssistantMessage:
    return WIRE.decode({"content": list(content), "stop_reason": stop_reason, "usage": usage}, OPTIONS).message


def streamed(*events: Json) -> tuple[str, AssistantMessage, Usage | None]:
    decoder = WIRE.decoder(OPTIONS)
    text = "".join(decoder.feed(str(event["type"]), event) for event in events)
    return text, decoder.finish().message, decoder.usage


def test_results_of_one_turn_and_the_text_after_them_are_one_message_with_results_first() -> None:
    history = [task(), assistant("", call("a"), call("b")), result("a"), result("b"), user("And then?")]
    content = body(*history)["messages"][2]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text"]


def test_neighbouring_user_messages_are_one() -> None:
    messages = body(task("one"), user("two", "notice"), user("three"))["messages"]
    assert [[block["text"] for block in message["content"]] for message in messages] == [["one", "two", "three"]]


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_text_makes_no_block(blank: str) -> None:
    messages = body(task(), assistant(blank, call("a")), result("a", ""), assistant(blank), user("go on"))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"][0]["type"] == "tool_use"
    assert messages[2]["content"][0] == {"type": "tool_result", "tool_use_id": "a", "content": ""}


def test_a_failed_result_says_so() -> None:
    messages = body(task(), assistant("", call("a")), result("a", "no such file", is_error=True))["messages"]
    assert messages[2]["content"][0]["is_error"] is True


def test_an_answer_at_the_end_loses_its_trailing_white_space() -> None:
    assert body(task(), assistant("so \n"))["messages"][1]["content"] == [{"type": "text", "text": "so"}]


def test_thinking_goes_back_as_it_came_and_only_to_the_same_model() -> None:
    message = decode(THINKING, {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}})
    same = body(task(), message, result("a"))["messages"][1]["content"]
    other = body(task(), message, result("a"), options=WireOptions("anthropic", "other"))["messages"][1]["content"]
    assert same[0] == THINKING
    assert [block["type"] for block in other] == ["tool_use"]
    assert message.reasoning == "hmm"


def test_ids_and_arguments_come_from_the_calls_and_not_from_the_kept_payload() -> None:
    message = decode(THINKING, {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}})
    renamed = AssistantMessage(
        "", (ToolCall("a_2", "bash", {"command": "pwd"}),), wire=message.wire, wire_format=message.wire_format
    )
    sent = body(task(), renamed, result("a_2"))["messages"][1]["content"]
    assert sent == [THINKING, {"type": "tool_use", "id": "a_2", "name": "bash", "input": {"command": "pwd"}}]


def test_text_and_calls_alone_need_no_kept_payload() -> None:
    message = decode({"type": "text", "text": "Hi"}, USE)
    assert (message.wire, message.wire_format) == (None, "")


def test_white_space_between_thinking_and_a_call_is_left_out_of_what_goes_back() -> None:
    message = decode(
        THINKING, {"type": "text", "text": "\n\n"}, {"type": "tool_use", "id": "a", "name": "b", "input": {}}
    )
    assert [block["type"] for block in message.wire] == ["thinking", "tool_use"]


@pytest.mark.parametrize("number", [0, 1, 2, 30])
def test_cache_marks_are_at_most_four_on_the_system_text_and_the_newest_user_ends(number: int) -> None:
    sent = body(*turns(number), options=WireOptions("anthropic", "claude"))
    ends = [message["content"][-1] for message in sent["messages"] if message["role"] == "user"]
    marked = ["cache_control" in end for end in ends]
    assert "cache_control" in sent["system"][-1]
    assert marked == [False] * (len(ends) - 3) + [True] * min(3, len(ends))
    assert json.dumps(sent).count("cache_control") <= 4


def test_the_mark_of_one_request_is_marked_again_in_the_next_two_so_that_no_look_back_is_needed() -> None:
    history = turns(9)
    newest = [body(*history[:end], options=WireOptions("anthropic", "c"))["messages"] for end in (7, 9, 11)]
    place = len(newest[0]) - 1
    assert all("cache_control" in messages[place]["content"][-1] for messages in newest)


@pytest.mark.parametrize(
    ("base_url", "names"),
    [
        ("https://api.anthropic.com", {"x-api-key", "anthropic-version"}),
        ("http://localhost:1234", {"x-api-key", "authorization", "anthropic-version"}),
        ("https://api.anthropic.com.evil.example", {"x-api-key", "authorization", "anthropic-version"}),
    ],
)
def test_imitations_get_the_key_in_both_headers(base_url: str, names: set[str]) -> None:
    assert set(WIRE.headers("k", base_url=base_url)) == names


@pytest.mark.parametrize(
    ("effort", "settings"),
    [
        ("", {}),
        ("high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("none", {"thinking": {"type": "disabled"}}),
    ],
)
def test_reasoning_effort_is_sent_as_adaptive_thinking(effort: str, settings: Json) -> None:
    sent = body(task(), options=WireOptions("anthropic", "claude", reasoning_effort=effort))
    assert {key: sent[key] for key in ("thinking", "output_config") if key in sent} == settings


def test_input_tokens_contain_both_cache_counts() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 7}
    reply = WIRE.decode({"content": [], "stop_reason": "end_turn", "usage": usage}, OPTIONS)
    assert reply.usage == Usage(125, 7, cache_read_tokens=100, cache_write_tokens=20)


def test_usage_of_a_stream_is_cumulative_and_overwrites() -> None:
    start: Json = {"usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}}
    deltas: list[Json] = [{"type": "message_delta", "delta": {}, "usage": {"output_tokens": n}} for n in (4, 9)]
    end: Json = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": None}}
    _, _, usage = streamed({"type": "message_start", "message": start}, *deltas, end, {"type": "message_stop"})
    assert usage == Usage(15, 9, cache_read_tokens=5)


def block_events(index: int, block: Json, *deltas: Json, closed: bool = True) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        *([{"type": "content_block_stop", "index": index}] if closed else []),
    ]


def test_a_streamed_reply_is_put_together_block_by_block() -> None:
    text, message, _ = streamed(
        *block_events(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "mm"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *block_events(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}),
        *block_events(
            2,
            USE,
            {"type": "input_json_delta", "partial_json": '{"command"'},
            {"type": "input_json_delta", "partial_json": ': "ls"}'},
        ),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    )
    assert text == message.text == "Hi"
    assert message.tool_calls == (ToolCall("a", "bash", {"command": "ls"}),)
    assert message.wire == [THINKING, {"type": "text", "text": "Hi"}, {"type": "tool_use"}]


@pytest.mark.parametrize("pieces", [[], ['{"command"']])
def test_a_call_that_the_output_limit_cut_is_never_run_with_the_empty_object_of_its_start(pieces: list[str]) -> None:
    """R47: never run with {}."""
    deltas: list[Json] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    _, message, _ = streamed(
        *block_events(0, USE, *deltas, closed=False),
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    )
    assert message.stop == "length"
    assert (message.tool_calls[0].arguments, message.tool_calls[0].problem) == (None, "cut")


def test_thinking_that_was_cut_before_its_signature_does_not_go_back() -> None:
    _, message, _ = streamed(
        *block_events(0, {"type": "thinking", "thinking": "so fa"}, closed=False),
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    )
    assert message.wire is None


def test_a_reply_that_ran_into_the_window_is_an_overflow_with_its_usage() -> None:
    with raises_model_error("overflow") as caught:
        decode(stop_reason="model_context_window_exceeded", input_tokens=900, output_tokens=3)
    assert caught.value.usage == Usage(900, 3)


@pytest.mark.parametrize(
    ("stop_reason", "stop"),
    [("end_turn", "end"), ("stop_sequence", "end"), ("max_tokens", "length"), ("refusal", "refusal"), ("new", "end")],
)
def test_stop_reasons_are_translated(stop_reason: str, stop: str) -> None:
    assert decode({"type": "text", "text": "x"}, stop_reason=stop_reason).stop == stop


def test_a_call_counts_whatever_the_stop_reason_says() -> None:
    assert decode(USE, stop_reason="end_turn").stop == "tool_calls"
