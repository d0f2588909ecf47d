"""Limits of a whole run: money, steps, time. A limit is checked against the worst case before anything is sent."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.bodies import Json, read_body
from tests.e2e.processes import all_dead
from tests.e2e.program import WIRES, Tinyagent
from tests.e2e.scripts import bash, files, read
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_servers import text_tokens
from tests.fake_wires import Call, Count, Say
from tests.faults import Fault, rate_limited
from tests.generators import text
from tinyagent.core.events import ModelCalled

every_wire = pytest.mark.parametrize("api", WIRES)
MTOK = 1_000_000


@dataclass(frozen=True)
class Tariff:
    """What the provider charges, in dollars per million tokens."""

    input: float
    output: float

    @property
    def options(self) -> tuple[str, ...]:
        prices = f"prices.input_usd_per_mtok={self.input}", f"prices.output_usd_per_mtok={self.output}"
        return ("-s", prices[0], "-s", prices[1])

    def bill(self, count: Count) -> float:
        return (count.prompt * self.input + count.output * self.output) / MTOK


class Till:
    """A provider that makes replies of any length up to the asked cap, and keeps the bill."""

    def __init__(self, tariff: Tariff, api: str, rng: random.Random) -> None:
        self.tariff, self.api, self.rng = tariff, api, rng
        self.spent = 0.0
        self._cap = 0
        self._steps = 0

    def reply(self, body: Json) -> Say:
        self._steps += 1
        asked = read_body(body, self.api)
        self._cap = asked.max_output_tokens or 0
        if "task" not in asked.tools and self.rng.random() < 0.3:
            return Say("Found.")
        if "task" in asked.tools and self.rng.random() < 0.1:
            return Say("", (Call("task", {"prompt": f"Look for {self._steps}."}),))
        said = text("prose", self.rng.randrange(300), self._steps)
        return read(f"f{1 + self._steps % 6}.txt", f"{self._steps} {said}")

    def charge(self, count: Count) -> Count:
        """The usage that is reported and charged: hidden reasoning may fill up the whole cap."""
        most = max(count.output, self._cap)
        output = self.rng.choice((count.output, self.rng.randint(count.output, most), most))
        charged = Count(count.prompt, output, int(count.prompt * self.rng.random()))
        self.spent += self.tariff.bill(charged)
        return charged


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), api=st.sampled_from(WIRES))
def test_a_cost_limit_is_never_passed_whatever_the_provider_charges(
    tmp_path_factory: pytest.TempPathFactory, seed: int, api: str
) -> None:
    """mini-swe-agent, OpenHands SDK#3703: checked afterwards, so always passed by one call. R65: by a sub-agent's."""
    rng = random.Random(seed)
    tinyagent = Tinyagent(tmp_path_factory.mktemp("limit"))
    files(tinyagent, 6, chars=rng.randrange(100, 4_000), kind=rng.choice(("prose", "code", "cjk", "base64")))
    till = Till(Tariff(rng.choice((0.5, 3, 15)), rng.choice((0, 4, 15, 75))), api, rng)
    busy = rate_limited(retry_after_ms="100")
    wrong: dict[int | str, Fault | str] = {n: busy for n in range(1, 40) if rng.random() < 0.1}
    limit = rng.choice((0.02, 0.05, 0.2))
    with FakeProvider([till.reply], faults={"all": Fault(count=till.charge)} | wrong) as server:
        done = tinyagent.run(
            server, *till.tariff.options, "--cost-limit", str(limit), "--context-window", "24000", api=api, priced=False
        )
    assert till.spent <= limit
    assert done.info["model_stats"]["instance_cost"] == pytest.approx(till.spent)
    assert done.info["model_stats"]["api_calls"] == len(server.requests)
    assert (done.code, done.reason) == (3, "cost_limit")


@every_wire
def test_the_output_cap_is_lowered_to_what_the_money_still_pays_for(tinyagent: Tinyagent, api: str) -> None:
    till = Till(Tariff(3, 15), api, random.Random(1))
    files(tinyagent, 6, chars=500)
    with FakeProvider([till.reply], faults={"all": Fault(count=till.charge)}) as server:
        done = tinyagent.run(server, "--cost-limit", "0.2", "--context-window", "128000", api=api)
    caps = [read_body(body, api).max_output_tokens or 0 for body in server.bodies]
    assert done.reason == "cost_limit"
    assert caps[0] < 0.2 / 15 * MTOK  # a cap of 32,000 alone would cost $0.48
    assert min(caps) >= 256
    assert 0.15 < till.spent <= 0.2
    assert "cost limit of $0.2" in done.stderr


@every_wire
@pytest.mark.parametrize("frames", [2, 30, 200])
def test_a_stream_that_is_cut_is_charged_for_what_was_sent(tinyagent: Tinyagent, frames: int, api: str) -> None:
    """R65: cost lost in a retry."""
    long = text("code", 6_000)
    tariff = Tariff(1, 100)
    with FakeProvider([Say(long)], faults={1: Fault(cut_after=frames)}) as server:
        done = tinyagent.run(server, *tariff.options, "--context-window", "40000", api=api, priced=False)
    made = text_tokens(long[: 12 * (frames - 3)]) if frames > 3 else 0
    assert (done.code, len(server.requests)) == (0, 2)
    cut, whole = done.events(ModelCalled)
    assert cut.error.startswith("stream_cut")
    assert cut.cost_usd is not None
    assert cut.cost_usd >= tariff.bill(Count(server.requests[0].tokens, made))
    assert whole.usage is not None
    assert done.info["model_stats"]["instance_cost"] == pytest.approx((cut.cost_usd or 0) + (whole.cost_usd or 0))


@every_wire
def test_a_retry_that_the_money_may_not_pay_for_is_not_made(tinyagent: Tinyagent, api: str) -> None:
    tariff = Tariff(100, 10)
    with FakeProvider([Say("x" * 4_000)], faults={"all": Fault(cut_after=20)}) as server:
        done = tinyagent.run(
            server, *tariff.options, "--cost-limit", "0.3", "--context-window", "40000", api=api, priced=False
        )
    spent = sum(tariff.bill(Count(recorded.tokens, 100)) for recorded in server.requests)
    assert (done.code, done.reason, len(server.requests)) == (3, "cost_limit", 1)
    assert spent <= 0.3


@every_wire
def test_a_limit_under_the_first_request_is_told_before_it(tinyagent: Tinyagent, api: str) -> None:
    with FakeProvider() as server:
        done = tinyagent.run(server, "--cost-limit", "0.001", api=api)
        assert server.requests == []
    assert (done.code, done.reason, done.info["model_stats"]["instance_cost"]) == (3, "cost_limit", 0.0)
    assert "the next request could cost $" in done.stderr


@pytest.mark.parametrize("name", ["--cost-limit", "--max-budget-usd"])
def test_an_unknown_price_is_refused_under_a_limit_and_free_without_one(tinyagent: Tinyagent, name: str) -> None:
    """R64."""
    with FakeProvider([bash("echo x"), "Done."]) as server:
        refused = tinyagent.run(server, name, "0.5", priced=False)
        assert (refused.code, len(server.requests)) == (78, 0)
        free = tinyagent.run(server, name, "0", priced=False)
    assert "prices.input_usd_per_mtok" in refused.stderr
    assert (free.code, free.info["model_stats"]["instance_cost"]) == (0, None)
    assert "cost unknown" in free.stderr


def test_a_local_provider_costs_nothing(tinyagent: Tinyagent) -> None:
    with FakeProvider(["Done."]) as server:
        done = tinyagent.run(server, "--cost-limit", "0.01", api="ollama", priced=False)
    assert (done.code, done.info["model_stats"]["instance_cost"]) == (0, 0.0)


@every_wire
@pytest.mark.parametrize("name", ["--step-limit", "--max-turns"])
def test_a_step_limit_counts_requests_to_the_model(tinyagent: Tinyagent, name: str, api: str) -> None:
    script: list[Scripted] = [*[bash(f"echo {n} >> log") for n in range(1, 9)], "Done."]
    with FakeProvider(script) as server:
        done = tinyagent.run(server, name, "3", api=api)
    assert (done.code, done.reason, len(server.requests)) == (3, "step_limit", 3)
    assert (tinyagent.workspace / "log").read_text() == "1\n2\n3\n"
    assert done.info["model_stats"]["steps"] == 3
    with FakeProvider(script) as server:
        assert tinyagent.run(server, name, "9", api=api).reason == "submitted"  # the limit itself is allowed
        assert tinyagent.run(server, name, "0", api=api).reason == "submitted"


def test_a_limit_of_0_is_off(tinyagent: Tinyagent) -> None:
    with FakeProvider([bash("echo x"), "Done."]) as server:
        done = tinyagent.run(server, "--cost-limit", "0", "--step-limit", "0", "--time-limit", "0", priced=False)
    assert (done.code, done.reason) == (0, "submitted")


TIMED: dict[str, tuple[list[Scripted], dict[int | str, Fault | str]]] = {
    "a command runs": ([bash("echo $$ >> pids; sleep 71"), "Done."], {}),
    "a request hangs": (["Done."], {1: Fault(first_byte_s=30)}),
    "a stream hangs": (["Done."], {1: Fault(pings=1, silent=True)}),
    "a stream drips": (["Done. " * 100], {1: Fault(frame_s=0.2)}),
}


@every_wire
@pytest.mark.parametrize("name", TIMED)
def test_a_time_limit_holds_also_while(tinyagent: Tinyagent, name: str, api: str) -> None:
    """R67, R38."""
    script, wrong = TIMED[name]
    started = time.monotonic()
    with FakeProvider(script, faults=wrong) as server:
        done = tinyagent.run(server, "--time-limit", "0.6", api=api)
        took = time.monotonic() - started
    assert (done.code, done.reason) == (3, "time_limit")
    assert took < 0.6 + 3
    pids = tinyagent.workspace / "pids"
    assert not pids.exists() or all_dead([int(line) for line in pids.read_text().split()])


@every_wire
def test_a_wait_that_the_time_limit_does_not_allow_is_not_begun(tinyagent: Tinyagent, api: str) -> None:
    """The provider is to blame, so a wrapper may try again."""
    busy = Fault(529, {"retry-after": "30"}, '{"error": {"message": "Overloaded"}}')
    started = time.monotonic()
    with FakeProvider(["Done."], faults={"all": busy}) as server:
        done = tinyagent.run(server, "--time-limit", "5", api=api)
    assert (done.code, done.reason, done.info["retryable"]) == (75, "transient_provider_error", True)
    assert "no time is left to wait 3" in done.stderr
    assert time.monotonic() - started < 4


def test_a_command_that_the_time_limit_ends_is_on_record(tinyagent: Tinyagent) -> None:
    with FakeProvider([bash("echo begun; sleep 71"), "Done."]) as server:
        done = tinyagent.run(server, "--time-limit", "1.5")
    result = done.trajectory["messages"][-1]
    assert result["role"] == "tool"
    assert result["content"].startswith("begun\n")
    assert "the run's time limit is reached" in result["content"]


def test_a_resumed_run_goes_on_with_the_money_that_was_spent(tinyagent: Tinyagent, tmp_path: Path) -> None:
    till = Till(Tariff(3, 15), "openai", random.Random(2))
    files(tinyagent, 6, chars=500)
    with FakeProvider([till.reply], faults={"all": Fault(count=till.charge)}) as server:
        first = tinyagent.run(server, "--cost-limit", "0.1", "--context-window", "30000")
        again = tinyagent.run(server, "-r", "latest", "--cost-limit", "0.1", task=None)
        more = tinyagent.run(server, "-r", "latest", "--cost-limit", "0.2", task=None)
    assert (first.reason, again.reason, more.reason) == ("cost_limit", "cost_limit", "cost_limit")
    assert again.info["model_stats"]["instance_cost"] <= 0.1
    assert 0.1 < till.spent <= 0.2
