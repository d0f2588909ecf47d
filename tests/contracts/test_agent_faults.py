"""How a run ends after what servers and models do wrong, on every wire.

That each fault becomes the right error of a model is shown in `test_model.py`, on every wire and through both
transports; here is what the agent makes of it where it does not simply try again.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bodies import faults, read_body
from tests.e2e.program import Tinyagent, proven
from tests.e2e.scripts import SUMMARY, bash, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tinyagent.core.events import Compacted, MessageAdded
from tinyagent.core.types import ToolMessage

APIS = ("anthropic", "openai", "responses", "ollama")
every_wire = pytest.mark.parametrize("api", APIS)
LIST = Say("", (Call("bash", {"command": "ls"}), Call("bash", {"command": "pwd"})))


@pytest.fixture
def tinyagent(tmp_path: Path) -> Tinyagent:
    return Tinyagent(tmp_path)


ENDS = {  # fault at the second request, reason, requests
    "quota": ("provider_error", 2),  # R40
    "bad_key": ("auth", 2),
    "no_such_model": ("provider_error", 2),
    "refusal": ("refused", 2),
    "garbage_arguments": ("submitted", 3),  # R47
    "list_arguments": ("submitted", 3),
    "cut_arguments": ("submitted", 3),
    "raw_control_characters": ("submitted", 3),  # R50
    "missing_ids": ("submitted", 3),  # R52
    "same_ids": ("submitted", 3),
    "empty_reply": ("submitted", 3),  # R53
    "only_reasoning": ("submitted", 3),
    "no_usage": ("submitted", 3),  # R41
    "nonsense_usage": ("submitted", 3),
}


@every_wire
@pytest.mark.parametrize("fault", ENDS)
def test_a_fault_ends_the_run_or_is_survived_and_leaves_a_legal_history(
    tinyagent: Tinyagent, fault: str, api: str
) -> None:
    """R40, R41, R47, R49, R50, R52, R53."""
    if (fault, api) == ("refusal", "ollama"):
        pytest.skip("this API has no such stop reason")
    with FakeProvider([LIST, LIST, "Done."], faults={2: fault}) as server:
        done = tinyagent.run(server, api=api)
    assert (done.reason, len(server.requests)) == ENDS[fault]
    assert [wrong for body in server.bodies for wrong in faults(read_body(body, api))] == []
    proven(done, server)


@every_wire
@pytest.mark.parametrize("fault", ["empty_reply", "blank_reply", "only_reasoning"])
def test_a_model_that_keeps_saying_nothing_ends_the_run(tinyagent: Tinyagent, fault: str, api: str) -> None:
    """R53: bounded, then a non-zero exit."""
    with FakeProvider(faults={"all": fault}) as server:
        done = tinyagent.run(server, api=api)
    assert (done.code, done.reason, len(server.requests)) == (1, "empty_response", 3)


@every_wire
def test_a_model_that_keeps_sending_broken_calls_ends_the_run_without_one_being_run(
    tinyagent: Tinyagent, api: str
) -> None:
    """R47."""
    with FakeProvider([Say("", (Call("bash", '{"command": "touch ran'),))]) as server:
        done = tinyagent.run(server, api=api)
    assert (done.code, done.reason, len(server.requests)) == (1, "bad_tool_calls", 3)
    assert not list(tinyagent.workspace.glob("ran*"))


@every_wire
def test_the_same_call_with_the_same_result_is_warned_of_and_then_ends_the_run(tinyagent: Tinyagent, api: str) -> None:
    """R55: warn at 3, stop by 5 to 8."""
    with FakeProvider([bash("echo same")]) as server:
        done = tinyagent.run(server, api=api)
    assert (done.code, done.reason) == (1, "loop_detected")
    assert 5 <= len(server.requests) <= 8
    assert "3 times in a row" in read_body(server.bodies[3], api).user_text


ODD: list[Any] = [5, ["a"], None, "x" * 20_000, {"a": 1}]


@every_wire
def test_arguments_of_a_wrong_type_are_errors_for_the_model_also_after_a_resume(tinyagent: Tinyagent, api: str) -> None:
    """R56."""
    calls = Say("", tuple(Call("read", {"path": odd}) for odd in ODD))
    with FakeProvider([calls, "So far.", calls, "Done."]) as server:
        tinyagent.run(server, api=api)
        done = tinyagent.run(server, "-r", "latest", api=api, task="Again.")
        assert len(server.requests) == 4
    results = [e.message for e in done.events(MessageAdded) if isinstance(e.message, ToolMessage)]
    assert (done.reason, [r.is_error for r in results]) == ("submitted", [True] * 2 * len(ODD))


@every_wire
def test_a_server_that_cuts_the_prompt_in_silence_is_noticed_and_the_prompt_made_to_fit(
    tinyagent: Tinyagent, api: str
) -> None:
    """R46: Ollama's default."""
    script: list[Scripted] = [*reads(files(tinyagent, 6, chars=6_000)), "Done."]
    with FakeProvider(script, window=6_000, faults={"all": "silent_truncation"}, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "--context-window", "32000", api=api)
    assert done.reason == "submitted"
    assert "seems to cut prompts in silence" in done.stderr
    assert any(event.trigger == "overflow" for event in done.events(Compacted))
    assert server.requests[-1].tokens < 6_000


@every_wire
def test_a_reply_that_reached_the_end_of_the_window_is_compacted_and_asked_for_again(
    tinyagent: Tinyagent, api: str
) -> None:
    if api in ("responses", "ollama"):
        pytest.skip("this API has no such stop reason")
    script: list[Scripted] = [*reads(files(tinyagent, 5, chars=6_000)), "Done."]
    with FakeProvider(script, faults={5: "window_exceeded"}, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, api=api)
    assert done.reason == "submitted"
    assert [event.trigger for event in done.events(Compacted)] == ["overflow"]
