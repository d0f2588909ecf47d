"""What a Harbor trial runs in its container, run here for real, and what is read of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_provider import FakeProvider
from tests.fake_wires import Call, Say
from tests.faults import FAULTS, Fault, rate_limited
from tests.trajectory.atif_faults import problems
from tinyagent.core.errors import RecordError
from tinyagent.integrations.harbor_install import FOLDER
from tinyagent.integrations.harbor_job import (
    ATIF,
    PID,
    TRAJECTORY,
    figures,
    read_run,
    run_command,
    run_environment,
    stop_command,
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
    stats = figures(read_run(home.parent / "logs"))
    assert stats["input_tokens"] == server.requests[0].tokens
    assert stats["instance_cost"] == pytest.approx((stats["input_tokens"] + stats["output_tokens"]) / 1e6)
    assert (stats["exit_status"], stats["reason"], stats["steps"]) == ("Submitted", "submitted", 1)


def test_the_trajectory_is_written_as_atif_where_harbor_looks(home: Path) -> None:
    with FakeProvider(["All done."]) as server:
        trial(home, server)
    write_atif(read_run(home.parent / "logs"), home.parent / "logs")
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


def test_a_variable_that_was_named_for_the_key_goes_in() -> None:
    host = {"TEAM_TOKEN": "t", "OTHER_TOKEN": "o"}
    assert run_environment(host, "openai/gpt-5", logs="/l", key_name="TEAM_TOKEN") == {
        "TEAM_TOKEN": "t",
        "TINYAGENT_HOME": "/l/home",
    }


def test_a_trial_without_a_run_has_no_figures(tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        read_run(tmp_path)
    (tmp_path / TRAJECTORY).write_text("{", encoding="utf-8")
    with pytest.raises(RecordError):
        read_run(tmp_path)


def test_the_journal_stands_in_for_a_trajectory_that_was_not_written(home: Path) -> None:
    with FakeProvider(["All done."]) as server:
        trial(home, server)
    whole = figures(read_run(home.parent / "logs"))
    (home.parent / "logs" / TRAJECTORY).unlink()
    assert figures(read_run(home.parent / "logs")) == whole


def test_sub_agents_are_in_the_atif_document(home: Path) -> None:
    replies = [Say(calls=(Call("task", {"prompt": "Look."}),)), "Seen.", "All done."]
    with FakeProvider(replies) as server:
        trial(home, server)
    write_atif(read_run(home.parent / "logs"), home.parent / "logs")
    document = json.loads((home.parent / "logs" / ATIF).read_bytes())
    assert len(document["subagent_trajectories"]) == 1


def test_a_run_that_is_stopped_still_writes_its_trajectory(home: Path) -> None:
    logs = home.parent / "logs"
    replies = [Say(calls=(Call("bash", {"command": f"sh {home.parent / 'stop'} & sleep 300"}),))]
    (home.parent / "stop").write_text(stop_command(logs=str(logs)), encoding="utf-8")
    with FakeProvider(replies) as server:
        assert trial(home, server).returncode == 143
    assert figures(read_run(logs))["reason"] == "terminated"
    assert not (logs / PID).exists()


def test_there_may_be_no_run_to_stop(tmp_path: Path) -> None:
    assert subprocess.run(["sh", "-c", stop_command(logs=str(tmp_path))], check=False).returncode == 0
