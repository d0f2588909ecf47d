"""`tinyagent demo`: a real run of a scripted model in a scratch repository, its window small enough to see a pass."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tinyagent.core.errors import ConfigError
from tinyagent.core.types import Json, Model, Request, Response

PROJECT = Path(__file__).parent / "demo_project"
WINDOW = 5_500
PAUSE_S = 0.012  # between two words, where a person watches
COMMITS = {"money: amounts in whole cents": "2026-01-05T09:00:00Z", "money: simplify allocate": "2026-01-06T17:30:00Z"}


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the scratch repository.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Show text at once, not word by word.")] = False,
) -> None:
    """Watch a scripted model fix a real bug, offline and for nothing.

    The model's words are made up beforehand. Everything else is real: the repository, the tools, the failing tests, the
    context window and what is done when it fills up, the record of the run.
    """
    environ = {**os.environ, "PATH": _path(os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
    for program in ("git", "bash", "python3"):
        if shutil.which(program, path=environ["PATH"]) is None:
            raise ConfigError(f"the demo needs {program}, which is not installed")
    folder = Path(tempfile.mkdtemp(prefix="tinyagent-demo-")).resolve()
    try:
        code = play(folder, environ, pause_s=PAUSE_S if sys.stderr.isatty() and not quick else 0.0)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep:
        typer.echo(f"The repository is in {folder}", err=True)
    raise typer.Exit(code)


def play(folder: Path, environ: Mapping[str, str], *, pause_s: float) -> int:
    """Run the demo in an empty folder; 0 if the run ended well and the tests pass."""
    from tinyagent.build import open_session
    from tinyagent.cli.demo_script import TASK, replies
    from tinyagent.cli.reporter import Outcome, Reporter
    from tinyagent.cli.signals import handled
    from tinyagent.config import Settings
    from tinyagent.models.scripted import ScriptedModel

    bug = make_repository(folder, environ)
    reporter = Reporter(environ, output=None, form="text")
    reporter.console.note(f"Task: {TASK}")
    model = Paced(ScriptedModel("scripted/demo", replies(bug.broken, bug.whole), window=WINDOW), pause_s=pause_s)
    settings = Settings(context_window=WINDOW, approval="auto")
    with (
        handled() as signals,
        open_session(
            settings,
            cwd=folder,
            environ=environ,
            observer=reporter.observer,
            model=model,
            unbroken=signals.unbroken,
        ) as session,
    ):
        ended = session.execute(TASK)
        signals.over()
    code = reporter.ended(Outcome(ended, session.state, session.folder))
    typer.echo("\n" + _run(["git", "--no-pager", "diff"], folder, environ).stdout)
    passed = _run(["python3", "-m", "unittest", "-q"], folder, environ).returncode == 0
    typer.echo(_ending(session.run_id, passed=passed))
    return code or int(not passed)


@dataclass(frozen=True, slots=True)
class Bug:
    """A part of the module as it is, and as it should be."""

    broken: str
    whole: str


def make_repository(folder: Path, environ: Mapping[str, str]) -> Bug:
    """A repository of two commits, the second of which brought the bug."""
    for source in sorted(PROJECT.glob("*.py.txt")):
        (folder / source.name.removesuffix(".txt")).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n")
    module = folder / "money.py"
    now = module.read_text(encoding="utf-8")
    start = now.index("    whole = sum(weights)\n")
    broken = now[start : now.index("\n\n\n", start)] + "\n"
    whole = (PROJECT / "before_allocate.txt").read_text(encoding="utf-8")
    _run(["git", "init", "--quiet", "--initial-branch=main", "."], folder, environ)
    for (subject, date), text in zip(COMMITS.items(), (now.replace(broken, whole), now), strict=True):
        module.write_text(text, encoding="utf-8")
        _commit(folder, environ, subject, date)
    return Bug(broken, whole)


class Paced:
    """A model whose text appears word by word, as that of a real one does."""

    def __init__(self, model: Model, *, pause_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._model = model
        self._pause_s = pause_s
        self._sleep = sleep

    @property
    def name(self) -> str:
        return self._model.name

    def options(self) -> Json:
        return self._model.options()

    def adjust(self, parameter: str) -> bool:
        return self._model.adjust(parameter)

    def complete(
        self, request: Request, *, on_text: Callable[[str], None] | None = None, timeout_s: float | None = None
    ) -> Response:
        def slowly(text: str) -> None:
            for word in text.split(" "):
                self._sleep(self._pause_s)
                if on_text is not None:
                    on_text(f"{word} ")

        return self._model.complete(request, on_text=slowly if self._pause_s else on_text, timeout_s=timeout_s)


def _commit(folder: Path, environ: Mapping[str, str], subject: str, date: str) -> None:
    who = ["-c", "user.name=Someone", "-c", "user.email=someone@example.com"]
    dated = {**environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    _run(["git", "add", "--all"], folder, environ)
    done = _run(["git", *who, "commit", "--quiet", "--no-verify", "-m", subject], folder, dated)
    if done.returncode:
        raise ConfigError(f"the demo cannot make its repository: {done.stderr.strip() or done.stdout.strip()}")


def _run(argv: list[str], folder: Path, environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a program in the scratch repository; git looks neither at the user's configuration nor at other folders."""
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    bare = {
        name: value for name, value in environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    return subprocess.run(argv, cwd=folder, env={**bare, **alone}, capture_output=True, text=True, check=False)


def _path(environ: Mapping[str, str]) -> str:
    """The search path with the running Python's own folder, so that there is a `python3`."""
    return os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", os.defpath)])


def _ending(run_id: str, *, passed: bool) -> str:
    return f"""\
The tests {"pass now" if passed else "STILL FAIL"}. Only the model was scripted: calls, tests and compaction were real.

  the run again       tinyagent show {run_id}
  every request       tinyagent replay {run_id} --check
  with a real model   set ANTHROPIC_API_KEY, OPENAI_API_KEY or another key,
                      or start a local Ollama; then, in a project of yours:
                      tinyagent "fix the failing test"
  what is missing     tinyagent doctor"""
