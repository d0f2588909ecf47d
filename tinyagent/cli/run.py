"""`tinyagent run`, also without the word: one task."""

import os
from pathlib import Path

import typer

from tinyagent.cli import options as opt


def run(
    task: opt.Task = None,
    file: opt.TaskFile = None,
    cwd: opt.Cwd = None,
    model: opt.Model = None,
    base_url: opt.BaseUrl = None,
    api: opt.Api = None,
    max_output_tokens: opt.MaxOutputTokens = None,
    reasoning_effort: opt.ReasoningEffort = None,
    temperature: opt.Temperature = None,
    cost_limit: opt.CostLimit = None,
    step_limit: opt.StepLimit = None,
    time_limit: opt.TimeLimit = None,
    context_window: opt.ContextWindow = None,
    no_compact: opt.NoCompact = False,
    output: opt.OutputFile = None,
    output_format: opt.OutputFormat = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
    sandbox: opt.Sandbox = None,
    approval: opt.Approval = None,
    yolo: opt.Yolo = False,
    go_on: opt.Continue = False,
    resume: opt.Resume = None,
    fork: opt.Fork = False,
    config: opt.ConfigFile = None,
    assignments: opt.Set = None,
    prints: opt.Print = False,
) -> None:
    """Work on one task in this directory until it is done.

    The final answer goes to stdout, progress to stderr. Every run is recorded: see tinyagent runs, show and replay.

    \b
    tinyagent "fix the failing test"
    tinyagent -m ollama/qwen3 -f task.md -o run.json
    tinyagent -c "now document it"
    """
    options = opt.given(locals(), opt.RUN_SETTINGS)
    from tinyagent.cli.session import Invocation, run_session

    invocation = Invocation(
        task=task,
        file=file,
        cwd=Path(cwd or "."),
        options=options,
        assignments=tuple(assignments or ()),
        config_file=None if config is None else Path(config),
        output=output,
        output_format=output_format or os.environ.get("TINYAGENT_OUTPUT_FORMAT") or "text",
        quiet=quiet,
        verbose=verbose,
        resume=resume or ("latest" if go_on else None),
        of_this_folder=go_on and resume is None,
        fork=fork,
    )
    raise typer.Exit(run_session(invocation, os.environ))
