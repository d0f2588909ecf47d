# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedBaseClass=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownParameterType=false
# Harbor needs Python 3.12 and is no dependency: where it is not installed its classes are not known.
"""tinyagent as an installed agent of Harbor, for Terminal-Bench and other data sets.

harbor run --dataset terminal-bench@2.0 --agent tinyagent.integrations.harbor:TinyAgent -m PROVIDER/NAME
"""

import asyncio
import json
import os
import shlex
from typing import Annotated, Any

from harbor.agents.agent_auth_resolution import ModelConnectionSpec
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed import base
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.model_api_format import ModelApiFormat
from pydantic import Field

from tinyagent.core.errors import RecordError
from tinyagent.integrations import harbor_install, harbor_job

_APIS = {
    ModelApiFormat.OPENAI_CHAT_COMPLETIONS: "openai",
    ModelApiFormat.OPENAI_RESPONSES: "responses",
    ModelApiFormat.ANTHROPIC_MESSAGES: "anthropic",
}
_LAST_ERROR = r"error: {}[^\n]*\n[^\n]*\ntinyagent ended with exit code 1\b"
# Harbor decides by the type what is run again, judged and counted. The match nearest to the end of the output wins, of
# equal ones the first; these match its last line, so that no word of the model or of a command above it decides.
_ENDS: tuple[tuple[str, type[base.NonZeroAgentExitCodeError]], ...] = (
    (_LAST_ERROR.format("the account's credit or quota is used up"), base.ApiUsageLimitError),
    (_LAST_ERROR.format("the model or the address does not exist there"), base.ModelNotFoundError),
    (r"tinyagent ended with exit code 4\b", base.ContextWindowExceededError),
    (r"tinyagent ended with exit code 75\b", base.ApiOverloadedError),
    (r"tinyagent ended with exit code 77\b", base.AgentAuthenticationError),
    (r"tinyagent: no key for [^\n]*\ntinyagent ended with exit code 78\b", base.AgentAuthenticationError),
    (r"tinyagent ended with exit code 78\b", base.UnsupportedModelParametersError),  # it would fail each time
    (r"tinyagent ended with exit code \d+", base.NonZeroAgentExitCodeError),
)


class TinyAgentOptions(InstalledAgentOptions):
    """What `--agent-kwarg` takes; `harbor agent schema tinyagent.integrations.harbor:TinyAgent` prints it."""

    source: str | None = Field(
        default=None,
        description="What to install: a wheel or a checkout on this machine, or an address that pip takes, such as "
        "git+https://HOST/REPOSITORY@COMMIT. Default: the program that runs here.",
    )
    version: str | None = Field(
        default=None, description="A version to install from the container's package index, in place of `source`."
    )
    base_url: Annotated[str | None, Cli("--base-url")] = Field(default=None, description="Another server.")
    cost_limit: Annotated[str | None, Cli("--cost-limit")] = Field(default=None, description="USD; 0 = no limit.")
    step_limit: Annotated[int | None, Cli("--step-limit")] = Field(default=None, description="Model requests.")
    time_limit: Annotated[str | None, Cli("--time-limit")] = Field(default=None, description="90, 30s, 5m or 1h.")
    context_window: Annotated[int | None, Cli("--context-window")] = Field(default=None, description="Tokens.")
    max_output_tokens: Annotated[int | None, Cli("--max-output-tokens")] = Field(
        default=None, description="The longest reply, in tokens."
    )
    reasoning_effort: Annotated[str | None, Cli("--reasoning-effort")] = Field(
        default=None, description="How much a reasoning model thinks, such as low, medium or high."
    )
    temperature: Annotated[float | None, Cli("--temperature")] = Field(default=None, description="Sampling.")
    settings: dict[str, Any] = Field(
        default={},
        description='Any other settings, such as {"prices.input_usd_per_mtok": 3, "context.trigger_ratio": 0.7}',
    )


class TinyAgent(base.BaseInstalledAgent):
    """Installs tinyagent in the task's container and lets it work there.

    A reached limit is a normal end, which the verifier judges; other failures are errors of Harbor's own types.
    """

    capabilities = AgentCapabilities(atif=True, reasoning_effort=True, base_url=True)
    options_model = TinyAgentOptions
    # Tells Harbor which key is meant, so that it takes it out of everything that a trial leaves.
    MODEL_CONNECTION = ModelConnectionSpec(
        supported_api_formats=list(_APIS), base_url_destination_names={"default": None}
    )
    ERROR_PATTERNS = [  # noqa: RUF012  Harbor's own form of a declaration
        *base.BaseInstalledAgent.ERROR_PATTERNS,
        *(base.ErrorPattern(pattern, error) for pattern, error in _ENDS),
    ]

    @staticmethod
    def name() -> str:
        return "tinyagent"

    def get_version_command(self) -> str | None:
        return harbor_install.version_command()

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().removeprefix("tinyagent ")

    async def install(self, environment: BaseEnvironment) -> None:
        source = harbor_install.find_source(self.options.source, self._version)
        await self.ensure_system_dependencies(environment, ("bash", "curl", "git"))
        with harbor_install.to_upload(source) as path:
            if path is not None:
                upload = environment.upload_dir if path.is_dir() else environment.upload_file
                await upload(path, source.requirement)
        await self.exec_as_agent(environment, command=harbor_install.install_command(source.requirement))

    @base.with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        if not self.model_name:
            raise ValueError("a model is needed: -m PROVIDER/NAME")
        logs = str(self.environment_logs_dir)
        env: dict[str, str] = {}
        for source in reversed([self._extra_env, os.environ]):
            env |= harbor_job.run_environment(source, self.model_name, logs=logs, key_name=self._model_api_key_name)
        command = harbor_job.run_command(instruction, self.model_name, self._flags(), logs=logs)
        try:
            await self.exec_as_agent(environment, command=command, env=env)
        except asyncio.CancelledError:  # the trial's time is up, but in the container the run would go on
            await self._stop_run(environment, logs)
            raise

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Tokens, cost and the way it ended, from our trajectory; and ATIF beside it."""
        try:
            run = harbor_job.read_run(self.logs_dir)
            harbor_job.write_atif(run, self.logs_dir)
        except RecordError as error:
            self.logger.warning("no trajectory of the run: %s", error)
            return
        figures = harbor_job.figures(run)
        context.n_input_tokens = figures["input_tokens"]
        context.n_cache_tokens = figures["cache_read_tokens"]
        context.n_output_tokens = figures["output_tokens"]
        context.cost_usd = figures["instance_cost"]
        shown = ("exit_status", "reason", "error", "retryable", "steps", "model_returned", "version")
        context.metadata = {**(context.metadata or {}), **{key: figures[key] for key in shown}}

    def _flags(self) -> str:
        settings: dict[str, Any] = dict(self.options.settings)
        if self._model_api_key_name:
            settings["api_key_env"] = self._model_api_key_name
        words = [
            word
            for name, value in settings.items()
            for word in ("-s", f"{name}={value if isinstance(value, str) else json.dumps(value)}")
        ]
        if self._model_api_format is not None:
            words += ["--api", _APIS[self._model_api_format]]
        return f"{self.build_cli_flags()} {shlex.join(words)}".strip()

    async def _stop_run(self, environment: BaseEnvironment, logs: str) -> None:
        try:
            await environment.exec(harbor_job.stop_command(logs=logs), timeout_sec=60)
        except Exception as error:  # whatever the environment raises must not hide why the run was to end
            self.logger.warning("the run could not be stopped: %s", error)
