"""What a Harbor trial runs in its container, and what is read of it afterwards. Knows nothing of Harbor's classes."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinyagent.core.errors import END_STATES, RecordError
from tinyagent.core.events import Record, RunStarted
from tinyagent.core.types import Json
from tinyagent.integrations.harbor_install import FOLDER
from tinyagent.models.providers import provider_table
from tinyagent.trajectory.atif import to_atif
from tinyagent.trajectory.documents import read_document
from tinyagent.trajectory.journal import JOURNAL
from tinyagent.trajectory.native import dump, to_native
from tinyagent.trajectory.runs import LATEST, load, sub_agents

TRAJECTORY = "tinyagent.json"  # ours, in the trial's log folder
ATIF = "trajectory.json"  # the name under which Harbor looks for ATIF
LOG = "tinyagent.txt"
HOME = "home"  # the run's own folder there, with its journal
PID = "tinyagent.pid"  # there while the run goes on
# What the official clients of these providers read by themselves.
_CLOUD_VARIABLES = {
    "bedrock": r"AWS_[A-Z_]+",
    "azure": r"(AZURE|OPENAI)_[A-Z_]+",
    "vertex": r"(GOOGLE|CLOUD|VERTEX)_[A-Z_]+",
}
_SETTINGS = re.compile(r"TINYAGENT_[A-Z_]+")
_OF_THE_HOST = frozenset({"TINYAGENT_HOME", "TINYAGENT_CONFIG", "TINYAGENT_TREE", "TINYAGENT_PAUSE", "TINYAGENT_MODEL"})
_GRACE_S = 15  # for a run that was told to end
# A limit that the trial itself was given is an end like any other: the verifier judges what there is. All other
# failures stay failures, so that Harbor's own retries see them.
_NORMAL_ENDS = {END_STATES["cost_limit"].exit_code}


def run_command(instruction: str, model: str, flags: str, *, logs: str) -> str:
    """One run, its trajectory and log in the trial's log folder; ends with 0 where the end is a normal one.

    The instruction goes in by a here-document: as an argument it could be too long, and every user could read it.
    The last line of its output says how it ended.
    """
    words = f"-m {shlex.quote(model)} --yolo -o {shlex.quote(f'{logs}/{TRAJECTORY}')} {flags}".rstrip()
    end = "END_OF_TASK"
    while end in instruction:
        end += "_"
    normal = "|".join(str(code) for code in sorted(_NORMAL_ENDS))
    log, pid = shlex.quote(f"{logs}/{LOG}"), shlex.quote(f"{logs}/{PID}")
    return (
        f'sh -c \'echo $$ > "$0"; exec "$@"\' {pid} '
        f"\"$HOME/{FOLDER}/bin/tinyagent\" run --file - {words} > {log} 2>&1 << '{end}'\n"
        f"{instruction}\n{end}\n"
        f'code=$?; rm -f {pid}; tail -n 20 {log}; echo "tinyagent ended with exit code $code"; '
        f"case $code in {normal}) exit 0;; *) exit $code;; esac"
    )


def stop_command(*, logs: str) -> str:
    """Ends a run that still goes on, as a signal from a user would: its commands end, its trajectory is written."""
    pid = shlex.quote(f"{logs}/{PID}")
    return (
        f"pid=$(cat {pid} 2> /dev/null) || exit 0; kill -TERM $pid 2> /dev/null; n=0; "
        f"while kill -0 $pid 2> /dev/null && [ $n -lt {_GRACE_S * 5} ]; do sleep 0.2; n=$((n + 1)); done; "
        f"kill -KILL $pid 2> /dev/null; rm -f {pid}"
    )


def run_environment(
    environ: Mapping[str, str], model: str, *, logs: str, key_name: str | None = None
) -> dict[str, str]:
    """What the run in the container gets of the host's environment: settings, and what its own provider needs.

    `key_name` is a variable that a user chose for the key.
    No other key goes in, since the commands of a model can read it there. The runs are kept with the trial's logs.
    """
    name = model.partition("/")[0]
    provider = provider_table({}).get(name)
    wanted = set[str]() if provider is None else {*provider.key_variables, *provider.url_variables}
    wanted |= {key_name} if key_name else set()
    cloud = re.compile(_CLOUD_VARIABLES.get(name, r"(?!)"))
    passed = {
        name: value
        for name, value in environ.items()
        if name in wanted or cloud.fullmatch(name) or (_SETTINGS.fullmatch(name) and name not in _OF_THE_HOST)
    }
    return passed | {"TINYAGENT_HOME": f"{logs}/{HOME}"}


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run as a trial left it, however it ended. `children` are its sub-agents."""

    records: Sequence[Record]
    children: Mapping[str, Sequence[Record]]


def read_run(logs_dir: Path) -> FinishedRun:
    """The run of a trial: its trajectory, or its journal where a kill left no trajectory. Raises RecordError."""
    runs = logs_dir / HOME / "runs"
    try:
        records = read_document(logs_dir / TRAJECTORY).records
    except RecordError:
        records = load(LATEST, runs).records
    start = records[0].event
    run_id = start.run_id if isinstance(start, RunStarted) else ""
    return FinishedRun(records, sub_agents(runs / run_id / JOURNAL))


def figures(run: FinishedRun) -> Json:
    """`model_stats` and the end of the run; `exit_status` and `reason` are None for one that was killed."""
    info: Json = to_native(run.records)["info"]
    return info["model_stats"] | {
        key: info[key] for key in ("exit_status", "reason", "retryable", "error", "model_returned", "version")
    }


def write_atif(run: FinishedRun, logs_dir: Path) -> None:
    """The trajectory as ATIF where Harbor looks for it."""
    (logs_dir / ATIF).write_bytes(dump(to_atif(run.records, children=run.children)))
