import json

import pytest

from tests.builders import assistant, call, raises_model_error, request, result, task, user
from tinyagent.core.types import Json, Message, Usage
from tinyagent.models.ollama import OllamaWire
from tinyagent.models.wire import WireOptions

WIRE = OllamaWire()
OPTIONS = WireOptions("ollama", "qwen", num_ctx=8192)


def body(*messages: Message, options: WireOptions = OPTIONS, max_output_tokens: int | None = None) -> Json:
    return json.loads(WIRE.encode(request(*messages, max_output_tokens=max_output_tokens), options))


def line(done: bool = False, **message: object) -> Json:
    return {"message": {"role": "assistant", "content": "", **message}, "done": done}


def test_the_window_goes_with_every_request_and_nothing_is_cut_in_silence() -> None:
    """R46 ollama#18107: the front of the prompt was dropped without a word."""
    sent = body(task(), max_output_tokens=99)
    assert sent["options"] == {"num_ctx": 8192, "num_predict": 99}
    assert (sent["truncate"], sent["shift"]) == (False, False)


def test_arguments_are_objects_and_results_name_their_tool() -> None:
    sent = body(task(), assistant("", call("a", command="ls")), result("a", "x"))["messages"]
    assert sent[2]["tool_calls"] == [{"id": "a", "function": {"name": "bash", "arguments": {"command": "ls"}}}]
    assert sent[3] == {"role": "tool", "tool_name": "bash", "tool_call_id": "a", "content": "x"}


@pytest.mark.parametrize(("effort", "think"), [("", None), ("none", False), ("high", "high")])
def test_reasoning_effort_is_sent_as_think(effort: str, think: object) -> None:
    assert body(task(), options=WireOptions("ollama", "gpt-oss", reasoning_effort=effort)).get("think") == think


def test_thinking_goes_back_to_the_same_model() -> None:
    message = WIRE.decode(line(done=True, content="Hi", thinking="hm"), OPTIONS).message
    assert body(task(), message, user("x"))["messages"][2]["thinking"] == "hm"
    assert "thinking" not in body(task(), message, user("x"), options=WireOptions("ollama", "other"))["messages"][2]


def test_calls_of_several_lines_get_ids() -> None:
    function = {"name": "bash", "arguments": {"command": "ls"}}
    decoder = WIRE.decoder(OPTIONS)
    for data in (line(tool_calls=[{"function": function}]), line(tool_calls=[{"function": function}]), line(done=True)):
        decoder.feed("", data)
    message = decoder.finish().message
    assert ([c.id for c in message.tool_calls], message.stop) == (["call_1", "call_2"], "tool_calls")


@pytest.mark.parametrize(
    ("counts", "usage"),
    [({"prompt_eval_count": 40, "eval_count": 7}, Usage(40, 7)), ({"eval_count": 7}, None), ({}, None)],
)
def test_a_prompt_count_that_is_left_out_means_unknown_and_never_0(counts: Json, usage: Usage | None) -> None:
    assert WIRE.decode(line(done=True, content="Hi") | counts, OPTIONS).usage == usage


def test_the_output_limit_is_a_stop() -> None:
    assert WIRE.decode(line(done=True, content="x") | {"done_reason": "length"}, OPTIONS).message.stop == "length"


def test_a_stream_without_its_last_line_is_cut() -> None:
    decoder = WIRE.decoder(OPTIONS)
    decoder.feed("", line(content="Hel"))
    with raises_model_error("stream_cut"):
        decoder.finish()
