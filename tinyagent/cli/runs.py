"""`tinyagent runs`: list the runs, and remove some."""

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tinyagent.console import Paper
    from tinyagent.console.paper import Style
    from tinyagent.trajectory.runs import RunSummary

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SHOWN = 20
_WIDE = 72  # columns; in fewer, the last part of the id has to do, which all commands take


def runs(
    action: Annotated[
        str | None, typer.Argument(metavar="rm|gc", help="rm removes the runs that are named, gc the old ones.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="RUN...", help="For rm: ids, beginnings of ids, or latest.")
    ] = None,
    keep: Annotated[
        str, typer.Option("--keep", metavar="AGE", help="For gc: keep what was worked on within this time.")
    ] = "30d",
    number: Annotated[
        int, typer.Option("-n", "--number", metavar="N", min=0, help="How many to list; 0 is all.")
    ] = _SHOWN,
    as_json: Annotated[bool, typer.Option("--json", help="All runs as a JSON array.")] = False,
) -> None:
    """List the runs, the newest first, with state, steps, cost and age.

    A run is stopped if its process ended without a word, as after a kill: `tinyagent -r RUN` takes it up again.
    """
    from tinyagent.config import UsageError, folders

    root = folders(os.environ).runs
    match action:
        case None if as_json:
            _print_json(root)
        case None:
            _print_table(root, number)
        case "rm" if names:
            _remove(root, names)
        case "gc" if not names:
            _collect(root, _age_s(keep))
        case "rm" | "gc":
            raise UsageError("runs rm needs the runs to remove" if action == "rm" else "runs gc takes no runs")
        case _:
            raise UsageError(f"runs {action}: rm and gc are known; `tinyagent show {action}` shows a run")


def _print_table(root: Path, number: int) -> None:
    from tinyagent.cli.paging import paged
    from tinyagent.trajectory.runs import run_folders, summarize_run

    found = run_folders(root)[::-1]
    shown = [summarize_run(folder) for folder in found[: number or None]]
    with paged(os.environ) as paper:
        if not found:
            paper.line(f"no runs in {root}")
            return
        _print_rows(paper, shown, time.time())
        if len(shown) < len(found):
            paper.line(f"and {len(found) - len(shown):,} older ones (-n 0 lists all)", "dim")


def _print_rows(paper: "Paper", runs: Sequence["RunSummary"], now: float) -> None:
    from tinyagent.console.paper import one_line

    heads = ("RUN", "STATE", "STEPS", "COST", "AGE")
    narrow = paper.is_live and paper.columns() < _WIDE
    rows = [_cells(run, run.id.rpartition("-")[2] if narrow else run.id, now) for run in runs]
    widths = [max(len(text) for text in column) for column in zip(heads, *rows, strict=True)]
    paper.clipped(f"{_aligned(heads, widths)}  TASK", "bold")
    for run, row in zip(runs, rows, strict=True):
        paper.clipped(f"{_aligned(row, widths)}  {one_line(run.task)}", _style(run.state))


def _cells(run: "RunSummary", name: str, now: float) -> tuple[str, ...]:
    cost = "?" if run.cost_usd is None else f"${run.cost_usd:.2f}"
    return (name, run.state.replace("_", " "), str(run.steps), cost, _age(now - run.last_active))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, figures to the right."""
    return "  ".join(
        text.ljust(width) if place < 2 else text.rjust(width)
        for place, (text, width) in enumerate(zip(cells, widths, strict=True))
    )


def _print_json(root: Path) -> None:
    from dataclasses import asdict

    from tinyagent.cli.output import Stdout
    from tinyagent.trajectory.runs import list_runs
    from tinyagent.trajectory.strict import strict_json

    items = [asdict(run) | {"folder": str(run.folder)} for run in list_runs(root)[::-1]]
    Stdout(sys.stdout).line(json.dumps(strict_json(items), ensure_ascii=False, indent=1))


def _remove(root: Path, names: Sequence[str]) -> None:
    from tinyagent.trajectory.runs import find_run, remove_run

    for folder in dict.fromkeys(find_run(root, name) for name in names):  # all are found before one is removed
        remove_run(folder)
        typer.echo(f"removed {folder.name}")


def _collect(root: Path, older_than_s: float) -> None:
    from tinyagent.trajectory.runs import gc

    removed = gc(root, older_than_s=older_than_s, now=time.time())
    for run_id in removed:
        typer.echo(f"removed {run_id}")
    typer.echo(f"{len(removed)} run{'' if len(removed) == 1 else 's'} removed", err=True)


def _age_s(text: str) -> float:
    """Seconds in `30d` or `12h`. A bare number has no unit that all would guess alike. Raises UsageError."""
    from tinyagent.config import UsageError

    match = re.fullmatch(r"(\d+)([smhdw])", text)
    if match is None:
        raise UsageError(f"--keep {text}: an age such as 30d, 2w or 12h is needed")
    return int(match[1]) * _SECONDS[match[2]]


def _style(state: str) -> "Style":
    match state:
        case "running":
            return "cyan"
        case "submitted":
            return "plain"
        case "stopped" | "interrupted" | "terminated":
            return "yellow"
        case _:
            return "red"


def _age(seconds: float) -> str:
    unit = next((unit for unit in "dhm" if seconds >= _SECONDS[unit]), "s")
    return f"{max(0.0, seconds) // _SECONDS[unit]:.0f}{unit}"
