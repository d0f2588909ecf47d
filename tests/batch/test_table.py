"""What a person sees of a batch, on a terminal and in a file."""

import io
from dataclasses import dataclass, field

import pytest

from tinyagent.batch.board import Board, Running
from tinyagent.batch.ledger import Balance
from tinyagent.batch.progress import Progress
from tinyagent.batch.status import State, Status
from tinyagent.console.batch_table import BatchLines, BatchTable, running_cells, status_words, table_lines, whole_words
from tinyagent.console.paper import Paper
from tinyagent.core.limits import Spend
from tinyagent.core.types import Usage, Window


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    is_terminal: bool = field(default=True)

    def __post_init__(self) -> None:
        super().__init__()

    def isatty(self) -> bool:
        return self.is_terminal


def board(*ended: Status, running: int = 1, paused_s: float = 0.0) -> Board:
    progress = Progress("run", "m", window=Window(1000), spend=Spend(Usage(), 0.5, 3, 3), context_tokens=420)
    rows = tuple(Running(f"task-{n}", 90.0, progress) for n in range(running))
    return Board(8, 4, rows, ended, Balance(1.25, 0.75, 1), 5.0, paused_s=paused_s, eta_s=130.0)


def status(state: State = "passed", error: str = "") -> Status:
    return Status("a", 1, 1, state, reason="provider_error", error=error, steps=5, cost_usd=0.01, seconds=12.0)


def test_the_whole_is_one_line_with_money_and_time() -> None:
    words = whole_words(board(status(), status("failed")))
    assert words == (
        "2/8 ended (1 passed, 1 failed) · 1 running · 4 pending · "
        "$1.2500 of $5 spent, $0.75 reserved · about 2m10s left"
    )


def test_a_running_task_shows_steps_context_cost_and_time() -> None:
    assert running_cells(board().running[0], 100.0) == ("task-0", "3", "42%", "", "$0.5000", "10 s")


def test_a_failure_says_why_in_its_line_and_nothing_of_it_acts_on_the_terminal() -> None:
    assert status_words(status("error", "no such \x1b[31mmodel\nmore")).startswith("a: error, 5 steps, $0.0100, 12 s")
    stream = io.StringIO()
    BatchLines(Paper(stream)).ended(status("error", "no such \x1b[31mmodel\nmore"), board(status()))
    assert "\x1b" not in stream.getvalue()
    assert "provider_error: no such" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_a_file_gets_a_line_for_each_end_and_one_about_the_whole_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = BatchLines(Paper(stream), clock=clock)
    for _ in range(100):
        lines.look(board())
        clock.now += 1
    lines.ended(status(), board(status()))
    assert stream.getvalue().count("running") == 3
    assert "[1/8] a: passed" in stream.getvalue()


def test_a_pause_is_told_once() -> None:
    stream = io.StringIO()
    lines = BatchLines(Paper(stream))
    for _ in range(5):
        lines.look(board(paused_s=7.0))
    assert stream.getvalue().count("the provider is in trouble") == 1


def test_a_terminal_gets_the_table_drawn_in_place_and_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    table = BatchTable(stream)
    table.look(board(running=3))
    table.ended(status(), board(status()))
    table.close()
    shown = stream.getvalue()
    assert "task-2" in shown
    assert "[1/8] a: passed" in shown
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


def test_a_table_in_plain_text_is_aligned() -> None:
    assert table_lines([("", "one"), ("cost", "$1")]) == ["      one", "cost   $1"]
