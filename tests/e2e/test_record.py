"""The trajectory of a run: its form, and that each request in it can be made again, byte for byte."""

import hashlib
import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.program import MODELS, TASK, WIRES, Done, Tinyagent, proven
from tests.e2e.scripts import SUMMARY, bash, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.faults import rate_limited
from tests.generators import text

Json = dict[str, Any]
INFO_KEYS = {
    "exit_status",
    "reason",
    "retryable",
    "error",
    "submission",
    "model",
    "model_returned",
    "version",
    "cwd",
    "started_at",
    "ended_at",
    "config",
    "context_window",
    "model_stats",
}
TOTAL_KEYS = {
    "api_calls",
    "steps",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "instance_cost",
}
PASS_KEYS = {
    "step",
    "reason",
    "stage",
    "tokens_before",
    "tokens_after",
    "elided",
    "summarized",
    "pruned",
    "summary",
    "summary_cost_usd",
    "summary_usage",
    "attempts",
    "first_usage_after",
    "view",
}
TALK = text("prose", 3_000, 3)


@dataclass(frozen=True)
class Past:
    """A run that is over, for tests that only read it."""

    tinyagent: Tinyagent
    done: Done
    server: FakeProvider


@pytest.fixture(scope="module", params=WIRES)
def past(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Past:
    tinyagent = Tinyagent(tmp_path_factory.mktemp("eventful"))
    return Past(tinyagent, *eventful(tinyagent, request.param))


def eventful(tinyagent: Tinyagent, api: str) -> tuple[Done, FakeProvider]:
    """A run with parallel calls, waits, a refused prompt, broken arguments and passes of all kinds."""
    names = files(tinyagent, 8, chars=3_600)
    names += [tinyagent.file("ä.txt", text("cjk", 1_500) + "\n").name, "missing.txt"]
    script: list[Scripted] = [
        Say("Three at once.", bash("echo one", "echo two >&2; exit 3", "head -c 300 /dev/zero").calls, "Hm."),
        *reads(names[:5]),
        Say("", (Call("bash", '{"command": "cut'),)),
        *reads(names[5:], said=TALK),
        "Done.",
    ]
    busy = rate_limited(retry_after_ms="100")
    with FakeProvider(script, window=7_000, summaries=[SUMMARY], cached=0.4, faults={2: busy, 5: "cut"}) as server:
        done = tinyagent.run(server, "-s", "context.assume_window=8000", api=api)
    return done, server


@pytest.mark.parametrize("api", MODELS)
def test_replay_prints_every_request_as_the_provider_received_it(tinyagent: Tinyagent, api: str) -> None:
    done, server = eventful(tinyagent, api)
    assert (done.code, done.reason) == (0, "submitted")
    assert {entry["stage"] for entry in done.passes} >= {"elide"}
    assert any(not body.get("tools") for body in server.bodies)
    proven(done, server)
    code, stdout, _ = tinyagent.command("replay", str(done.path), "--check")
    assert code == 0
    assert f"{len(server.requests)} requests" in stdout
    for number, recorded in enumerate(server.requests, 1):
        code, stdout, _ = tinyagent.command("replay", str(done.path), "--request", str(number))
        assert (code, stdout.encode()) == (0, recorded.raw)
    code, _, stderr = tinyagent.command("replay", str(done.path), "--request", str(len(server.requests) + 1))
    assert code != 0
    assert f"the run sent {len(server.requests)}" in stderr


def test_the_document_has_the_promised_form(past: Past) -> None:
    server, document = past.server, past.done.trajectory
    assert document["trajectory_format"] == "tinyagent-1"
    assert document.keys() >= {"info", "messages", "compactions", "requests", "tools", "system"}
    assert document["info"].keys() >= INFO_KEYS
    assert document["info"]["model_stats"].keys() >= TOTAL_KEYS
    assert document["info"]["model_stats"]["cache_read_tokens"] > 0
    assert document["system"] == document["messages"][0]["content"]
    assert all(entry.keys() >= PASS_KEYS for entry in document["compactions"])
    digests = [hashlib.sha256(recorded.raw).hexdigest() for recorded in server.requests]
    assert [request["digest"] for request in document["requests"]] == digests
    assert [request["purpose"] for request in document["requests"]].count("summary") == sum(
        not body.get("tools") for body in server.bodies
    )
    assert all(request.keys() >= {"step", "usage", "cost_usd", "seconds"} for request in document["requests"])


def test_the_messages_are_the_full_history_in_the_form_of_chat_programs(past: Past) -> None:
    done = past.done
    messages: list[Json] = done.trajectory["messages"]
    assert [m["role"] for m in messages[:3]] == ["system", "user", "assistant"]
    assert (messages[1]["content"], messages[1]["extra"]["kind"]) == (TASK, "task")
    assert [m["extra"]["id"] for m in messages] == list(range(len(messages)))
    assert all(isinstance(m["content"], str) for m in messages)
    assert not any("[output elided" in m["content"] for m in messages[1:])
    waiting: list[str] = []
    for message in messages[1:]:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        assert all(isinstance(call["function"]["arguments"], str) for call in message.get("tool_calls", []))
    codes = [m["extra"]["exit_code"] for m in messages if "exit_code" in m["extra"]]
    assert codes[:3] == [0, 3, 0]
    replies = [m for m in messages if m["role"] == "assistant"]
    assert all(m["extra"]["usage"]["output_tokens"] > 0 and m["extra"]["cost_usd"] > 0 for m in replies)
    assert messages[-1]["content"] == done.info["submission"] == "Done."


def test_each_pass_names_what_the_next_request_holds(past: Past) -> None:
    done = past.done
    messages = done.trajectory["messages"]
    for entry in done.passes:
        view = entry["view"]
        assert view[:2] == [0, 1]
        assert view.count(-1) == (entry["summary"] is not None or -1 in view)
        assert len(set(view)) == len(view)
        assert [i for i in view if i >= 0] == sorted(i for i in view if i >= 0)
        assert all(messages[i]["role"] == "tool" for i in entry["elided"])
        assert not set(entry["summarized"] + entry["pruned"]) & set(view)
        assert entry["tokens_after"] < entry["tokens_before"]


def test_an_edited_trajectory_is_found_out_and_the_message_named(past: Past) -> None:
    tinyagent = past.tinyagent
    document = json.loads(past.done.path.read_bytes())
    document["messages"][3]["content"] += " And more."
    path = tinyagent.root / "edited.json"
    path.write_text(json.dumps(document))
    code, stdout, stderr = tinyagent.command("replay", str(path), "--check")
    assert code == 1
    assert "message 3" in stdout + stderr


def test_between_passes_the_requests_only_grow(tinyagent: Tinyagent) -> None:
    """Reasonix PR#238: a prefix that changes in each request doubles the bill."""
    script: list[Scripted] = [*reads(files(tinyagent, 6, chars=3_000)), "Done."]
    with FakeProvider(script) as server:
        tinyagent.run(server, "--context-window", "50000")
    sent = [body["messages"] for body in server.bodies]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(sent))
    assert len({json.dumps(body["tools"]) for body in server.bodies}) == 1


def test_an_eventful_run_can_be_shown_and_exported(past: Past) -> None:
    tinyagent, done = past.tinyagent, past.done
    assert tinyagent.command("show", str(done.path))[0] == 0
    for form in ("native", "atif", "mini", "html"):
        target = tinyagent.root / f"export.{form}"
        assert tinyagent.command("export", str(done.path), "--to", form, "-o", str(target))[0] == 0
        assert TASK in target.read_text("utf-8")
