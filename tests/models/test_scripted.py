import json
from pathlib import Path

import pytest

from tests.builders import assistant, call, raises_model_error, request, result, task, user
from tinyagent.core.errors import ConfigError, ModelError
from tinyagent.core.types import Request, ToolCall, Usage
from tinyagent.models.scripted import HEADINGS, ScriptedModel, ScriptedReply, read_script, script_of
from tinyagent.models.wires import encode

LIST = [
    {"tool": "bash", "arguments": {"command": "ls"}},
    {"text": "Both.", "calls": [{"tool": "bash", "arguments": {"command": "a"}}, {"tool": "read", "arguments": {}}]},
    {"final": "Fixed."},
]


def test_a_script_is_played_in_order() -> None:
    model = ScriptedModel("test/m", script_of(LIST))
    first, second, third = (model.complete(request()).message for _ in range(3))
    assert first.tool_calls == (ToolCall("call_1_1", "bash", {"command": "ls"}),)
    assert (second.text, [c.name for c in second.tool_calls]) == ("Both.", ["bash", "read"])
    assert (third.text, third.stop, third.tool_calls) == ("Fixed.", "end", ())


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(LIST))
    assert read_script(tmp_path / "script.json") == script_of(LIST)


@pytest.mark.parametrize("text", ["{", '{"tool": "bash"}', '[{"arguments": {}}]', "[5]"])
def test_a_file_that_is_no_script_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "script.json").write_text(text)
    with pytest.raises(ConfigError, match=r"script\.json"):
        read_script(tmp_path / "script.json")


def test_an_error_in_the_script_is_raised_and_a_function_is_asked() -> None:
    error = ModelError("busy", kind="overloaded")
    model = ScriptedModel("test/m", [error, lambda asked: ScriptedReply(asked.messages[-1].text)])
    with raises_model_error("overloaded"):
        model.complete(request())
    assert model.complete(request(task("Say it."))).message.text == "Say it."


def test_the_end_of_the_script_is_an_error_that_says_so() -> None:
    with raises_model_error("bad_request") as caught:
        ScriptedModel("test/m", []).complete(request())
    assert "only 0 replies" in str(caught.value)


def test_a_resumed_run_goes_on_inside_the_script() -> None:
    assert ScriptedModel("test/m", script_of(LIST), start=2).complete(request()).message.text == "Fixed."


def test_usage_is_counted_and_text_is_streamed() -> None:
    heard: list[str] = []
    response = ScriptedModel("test/m", [ScriptedReply("Hi")], count=len).complete(request(), on_text=heard.append)
    assert heard == ["Hi"]
    assert response.usage == Usage(len(encode(request(), {"api": "scripted"}).decode()), 2)


def test_a_request_over_the_window_is_refused_as_a_server_does_it() -> None:
    with raises_model_error("overflow") as caught:
        ScriptedModel("test/m", [ScriptedReply("Hi")], window=10).complete(request())
    assert caught.value.window == 10


def test_a_summary_request_gets_every_heading_and_uses_up_no_reply() -> None:
    model = ScriptedModel("test/m", [ScriptedReply("Hi")])
    summary = model.complete(Request("Summarise.", (user("Transcript. " * 500),))).message.text
    assert [line[3:] for line in summary.splitlines() if line.startswith("## ")] == list(HEADINGS)
    assert len(summary) < 1000
    assert model.complete(request()).message.text == "Hi"


def test_the_digest_is_that_of_the_encoded_request() -> None:
    model = ScriptedModel("test/m", [ScriptedReply("Hi"), ScriptedReply("Ho")])
    history = [task(), assistant("", call()), result()]
    assert model.complete(request(*history)).digest != model.complete(request(*history[:1])).digest
