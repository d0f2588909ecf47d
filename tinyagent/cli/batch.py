"""`tinyagent batch`: many tasks under one budget; `tinyagent batch report` compares what they came to."""

import json
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagent.cli import options as opt
from tinyagent.cli.output import Stdout

if TYPE_CHECKING:
    from tinyagent.batch.board import Plan
    from tinyagent.batch.local import Executor
    from tinyagent.batch.planning import Asked
    from tinyagent.console.batch_table import BatchDisplay

REPORT = "report"
TASKS, BATCH = "Tasks", "Batch"


def batch(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="TASKS",
            help="The task file: JSON lines or YAML, or rows of SWE-bench. `report DIR...` compares finished batches.",
            rich_help_panel=TASKS,
            show_default=False,
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="The folder of the batch.", rich_help_panel=TASKS),
    ] = None,
    filter_: Annotated[
        str, typer.Option("--filter", metavar="REGEX", help="Only tasks whose id matches.", rich_help_panel=TASKS)
    ] = "",
    slice_: Annotated[
        str, typer.Option("--slice", metavar="A:B", help="Only these, counted from 0.", rich_help_panel=TASKS)
    ] = "",
    shard: Annotated[
        str, typer.Option("--shard", metavar="I/N", help="The I-th of N parts, from 1.", rich_help_panel=TASKS)
    ] = "",
    shuffle: Annotated[bool, typer.Option("--shuffle", help="In random order.", rich_help_panel=TASKS)] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Of the order.", rich_help_panel=TASKS)] = 0,
    repos: Annotated[
        str | None,
        typer.Option("--repos", metavar="DIR", help="Where OWNER/NAME of SWE-bench rows is.", rich_help_panel=TASKS),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option("-w", "--workers", metavar="N", help="Tasks side by side. Default: 4.", rich_help_panel=BATCH),
    ] = None,
    total_cost_limit: Annotated[
        str | None,
        typer.Option(
            "--total-cost-limit",
            metavar="USD",
            help="Never spend more over all tasks, retries included. Default: no limit.",
            rich_help_panel=BATCH,
        ),
    ] = None,
    attempts: Annotated[
        str | None,
        typer.Option("--attempts", metavar="K", help="Try each task K times, for pass@k.", rich_help_panel=BATCH),
    ] = None,
    max_retries: Annotated[
        int,
        typer.Option(
            "--max-retries", min=0, metavar="N", help="After a fault of the infrastructure.", rich_help_panel=BATCH
        ),
    ] = 2,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run again what was not solved.", rich_help_panel=BATCH)
    ] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Run everything again.", rich_help_panel=BATCH)] = False,
    keep_workspaces: Annotated[
        bool, typer.Option("--keep-workspaces", help="Do not delete them.", rich_help_panel=BATCH)
    ] = False,
    executor: Annotated[
        str | None, typer.Option("--executor", metavar="KIND", help="local or ray.", rich_help_panel=BATCH)
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option("--ray-address", metavar="ADDRESS", help="Of a Ray cluster.", rich_help_panel=BATCH),
    ] = None,
    oracle: Annotated[
        bool,
        typer.Option("--oracle", help="Play each task's own `oracle`: a check of the harness.", rich_help_panel=BATCH),
    ] = False,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="With report: write a page.", rich_help_panel=BATCH)
    ] = None,
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
    output_format: opt.OutputFormat = None,
    quiet: opt.Quiet = False,
    sandbox: opt.Sandbox = None,
    approval: opt.Approval = None,
    yolo: opt.Yolo = False,
    config: opt.ConfigFile = None,
    assignments: opt.Set = None,
) -> None:
    """Run many tasks under one budget.

    Each task is a run of its own in a fresh workspace. The same command again goes on where the batch stopped.
    """
    options = opt.given(locals(), {**opt.RUN_SETTINGS, **opt.BATCH_SETTINGS})
    from tinyagent.config import UsageError

    as_json = (output_format or "text") != "text"
    if arguments[0] == REPORT:
        report(arguments[1:], html=html, as_json=as_json)
        return
    if len(arguments) > 1:
        raise UsageError(f"one task file is needed, not {len(arguments)}")
    if output is None:
        raise UsageError("--output: the folder of the batch is needed, such as -o out")
    from tinyagent.batch.planning import Asked
    from tinyagent.batch.tasks import Choice

    asked = Asked(
        tasks=Path(arguments[0]),
        choice=Choice(filter_, shuffle, seed, slice_, shard),
        options=options,
        assignments=tuple(assignments or ()),
        config_file=None if config is None else Path(config),
        repos=None if repos is None else Path(repos),
        max_retries=max_retries,
        retry_failed=retry_failed,
        redo=redo,
        keep_workspaces=keep_workspaces,
        oracle=oracle,
    )
    raise typer.Exit(run_batch(asked, Path(output).absolute(), quiet=quiet, as_json=as_json, ray_address=ray_address))


def run_batch(asked: "Asked", root: Path, *, quiet: bool, as_json: bool, ray_address: str | None) -> int:
    """Run the batch in its folder and return the exit code. Raises TinyagentError for what is wrong before it."""
    from tinyagent.batch.folder import SUMMARY, BatchFolder
    from tinyagent.batch.planning import make_plan
    from tinyagent.batch.report import figures, rows
    from tinyagent.batch.runner import Driver
    from tinyagent.console.batch_table import table_lines

    planned = make_plan(asked, os.environ)
    stdout = Stdout(sys.stdout)
    with BatchFolder(root) as folder, _interrupts() as interrupts, _display(quiet) as display:
        record = folder.settings_of(planned.record)
        for notice in planned.notices:
            display.say(notice)
        executor = _executor(planned.plan, ray_address)
        try:
            driver = Driver(
                planned.plan, folder, executor, display, batch_id=record["batch_id"], interrupts=interrupts.count
            )
            outcome = driver.run()
        finally:
            executor.close()
    if as_json:
        stdout.json_line(json.loads((root / SUMMARY).read_bytes()))
    else:
        found = figures(outcome.statuses, name=root.name, pending=outcome.pending)
        stdout.write("".join(f"{line}\n" for line in table_lines(rows([found]))))
    return interrupts.exit_code or outcome.exit_code


def report(folders: Sequence[str], *, html: str | None, as_json: bool) -> None:
    """Print figures of batches side by side, or write them as a page. Raises RecordError."""
    from tinyagent.batch.report import differences, html_page, read_figures, read_statuses, rows, summary_json
    from tinyagent.config import UsageError
    from tinyagent.console.batch_table import table_lines
    from tinyagent.trajectory.writing import write_file

    if not folders:
        raise UsageError("report: the folder of a batch is needed")
    paths = [Path(folder) for folder in folders]
    stdout = Stdout(sys.stdout)
    if as_json:
        stdout.json_line({str(path): summary_json(read_statuses(path)) for path in paths})
        return
    table = rows([read_figures(path) for path in paths])
    notes: list[str] = []
    if len(paths) == 2:
        first, second = differences(*(read_statuses(path) for path in paths))
        notes = [
            f"solved only in {path.name}: {', '.join(ids) or 'none'}"
            for path, ids in zip(paths, (first, second), strict=True)
        ]
    if html is not None:
        write_file(Path(html), html_page(table, notes).encode())
        return
    stdout.write("".join(f"{line}\n" for line in [*table_lines(table), *notes]))


class Interrupts:
    """How often the user asked to stop; the driver looks now and then."""

    def __init__(self) -> None:
        self._count = 0
        self.exit_code = 0

    def count(self) -> int:
        return self._count

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        self.exit_code = 128 + number


@contextmanager
def _interrupts() -> Generator[Interrupts]:
    """Ctrl-C, SIGTERM and SIGHUP are counted; the handlers from before are there again afterwards."""
    interrupts = Interrupts()
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {n: signal.signal(n, interrupts.on_signal) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _display(quiet: bool) -> Generator["BatchDisplay"]:
    from tinyagent.console import paper_for
    from tinyagent.console.batch_table import BatchLines, BatchTable

    if sys.stderr.isatty() and not quiet and os.environ.get("TERM") != "dumb":
        display: BatchDisplay = BatchTable(sys.stderr)
    else:
        display = BatchLines(paper_for(sys.stderr, os.environ), quiet=quiet)
    try:
        yield display
    finally:
        display.close()


def _executor(plan: "Plan", ray_address: str | None) -> "Executor":
    from tinyagent.batch.local import LocalExecutor

    if plan.settings.batch.executor == "ray":
        from tinyagent.batch.ray import RayExecutor

        return RayExecutor(os.environ, workers=plan.workers, address=ray_address)
    return LocalExecutor(os.environ)
