"""The runs of a user: a folder each below one root, named by an id that sorts by time."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import cast

from tinyagent.core.errors import RecordError
from tinyagent.core.events import Record, RunStarted, record_from_json
from tinyagent.core.state import RunState, advance
from tinyagent.core.types import Json
from tinyagent.trajectory.journal import JOURNAL, is_locked
from tinyagent.trajectory.reading import Contents, read_journal

LATEST = "latest"
CHILDREN = "children"  # the folder of a run's sub-agents, which are numbered from 1
_REMOVING = ".removing-"
_SHOWN_CANDIDATES = 5
_KIND = re.compile(rb'\{"seq":\d+,"time":[^,]+,"event":"(\w+)"')
_COUNTED = frozenset({b"run_started", b"run_resumed", b"model_called", b"child_ended", b"run_ended"})


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a few figures.

    `state` is "running" while a process works on it, "stopped" if one ended without saying why (killed), "unreadable"
    if its start cannot be read, else the reason of its end. `cost_usd` None: a price was unknown. Times are UTC seconds
    since 1970; `last_active` is when its journal was last written.
    """

    id: str
    folder: Path
    state: str
    task: str = ""
    model: str = ""
    cwd: str = ""
    parent: str = ""
    steps: int = 0
    cost_usd: float | None = None
    started: float = 0.0
    last_active: float = 0.0


def new_run_id(now: float, random: Random) -> str:
    """An id such as `20261130-054112-7f3a`: the UTC time, which sorts, and four random digits."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{random.randrange(1 << 16):04x}"


def find_run(root: Path, ref: str, *, cwd: Path | None = None) -> Path:
    """The folder of a run, by its id, the beginning or last part of it, or `latest`. Raises RecordError.

    `ID.2` is the second sub-agent of a run.
    `latest` is the one last worked on that no other run spawned; with `cwd`, of those that were started in this folder,
    by its real path. An id is only ever compared with the names in `root`, so that none leads out of it.
    """
    parent, dot, number = ref.rpartition(".")
    if dot and number.isdecimal():
        return _child(find_run(root, parent, cwd=cwd), int(number))
    folders = run_folders(root)
    if ref == LATEST:
        return _latest(folders, root, cwd)
    found = [f for f in folders if f.name == ref] or [f for f in folders if ref and _is_part(ref, f.name)]
    if not found:
        raise RecordError(f"there is no run {ref!r} in {root}; `tinyagent runs` lists them")
    if len(found) > 1:
        shown = ", ".join(folder.name for folder in found[-_SHOWN_CANDIDATES:])
        more = f" and {len(found) - _SHOWN_CANDIDATES} more" if len(found) > _SHOWN_CANDIDATES else ""
        raise RecordError(f"{ref!r} could be any of {len(found)} runs: {shown}{more}; give more of the id")
    return found[0]


def load(ref: str, root: Path) -> Contents:
    """The records of a journal, a run folder, an exported trajectory, or a run in `root` by what `find_run` takes.

    A file or folder of that name comes first. Raises RecordError.
    """
    path = Path(ref)
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except OSError as error:  # a name too long for the file system, a folder that may not be entered
        raise RecordError(f"{ref:.80} cannot be read: {error.strerror or error}") from error
    if is_folder:
        return read_journal(path / JOURNAL)
    if is_there and not _is_journal(path):
        from tinyagent.trajectory.documents import read_document  # the readers of all forms: a run needs none

        return read_document(path)
    if is_there:
        return read_journal(path)
    if "/" in ref or path.suffix in (".json", ".jsonl"):
        raise RecordError(f"{ref} does not exist")
    return read_journal(find_run(root, ref) / JOURNAL)


def sub_agents(journal: Path) -> dict[str, tuple[Record, ...]]:
    """The records of the sub-agents of a run, by their run ids; none of one that cannot be read."""
    found: dict[str, tuple[Record, ...]] = {}
    for child in sorted((journal.parent / CHILDREN).glob(f"*/{JOURNAL}")):
        with suppress(RecordError):
            records = read_journal(child).records
            found |= {r.event.run_id: records for r in records[:1] if isinstance(r.event, RunStarted)}
    return found


def run_folders(root: Path) -> list[Path]:
    """The folders of all runs, oldest first. Links are passed over. Raises RecordError."""
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{root} cannot be read: {error.strerror or error}") from error
    return [root / name for name in sorted(names) if (root / name / JOURNAL).is_file()]


def list_runs(root: Path) -> list[RunSummary]:
    """The runs in `root`, oldest first. Of each journal only what is counted is decoded; nothing is repaired."""
    return [summarize_run(folder) for folder in run_folders(root)]


def summarize_run(folder: Path) -> RunSummary:
    """The figures of one run."""
    state, started, parent = RunState(), 0.0, ""
    for record in _counted_records(folder / JOURNAL):
        if isinstance(record.event, RunStarted):
            started, parent = record.time, record.event.parent
        state = advance(state, record.event)
    first = state.messages[0] if state.messages else None
    return RunSummary(
        folder.name,
        folder,
        _state_of(folder, state),
        task="" if first is None else first.text,
        model=state.setup.model,
        cwd=state.cwd,
        parent=parent,
        steps=state.spend.steps,
        cost_usd=state.spend.cost_usd,
        started=started,
        last_active=_last_active(folder),
    )


def remove_run(folder: Path) -> None:
    """Delete a run with all its files. Raises RecordError, also while a process works on it."""
    if is_locked(folder):
        raise RecordError(f"{folder.name} is running: stop it first")
    # Renamed first: what an interrupt leaves is no run any more, and the next `gc` takes it.
    doomed = folder.with_name(_REMOVING + folder.name)
    try:
        folder.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        raise RecordError(f"{folder} cannot be removed: {error.strerror or error}") from error


def gc(root: Path, *, older_than_s: float, now: float) -> list[str]:
    """Remove the runs that nobody worked on for so many seconds, and return their ids. Raises RecordError."""
    old = [f for f in run_folders(root) if now - _last_active(f) > older_than_s and not is_locked(f)]
    for folder in old:
        remove_run(folder)
    for leftover in root.glob(f"{_REMOVING}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    return [folder.name for folder in old]


def _is_part(ref: str, run_id: str) -> bool:
    return run_id.startswith(ref) or run_id.endswith(f"-{ref}")


def _child(folder: Path, number: int) -> Path:
    child = folder / CHILDREN / str(number)
    if not (child / JOURNAL).is_file():
        raise RecordError(f"there is no run of a sub-agent {number} in {folder}")
    return child


def _latest(folders: list[Path], root: Path, cwd: Path | None) -> Path:
    for folder in sorted(folders, key=lambda f: (_last_active(f), f.name), reverse=True):
        start = _start(folder)
        if start is None or start.parent:
            continue
        # Real paths, not names made from them: `a_b` and `a-b` are two projects (Claude Code 2.1.224).
        if cwd is None or os.path.realpath(start.cwd) == os.path.realpath(cwd):
            return folder
    where = "" if cwd is None else f" that was started in {cwd}"
    raise RecordError(f"there is no run{where} in {root}")


def _last_active(folder: Path) -> float:
    try:
        return (folder / JOURNAL).stat().st_mtime
    except OSError:
        return 0.0


def _start(folder: Path) -> RunStarted | None:
    record = next(_counted_records(folder / JOURNAL), None)
    return record.event if record is not None and isinstance(record.event, RunStarted) else None


def _state_of(folder: Path, state: RunState) -> str:
    if is_locked(folder):
        return "running"
    if not state.run_id:
        return "unreadable"
    return "stopped" if state.ended is None else state.ended.reason


def _counted_records(path: Path) -> Iterator[Record]:
    """The records that `RunSummary` is made of, and the first message. Lines that cannot be read are passed over."""
    wanted = {*_COUNTED, b"message"}
    try:
        with path.open("rb") as file:
            for line in file:
                kind = _KIND.match(line)
                if kind is None or kind[1] not in wanted:
                    continue
                record = _record(line)
                if record is not None:
                    wanted.discard(b"message" if kind[1] == b"message" else b"")
                    yield record
    except OSError:
        return


def _record(line: bytes) -> Record | None:
    try:
        return record_from_json(cast(Json, json.loads(line)))
    except (ValueError, RecursionError, RecordError):
        return None


def _is_journal(path: Path) -> bool:
    if path.suffix == ".jsonl" or not path.is_file():
        return True  # `read_journal` has the sentence for what is no file
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b'{"seq":')
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from error
