"""Journals on disk, and child processes that work on them."""

import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from random import Random

from tests.trajectory.generators import build_run
from tinyagent.core.events import Event, Record
from tinyagent.core.types import Json
from tinyagent.trajectory.journal import JOURNAL, Journal, line_of
from tinyagent.trajectory.native import dump
from tinyagent.trajectory.writing import write_file


def write_journal(folder: Path, records: Iterable[Record]) -> Path:
    """A run folder's journal with these records; returns the file."""
    with Journal.create(folder) as journal:
        for record in records:
            journal.append(record)
    return folder / JOURNAL


def write_document(path: Path, document: Json) -> None:
    write_file(path, dump(document))


def write_lines(folder: Path, lines: Iterable[bytes]) -> Path:
    """A run folder whose journal has these lines, as they are; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / JOURNAL
    path.write_bytes(b"".join(lines))
    return path


def lines_of(records: Iterable[Record]) -> list[bytes]:
    return [line_of(record) for record in records]


def events_of(records: Iterable[Record]) -> list[Event]:
    return [record.event for record in records]


def seeded_run(seed: int = 1, *, steps: int = 4) -> list[Record]:
    """A run that is the same at each call."""
    return build_run(Random(seed), steps=steps)


def python(script: str, *arguments: object) -> "subprocess.Popen[str]":
    """A child that runs the script with `sys.argv[1:]` set; its streams are pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def output_of(script: str, *arguments: object) -> str:
    """What such a child prints. It must end with 0."""
    child = python(script, *arguments)
    stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 0, stderr
    return stdout
