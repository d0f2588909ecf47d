"""Tells people on stderr and programs on stdout how a run goes and ends."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tinyagent.agent import Observer
from tinyagent.cli.output import Stdout, result_object
from tinyagent.cli.stream_json import StreamJson
from tinyagent.console import Console, end_words, paper_for
from tinyagent.core.errors import END_STATES, EndReason, RecordError
from tinyagent.core.events import Compacted, Event, RunEnded
from tinyagent.core.state import RunState
from tinyagent.core.types import Json, ToolCall, Verdict

STDOUT = "-"  # as the name of a file
JOURNAL = "journal.jsonl"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `folder` is its run folder."""

    ended: RunEnded
    state: RunState
    folder: Path


class Observers:
    """Several observers as one; a question goes to the first that can ask. Counts the passes."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self.passes = 0

    def event(self, event: Event, state: RunState) -> None:
        self.passes += isinstance(event, Compacted)
        for observer in self._observers:
            observer.event(event, state)

    def text(self, delta: str) -> None:
        for observer in self._observers:
            observer.text(delta)

    def waiting(self, message: str) -> None:
        for observer in self._observers:
            observer.waiting(message)

    def ask(self, call: ToolCall, question: str) -> Verdict | None:
        for observer in self._observers:
            if (verdict := observer.ask(call, question)) is not None:
                return verdict
        return None


class Reporter:
    """One run's way out. `output` is where the trajectory goes, `form` what stdout gets: text, json or stream-json."""

    def __init__(
        self, environ: Mapping[str, str], *, output: str | None, form: str, quiet: bool = False, verbose: bool = False
    ) -> None:
        self._home = environ.get("HOME")
        self._output = output
        self._form = form
        self._started = time.monotonic()
        self._stdout = Stdout(sys.stdout)
        self.console = Console(paper_for(sys.stderr, environ), answers=_answers(), quiet=quiet, verbose=verbose)
        self._stream = StreamJson(self._stdout) if form == "stream-json" else None
        self.observer = Observers(self.console, *([self._stream] if self._stream else []))

    def ended(self, outcome: Outcome) -> int:
        """Write answer, trajectory and the last line; the exit code."""
        ended, state = outcome.ended, outcome.state
        written = self._export(outcome.folder, state)
        failed = self._output is not None and written is None
        code = END_STATES[ended.reason].exit_code or int(failed)
        self._answer(ended, state, code, str(written or outcome.folder / JOURNAL))
        if self._stdout.failure:
            self.console.error(self._stdout.failure)
        if ended.error:
            self.console.error(ended.error)
        where = self._short(outcome.folder)
        seconds = time.monotonic() - self._started
        self.console.last_line(end_words(ended, state, seconds=seconds, where=where), good=code == 0)
        return code or int(bool(self._stdout.failure))

    def failed(self, error: BaseException, reason: EndReason) -> None:
        """A run that could not start still has its `result`."""
        self._answer(RunEnded(reason, str(error)), RunState(), END_STATES[reason].exit_code, None)

    def _answer(self, ended: RunEnded, state: RunState, code: int, path: str | None) -> None:
        if self._form == "text":
            seen = self.console.shows_text and _is_same_terminal()
            if ended.submission and self._output != STDOUT and not seen:
                self._stdout.answer(ended.submission)
            return
        seconds = time.monotonic() - self._started
        passes = self.observer.passes
        result = result_object(
            ended, state, exit_code=code, duration_s=seconds, compactions=passes, trajectory_path=path
        )
        self._json(result)

    def _json(self, result: Json) -> None:
        if self._stream is not None:
            self._stream.end(result)
        else:
            self._stdout.json_line(result)

    def _export(self, folder: Path, state: RunState) -> Path | None:
        """Write the trajectory where it is wanted; None if it is not wanted or could not be written."""
        from tinyagent.trajectory.native import dump, to_native
        from tinyagent.trajectory.reading import read_journal
        from tinyagent.trajectory.writing import write_file

        if self._output is None:
            return None
        try:
            data = dump(to_native(read_journal(folder / JOURNAL).records, state=state))
            if self._output == STDOUT:
                self._stdout.line(data.decode())
                return folder / JOURNAL
            path = Path(self._output).absolute()
            write_file(path, data)
        except RecordError as error:
            self.console.error(str(error))
            return None
        return path

    def _short(self, path: Path) -> str:
        return f"~/{path.relative_to(self._home)}" if self._home and path.is_relative_to(self._home) else str(path)


def _answers() -> TextIO | None:
    """Where a person could answer: the terminal, also when stdin is something else. None without one."""
    if not sys.stderr.isatty():
        return None
    if sys.stdin is not None and sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]  it is None if closed
        return sys.stdin
    try:
        return open("/dev/tty", encoding="utf-8", errors="replace")  # noqa: PTH123  open as long as the process
    except OSError:
        return None


def _is_same_terminal() -> bool:
    """Whether stdout and stderr show in the same place, where the answer has been seen already."""
    try:
        out, err = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return sys.stdout.isatty() and (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)
