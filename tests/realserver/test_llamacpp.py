"""Runs against a real model server that nobody here wrote.

The model is far too small for real tasks, and repeats one command for ever: what is asserted are structure and numbers.
"""

import json
from typing import Any

import pytest

from tests.e2e.program import Done, Tinyagent
from tests.realserver.server import MODEL, RealServer
from tinyagent.core.events import MessageAdded, ModelCalled, RunStarted
from tinyagent.core.types import AssistantMessage, Json, Usage
from tinyagent.models.wires import encode as encode_request
from tinyagent.trajectory import replay

pytestmark = [pytest.mark.realserver, pytest.mark.timeout(900)]

APIS = ("openai", "anthropic", "responses")
every_wire = pytest.mark.parametrize("api", APIS)
TASK = "Run sh next.sh again and again until it prints END."
# Without the form before its eyes, the model writes its calls as text.
RULES = """Reply only with a json code block that calls the function bash, like this:

```json
{"name": "bash", "arguments": {"command": "sh next.sh"}}
```
"""
# Every output is another one, so that no loop is seen.
NEXT = """n=$(( $(cat .count 2>/dev/null || echo 0) + 1 )); echo $n > .count
echo "part $n of many"
cat filler.txt
echo "there is more: run sh next.sh again"
"""
FILLER = "the quick brown fox jumps over the lazy dog\n"
CUT_AT = 14  # tokens: in the middle of a call


def work(tinyagent: Tinyagent, server: RealServer, *options: str, api: str, filler: str = FILLER * 5) -> Done:
    """A run in which each step prints the filler."""
    tinyagent.file("AGENTS.md", RULES)
    tinyagent.file("next.sh", NEXT)
    tinyagent.file("filler.txt", filler)
    tinyagent.file(".count", "0")
    given = ["-m", f"llamacpp/{MODEL}", "--base-url", server.base_url(api), "--api", api, "--temperature", "0"]
    given += ["-s", "tools.enabled=[bash]", "--approval", "auto", *options]
    return tinyagent.start(None, *given, task=TASK).done(within_s=600)


def requests(done: Done) -> list[ModelCalled]:
    return done.events(ModelCalled)


def usage_of(done: Done, position: int) -> Usage:
    usage = requests(done)[position].usage
    assert usage is not None
    return usage


def kinds(done: Done) -> list[str]:
    """What became of each request: the kind of its error, or "ok"."""
    return [call.error.partition(":")[0] or "ok" for call in requests(done)]


def replies(done: Done) -> list[AssistantMessage]:
    messages = [event.message for event in done.events(MessageAdded)]
    return [message for message in messages if isinstance(message, AssistantMessage)]


def bodies(done: Done) -> list[Json]:
    """All requests as they were sent."""
    return [json.loads(encode_request(sent.request, sent.options)) for sent in replay.requests(done.records)]


def is_in_order(done: Done) -> bool:
    """Whether the end is one of those that the model's doings may lead to, and told alike everywhere."""
    ends = {"submitted": 0, "step_limit": 3, "loop_detected": 1, "bad_tool_calls": 1, "empty_response": 1}
    return ends.get(done.reason) == done.code and replay.check(done.records, encode_request) == []


@every_wire
def test_a_run_with_tools_is_streamed_and_counted_as_the_server_counts(
    tinyagent: Tinyagent, server: RealServer, api: str
) -> None:
    done = work(tinyagent, server, "--step-limit", "2", "--max-output-tokens", "100", api=api)
    assert is_in_order(done)
    assert f"window {server.window:,} (server)" in done.stderr
    assert done.info["context_window"] == {"tokens": server.window, "source": "server"}
    assert done.events(RunStarted)[0].setup.options["stream"]
    first = replies(done)[0].tool_calls[0]
    assert (first.name, (first.arguments or {})["command"]) == ("bash", "sh next.sh")
    assert "part 1 of many" in json.dumps(bodies(done)[1])
    for call, body in zip(requests(done), bodies(done), strict=True):
        assert call.usage is not None
        assert not call.estimated
        assert call.usage.input_tokens == server.count(body, api)
        assert call.usage.input_tokens <= call.estimate * 1.03  # estimates err high ...
        assert call.estimate <= call.usage.input_tokens * 1.25  # ... but not far
    assert usage_of(done, 1).cache_read_tokens > 600


@every_wire
def test_an_answer_without_a_call_ends_the_run(tinyagent: Tinyagent, server: RealServer, api: str) -> None:
    done = work(tinyagent, server, "--max-output-tokens", "60", "-s", "tools.enabled=[]", api=api)
    assert done.reason in ("submitted", "empty_response"), done.stderr
    assert is_in_order(done)
    if done.reason == "submitted":
        assert done.stdout.strip() == replies(done)[-1].text.strip()


@every_wire
def test_a_call_that_the_output_limit_cut_goes_back_in_a_form_that_the_server_takes(
    tinyagent: Tinyagent, server: RealServer, api: str
) -> None:
    """A real llama.cpp answers 500 to a history with broken arguments, and would do so at every retry."""
    done = work(tinyagent, server, "--max-output-tokens", str(CUT_AT), "--step-limit", "4", api=api)
    assert kinds(done) == ["ok"] * 3
    assert done.reason == "bad_tool_calls"
    assert is_in_order(done)
    assert all(call.arguments is None for reply in replies(done) for call in reply.tool_calls)
    assert "unreadable_arguments" in json.dumps(bodies(done)[-1])


@pytest.mark.parametrize("api", ["anthropic", "responses"])
def test_a_refused_prompt_is_compacted_and_sent_again(tinyagent: Tinyagent, server: RealServer, api: str) -> None:
    """The user says 32,768, as the model's page does; the server has 2,048, and says so in OpenAI's form to all."""
    options = ("--context-window", "32768", "--max-output-tokens", "100", "--step-limit", "2")
    done = work(tinyagent, server, *options, api=api, filler=FILLER * 150)
    assert kinds(done) == ["ok", "overflow", "ok"]
    assert [p["reason"] for p in done.passes][:1] == ["overflow"]
    assert done.info["context_window"] == {"tokens": server.window, "source": "learned"}
    assert len({call.digest for call in requests(done)}) == 3
    assert is_in_order(done)


def test_a_window_that_the_server_tells_is_never_overrun(tinyagent: Tinyagent, server: RealServer) -> None:
    options = ("--max-output-tokens", "100", "--step-limit", "4")
    done = work(tinyagent, server, *options, api="openai", filler=FILLER * 33)
    assert kinds(done) == ["ok"] * 4
    assert done.passes[0]["reason"] == "budget"
    assert "compacted context: " in done.stderr
    assert is_in_order(done)


def test_the_last_step_of_a_window_is_cut_then_refused_then_the_run_goes_on(
    tinyagent: Tinyagent, server: RealServer
) -> None:
    """What a real llama.cpp does when its window fills: a 200 with a call that stops in the middle, then a 400."""
    options = ("--context-window", "32768", "--max-output-tokens", "100")
    trial = work(tinyagent, server, *options, "--step-limit", "2", api="openai")
    filler = filling(server, bodies(trial)[1], server.window - CUT_AT)
    done = work(tinyagent, server, *options, "--step-limit", "3", api="openai", filler=filler)
    assert kinds(done) == ["ok", "ok", "overflow", "ok"]
    assert usage_of(done, 1).input_tokens == server.window - CUT_AT
    assert [call.arguments is None for call in replies(done)[1].tool_calls] == [True]
    assert [p["reason"] for p in done.passes][:1] == ["overflow"]
    assert is_in_order(done)


def filling(server: RealServer, body: dict[str, Any], tokens: int) -> str:
    """The filler with which this request's prompt would have so many tokens."""
    message = body["messages"][-1]
    before, _, after = message["content"].partition(FILLER * 5)

    def filler(words: int) -> str:
        return FILLER * 5 + "and" + " and" * words + "\n"

    def size(words: int) -> int:
        message["content"] = before + filler(words) + after
        return server.count(body, "openai")

    words = tokens - size(1)
    while (missing := tokens - size(words)) != 0:
        words += missing
    return filler(words)
