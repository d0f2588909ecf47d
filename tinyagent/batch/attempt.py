"""The folder of one attempt: what earlier tries left in it, and what of that can be used.

tasks/NAME/status.json       how it ended; written last
           journal.jsonl     the run's journal, with outputs/ and children/ once the task is final
           trajectory.json   patch.diff   log.txt
           home/             TINYAGENT_HOME of the run      } while the task is not final
           workspace/        where it works                 }
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from tinyagent.batch import workspace as spaces
from tinyagent.batch.progress import CHILDREN, JOURNAL, JournalTail, Progress, awaits_model, read_progress
from tinyagent.batch.status import STATUS, read_status
from tinyagent.core.errors import END_STATES, EndReason

WORKSPACE, HOME, READY = "workspace", "home", "workspace/ready.json"
PATCH, TRAJECTORY, LOG = "patch.diff", "trajectory.json", "log.txt"
# Ends that another key, setting, account or budget may undo; a status says whether they were meant so.
_OUTSIDE: tuple[EndReason, ...] = ("auth", "config", "provider_error", "cost_limit")


def begin_again(folder: Path) -> None:
    """Remove what earlier tries left, so that the task starts afresh."""
    for name in (WORKSPACE, HOME, CHILDREN, "outputs"):
        spaces.remove(folder / name)
    for name in (JOURNAL, TRAJECTORY, PATCH, STATUS):
        (folder / name).unlink(missing_ok=True)


def can_go_on(folder: Path) -> bool:
    """Whether an earlier try left a workspace and a run that can be taken up, or needs only to be judged.

    A run that was broken off inside a tool call is not taken up: the call may have run in part, and the model would be
    told of an interruption that is none of the task's. Such a task starts afresh.
    """
    if not (folder / READY).is_file() or not (folder / WORKSPACE / "files").is_dir():
        return False
    journal = journal_in_home(folder)
    if journal is None:
        return True
    progress = read_progress(journal)
    if progress.ended is None:
        return awaits_model(journal)
    return not END_STATES[progress.ended.reason].retryable or goes_on(folder, progress)


def run_folder(folder: Path) -> Path:
    """Where the journal of a task is: in its home while it is not final, else in the folder itself."""
    journal = journal_in_home(folder)
    return folder if journal is None else journal.parent


def journal_in_home(folder: Path) -> Path | None:
    """The journal of a run that is not final yet; None if there is none."""
    found = sorted((folder / HOME / "runs").glob(f"*/{JOURNAL}"))
    return found[-1] if found else None


class TryTail:
    """Follows the journal of a try, wherever it is just now: a try that starts afresh removes that of an earlier one,
    and a final one moves its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tail = JournalTail(run_folder(folder) / JOURNAL)

    def look(self) -> Progress:
        if not self._tail.path.exists():
            self._tail = JournalTail(run_folder(self._folder) / JOURNAL)
        return self._tail.look()


def goes_on(folder: Path, progress: Progress) -> bool:
    """Whether a run with an end is taken up again, because what ended it lay outside the run."""
    reason = "" if progress.ended is None else progress.ended.reason
    if reason in ("interrupted", "terminated"):
        return bool(progress.last_error)  # only a request was under way
    status = read_status(folder)
    stopped_by_batch = status is not None and status.state in ("budget", "infrastructure")
    return reason == "transient_provider_error" or (stopped_by_batch and reason in _OUTSIDE)


def publish(folder: Path, *, is_final: bool, keep_workspace: bool) -> None:
    """Put the run's files where the reader looks; what a later try needs stays until the task is final."""
    journal = run_folder(folder)
    if journal != folder:
        _link(journal / JOURNAL, folder / JOURNAL)
    if not is_final:
        return
    for name in ("outputs", CHILDREN):
        if journal != folder and (journal / name).is_dir():
            with suppress(OSError):
                (journal / name).rename(folder / name)
    spaces.remove(folder / HOME)
    if not keep_workspace:
        spaces.remove(folder / WORKSPACE)


def _link(journal: Path, target: Path) -> None:
    """The same file under a second name; a copy where there are no hard links."""
    target.unlink(missing_ok=True)
    try:
        os.link(journal, target)
    except OSError:
        shutil.copyfile(journal, target)
