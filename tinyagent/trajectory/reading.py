"""Reading a journal: one JSON record a line, whatever a kill, a full disk or an editor left of it."""

import json
import re
import stat
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from tinyagent.core.errors import RecordError
from tinyagent.core.events import MessageAdded, Record, RunStarted, record_from_json
from tinyagent.core.types import Json, ToolMessage
from tinyagent.trajectory.repair import Lost, repaired

_RECORD_START = re.compile(r'\{"seq":\s*\d+,\s*"time":')
_BLANK = " \t\r\n\0\ufeff"  # a file system may leave zero bytes where the power failed; editors add a byte order mark


# Takes control characters in texts; NaN and infinities become null.
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a journal or trajectory holds. `notices` tell of every repair.

    `changed` are ids of messages that were edited after an export; a journal cannot tell.
    """

    path: Path
    records: tuple[Record, ...] = ()
    notices: tuple[str, ...] = ()
    changed: tuple[int, ...] = ()

    @property
    def next_seq(self) -> int:
        """The number of the next record."""
        return max((record.seq for record in self.records), default=0) + 1


def read_journal(path: Path) -> Contents:
    """The records of a journal, without taking its lock. Raises RecordError with file and line.

    A last line that was cut while it was written is left out, as is a bad line in the middle, each with a notice.
    Events of unknown kinds are kept. An error is what cannot be helped: an empty file, no start of the run, a newer
    schema.
    """
    found = _read(path)
    first = next((item for item in found.items if isinstance(item, Record)), None)
    if first is None:
        raise RecordError(f"{path}:1: {_nothing(found)}")
    result = repaired(found.items)
    starts = [i for i, record in enumerate(result.records) if isinstance(record.event, RunStarted)]
    if not starts:
        raise RecordError(f"{path}:1: the start of the run is missing, so that nothing after it can be understood")
    notices = [*found.notices, *result.notices]
    if len(starts) > 1:
        notices.append("another run follows in the same file; it is left out")
    records = result.records[starts[0] : starts[1] if len(starts) > 1 else None]
    return Contents(path, records, tuple(f"{path.name}: {notice}" for notice in notices))


def whole_bytes(data: bytes) -> int:
    """How many bytes at the front of a journal's end are whole lines; a last record without its newline is whole."""
    end = data.rfind(b"\n") + 1
    return len(data) if _is_object(data[end:]) else end


def check_facts(record: Record) -> None:
    """Facts are the one part of a record whose form the codec takes as it comes. Raises RecordError."""
    event = record.event
    if not isinstance(event, MessageAdded) or not isinstance(event.message, ToolMessage):
        return
    facts = cast(Any, event.message.facts)
    if not isinstance(facts, dict) or not isinstance(cast(Json, facts).get("plan", []), list):
        raise RecordError("not a journal record: its facts are not an object")


@dataclass(slots=True)
class _Found:
    items: list[Record | Lost] = field(default_factory=list["Record | Lost"])
    notices: list[str] = field(default_factory=list[str])


def _nothing(found: _Found) -> str:
    if found.items:
        return "it is not the journal of a run: no line of it can be read"
    if found.notices:
        return "no record of it is whole: the run was stopped while it wrote the first one"
    return "it is empty: the run was stopped before its first record"


def _read(path: Path) -> _Found:
    found = _Found()
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordError(f"{path} is not a file")
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n") or _is_object(line):
                    _read_line(line, number, path, found)
                else:
                    found.notices.append(f"line {number}: its writing was cut off by the end of the process; left out")
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from error
    return found


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_load(line.decode("utf-8", "replace")), dict)
    except ValueError:
        return False


def _read_line(line: bytes, number: int, path: Path, found: _Found) -> None:
    text = _decoded(line, number, found).strip(_BLANK)
    if not text:
        return
    try:
        found.items.append(_record(_load(text), line, number, path))
    except ValueError:
        _read_pieces(text, number, path, found)


def _decoded(line: bytes, number: int, found: _Found) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        found.notices.append(f"line {number}: it is not valid UTF-8; bytes that cannot be read are shown as \ufffd")
        return line.decode("utf-8", "replace")


def _load(text: str) -> object:
    """Any JSON value. Raises ValueError."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _read_pieces(text: str, number: int, path: Path, found: _Found) -> None:
    """A line that is not one JSON value: several records run together, or one behind the rest of a torn one."""
    starts = {0, *(match.start() for match in _RECORD_START.finditer(text)), len(text)}
    for start, end in pairwise(sorted(starts)):
        _read_piece(text[start:end].strip(_BLANK), number, path, found)


def _read_piece(piece: str, number: int, path: Path, found: _Found) -> None:
    why, length = "more stands behind a record", 0
    try:
        value, end = cast("tuple[object, int]", _DECODER.raw_decode(piece))
        if isinstance(value, dict):
            length = end
            found.items.append(_record(cast(Json, value), piece[:length].encode("utf-8", "replace"), number, path))
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
    if rest := piece[length:].encode("utf-8", "replace"):
        found.items.append(Lost(number, rest, f"it cannot be read ({why})"))


def _record(value: object, line: bytes, number: int, path: Path) -> Record | Lost:
    """Raises RecordError only for the start of a run, which nothing can stand in for."""
    if not isinstance(value, dict):
        return Lost(number, line, "it is not a record")
    data = cast(Json, value)
    try:
        record = record_from_json(data)
        check_facts(record)
    except (RecordError, OverflowError) as error:
        if data.get("event") == "run_started":
            raise RecordError(f"{path}:{number}: {error}") from error
        return Lost(number, line, str(error))
    return record
