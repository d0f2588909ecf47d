"""The options of a run as typer sees them, in the order and groups of the help.

All values stay texts here: the configuration reads them, so that an option, a variable and a file accept the same and
complain alike.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tinyagent.config import Given

TASK, MODEL, LIMITS, OUTPUT = "Task", "Model", "Limits", "Output"
SAFETY, SESSION, CONFIG = "Safety", "Session", "Config"

Task = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="What to do, in quotes; - reads it from stdin.",
        rich_help_panel=TASK,
        show_default=False,
    ),
]
TaskFile = Annotated[
    str | None, typer.Option("-f", "--file", metavar="FILE", help="Read the task from a file.", rich_help_panel=TASK)
]
Cwd = Annotated[
    str | None,
    typer.Option("-C", "--cwd", metavar="DIR", help="Work in this directory instead of here.", rich_help_panel=TASK),
]
Print = Annotated[bool, typer.Option("-p", "--print", hidden=True)]  # a habit from other agents; every run prints

Model = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--model",
        metavar="PROVIDER/NAME",
        help="The model, such as anthropic/claude-sonnet-5-5, openai/gpt-6-sol or ollama/qwen3. "
        "Without it: the configured one, else the first provider that has a key.",
        rich_help_panel=MODEL,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Another server: with /v1 for OpenAI's API, without for Anthropic's.",
        rich_help_panel=MODEL,
    ),
]
Api = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="API",
        help="How the server is spoken to: anthropic, openai, responses or ollama. Default: the provider's own.",
        rich_help_panel=MODEL,
    ),
]
MaxOutputTokens = Annotated[
    str | None,
    typer.Option("--max-output-tokens", metavar="N", help="The longest reply, in tokens.", rich_help_panel=MODEL),
]
ReasoningEffort = Annotated[
    str | None,
    typer.Option(
        "--reasoning-effort",
        metavar="LEVEL",
        help="How much a reasoning model thinks, such as low, medium or high.",
        rich_help_panel=MODEL,
    ),
]
Temperature = Annotated[
    str | None,
    typer.Option(
        "--temperature", metavar="T", help="Sampling temperature. Default: the provider's.", rich_help_panel=MODEL
    ),
]

CostLimit = Annotated[
    str | None,
    typer.Option(
        "--cost-limit",
        "--max-budget-usd",
        metavar="USD",
        help="Stop before the run costs more. Default: 3.0; 0 = no limit.",
        rich_help_panel=LIMITS,
    ),
]
StepLimit = Annotated[
    str | None,
    typer.Option(
        "--step-limit",
        "--max-turns",
        metavar="N",
        help="Stop after so many model requests. Default: no limit.",
        rich_help_panel=LIMITS,
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        help="Stop after this long: 90, 30s, 5m or 1h. Default: no limit.",
        rich_help_panel=LIMITS,
    ),
]
ContextWindow = Annotated[
    str | None,
    typer.Option(
        "--context-window",
        metavar="N",
        help="The model's context window in tokens. Default: what the server or the catalogue says.",
        rich_help_panel=LIMITS,
    ),
]
NoCompact = Annotated[
    bool,
    typer.Option(
        "--no-compact",
        help="Send the whole history each time; the run ends when it no longer fits.",
        rich_help_panel=LIMITS,
    ),
]

OutputFile = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write the trajectory to a file, however the run ends; - = stdout.",
        rich_help_panel=OUTPUT,
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        "--output-format",
        metavar="FORMAT",
        help="What stdout gets: text (the answer), json (one object), stream-json (one object a line).",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="No progress, only warnings and the end.", rich_help_panel=OUTPUT)
]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Also reasoning, summaries and decisions.", rich_help_panel=OUTPUT)
]

Sandbox = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        metavar="KIND",
        help="Where commands run: local (default), bubblewrap, docker or podman.",
        rich_help_panel=SAFETY,
    ),
]
Approval = Annotated[
    str | None,
    typer.Option(
        "--approval",
        metavar="MODE",
        help="What needs a yes: ask (default) asks, auto says yes, deny says no.",
        rich_help_panel=SAFETY,
    ),
]
Yolo = Annotated[bool, typer.Option("-y", "--yolo", help="Same as --approval auto.", rich_help_panel=SAFETY)]

Continue = Annotated[
    bool,
    typer.Option("-c", "--continue", help="Go on with the last run of this directory.", rich_help_panel=SESSION),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "-r",
        "--resume",
        metavar="RUN",
        help="Go on with a run: its id, the beginning of it, or latest. With a TASK it gets a further message.",
        rich_help_panel=SESSION,
    ),
]
Fork = Annotated[
    bool, typer.Option("--fork", help="Go on in a copy and leave the run as it is.", rich_help_panel=SESSION)
]

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="Read this file in place of your own config.yaml.", rich_help_panel=CONFIG
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "-s",
        "--set",
        metavar="KEY=VALUE",
        help="Set any setting, such as context.trigger_ratio=0.7; may be repeated.",
        rich_help_panel=CONFIG,
    ),
]

# The settings that a command's parameters give, and the value of those that are only there or not.
RUN_SETTINGS: Mapping[str, str] = {
    "model": "model",
    "base_url": "base_url",
    "api": "api",
    "max_output_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning_effort",
    "temperature": "temperature",
    "cost_limit": "cost_limit",
    "step_limit": "step_limit",
    "time_limit": "time_limit",
    "context_window": "context_window",
    "no_compact": "context.enabled",
    "sandbox": "sandbox.kind",
    "yolo": "approval",
    "approval": "approval",
}
BATCH_SETTINGS: Mapping[str, str] = {
    "workers": "batch.workers",
    "total_cost_limit": "batch.total_cost_limit",
    "attempts": "batch.attempts",
    "executor": "batch.executor",
}
_FLAG_VALUES = {"no_compact": "false", "yolo": "auto"}


def given(parameters: Mapping[str, object], settings: Mapping[str, str]) -> "tuple[Given, ...]":
    """What a command line sets. `parameters` are those of a command by their names; None and False were not given."""
    from tinyagent.config import Given

    values = [(name, key, parameters[name]) for name, key in settings.items()]
    return tuple(
        Given(key, str(_FLAG_VALUES.get(name, value)), f"--{name.replace('_', '-')}")
        for name, key, value in values
        if value is not None and value is not False
    )
