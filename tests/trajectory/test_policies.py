"""`tinyagent replay --policy`: the table, the JSON object, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import World, say, turn
from tests.trajectory.files import write_journal
from tinyagent.cli.replay import replay
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.config import UsageError
from tinyagent.core.errors import ConfigError

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of 21 requests in a window of 8,000 tokens that only pruned; its prices are not known."""
    world = World(
        [*(turn(f"{n} " * 900) for n in range(20)), say()], window=8_000, policy=ContextPolicy(stages=("prune",))
    )
    world.execute()
    folder: Path = tmp_path_factory.mktemp("runs") / "run"
    write_journal(folder, world.records)
    return str(folder)


def test_each_policy_is_a_row_beside_the_run_as_it_was(folder: str, capsys: Capture) -> None:
    replay(folder, policy=["none", "prune"])
    heads, recorded, none, prune, *notes = capsys.readouterr().out.splitlines()
    assert heads.split() == ["POLICY", "REQUESTS", "PASSES", "INPUT", "CACHED", "COST", "LARGEST", "TOO", "LARGE"]
    assert recorded.split()[2:] == prune.split()[1:]
    assert none.split()[:3] == ["none", "21", "0"]
    assert notes[0].startswith("Costs in plain input tokens")
    assert "The replies are those on record" in notes[-1]


def test_window_and_settings_can_be_varied(folder: str, capsys: Capture) -> None:
    largest: list[int] = []
    for window, ratio in ((8_000, "0.9"), (8_000, "0.55"), (80_000, "0.9")):
        varied = [f"context.trigger_ratio={ratio}"]
        replay(folder, policy=["default"], window=window, assignments=varied, as_json=True)
        largest.append(json.loads(capsys.readouterr().out)["policies"]["default"]["largest"])
    assert largest[1] < largest[0] < 8_000 < largest[2]


def test_the_json_object_says_in_what_costs_are(folder: str, capsys: Capture) -> None:
    replay(folder, policy=["elide"], as_json=True)
    value = json.loads(capsys.readouterr().out)
    assert set(value) == {"path", "cost_unit", "as_recorded", "policies"}
    assert value["cost_unit"] == "million plain input tokens"
    assert value["as_recorded"]["requests"] == 21


def test_a_policy_that_would_have_ended_the_run_says_where(folder: str, capsys: Capture) -> None:
    replay(folder, policy=["elide"], window=2_000)
    assert "elide: a live run would have ended before step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"policy": ["mask"]}, UsageError, "--policy mask: there is no such policy; choose none, elide, prune"),
        ({"policy": ["none"], "assignments": ["model=x"]}, UsageError, "--set model: only settings of passes"),
        ({"policy": ["none"], "assignments": ["context.summary_model=x"]}, UsageError, "only settings of passes"),
        ({"policy": ["none"], "assignments": ["context.trigger_ratio=2"]}, ConfigError, "trigger_ratio"),
        ({"policy": ["none"], "check": True}, UsageError, "choose one of"),
        ({"check": True, "window": 9}, UsageError, "go with --policy"),
    ],
)
def test_what_makes_no_sense_is_refused(
    folder: str, given: dict[str, Any], error: type[ConfigError], words: str
) -> None:
    with pytest.raises(error, match=words):
        replay(folder, **given)
