"""How a try at a task ended: `status.json`, the truth that everything else is derived from."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from tinyagent.batch.progress import Progress
from tinyagent.core.codec import decode, encode
from tinyagent.core.errors import END_STATES, USAGE_EXIT_CODE, EndReason, RecordError
from tinyagent.core.types import Json, Usage
from tinyagent.trajectory.writing import write_file

STATUS = "status.json"

State = Literal[
    "passed",  # the model said it was done, and the check agrees
    "failed",  # the model said it was done, and the check does not agree
    "submitted",  # the model said it was done; there is no check
    "limit",  # a limit of the task's own was reached
    "budget",  # the batch's total left less than the task's own limit, and that was used up
    "context",
    "loop",
    "error",  # an end that running again would not change
    "infrastructure",  # the machine, the network, the provider or a person ended it; says nothing about the model
]
FINISHED: tuple[State, ...] = ("passed", "failed", "submitted")
# States that "the same command again" leaves as they are.
FINAL: tuple[State, ...] = (*FINISHED, "limit", "context", "loop", "error")

# Not retryable as they are, but no verdict on the task either: the key, the account or a setting is wrong, which
# holds for every task of the batch.
_MISCONFIGURED: tuple[EndReason, ...] = ("auth", "config")
_ACCOUNT_KINDS = ("quota", "auth", "not_found")


@dataclass(frozen=True, slots=True)
class Check:
    """What the task's check came to. `exit_code` None: it was stopped at its time limit; `tail` is its last output."""

    passed: bool
    exit_code: int | None
    seconds: float
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """`partial`: the run was ended before the model said that it was done."""

    bytes: int = 0
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """One finished try. `cost_usd` None: unknown; the ledger then booked what was reserved.

    `number` counts the tries at this attempt, from 1. `stops_batch`: every other task would end in the same way.
    """

    id: str
    attempt: int
    number: int
    state: State
    exit_status: str = ""
    reason: str = ""
    exit_code: int = 1
    retryable: bool = False
    error: str = ""
    check: Check | None = None
    patch: Patch = Patch()
    cost_usd: float | None = None
    usage: Usage = Usage()
    steps: int = 0
    requests: int = 0
    compactions: int = 0
    seconds: float = 0.0
    started_at: str = ""
    ended_at: str = ""
    model: str = ""
    model_returned: str = ""
    run_id: str = ""
    stops_batch: bool = False

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_resolved(self) -> bool:
        """Whether the task counts as solved: its check decides, or without one the model's own word."""
        return self.check.passed if self.check is not None else self.state == "submitted"


def ended_status(status: Status, progress: Progress, *, timed_out: bool, died_of: str, reduced: bool) -> Status:
    """The status with how the run ended, from its journal.

    `timed_out`: the batch ended it at its deadline; `died_of` names what ended a process that left no end on record;
    `reduced`: the total left less for it than its own limit.
    """
    status = replace(
        status,
        usage=progress.spend.usage,
        steps=progress.spend.steps,
        requests=progress.spend.requests,
        compactions=progress.compactions,
        model=progress.model,
        model_returned=progress.model_returned,
        run_id=progress.run_id,
    )
    ended = progress.ended
    if timed_out:
        return _with_reason(status, "time_limit", "ended by the batch at the task's deadline", state="limit")
    if ended is None:
        return replace(
            status, state="infrastructure", exit_status="Error", reason="killed", retryable=True, error=died_of
        )
    state = _state(ended.reason, progress.error_kind, reduced=reduced)
    status = _with_reason(status, ended.reason, ended.error, state=state)
    wrong = ended.reason in _MISCONFIGURED or progress.error_kind in _ACCOUNT_KINDS
    return replace(status, stops_batch=wrong and state == "infrastructure")


def unstarted_status(status: Status, exit_code: int, died_of: str) -> Status:
    """The status of a try whose process ended before its run began: a setting or key is wrong, or it was killed."""
    reasons: dict[int, EndReason] = {END_STATES["config"].exit_code: "config", END_STATES["auth"].exit_code: "auth"}
    reason = reasons.get(exit_code) or ("config" if exit_code == USAGE_EXIT_CODE else None)
    if reason is None:
        return replace(status, exit_status="Error", reason="killed", retryable=True, error=died_of)
    return replace(_with_reason(status, reason, died_of, state="infrastructure"), stops_batch=True)


def judged(status: Status, check: Check | None) -> Status:
    """The status with its check's verdict, which decides about runs that the model ended itself."""
    if check is None:
        return status
    state = status.state if status.state != "submitted" else "passed" if check.passed else "failed"
    return replace(status, check=check, state=state)


def write_status(folder: Path, status: Status) -> None:
    """Put the status in place: a temporary file, fsync, rename. Raises RecordError."""
    write_file(folder / STATUS, json.dumps(status_json(status), indent=1).encode() + b"\n")


def read_status(folder: Path) -> Status | None:
    """The status of a task's folder; None if there is none or it cannot be read, so that the task runs again."""
    try:
        return decode(Status, json.loads((folder / STATUS).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecordError):
        return None


def status_json(status: Status) -> Json:
    """The status as JSON, with every field that scripts look for, also where it is at its default."""
    always: Json = {
        "exit_status": status.exit_status or None,
        "reason": status.reason or None,
        "exit_code": status.exit_code,
        "check": None if status.check is None else encode(status.check),
        "patch": {"bytes": status.patch.bytes, "partial": status.patch.partial},
        "cost_usd": status.cost_usd,
        "steps": status.steps,
        "compactions": status.compactions,
        "resolved": status.is_resolved,
    }
    return cast(Json, encode(status)) | always


def _state(reason: EndReason, error_kind: str, *, reduced: bool) -> State:
    match reason:
        case "submitted":
            return "submitted"
        case "cost_limit":
            return "budget" if reduced else "limit"
        case "step_limit" | "time_limit":
            return "limit"
        case "context_truncated":
            return "context"
        case "loop_detected":
            return "loop"
        case _:
            misconfigured = reason in _MISCONFIGURED or (reason == "provider_error" and error_kind in _ACCOUNT_KINDS)
            return "infrastructure" if END_STATES[reason].retryable or misconfigured else "error"


def _with_reason(status: Status, reason: EndReason, error: str, *, state: State) -> Status:
    end = END_STATES[reason]
    return replace(
        status,
        state=state,
        exit_status=end.status,
        reason=reason,
        exit_code=end.exit_code,
        retryable=end.retryable,
        error=error,
    )
