"""From a command line to a plan: everything checked, nothing spent."""

import hashlib
import json
import platform
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinyagent import __version__
from tinyagent.batch.board import DEFAULT_DEADLINE_S, Plan
from tinyagent.batch.tasks import Choice, Task, choose, read_tasks
from tinyagent.batch.workspace import pinned
from tinyagent.config import Given, Loaded, Settings, UsageError, folders, load_settings
from tinyagent.core.errors import ConfigError
from tinyagent.core.types import Json
from tinyagent.prompt import PROMPTS
from tinyagent.security.git import git_argv, git_environment
from tinyagent.tools import BUILTIN
from tinyagent.trajectory.shapes import timestamp

# Settings that decide what a result is worth. A folder holds results of one set of them.
DECIDING = (
    "model",
    "base_url",
    "api",
    "context_window",
    "max_output_tokens",
    "reasoning_effort",
    "temperature",
    "context",
    "tools",
    "sandbox",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for, besides settings."""

    tasks: Path
    choice: Choice = field(default_factory=Choice)
    options: tuple[Given, ...] = ()
    assignments: tuple[str, ...] = ()
    config_file: Path | None = None
    repos: Path | None = None
    max_retries: int = 2
    retry_failed: bool = False
    redo: bool = False
    keep_workspaces: bool = False
    oracle: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan, what `run.json` records of it, and what the user should know."""

    plan: Plan
    record: Json
    notices: tuple[str, ...] = ()


def make_plan(asked: Asked, environ: Mapping[str, str]) -> Planned:
    """Read settings and tasks, and check both. Raises ConfigError."""
    config_file = _config_file(asked.config_file, environ)
    # The driver works in no project; each run reads the project file of its own workspace.
    loaded = load_settings(
        cwd=Path("/"),
        environ=environ,
        options=asked.options,
        assignments=asked.assignments,
        config_file=config_file,
    )
    options, notices = asked.options, list(loaded.notices)
    settings = loaded.settings
    if settings.approval == "ask":
        if loaded.origin.get("approval", "default") != "default":
            raise UsageError("--approval ask: nobody can be asked in a batch; choose auto or deny")
        options = (*options, Given("approval", "auto", "--approval"))
        if not asked.oracle:
            notices.append(
                f"commands run without asking, as a batch has nobody to ask; sandbox: {settings.sandbox.kind}"
            )
    tasks = choose(read_tasks(asked.tasks, repos=asked.repos), asked.choice)
    if not tasks:
        raise ConfigError(f"{asked.tasks}: no task is left after --filter, --slice and --shard")
    tasks = _checked(tasks, settings, asked, environ)
    plan = Plan(
        jobs=tuple((task, attempt) for attempt in range(1, settings.batch.attempts + 1) for task in tasks),
        settings=settings,
        options=_for_runs(options, asked.assignments, config_file),
        workers=settings.batch.workers,
        total_usd=settings.batch.total_cost_limit or None,
        max_retries=asked.max_retries,
        retry_failed=asked.retry_failed,
        redo=asked.redo,
        keep_workspaces=asked.keep_workspaces,
        oracle=asked.oracle,
        deadline_s=DEFAULT_DEADLINE_S if loaded.origin.get("time_limit", "default") == "default" else None,
        key_names=_key_names(settings),
    )
    notices += _money_notices(plan) + _image_notices(tasks, settings)
    return Planned(plan, _record(asked, loaded, tasks, environ), tuple(notices))


def _checked(tasks: Sequence[Task], settings: Settings, asked: Asked, environ: Mapping[str, str]) -> list[Task]:
    """The tasks with their commits pinned. Raises ConfigError for what would fail only after the start."""
    pins: dict[object, object] = {}
    checked: list[Task] = []
    for task in tasks:
        if asked.oracle and not task.oracle:
            raise ConfigError(f"{task.where}: --oracle: the task {task.id} has no `oracle`")
        limit = settings.cost_limit if task.cost_limit is None else task.cost_limit
        if settings.batch.total_cost_limit and not limit:
            raise UsageError(
                f"--total-cost-limit: {task.id} has no cost limit of its own, so its worst case is all that is left; "
                "give one with --cost-limit"
            )
        kind = task.sandbox or settings.sandbox.kind
        if kind in ("docker", "podman") and not (task.image or settings.sandbox.image):
            raise ConfigError(f"{task.where}: sandbox: {kind} needs an image: give `image`, or set sandbox.image")
        if task.source not in pins:
            pins[task.source] = pinned(task.source, task.where, environ=environ)
        checked.append(replace(task, source=pins[task.source]))
    return checked


def _for_runs(options: Sequence[Given], assignments: Sequence[str], config_file: Path | None) -> tuple[str, ...]:
    """The same settings as arguments of each run; those of the batch itself stay here."""
    given = [*assignments, *(f"{option.key}={option.text}" for option in options)]
    words = [word for text in given if not text.startswith("batch.") for word in ("--set", text)]
    return (*(() if config_file is None else ("--config", str(config_file))), *words)


def _config_file(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The user's settings by their full path: a run's own home holds none."""
    named = given or (Path(environ["TINYAGENT_CONFIG"]) if environ.get("TINYAGENT_CONFIG") else None)
    if named is not None:
        return named.absolute()
    usual = folders(environ).config / "config.yaml"
    return usual if usual.is_file() else None


def _key_names(settings: Settings) -> tuple[str, ...]:
    from tinyagent.endpoint import key_names

    return tuple(key_names(settings))


def _money_notices(plan: Plan) -> list[str]:
    if plan.total_usd is None:
        return []
    limits = [plan.settings.cost_limit if task.cost_limit is None else task.cost_limit for task, _ in plan.jobs]
    side_by_side = int(plan.total_usd / max(limits))
    if side_by_side >= min(plan.workers, len(plan.jobs)):
        return []
    return [
        f"the total of ${plan.total_usd:g} covers the worst case of {side_by_side} tasks at a time; "
        "a lower --cost-limit lets more run side by side"
    ]


def _image_notices(tasks: Sequence[Task], settings: Settings) -> list[str]:
    kinds = [task.sandbox or settings.sandbox.kind for task in tasks if task.image]
    unused = sum(kind not in ("docker", "podman") for kind in kinds)
    return [f"{unused} tasks name an image that is not used; --sandbox docker or podman uses it"] if unused else []


def _record(asked: Asked, loaded: Loaded, tasks: Sequence[Task], environ: Mapping[str, str]) -> Json:
    """What makes the batch reproducible."""
    public = loaded.settings.public()
    return {
        "batch_id": secrets.token_hex(8),
        "started_at": timestamp(time.time()),
        "version": __version__,
        "commit": _commit(environ),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "argv": sys.argv[1:],
        "decides": {key: public[key] for key in DECIDING} | {"oracle": asked.oracle},
        "settings": public,
        "tasks": {
            "path": str(asked.tasks.absolute()),
            "sha256": hashlib.sha256(asked.tasks.read_bytes()).hexdigest(),
            "count": len(tasks),
            "ids": [task.id for task in tasks],
        },
        "prompts": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(PROMPTS.glob("*.md"))},
        "tools": _tools_digest(),
    }


def _tools_digest() -> str:
    specs = [[tool.name, tool.description, tool.parameters] for tool in BUILTIN.values()]
    return hashlib.sha256(json.dumps(specs, sort_keys=True).encode()).hexdigest()


def _commit(environ: Mapping[str, str]) -> str | None:
    """The commit of the program itself, where it runs from a checkout."""
    import subprocess

    root = Path(__file__).parent.parent.parent
    if not (root / ".git").exists():
        return None
    argv = git_argv("-C", str(root), "rev-parse", "HEAD")
    done = subprocess.run(argv, env=git_environment(environ), capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
