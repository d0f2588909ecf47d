"""`tinyagent doctor`: checks what a run needs, and says what to do about what is missing."""

import os
from pathlib import Path

import typer

from tinyagent.cli import options as opt

STYLES = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "problem": typer.colors.RED}


def doctor(
    model: opt.Model = None,
    base_url: opt.BaseUrl = None,
    cwd: opt.Cwd = None,
    sandbox: opt.Sandbox = None,
    config: opt.ConfigFile = None,
    assignments: opt.Set = None,
) -> None:
    """Check keys, endpoint, window, tools, sandbox and data folder, and say what to do about each.

    Nothing is spent: no model is called. Exit code 1 if a run could not work.
    """
    from tinyagent.cli.checks import Check, checks
    from tinyagent.cli.session import Invocation
    from tinyagent.config import Given
    from tinyagent.console import legible

    given = {"--model": ("model", model), "--base-url": ("base_url", base_url), "--sandbox": ("sandbox.kind", sandbox)}
    invocation = Invocation(
        cwd=Path(cwd or "."),
        options=tuple(Given(key, text, name) for name, (key, text) in given.items() if text is not None),
        assignments=tuple(assignments or ()),
        config_file=Path(config) if config else None,
    )
    found: list[Check] = []
    for check in checks(invocation, os.environ):
        found.append(check)
        typer.secho(f"{check.state:<8}", fg=STYLES[check.state], nl=False)
        typer.echo(legible(f"{check.subject:<11}{check.words}"))
    problems = sum(check.state == "problem" for check in found)
    warnings = sum(check.state == "warning" for check in found)
    typer.echo(f"\n{_count(problems, 'problem')}, {_count(warnings, 'warning')}")
    raise typer.Exit(1 if problems else 0)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
