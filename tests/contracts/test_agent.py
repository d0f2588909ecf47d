"""Whole runs are the same on every wire and through both transports, and keep what a provider wants back.

The model says the same on each wire; what differs is only how it is written.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bodies import read_body
from tests.e2e.program import Done, Tinyagent
from tests.e2e.scripts import SUMMARY, files, read, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.faults import Fault, error, rate_limited
from tinyagent.core.codec import encode
from tinyagent.core.events import (
    Compacted,
    Event,
    MessageAdded,
    ModelCalled,
    ReasoningStripped,
    RunStarted,
)
from tinyagent.core.types import AssistantMessage, Message, ToolMessage

APIS = ("anthropic", "openai", "responses", "ollama")
SDK = ("-s", "transport=sdk")
WAYS = [(api, transport) for api in APIS for transport in ("httpx", "sdk") if (api, transport) != ("ollama", "sdk")]
every_wire = pytest.mark.parametrize("api", APIS)

TWO_CALLS = (Call("bash", {"command": "echo one; exit 3"}), Call("bash", {"command": "echo two"}))
NO_USAGE = Fault(count=lambda count: None)  # each wire counts its own bodies; estimates are the same for all
TOO_LONG = error(
    400, "maximum context length is 8000 tokens, your messages resulted in 8100", "context_length_exceeded"
)


@pytest.fixture
def tinyagent(tmp_path: Path) -> Tinyagent:
    return Tinyagent(tmp_path)


# --- the same events


def eventful(tinyagent: Tinyagent) -> list[Scripted]:
    """Reasoning, parallel calls, a failing command, a call that cannot be read, long outputs, an answer."""
    names = files(tinyagent, 5, chars=5_000)
    return [
        Say("Two at once.", TWO_CALLS, reasoning="First both."),
        Say("", (Call("bash", '{"command": "ls'),)),
        read("missing.txt"),
        *reads(names),
        Say("All done.", reasoning="That is it."),
    ]


def test_the_same_script_makes_the_same_events_on_every_wire_through_both_transports(tmp_path: Path) -> None:
    told: dict[str, list[Any]] = {}
    faults = {"all": NO_USAGE, 3: rate_limited(retry_after_ms="10"), 9: TOO_LONG}
    for number, (api, transport) in enumerate(WAYS):
        root = tmp_path / str(number)  # as long for each: the path is in the system prompt
        root.mkdir()
        tinyagent = Tinyagent(root)
        with FakeProvider(eventful(tinyagent), faults=faults, summaries=[SUMMARY]) as server:
            done = tinyagent.run(server, *(SDK if transport == "sdk" else ()), api=api)
        told[f"{api} by {transport}"] = [plain(record.event) for record in done.records]
    events = told["openai by httpx"]
    assert {e["kind"] for e in events} >= {"RunStarted", "ModelCalled", "Compacted", "Learned", "RunEnded"}
    assert events[-1] == {"kind": "RunEnded", "reason": "submitted", "submission": "All done."}
    for way, others in told.items():
        assert others == events, way


OWN = {"run_id", "cwd", "setup", "settings", "version", "system"}  # of a run, its folder and its model
OWN |= {"digest", "duration_s", "request_id", "model", "options", "call_id", "wire", "wire_format", "raw", "output_id"}


def plain(event: Event) -> dict[str, Any]:
    """An event without ids, times and what belongs to a wire. Of an error its kind stays."""
    data = encode(event)
    if isinstance(event, ModelCalled):
        data["error"] = event.error.partition(":")[0]
    if isinstance(event, MessageAdded) and isinstance(event.message, AssistantMessage):
        data["message"]["tool_calls"] = [{"name": c.name, "arguments": c.arguments} for c in event.message.tool_calls]
    return {"kind": type(event).__name__} | without(data)


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without(inner) for key, inner in value.items() if key not in OWN}
    if isinstance(value, list):
        return [without(inner) for inner in value]
    return re.sub(r"\d+\.\d s\b", "0.0 s", value) if isinstance(value, str) else value


# --- from one wire to another


@pytest.mark.parametrize("second", APIS)
@pytest.mark.parametrize("first", APIS)
def test_a_run_that_began_on_one_wire_goes_on_with_another_model_on_another(
    tinyagent: Tinyagent, first: str, second: str
) -> None:
    begun = Say("Two at once.", TWO_CALLS, reasoning="SECRET THOUGHT")
    with FakeProvider([begun, "So far."]) as server:
        tinyagent.run(server, api=first)
        assert "SECRET THOUGHT" in server.requests[1].raw.decode()
    with FakeProvider([Say("", TWO_CALLS, reasoning="Anew."), "All done."]) as server:
        done = tinyagent.run(server, "-r", "latest", api=second, model="litellm/other", task="And now?")
        bodies, sent = [read_body(body, second) for body in server.bodies], server.requests[0].raw.decode()
    assert (done.code, done.stdout.strip()) == (0, "All done.")
    assert [item.text for item in bodies[0].items if item.role == "assistant"] == ["Two at once.", "So far."]
    assert [result.split("\n")[0] for result in bodies[0].results] == ["one", "two"]
    assert bodies[0].items[-1].text == "And now?"
    assert not any(secret in sent for secret in ("SECRET THOUGHT", '"sig"', "gAAA"))
    assert len(bodies[1].results) == 4


# --- reasoning

PAYLOADS = {  # what goes back on each wire of "Look first."
    "anthropic": '{"type":"thinking","thinking":"Look first.","signature":"sig"}',
    "openai": '"reasoning_content":"Look first."',
    "responses": '"encrypted_content":"gAAA"',
    "ollama": '"thinking":"Look first."',
}


def thoughtful(tinyagent: Tinyagent, number: int, *, chars: int = 5_000) -> list[Scripted]:
    return [replace(say, reasoning="Look first.") for say in reads(files(tinyagent, number, chars=chars))]


@every_wire
def test_reasoning_is_kept_with_every_turn_of_a_tool_loop(tinyagent: Tinyagent, api: str) -> None:
    with FakeProvider([*thoughtful(tinyagent, 3, chars=100), "Done."]) as server:
        tinyagent.run(server, api=api)
        sent = [recorded.raw.decode().count(PAYLOADS[api]) for recorded in server.requests]
    assert sent == [0, 1, 2, 3]


BINDING, FREE_OF_IT = "claude-opus-5-5", "claude-sonnet-4-5"


@pytest.mark.parametrize("model", [BINDING, FREE_OF_IT])
def test_a_pass_leaves_reasoning_out_of_kept_turns_where_signatures_bind_to_what_came_before(
    tinyagent: Tinyagent, model: str
) -> None:
    with FakeProvider([*thoughtful(tinyagent, 9), "Done."], summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "--context-window", "9000", api="anthropic", model=f"anthropic/{model}")
    assert done.reason == "submitted"
    number = steps_before_first_pass(done)
    sent = [recorded.raw.decode().count(PAYLOADS["anthropic"]) for recorded in server.requests if is_step(recorded)]
    kept = len([item for item in read_body(server.bodies[number], "anthropic").items if item.role == "assistant"])
    assert sent[number - 1] == number - 1
    assert sent[number] == (0 if model == BINDING else kept)
    assert sent[number + 1] == sent[number] + 1  # what comes after the pass is kept again


def is_step(recorded: Any) -> bool:
    return bool(recorded.body.get("tools"))


def steps_before_first_pass(done: Done) -> int:
    events = [record.event for record in done.records]
    first = next(n for n, event in enumerate(events) if isinstance(event, Compacted))
    return sum(isinstance(event, ModelCalled) and event.purpose == "step" for event in events[:first])


BOUND = error(
    400,
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
    "invalid_request_error",
)
NOT_VERIFIED = error(400, "The encrypted content could not be verified.", "invalid_encrypted_content")


@pytest.mark.parametrize(("api", "refusal"), [("anthropic", BOUND), ("responses", NOT_VERIFIED)])
def test_reasoning_that_is_refused_is_left_out_and_the_request_sent_once_more(
    tinyagent: Tinyagent, api: str, refusal: Fault
) -> None:
    with FakeProvider([*thoughtful(tinyagent, 2, chars=100), "Done."], faults={3: refusal}) as server:
        done = tinyagent.run(server, api=api)
        sent = [recorded.raw.decode().count(PAYLOADS[api]) for recorded in server.requests]
    assert (done.code, sent) == (0, [0, 1, 2, 0])
    assert len(done.events(ReasoningStripped)) == 1


@pytest.mark.parametrize(("api", "refusal"), [("anthropic", BOUND), ("responses", NOT_VERIFIED)])
def test_reasoning_that_is_refused_again_ends_the_run_in_the_providers_words(
    tinyagent: Tinyagent, api: str, refusal: Fault
) -> None:
    script = [*thoughtful(tinyagent, 2, chars=100), "Done."]
    with FakeProvider(script, faults={3: refusal, 4: refusal}) as server:
        done = tinyagent.run(server, api=api)
    assert (done.reason, len(server.requests)) == ("provider_error", 4)
    assert "reasoning blocks" in done.stderr


DETAILS = [{"type": "reasoning.encrypted", "data": "opaque==", "id": "r1", "format": "x"}]
SIGNATURE = {"google": {"thought_signature": "opaque=="}}
HOUSES: dict[str, tuple[str, Say, str]] = {
    "DeepSeek": ("deepseek/deepseek-v4-pro", Say(reasoning="Look first."), PAYLOADS["openai"]),
    "Moonshot": ("moonshot/kimi-k2.7-code", Say(reasoning="Look first."), PAYLOADS["openai"]),
    "OpenRouter": (
        "openrouter/anthropic/claude-sonnet-4.5",
        Say(extra={"reasoning_details": DETAILS}),
        '"reasoning_details":' + json.dumps(DETAILS, separators=(",", ":")),
    ),
    "Gemini": ("gemini/gemini-3.8-flash", Say(), '"extra_content":' + json.dumps(SIGNATURE, separators=(",", ":"))),
}


@pytest.mark.parametrize("house", HOUSES)
def test_what_a_house_wants_back_with_its_calls_survives_a_pass_for_the_turns_that_are_kept(
    tinyagent: Tinyagent, house: str
) -> None:
    model, say, payload = HOUSES[house]
    script: list[Scripted] = []
    for name in files(tinyagent, 9, chars=5_000):
        call = Call("read", {"path": name}, extra={"extra_content": SIGNATURE} if house == "Gemini" else {})
        script.append(replace(say, text="I read on.", calls=(call,)))
    with FakeProvider([*script, "Done."], summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "--context-window", "9000", model=model)
    assert (done.reason, len(done.passes) > 0) == ("submitted", True)
    for recorded in filter(is_step, server.requests):
        turns = [item for item in read_body(recorded.body, "openai").items if item.role == "assistant"]
        assert recorded.raw.decode().count(payload) == len(turns)


MISSED = {
    "reasoning": (
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        '"reasoning_content":""',
    ),
    "signature": ("Function call is missing a thought_signature in functionCall parts.", "skip_thought_signature"),
}


@pytest.mark.parametrize("missed", MISSED)
def test_what_a_house_misses_in_a_history_of_another_model_is_given_to_it_from_then_on(
    tinyagent: Tinyagent, missed: str
) -> None:
    words, given = MISSED[missed]
    with FakeProvider([Say("", TWO_CALLS), "So far."]) as server:
        tinyagent.run(server, api="anthropic")
    with FakeProvider([Say("", TWO_CALLS), "Done."], faults={1: error(400, words, "invalid_request_error")}) as server:
        done = tinyagent.run(server, "-r", "latest", model="litellm/other", task="And now?")
        sent = [given in recorded.raw.decode() for recorded in server.requests]
    assert (done.code, sent) == (0, [False, True, True])


# --- calls and images


@every_wire
def test_parallel_calls_stay_one_message_with_all_results_in_the_order_of_the_calls(
    tinyagent: Tinyagent, api: str
) -> None:
    with FakeProvider([Say("Two at once.", TWO_CALLS), "Done."]) as server:
        tinyagent.run(server, api=api)
        items = read_body(server.bodies[1], api).items
    assert [(item.role, len(item.calls)) for item in items] == [
        ("user", 0),
        ("assistant", 2),
        ("result", 1),
        ("result", 1),
    ]
    assert [item.calls[0] for item in items[2:]] == list(items[1].calls)
    assert [item.text.split("\n")[0] for item in items[2:]] == ["one", "two"]


@every_wire
def test_an_image_is_refused_in_words_and_never_sent(tinyagent: Tinyagent, api: str) -> None:
    tinyagent.file("a.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    with FakeProvider([read("a.png"), "Done."]) as server:
        done = tinyagent.run(server, api=api)
        (result,) = read_body(server.bodies[1], api).results
    assert "a.png is a PNG image" in result
    assert "cannot be shown as text" in result
    assert [m.is_error for m in messages(done) if isinstance(m, ToolMessage)] == [True]


def messages(done: Done) -> Iterator[Message]:
    return (event.message for event in done.events(MessageAdded))


@pytest.mark.parametrize(("api", "transport"), WAYS)
def test_each_way_leaves_a_record_that_says_which_wire_it_was(tinyagent: Tinyagent, api: str, transport: str) -> None:
    with FakeProvider() as server:
        done = tinyagent.run(server, *(SDK if transport == "sdk" else ()), api=api)
    (started,) = done.events(RunStarted)
    assert started.setup.options["api"] == api
    assert (started.settings["transport"] or "httpx") == transport


def test_ollamas_own_api_has_no_official_client_and_says_so(tinyagent: Tinyagent) -> None:
    with FakeProvider() as server:
        done = tinyagent.run(server, *SDK, api="ollama")
    assert done.code == 78
    assert "transport: sdk cannot be used with Ollama's own API" in done.stderr
