"""The agent against Harbor's own classes, where Harbor is installed (Python 3.12 and later)."""

import asyncio
import importlib.util
import json
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("harbor") is None, reason="harbor is not installed")


class Container:
    """Stands in for a trial's environment: remembers what is run in it."""

    default_user = None

    def __init__(self, code: int = 0) -> None:
        self.ran: list[dict[str, Any]] = []
        self.uploaded: list[str] = []
        self.code = code

    async def exec(self, **call: Any) -> Any:
        self.ran.append(call)
        is_run = "run --file -" in call["command"]
        return SimpleNamespace(return_code=self.code if is_run else 0, stdout="tinyagent 0.1.0\n", stderr="")

    async def upload_dir(self, source_dir: Path, target_dir: str) -> None:
        self.uploaded.append(target_dir)


def agent(logs: Path, **more: Any) -> Any:
    from tinyagent.integrations.harbor import TinyAgent

    return TinyAgent(logs, model_name="openai/gpt-5", extra_env={"OPENAI_API_KEY": "key"}, **more)


def write_trajectory(logs: Path) -> None:
    from tests.trajectory.files import write_document
    from tests.trajectory.generators import build_run
    from tinyagent.trajectory.native import to_native

    write_document(logs / "tinyagent.json", to_native(build_run(Random(1), steps=3)))


def test_the_agent_runs_the_instruction_with_its_options(tmp_path: Path) -> None:
    from harbor.models.agent.context import AgentContext  # pyright: ignore[reportMissingImports]

    box = Container()
    asyncio.run(agent(tmp_path, cost_limit="1.5", step_limit=20).run("Fix it.", box, AgentContext()))
    (call,) = box.ran
    assert "Fix it." in call["command"]
    assert "-m openai/gpt-5" in call["command"]
    assert "--cost-limit 1.5" in call["command"]
    assert "--step-limit 20" in call["command"]
    assert call["env"]["OPENAI_API_KEY"] == "key"


def test_a_failed_run_is_harbor_s_error(tmp_path: Path) -> None:
    from harbor.agents.installed.base import NonZeroAgentExitCodeError  # pyright: ignore[reportMissingImports]
    from harbor.models.agent.context import AgentContext  # pyright: ignore[reportMissingImports]

    with pytest.raises(NonZeroAgentExitCodeError):
        asyncio.run(agent(tmp_path).run("Fix it.", Container(75), AgentContext()))


def test_setup_installs_and_finds_the_version(tmp_path: Path) -> None:
    box, one = Container(), agent(tmp_path)
    asyncio.run(one.setup(box))
    assert one.version() == "0.1.0"
    assert any("pip install -q /installed-agent/tinyagent" in call["command"] for call in box.ran)
    assert box.uploaded == ["/installed-agent/tinyagent"]


def test_context_and_atif_come_from_the_trajectory(tmp_path: Path) -> None:
    from harbor.models.agent.context import AgentContext  # pyright: ignore[reportMissingImports]
    from harbor.models.trajectories import Trajectory  # pyright: ignore[reportMissingImports]

    write_trajectory(tmp_path)
    context = AgentContext()
    agent(tmp_path).populate_context_post_run(context)
    stats = json.loads((tmp_path / "tinyagent.json").read_bytes())["info"]["model_stats"]
    assert context.n_input_tokens == stats["input_tokens"]
    assert context.n_output_tokens == stats["output_tokens"]
    Trajectory.model_validate_json((tmp_path / "trajectory.json").read_bytes())


def test_a_run_without_a_model_is_refused(tmp_path: Path) -> None:
    from tinyagent.integrations.harbor import TinyAgent

    with pytest.raises(ValueError, match="a model is needed"):
        asyncio.run(TinyAgent(tmp_path).run("Fix it.", Container(), None))
