"""A batch on a terminal: a table that is drawn again, or plain lines where nobody watches."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from tinyagent.console.paper import Paper, Style, clip_cells, legible

if TYPE_CHECKING:
    from rich.console import Group

    from tinyagent.batch.board import Board, Running
    from tinyagent.batch.status import Status

SHOWN = 32  # running tasks in the table
REDRAW_S = 0.5
LINE_S = 30.0  # between two lines about the whole, where nothing is redrawn


class BatchDisplay(Protocol):
    """Shows a batch; a context manager, so that the terminal is as before afterwards."""

    def look(self, board: "Board") -> None: ...
    def ended(self, status: "Status", board: "Board") -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


class BatchLines:
    """A line for each task that ended, and one about the whole now and then."""

    def __init__(self, paper: Paper, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._paper = paper
        self._quiet = quiet
        self._clock = clock
        self._last = clock()
        self._paused = False

    def look(self, board: "Board") -> None:
        if self._quiet:
            return
        paused = board.paused_s > 0
        if paused and not self._paused:
            self._paper.line(f"the provider is in trouble: nothing is started for {board.paused_s:.0f} s", "yellow")
        self._paused = paused
        if self._clock() - self._last >= LINE_S:
            self._last = self._clock()
            self._paper.clipped(whole_words(board), "dim")

    def ended(self, status: "Status", board: "Board") -> None:
        if not self._quiet:
            self._last = self._clock()
            self._paper.clipped(f"[{len(board.ended)}/{board.total}] {status_words(status)}", _style(status))

    def say(self, text: str) -> None:
        self._paper.line(text, "yellow")

    def close(self) -> None:
        """Nothing to put back."""


class BatchTable:
    """The running tasks and the whole, drawn in place by rich; ended tasks scroll away above."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False, markup=False)
        self._clock = clock
        self._drawn = -REDRAW_S
        self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._live.start()

    def look(self, board: "Board") -> None:
        if self._clock() - self._drawn < REDRAW_S:
            return
        self._drawn = self._clock()
        self._live.update(self._table(board), refresh=True)

    def ended(self, status: "Status", board: "Board") -> None:
        colour = _style(status)
        words = clip_cells(f"[{len(board.ended)}/{board.total}] {status_words(status)}", self._console.width - 1)
        self._console.print(legible(words), style=None if colour == "plain" else colour)

    def say(self, text: str) -> None:
        self._console.print(legible(text), style="yellow")

    def close(self) -> None:
        self._live.stop()

    def _table(self, board: "Board") -> "Group":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        table.add_column("task", no_wrap=True, overflow="ellipsis", max_width=44)
        for name in ("steps", "context", "passes", "cost", "time"):
            table.add_column(name, justify="right", no_wrap=True)
        rows = max(1, min(SHOWN, self._console.height - 4))
        for running in board.running[:rows]:
            table.add_row(*running_cells(running, self._clock()))
        if len(board.running) > rows:
            table.add_row(f"and {len(board.running) - rows} more")
        return Group(table, Text(whole_words(board)))


def running_cells(running: "Running", now: float) -> tuple[str, ...]:
    """Name, steps, share of the window, passes, cost and time of a task that runs."""
    progress, seconds = running.progress, now - running.since
    window = progress.window.tokens
    share = f"{progress.context_tokens / window:.0%}" if window else f"{progress.context_tokens:,}"
    return (
        legible(running.name),
        str(progress.spend.steps),
        share if progress.run_id else "",
        str(progress.compactions or ""),
        _usd(progress.spend.cost_usd),
        _time(seconds),
    )


def whole_words(board: "Board") -> str:
    """The whole batch in one line."""
    counts = Counter(status.state for status in board.ended)
    ends = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    limit = f" of ${board.limit_usd:g}" if board.limit_usd is not None else ""
    spent = f"${board.balance.settled_usd:.4f}{limit} spent, ${board.balance.open_usd:.2f} reserved"
    parts = [f"{len(board.ended)}/{board.total} ended" + (f" ({ends})" if ends else "")]
    parts += [f"{len(board.running)} running", f"{board.pending} pending", spent]
    if board.eta_s is not None and (board.pending or board.running):
        parts.append(f"about {_time(board.eta_s)} left")
    if board.paused_s > 0:
        parts.append(f"paused for {board.paused_s:.0f} s: the provider is in trouble")
    return " · ".join(parts)


def status_words(status: "Status") -> str:
    """One ended task in one line."""
    name = status.id if status.attempt == 1 else f"{status.id} (attempt {status.attempt})"
    steps = f"{status.steps} steps" if status.steps != 1 else "1 step"
    parts = [f"{name}: {status.state}", steps, _usd(status.cost_usd), _time(status.seconds)]
    if status.state in ("limit", "error", "infrastructure", "context"):
        first = status.error.strip().split("\n")[0]
        parts.append(f"{status.reason}: {first}" if first else status.reason)
    return ", ".join(part for part in parts if part)


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in plain text, the first column to the left."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _style(status: "Status") -> Style:
    if status.is_resolved:
        return "green"
    return "red" if status.state in ("error", "infrastructure") else "plain"


def _usd(cost: float | None) -> str:
    return "cost unknown" if cost is None else f"${cost:.4f}"


def _time(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02}m"
