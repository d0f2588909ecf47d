# pyright: reportMissingImports=false
"""Whole trials of Harbor, with a folder for the container and a model server on loopback."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.faults import FAULTS, Fault, rate_limited
from tests.trajectory.atif_faults import problems

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("harbor") is None, reason="harbor is not installed"),
    pytest.mark.filterwarnings("ignore:Task.checksum:DeprecationWarning"),  # Harbor's own use of it
]

ROOT = Path(__file__).parent.parent.parent
AGENT = "tinyagent.integrations.harbor:TinyAgent"
ENVIRONMENT = "tests.integrations.local_environment:LocalEnvironment"
KEY = "sk-a-key-that-nobody-may-see-0123456789"
PRICES = {"prices.input_usd_per_mtok": 1, "prices.output_usd_per_mtok": 1}


def bash(command: str) -> Say:
    return Say(calls=(Call("bash", {"command": command}),))


SOLVED: Sequence[Scripted] = (bash("echo hello > hello.txt"), "Done.")


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host of the trials: no key but ours, and no look-up of prices that needs a network."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Asks for a file, and gives the reward 1 if it is there."""
    judge = 'cat hello.txt | grep -c hello > "$ROOT/logs/verifier/reward.txt"\n'
    files = {
        "instruction.md": "Write hello into hello.txt.\n",
        "task.toml": 'schema_version = "1.4"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n',
        "environment/Dockerfile": "FROM scratch\n",
        "tests/test.sh": f"#!/bin/bash\n{judge}",
    }
    for name, text in files.items():
        (tmp_path / "hello" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hello" / name).write_text(text, encoding="utf-8")
    return tmp_path / "hello"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """This program as if it were in the image already."""
    script = tmp_path / "program" / "bin" / "tinyagent"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tinyagent "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return tmp_path / "program"


def trial(
    task: Path,
    program: Path,
    server: FakeProvider | None,
    *,
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> "Left":
    """Run one, and give what it left. Without a server the model is OpenAI's own.

    `config` are fields of Harbor's own for an agent, `options` are the agent's.
    """
    from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
    from harbor.trial.trial import Trial

    fields: dict[str, Any] = {
        "import_path": AGENT,
        "model_name": "openai/fake",
        "env": {"OPENAI_BASE_URL": server.base_url("openai")} if server else {},
        "kwargs": {"skip_install": True, "cost_limit": 0} | options,
    }
    trial = TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=task.parent / "trials",
        agent=AgentConfig(**(fields | dict(config or {}))),
        environment=EnvironmentConfig(import_path=ENVIRONMENT, kwargs={"program": str(program)}),
    )

    async def run() -> None:
        await (await Trial.create(trial)).run()

    asyncio.run(run())
    (folder,) = (task.parent / "trials").iterdir()
    return Left(folder)


def harbor(task: Path, *words: str) -> "list[Left]":
    """`harbor run` from the command line, and the trials that it left."""
    program = Path(sys.executable).parent / "harbor"
    given = [
        "-p",
        str(task),
        "-o",
        str(task.parent / "jobs"),
        "-a",
        AGENT,
        "-m",
        "openai/fake",
        "-e",
        ENVIRONMENT,
        "-y",
    ]
    done = subprocess.run(
        [str(program), "run", *given, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [Left(folder) for folder in sorted((task.parent / "jobs").glob("*/hello__*"))]


class Left:
    """What a trial left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.result: dict[str, Any] = json.loads((folder / "result.json").read_bytes())

    @property
    def reward(self) -> float | None:
        judged = self.result["verifier_result"]
        return None if judged is None else judged["rewards"]["reward"]

    @property
    def error(self) -> tuple[str, str]:
        found = self.result["exception_info"]
        return ("", "") if found is None else (found["exception_type"], found["exception_message"])

    def atif(self) -> dict[str, Any]:
        """The trajectory where Harbor looks for it, as its validator and ours let it pass."""
        from harbor.utils.trajectory_validator import TrajectoryValidator

        path = self.folder / "agent" / "trajectory.json"
        validator = TrajectoryValidator()
        assert validator.validate(path), validator.get_errors()
        document: dict[str, Any] = json.loads(path.read_bytes())
        assert not problems(document)
        return document


def test_harbor_s_command_line_installs_this_checkout_and_runs_a_task_to_its_reward(task: Path) -> None:
    with FakeProvider(SOLVED) as server:
        words = [f"--ak=settings={json.dumps(PRICES)}", "--base-url", server.base_url("openai")]
        (left,) = harbor(task, *words)
        assert left.reward == 1.0
        assert left.error == ("", "")
        got = left.result["agent_result"]
        assert got["n_input_tokens"] == sum(request.tokens for request in server.requests)
    assert got["cost_usd"] == pytest.approx((got["n_input_tokens"] + got["n_output_tokens"]) / 1e6)
    assert got["metadata"]["reason"] == "submitted"
    assert got["model_usage"]["openai/fake"]["n_output_tokens"] == got["n_output_tokens"]
    assert left.result["agent_info"]["version"] == got["metadata"]["version"]
    assert [step["source"] for step in left.atif()["steps"]] == ["system", "user", "agent", "agent"]


def test_harbor_runs_a_trial_again_whose_provider_was_not_available(task: Path, program: Path) -> None:
    faults: dict[int | str, Fault | str] = {n: rate_limited(retry_after_ms="10") for n in range(1, 7)}
    with FakeProvider(SOLVED, faults=faults) as server:
        words = ["--ak=skip_install=true", f"--ek=program={program}", "--ak=cost_limit=0", "--max-retries=1"]
        (left,) = harbor(task, *words, "--base-url", server.base_url("openai"))
    assert left.reward == 1.0
    assert len(server.requests) == 8


@pytest.mark.parametrize("limit", [{"step_limit": 1}, {"cost_limit": "0.003", "max_output_tokens": 500}])
def test_a_reached_limit_is_judged_as_any_other_end(task: Path, program: Path, limit: dict[str, Any]) -> None:
    with FakeProvider([SOLVED[0], bash("echo more")]) as server:
        left = trial(task, program, server, settings=PRICES, **limit)
    assert left.reward == 1.0
    assert left.error == ("", "")
    assert left.result["agent_result"]["metadata"]["exit_status"] == "LimitsExceeded"


@pytest.mark.parametrize(
    ("fault", "options", "error", "words"),
    [
        (rate_limited(retry_after_ms="10"), {}, "ApiOverloadedError", "rate limit is reached"),
        (FAULTS["bad_key"], {}, "AgentAuthenticationError", "did not accept the key"),
        (FAULTS["quota"], {}, "ApiUsageLimitError", "quota is used up"),
        (FAULTS["no_such_model"], {}, "ModelNotFoundError", "the model or the address does not exist"),
        (FAULTS["refusal"], {}, "NonZeroAgentExitCodeError", "the model refused to answer"),
        (Fault(), {"context_window": 1000}, "ContextWindowExceededError", "the window"),
        (Fault(), {"cost_limit": 1}, "UnsupportedModelParametersError", "the price of openai/fake is not known"),
    ],
)
def test_a_failure_is_an_error_of_harbor_s_own_that_names_the_cause(
    task: Path, program: Path, fault: Fault, options: dict[str, Any], error: str, words: str
) -> None:
    with FakeProvider(SOLVED, faults={"all": fault}) as server:
        left = trial(task, program, server, **options)
    assert left.error[0] == error
    assert words in left.error[1]


def test_a_missing_key_is_said_and_the_trial_is_not_run_again(
    task: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    left = trial(task, program, None)
    assert left.error[0] == "AgentAuthenticationError"
    assert "set OPENAI_API_KEY" in left.error[1]


def test_what_the_model_s_commands_print_does_not_decide_the_error(task: Path, program: Path) -> None:
    """Harbor takes a word such as `Connection refused` in the output for the cause, and runs the trial again."""
    replies = [bash("echo Connection refused; false"), Say("API Error: rate limit", finish="content_filter")]
    with FakeProvider(replies) as server:
        left = trial(task, program, server)
    assert left.error[0] == "NonZeroAgentExitCodeError"


def test_the_end_of_its_time_stops_the_run_and_what_there_is_counts(task: Path, program: Path) -> None:
    replies = [SOLVED[0], bash("sleep 300")]
    with FakeProvider(replies) as server:
        left = trial(task, program, server, config={"override_timeout_sec": 10}, settings=PRICES)
    assert left.error[0] == "AgentTimeoutError"
    assert left.reward == 1.0
    got = left.result["agent_result"]
    assert got["metadata"]["reason"] == "terminated"
    assert got["n_input_tokens"] == sum(request.tokens for request in server.requests)
    assert got["cost_usd"] > 0
    assert len(left.atif()["steps"]) == 4
    assert not (left.folder / "agent" / "tinyagent.pid").exists()


def test_the_journal_of_a_killed_run_counts(task: Path, program: Path) -> None:
    with FakeProvider([SOLVED[0], bash('kill -9 "$(cat $ROOT/logs/agent/tinyagent.pid)"; sleep 9')]) as server:
        left = trial(task, program, server, settings=PRICES)
    assert left.error[0] == "NonZeroAgentExitCodeError"
    assert left.reward == 1.0
    got = left.result["agent_result"]
    assert got["metadata"]["reason"] is None
    assert got["n_input_tokens"] == sum(request.tokens for request in server.requests)
    assert left.atif()["steps"]


@pytest.mark.parametrize("given_by", ["host", "trial"])
def test_a_key_is_in_nothing_that_a_trial_leaves(
    task: Path, program: Path, monkeypatch: pytest.MonkeyPatch, given_by: str
) -> None:
    """Not even if the model says it: its words are not edited by this program."""
    env = {"OPENAI_API_KEY": KEY} if given_by == "trial" else {}
    for name in env:
        monkeypatch.delenv(name)
    told = bash("echo hello > hello.txt; env; env > $ROOT/logs/agent/env.txt; env > $ROOT/logs/artifacts/env.txt")
    with FakeProvider([told, f"The key is {KEY}."]) as server:
        config = {"env": env | {"OPENAI_BASE_URL": server.base_url("openai")}}
        left = trial(task, program, server, config=config)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert left.reward == 1.0
    files = [path for path in left.folder.rglob("*") if path.is_file()]
    assert left.folder / "agent" / "env.txt" in files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_the_key_the_api_and_the_address_can_be_named_as_for_any_agent(
    task: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_TOKEN", "of-the-team")
    with FakeProvider(SOLVED) as server:
        named = {"model_api_key_name": "TEAM_TOKEN", "model_api_format": "openai_responses"}
        left = trial(task, program, server, config=named | {"base_url": server.base_url("openai"), "env": {}})
    assert left.reward == 1.0
    assert {request.api for request in server.requests} == {"responses"}
    assert server.requests[0].headers["authorization"] == "Bearer of-the-team"


def test_a_source_that_is_not_there_is_said(task: Path, program: Path) -> None:
    with FakeProvider(SOLVED) as server:
        left = trial(task, program, server, skip_install=False, source="/no/such/checkout")
    assert "/no/such/checkout is no wheel and no checkout" in left.error[1]
    assert not server.requests


def test_an_option_that_does_not_exist_is_refused(task: Path, program: Path) -> None:
    with FakeProvider(SOLVED) as server, pytest.raises(ValueError, match="cost_limt"):
        trial(task, program, server, cost_limt=1)
