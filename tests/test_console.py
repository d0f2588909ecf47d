"""What a person sees of a run."""

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, task
from tinyagent.compaction.explain import pass_line
from tinyagent.console import Console, Paper, end_words, legible, paper_for
from tinyagent.console.lines import call_line, cost_words, result_line, status_line
from tinyagent.console.paper import clip_cells
from tinyagent.core.events import (
    Compacted,
    Event,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Notice,
    RunEnded,
    RunStarted,
    Stage,
)
from tinyagent.core.limits import Spend
from tinyagent.core.state import Run
from tinyagent.core.types import Facts, Message, ToolCall, ToolMessage, Usage, Window

STARTED = RunStarted("r1", "0.1.0", "/work", ModelSetup("openai/gpt-5", {}, Window(200_000, "catalogue")), "sys", ())


class Screen:
    """A console with a clock that ticks a second at each look, and what it has written."""

    def __init__(
        self, *, live: bool = False, quiet: bool = False, verbose: bool = False, answers: str | None = None
    ) -> None:
        self._stream = io.StringIO()
        self._time = 0.0
        self.console = Console(
            Paper(self._stream, is_live=live, columns=lambda: 60),
            answers=None if answers is None else io.StringIO(answers),
            quiet=quiet,
            verbose=verbose,
            clock=self._tick,
        )
        self.run = Run(sink=lambda record: None, clock=lambda: 0.0, listeners=[self.console.event])

    def show(self, *events: Event | Message) -> list[str]:
        """The lines after these events, on top of what was there."""
        for event in events:
            self.run.emit(MessageAdded(event, 100) if isinstance(event, Message) else event)
        return self.lines

    @property
    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()

    def _tick(self) -> float:
        self._time += 1
        return self._time


def called(cost_usd: float | None = 0.01) -> ModelCalled:
    return ModelCalled("step", 1, "d", 100, usage=Usage(24_000, 0), context_tokens=24_000, cost_usd=cost_usd)


def ran(text: str, exit_code: int | None = 0, *, is_error: bool = False) -> ToolMessage:
    return ToolMessage("c1", "bash", text, is_error, facts=Facts(exit_code=exit_code, command="x"))


def test_a_run_reads_as_its_story() -> None:
    lines = Screen().show(
        STARTED,
        task(),
        called(),
        assistant("I run the test.", call("c1", command="python -m unittest -q")),
        ran("F\nTraceback\nAssertionError: 'a' != 'b'\n\nFAILED (failures=1)\n[exit code 1, 0.4 s]", 1),
        called(),
        assistant("Fixed."),
        RunEnded("submitted", submission="Fixed."),
    )
    assert lines == [
        "tinyagent 0.1.0 · openai/gpt-5 · window 200,000 (catalogue) · /work",
        "I run the test.",
        "› bash  python -m unittest -q",
        "  exit 1, 4 lines, 1.0 s: FAILED (failures=1)",
        "step 1 · context 12% of 200,000 · $0.0100",
        "Fixed.",
    ]


def test_the_calls_of_one_reply_are_numbered_like_their_results() -> None:
    lines = Screen().show(
        STARTED,
        task(),
        assistant("", call("c1", "read", path="a.py", offset=3), call("c2", "write", path="b.py", content="x")),
        ToolMessage("c1", "read", "...", facts=Facts(path="a.py", first_line=3, last_line=40)),
        result("c2", "no such folder\nmore", tool="write", is_error=True),
    )
    assert lines[1:-1] == [
        "› [1] read  a.py from line 3",
        "› [2] write  b.py",
        "  [1] lines 3-40",
        "  [2] failed: no such folder",
    ]


def test_streamed_text_appears_at_once_and_only_once_on_a_terminal() -> None:
    screen = Screen(live=True)
    screen.show(STARTED, task())
    for piece in ("\n\nI ", "look", " around.\n", "\n"):
        screen.console.text(piece)
    assert screen.lines[-1] == "I look around."
    assert screen.show(called(), assistant("\n\nI look around.\n\n", call()))[1:] == ["I look around.", "› bash  ls"]


def test_text_of_a_round_that_is_repeated_is_marked_as_void() -> None:
    """R44: overload after partial text."""
    screen = Screen(live=True)
    screen.console.text("I begin")
    screen.console.waiting("overloaded; try 2 in 4 s")
    screen.console.text("I begin again")
    assert screen.lines == [
        "I begin",
        "[cut off: the text above is void]",
        "overloaded; try 2 in 4 s",
        "I begin again",
    ]


def test_no_partial_text_is_shown_where_nobody_watches() -> None:
    screen = Screen()
    screen.console.text("I begin")
    screen.console.waiting("overloaded; try 2 in 4 s")
    assert screen.lines == ["overloaded; try 2 in 4 s"]


def test_quiet_leaves_warnings_waits_and_the_end() -> None:
    screen = Screen(quiet=True, live=True)
    screen.console.text("I look")
    screen.show(STARTED, task(), called(), assistant("I look", call()), ran("x"), Notice("the disk is full"))
    screen.console.waiting("overloaded")
    screen.console.last_line("finished: 1 step", good=True)
    assert screen.lines == ["warning: the disk is full", "overloaded", "finished: 1 step"]


def test_verbose_shows_details_of_notices() -> None:
    assert Screen(verbose=True).show(Notice("a tool failed", "Traceback"))[1:] == ["Traceback"]
    assert Screen().show(Notice("a tool failed", "Traceback"))[1:] == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"elided": (3, 5, 7, 9)}, "elided 4 tool outputs"),
        ({"elided": (3,)}, "elided 1 tool output"),
        ({"summarized": tuple(range(12))}, "summarized 12 messages"),
        ({"pruned": (2, 3, 4), "pruned_turns": 3}, "pruned 3 turns"),
        ({"pruned": (2, 3), "pruned_turns": 1}, "pruned 1 turn"),
        (
            {"elided": (3, 4), "summarized": (5,), "pruned_turns": 2, "clipped": (9,)},
            "elided 2 tool outputs, summarized 1 message, pruned 2 turns, clipped 1 tool output",
        ),
    ],
)
def test_one_line_for_each_pass(fields: dict[str, object], words: str) -> None:
    stages: tuple[Stage, ...] = ("elide",)
    event = Compacted("budget", 3, 17_020, 9_048, (), stages, **fields)  # pyright: ignore[reportArgumentType]
    assert pass_line(event) == f"compacted context: ~17,020 → ~9,048 tokens ({words})"


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (call(name="bash", command="cd src\npytest -q"), "bash  cd src ⏎ pytest -q"),
        (call(name="read", path="a.py", limit=5), "read  a.py, 5 lines"),
        (call(name="edit", path="a.py", old="x", new="y"), "edit  a.py"),
        (call(name="read_output", id="o3", pattern="error"), "read_output  o3 error"),
        (call(name="task", prompt="Find all\ncallers"), "task  Find all ⏎ callers"),
        (
            call(name="plan", items=[{"text": "a", "status": "done"}, {"text": "b", "status": "doing"}]),
            "plan  1 of 2 done, now: b",
        ),
        (call(name="plan", items="nonsense"), "plan  "),
        (call(name="bash", command=5), 'bash  {"command": 5}'),
        (call(name="other", a=1), 'other  {"a": 1}'),
        (ToolCall("c1", "bash", None, "cut", "{"), "bash  (arguments that cannot be read)"),
    ],
)
def test_a_call_is_its_name_and_the_argument_that_tells_most(made: ToolCall, line: str) -> None:
    assert call_line(made) == line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (ran("a\nb\n[exit code 0, 0.0 s]"), "exit 0, 2 lines: b"),
        (ran("[exit code 0, 0.0 s]"), "exit 0"),
        (ran("tick\n[stopped after 5 s]", None, is_error=True), "stopped at its time limit: tick"),
        (result(text="edited a.py: 1 place", tool="edit"), "edited a.py: 1 place"),
        (result(text="Not permitted: rm", is_error=True), "failed: Not permitted: rm"),
        (result(text=""), "done"),
        (ToolMessage("c", "read", "1\tx", facts=Facts(first_line=7, last_line=7)), "line 7"),
    ],
)
def test_a_result_is_its_outcome_size_and_most_telling_line(message: ToolMessage, line: str) -> None:
    assert result_line(message) == line


def test_a_price_that_is_not_known_is_never_shown_as_nothing() -> None:
    assert cost_words(Spend(cost_usd=None)) == "cost unknown"
    assert [cost_words(Spend(cost_usd=c)) for c in (0.0, 0.0123, 1.5)] == ["$0.00", "$0.0123", "$1.50"]


def test_without_a_window_the_status_shows_tokens() -> None:
    screen = Screen()
    screen.show(RunStarted("r1", "0.1.0", "/work", ModelSetup("a/b", {}, Window(None)), "sys", ()), task("x" * 4000))
    assert status_line(screen.run.state).startswith("step 0 · context ~1")
    assert "window unknown" in screen.lines[0]


def test_the_last_line_says_how_it_ended_what_it_took_and_where_it_is() -> None:
    screen = Screen()
    screen.show(STARTED, task(), called(None))
    words = end_words(RunEnded("cost_limit"), screen.run.state, seconds=134.2, where="~/runs/r1")
    assert (
        words
        == "stopped at the cost limit: 1 step, cost unknown, 2 min 14 s; run r1 in ~/runs/r1; to go on: tinyagent -r r1"
    )


@pytest.mark.parametrize("text", ["\x1b[31mred", "\x07", "a\rb", "\x9b2J", "\u202etxt", "\u200b", "\u2028", "\ufeff"])
def test_hostile_text_is_shown_and_never_acts(text: str) -> None:
    """S16 and its kin: escape sequences, bidirectional and zero-width characters, wherever text comes in."""
    lines = Screen(verbose=True, live=True)
    lines.console.text(text)
    lines.console.waiting(text)
    lines.show(Notice(text, text), assistant(text, call("c1", text, command=text)), ran(f"{text}\n[exit code 0]"))
    written = "\n".join(lines.lines)
    assert written.replace("\n", "").isprintable()
    assert legible(text) in written


@given(st.text())
def test_legible_text_is_printable_and_keeps_what_can_be_read(text: str) -> None:
    shown = legible(text)
    assert all(char in "\n\t" or char.isprintable() for char in shown)
    assert legible(shown) == shown
    assert not text.isprintable() or shown == text


@given(st.text(), st.integers(min_value=1, max_value=80))
def test_a_clipped_text_fits_its_cells(text: str, cells: int) -> None:
    from rich.cells import cell_len

    clipped = clip_cells(text.replace("\n", " "), cells)
    assert cell_len(clipped) <= cells + 1  # an ambiguous character may count one more elsewhere


def test_an_encoding_without_arrows_gets_ascii() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    paper = paper_for(stream, {})
    paper.line("~17,020 → ~9,048 · naïve …")
    assert stream.buffer.getvalue() == b"~17,020 -> ~9,048 | na\\xefve ...\n"  # pyright: ignore[reportAttributeAccessIssue]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({}, False)],
)
def test_colours_only_where_they_are_wanted(environ: dict[str, str], coloured: bool) -> None:
    terminal = Terminal()
    paper_for(terminal, environ).line("careful", "red")
    assert terminal.getvalue() == ("\x1b[31mcareful\x1b[0m\n" if coloured else "careful\n")


def test_a_terminal_that_went_away_does_not_end_the_run() -> None:
    stream = io.StringIO()
    paper = Paper(stream)
    stream.close()
    paper.line("hello")
    assert paper.is_gone


@pytest.mark.parametrize(
    ("answer", "allowed", "reason"),
    [
        ("y\n", True, ""),
        ("YES\n", True, ""),
        ("a\n", True, ""),
        ("n\n", False, "the user said no"),
        ("\n", False, "the user said no"),
        ("use git rm instead\n", False, "the user said: use git rm instead"),
        ("", False, "the user gave no answer"),
    ],
)
def test_an_answer_allows_or_is_the_reason(answer: str, allowed: bool, reason: str) -> None:
    verdict = Screen(answers=answer).console.ask(call(command="rm -r build"), "the rule bash(rm *) asks")
    assert verdict is not None
    assert (verdict.allowed, verdict.reason) == (allowed, reason)


def test_always_means_exactly_this_call() -> None:
    """S17: approving `python a.py` for ever does not cover `python -c ...`."""
    screen = Screen(answers="a\nn\n")
    verdicts = [screen.console.ask(call(command=c), "?") for c in ("python a.py", "python a.py", "python a.py -x")]
    assert [v is not None and v.allowed for v in verdicts] == [True, True, False]
    assert [line for line in screen.lines if "python" in line] == ["    python a.py", "    python a.py -x"]


def asked(made: ToolCall) -> Sequence[str]:
    screen = Screen(answers="n\n")
    screen.console.ask(made, "may it?")
    return screen.lines


def test_the_question_shows_the_whole_command_with_nothing_hidden() -> None:
    """S16 (Tracebit on Gemini CLI): blanks, controls and bidirectional marks before the harmful tail."""
    lines = asked(call(command="ls" + " " * 400 + "; touch MARK\r\u202e" + "#" * 3000))
    assert lines[0] == "may it?"
    assert lines[1].startswith("    ls[400 spaces]; touch MARK\\x0d\\u202e###")
    assert lines[1].count("#") == 3000
    assert lines[2] == "    (3,416 characters)"


def test_the_question_shows_other_arguments_up_to_a_stated_length() -> None:
    lines = asked(call(name="write", path="a.py", content="x" * 5_000))
    assert lines[1] == "    path: a.py"
    assert lines[2].count("x") == 4_000
    assert "... and 1,000 more characters" in lines[-2]


def test_without_a_person_nobody_is_asked() -> None:
    screen = Screen()
    assert screen.console.ask(call(), "may it?") is None
    assert screen.lines == []
