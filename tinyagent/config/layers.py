"""Defaults, the user's file, the project's file, the environment, the command line: each beats the ones before it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tinyagent.config.building import all_settings, build_settings
from tinyagent.config.folders import RUNS_VARIABLE, folders
from tinyagent.config.project import find_project_file, narrow
from tinyagent.config.reading import read_values, table_for
from tinyagent.config.schema import Settings
from tinyagent.config.values import Raw, Scalar, UsageError, Values, did_you_mean, dotted
from tinyagent.config.yaml_file import parse_yaml_value, read_yaml_file

# Variables that are named after an option which is no setting of that name.
OTHER_VARIABLES = {
    "TINYAGENT_MAX_BUDGET_USD": "cost_limit",
    "TINYAGENT_MAX_TURNS": "step_limit",
    "TINYAGENT_WORKERS": "batch.workers",
    "TINYAGENT_EXECUTOR": "batch.executor",
    "TINYAGENT_ATTEMPTS": "batch.attempts",
    "TINYAGENT_TOTAL_COST_LIMIT": "batch.total_cost_limit",
}
# Variables that switch something on, with what they then set.
SWITCHES = {"TINYAGENT_NO_COMPACT": ("context.enabled", "false"), "TINYAGENT_YOLO": ("approval", "auto")}
# Variables that are read elsewhere.
NOT_SETTINGS = frozenset(
    {
        "TINYAGENT_HOME",
        RUNS_VARIABLE,
        "TINYAGENT_CONFIG",
        "TINYAGENT_OUTPUT_FORMAT",
        "TINYAGENT_PAUSE",
        "TINYAGENT_TREE",
    }
)


@dataclass(frozen=True, slots=True)
class Given:
    """A value from a variable or an option; `where` is its name."""

    key: str
    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The effective settings. `origin` has every dotted key; `notices` are sentences for the user."""

    settings: Settings
    origin: Mapping[str, str]
    notices: tuple[str, ...] = ()


def load_settings(
    *,
    cwd: Path,
    environ: Mapping[str, str],
    earlier: Sequence[Given] = (),
    options: Sequence[Given] = (),
    assignments: Sequence[str] = (),
    config_file: Path | None = None,
) -> Loaded:
    """Read all layers. `assignments` are `key=value`, `config_file` is read in place of the user's own file.

    `earlier` are settings of a run that is resumed: they beat the files.

    Raises ConfigError, and UsageError (a kind of it) for what is wrong on the command line.
    """
    values = _user_values(environ, config_file)
    project = find_project_file(cwd)
    notices = list(project.notices)
    if project.path is not None:
        current = {key: s.value for key, s in all_settings(build_settings(values)).items()}
        narrowed = narrow(read_values(read_yaml_file(project.path)), current)
        values |= narrowed.values
        notices += narrowed.notices
    notices += _unknown_variables(environ)
    values |= _read((*earlier, *_from_environment(environ)))
    values |= assigned(assignments)
    values |= _read(options)
    settings = build_settings(values)
    origin = {dotted(key): s.where for key, s in (all_settings(settings) | values).items()}
    return Loaded(settings, origin, tuple(notices))


def assigned(assignments: Sequence[str]) -> Values:
    """What `--set key=value` options set. Raises ConfigError, and UsageError (a kind of it)."""
    return _read(_from_assignments(assignments))


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each TINYAGENT_ variable that nothing reads, which is most often a slip."""
    known = {name: name for name in (*_setting_variables(), *OTHER_VARIABLES, *SWITCHES, *NOT_SETTINGS)}
    unknown = sorted(name for name in environ if name.startswith("TINYAGENT_") and name not in known)
    return [f"{name} is ignored: nothing reads it{did_you_mean(name, known, cutoff=0.8)}" for name in unknown]


def _user_values(environ: Mapping[str, str], config_file: Path | None) -> Values:
    if config_file is not None:
        if not config_file.exists():
            raise UsageError(f"--config: {config_file} does not exist")
        return read_values(read_yaml_file(config_file))
    path = folders(environ).config / "config.yaml"
    return read_values(read_yaml_file(path)) if _is_there(path) else {}


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a folder that may not be searched: nothing of the user's is there for us
        return False


def _setting_variables() -> dict[str, str]:
    return {f"TINYAGENT_{field.name.upper()}": field.name for field in fields(Settings)}


def _from_environment(environ: Mapping[str, str]) -> Iterable[Given]:
    """An empty variable counts as not set."""
    for variable, key in (*OTHER_VARIABLES.items(), *_setting_variables().items()):
        if text := environ.get(variable):
            yield Given(key, text, variable)
    for variable, (key, text) in SWITCHES.items():
        if environ.get(variable, "").lower() in ("1", "true", "yes", "on"):
            yield Given(key, text, variable)


def _from_assignments(assignments: Sequence[str]) -> Iterable[Given]:
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set: key=value is needed, not {assignment[:60]}")
        yield Given(key.strip(), text.strip(), f"--set {key.strip()}")


def _read(given: Iterable[Given]) -> Values:
    values: Values = {}
    for one in given:
        values |= read_values(table_for(one.key, _raw(one)))
    return values


def _raw(given: Given) -> Raw:
    if given.text.startswith(("[", "{")):
        return parse_yaml_value(given.text, name=given.where)
    return Scalar(given.text, "word", given.where)
