# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedBaseClass=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownParameterType=false
# Harbor needs Python 3.12 and is no dependency: where it is not installed its classes are not known.
"""tinyagent as an installed agent of Harbor, for Terminal-Bench and other data sets.

harbor run --dataset terminal-bench@2.0 --agent-import-path tinyagent.integrations.harbor:TinyAgent -m PROVIDER/NAME
"""

import os
from typing import Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, CliFlag, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

from tinyagent.core.errors import RecordError
from tinyagent.integrations import harbor_job as job


class TinyAgent(BaseInstalledAgent):
    """Installs tinyagent in the task's container and lets it work there.

    A reached limit is a normal end, which the verifier judges; other failures keep their exit code.
    """

    capabilities = AgentCapabilities(atif=True, reasoning_effort=True)
    CLI_FLAGS = [  # noqa: RUF012  Harbor's own form of a declaration
        CliFlag("cost_limit", cli="--cost-limit"),
        CliFlag("step_limit", cli="--step-limit", type="int"),
        CliFlag("time_limit", cli="--time-limit"),
        CliFlag("context_window", cli="--context-window", type="int"),
        CliFlag("max_output_tokens", cli="--max-output-tokens", type="int"),
        CliFlag("reasoning_effort", cli="--reasoning-effort"),
        CliFlag("temperature", cli="--temperature"),
    ]

    @staticmethod
    def name() -> str:
        return "tinyagent"

    def get_version_command(self) -> str | None:
        return job.version_command()

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().removeprefix("tinyagent ")

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("bash", "curl", "git"))
        await self.exec_as_agent(environment, command=job.install_command(self._version))

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        if not self.model_name:
            raise ValueError("a model is needed: -m PROVIDER/NAME")
        logs = str(self.environment_logs_dir)
        env: dict[str, str] = {}
        for source in reversed([self._extra_env, os.environ]):
            env |= job.run_environment(source, self.model_name, logs=logs)
        command = job.run_command(instruction, self.model_name, self.build_cli_flags(), logs=logs)
        try:
            await self.exec_as_agent(environment, command=command, env=env)
        finally:
            self.populate_context_post_run(context)

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Tokens, cost and the way it ended, from our trajectory; and ATIF beside it."""
        stats = job.read_stats(self.logs_dir)
        if stats is None:
            self.logger.debug("no trajectory of the run in %s", self.logs_dir)
            return
        context.n_input_tokens = stats["input_tokens"]
        context.n_cache_tokens = stats["cache_read_tokens"]
        context.n_output_tokens = stats["output_tokens"]
        context.cost_usd = stats["instance_cost"]
        ends: dict[str, Any] = {key: stats[key] for key in ("exit_status", "reason", "retryable", "steps", "version")}
        context.metadata = {**(context.metadata or {}), **ends}
        try:
            job.write_atif(self.logs_dir)
        except RecordError as error:
            self.logger.warning("no ATIF trajectory: %s", error)
