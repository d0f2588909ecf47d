"""The project's settings, `.tinyagent/config.yaml`: anybody may have written the repository, so it may only narrow."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tinyagent.config.folders import git_root
from tinyagent.config.values import Key, Setting, Values, dotted

PROJECT_FILE = Path(".tinyagent") / "config.yaml"

# Names a place where keys or code could be sent, spends the user's money, or lifts a protection (codex CVE-2025-61260).
REFUSED = (
    ("base_url",),
    ("api_key_env",),
    ("prices",),
    ("providers",),
    ("approval",),
    ("sandbox",),
    ("permissions", "allow"),
    ("context", "summary_model"),
    ("batch",),
)
# 0 stands for "no limit" in these.
LIMITS: tuple[Key, ...] = (("cost_limit",), ("step_limit",), ("time_limit",))
ADDED: tuple[Key, ...] = (("permissions", "ask"), ("permissions", "deny"))
REDUCED: tuple[Key, ...] = (("tools", "enabled"),)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What is taken from a project file, and a sentence for each setting that is not."""

    values: Values
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """The file, if there is one that may be read."""

    path: Path | None = None
    notices: tuple[str, ...] = ()


def find_project_file(cwd: Path) -> ProjectFile:
    """The nearest project file from the working directory up to the repository's root.

    One that a link leads out of the repository for is refused (claude-code 2.1.69).
    """
    root = git_root(cwd) or cwd
    for folder in (cwd, *cwd.parents):
        path = folder / PROJECT_FILE
        if path.exists() or path.is_symlink():
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                return ProjectFile(path)
            return ProjectFile(None, (f"{path} is ignored: it is not a file inside the repository",))
        if folder == root:
            break
    return ProjectFile()


def narrow(project: Values, current: Mapping[Key, object]) -> Narrowed:
    """The part of a project's settings that narrows what is `current` (every key, with the layers below)."""
    taken: Values = {}
    notices: list[str] = []
    for key, setting in project.items():
        if any(key[: len(refused)] == refused for refused in REFUSED):
            notices.append(f"{setting.where}: {dotted(key)} is ignored: a project may not set it, your own config may")
        elif key in LIMITS and not _is_lower(cast("float", setting.value), cast("float", current[key])):
            notices.append(f"{setting.where}: {dotted(key)} is ignored: a project may only lower it")
        else:
            taken[key] = _merged(key, setting, current)
    return Narrowed(taken, tuple(notices))


def _is_lower(value: float, current: float) -> bool:
    return value == current or (value > 0 and (current == 0 or value < current))


def _merged(key: Key, setting: Setting, current: Mapping[Key, object]) -> Setting:
    """Rules that forbid are added to the user's; the list of tools can only get shorter."""
    if key not in ADDED and key not in REDUCED:
        return setting
    mine, theirs = cast("tuple[str, ...]", current[key]), cast("tuple[str, ...]", setting.value)
    if key in REDUCED:
        return Setting(tuple(name for name in mine if name in theirs), setting.where)
    return Setting(tuple(dict.fromkeys(mine + theirs)), setting.where)
