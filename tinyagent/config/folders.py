"""Where things live on this machine. The same on every system: XDG folders, or all below TINYAGENT_HOME."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


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
        return Folders(home, home / "runs", home / "cache")
    return Folders(
        config=_xdg(environ, "XDG_CONFIG_HOME", ".config"),
        runs=_xdg(environ, "XDG_DATA_HOME", ".local/share") / "runs",
        cache=_xdg(environ, "XDG_CACHE_HOME", ".cache"),
    )


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
