"""What every model promises, whatever its wire, streamed or whole, through httpx or an official SDK client.

The SDKs are judges too: their types must accept our bodies and the fake server's answers. Importing them takes seconds,
so it is done inside the tests that need it, once per session.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.builders import assistant, call, raises_model_error, request, result, task, turns, user
from tests.fake_provider import FakeProvider
from tests.fake_wires import Call, Count, Say, whole
from tests.faults import FAULTS
from tinyagent.core.errors import ErrorKind
from tinyagent.core.types import AssistantMessage, Json, Message, ToolCall, Usage
from tinyagent.models.client import WireModel, connect
from tinyagent.models.retry import RetryingModel
from tinyagent.models.sdk import Endpoint, connect_sdk
from tinyagent.models.watch import Timeouts
from tinyagent.models.wire import Api, WireOptions
from tinyagent.models.wires import WIRES, encode

TIMEOUTS = Timeouts(connect_s=5.0, first_byte_s=5.0, idle_s=0.25)
APIS: tuple[Api, ...] = ("anthropic", "openai", "responses", "ollama")
SDKS: dict[Api, Literal["anthropic", "openai"]] = {"anthropic": "anthropic", "openai": "openai", "responses": "openai"}


@dataclass(frozen=True)
class Way:
    """One way to a model."""

    api: Api
    transport: Literal["httpx", "sdk"] = "httpx"
    stream: bool = True

    def __str__(self) -> str:
        return f"{self.api}-{self.transport}-{'stream' if self.stream else 'whole'}"

    @contextmanager
    def model(self, server: FakeProvider) -> Iterator[WireModel]:
        options = WireOptions(self.api, "m", stream=self.stream, num_ctx=4096 if self.api == "ollama" else None)
        address = server.base_url(self.api)
        if self.transport == "sdk":
            endpoint = Endpoint(SDKS[self.api], base_url=address, api_key="k")
            model = connect_sdk("test/m", options, endpoint, timeouts=TIMEOUTS)
        else:
            model = connect("test/m", options, base_url=address, api_key="k", timeouts=TIMEOUTS)
        with closing(model):
            yield model


WAYS = [Way(api, "httpx", stream) for api in APIS for stream in (True, False)]
WAYS += [Way(api, "sdk", stream) for api in SDKS for stream in (True, False)]
every_way = pytest.mark.parametrize("way", WAYS, ids=str)

TWO_CALLS = Say("Two at once.", (Call("bash", {"command": "ls -la"}), Call("read", {"path": "ä.txt"})), reasoning="Hm.")


def neutral(message: AssistantMessage) -> AssistantMessage:
    """The message without what belongs to its wire."""
    return replace(message, wire=None, wire_format="", tool_calls=tuple(replace(c, id="") for c in message.tool_calls))


def results_for(message: AssistantMessage) -> list[Message]:
    return [result(c.id, f"output of {c.name}", tool=c.name) for c in message.tool_calls]


@every_way
def test_a_tool_loop_goes_the_same_way_everywhere(way: Way) -> None:
    heard: list[str] = []
    with FakeProvider([TWO_CALLS, "All done."], cached=0.5) as server, way.model(server) as model:
        first = model.complete(request(), on_text=heard.append)
        history = [task(), first.message, *results_for(first.message)]
        last = model.complete(request(*history), on_text=heard.append)
        sizes = [recorded.tokens for recorded in server.requests]
    calls = (ToolCall("", "bash", {"command": "ls -la"}), ToolCall("", "read", {"path": "ä.txt"}))
    assert neutral(first.message) == AssistantMessage("Two at once.", calls, "tool_calls", reasoning="Hm.")
    assert neutral(last.message) == AssistantMessage("All done.")
    assert "".join(heard) == "Two at once.All done."
    for response, tokens in zip((first, last), sizes, strict=True):
        assert response.usage is not None
        assert response.usage.input_tokens == tokens
        assert response.usage.cache_read_tokens == (0 if way.api == "ollama" else tokens // 2)
        assert response.reply_tokens == response.usage.output_tokens


@every_way
def test_the_digest_is_that_of_the_bytes_on_the_wire_and_can_be_made_again_from_the_record(way: Way) -> None:
    with FakeProvider() as server, way.model(server) as model:
        asked = request(*turns(2), max_output_tokens=100)
        digest = model.complete(asked).digest
        assert hashlib.sha256(server.requests[0].raw).hexdigest() == digest
        assert encode(asked, json.loads(json.dumps(model.options()))) == server.requests[0].raw


@pytest.mark.parametrize("second", APIS)
@pytest.mark.parametrize("first", APIS)
def test_a_history_begun_on_one_wire_continues_on_another(first: Api, second: Api) -> None:
    with FakeProvider([TWO_CALLS, "Done."]) as server:
        with Way(first).model(server) as model:
            message = model.complete(request()).message
        with Way(second).model(server) as model:
            answer = model.complete(request(task(), message, *results_for(message))).message
        assert answer.text == "Done."
        sent = server.requests[1].raw.decode()
    assert (
        sent.index("Two at once.") < sent.index("ls -la") < sent.index("output of bash") < sent.index("output of read")
    )
    assert ("Hm." in sent) == (first == second)


REFUSALS: dict[str, ErrorKind] = {
    "rate": "rate",
    "quota": "quota",
    "server_error": "overloaded",
    "unavailable": "overloaded",
    "overloaded": "overloaded",
    "bad_key": "auth",
    "no_such_model": "not_found",
    "body_too_large": "body_too_large",
    "html_502": "overloaded",
    "error_in_200": "overloaded",
}


@every_way
@pytest.mark.parametrize("fault", REFUSALS)
def test_a_refusal_is_named_by_its_kind_and_costs_nothing(way: Way, fault: str) -> None:
    """R40 claude-code 2.1.239: a used-up quota that comes as 429 is not a rate limit."""
    with (
        FakeProvider(faults={1: fault}) as server,
        way.model(server) as model,
        raises_model_error(REFUSALS[fault]) as caught,
    ):
        model.complete(request())
    assert not caught.value.billed
    assert caught.value.digest == hashlib.sha256(server.requests[0].raw).hexdigest()


BROKEN: dict[str, ErrorKind] = {
    "html": "malformed",
    "empty_body": "malformed",
    "not_json": "malformed",
    "no_choices": "malformed",
    "null": "malformed",
    "empty_stream": "malformed",
    "only_done": "malformed",
    "cut": "stream_cut",
    "cut_at_once": "stream_cut",
    "polite_end": "stream_cut",
    "error_in_stream": "overloaded",
    "reset": "network",
    "pings_only": "network",
}


@every_way
@pytest.mark.parametrize("fault", BROKEN)
def test_an_answer_that_breaks_is_an_error_and_never_half_a_reply(way: Way, fault: str) -> None:
    """R37 agent-afk#724, R38 claude-code 2.1.222, R41 2.1.234, R44 2.1.199; litellm#40578: an empty success."""
    with FakeProvider([TWO_CALLS], faults={1: fault}) as server, way.model(server) as model:
        is_empty = fault == "polite_end" and not way.stream  # of a whole body nothing is left
        with raises_model_error("malformed" if is_empty else BROKEN[fault]) as caught:
            model.complete(request())
    assert caught.value.billed or fault == "error_in_stream"


@pytest.mark.parametrize("fault", ["cut", "polite_end", "error_in_stream"])
def test_a_broken_stream_carries_the_usage_that_it_had_told(fault: str) -> None:
    with FakeProvider([TWO_CALLS], faults={1: fault}) as server, Way("anthropic").model(server) as model:
        with raises_model_error(BROKEN[fault]) as caught:
            model.complete(request())
        assert caught.value.usage == Usage(server.requests[0].tokens, 1)


@every_way
@pytest.mark.parametrize("fault", ["overloaded", "cut", "error_in_stream", "reset", "rate_ms"])
def test_a_passing_fault_is_repeated_and_the_reply_is_whole(way: Way, fault: str) -> None:
    heard: list[str] = []
    with FakeProvider([TWO_CALLS], faults={1: fault}) as server, way.model(server) as model:
        retrying = RetryingModel(model, sleep=lambda _: heard.clear())
        response = retrying.complete(request(), on_text=heard.append)
        assert server.requests[0].raw == server.requests[1].raw
    assert (response.attempts, len(response.message.tool_calls)) == (2, 2)
    assert "".join(heard) == response.message.text == "Two at once."


CALLS: dict[str, list[tuple[Json | None, str]]] = {
    "garbage_arguments": [(None, "not valid JSON"), ({"path": "ä.txt"}, "")],
    "list_arguments": [(None, "not a JSON object"), ({"path": "ä.txt"}, "")],
    "raw_control_characters": [({"command": "a\nb\tc"}, ""), ({"path": "ä.txt"}, "")],
    "cut_arguments": [(None, "cut"), (None, "cut")],
    "missing_ids": [({"command": "ls -la"}, ""), ({"path": "ä.txt"}, "")],
    "same_ids": [({"command": "ls -la"}, ""), ({"path": "ä.txt"}, "")],
}


@every_way
@pytest.mark.parametrize("fault", CALLS)
def test_odd_calls_are_data_and_can_be_sent_back(way: Way, fault: str) -> None:
    """R47 hermes-agent#35151, R49 claude-code#45286, R50, R52."""
    with FakeProvider([TWO_CALLS, "Done."], faults={1: fault}) as server, way.model(server) as model:
        message = model.complete(request()).message
        model.complete(request(task(), message, *results_for(message)))
    assert len({c.id for c in message.tool_calls}) == 2
    for found, (arguments, problem) in zip(message.tool_calls, CALLS[fault], strict=True):
        assert found.arguments == arguments
        assert problem in found.problem


EMPTY = ("empty_reply", "blank_reply", "only_reasoning")


@every_way
@pytest.mark.parametrize("fault", EMPTY)
def test_a_reply_with_nothing_in_it_is_still_a_reply(way: Way, fault: str) -> None:
    """R53: what to do about it is the agent's decision."""
    with FakeProvider([TWO_CALLS], faults={1: fault}) as server, way.model(server) as model:
        message = model.complete(request()).message
    assert (message.text.strip(), message.tool_calls, message.stop) == ("", (), "end")


@every_way
@pytest.mark.parametrize("fault", ["no_usage", "zero_usage"])
def test_usage_that_was_not_reported_is_unknown_and_never_0(way: Way, fault: str) -> None:
    """R41."""
    with FakeProvider(faults={1: fault}) as server, way.model(server) as model:
        response = model.complete(request())
    assert (response.usage, response.reply_tokens) == (None, None)


@every_way
def test_the_output_limit_is_a_stop(way: Way) -> None:
    with FakeProvider([TWO_CALLS], faults={1: "length"}) as server, way.model(server) as model:
        assert model.complete(request()).message.stop == "length"


@every_way
def test_a_prompt_over_the_window_is_an_overflow_that_names_the_window(way: Way) -> None:
    """R43 claude-code 2.1.218."""
    with (
        FakeProvider(window=2000) as server,
        way.model(server) as model,
        raises_model_error("overflow") as caught,
    ):
        model.complete(request(task("word " * 3000)))
    assert caught.value.window == 2000


@every_way
def test_a_refused_parameter_can_be_left_out(way: Way) -> None:
    with FakeProvider() as server, way.model(server) as model:
        model.complete(request())
        assert model.adjust("stream") == way.stream
        model.complete(request())
        assert [bool(body.get("stream")) for body in server.bodies] == [way.stream, False]


def test_a_spelling_that_was_refused_is_not_gone_back_to() -> None:
    """A server may know neither `max_tokens` nor `max_completion_tokens`."""
    with FakeProvider() as server, Way("openai").model(server) as model:
        assert [model.adjust("max_tokens"), model.adjust("max_completion_tokens")] == [True, False]


def test_every_fault_that_concerns_the_model_is_tried_here_or_in_the_transport_tests() -> None:
    tried = {
        *REFUSALS,
        *BROKEN,
        *CALLS,
        "empty_reply",
        "blank_reply",
        "only_reasoning",
        "no_usage",
        "zero_usage",
        "length",
    }
    elsewhere = {"rate_seconds", "rate_ms", "rate_date", "rate_long", "rate_text", "redirect", "refusal"}
    for_the_agent = {"half_usage", "nonsense_usage", "silent_truncation", "window_exceeded"}
    slowness = {"pings_first", "slow_first_byte", "slow_frames"}
    assert tried | elsewhere | for_the_agent | slowness == set(FAULTS)


# --- the SDKs as judges


def sdk_type(api: Api) -> Any:
    """The SDK's own type of a request's body."""
    if api == "anthropic":
        from anthropic.types import message_create_params

        return message_create_params.MessageCreateParamsNonStreaming
    if api == "openai":
        from openai.types.chat import completion_create_params

        return completion_create_params.CompletionCreateParamsNonStreaming
    from openai.types.responses import response_create_params

    return response_create_params.ResponseCreateParamsNonStreaming


def judge(api: Api, body: Json) -> None:
    """Raises ValidationError if the SDK's type does not take the body."""
    adapter = TypeAdapter(sdk_type(api))  # named, since the items still need it while they are walked through
    exhaust(adapter.validate_python(body))


def exhaust(value: Any) -> None:
    """Walk through a validated value: pydantic checks the items of an Iterable only when they are asked for."""
    if isinstance(value, dict):
        for item in value.values():
            exhaust(item)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for item in value:
            exhaust(item)


@pytest.mark.parametrize("api", SDKS)
def test_the_sdks_types_accept_our_bodies(api: Api) -> None:
    broken = ToolCall("c 9", "functions.bash", None, "cut", '{"comm')
    reply = WIRES[api].decode(whole(api, TWO_CALLS, Count(10, 5), "m"), WireOptions(api, "m")).message
    history = [
        *turns(2),
        assistant("", broken),
        result("c 9", "", is_error=True),
        user("x"),
        reply,
        *results_for(reply),
    ]
    options = WireOptions(api, "m", stream=False, reasoning_effort="high")
    body = json.loads(WIRES[api].encode(request(*history, max_output_tokens=100), options))
    judge(api, body)


@pytest.mark.parametrize("api", SDKS)
def test_the_sdks_types_are_judges_that_refuse(api: Api) -> None:
    body = json.loads(WIRES[api].encode(request(max_output_tokens=100), WireOptions(api, "m", stream=False)))
    body["input" if api == "responses" else "messages"][-1]["content"] = 5
    with pytest.raises(ValidationError):
        judge(api, body)


@pytest.mark.parametrize("api", SDKS)
def test_the_sdks_types_accept_the_fake_servers_answers(api: Api) -> None:
    body = whole(
        api, replace(TWO_CALLS, calls=tuple(replace(c, id="x") for c in TWO_CALLS.calls)), Count(10, 5, 2), "m"
    )
    if api == "anthropic":
        from anthropic.types import Message as Answer
    elif api == "openai":
        from openai.types.chat import ChatCompletion as Answer
    else:
        from openai.types.responses import Response as Answer
    Answer.model_validate({"created_at": 1, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []} | body)


@pytest.mark.parametrize("kind", ["bedrock", "vertex"])
def test_a_missing_package_of_a_cloud_is_said_before_the_run(kind: Literal["bedrock", "vertex"]) -> None:
    from importlib.util import find_spec

    from tinyagent.core.errors import ConfigError

    if find_spec("boto3" if kind == "bedrock" else "google"):
        pytest.skip("the package is installed")
    with pytest.raises(ConfigError, match=rf"anthropic\[{kind}\]"):
        connect_sdk("x/m", WireOptions("anthropic", "m"), Endpoint(kind))


@pytest.mark.parametrize("api", SDKS)
def test_a_server_that_wants_no_key_gets_none_of_the_vendors_either(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-of-the-user")
    with FakeProvider() as server:
        endpoint = Endpoint(SDKS[api], base_url=server.base_url(api))
        with closing(connect_sdk("mine/m", WireOptions(api, "m"), endpoint, timeouts=TIMEOUTS)) as model:
            assert model.complete(request()).message.text == "Done."
        assert not any("sk-of-the-user" in value for value in server.requests[0].headers.values())


@contextmanager
def cloud_model(
    kind: Literal["bedrock", "vertex"], server: FakeProvider, *, stream: bool = True
) -> Iterator[WireModel]:
    if kind == "bedrock":
        pytest.importorskip("boto3", reason="Bedrock needs boto3: pip install 'anthropic[bedrock]'")
    endpoint = Endpoint(kind, base_url=server.url, api_key="token", region="r", project="p")
    options = WireOptions("anthropic", "claude-x", stream=stream)
    with closing(connect_sdk(f"{kind}/claude-x", options, endpoint, timeouts=TIMEOUTS)) as model:
        yield model


every_cloud = pytest.mark.parametrize("kind", ["bedrock", "vertex"])


@every_cloud
@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_loop_goes_the_same_way_at_a_cloud(kind: Literal["bedrock", "vertex"], stream: bool) -> None:
    paths = {
        "bedrock": "/model/claude-x/invoke",
        "vertex": "/projects/p/locations/r/publishers/anthropic/models/claude-x:",
    }
    with FakeProvider([TWO_CALLS, "All done."]) as server, cloud_model(kind, server, stream=stream) as model:
        first = model.complete(request()).message
        last = model.complete(request(task(), first, *results_for(first))).message
    assert [c.arguments for c in first.tool_calls] == [{"command": "ls -la"}, {"path": "ä.txt"}]
    assert (first.reasoning, last.text) == ("Hm.", "All done.")
    for sent in server.requests:
        assert sent.path.startswith(paths[kind])
        assert sent.headers["authorization"] == "Bearer token"
        assert "model" not in sent.body
    assert "'signature': 'sig'" in str(server.bodies[1])


@every_cloud
def test_a_clouds_refusal_is_read_like_any_other(kind: Literal["bedrock", "vertex"]) -> None:
    with FakeProvider(window=2000) as server, cloud_model(kind, server) as model:
        with raises_model_error("overflow") as caught:
            model.complete(request(task("word " * 3000)))
        assert caught.value.window == 2000


@every_cloud
def test_a_clouds_broken_stream_is_no_reply(kind: Literal["bedrock", "vertex"]) -> None:
    with (
        FakeProvider([TWO_CALLS], faults={1: "cut"}) as server,
        cloud_model(kind, server) as model,
        raises_model_error("stream_cut"),
    ):
        model.complete(request())


def test_azure_gets_the_deployment_in_the_address_and_the_key_in_its_own_header() -> None:
    with FakeProvider() as server:
        endpoint = Endpoint("azure", base_url=server.url, api_key="k", api_version="2026-01-01")
        with closing(connect_sdk("azure/m", WireOptions("openai", "my-gpt"), endpoint, timeouts=TIMEOUTS)) as model:
            assert model.complete(request(max_output_tokens=50)).message.text == "Done."
        sent = server.requests[0]
    assert sent.path == "/openai/deployments/my-gpt/chat/completions?api-version=2026-01-01"
    assert sent.headers["api-key"] == "k"
    assert sent.body["max_completion_tokens"] == 50


def test_a_call_of_a_turn_is_never_sent_without_its_result() -> None:
    history = [task(), assistant("", call("a"), call("b")), result("a"), result("b")]
    with FakeProvider() as server, Way("anthropic").model(server) as model:
        model.complete(request(*history))
        assert [block["type"] for block in server.bodies[0]["messages"][2]["content"]] == ["tool_result"] * 2
