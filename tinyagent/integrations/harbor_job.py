"""What a Harbor trial runs in its container, and what is read of it afterwards. Knows nothing of Harbor's classes."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tinyagent.core.errors import END_STATES
from tinyagent.core.types import Json
from tinyagent.models.providers import provider_table
from tinyagent.trajectory.atif import to_atif
from tinyagent.trajectory.documents import read_document
from tinyagent.trajectory.native import dump

TRAJECTORY = "tinyagent.json"  # ours, in the trial's log folder
ATIF = "trajectory.json"  # the name under which Harbor looks for ATIF
LOG = "tinyagent.txt"
FOLDER = ".tinyagent-venv"  # below the home of the user that the agent runs as
# What the official clients of these providers read by themselves.
_CLOUD_VARIABLES = {
    "bedrock": r"AWS_[A-Z_]+",
    "azure": r"(AZURE|OPENAI)_[A-Z_]+",
    "vertex": r"(GOOGLE|CLOUD|VERTEX)_[A-Z_]+",
}
_SETTINGS = re.compile(r"TINYAGENT_[A-Z_]+")
_OF_THE_HOST = frozenset({"TINYAGENT_HOME", "TINYAGENT_CONFIG", "TINYAGENT_TREE", "TINYAGENT_PAUSE", "TINYAGENT_MODEL"})
# A limit that the trial itself was given is an end like any other: the verifier judges what there is. All other
# failures stay failures, so that Harbor's own retries see them.
_NORMAL_ENDS = {END_STATES["cost_limit"].exit_code}


def install_command(version: str | None) -> str:
    """Puts tinyagent into an environment of its own, with the system's Python if that is new enough, else with uv's."""
    package = shlex.quote(f"tinyagent=={version}" if version else "tinyagent")
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


def run_command(instruction: str, model: str, flags: str, *, logs: str) -> str:
    """One run, its trajectory and log in the trial's log folder; ends with 0 where the end is a normal one.

    The instruction goes in by a here-document: as an argument it could be too long, and every user could read it.
    """
    words = f"-m {shlex.quote(model)} --yolo -o {shlex.quote(f'{logs}/{TRAJECTORY}')} {flags}".rstrip()
    end = "END_OF_TASK"
    while end in instruction:
        end += "_"
    normal = "|".join(str(code) for code in sorted(_NORMAL_ENDS))
    return (
        f"\"$HOME/{FOLDER}/bin/tinyagent\" run --file - {words} > {shlex.quote(f'{logs}/{LOG}')} 2>&1 << '{end}'\n"
        f"{instruction}\n{end}\n"
        f"code=$?; tail -n 20 {shlex.quote(f'{logs}/{LOG}')}; "
        f"case $code in {normal}) exit 0;; *) exit $code;; esac"
    )


def run_environment(environ: Mapping[str, str], model: str, *, logs: str) -> dict[str, str]:
    """What the run in the container gets of the host's environment: settings, and what its own provider needs.

    No other key goes in, since the commands of a model can read it there. The runs are kept with the trial's logs.
    """
    name = model.partition("/")[0]
    provider = provider_table({}).get(name)
    wanted = set[str]() if provider is None else {*provider.key_variables, *provider.url_variables}
    cloud = re.compile(_CLOUD_VARIABLES.get(name, r"(?!)"))
    passed = {
        name: value
        for name, value in environ.items()
        if name in wanted or cloud.fullmatch(name) or (_SETTINGS.fullmatch(name) and name not in _OF_THE_HOST)
    }
    return passed | {"TINYAGENT_HOME": f"{logs}/home"}


def write_atif(logs_dir: Path) -> None:
    """The trajectory as ATIF where Harbor looks for it. Raises RecordError."""
    contents = read_document(logs_dir / TRAJECTORY)
    (logs_dir / ATIF).write_bytes(dump(to_atif(contents.records)))


def read_stats(logs_dir: Path) -> Json | None:
    """`model_stats` and the end of the run, from its trajectory; None if there is none that can be read."""
    try:
        info = json.loads((logs_dir / TRAJECTORY).read_bytes())["info"]
        stats = cast(Json, info["model_stats"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stats | {key: info.get(key) for key in ("exit_status", "reason", "retryable", "model_returned", "version")}
