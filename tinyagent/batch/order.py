"""What a worker is told to do, and the command line that does it."""

import json
from dataclasses import dataclass
from pathlib import Path

from tinyagent.batch.attempt import TRAJECTORY
from tinyagent.batch.tasks import Task
from tinyagent.config.schema import SandboxSettings


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


def run_arguments(order: Order, workspace: Path, *, resume: str) -> tuple[str, ...]:
    """The arguments of `tinyagent` for this try; `resume` names the run that goes on, "" begins one."""
    what = ("--resume", resume) if resume else ("--file", str(_task_file(order)), "--cwd", str(workspace))
    task = order.task
    settings = {
        "cost_limit": repr(order.cost_usd or 0.0),
        "time_limit": repr(order.time_s or 0.0),
        "step_limit": None if task.step_limit is None else str(task.step_limit),
        "sandbox.kind": task.sandbox or None,
        "sandbox.image": task.image or None,
        "sandbox.pass_env": ",".join([*order.sandbox.pass_env, *task.env]) if task.env else None,
        "model": f"scripted/{_script(order)}" if order.oracle else None,
    }
    given = [word for key, value in settings.items() if value is not None for word in ("--set", f"{key}={value}")]
    output = ("--output", str(order.folder / TRAJECTORY), "--output-format", "text")
    return ("run", *what, *output, *order.options, *given)


def _task_file(order: Order) -> Path:
    path = order.folder / "task.txt"
    path.write_bytes(order.task.text.encode("utf-8", "surrogatepass"))
    return path


def _script(order: Order) -> Path:
    """The task's own solution as the script of a model."""
    path = order.folder / "oracle.json"
    path.write_text(json.dumps(list(order.task.oracle)), encoding="utf-8")
    return path
