import json

import pytest

from tests.builders import assistant, call, raises_model_error, request, result, task
from tinyagent.core.types import AssistantMessage, Json, Message, ToolCall, Usage
from tinyagent.models.openai_responses import OpenAIResponsesWire
from tinyagent.models.wire import Reply, WireOptions

WIRE = OpenAIResponsesWire()
OPTIONS = WireOptions("responses", "gpt")
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "bash", "arguments": '{"command": "ls"}'}


def text_item(text: str, **more: object) -> Json:
    return {"type": "message", "id": "m_1", "content": [{"type": "output_text", "text": text}], **more}


def body(*messages: Message, options: WireOptions = OPTIONS) -> Json:
    return json.loads(WIRE.encode(request(*messages), options))


def decode(*output: Json, **more: object) -> Reply:
    return WIRE.decode({"status": "completed", "output": list(output), **more}, OPTIONS)


def test_nothing_is_kept_on_the_server() -> None:
    sent = body(task())
    assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
    assert "previous_response_id" not in sent
    assert "truncation" not in sent


def test_optional_parameters_stay_optional() -> None:
    assert body(task())["tools"][0]["strict"] is False


def test_calls_and_results_are_items_of_their_own() -> None:
    items = body(task(), assistant("Look.", call("a", command="ls")), result("a", "x"))["input"]
    assert items[1:] == [
        {"type": "message", "role": "assistant", "content": "Look."},
        {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"command": "ls"}'},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
    ]


def test_reasoning_goes_back_before_its_call_under_the_calls_present_id() -> None:
    message = decode(REASONING, CALL).message
    renamed = AssistantMessage(
        "", (ToolCall("a_2", "bash", {"command": "ls"}),), wire=message.wire, wire_format=message.wire_format
    )
    items = body(task(), renamed, result("a_2"))["input"]
    assert items[1] == REASONING
    assert (items[2]["call_id"], items[3]["call_id"]) == ("a_2", "a_2")
    assert "id" not in items[2]


def test_reasoning_does_not_go_to_another_model() -> None:
    items = body(task(), decode(REASONING, CALL).message, result("a"), options=WireOptions("responses", "o3"))["input"]
    assert [item.get("type") for item in items[1:]] == ["function_call", "function_call_output"]


@pytest.mark.parametrize("alone", [[REASONING], [REASONING | {"encrypted_content": None}, CALL]])
def test_reasoning_without_content_or_without_the_item_after_it_does_not_go_back(alone: list[Json]) -> None:
    """Either is refused with 400."""
    assert decode(*alone).message.wire is None


def test_the_phase_of_a_text_goes_back_with_it() -> None:
    message = decode(text_item("First I look.", phase="commentary"), CALL).message
    assert body(task(), message, result("a"))["input"][1]["phase"] == "commentary"


@pytest.mark.parametrize(
    ("reason", "stop"), [("max_output_tokens", "length"), ("content_filter", "refusal"), ("", "end")]
)
def test_an_incomplete_response_says_why(reason: str, stop: str) -> None:
    assert decode(text_item("x"), incomplete_details={"reason": reason}).message.stop == stop


def test_a_call_at_the_output_limit_is_marked_as_cut() -> None:
    cut = decode(CALL | {"arguments": '{"comm'}, incomplete_details={"reason": "max_output_tokens"}).message
    assert (cut.stop, cut.tool_calls[0].problem) == ("length", "cut")


def test_input_contains_the_cached_tokens_and_kept_reasoning_stays_in_the_context() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 40},
    }
    kept, gone = decode(REASONING, CALL, usage=usage), decode(text_item("x"), usage=usage)
    assert kept.usage == Usage(100, 50, 60, reasoning_tokens=40)
    assert (kept.reply_tokens, gone.reply_tokens) == (50, 10)


def test_a_final_event_without_output_leaves_the_items_that_came_before() -> None:
    decoder = WIRE.decoder(OPTIONS)
    decoder.feed("", {"type": "response.output_item.done", "item": CALL})
    decoder.feed("", {"type": "response.completed", "response": {"output": []}})
    assert decoder.finish().message.tool_calls == (ToolCall("a", "bash", {"command": "ls"}),)


def test_a_failed_response_is_an_error() -> None:
    failed = {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}
    assert WIRE.is_error("response.failed", failed)
    assert not WIRE.is_error("response.completed", {"type": "response.completed", "response": {"error": None}})


def test_a_stream_without_a_final_event_is_cut() -> None:
    decoder = WIRE.decoder(OPTIONS)
    decoder.feed("", {"type": "response.created", "response": {}})
    with raises_model_error("stream_cut"):
        decoder.finish()
