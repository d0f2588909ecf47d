"""From a command line to a session, and through it."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tinyagent.agent import Terminated
from tinyagent.cli.reporter import JOURNAL, STDOUT, Outcome, Reporter
from tinyagent.cli.signals import Signals, handled
from tinyagent.cli.task import read_task
from tinyagent.config import Given, Loaded, UsageError, folders, load_settings
from tinyagent.config.folders import RUNS_VARIABLE, why_not_writable
from tinyagent.console import Console
from tinyagent.core.errors import END_STATES, EndReason, ModelError, SandboxLost, TinyagentError
from tinyagent.core.events import RunEnded
from tinyagent.core.types import Json, Model

if TYPE_CHECKING:
    from tinyagent.build import Session

FORMATS = ("text", "json", "stream-json")

# What a resumed run keeps of its earlier settings, unless a variable or an option says otherwise. Limits do not belong
# here: a run that a limit ended is resumed with another one.
KEPT = (
    "model",
    "base_url",
    "api",
    "api_key_env",
    "transport",
    "context_window",
    "max_output_tokens",
    "reasoning_effort",
    "temperature",
    "prices",
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """What the command line asks for. `of_this_folder`: the run to resume is the last one that was started in `cwd`."""

    task: str | None = None
    file: str | None = None
    cwd: Path = Path()
    options: tuple[Given, ...] = ()
    assignments: tuple[str, ...] = ()
    config_file: Path | None = None
    output: str | None = None
    output_format: str = "text"
    quiet: bool = False
    verbose: bool = False
    resume: str | None = None
    of_this_folder: bool = False
    fork: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything checked, nothing spent. `resume` is the folder of the run to go on with."""

    task: str | None
    cwd: Path
    loaded: Loaded
    resume: Path | None = None
    fork: bool = False


def run_session(invocation: Invocation, environ: Mapping[str, str], *, model: Model | None = None) -> int:
    """Run one task and return the exit code; `model` stands in for a real one.

    Raises TinyagentError for what is wrong before the run starts; its `result` object is then written already, unless
    it is a UsageError.
    """
    if invocation.output_format not in FORMATS:
        raise UsageError(f"--output-format: one of {', '.join(FORMATS)} is needed, not {invocation.output_format}")
    reporter = Reporter(
        environ,
        output=invocation.output,
        form=invocation.output_format,
        quiet=invocation.quiet,
        verbose=invocation.verbose,
    )
    try:
        with handled() as signals:
            environ = _with_place_for_runs(environ, reporter.console)
            prepared = prepare(invocation, environ)
            return reporter.ended(_work(prepared, environ, reporter, signals, model))
    except UsageError:
        raise  # like a wrong option: a sentence and nothing on stdout
    except TinyagentError as error:
        reporter.failed(error, _reason(error))
        raise
    except (KeyboardInterrupt, Terminated) as error:
        reporter.console.error(f"{_signal_reason(error)} before the run began")
        reporter.failed(error, _signal_reason(error))
        return END_STATES[_signal_reason(error)].exit_code


def prepare(invocation: Invocation, environ: Mapping[str, str]) -> Prepared:
    """Check all that can be checked before anything is started. Raises TinyagentError."""
    cwd = directory(invocation.cwd)
    _check_output(invocation)
    resume = _run_to_resume(invocation, folders(environ).runs, cwd)
    loaded = settings_for(invocation, environ, earlier=() if resume is None else _earlier(resume))
    task = read_task(invocation.task, invocation.file, may_be_none=resume is not None)
    return Prepared(task, cwd, loaded, resume, invocation.fork)


def settings_for(invocation: Invocation, environ: Mapping[str, str], *, earlier: Sequence[Given] = ()) -> Loaded:
    """The settings in force for a command line. Raises ConfigError."""
    named = environ.get("TINYAGENT_CONFIG")
    return load_settings(
        cwd=directory(invocation.cwd),
        environ=environ,
        earlier=earlier,
        options=invocation.options,
        assignments=invocation.assignments,
        config_file=invocation.config_file or (Path(named) if named else None),
    )


def directory(path: Path) -> Path:
    """The real path of the directory to work in. Raises UsageError."""
    if path.is_dir():
        return path.resolve()
    raise UsageError(f"--cwd: {path} is not a directory" if path.exists() else f"--cwd: {path} does not exist")


def _work(
    prepared: Prepared, environ: Mapping[str, str], reporter: Reporter, signals: Signals, model: Model | None
) -> Outcome:
    from tinyagent.build import open_session

    for notice in prepared.loaded.notices:
        reporter.console.warn(notice)
    with open_session(
        prepared.loaded.settings,
        cwd=prepared.cwd,
        environ=environ,
        observer=reporter.observer,
        resume=prepared.resume,
        fork=prepared.fork,
        model=model,
        unbroken=signals.unbroken,
    ) as session:
        ended = _execute(session, prepared.task)
        signals.over()
    return Outcome(ended, session.state, session.folder)


def _with_place_for_runs(environ: Mapping[str, str], console: Console) -> Mapping[str, str]:
    """The environment, with another folder for runs if they cannot be kept in theirs (claude-code 2.1.162)."""
    runs = folders(environ).runs
    why = why_not_writable(runs)
    if not why:
        return environ
    elsewhere = tempfile.mkdtemp(prefix="tinyagent-runs-")
    console.warn(f"runs cannot be kept in {runs} ({why}): this one goes to {elsewhere}")
    return {**environ, RUNS_VARIABLE: elsewhere}


def _execute(session: "Session", task: str | None) -> RunEnded:
    try:
        return session.execute(task)
    except (KeyboardInterrupt, Terminated) as error:  # a second one, while the run was being ended
        return session.state.ended or RunEnded(_signal_reason(error), "stopped at once")


def _check_output(invocation: Invocation) -> None:
    """A trajectory that cannot be written is found out before the money is spent."""
    if invocation.output is None:
        return
    if invocation.output == STDOUT:
        if invocation.output_format != "text":
            raise UsageError(f"--output - and --output-format {invocation.output_format} both want stdout: choose one")
        return
    path = Path(invocation.output).absolute()
    if path.is_dir():
        raise UsageError(f"--output: {path} is a directory")
    above = next(parent for parent in path.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"--output: nothing can be written in {above}")


def _run_to_resume(invocation: Invocation, runs: Path, cwd: Path) -> Path | None:
    if invocation.resume is None:
        if invocation.fork:
            raise UsageError("--fork needs a run to copy: --resume RUN or --continue")
        return None
    from tinyagent.trajectory.runs import find_run

    return find_run(runs, invocation.resume, cwd=cwd if invocation.of_this_folder else None)


def _earlier(folder: Path) -> Sequence[Given]:
    """The settings that a resumed run keeps. What was masked for the record is not among them."""
    from tinyagent.core.state import fold
    from tinyagent.trajectory.reading import read_journal

    settings = fold([record.event for record in read_journal(folder / JOURNAL).records]).settings or {}
    kept = {key: settings.get(key) for key in KEPT}
    prices: Json = kept.pop("prices") or {}
    kept |= {f"prices.{name}": price for name, price in prices.items()}
    where = f"run {folder.name}"
    return [Given(key, str(value), where) for key, value in kept.items() if value and "***" not in str(value)]


def _reason(error: TinyagentError) -> EndReason:
    match error:
        case SandboxLost():
            return "sandbox_lost"
        case ModelError(kind="auth"):
            return "auth"
        case ModelError():
            return "provider_error"
        case _:
            return "config"


def _signal_reason(error: BaseException) -> EndReason:
    return "terminated" if isinstance(error, Terminated) else "interrupted"
