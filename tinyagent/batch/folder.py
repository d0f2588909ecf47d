"""The folder of a batch: its lock, what it was started with, and the files that are made from the status files."""

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self, cast

from tinyagent.batch.status import Status, read_status, status_json
from tinyagent.batch.tasks import job_name
from tinyagent.core.errors import ConfigError, RecordError
from tinyagent.core.types import Json
from tinyagent.trajectory.writing import write_file

LOCK, RUN, LEDGER, RESULTS, SUMMARY = "batch.lock", "run.json", "ledger.sqlite", "results.jsonl", "summary.json"
TASKS, PAUSE = "tasks", "pause"


class BatchFolder:
    """The folder while a driver works in it; a context manager. One driver at a time holds its lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = -1

    def __enter__(self) -> Self:
        """Make the folder and take its lock. Raises RecordError that names who has it."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._take_lock()
            self._make_tasks_folder()
        except OSError as error:
            self.close()
            raise RecordError(f"{self.root} cannot be used for a batch: {error.strerror or error}") from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def job(self, task_id: str, attempt: int) -> Path:
        """The folder of one attempt, which exists. Raises RecordError if it is a link, which would lead elsewhere."""
        folder = self.root / TASKS / job_name(task_id, attempt)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise RecordError(f"{folder} cannot be made: {error.strerror or error}") from error
        if folder.is_symlink():
            raise RecordError(f"{folder} is a link: remove it")
        return folder

    def settings_of(self, run: Json) -> Json:
        """Write `run.json`, or check that a batch that goes on is still the same one; the file's content.

        Raises ConfigError if what was set then and now differs in what decides the results.
        """
        path = self.root / RUN
        if path.exists():
            try:
                before = cast(Json, json.loads(path.read_bytes()))
            except (OSError, ValueError) as error:
                raise RecordError(f"{path} cannot be read: {error}") from error
            _check_same(path, before, run)
            run = {**run, "batch_id": before["batch_id"], "started_at": before.get("started_at")}
        write_file(path, json.dumps(run, indent=1).encode() + b"\n")
        return run

    def note(self, key: str, value: object) -> None:
        """Add to `run.json` what only the runs could tell."""
        path = self.root / RUN
        data = cast(Json, json.loads(path.read_bytes()))
        write_file(path, json.dumps({**data, key: value}, indent=1).encode() + b"\n")

    def append_result(self, status: Status) -> None:
        """One line more in `results.jsonl`: one write, so that a kill leaves no half line between others."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        line = json.dumps(status_json(status)).encode() + b"\n"
        with contextlib.ExitStack() as stack:
            fd = os.open(self.root / RESULTS, flags, 0o600)
            stack.callback(os.close, fd)
            os.write(fd, line)

    def derive(self, jobs: Sequence[tuple[str, int]]) -> None:
        """Make `results.jsonl` and the prediction files again from the status files of all attempts."""
        statuses = [s for task_id, attempt in jobs if (s := read_status(self._job(task_id, attempt))) is not None]
        write_file(self.root / RESULTS, b"".join(json.dumps(status_json(s)).encode() + b"\n" for s in statuses))
        for attempt in sorted({status.attempt for status in statuses} | {1}):
            name = "preds.jsonl" if attempt == 1 else f"preds@{attempt}.jsonl"
            write_file(self.root / name, self._predictions(s for s in statuses if s.attempt == attempt))

    def known_jobs(self) -> list[Status]:
        """The status of everything in the folder, in the order of names."""
        folders = sorted((self.root / TASKS).glob("*"))
        return [status for folder in folders if (status := read_status(folder)) is not None]

    def _predictions(self, statuses: Iterable[Status]) -> bytes:
        """SWE-bench's form, one object a line, no blank line; a task without a patch has an empty one."""
        lines: list[bytes] = []
        for status in statuses:
            if not status.is_final:
                continue
            patch = self._job(status.id, status.attempt) / "patch.diff"
            data = patch.read_bytes() if patch.is_file() else b""
            text = data.decode("utf-8")
            row: Json = {"instance_id": status.id, "model_name_or_path": status.model, "model_patch": text}
            if status.patch.partial:
                row["partial"] = True
            lines.append(json.dumps(row).encode() + b"\n")
        return b"".join(lines)

    def _job(self, task_id: str, attempt: int) -> Path:
        return self.root / TASKS / job_name(task_id, attempt)

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._lock, 200, 0).decode("utf-8", "replace").strip() or "another process"
            raise RecordError(f"{holder} is working on the batch in {self.root}: wait until it has ended") from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _make_tasks_folder(self) -> None:
        tasks = self.root / TASKS
        tasks.mkdir(mode=0o700, exist_ok=True)
        if tasks.is_symlink():
            raise RecordError(f"{tasks} is a link: remove it")


def _check_same(path: Path, before: Json, now: Json) -> None:
    old, new = cast(Json, before.get("decides", {})), cast(Json, now["decides"])
    different = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    if different:
        key = different[0]
        raise ConfigError(
            f"{path.parent} holds results for {key} = {old.get(key)!r}, and now it is {new.get(key)!r}: "
            "results of two settings in one folder could not be told apart, so choose another one with -o"
        )
