"""The driver: decides what starts when, keeps the account, and is the only writer of the batch's shared files."""

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinyagent.batch.attempt import begin_again, can_go_on, run_folder
from tinyagent.batch.board import Board, Display, Outcome, Plan, Running
from tinyagent.batch.folder import LEDGER, PAUSE, SUMMARY, BatchFolder
from tinyagent.batch.ledger import Ledger, Reservation
from tinyagent.batch.leftovers import end_try
from tinyagent.batch.local import Executor, Finished
from tinyagent.batch.order import Order
from tinyagent.batch.progress import JOURNAL, Progress, read_progress, spent_usd
from tinyagent.batch.report import summary_json
from tinyagent.batch.status import Status, ended_status, read_status, write_status
from tinyagent.batch.tasks import Task, job_name
from tinyagent.batch.throttle import Throttle
from tinyagent.core.errors import RecordError
from tinyagent.models.pause import SharedPause
from tinyagent.trajectory.writing import write_file

USEFUL_SHARE = 0.1  # of a task's limit; with less it is better not to begin
LOOK_S = 0.5  # between two looks at what runs


@dataclass(slots=True)
class _Job:
    task: Task
    attempt: int
    folder: Path
    retries: int = 0

    @property
    def name(self) -> str:
        return job_name(self.task.id, self.attempt)


@dataclass(slots=True)
class _Live:
    job: _Job
    reservation: Reservation
    since: float
    mark: str
    seen: Progress = field(default_factory=Progress)


class Driver:
    """Works through a plan in a folder that is open. One thread; the executor has its own.

    `interrupts` says, when asked, how often the user asked to stop.
    """

    def __init__(
        self,
        plan: Plan,
        folder: BatchFolder,
        executor: Executor,
        display: Display,
        *,
        batch_id: str,
        clock: Callable[[], float] = time.monotonic,
        interrupts: Callable[[], int] = lambda: 0,
        first_pause_s: float = 2.0,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._executor = executor
        self._display = display
        self._batch_id = batch_id
        self._clock = clock
        self._interrupts = interrupts
        self._looks_at = 0.0
        self._stops = 0
        self._halted = ""
        self._out_of_money = False
        self._pause = SharedPause(folder.root / PAUSE)
        self._throttle = Throttle.of(plan.workers, first_pause_s=first_pause_s)
        self._pending: deque[_Job] = deque()
        self._live: dict[str, _Live] = {}
        self._ended: dict[str, Status] = {}
        self._seconds: list[float] = []

    def run(self) -> Outcome:
        """Until nothing is left to do or nothing more may be done. Raises RecordError."""
        with Ledger(self._folder.root / LEDGER, total_usd=self._plan.total_usd) as ledger:
            self._ledger = ledger
            self._settle_the_dead()
            self._collect()
            self._derive()
            while self._pending or self._live:
                self._start_some()
                if not self._live and (self._halted or self._out_of_money or self._stops):
                    break
                for finished in self._executor.finished(max(0.0, self._looks_at - self._clock())):
                    self._finish(finished)
                if self._clock() >= self._looks_at:
                    self._look()
                    self._looks_at = self._clock() + LOOK_S
            self._derive()
            outcome = self._outcome()
            self._write_summary(outcome)
            return outcome

    # --- before

    def _settle_the_dead(self) -> None:
        """Close the account of tries whose driver was killed, after making sure that they are dead too."""
        for reservation in self._ledger.open():
            folder = self._folder.root / "tasks" / reservation.job
            end_try(run_folder(folder), self._mark(reservation.job, reservation.number))
            spent = spent_usd(run_folder(folder), reserved_usd=reservation.limit_usd)
            self._settle(reservation, spent)

    def _collect(self) -> None:
        """Sort all jobs into those that are done and those that are to be run."""
        for task, attempt in self._plan.jobs:
            job = _Job(task, attempt, self._folder.job(task.id, attempt))
            status = read_status(job.folder)
            if self._plan.redo or (status is not None and self._plan.retry_failed and not status.is_resolved):
                begin_again(job.folder)
                status = None
            if status is not None and status.is_final:
                self._ended[job.name] = status
            else:
                self._pending.append(job)

    # --- what starts

    def _start_some(self) -> None:
        """Start what the workers, the provider and the money allow, first come first served."""
        while self._pending and not self._stops and not self._halted:
            if self._pause.left_s() or not self._throttle.may_start(len(self._live), self._clock()):
                return
            reserved = self._reserve_first()
            if reserved is None:
                self._out_of_money = not self._live
                return
            self._start(*reserved)

    def _reserve_first(self) -> tuple[_Job, Reservation] | None:
        """The next job with its money. Only with nothing running may a cheaper one go before its turn."""
        candidates = list(self._pending) if not self._live else [self._pending[0]]
        for job in candidates:
            limit = self._limit_usd(job.task)
            before = _spent_before(job.folder) if self._executor.goes_on else 0.0
            wanted = None if limit is None else max(0.0, limit - before)
            number = self._ledger.tries(job.name) + 1
            least = USEFUL_SHARE * (wanted or 0.0)
            found = self._ledger.reserve(job.name, number, wanted_usd=wanted, least_usd=least, before_usd=before)
            if found is not None:
                self._pending.remove(job)
                return job, found
        return None

    def _start(self, job: _Job, reservation: Reservation) -> None:
        limit = self._limit_usd(job.task)
        granted = reservation.limit_usd
        order = Order(
            task=job.task,
            attempt=job.attempt,
            number=reservation.number,
            folder=job.folder,
            mark=self._mark(job.name, reservation.number),
            options=self._plan.options,
            sandbox=self._plan.settings.sandbox,
            cost_usd=granted,
            reduced=granted is not None and (limit is None or granted < limit - 1e-9),
            time_s=self._deadline_s(job.task),
            grace_s=self._plan.grace_s,
            keep_workspace=self._plan.keep_workspaces,
            oracle=self._plan.oracle,
            key_names=self._plan.key_names,
            pause=self._folder.root / PAUSE,
        )
        self._live[job.name] = _Live(job, reservation, self._clock(), order.mark)
        self._executor.start(order)

    def _limit_usd(self, task: Task) -> float | None:
        limit = self._plan.settings.cost_limit if task.cost_limit is None else task.cost_limit
        return limit or None

    def _deadline_s(self, task: Task) -> float | None:
        limit = task.time_limit if task.time_limit is not None else self._plan.settings.time_limit
        return limit or self._plan.deadline_s

    def _mark(self, name: str, number: int) -> str:
        """The name of a try's process tree; the same for a driver that comes after a killed one."""
        return hashlib.sha256(f"{self._batch_id}/{name}/{number}".encode()).hexdigest()[:16]

    # --- what ended

    def _finish(self, finished: Finished) -> None:
        name = finished.order.folder.name
        live = self._live.pop(name)
        job, status = live.job, finished.status
        if status is None:
            status = _crashed(finished, live.seen)
            _try_to_write(job.folder, status)
        self._settle(live.reservation, status.cost_usd)
        self._folder.append_result(status)
        self._learn(live, status)
        if self._again(job, status):
            self._pending.append(job)
            return
        self._ended[name] = status
        self._seconds.append(self._clock() - live.since)
        self._display.ended(status, self._board())

    def _settle(self, reservation: Reservation, run_usd: float | None) -> None:
        """What this try spent of the run's cost; all that was reserved where that is not known."""
        spent = reservation.usd if run_usd is None else max(0.0, run_usd - reservation.before_usd)
        self._ledger.settle(reservation.job, reservation.number, spent or 0.0)

    def _again(self, job: _Job, status: Status) -> bool:
        """Whether a try that says nothing about the model is to be followed by another one."""
        if status.state != "infrastructure" or self._stops or self._halted:
            return False
        if status.stops_batch:
            self._halt(f"{status.id}: {status.error}; every other task would end in the same way")
            return False
        if status.reason == "transient_provider_error":
            return True  # how long the provider is waited for is one decision for all: the throttle's
        job.retries += 1
        return job.retries <= self._plan.max_retries

    def _learn(self, live: _Live, status: Status) -> None:
        """What the run's end tells about the provider."""
        if status.reason == "transient_provider_error":
            self._throttle = self._throttle.trouble(self._clock(), running=len(self._live) + 1)
        elif status.requests > live.seen.spend.requests:
            self._throttle = self._throttle.good_answers(self._clock(), 1)

    def _halt(self, why: str) -> None:
        if self._halted:
            return
        self._halted = why
        self._display.say(f"no further task is started: {why}")

    # --- meanwhile

    def _look(self) -> None:
        """Hear how far the tries are and what that tells about the provider, and show how it stands."""
        now, progress = self._clock(), self._executor.progress()
        for live in self._live.values():
            self._hear(live, progress.get(live.mark, live.seen), now)
        is_hopeless = self._throttle.is_hopeless(now)
        if is_hopeless:
            self._halt("the provider has not answered for too long")
        asked = self._interrupts()
        if asked > self._stops:
            self._stops = asked
            self._display.say("stopping: running tasks are ended and can be resumed" if asked == 1 else "killing")
        if self._stops or is_hopeless:  # at each look: a run that was just being started may not have heard it
            self._executor.stop(force=self._stops > 1)
        self._display.look(self._board())

    def _hear(self, live: _Live, progress: Progress, now: float) -> None:
        if live.seen.run_id:
            if progress.trouble > live.seen.trouble:
                self._throttle = self._throttle.trouble(now, running=len(self._live))
            elif progress.answers > live.seen.answers:
                count = progress.answers - live.seen.answers
                self._throttle = self._throttle.good_answers(now, count)
        live.seen = progress

    def _board(self) -> Board:
        now = self._clock()
        running = tuple(Running(name, live.since, live.seen) for name, live in self._live.items())
        left = len(self._pending) + len(self._live)
        pace = sum(self._seconds) / len(self._seconds) if self._seconds else None
        return Board(
            total=len(self._plan.jobs),
            pending=len(self._pending),
            running=running,
            ended=tuple(self._ended.values()),
            balance=self._ledger.balance(),
            limit_usd=self._plan.total_usd,
            paused_s=max(self._pause.left_s(), self._throttle.paused_until - now),
            eta_s=None if pace is None else pace * left / max(1, min(self._throttle.allowed, left)),
        )

    # --- after

    def _derive(self) -> None:
        jobs = [(task.id, attempt) for task, attempt in self._plan.jobs]
        known = {(status.id, status.attempt): None for status in self._folder.known_jobs()}
        others = [job for job in known if job not in set(jobs)]
        self._folder.derive([*jobs, *others])

    def _outcome(self) -> Outcome:
        statuses = tuple(self._ended.values())
        left = len(self._plan.jobs) - len(statuses)
        budget = self._out_of_money or any(status.state == "budget" for status in statuses)
        open_ends = any(status.state in ("error", "infrastructure") for status in statuses)
        if self._stops:
            code = 130
        elif budget:
            code = 3
        else:
            code = 1 if left or open_ends or self._halted else 0
        return Outcome(statuses, left, self._ledger.balance(), code)

    def _write_summary(self, outcome: Outcome) -> None:
        pending = [job_name(t.id, a) for t, a in self._plan.jobs if job_name(t.id, a) not in self._ended]
        balance = outcome.balance
        data = summary_json(outcome.statuses) | {
            "pending": pending,
            "spent_usd": balance.settled_usd,
            "total_cost_limit": self._plan.total_usd,
            "exit_code": outcome.exit_code,
            "stopped": self._halted or ("budget" if self._out_of_money else "interrupted" if self._stops else None),
        }
        write_file(self._folder.root / SUMMARY, json.dumps(data, indent=1).encode() + b"\n")
        self._folder.note("models_returned", data["models_returned"])


def _spent_before(folder: Path) -> float:
    """What the run that goes on has spent; 0 for one that begins."""
    if not can_go_on(folder):
        return 0.0
    return read_progress(run_folder(folder) / JOURNAL).spend.cost_usd or 0.0


def _crashed(finished: Finished, seen: Progress) -> Status:
    """The status of a try whose worker failed: how far it was seen to come. What it spent in all is not known."""
    order = finished.order
    status = Status(order.task.id, order.attempt, order.number, "infrastructure")
    seen = replace(seen, ended=None)  # its patch and check are lost, so that no end of the run is one of the try
    status = ended_status(status, seen, timed_out=False, died_of=finished.error, reduced=False)
    return replace(status, reason="crashed")


def _try_to_write(folder: Path, status: Status) -> None:
    with suppress(RecordError):  # a full disk, most likely; the ledger has it, and the task runs again
        write_status(folder, status)
