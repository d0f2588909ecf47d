"""Answers that say the prompt is too long, and look-alikes, in runs whose window is not known.

The corpus of real answers is kept beside the checkout.
"""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bodies import faults, read_body
from tests.e2e.program import TASK, WIRES, Done, Tinyagent, proven
from tests.e2e.scripts import SUMMARY, files, reads
from tests.fake_provider import FakeProvider
from tests.faults import Fault
from tinyagent.core.events import CompactionStarted

Row = dict[str, Any]
CORPUS = Path(__file__).parents[3] / "shared" / "overflow_errors.json"
NATIVE = {"messages": "anthropic"}  # else chat completions
AT = 4  # the request that is refused; three turns are in its history
every_wire = pytest.mark.parametrize("api", WIRES)


def corpus(*, overflow: bool) -> list[Any]:
    """The rows on their own wire; every second overflow on the other one too, as gateways pass foreign errors on."""
    if not CORPUS.exists():
        return [pytest.param(None, "", marks=pytest.mark.skip(reason=f"{CORPUS} is not there"))]
    rows = [row for row in json.loads(CORPUS.read_text("utf-8")) if row["overflow"] == overflow]
    return [
        pytest.param(row, api, id=f"{row['id']}-{api}")
        for number, row in enumerate(rows)
        for api in WIRES
        if api == NATIVE.get(row["api"], "openai") or (overflow and not row["stream"] and number % 2)
    ]


def served(row: Row) -> Fault | str:
    """The row as the fake provider's fault."""
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    if row["kind"] == "stop_reason":
        return "window_exceeded"
    if row["stream"] and isinstance(row["body"], dict):
        return Fault(body=f"data: {body}\n\n", content_type="text/event-stream")
    return Fault(row["status"], body=body, headers={"retry-after-ms": "100"})


def run(
    tinyagent: Tinyagent, refused: dict[int | str, Fault | str], *options: str, api: str
) -> tuple[Done, FakeProvider]:
    script = [*reads(files(tinyagent, AT - 1, chars=3_000)), "Done."]
    with FakeProvider(script, faults=refused, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, *options, api=api)
    assert [fault for body in server.bodies for fault in faults(read_body(body, api))] == []
    proven(done, server)
    return done, server


@pytest.mark.parametrize(("row", "api"), corpus(overflow=True))
def test_an_overflow_is_answered_with_one_retry_of_different_bytes(tinyagent: Tinyagent, row: Row, api: str) -> None:
    """The kind of pi#4943, goose#11318, opencode#27519: a wording that was not known ended or looped the run."""
    done, server = run(tinyagent, {AT: served(row)}, api=api)
    assert (done.code, done.reason, done.stdout) == (0, "submitted", "Done.\n")
    refused, *more = [recorded for recorded in server.requests[AT - 1 :] if recorded.body.get("tools")]
    (retried,) = more
    assert retried.raw != refused.raw
    assert TASK in read_body(retried.body, api).user_text
    caps = [read_body(recorded.body, api).max_output_tokens or 0 for recorded in (refused, retried)]
    starts = done.events(CompactionStarted)
    if row["action"] == "lower_max_tokens":
        assert starts == []
    assert len(starts) == 1 or (starts == [] and caps[1] < caps[0])


@pytest.mark.parametrize(("row", "api"), corpus(overflow=False))
def test_what_only_looks_like_an_overflow_never_compacts(tinyagent: Tinyagent, row: Row, api: str) -> None:
    """pi#1038, opencode#13015: "too many tokens per day" started a pass."""
    done, server = run(tinyagent, {AT: served(row)}, "--time-limit", "4", api=api)
    assert done.events(CompactionStarted) == []
    assert "compacted" not in done.stderr
    histories = [read_body(body, api).items for body in server.bodies[AT - 1 : AT + 1]]
    assert histories[0] == histories[-1]


@every_wire
def test_a_second_overflow_of_the_same_step_ends_the_run_after_exactly_one_retry(
    tinyagent: Tinyagent, api: str
) -> None:
    """docker-agent PR#2235, R43 claude-code 2.1.218: overflow, compact, the same overflow, and so on."""
    refusal = Fault(400, body='{"error": {"message": "prompt is too long", "code": "context_length_exceeded"}}')
    done, server = run(tinyagent, {AT: refusal, AT + 1: refusal}, api=api)
    steps = [body for body in server.bodies if body.get("tools")]
    assert (done.code, done.reason, done.info["retryable"]) == (4, "context_truncated", False)
    assert len(steps) == AT + 1
    assert len({recorded.raw for recorded in server.requests}) == len(server.requests)
    assert "context still exceeds the window after compaction: " in done.stderr
    assert "prompt is too long" in done.info["error"]


def total(prompt: int, output: int, window: int) -> Fault:
    """Anthropic's words for a prompt that fits while prompt and output together do not."""
    figures = f"{prompt} + {output} > {window}"
    text = f"input length and `max_tokens` exceed context limit: {figures}, decrease input length or `max_tokens`"
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    return Fault(400, body=json.dumps(body))


@every_wire
def test_where_only_prompt_and_output_together_are_too_long_the_output_cap_is_lowered_first(
    tinyagent: Tinyagent, api: str
) -> None:
    """continue#6080: 199,759 + 8,192 > 200,000."""
    done, server = run(tinyagent, {AT: total(2_700, 8_192, 10_000)}, api=api)
    bodies = [read_body(body, api) for body in server.bodies]
    assert (done.code, len(bodies)) == (0, AT + 1)
    assert bodies[AT].items == bodies[AT - 1].items
    assert 256 <= (bodies[AT].max_output_tokens or 0) <= 10_000 - 2_700
    assert done.events(CompactionStarted) == []
    assert done.info["context_window"] == {"tokens": 10_000, "source": "learned"}


@every_wire
def test_an_output_cap_that_is_refused_again_leads_to_one_pass_and_then_to_the_end(
    tinyagent: Tinyagent, api: str
) -> None:
    done, server = run(tinyagent, {n: total(2_700, 8_192, 10_000) for n in range(AT, AT + 9)}, api=api)
    assert (done.code, done.reason) == (4, "context_truncated")
    assert len(done.events(CompactionStarted)) == 1
    assert len({recorded.raw for recorded in server.requests}) == len(server.requests)


@every_wire
def test_a_learned_window_is_compacted_against_from_then_on(tinyagent: Tinyagent, api: str) -> None:
    names = files(tinyagent, 12, chars=3_000)
    with FakeProvider([*reads(names), "Done."], window=5_000, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, api=api)
    refused = [recorded for recorded in server.requests if recorded.tokens >= 5_000]
    assert (done.code, len(refused)) == (0, 1)
    assert done.info["context_window"] == {"tokens": 5_000, "source": "learned"}
    assert [entry["reason"] for entry in done.passes][:2] == ["overflow", "budget"]
    proven(done, server)


POOL = {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}
BEGUN = {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "I rea"}}]}
AT_ONCE = Fault(500, {"retry-after-ms": "10"}, json.dumps(POOL))
IN_A_REPLY = Fault(
    200,
    {"retry-after-ms": "10"},
    f"data: {json.dumps(BEGUN)}\n\ndata: {json.dumps(POOL)}\n\n",
    content_type="text/event-stream",
)
ROOMY = ("--context-window", "32000")


@pytest.mark.parametrize("refusal", [AT_ONCE, IN_A_REPLY], ids=["at once", "in a reply"])
def test_a_pool_that_other_slots_fill_is_waited_for(tinyagent: Tinyagent, refusal: Fault) -> None:
    """Measured, llama.cpp b11549: with 838 of 2,048 tokens, as all slots share one pool."""
    done, server = run(tinyagent, {AT: refusal, AT + 1: refusal}, *ROOMY, api="openai")
    assert (done.code, done.stdout) == (0, "Done.\n")
    assert done.events(CompactionStarted) == []
    assert len({recorded.raw for recorded in server.requests[AT - 1 :]}) == 1
    assert len(server.requests) == AT + 2
    assert done.info["context_window"] == {"tokens": 32_000, "source": "configured"}


def test_a_pool_that_stays_full_is_an_overflow_in_the_end(tinyagent: Tinyagent) -> None:
    done, server = run(tinyagent, {n: AT_ONCE for n in range(AT, 99)}, *ROOMY, api="openai")
    assert (done.code, done.reason) == (4, "context_truncated")
    assert len(done.events(CompactionStarted)) == 1
    steps = [recorded.raw for recorded in server.requests[AT - 1 :] if recorded.body.get("tools")]
    assert [len(list(same)) for _, same in groupby(steps)] == [6, 6]


def test_the_same_words_are_an_overflow_where_no_window_is_known(tinyagent: Tinyagent) -> None:
    done, server = run(tinyagent, {AT: AT_ONCE}, api="openai")
    assert (done.code, len(done.events(CompactionStarted))) == (0, 1)
    assert len({recorded.raw for recorded in server.requests}) == len(server.requests)
