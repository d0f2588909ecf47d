"""`tinyagent show`: read a trajectory in the terminal."""

import gc
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from tinyagent.trajectory.reading import Contents
    from tinyagent.trajectory.rows import Row

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE|RUN",
        help="A journal, a run's folder, an exported trajectory, or a run: its id, the beginning of it, or latest.",
    ),
]


def show(
    source: Source = "latest",
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", min=1, help="Only this step, with all its text.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Clip nothing, and show reasoning.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as one JSON object, nothing clipped.")] = False,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page instead.")
    ] = None,
    pager: Annotated[bool, typer.Option(help="On a terminal, show long texts with $PAGER or less.")] = True,
) -> None:
    """Read a trajectory in the terminal: steps, calls, results, costs, and each compaction as a fold.

    Numbers such as #12 are messages: they say what a compaction took out of the context.
    """
    from tinyagent.trajectory.report import report

    contents = load_and_warn(source)
    if html is not None:
        _write_page(contents, Path(html))
        return
    rows = report(contents.records)
    if step is not None:
        rows = _rows_of_step(rows, step)
    if as_json:
        _print_json(contents, rows)
        return
    _print_rows(rows, full=full or step is not None, pager=pager)


def load_and_warn(source: str) -> "Contents":
    """What the user means by FILE|RUN, with everything that was repaired or edited told on stderr."""
    from tinyagent.config import folders
    from tinyagent.console import paper_for
    from tinyagent.trajectory.runs import load

    with _without_collections():
        contents = load(source, folders(os.environ).runs)
    stderr = paper_for(sys.stderr, os.environ)
    for notice in contents.notices:
        stderr.line(f"warning: {notice}", "yellow")
    if contents.changed:
        numbers = ", ".join(f"#{number}" for number in contents.changed)
        stderr.line(f"warning: {contents.path.name} was edited after it was written: {numbers}", "yellow")
    return contents


def _write_page(contents: "Contents", path: Path) -> None:
    from tinyagent.trajectory.viewer.page import render_html
    from tinyagent.trajectory.writing import write_file

    write_file(path, render_html(contents.records).encode())
    sys.stderr.write(f"{path}: open it in a browser\n")


@contextmanager
def _without_collections() -> "Generator[None]":
    """A trajectory is many small objects and no garbage: looking for some takes a tenth of the time of reading it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _rows_of_step(rows: "Sequence[Row]", step: int) -> "list[Row]":
    from tinyagent.core.errors import RecordError
    from tinyagent.trajectory.rows import StepRow, of_step

    if found := of_step(rows, step):
        return found
    last = max((row.step for row in rows if isinstance(row, StepRow)), default=0)
    raise RecordError(f"there is no step {step}: the run has {last}")


def _print_json(contents: "Contents", rows: "Sequence[Row]") -> None:
    from tinyagent.cli.output import Stdout
    from tinyagent.core.codec import encode
    from tinyagent.trajectory.strict import strict_json

    items = [{"row": type(row).__name__.removesuffix("Row").lower(), **encode(row)} for row in rows]
    value = {"path": str(contents.path), "notices": contents.notices, "changed": contents.changed, "rows": items}
    Stdout(sys.stdout).line(json.dumps(strict_json(value), ensure_ascii=False, indent=1))


def _print_rows(rows: "Sequence[Row]", *, full: bool, pager: bool) -> None:
    from tinyagent.cli.paging import paged
    from tinyagent.cli.rendering import Rendering

    with paged(os.environ, pager=pager) as paper:
        rendering = Rendering(paper, full=full)
        for row in rows:
            rendering.row(row)
            if paper.is_gone:
                break
