"""`tinyagent show`: what a reader sees, and that nothing in a trajectory acts on the terminal."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, task, user
from tests.trajectory.files import seeded_run, write_document, write_journal
from tests.trajectory.generators import runs
from tests.trajectory.story import Story
from tinyagent.cli.rendering import Rendering, arguments_text, wrapped
from tinyagent.cli.show import show
from tinyagent.console import Paper
from tinyagent.core.errors import RecordError
from tinyagent.core.events import Attempt, Compacted, Decision, Notice, Record, RunEnded, RunResumed
from tinyagent.core.types import Json, ToolCall, Usage
from tinyagent.trajectory.native import to_native
from tinyagent.trajectory.report import report

ID = "20261130-054112-7f3a"
HOSTILE = "a\x1b[31mred\x1b]0;title\x07 [bold]b[/bold] \u202eright to left\x9b2J \ud83d\r\n\x00 {0} %s"
# What `show` itself may send to a terminal: colours, line ends, and nothing else.
OWN = re.compile(r"\x1b\[[0-9;]*m|\n")
RUN_SHOW = "import sys; from tinyagent.cli.app import command; command('show').main(sys.argv[1:])"


def shown(records: list[Record], *, full: bool = False, columns: int = 80, colours: bool = False) -> str:
    """The whole run as on a terminal of that width."""
    stream = io.StringIO()
    rendering = Rendering(Paper(stream, is_live=True, has_colours=colours, columns=lambda: columns), full=full)
    for row in report(records):
        rendering.row(row)
    return stream.getvalue()


def run_of_two_steps() -> Story:
    made = Story()
    made.say(task())
    made.ask(usage=Usage(1000, 10, 800), cost_usd=0.5, duration_s=1.5, context_tokens=1010)
    made.say(replace(assistant("I look.", call("c1", command="pytest -q")), reasoning="Where to begin?"))
    made.note(Decision("c1", "bash", True, "rule 3"))
    made.say(replace(result("c1", "\n".join(f"line {n}" for n in range(1, 41)), is_error=True), facts={"exit_code": 2}))
    made.note(
        Compacted(
            "budget", 2, 17020, 9048, (1, -1), ("elide", "summarize"), elided=(3,), summarized=(2, 3),
            summary="## Task\nFix it.", attempts=(Attempt("elide", "frees too little"),),
        )
    )  # fmt: skip
    made.ask(usage=Usage(100, 10), cost_usd=0.25)
    made.say(assistant("All done."))
    made.note(RunEnded("submitted"))
    return made


@pytest.mark.parametrize(
    "line",
    [
        "run 20261130-054112-7f3a · openai/gpt-x · window unknown · tinyagent 0.1.0",
        "task · #1",
        "  Fix the failing test.",
        "step 1 · 1,000 in (80% cached), 10 out · $0.5000 · 1.5 s · context 1,010 · #2",
        "  I look.",
        "  › bash  pytest -q",
        "    allowed by rule 3",
        "    exit 2 · 310 characters · #3",
        "    [... 30 lines left out ...]",
        "    line 40",
        "» compacted context: ~17,020 → ~9,048 tokens (elided 1 tool output, summarized 2 messages)",
        "  because of the budget, before step 2: elide → summarize",
        "  elide was not enough: frees too little",
        "  summarized: #2-#3",
        "  the next request carries 2 messages",
        "    ## Task",
        "  All done.",
        "finished: 2 steps · 2 requests · 1,100 in (73% cached), 20 out · $0.7500 · 9.0 s",
    ],
)
def test_a_run_is_told_line_by_line(line: str) -> None:
    assert line in shown(run_of_two_steps().records, columns=200).split("\n")


def test_reasoning_and_whole_outputs_are_shown_only_when_asked_for() -> None:
    records = run_of_two_steps().records
    assert "Where to begin?" not in shown(records)
    assert "Where to begin?" in shown(records, full=True)
    assert "line 20" not in shown(records)
    assert "line 20" in shown(records, full=True)


def hostile_run(text: str) -> list[Record]:
    made = Story()
    made.say(task(text))
    made.ask(error=text)
    made.ask()
    made.say(
        assistant(text, ToolCall("c1", "bash", {"command": text, text: text}), ToolCall("c2", text, None, text, text))
    )
    made.note(Decision("c1", "bash", False, text))
    made.say(result("c1", text), result("c2", text), user(text, "notice"))
    made.note(Compacted("budget", 2, 9, 4, (1, -1), ("prune",), pruned=(2, 3, 4), summary=text))
    made.note(Notice(text, text))
    made.note(RunResumed(text, replace(made.start.setup, model=text), forked_from=text))
    made.note(RunEnded("crashed", text))
    return made.records


@given(st.text(st.characters(), max_size=40) | st.just(HOSTILE))
def test_no_character_of_a_trajectory_acts_on_the_terminal(text: str) -> None:
    for full in (False, True):
        rest = OWN.sub("", shown(hostile_run(text), full=full, colours=True))
        assert all(char.isprintable() or 0xD800 <= ord(char) <= 0xDFFF for char in rest)
        assert not any(0xD800 <= ord(char) <= 0xDFFF for char in rest)


def test_escapes_are_shown_and_markup_is_left_as_it_is() -> None:
    text = shown(hostile_run(HOSTILE), full=True, columns=500)
    assert r"a\x1b[31mred\x1b]0;title\x07 [bold]b[/bold] \u202eright to left\x9b2J \ud83d" in text
    assert r"\x00 {0} %s" in text


@given(runs(max_steps=3), st.integers(30, 120))
def test_no_line_is_wider_than_the_terminal(records: list[Record], columns: int) -> None:
    lines = shown(records, columns=columns).split("\n")
    assert max(cells(line) for line in lines) < columns


def cells(text: str) -> int:
    """Width in a terminal: wide characters count twice."""
    return sum(2 if char in "日本語のテキスト🙂" else 1 for char in text)


@given(st.text(st.sampled_from("ab 日🙂-"), max_size=200), st.integers(2, 30))
def test_a_wrapped_line_loses_only_blanks_where_it_was_cut(line: str, width: int) -> None:
    parts = list(wrapped(line, width))
    assert "".join(parts).replace(" ", "") == line.replace(" ", "")
    assert all(cells(part) <= width for part in parts)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"command": "ls"}, "ls"),
        ({"command": "ls", "timeout_s": 5}, "ls\ntimeout_s: 5"),
        ({"path": "a.py"}, "a.py"),
        ({"path": "a.py", "offset": 3}, "path: a.py, offset: 3"),
        ({"path": "a.py", "old": "x\ny"}, "path: a.py\nold:\nx\ny"),
        ({"items": [{"text": "look"}]}, '[{"text": "look"}]'),
        ({}, ""),
    ],
)
def test_arguments_read_as_their_kind_asks(arguments: Json, text: str) -> None:
    assert arguments_text(ToolCall("c1", "tool", arguments)) == text


def test_a_run_of_a_killed_process_says_that_calls_have_no_result() -> None:
    made = Story()
    made.say(task())
    made.ask()
    made.say(assistant("", call("c1")))
    text = shown(made.records)
    assert "(no result: the run was stopped first)" in text
    assert "no end on record: 1 step" in text


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder with one run in it."""
    monkeypatch.setenv("TINYAGENT_HOME", str(tmp_path))
    write_journal(tmp_path / "runs" / ID, run_of_two_steps().records)
    return tmp_path


@pytest.mark.parametrize("source", [ID, "7f3a", "latest", f"runs/{ID}", f"runs/{ID}/journal.jsonl", "out.json"])
def test_whatever_holds_a_run_is_shown(
    home: Path, source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    write_document(home / "out.json", to_native(run_of_two_steps().records))
    show(source)
    assert capsys.readouterr() == (shown(run_of_two_steps().records, columns=10_000), "")


@pytest.mark.usefixtures("home")
def test_one_step_is_shown_whole_with_what_led_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    show(step=1)
    first = capsys.readouterr().out
    show(step=2)
    second = capsys.readouterr().out
    assert "line 20" in first
    assert "All done." not in first
    assert second.startswith("» compacted context")
    assert "All done." in second


@pytest.mark.usefixtures("home")
def test_a_step_that_does_not_exist_is_told_with_how_many_there_are() -> None:
    with pytest.raises(RecordError, match="there is no step 9: the run has 2"):
        show(step=9)


@pytest.mark.usefixtures("home")
def test_the_json_form_holds_all_rows_unclipped(capsys: pytest.CaptureFixture[str]) -> None:
    show(as_json=True)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["row"] for row in rows] == ["start", "message", "step", "pass", "step", "end"]
    assert rows[2]["calls"][0]["result"]["text"].endswith("line 40")


def test_repairs_and_edits_are_told_on_stderr(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = home / "runs" / ID / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"seq":99,"ti')
    document = to_native(run_of_two_steps().records)
    document["messages"][1]["content"] = "Do nothing."
    write_document(home / "out.json", document)
    show(ID)
    show(str(home / "out.json"))
    stderr = capsys.readouterr().err
    assert "warning: journal.jsonl: line 11: its writing was cut off" in stderr
    assert "warning: out.json was edited after it was written: #1" in stderr


@pytest.mark.usefixtures("home")
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """R28 blz#150: `| head -1`."""
    write_journal(tmp_path / "long", seeded_run(11, steps=300))
    head = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program = [sys.executable, "-c", RUN_SHOW, str(tmp_path / "long")]
    ended = subprocess.run(program, stdout=head.stdin, stderr=subprocess.PIPE, timeout=60, check=False)
    out, _ = head.communicate(timeout=60)
    assert out.startswith("run 20261130-054112-7f3a")
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("pager", "paged"), [("sed s/^/P:/", True), ("cat", False), ("no-such-program", False)])
def test_a_pager_is_used_on_a_terminal_alone(pager: str, paged: bool) -> None:
    on_terminal = terminal_output({"PAGER": pager, "TERM": "xterm"})
    assert (b"P:" in on_terminal) == paged
    assert b"All done." in on_terminal
    piped = subprocess.run(
        [sys.executable, "-c", RUN_SHOW],
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, "PAGER": pager},
    )
    assert b"P:" not in piped.stdout
    assert b"\x1b" not in piped.stdout


def test_quitting_the_pager_early_is_no_error(home: Path) -> None:
    write_journal(home / "long", seeded_run(11, steps=300))
    output = terminal_output({"PAGER": "head -1", "TERM": "xterm"}, str(home / "long"))
    assert output.count(b"\n") == 1
    assert b"Traceback" not in output


def terminal_output(environ: dict[str, str], *arguments: str) -> bytes:
    """What `show` sends to a terminal. It must end with 0."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", RUN_SHOW, *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, **environ},
    )  # fmt: skip
    os.close(theirs)
    output = b""
    while chunk := read(ours):
        output += chunk
    os.close(ours)
    assert child.wait(timeout=60) == 0
    return output


def read(terminal: int) -> bytes:
    """The next bytes; none after the last program has closed its side, which Linux reports as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_line_of_any_length_is_wrapped_in_linear_time() -> None:
    made = Story()
    made.say(task("word " * 400_000))
    assert len(shown(made.records, full=True)) > 2_000_000
