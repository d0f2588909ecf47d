"""What servers report of a request's size, false or not at all, and what a run makes of it."""

import pytest

from tests.e2e.program import WIRES, Tinyagent, proven
from tests.e2e.scripts import SUMMARY, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Count
from tests.faults import Fault
from tests.generators import text
from tinyagent.core.events import ModelCalled

WINDOW = 8_000
SMALL = ("--context-window", str(WINDOW))
every_wire = pytest.mark.parametrize("api", WIRES)

UNTRUE: dict[str, Fault | str] = {
    "none": "no_usage",
    "zero": "zero_usage",
    "nonsense": "nonsense_usage",
    "a tenth": Fault(count=lambda count: Count(count.prompt // 10, count.output)),
    "always 700": Fault(count=lambda count: Count(700, count.output)),
    "output only": Fault(count=lambda count: Count(0, count.output)),
}


def script(tinyagent: Tinyagent, number: int) -> list[Scripted]:
    return [*reads(files(tinyagent, number, chars=3_600)), "Done."]


@every_wire
@pytest.mark.parametrize("usage", UNTRUE)
def test_whatever_usage_is_reported_the_requests_fit(tinyagent: Tinyagent, usage: str, api: str) -> None:
    """opencode#37871: total = 0 gave 104 compactions; ollama and others report nothing."""
    with FakeProvider(script(tinyagent, 12), window=WINDOW, faults={"all": UNTRUE[usage]}) as server:
        done = tinyagent.run(server, *SMALL, "-s", "context.stages=[elide,prune]", api=api)
    assert (done.code, done.reason) == (0, "submitted")
    assert max(recorded.tokens for recorded in server.requests) < WINDOW
    assert [entry["reason"] for entry in done.passes].count("overflow") == 0
    assert 1 <= len(done.passes) <= 3
    proven(done, server)


@every_wire
@pytest.mark.parametrize("tokens", [1_000, 2_000, 3_000])
def test_a_server_that_always_reports_the_same_is_not_taken_for_one_that_cuts(
    tinyagent: Tinyagent, tokens: int, api: str
) -> None:
    always = Fault(count=lambda count: Count(tokens, count.output))
    with FakeProvider(script(tinyagent, 12), faults={"all": always}) as server:
        done = tinyagent.run(server, "--context-window", "20000", "-s", "context.stages=[elide,prune]", api=api)
    assert (done.code, done.reason) == (0, "submitted")
    assert done.info["context_window"] == {"tokens": 20_000, "source": "configured"}
    assert len(done.passes) <= 1
    assert "the estimate stands" in done.stderr


@every_wire
def test_a_proxy_that_counts_four_characters_as_a_token_is_not_taken_for_one_that_cuts(
    tinyagent: Tinyagent, api: str
) -> None:
    """The kind of CherryHQ#18351: a count far under the estimate, here of base64."""
    script: list[Scripted] = [*reads(files(tinyagent, 6, chars=3_600, kind="base64")), "Done."]
    with FakeProvider(script) as server:

        def quarter(count: Count) -> Count:
            return Count(len(server.requests[-1].raw) // 4, count.output)

        server.faults["all"] = Fault(count=quarter)
        done = tinyagent.run(server, "--context-window", "40000", api=api)
    assert (done.code, done.passes) == (0, [])
    assert "cut prompts in silence" not in done.stderr


@every_wire
@pytest.mark.parametrize("usage", ["none", "zero"])
def test_usage_that_is_not_reported_is_charged_by_the_estimate(tinyagent: Tinyagent, usage: str, api: str) -> None:
    """R41: never silently 0."""
    with FakeProvider(script(tinyagent, 2), faults={"all": UNTRUE[usage]}) as server:
        done = tinyagent.run(server, *SMALL, api=api)
    calls = done.events(ModelCalled)
    assert all(call.estimated and (call.cost_usd or 0) > 0 for call in calls)
    assert done.info["model_stats"]["input_tokens"] >= sum(recorded.tokens for recorded in server.requests)


@every_wire
@pytest.mark.parametrize("configured", [True, False])
def test_a_server_that_cuts_silently_is_found_out_and_named(tinyagent: Tinyagent, configured: bool, api: str) -> None:
    """R46 ollama#18107, hermes-agent#43900: a window of 4,096, and about half of it reported for any larger prompt."""
    options = ("--context-window", "16384") if configured else ()
    with FakeProvider(
        script(tinyagent, 9), window=4_096, faults={"all": "silent_truncation"}, summaries=[SUMMARY]
    ) as server:
        done = tinyagent.run(server, *options, api=api)
    assert (done.code, done.reason) == (0, "submitted")
    over = [recorded for recorded in server.requests if recorded.tokens > 4_096]
    assert len(over) <= 2
    assert "it seems to cut prompts in silence" in done.stderr
    assert done.passes[0]["reason"] == "overflow"
    proven(done, server)


@every_wire
def test_an_empty_answer_at_a_full_window_is_an_overflow_too(tinyagent: Tinyagent, api: str) -> None:
    late = ("-s", "context.trigger_ratio=0.95")
    script: list[Scripted] = [*reads(files(tinyagent, 15, chars=1_600)), "Done."]
    with FakeProvider(script, faults={13: "empty_reply"}, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, *SMALL, *late, api=api, task=text("prose", 8_000))
    assert (done.code, done.reason) == (0, "submitted")
    assert "the answer is empty at" in done.stderr
    assert [entry["reason"] for entry in done.passes] == ["overflow"]


@every_wire
def test_usage_from_before_a_pass_starts_no_second_one(tinyagent: Tinyagent, api: str) -> None:
    """pi#1860, codex#31834: what was reported before the pass triggered another one at once."""
    with FakeProvider(script(tinyagent, 9)) as server:
        done = tinyagent.run(server, *SMALL, api=api)
    (record,) = done.passes
    assert record["first_usage_after"]["input_tokens"] < 0.6 * WINDOW
    assert done.info["model_stats"]["steps"] > record["step"]
