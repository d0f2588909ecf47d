"""The context window in whole runs: the ladder's rungs, the off switch, the unknown window. Windows of 8,000 tokens."""

import re
from itertools import pairwise

import pytest

from tests.e2e.bodies import Json, faults, read_body
from tests.e2e.program import TASK, WIRES, Done, Tinyagent, proven
from tests.e2e.scripts import SUMMARY, bash, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.generators import text
from tinyagent.core.events import ModelCalled

WINDOW = 8_000
SMALL = ("--context-window", str(WINDOW))
PASS_LINE = re.compile(r"^compacted context: ~[\d,]+ (?:→|->) ~[\d,]+ tokens \((.+)\)$", re.M)
every_wire = pytest.mark.parametrize("api", WIRES)

# Replies too long for eliding to be enough: nothing but a summary or pruning makes room.
TALK = text("prose", 3_500, 7)


def run(
    tinyagent: Tinyagent, script: list[Scripted], *options: str, api: str, model: str | None = None
) -> tuple[Done, FakeProvider]:
    """A run to its end; every request that it sent was legal, and can be made again from the record."""
    with FakeProvider(script, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, *SMALL, *options, api=api, model=model)
    assert [fault for body in server.bodies for fault in faults(read_body(body, api))] == []
    proven(done, server)
    return done, server


def talks(tinyagent: Tinyagent, number: int) -> list[Scripted]:
    names = files(tinyagent, number, chars=300)
    return [*reads(names, said=TALK), "Done."]


@every_wire
def test_over_80_percent_old_outputs_are_elided_and_nothing_else_changes(tinyagent: Tinyagent, api: str) -> None:
    """Reasonix PR#238, stella#4381: in one go, and near the trigger. goose#11049: the configured window wins."""
    script: list[Scripted] = [*reads(files(tinyagent, 9, chars=3_600)), "Done."]
    done, server = run(tinyagent, script, api=api, model=f"{api}/gpt-4.1")
    sent = [read_body(body, api) for body in server.bodies]
    assert (done.code, done.reason, len(done.passes)) == (0, "submitted", 1)
    number = done.passes[0]["step"]
    before, after = sent[number - 2], sent[number - 1]
    assert (after.system, after.tools, after.items[0]) == (sent[0].system, sent[0].tools, sent[0].items[0])
    assert after.items[-4:-2] == before.items[-2:]  # the last turn but one, word for word
    assert after.results[-1].startswith("[f")
    elided = [result for result in after.results if result.startswith("[output elided: ")]
    assert re.match(r'\[output elided: \d+ chars\] read_output\("m3"\) ', elided[0])
    assert len(elided) == len(done.passes[0]["elided"]) > 2
    assert all(body.tools for body in sent)
    assert PASS_LINE.findall(done.stderr) == [f"elided {len(elided)} tool outputs"]


@every_wire
def test_what_was_elided_is_whole_in_the_trajectory_and_can_be_read_again(tinyagent: Tinyagent, api: str) -> None:
    again = Say("", (Call("read_output", {"id": "m3"}),))
    script: list[Scripted] = [*reads(files(tinyagent, 9, chars=3_600)), again, "Done."]
    done, server = run(tinyagent, script, api=api)
    (record,) = done.passes
    first = read_body(server.bodies[1], api).results[0]
    assert record["elided"][0] == 3
    assert done.trajectory["messages"][3]["content"] == first
    assert first[:2_000] in read_body(server.bodies[-1], api).results[-1]
    assert (record["reason"], record["stage"], record["view"][0]) == ("budget", "elide", 0)
    assert record["tokens_before"] > 0.8 * WINDOW >= record["tokens_after"]


@every_wire
def test_a_summary_is_one_request_without_tools_and_keeps_the_newest_batch_whole(
    tinyagent: Tinyagent, api: str
) -> None:
    """kcode#1053: a cut inside a parallel batch bricked the session."""
    names = files(tinyagent, 7, chars=300)
    batch = bash("echo one", "echo two", "echo three")
    script: list[Scripted] = [*reads(names, said=TALK), batch, *reads(names[:1], said=TALK), "Done."]
    done, server = run(tinyagent, script, api=api)
    sent = [read_body(body, api) for body in server.bodies]
    (number,) = [number for number, body in enumerate(sent) if not body.tools]
    after = sent[number + 1]
    assert after.items[0].text.startswith(TASK)
    assert "[summary of earlier work]" in after.user_text
    assert SUMMARY in after.user_text
    assert (after.system, after.tools) == (sent[0].system, sent[0].tools)
    at = next(i for i, item in enumerate(after.items) if len(item.calls) == 3)
    assert [item.role for item in after.items[at : at + 4]] == ["assistant", "result", "result", "result"]
    assert [item.calls[0] for item in after.items[at + 1 : at + 4]] == list(after.items[at].calls)
    assert re.fullmatch(r"summarized \d+ messages", PASS_LINE.findall(done.stderr)[0])


@every_wire
def test_totals_contain_the_summary_and_steps_do_not(tinyagent: Tinyagent, api: str) -> None:
    """openai-agents-python#4434: 1,800 tokens reported, 192,000 used."""
    done, server = run(tinyagent, talks(tinyagent, 12), api=api)
    calls = done.events(ModelCalled)
    totals = done.info["model_stats"]
    (record,) = done.passes
    assert [call.purpose for call in calls].count("summary") == 1
    assert (totals["api_calls"], totals["steps"]) == (len(server.requests), len(server.requests) - 1)
    assert totals["input_tokens"] == sum(recorded.tokens for recorded in server.requests)
    assert totals["instance_cost"] == pytest.approx(sum(call.cost_usd or 0 for call in calls))
    summary = next(call for call in calls if call.purpose == "summary")
    assert record["summary_cost_usd"] == pytest.approx(summary.cost_usd)
    assert record["summary_usage"]["input_tokens"] > 3_000


@every_wire
def test_a_summary_that_uses_up_the_money_stops_the_run_right_there(tinyagent: Tinyagent, api: str) -> None:
    """hermes PR#60758: the budget ignored what summaries cost."""
    dear = ("-s", "prices.input_usd_per_mtok=0.1", "-s", "prices.output_usd_per_mtok=1000", "--cost-limit", "8")

    def takes_all(body: Json) -> Say:
        words = read_body(body, api).max_output_tokens or 0
        return Say(SUMMARY, reasoning="think " * (words - 120))

    with FakeProvider(talks(tinyagent, 14), summaries=[takes_all]) as server:
        done = tinyagent.run(server, *SMALL, *dear, api=api, priced=False)
    assert (done.code, done.reason) == (3, "cost_limit")
    assert not server.bodies[-1].get("tools")
    assert done.events(ModelCalled)[-1].purpose == "summary"
    assert 7.7 < done.info["model_stats"]["instance_cost"] <= 8


@every_wire
def test_pruning_drops_whole_turns_and_the_same_log_gives_the_same_requests(tinyagent: Tinyagent, api: str) -> None:
    script = talks(tinyagent, 14)
    prune = ("-s", "context.stages=[prune]")
    first, one = run(tinyagent, script, *prune, api=api)
    second, two = run(tinyagent, script, *prune, api=api)
    assert [recorded.raw for recorded in one.requests] == [recorded.raw for recorded in two.requests]
    assert [entry["view"] for entry in first.passes] == [entry["view"] for entry in second.passes] != []
    record = first.passes[0]
    messages = first.trajectory["messages"]
    assert [messages[i]["role"] for i in record["pruned"]] == ["assistant", "tool"] * record["pruned_turns"]
    after = read_body(one.bodies[record["step"] - 1], api)
    newest = read_body(one.bodies[record["step"] - 2], api).items[-1]
    assert after.items[0].text.startswith(TASK)
    assert newest in after.items
    assert re.fullmatch(r"pruned \d+ turns", PASS_LINE.findall(first.stderr)[0])


@every_wire
def test_no_compact_sends_exactly_the_full_history_and_ends_at_the_overflow(tinyagent: Tinyagent, api: str) -> None:
    """opencode#16882, RooCode#7811: off means off on every path."""
    script: list[Scripted] = [*reads(files(tinyagent, 14, chars=3_600)), "Done."]
    with FakeProvider(script, window=WINDOW) as server:
        done = tinyagent.run(server, *SMALL, "--no-compact", api=api)
    sent = [read_body(body, api) for body in server.bodies]
    assert all(later.items[: len(earlier.items)] == earlier.items for earlier, later in pairwise(sent))
    assert server.requests[-1].tokens >= WINDOW
    assert (done.code, done.reason, done.info["retryable"]) == (4, "context_truncated", False)
    assert "compaction is off" in done.stderr
    assert "compacted" not in done.stderr
    assert "compactions" not in done.trajectory
    proven(done, server)


@every_wire
def test_with_an_unknown_window_no_pass_is_made(tinyagent: Tinyagent, api: str) -> None:
    """xagent#2483: a default of 32k for unknown models led to 145 compactions."""
    script: list[Scripted] = [*reads(files(tinyagent, 9, chars=3_600)), "Done."]
    with FakeProvider(script) as server:
        done = tinyagent.run(server, api=api)
    assert (done.code, done.passes) == (0, [])
    assert done.info["context_window"] == {"tokens": None, "source": "unknown"}
    assert server.requests[-1].tokens > 6_400


@every_wire
def test_a_window_that_is_assumed_is_compacted_against(tinyagent: Tinyagent, api: str) -> None:
    script: list[Scripted] = [*reads(files(tinyagent, 9, chars=3_600)), "Done."]
    with FakeProvider(script, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "-s", "context.assume_window=8000", api=api)
    assert done.code == 0
    assert done.passes != []
    assert done.info["context_window"] == {"tokens": 8000, "source": "assumed"}
    assert max(recorded.tokens for recorded in server.requests) < 8000


def test_a_summary_may_be_asked_of_a_smaller_model_of_another_provider(tinyagent: Tinyagent) -> None:
    """letta#3279: the summariser's own window and price count."""
    with FakeProvider(talks(tinyagent, 12)) as server, FakeProvider([SUMMARY]) as other:
        done = tinyagent.run(
            server,
            *SMALL,
            "-s",
            "context.summary_model=anthropic/claude-haiku-4-5",
            environ={"ANTHROPIC_BASE_URL": other.url},
        )
        (asked,) = other.requests
    (call,) = [call for call in done.events(ModelCalled) if call.purpose == "summary"]
    assert (done.code, len(done.passes)) == (0, 1)
    assert asked.body["model"] == "claude-haiku-4-5"
    assert all(body.get("tools") for body in server.bodies)
    assert call.usage is not None
    assert call.cost_usd == pytest.approx(asked.tokens * 1e-6 + call.usage.output_tokens * 5e-6)
    assert tinyagent.command("replay", str(done.path), "--check")[0] == 0
    number = [request["purpose"] for request in done.trajectory["requests"]].index("summary") + 1
    assert tinyagent.command("replay", str(done.path), "--request", str(number))[1].encode() == asked.raw


@every_wire
def test_the_prefix_form_of_a_summary_uses_what_the_provider_has_cached(tinyagent: Tinyagent, api: str) -> None:
    roomy = ("context.summary_form=prefix", "context.trigger_ratio=0.6", "context.summary_max_tokens=600")
    options = [word for setting in roomy for word in ("-s", setting)]
    script: list[Scripted] = [*reads(files(tinyagent, 6, chars=300), said=TALK), SUMMARY, "Done."]
    with FakeProvider(script) as server:
        done = tinyagent.run(server, *SMALL, *options, api=api)
    purposes = [call.purpose for call in done.events(ModelCalled)]
    at = purposes.index("summary")
    before, asked = read_body(server.bodies[at - 1], api), read_body(server.bodies[at], api)
    assert (done.code, len(done.passes), purposes.count("summary")) == (0, 1, 1)
    assert (asked.system, asked.tools) == (before.system, before.tools)
    assert asked.items[: len(before.items)] == before.items
    assert faults(asked) == []
    proven(done, server)
