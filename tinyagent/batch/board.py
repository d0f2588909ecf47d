"""A batch as it is asked for, as it stands, and as it ended: what the driver takes and gives."""

from dataclasses import dataclass
from typing import Protocol

from tinyagent.batch.ledger import Balance
from tinyagent.batch.progress import Progress
from tinyagent.batch.status import Status
from tinyagent.batch.tasks import Task
from tinyagent.config.schema import Settings

DEFAULT_DEADLINE_S = 2 * 3600.0  # for a task without a time limit: nothing runs for ever unattended


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done. `options` are arguments that every run gets; `total_usd` None: no limit over all."""

    jobs: tuple[tuple[Task, int], ...]
    settings: Settings
    options: tuple[str, ...] = ()
    workers: int = 4
    total_usd: float | None = None
    max_retries: int = 2
    retry_failed: bool = False
    redo: bool = False
    keep_workspaces: bool = False
    oracle: bool = False
    deadline_s: float | None = DEFAULT_DEADLINE_S
    grace_s: float = 15.0
    key_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A task that runs: since when (seconds of the monotonic clock), and how far it is."""

    name: str
    since: float
    progress: Progress


@dataclass(frozen=True, slots=True)
class Board:
    """How the batch stands, for those who watch. `pending` counts what is still to be started."""

    total: int
    pending: int
    running: tuple[Running, ...]
    ended: tuple[Status, ...]
    balance: Balance
    limit_usd: float | None
    paused_s: float = 0.0
    eta_s: float | None = None


class Display(Protocol):
    """Who watches."""

    def look(self, board: Board) -> None: ...
    def ended(self, status: Status, board: Board) -> None: ...
    def say(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the batch ended. `exit_code`: 0 all tasks ended by themselves, 3 the budget stopped it, 1 otherwise."""

    statuses: tuple[Status, ...]
    pending: int
    balance: Balance
    exit_code: int
