"""What is put into a trial's container, and from where. Knows nothing of Harbor's classes.

The name `tinyagent` on PyPI is another project's (seen November 2026), so that nothing is taken from an index unasked.
"""

import json
import shlex
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from urllib.parse import unquote, urlsplit

import tinyagent
from tinyagent.core.errors import ConfigError
from tinyagent.core.types import Json

FOLDER = ".tinyagent-venv"  # below the home of the user that the agent runs as
UPLOADS = "/installed-agent"  # Harbor's own folder for it, made before an agent is installed
_BUILT_FROM = ("pyproject.toml", "README.md", "tinyagent")


@dataclass(frozen=True, slots=True)
class Source:
    """What is installed: `requirement` as pip takes it in the container; `upload` is what must be copied there first,
    a wheel or a checkout of the host."""

    requirement: str
    upload: Path | None = None


def find_source(named: str | None, version: str | None, *, here: Path | None = None) -> Source:
    """What a user named, else a version from the container's index, else the same program that runs here.

    `here` is the folder that holds this package. Raises ConfigError if what was named is not there.
    """
    if named:
        return _named(named)
    if version:
        return Source(f"tinyagent=={version}")
    here = here or Path(tinyagent.__file__).parent.parent
    return _uploaded(here) if _is_checkout(here) else _as_installed_here()


@contextmanager
def to_upload(source: Source) -> Generator[Path | None]:
    """The file or folder to copy: of a checkout only what the package is built from."""
    if source.upload is None or source.upload.is_file():
        yield source.upload
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "tinyagent"  # with the usual mode: another user of the container has to read it
        copy.mkdir()
        for name in _BUILT_FROM:
            part = source.upload / name
            if part.is_dir():
                shutil.copytree(part, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif part.is_file():
                shutil.copy(part, copy / name)
        yield copy


def install_command(requirement: str) -> str:
    """Puts tinyagent into an environment of its own, with the system's Python if that is new enough, else with uv's."""
    package = shlex.quote(requirement)
    place = f'"$HOME/{FOLDER}"'
    new_enough = "python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null"
    return (
        "set -e; "
        f"if {new_enough}; then python3 -m venv {place} && {place}/bin/pip install -q {package}; "
        "else command -v uv > /dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; "
        'PATH="$HOME/.local/bin:$PATH"; '
        f"uv venv -q --python 3.12 {place} && uv pip install -q --python {place}/bin/python {package}; fi; "
        f"{place}/bin/tinyagent --version"
    )


def version_command() -> str:
    return f'"$HOME/{FOLDER}/bin/tinyagent" --version'


def _named(named: str) -> Source:
    path = Path(named).expanduser()
    if path.is_file() or _is_checkout(path):
        return _uploaded(path.resolve())
    if "://" in named or "==" in named:
        return Source(named)
    raise ConfigError(
        f"{named} is no wheel and no checkout of tinyagent here: name one of these, or an address that pip takes, "
        "such as git+https://HOST/REPOSITORY@COMMIT"
    )


def _is_checkout(path: Path) -> bool:
    return (path / "pyproject.toml").is_file() and (path / "tinyagent").is_dir()


def _uploaded(path: Path) -> Source:
    return Source(f"{UPLOADS}/{path.name if path.is_file() else 'tinyagent'}", path)


def _as_installed_here() -> Source:
    """From where pip installed what runs here, as it noted it (PEP 610); without a note that was an index."""
    try:
        note = distribution("tinyagent").read_text("direct_url.json")
    except PackageNotFoundError:
        note = None
    if note is None:
        return Source(f"tinyagent=={tinyagent.__version__}")
    origin = cast(Json, json.loads(note))
    url = str(origin["url"])
    if "vcs_info" in origin:
        return Source(f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}")
    return _named(unquote(urlsplit(url).path) if url.startswith("file:") else url)
