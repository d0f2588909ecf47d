"""The command line as a user runs it, with a home and a workspace of its own, against a fake provider.

A run in this process takes some 40 ms; what needs a process of its own (signals, kills, pipes) gets one.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeVar

from tests.fake_provider import FakeProvider
from tinyagent.cli.app import command_line
from tinyagent.core.events import Event, Record
from tinyagent.models.wires import encode as encode_request
from tinyagent.trajectory import replay
from tinyagent.trajectory.reading import Contents, read_journal

ROOT = Path(__file__).parent.parent.parent
LONGEST_S = 30
TASK = "Fix the failing test."
KEY = "sk-test-0123456789abcdefghij"

Json = dict[str, Any]
Kind = TypeVar("Kind", bound=Event)
WIRES = ("anthropic", "openai")  # what every behaviour is shown on
MODELS = {"anthropic": "anthropic/fake", "openai": "openai/fake", "responses": "openai/fake", "ollama": "ollama/fake"}
PRICES = ("-s", "prices.input_usd_per_mtok=3", "-s", "prices.output_usd_per_mtok=15")


@dataclass(frozen=True)
class Done:
    """What is left of a run that ended: code, streams, trajectory and run folder (None: there is none)."""

    code: int
    stdout: str
    stderr: str
    path: Path
    folder: Path | None = None

    @cached_property
    def trajectory(self) -> Json:
        return json.loads(self.path.read_text("utf-8"))

    @property
    def info(self) -> Json:
        return self.trajectory["info"]

    @property
    def reason(self) -> str:
        return self.info["reason"]

    @property
    def passes(self) -> list[Json]:
        return self.trajectory.get("compactions", [])

    @cached_property
    def lines(self) -> list[Json]:
        """stdout of `stream-json`."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def result(self) -> Json:
        return self.lines[-1]

    @cached_property
    def journal(self) -> Contents:
        assert self.folder is not None
        return read_journal(self.folder / "journal.jsonl")

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(self.journal.records)

    def events(self, kind: type[Kind]) -> list[Kind]:
        return [record.event for record in self.records if isinstance(record.event, kind)]


class Tinyagent:
    """Runs `tinyagent`. Everything that it writes lies under `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.workspace = root / "work"
        self.home.mkdir()
        (self.workspace / ".git").mkdir(parents=True)
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL")}
        self.environ = kept | {
            "HOME": str(root),
            "TINYAGENT_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_API_KEY": KEY,
        }
        self._runs = 0
        self._started: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        """End what a failed test has left running."""
        for popen in self._started:
            popen.kill()
            popen.wait()

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run(
        self,
        server: FakeProvider | None,
        *options: str,
        api: str = "openai",
        task: str | None = TASK,
        model: str | None = None,
        priced: bool = True,
        approval: str | None = "auto",
        environ: Mapping[str, str] | None = None,
    ) -> Done:
        """One run to its end, in this process."""
        before = set(self.folders)
        path = self._next_path()
        arguments = self.arguments(
            server, *options, api=api, task=task, model=model, priced=priced, approval=approval, path=path
        )
        code, stdout, stderr = self.command(*arguments, environ=environ)
        new = [folder for folder in self.folders if folder not in before]
        folder = new[-1] if new else (self.folders[-1] if self.folders else None)
        return Done(code, stdout, stderr, path, folder)

    def command(self, *arguments: str, environ: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        """Any command line in this process: exit code, stdout, stderr."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        with (
            own_process(self.environ | dict(environ or {})),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = command_line(list(arguments))
        return code, _text(out), _text(err)

    def start(
        self,
        server: FakeProvider | None,
        *options: str,
        api: str = "openai",
        task: str | None = TASK,
        stdout: int | None = None,
        environ: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> "Process":
        """A run in a process of its own, started and not waited for.

        Its streams go to files, `stdout` to a descriptor where one is given. `before` stands before its command.
        """
        path = self._next_path()
        arguments = self.arguments(server, *options, api=api, task=task, path=path)
        with _opened(path.with_suffix(".out")) as out, _opened(path.with_suffix(".err")) as err:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", "tinyagent", *arguments],
                cwd=self.workspace,
                env=self.environ | dict(environ or {}),
                stdin=subprocess.DEVNULL,
                stdout=out if stdout is None else stdout,
                stderr=err,
                start_new_session=True,
            )
        self._started.append(process)
        return Process(self, process, path)

    def arguments(
        self,
        server: FakeProvider | None,
        *options: str,
        path: Path,
        api: str = "openai",
        task: str | None = TASK,
        model: str | None = None,
        priced: bool = True,
        approval: str | None = "auto",
    ) -> list[str]:
        given = ["-C", str(self.workspace), "-o", str(path)]
        if server is not None:
            given += ["-m", model or MODELS[api], "--api", api, "--base-url", server.base_url(api)]
        if priced:
            given += PRICES
        if approval is not None:
            given += ["--approval", approval]
        return [*given, *options, *([] if task is None else [task])]

    @property
    def folders(self) -> list[Path]:
        """The run folders, oldest first."""
        return sorted((self.home / "runs").glob("*"), key=lambda folder: folder.stat().st_mtime_ns)

    def _next_path(self) -> Path:
        self._runs += 1
        return self.root / f"trajectory-{self._runs}.json"


@dataclass(frozen=True)
class Process:
    """A started run."""

    program: Tinyagent
    popen: "subprocess.Popen[bytes]"
    path: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def done(self, *, within_s: float = LONGEST_S) -> Done:
        """Wait for its end."""
        out, err = self.path.with_suffix(".out"), self.path.with_suffix(".err")
        try:
            code = self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within_s} s:\n{err.read_text()}") from None
        folders = self.program.folders
        return Done(code, out.read_text(), err.read_text(), self.path, folders[-1] if folders else None)


def proven(done: Done, server: FakeProvider) -> None:
    """Every request that the provider received can be made again from the trajectory, byte for byte."""
    sent = list(replay.requests(done.records))
    assert [encode_request(one.request, one.options) for one in sent] == [one.raw for one in server.requests]
    assert replay.check(done.records, encode_request) == []


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _opened(path: Path) -> IO[bytes]:
    return path.open("wb")


@contextlib.contextmanager
def own_process(environ: Mapping[str, str]) -> Iterator[None]:
    """What a process would have for itself: environment and signal handlers."""
    before = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
