"""`tinyagent batch` as a user and a script see it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batch.batches import Batch, oracle, rows
from tinyagent.cli.app import command_line

MakeBatch = Callable[..., Batch]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYAGENT_HOME", str(tmp_path / "home"))


def test_a_batch_prints_figures_on_stdout_and_progress_on_stderr(
    batch: MakeBatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = batch(rows(2, oracle=oracle("true"), check="true")).write_tasks()
    assert command_line(["batch", str(tasks), "-o", str(tasks.parent / "out"), "--oracle", "-w", "2"]) == 0
    shown = capsys.readouterr()
    assert "2 = 100.0%" in shown.out
    assert "[2/2]" in shown.err
    assert "passed" in shown.err


def test_json_output_is_one_object(batch: MakeBatch, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = batch(rows(1, oracle=oracle("true"))).write_tasks()
    out = str(tasks.parent / "out")
    assert command_line(["batch", str(tasks), "-o", out, "--oracle", "-q", "--output-format", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["states"] == {"submitted": 1}
    assert shown.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["TASKS"], 2, "the folder of the batch is needed"),
        (["TASKS", "TASKS", "-o", "OUT"], 2, "one task file is needed"),
        (["TASKS", "-o", "OUT", "-w", "0"], 2, "a value above 0 is needed"),
        (["TASKS", "-o", "OUT", "--total-cost-limit", "-1"], 2, "is negative"),
        (["TASKS", "-o", "OUT", "--cost-limit", "0", "--total-cost-limit", "1"], 2, "no cost limit of its own"),
        (["TASKS", "-o", "OUT", "--approval", "ask"], 2, "nobody can be asked"),
        (["TASKS", "-o", "OUT", "--sandbox", "docker"], 78, "docker needs an image"),
        (["TASKS", "-o", "OUT", "--filter", "nothing"], 78, "no task is left"),
        (["NOWHERE", "-o", "OUT"], 78, "cannot be read"),
        (["report"], 2, "the folder of a batch is needed"),
        (["report", "NOWHERE"], 78, "is not the folder of a batch"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(
    batch: MakeBatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    """R73: a usage error costs nothing."""
    tasks = batch(rows(1)).write_tasks()
    named = {"TASKS": str(tasks), "OUT": str(tasks.parent / "out"), "NOWHERE": str(tasks.parent / "nowhere")}
    assert command_line(["batch", *(named.get(word, word) for word in arguments)]) == code
    assert words in capsys.readouterr().err
    assert not (tasks.parent / "out").exists()


def test_two_batches_are_reported_side_by_side(
    batch: MakeBatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = batch(rows(2, oracle=oracle("true"), check="test $PWD != x")).write_tasks()
    command_line(["batch", str(tasks), "-o", str(tmp_path / "a"), "--oracle", "-q"])
    bad = batch([{**rows(1)[0], "oracle": oracle("true"), "check": "false"}]).write_tasks()
    command_line(["batch", str(bad), "-o", str(tmp_path / "b"), "--oracle", "-q"])
    capsys.readouterr()
    assert command_line(["batch", "report", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().out
    assert "solved only in a: t1" in shown
    assert command_line(["batch", "report", str(tmp_path / "a"), "--html", str(tmp_path / "page.html")]) == 0
    assert "2 = 100.0%" in (tmp_path / "page.html").read_text()


def test_what_makes_a_batch_reproducible_is_recorded_without_secrets(
    batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret-secret")
    tasks = batch(rows(1, oracle=oracle("env > seen"))).write_tasks()
    command_line(["batch", str(tasks), "-o", str(tasks.parent / "out"), "--oracle", "-q", "-m", "openai/x"])
    run = json.loads((tasks.parent / "out" / "run.json").read_bytes())
    assert run["settings"]["model"] == "openai/x"
    assert {"version", "commit", "python", "prompts", "tools", "tasks", "models_returned"} <= run.keys()
    written = [path for path in (tasks.parent / "out").rglob("*") if path.is_file()]
    assert not [path for path in written if b"sk-secret" in path.read_bytes()]
