"""Whole batches in a test: real runs, real processes, a fake provider."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.fake_provider import FakeProvider
from tests.fake_wires import Call, Say
from tinyagent.batch.board import Board, Outcome
from tinyagent.batch.folder import BatchFolder
from tinyagent.batch.launch import ForkLauncher, Launcher, PlainLauncher
from tinyagent.batch.local import Executor, LocalExecutor
from tinyagent.batch.planning import Asked, make_plan
from tinyagent.batch.progress import Progress
from tinyagent.batch.runner import Driver
from tinyagent.batch.status import Status, read_status
from tinyagent.batch.tasks import job_name
from tinyagent.config import Given
from tinyagent.core.types import Json

# So dear that a request of some hundred tokens costs cents.
USD_PER_MTOK = 10
DEAR = (f"prices.input_usd_per_mtok={USD_PER_MTOK}", f"prices.output_usd_per_mtok={USD_PER_MTOK}")


@dataclass
class Seen:
    """A display that remembers; `on_look` may act on what it sees."""

    ended_ids: list[str] = field(default_factory=list[str])
    said: list[str] = field(default_factory=list[str])
    boards: list[Board] = field(default_factory=list[Board])
    on_look: Callable[[Board], None] = lambda board: None

    def look(self, board: Board) -> None:
        self.boards.append(board)
        self.on_look(board)

    def ended(self, status: Status, board: Board) -> None:
        self.ended_ids.append(status.id)

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass
class Batch:
    """A batch in `root`, run as often as asked; `launcher` is kept by who made it. `executor` goes first."""

    root: Path
    rows: Sequence[Json]
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    assignments: Sequence[str] = ()
    launcher: Launcher | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    seen: Seen = field(default_factory=Seen)
    asked: Mapping[str, bool | int] = field(default_factory=dict[str, bool | int])
    grace_s: float = 15.0
    ray_address: str | None = None
    executor: Executor | None = None

    @property
    def out(self) -> Path:
        return self.root / "out"

    def run(self, options: Mapping[str, str] | None = None, *, interrupts: Callable[[], int] = lambda: 0) -> Outcome:
        tasks = self.write_tasks()
        environ = {**os.environ, "TINYAGENT_HOME": str(self.root / "home"), **self.environ}
        given = {"batch.workers": "4", **self.options, **(options or {})}
        asked = Asked(
            tasks,
            options=tuple(Given(key, text, f"--{key}") for key, text in given.items()),
            assignments=tuple(self.assignments),
            **self.asked,  # pyright: ignore[reportArgumentType]
        )
        planned = make_plan(asked, environ)
        with BatchFolder(self.out) as folder:
            record = folder.settings_of(planned.record)
            executor = self._executor(environ)
            driver = Driver(
                replace(planned.plan, grace_s=self.grace_s),
                folder,
                executor,
                self.seen,
                batch_id=record["batch_id"],
                interrupts=interrupts,
                first_pause_s=0.2,
            )
            try:
                return driver.run()
            finally:
                executor.close()

    def _executor(self, environ: Mapping[str, str]) -> Executor:
        if self.executor is not None:
            return self.executor
        if self.ray_address is None:
            return LocalExecutor(environ, launcher=_Borrowed(self.launcher or PlainLauncher()))
        from tinyagent.batch.ray import RayExecutor

        return RayExecutor(environ, workers=int(self.options.get("batch.workers", "4")), address=self.ray_address)

    def write_tasks(self) -> Path:
        path = self.root / "tasks.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        return path

    def folder(self, task: str, attempt: int = 1) -> Path:
        return self.out / "tasks" / job_name(task, attempt)

    def seen_running(self, task: str) -> list[Progress]:
        """What the display was shown of a task while it ran."""
        running = [running for board in self.seen.boards for running in board.running]
        return [one.progress for one in running if one.name == job_name(task, 1)]

    def status(self, task: str, attempt: int = 1) -> Status:
        found = read_status(self.folder(task, attempt))
        assert found is not None, f"{task} has no status"
        return found

    def states(self) -> dict[str, str]:
        return {str(row["id"]): self.status(str(row["id"])).state for row in self.rows}

    def lines(self, name: str) -> list[Json]:
        """The rows of a file of JSON lines, none of which may be blank or torn."""
        data = (self.out / name).read_bytes()
        assert data.endswith(b"\n") or not data
        return [json.loads(line) for line in data.split(b"\n")[:-1]]


class _Borrowed:
    """A launcher that outlives the executor."""

    def __init__(self, launcher: Launcher) -> None:
        self.run = launcher.run
        self.stop = launcher.stop

    def close(self) -> None:
        """Left open for the next batch."""


def on(server: FakeProvider) -> dict[str, str]:
    """Options that send a run to the server."""
    return {"model": "openai/fake", "base_url": server.base_url("openai"), "api": "openai", "context_window": "30000"}


def rows(count: int, **more: object) -> list[Json]:
    return [{"id": f"t{n}", "task": f"Do number {n}.", **more} for n in range(1, count + 1)]


def oracle(*commands: str) -> list[Json]:
    """A solution that runs the commands and says that it is done."""
    return [*({"tool": "bash", "arguments": {"command": command}} for command in commands), {"final": "Done."}]


def by_task(answers: Mapping[str, Sequence[Say]]) -> Callable[[Json], Say]:
    """Replies by what the task says and how many replies it has had, so that a task may start again."""

    def reply(body: Json) -> Say:
        text = json.dumps(body["messages"])
        name = next(name for name in answers if name in text)
        number = sum(message["role"] == "assistant" for message in body["messages"])
        return answers[name][min(number, len(answers[name]) - 1)]

    return reply


def bash(command: str) -> Say:
    return Say(calls=(Call("bash", {"command": command}),))


__all__ = ["DEAR", "USD_PER_MTOK", "Batch", "ForkLauncher", "Seen", "bash", "by_task", "on", "oracle", "rows"]
