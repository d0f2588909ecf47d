"""One try at a task, from workspace to status: the same function for the local pool and for Ray.

Everything happens in the task's own folder and can be taken up again where a kill left it: a workspace that was
finished is used again, a run that only waited for a reply goes on, one that ended is only judged.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tinyagent.batch import workspace as spaces
from tinyagent.batch.attempt import (
    HOME,
    LOG,
    PATCH,
    READY,
    TRAJECTORY,
    WORKSPACE,
    begin_again,
    can_go_on,
    goes_on,
    journal_in_home,
    publish,
    run_folder,
)
from tinyagent.batch.commands import ending, note, run_command
from tinyagent.batch.launch import Command, Exit, Launcher
from tinyagent.batch.order import Order, run_arguments
from tinyagent.batch.progress import JOURNAL, Progress, read_progress, spent_usd
from tinyagent.batch.status import Check, Patch, Status, ended_status, judged, unstarted_status, write_status
from tinyagent.batch.workspace import Workspace, WorkspaceError
from tinyagent.config.folders import RUNS_VARIABLE, folders
from tinyagent.core.errors import RecordError, SandboxLost
from tinyagent.models.pause import PAUSE_VARIABLE
from tinyagent.trajectory.native import dump, to_native
from tinyagent.trajectory.reading import read_journal
from tinyagent.trajectory.shapes import timestamp
from tinyagent.trajectory.writing import write_file

TAIL_CHARS = 2000
_NEVER_S = 1e9


def work(order: Order, launcher: Launcher, environ: Mapping[str, str]) -> Status:
    """Do one try and leave its status in the folder. Raises RecordError or OSError if not even that can be written."""
    started, clock = time.time(), time.monotonic()
    status = Status(order.task.id, order.attempt, order.number, "infrastructure", started_at=timestamp(started))
    own = _Try(order, launcher, {**environ, **order.task.env})
    try:
        status = own.result(status)
    except (WorkspaceError, SandboxLost) as error:
        status = replace(status, exit_status="Error", reason="sandbox_lost", retryable=True, error=str(error))
        status = replace(status, cost_usd=own.cost_usd())
    publish(order.folder, is_final=status.is_final, keep_workspace=order.keep_workspace)
    status = replace(status, seconds=round(time.monotonic() - clock, 3), ended_at=timestamp(time.time()))
    write_status(order.folder, status)
    return status


class _Try:
    def __init__(self, order: Order, launcher: Launcher, environ: Mapping[str, str]) -> None:
        self._order = order
        self._launcher = launcher
        self._environ = environ
        self._folder = order.folder
        self._was_launched = False

    def result(self, status: Status) -> Status:
        """The run, its patch and its check. Raises WorkspaceError, SandboxLost."""
        workspace = self._workspace()
        status = self._ended(status, self._run(workspace))
        self._write_trajectory()
        status = replace(status, patch=self._write_patch(workspace, is_partial=status.state != "submitted"))
        if status.state == "infrastructure" or not self._order.task.check:
            return status
        return judged(status, self._check(workspace))

    def cost_usd(self) -> float | None:
        """What the run has cost at most; None if that is lost or a price is unknown."""
        folder = run_folder(self._folder)
        return self._cost_usd(folder, read_progress(folder / JOURNAL))

    def _workspace(self) -> Workspace:
        """The workspace of an earlier try that goes on, else a fresh one after the task's setup."""
        space = self._folder / WORKSPACE
        if can_go_on(self._folder):
            trees = json.loads((self._folder / READY).read_bytes())
            return Workspace(space / "files", space / "record.git", trees["base"], trees["start"])
        begin_again(self._folder)
        workspace = spaces.prepare(self._order.task.source, space, environ=self._environ)
        if self._order.task.setup:
            done = run_command("setup", self._order.task.setup, self._order, workspace.root, environ=self._environ)
            if done.exit_code != 0:
                raise WorkspaceError(f"the setup command failed ({ending(done)}): {done.output[-300:].strip()}")
            workspace = spaces.snapshot(workspace, environ=self._environ)
        trees = {"base": workspace.base, "start": workspace.start}
        write_file(self._folder / READY, json.dumps(trees).encode())
        return workspace

    def _run(self, workspace: Workspace) -> Exit:
        """The run itself; nothing if its journal says that it has ended and need not go on."""
        journal = journal_in_home(self._folder)
        progress = None if journal is None else read_progress(journal)
        if progress is not None and progress.ended is not None and not goes_on(self._folder, progress):
            return Exit(0)
        resume = journal.parent.name if journal is not None and progress is not None and progress.run_id else ""
        home = self._make_home()
        own = {"TINYAGENT_HOME": str(home), RUNS_VARIABLE: str(home / "runs")}
        if self._order.pause is not None:
            own[PAUSE_VARIABLE] = str(self._order.pause)
        command = Command(
            run_arguments(self._order, workspace.root, resume=resume),
            {**self._environ, **own},
            self._folder,
            self._folder / LOG,
            self._order.mark,
        )
        limit = _NEVER_S if self._order.time_s is None else self._order.time_s + self._order.grace_s
        self._was_launched = True
        return self._launcher.run(command, timeout_s=limit, grace_s=self._order.grace_s)

    def _make_home(self) -> Path:
        """A home for this run alone, but for what was found out about servers, which all runs share.

        So the user's own AGENTS.md takes no part: results would depend on who made them.
        """
        home, cache = self._folder / HOME, folders(self._environ).cache
        home.mkdir(mode=0o700, exist_ok=True)
        with suppress(OSError):  # without it each run asks for itself
            cache.mkdir(parents=True, exist_ok=True)
            (home / "cache").symlink_to(cache)
        return home

    def _cost_usd(self, folder: Path, progress: Progress) -> float | None:
        if not progress.run_id and (not self._was_launched or (self._folder / HOME).is_dir()):
            return 0.0  # a run records its start before it asks anything; only one that deletes its home hides it
        return spent_usd(folder, reserved_usd=self._order.cost_usd, progress=progress)

    def _ended(self, status: Status, exit_: Exit) -> Status:
        folder = run_folder(self._folder)
        progress = read_progress(folder / JOURNAL)
        if progress.run_id or exit_.code is None:
            died_of = _words(exit_, self._folder / LOG)
            reduced = self._order.reduced
            status = ended_status(status, progress, timed_out=exit_.code is None, died_of=died_of, reduced=reduced)
        else:
            status = unstarted_status(status, exit_.code, _words(exit_, self._folder / LOG))
        if self._order.oracle:
            status = replace(status, model="oracle", model_returned="oracle")  # not the path of its script
        return replace(status, cost_usd=self._cost_usd(folder, progress))

    def _write_trajectory(self) -> None:
        """For a run that was killed before it could write its own."""
        target, journal = self._folder / TRAJECTORY, run_folder(self._folder) / JOURNAL
        with suppress(RecordError, OSError):  # no journal: there is nothing to tell
            if not target.exists() or target.stat().st_mtime < journal.stat().st_mtime:
                write_file(target, dump(to_native(read_journal(journal).records)))

    def _write_patch(self, workspace: Workspace, *, is_partial: bool) -> Patch:
        try:
            patch = spaces.take_patch(workspace, environ=self._environ)
        except WorkspaceError as error:
            note(self._order, f"no patch: {error}")
            return Patch(0, True)
        write_file(self._folder / PATCH, patch)
        return Patch(len(patch), is_partial)

    def _check(self, workspace: Workspace) -> Check:
        if not workspace.root.is_dir():
            return Check(False, None, 0.0, "the workspace is gone")
        done = run_command("check", self._order.task.check, self._order, workspace.root, environ=self._environ)
        return Check(done.exit_code == 0, done.exit_code, round(done.duration_s, 3), done.output[-TAIL_CHARS:])


def _words(exit_: Exit, log: Path) -> str:
    """What is known of a process that left no end on record."""
    what = f"it was killed by signal {exit_.signal}" if exit_.signal else f"it ended with exit code {exit_.code}"
    with suppress(OSError):
        lines = log.read_bytes()[-4096:].decode("utf-8", "replace").strip().splitlines()
        if lines and not exit_.signal:
            return f"{what}: {lines[-1][:300]}"
    return what
