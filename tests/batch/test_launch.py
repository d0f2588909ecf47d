"""Both ways of starting a run do the same."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.batches import oracle
from tinyagent.batch.launch import Command, ForkLauncher, Launcher, PlainLauncher
from tinyagent.sandboxes.tree import living, new_mark


@pytest.fixture(params=["fork", "plain"])
def either(request: pytest.FixtureRequest) -> Iterator[Launcher]:
    chosen: Launcher = ForkLauncher() if request.param == "fork" else PlainLauncher()
    yield chosen
    chosen.close()


def command(folder: Path, *commands: str, **environ: str) -> Command:
    (folder / "ws").mkdir(exist_ok=True)
    (folder / "script.json").write_text(json.dumps(oracle(*commands)), encoding="utf-8")
    words = ["run", "x", "-C", str(folder / "ws"), "-s", f"model=scripted/{folder / 'script.json'}", "--yolo"]
    env = {**os.environ, "TINYAGENT_HOME": str(folder / "home"), **environ}
    return Command(tuple(words), env, folder, folder / "log.txt", new_mark())


def test_a_run_ends_with_its_exit_code_and_its_output_is_in_the_log(either: Launcher, tmp_path: Path) -> None:
    assert either.run(command(tmp_path, "echo $WORD > out", WORD="hello"), timeout_s=30).code == 0
    assert (tmp_path / "ws" / "out").read_text() == "hello\n"
    assert "finished: 2 steps" in (tmp_path / "log.txt").read_text()


def test_a_second_run_adds_to_the_log(either: Launcher, tmp_path: Path) -> None:
    for _ in range(2):
        either.run(command(tmp_path, "true"), timeout_s=30)
    assert (tmp_path / "log.txt").read_text().count("finished: 2 steps") == 2


def test_a_usage_error_is_its_exit_code(either: Launcher, tmp_path: Path) -> None:
    wrong = command(tmp_path)
    wrong = Command(("run", "x", "--nonsense"), wrong.environ, wrong.cwd, wrong.log, wrong.mark)
    assert either.run(wrong, timeout_s=30).code == 2


def test_at_the_deadline_a_run_and_all_it_started_are_ended(either: Launcher, tmp_path: Path) -> None:
    late = command(tmp_path, "setsid sleep 60 & sleep 60")
    started = time.monotonic()
    assert either.run(late, timeout_s=1.5, grace_s=5).code is None
    assert time.monotonic() - started < 10
    assert not living(late.mark)
    journal = next((tmp_path / "home" / "runs").glob("*/journal.jsonl"))
    assert b'"terminated"' in journal.read_bytes()


def test_a_run_that_kills_itself_is_told_by_its_signal(either: Launcher, tmp_path: Path) -> None:
    assert either.run(command(tmp_path, "kill -9 $PPID"), timeout_s=30).signal == 9


def test_a_module_in_the_task_s_folder_is_never_ours(either: Launcher, tmp_path: Path) -> None:
    """The current folder comes first where Python looks for modules, unless it is told otherwise."""
    (tmp_path / "ws").mkdir()
    for place in (tmp_path, tmp_path / "ws"):
        for name in ("tinyagent.py", "json.py", "yaml.py", "httpx.py", "sitecustomize.py"):
            (place / name).write_text(f"open({str(tmp_path / 'MARK')!r}, 'w')\n", encoding="utf-8")
    assert either.run(command(tmp_path, "true"), timeout_s=30).code == 0
    assert not (tmp_path / "MARK").exists()
