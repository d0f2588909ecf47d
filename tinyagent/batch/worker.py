"""One try at a task, from workspace to status: the same function for the local pool and for Ray.

Everything happens in the task's own folder and can be taken up again where a kill left it: a workspace that was
finished is used again, a run that did not end goes on, one that ended is only judged.

    tasks/NAME/status.json       how it ended; written last
               journal.jsonl     the run's journal, with outputs/ and children/ once the task is final
               trajectory.json   patch.diff   log.txt
               home/             TINYAGENT_HOME of the run      } while the task is not final
               workspace/        where it works                 }
"""

import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tinyagent.batch import workspace as spaces
from tinyagent.batch.launch import Command, Exit, Launcher
from tinyagent.batch.progress import CHILDREN, JOURNAL, Progress, awaits_model, read_progress, spent_usd
from tinyagent.batch.status import Check, Patch, Status, ended_status, judged, read_status, write_status
from tinyagent.batch.tasks import Task
from tinyagent.batch.workspace import Workspace, WorkspaceError
from tinyagent.config.folders import folders
from tinyagent.config.schema import SandboxSettings
from tinyagent.core.errors import END_STATES, EndReason, RecordError, SandboxLost
from tinyagent.core.types import Completed, Sandbox
from tinyagent.models.pause import PAUSE_VARIABLE
from tinyagent.sandboxes.tree import marked_environment
from tinyagent.security.environment import NON_INTERACTIVE, child_environment
from tinyagent.trajectory.native import to_native
from tinyagent.trajectory.reading import read_journal
from tinyagent.trajectory.shapes import timestamp
from tinyagent.trajectory.writing import write_file, write_native

COMMAND_LIMIT_S = 600.0  # for setup and check, unless the task itself may take longer
_NEVER_S = 1e9
# Ends that another key, setting, account or budget may undo; a status says whether they were meant so.
_OUTSIDE: tuple[EndReason, ...] = ("auth", "config", "provider_error", "cost_limit")
TAIL_CHARS = 2000
_WORKSPACE, _HOME, _READY = "workspace", "home", "workspace/ready.json"


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker has to know for one try.

    `options` are arguments for `tinyagent run` that hold for every task. `cost_usd` is the run's whole cost limit,
    None for none; `reduced`: it is less than the task's own. `time_s` None: no deadline; a run
    ends itself at it, and the batch does `grace_s` later. `pause` is the file that all runs share (models/pause.py).
    """

    task: Task
    attempt: int
    number: int
    folder: Path
    mark: str
    options: tuple[str, ...]
    sandbox: SandboxSettings
    cost_usd: float | None
    reduced: bool = False
    time_s: float | None = None
    grace_s: float = 15.0
    keep_workspace: bool = False
    oracle: bool = False
    key_names: tuple[str, ...] = ()
    pause: Path | None = None


def work(order: Order, launcher: Launcher, environ: Mapping[str, str]) -> Status:
    """Do one try and leave its status in the folder. Raises RecordError or OSError if not even that can be written."""
    started, clock = time.time(), time.monotonic()
    status = Status(order.task.id, order.attempt, order.number, "infrastructure", started_at=timestamp(started))
    own = _Try(order, launcher, environ)
    try:
        status = own.result(status)
    except (WorkspaceError, SandboxLost) as error:
        status = replace(status, exit_status="Error", reason="sandbox_lost", retryable=True, error=str(error))
    own.publish(status)
    status = replace(status, seconds=round(time.monotonic() - clock, 3), ended_at=timestamp(time.time()))
    write_status(order.folder, status)
    return status


def begin_again(folder: Path) -> None:
    """Remove what earlier tries left, so that the task starts afresh."""
    for name in (_WORKSPACE, _HOME, CHILDREN, "outputs"):
        spaces.remove(folder / name)
    for name in (JOURNAL, "trajectory.json", "patch.diff", "status.json"):
        (folder / name).unlink(missing_ok=True)


def can_go_on(folder: Path) -> bool:
    """Whether an earlier try left a workspace and a run that can be taken up, or needs only to be judged.

    A run that was broken off inside a tool call is not taken up: the call may have run in part, and the model would be
    told of an interruption that is none of the task's. Such a task starts afresh.
    """
    if not (folder / _READY).is_file() or not (folder / _WORKSPACE / "files").is_dir():
        return False
    journal = _journal_in(folder / _HOME)
    if journal is None:
        return True
    progress = read_progress(journal)
    if progress.ended is None:
        return awaits_model(journal)
    return not END_STATES[progress.ended.reason].retryable or _goes_on(folder, progress)


def run_folder(folder: Path) -> Path:
    """Where the journal of a task is: in its home while it is not final, else in the folder itself."""
    journal = _journal_in(folder / _HOME)
    return folder if journal is None else journal.parent


class _Try:
    def __init__(self, order: Order, launcher: Launcher, environ: Mapping[str, str]) -> None:
        self._order = order
        self._launcher = launcher
        self._environ = {**environ, **order.task.env}
        self._folder = order.folder
        self._log = order.folder / "log.txt"

    def result(self, status: Status) -> Status:
        """The run, its patch and its check."""
        workspace = self._workspace()
        exit_ = self._run(workspace)
        journal = run_folder(self._folder)
        progress = read_progress(journal / JOURNAL)
        status = ended_status(
            status,
            progress,
            timed_out=exit_.code is None,
            died_of=_words(exit_, self._log),
            reduced=self._order.reduced,
        )
        if self._order.oracle:
            status = replace(status, model="oracle", model_returned="oracle")  # not the path of its script
        if exit_.code == 0 and not progress.run_id:
            status = replace(status, error="the journal of the run is gone")
        status = replace(status, cost_usd=spent_usd(journal, reserved_usd=self._order.cost_usd))
        self._write_trajectory(journal)
        status = replace(status, patch=self._write_patch(workspace, is_partial=status.state != "submitted"))
        if status.state == "infrastructure" or not self._order.task.check:
            return status
        return judged(status, self._check(workspace))

    def publish(self, status: Status) -> None:
        """Put the run's files where the reader looks; what a later try needs stays until the task is final."""
        journal = run_folder(self._folder)
        if journal != self._folder:
            _link(journal / JOURNAL, self._folder / JOURNAL)
        if not status.is_final:
            return
        for name in ("outputs", CHILDREN):
            if journal != self._folder and (journal / name).is_dir():
                with suppress(OSError):
                    (journal / name).rename(self._folder / name)
        spaces.remove(self._folder / _HOME)
        if not self._order.keep_workspace:
            spaces.remove(self._folder / _WORKSPACE)

    def _workspace(self) -> Workspace:
        """The workspace of an earlier try that goes on, else a fresh one after the task's setup."""
        space = self._folder / _WORKSPACE
        if can_go_on(self._folder):
            trees = json.loads((self._folder / _READY).read_bytes())
            return Workspace(space / "files", space / "record.git", trees["base"], trees["start"])
        begin_again(self._folder)
        workspace = spaces.prepare(self._order.task.source, space, environ=self._environ)
        if self._order.task.setup:
            done = self._command("setup", self._order.task.setup, workspace)
            if done.exit_code != 0:
                raise WorkspaceError(f"the setup command failed ({_ending(done)}): {done.output[-300:].strip()}")
            workspace = spaces.snapshot(workspace, environ=self._environ)
        trees = {"base": workspace.base, "start": workspace.start}
        write_file(self._folder / _READY, json.dumps(trees).encode())
        return workspace

    def _run(self, workspace: Workspace) -> Exit:
        """The run itself; nothing if its journal says that it has ended and need not go on."""
        journal = _journal_in(self._folder / _HOME)
        progress = None if journal is None else read_progress(journal)
        if progress is not None and progress.ended is not None and not _goes_on(self._folder, progress):
            return Exit(0)
        resume = journal.parent.name if journal is not None and progress is not None and progress.run_id else ""
        home = self._home()
        shared = {PAUSE_VARIABLE: str(self._order.pause)} if self._order.pause else {}
        command = Command(
            self._arguments(workspace, resume),
            self._environ | {"TINYAGENT_HOME": str(home)} | shared,
            self._folder,
            self._log,
            self._order.mark,
        )
        limit = _NEVER_S if self._order.time_s is None else self._order.time_s + self._order.grace_s
        return self._launcher.run(command, timeout_s=limit, grace_s=self._order.grace_s)

    def _home(self) -> Path:
        """A home for this run alone, but for what was found out about servers, which all runs share."""
        home, cache = self._folder / _HOME, folders(self._environ).cache
        home.mkdir(mode=0o700, exist_ok=True)
        with suppress(OSError):  # without it each run asks for itself
            cache.mkdir(parents=True, exist_ok=True)
            (home / "cache").symlink_to(cache)
        return home

    def _arguments(self, workspace: Workspace, resume: str) -> tuple[str, ...]:
        order, task = self._order, self._order.task
        if resume:
            what = ("--resume", resume)
        else:
            text = self._folder / "task.txt"
            text.write_bytes(task.text.encode("utf-8", "surrogatepass"))
            what = ("--file", str(text), "--cwd", str(workspace.root))
        settings = {
            "cost_limit": repr(order.cost_usd or 0.0),
            "time_limit": repr(order.time_s or 0.0),
            "step_limit": None if task.step_limit is None else str(task.step_limit),
            "sandbox.kind": task.sandbox or None,
            "sandbox.image": task.image or None,
            "sandbox.pass_env": ",".join([*order.sandbox.pass_env, *task.env]) if task.env else None,
            "model": self._script() if order.oracle else None,
        }
        given = [word for key, value in settings.items() if value is not None for word in ("--set", f"{key}={value}")]
        output = ("--output", str(self._folder / "trajectory.json"), "--output-format", "text")
        return ("run", *what, *output, *order.options, *given)

    def _script(self) -> str:
        """The task's own solution as a model."""
        path = self._folder / "oracle.json"
        path.write_text(json.dumps(list(self._order.task.oracle)), encoding="utf-8")
        return f"scripted/{path}"

    def _write_trajectory(self, journal: Path) -> None:
        """For a run that was killed before it could write its own."""
        target = self._folder / "trajectory.json"
        with suppress(RecordError, OSError):  # no journal: there is nothing to tell
            if not target.exists() or target.stat().st_mtime < (journal / JOURNAL).stat().st_mtime:
                write_native(target, to_native(read_journal(journal / JOURNAL).records))

    def _write_patch(self, workspace: Workspace, *, is_partial: bool) -> Patch:
        try:
            patch = spaces.take_patch(workspace, environ=self._environ)
        except WorkspaceError as error:
            self._note(f"no patch: {error}")
            return Patch(0, True)
        write_file(self._folder / "patch.diff", patch)
        return Patch(len(patch), is_partial)

    def _check(self, workspace: Workspace) -> Check:
        if not workspace.root.is_dir():
            return Check(False, None, 0.0, "the workspace is gone")
        done = self._command("check", self._order.task.check, workspace)
        return Check(done.exit_code == 0, done.exit_code, round(done.duration_s, 3), done.output[-TAIL_CHARS:])

    def _command(self, what: str, command: str, workspace: Workspace) -> Completed:
        """A command of the task's file, where the model's commands run, with its output in the log."""
        limit = max(COMMAND_LIMIT_S, self._order.time_s or 0.0)
        environ = marked_environment(self._environ, self._order.mark)
        with _sandbox(self._order, workspace.root, environ) as sandbox:
            done = sandbox.run(command, timeout_s=limit, max_bytes=100_000)
        self._note(f"$ {command}\n{done.output.rstrip()}\n[{what}: {_ending(done)}, {done.duration_s:.1f} s]")
        return done

    def _note(self, text: str) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"\n{text}\n")


def _goes_on(folder: Path, progress: Progress) -> bool:
    """Whether a run with an end is taken up again, because what ended it lay outside the run."""
    reason = "" if progress.ended is None else progress.ended.reason
    if reason in ("interrupted", "terminated"):
        return bool(progress.last_error)  # only a request was under way
    status = read_status(folder)
    stopped_by_batch = status is not None and status.state in ("budget", "infrastructure")
    return reason == "transient_provider_error" or (stopped_by_batch and reason in _OUTSIDE)


def _journal_in(home: Path) -> Path | None:
    found = sorted((home / "runs").glob(f"*/{JOURNAL}"))
    return found[-1] if found else None


def _link(journal: Path, target: Path) -> None:
    """The same file under a second name; a copy where there are no hard links."""
    target.unlink(missing_ok=True)
    try:
        os.link(journal, target)
    except OSError:
        shutil.copyfile(journal, target)


def _words(exit_: Exit, log: Path) -> str:
    """What is known of a process that left no end on record."""
    what = f"it was killed by signal {exit_.signal}" if exit_.signal else f"it ended with exit code {exit_.code}"
    with suppress(OSError):
        lines = log.read_bytes()[-4096:].decode("utf-8", "replace").strip().splitlines()
        if lines and not exit_.signal:
            return f"{what}: {lines[-1][:300]}"
    return what


def _ending(done: Completed) -> str:
    return "stopped at its time limit" if done.timed_out else f"exit code {done.exit_code}"


def _sandbox(order: Order, root: Path, environ: Mapping[str, str]) -> Sandbox:
    from tinyagent.sandboxes.bubblewrap import BubblewrapSandbox
    from tinyagent.sandboxes.container import ContainerSandbox
    from tinyagent.sandboxes.local import LocalSandbox

    wanted = order.sandbox
    kind, image = order.task.sandbox or wanted.kind, order.task.image or wanted.image
    env = child_environment(environ, key_names=order.key_names, pass_names=(*wanted.pass_env, *order.task.env))
    if kind in ("docker", "podman"):
        inside = {**NON_INTERACTIVE, **order.task.env}
        return ContainerSandbox(root, env=env, image=image, engine=kind, variables=inside, share_net=wanted.network)
    return (
        LocalSandbox(root, env=env) if kind == "local" else BubblewrapSandbox(root, env=env, share_net=wanted.network)
    )
