"""Where things live on this machine. The same on every system: XDG folders, or below TINYAGENT_HOME."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

RUNS_VARIABLE = "TINYAGENT_RUNS"  # moves the runs alone


@dataclass(frozen=True, slots=True)
class Folders:
    """`config` holds config.yaml and the user's AGENTS.md, `runs` a folder a run, `cache` what may be deleted."""

    config: Path
    runs: Path
    cache: Path


def folders(environ: Mapping[str, str]) -> Folders:
    """The folders that the environment asks for; none of them is made."""
    if moved := environ.get("TINYAGENT_HOME"):
        home = Path(moved).expanduser().absolute()
        found = Folders(home, home / "runs", home / "cache")
    else:
        found = Folders(
            config=_xdg(environ, "XDG_CONFIG_HOME", ".config"),
            runs=_xdg(environ, "XDG_DATA_HOME", ".local/share") / "runs",
            cache=_xdg(environ, "XDG_CACHE_HOME", ".cache"),
        )
    elsewhere = environ.get(RUNS_VARIABLE)
    return replace(found, runs=Path(elsewhere).absolute()) if elsewhere else found


def why_not_writable(folder: Path) -> str:
    """Why nothing can be put into a folder, which is made if need be; "" if something can."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    given = Path(environ.get(variable, ""))
    # "All paths set in these environment variables must be absolute", else ignored (XDG base directory specification).
    base = given if given.is_absolute() else Path(environ.get("HOME") or "/") / default
    return base / "tinyagent"


def git_root(folder: Path) -> Path | None:
    """The nearest folder from here upwards that holds `.git`, found without running git; None outside a repository."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return None
