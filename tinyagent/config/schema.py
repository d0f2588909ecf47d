"""Every setting, its type and its default.

Plain dataclasses that `reading.py` fills by their type hints: importing pydantic would add 75 ms to every run.
In numbers 0 means "off" or "not known", as the remark says; None means "not set". Nothing may be negative. Fields that
`DURATIONS` names are seconds here and may be written as 90, "30s", "5m" or "1h".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.limits import Limits
from tinyagent.core.pricing import Prices
from tinyagent.core.types import Json

Api = Literal["anthropic", "openai", "responses", "ollama"]
Transport = Literal["httpx", "sdk"]
SandboxKind = Literal["auto", "local", "bubblewrap", "docker", "podman"]
Approval = Literal["ask", "auto", "deny"]

TOOLS = ("bash", "read", "write", "edit", "read_output", "plan", "task")


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider of the user's own, or another address for a known one."""

    base_url: str | None = None
    api: Api | None = None
    api_key_env: str | None = None
    local: bool = False  # costs nothing
    prices: Prices | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """What the model may call, and how much one output may hold."""

    enabled: tuple[str, ...] = TOOLS
    output_chars: int = 10_000
    command_timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Where commands run."""

    kind: SandboxKind = "local"
    image: str = ""
    network: bool = True
    pass_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """Rules such as `bash(git status)`; the strictest that matches wins."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Many runs under one budget."""

    workers: int = 4
    executor: Literal["local", "ray"] = "local"
    total_cost_limit: float = 0.0
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of a run."""

    model: str | None = None
    base_url: str | None = None
    api: Api | None = None
    api_key_env: str | None = None
    transport: Transport | None = None  # None: as the provider needs it
    context_window: int = 0  # 0: ask the server, the catalogue
    max_output_tokens: int = 0  # 0: as large as the model and the window allow
    reasoning_effort: str | None = None
    temperature: float | None = None
    cost_limit: float = 3.0  # US dollars
    step_limit: int = 0
    time_limit: float = 0.0
    approval: Approval = "ask"
    prices: Prices | None = None
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    context: ContextPolicy = field(default_factory=ContextPolicy)
    tools: ToolSettings = ToolSettings()
    sandbox: SandboxSettings = SandboxSettings()
    permissions: PermissionSettings = PermissionSettings()
    batch: BatchSettings = BatchSettings()

    @property
    def limits(self) -> Limits:
        """The limits of one run, with None for those that are off."""
        return Limits(self.cost_limit or None, self.step_limit or None, self.time_limit or None)

    def public(self) -> Json:
        """All settings as JSON for the journal: no password of a URL, no value of a header."""
        data = asdict(self)
        data["base_url"] = without_password(self.base_url)
        for name, provider in self.providers.items():
            data["providers"][name]["base_url"] = without_password(provider.base_url)
            data["providers"][name]["headers"] = dict.fromkeys(provider.headers, "***")
        return json.loads(json.dumps(data))


# Written with a unit (90, "30s", "5m", "1h"), kept in seconds.
DURATIONS = frozenset({"time_limit", "context.summary_time_limit", "tools.command_timeout"})

# A section that may also be written as one word, and the setting that the word then is.
SHORT_FORMS = {"sandbox": "kind"}

# Counts of which zero makes no sense.
AT_LEAST_ONE = frozenset(
    {
        "context.protect_turns",
        "context.summary_max_tokens",
        "tools.output_chars",
        "tools.command_timeout",
        "batch.workers",
        "batch.attempts",
    }
)


def without_password(url: str | None) -> str | None:
    """The URL with *** for the user and password in it."""
    return None if url is None else re.sub(r"(?<=//)[^/@\s]*@", "***@", url)
