"""Tasks, checked as a whole before anything is spent, and which of them are meant."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tinyagent.batch.task_rows import read_rows
from tinyagent.config.reading import read_values
from tinyagent.config.values import Raw, Scalar, ScalarType, Table
from tinyagent.core.errors import ConfigError
from tinyagent.core.types import Json
from tinyagent.security.paths import safe_name

KNOWN = ("id", "task", "repo", "commit", "dir", "setup", "check", "sandbox", "image", "env", "limits", "oracle")
LIMITS = ("cost_limit", "step_limit", "time_limit")
# SWE-bench's names for ours (https://www.swebench.com, its dataset's columns).
SWE_BENCH = {"instance_id": "id", "problem_statement": "task", "base_commit": "commit"}
SHOWN_FAULTS = 10


@dataclass(frozen=True, slots=True)
class Folder:
    """The task starts from a copy of this folder."""

    path: Path


@dataclass(frozen=True, slots=True)
class Checkout:
    """The task starts from a commit of this repository. `commit` is any name of it until `pinned`."""

    repo: Path
    commit: str


Source = Folder | Checkout | None  # None: an empty folder


@dataclass(frozen=True, slots=True)
class Task:
    """One task. Limits are None where the task has none of its own, 0 where it is to have none."""

    id: str
    text: str
    source: Source = None
    setup: str = ""
    check: str = ""
    sandbox: str = ""
    image: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cost_limit: float | None = None
    step_limit: int | None = None
    time_limit: float | None = None
    oracle: tuple[Json, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the tasks are meant, applied in the order of the fields."""

    filter: str = ""
    shuffle: bool = False
    seed: int = 0
    slice: str = ""
    shard: str = ""


def read_tasks(path: Path, *, repos: Path | None = None) -> list[Task]:
    """All tasks of a file. Relative paths start at its folder; `repos` holds the repositories of SWE-bench rows.

    Raises ConfigError that names file and line of every fault, the first ten at least.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    tasks: list[Task] = []
    faults: list[str] = []
    for where, row in read_rows(path, text):
        try:
            tasks.append(_task(row, where, base=path.parent, repos=repos))
        except ConfigError as error:
            faults.append(str(error))
    faults += _twins(tasks)
    if faults:
        more = f"\nand {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
        raise ConfigError("\n".join(faults[:SHOWN_FAULTS]) + more)
    if not tasks:
        raise ConfigError(f"{path}: there is no task in it")
    return tasks


def choose(tasks: Sequence[Task], choice: Choice) -> list[Task]:
    """The tasks that are meant. Raises ConfigError for an expression that cannot be read."""
    try:
        chosen = [task for task in tasks if re.search(choice.filter, task.id)]
    except re.error as error:
        raise ConfigError(f"--filter: {choice.filter!r} is not a regular expression: {error}") from error
    if choice.shuffle:
        random.Random(choice.seed).shuffle(chosen)
    if choice.slice:
        chosen = chosen[_slice(choice.slice)]
    if choice.shard:
        number, count = _shard(choice.shard)
        chosen = chosen[number - 1 :: count]
    return chosen


def job_name(task_id: str, attempt: int) -> str:
    """The folder of one attempt at a task; `@` is in no safe name, so that no other id can have it."""
    return safe_name(task_id) if attempt == 1 else f"{safe_name(task_id)}@{attempt}"


def _task(row: object, where: str, *, base: Path, repos: Path | None) -> Task:
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: a task is an object with `id` and `task`")
    given = cast(Json, row)
    data: Json = {SWE_BENCH.get(key, key): value for key, value in given.items()}
    _check_names(data, where)
    limits = _limits(data, where)
    return Task(
        id=_id(data, where),
        text=_text(data, "task", where, needed=True),
        source=_source(data, where, base=base, repos=repos),
        setup=_text(data, "setup", where),
        check=_text(data, "check", where),
        sandbox=str(limits.get("sandbox", "")),
        image=_text(data, "image", where),
        env=_env(data, where),
        cost_limit=cast("float | None", limits.get("cost_limit")),
        step_limit=cast("int | None", limits.get("step_limit")),
        time_limit=cast("float | None", limits.get("time_limit")),
        oracle=_oracle(data, where),
        where=where,
    )


def _check_names(data: Json, where: str) -> None:
    """Data sets bring columns of their own; one that looks like a slip of ours would be lost in silence."""
    from difflib import get_close_matches

    for name in data.keys() - set(KNOWN):
        near = get_close_matches(name, [known for known in KNOWN if known not in data], n=1, cutoff=0.8)
        if near:
            raise ConfigError(f"{where}: {name}: there is no such key; did you mean {near[0]}?")


def _id(data: Json, where: str) -> str:
    value = data.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: id: a name is needed")
    return value


def _text(data: Json, key: str, where: str, *, needed: bool = False) -> str:
    value = data.get(key)
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {key}: a text is needed")
    if needed and not value.strip():
        raise ConfigError(f"{where}: {key}: a text is needed")
    return value


def _source(data: Json, where: str, *, base: Path, repos: Path | None) -> Source:
    folder, repo = _text(data, "dir", where), _text(data, "repo", where)
    if folder and repo:
        raise ConfigError(f"{where}: `dir` and `repo` are both given: choose one")
    if folder:
        path = (base / folder).resolve()
        if not path.is_dir():
            raise ConfigError(f"{where}: dir: {path} is not a directory")
        return Folder(path)
    if not repo:
        return None
    return Checkout(_repository(repo, where, base=base, repos=repos), _text(data, "commit", where) or "HEAD")


def _repository(repo: str, where: str, *, base: Path, repos: Path | None) -> Path:
    """A path, a file:// address, or OWNER/NAME below `repos` in one of the usual forms."""
    plain = repo.removeprefix("file://")
    if re.match(r"[a-z+]+://|[^/]+@[^/]+:", plain):
        raise ConfigError(f"{where}: repo: {repo} is not on this disk: clone it, and give the path")
    candidates = [base / plain]
    if repos is not None:
        candidates += [repos / plain, repos / plain.replace("/", "__"), repos / Path(plain).name]
    for path in candidates:
        if (path / ".git").exists() or (path / "objects").is_dir():
            return path.resolve()
    hint = "" if repos else "; --repos DIR names the folder that holds the repositories of SWE-bench rows"
    raise ConfigError(f"{where}: repo: no repository at {candidates[0]}{hint}")


def _env(data: Json, where: str) -> dict[str, str]:
    value: object = data.get("env") or {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: env: names with texts are needed")
    variables = cast(Json, value)
    for name, text in variables.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not isinstance(text, str) or "\0" in text:
            raise ConfigError(f"{where}: env: {name}: a variable's name with a text is needed")
    return cast("dict[str, str]", variables)


def _oracle(data: Json, where: str) -> tuple[Json, ...]:
    value: object = data.get("oracle") or []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in cast("list[object]", value)):
        raise ConfigError(f"{where}: oracle: a list of replies is needed")
    return tuple(cast("list[Json]", value))


def _limits(data: Json, where: str) -> dict[str, object]:
    """Limits and sandbox kind, read and judged as settings are."""
    limits: object = data.get("limits") or {}
    if not isinstance(limits, dict):
        raise ConfigError(f"{where}: limits: {', '.join(LIMITS)} can be set")
    unknown = sorted(cast(Json, limits).keys() - set(LIMITS))
    if unknown:
        raise ConfigError(f"{where}: limits: {unknown[0]}: there is no such limit; known are {', '.join(LIMITS)}")
    entries: dict[str, Raw] = {key: _scalar(value, where) for key, value in cast(Json, limits).items()}
    if kind := _text(data, "sandbox", where):
        entries["sandbox"] = Scalar(kind, "str", where)
    values = read_values(Table(entries, where))
    return {key[0]: setting.value for key, setting in values.items()}


def _scalar(value: object, where: str) -> Scalar:
    types: dict[type, ScalarType] = {bool: "bool", int: "int", float: "float", str: "str"}
    return Scalar(str(value), types.get(type(value), "null"), where)


def _twins(tasks: Iterable[Task]) -> list[str]:
    """Ids that would share a folder; some file systems take no notice of case."""
    seen: dict[str, Task] = {}
    faults: list[str] = []
    for task in tasks:
        first = seen.setdefault(safe_name(task.id).casefold(), task)
        if first is not task:
            faults.append(f"{task.where}: id: {task.id} is there already, at {first.where}")
    return faults


def _slice(text: str) -> slice:
    match = re.fullmatch(r"(-?\d+)?:(-?\d+)?(?::([1-9]\d*))?", text)
    if match is None:
        raise ConfigError(f"--slice: a:b is needed, such as 0:50, not {text}")
    start, stop, step = (None if part is None else int(part) for part in match.groups())
    return slice(start, stop, step)


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise ConfigError(f"--shard: i/n is needed, from 1/n to n/n, not {text}")
    return int(match[1]), int(match[2])
