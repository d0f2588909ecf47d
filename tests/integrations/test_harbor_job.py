"""What a Harbor trial runs in its container, run here for real, and what is read of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_provider import FakeProvider
from tests.faults import FAULTS, Fault, rate_limited
from tests.trajectory.atif_faults import problems
from tinyagent.integrations.harbor_job import (
    ATIF,
    FOLDER,
    install_command,
    read_stats,
    run_command,
    run_environment,
    write_atif,
)

TASK = "Fix it.\n'quotes' \"and\" $HOME `id` \\ and\nEND_OF_TASK\nend"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with this program where the install command would have put it."""
    program = tmp_path / "home" / FOLDER / "bin" / "tinyagent"
    program.parent.mkdir(parents=True)
    root = Path(__file__).parent.parent.parent
    program.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m tinyagent "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path / "home"


def trial(home: Path, server: FakeProvider, flags: str = "--cost-limit 0") -> "subprocess.CompletedProcess[str]":
    logs = home.parent / "logs"
    logs.mkdir()
    host = {"OPENAI_BASE_URL": server.base_url("openai"), "OPENAI_API_KEY": "key"}
    env = {"PATH": os.environ["PATH"], "HOME": str(home), **run_environment(host, "openai/fake", logs=str(logs))}
    command = run_command(TASK, "openai/fake", f"--api openai --context-window 30000 {flags}", logs=str(logs))
    return subprocess.run(["bash", "-c", command], cwd=home, env=env, capture_output=True, text=True, check=False)


def test_the_instruction_arrives_as_it_is_and_the_answer_is_in_the_log(home: Path) -> None:
    with FakeProvider(["All done."]) as server:
        done = trial(home, server)
    assert done.returncode == 0
    assert "All done." in done.stdout
    assert TASK in json.dumps(server.bodies[0], ensure_ascii=False).encode().decode("unicode_escape")


def test_tokens_cost_and_end_are_read_from_the_trajectory(home: Path) -> None:
    with FakeProvider(["All done."]) as server:
        trial(home, server, "--cost-limit 1 -s prices.input_usd_per_mtok=1 -s prices.output_usd_per_mtok=1")
    stats = read_stats(home.parent / "logs")
    assert stats is not None
    assert stats["input_tokens"] == server.requests[0].tokens
    assert stats["instance_cost"] == pytest.approx((stats["input_tokens"] + stats["output_tokens"]) / 1e6)
    assert (stats["exit_status"], stats["reason"], stats["steps"]) == ("Submitted", "submitted", 1)


def test_the_trajectory_is_written_as_atif_where_harbor_looks(home: Path) -> None:
    with FakeProvider(["All done."]) as server:
        trial(home, server)
    write_atif(home.parent / "logs")
    document = json.loads((home.parent / "logs" / ATIF).read_bytes())
    assert not list(problems(document))
    assert document["agent"]["name"] == "tinyagent"


@pytest.mark.parametrize(
    ("fault", "flags", "code"),
    [
        (None, "--cost-limit 0", 0),
        (None, "--cost-limit 0.000001 -s prices.input_usd_per_mtok=1 -s prices.output_usd_per_mtok=1", 0),
        (rate_limited(retry_after_ms="10"), "--cost-limit 0", 75),
        (FAULTS["bad_key"], "--cost-limit 0", 77),
    ],
)
def test_a_limit_is_a_normal_end_and_other_failures_stay_failures(
    home: Path, fault: Fault | None, flags: str, code: int
) -> None:
    with FakeProvider(["All done."], faults={} if fault is None else {"all": fault}) as server:
        assert trial(home, server, flags).returncode == code


def test_a_run_gets_the_keys_of_its_own_provider_only() -> None:
    host = {
        "ANTHROPIC_API_KEY": "a",
        "ANTHROPIC_BASE_URL": "http://gateway",
        "OPENAI_API_KEY": "o",
        "STRIPE_API_KEY": "s",
        "TINYAGENT_STEP_LIMIT": "9",
        "TINYAGENT_HOME": "/home/of/the/host",
        "PATH": "/bin",
    }
    assert run_environment(host, "anthropic/claude", logs="/logs/agent") == {
        "ANTHROPIC_API_KEY": "a",
        "ANTHROPIC_BASE_URL": "http://gateway",
        "TINYAGENT_STEP_LIMIT": "9",
        "TINYAGENT_HOME": "/logs/agent/home",
    }


def test_a_trial_without_a_trajectory_has_no_figures(tmp_path: Path) -> None:
    assert read_stats(tmp_path) is None
    (tmp_path / "tinyagent.json").write_text("{", encoding="utf-8")
    assert read_stats(tmp_path) is None


def test_the_install_command_is_valid_shell_and_pins_the_version() -> None:
    command = install_command("0.1.0; touch MARK")
    assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0
    assert "'tinyagent==0.1.0; touch MARK'" in command
