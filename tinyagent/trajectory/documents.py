"""Exported trajectories as files: which form one has, and the records that it holds."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tinyagent.core.errors import RecordError
from tinyagent.core.events import Record
from tinyagent.core.types import Json
from tinyagent.trajectory.atif_reading import from_atif, is_atif
from tinyagent.trajectory.mini_reading import from_mini, is_mini
from tinyagent.trajectory.native import FORMAT, changed_messages, from_native
from tinyagent.trajectory.reading import Contents, check_facts
from tinyagent.trajectory.repair import repaired


@dataclass(frozen=True, slots=True)
class Form:
    """One form of exported trajectory. `read` raises RecordError that names the place in the document."""

    name: str
    is_form_of: Callable[[Json], bool]
    read: Callable[[Json], list[Record]]
    changed: Callable[[Json], list[int]] = lambda document: []


def forms() -> tuple[Form, ...]:
    """Every form that can be read. A further one is one more line here."""
    return (
        Form("native", lambda document: document.get("trajectory_format") == FORMAT, from_native, changed_messages),
        Form("atif", is_atif, from_atif),
        Form("mini", is_mini, from_mini),
    )


def read_document(path: Path) -> Contents:
    """The records of an exported trajectory, with notices of what was edited in it. Raises RecordError."""
    document = _parsed(path)
    form = next((form for form in forms() if form.is_form_of(document)), None)
    if form is None:
        known = ", ".join(form.name for form in forms())
        raise RecordError(f"{path} is not a trajectory: no journal, and no document in a form that is known ({known})")
    try:
        records = form.read(document)
        for record in records:
            check_facts(record)
        result = repaired(records)
        return Contents(path, result.records, result.notices, tuple(form.changed(document)))
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def _parsed(path: Path) -> Json:
    try:
        document: object = json.loads(path.read_bytes())
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from error
    except json.JSONDecodeError as error:
        raise RecordError(f"{path}:{error.lineno}: it is not JSON ({error.msg})") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is not a text in UTF-8 (byte {error.start:,})") from error
    except RecursionError as error:
        raise RecordError(f"{path} is nested too deeply") from error
    if not isinstance(document, dict):
        raise RecordError(f"{path} is not a trajectory: it holds no JSON object")
    return cast(Json, document)
