"""Summaries that cannot be used: the next rung is taken, what was there stays, and everything is booked."""

from itertools import pairwise

import pytest

from tests.e2e.bodies import faults, read_body
from tests.e2e.program import TASK, WIRES, Done, Tinyagent, proven
from tests.e2e.scripts import SUMMARY, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.faults import Fault, error
from tests.generators import text
from tinyagent.core.events import ModelCalled

SMALL = ("--context-window", "5000")
TALK = text("prose", 2_400, 7)  # too much for eliding alone
OVERFLOW = error(400, "prompt is too long: 9000 tokens > 5000 maximum", "invalid_request_error")
REPEATED = ("slow", "cut stream", "server error", "not JSON")  # as long as there is time
every_wire = pytest.mark.parametrize("api", WIRES)

BAD: dict[str, tuple[Say, str]] = {
    "empty": (Say(""), "empty"),
    "blank": (Say(" \n "), "empty"),
    "only reasoning": (Say(reasoning="I should sum this up."), "only reasoning"),
    "a tool call": (Say(SUMMARY, (Call("bash", {"command": "touch MARK"}),)), "it called a tool"),
    "cut off": (Say(SUMMARY, finish="length"), "cut off"),
    "refused": (Say("I cannot help with that.", finish="content_filter"), "refused"),
    "no headings": (Say("All went well, go on."), "the headings are missing"),
    "headings alone": (Say("## Task\n## Constraints\n## Progress so far\n## Next steps\n"), "missing or empty"),
    "too long": (Say(SUMMARY + "\n" + text("prose", 30_000)), "too long"),
}
FAILED: dict[str, Fault | str] = {
    "overflow": OVERFLOW,
    "slow": Fault(first_byte_s=5.0),
    "cut stream": "cut",
    "server error": "server_error",
    "quota": "quota",
    "not JSON": "not_json",
}


def run(
    tinyagent: Tinyagent,
    *options: str,
    api: str,
    turns: int = 7,
    summary: Scripted = SUMMARY,
    fault: Fault | str | None = None,
) -> tuple[Done, FakeProvider]:
    script: list[Scripted] = [*reads(files(tinyagent, turns, chars=300), said=TALK), "Done."]
    wrong: dict[int | str, Fault | str] = {} if fault is None else {"summary": fault}
    with FakeProvider(script, summaries=[summary], faults=wrong) as server:
        done = tinyagent.run(server, *SMALL, *options, api=api)
    assert [fault for body in server.bodies for fault in faults(read_body(body, api))] == []
    proven(done, server)
    return done, server


def summary_requests(server: FakeProvider) -> list[bytes]:
    return [recorded.raw for recorded in server.requests if not recorded.body.get("tools")]


@every_wire
@pytest.mark.parametrize("name", BAD)
def test_a_summary_that_is_no_good_leads_to_the_next_rung(tinyagent: Tinyagent, name: str, api: str) -> None:
    """senpi#1067, openclaw#120663, oh-my-pi#6093, opencode#30834, gemini-cli#5432."""
    reply, why = BAD[name]
    done, server = run(tinyagent, api=api, summary=reply)
    asked = summary_requests(server)
    (record,) = done.passes
    assert (done.code, done.reason, record["stage"]) == (0, "submitted", "prune")
    assert 1 <= len(asked) == len(set(asked)) <= 2  # kcode PR#836: never the same bytes again
    assert [a["rejected"] for a in record["attempts"] if a["stage"] == "summarize" and why in a["rejected"]] != []
    calls = done.events(ModelCalled)
    assert record["summary_cost_usd"] == sum(call.cost_usd or 0 for call in calls if call.purpose == "summary") > 0
    assert done.info["model_stats"]["input_tokens"] == sum(recorded.tokens for recorded in server.requests)
    after = read_body(server.bodies[-1], api)
    assert TASK in after.user_text
    assert not reply.text.strip() or reply.text.strip() not in after.user_text
    assert not (tinyagent.workspace / "MARK").exists()


@every_wire
@pytest.mark.parametrize("name", FAILED)
def test_a_summary_that_fails_leads_to_the_next_rung(tinyagent: Tinyagent, name: str, api: str) -> None:
    """codex#18572: the summary overflowed itself. lossless-claw#711: it hung for 20 minutes. agenc-core#2497: 290 $."""
    patience = ("-s", "context.summary_time_limit=0.5") if name in REPEATED else ()
    done, server = run(tinyagent, *patience, api=api, fault=FAILED[name])
    asked = summary_requests(server)
    (record,) = done.passes
    assert (done.code, done.reason, record["stage"]) == (0, "submitted", "prune")
    if name == "overflow":
        assert len(asked) == len(set(asked)) == 2
    assert record["summary"].startswith("[summary of earlier work]")
    assert done.info["model_stats"]["api_calls"] == len(server.requests)


@every_wire
def test_without_a_further_rung_a_bad_summary_changes_nothing(tinyagent: Tinyagent, api: str) -> None:
    """hermes#79391, ORG2 PR#341: a failed pass lost or cut the history."""
    only = ("-s", "context.stages=[elide,summarize]")
    done, server = run(tinyagent, *only, api=api, turns=10, summary="No.")
    steps = [read_body(body, api) for body in server.bodies if body.get("tools")]
    assert all(later.items[: len(earlier.items)] == earlier.items for earlier, later in pairwise(steps))
    assert (done.code, done.reason, done.passes) == (4, "context_truncated", [])
    assert "context still exceeds the window after compaction" in done.stderr


@every_wire
def test_a_second_summary_updates_the_first(tinyagent: Tinyagent, api: str) -> None:
    """opencrabs#1649, openclaw PR#127997: the old summary is always an input, and is not summarised again."""
    first = SUMMARY.replace("None yet.", "The identifier is 4f2a9c.")
    script: list[Scripted] = [*reads(files(tinyagent, 13, chars=300), said=TALK), "Done."]
    with FakeProvider(script, summaries=[first, SUMMARY]) as server:
        done = tinyagent.run(server, *SMALL, api=api)
    asked = [read_body(body, api).user_text for body in server.bodies if not body.get("tools")]
    assert (done.code, len(asked)) == (0, 2)
    assert "4f2a9c" in asked[1]
    last = read_body(server.bodies[-1], api).user_text
    assert last.count("[summary of earlier work]") == 1
    proven(done, server)
