"""A run of 2,000 steps takes eight times the time of one of 250, never the square of that."""

import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trajectory.files import seeded_run, write_journal
from tinyagent.core.events import Record
from tinyagent.trajectory.native import dump, from_native, to_native
from tinyagent.trajectory.reading import read_journal

SHORT, LONG = 250, 2000
SLACK = 3  # what grows with the square would take eight times its share


@pytest.fixture(scope="module")
def sizes() -> dict[int, list[Record]]:
    return {steps: seeded_run(11, steps=steps) for steps in (SHORT, LONG)}


def seconds(work: Callable[[], object], *, tries: int) -> float:
    """CPU seconds of the quickest try."""
    taken: list[float] = []
    for _ in range(tries):
        gc.collect()
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def assert_linear(short: Callable[[], object], long: Callable[[], object]) -> None:
    ratio = seconds(long, tries=1) / seconds(short, tries=3)
    assert ratio < SLACK * LONG / SHORT, f"{ratio:.1f} times the time for {LONG // SHORT} times the steps"


def test_the_journal_is_written_and_read_in_linear_time(sizes: dict[int, list[Record]], tmp_path: Path) -> None:
    """R34: mini-swe-agent writes the whole file after each step."""
    folders = (tmp_path / str(number) for number in range(99))
    assert_linear(lambda: write_journal(next(folders), sizes[SHORT]), lambda: write_journal(next(folders), sizes[LONG]))
    short, long = (write_journal(next(folders), sizes[steps]) for steps in (SHORT, LONG))
    assert_linear(lambda: read_journal(short), lambda: read_journal(long))


def test_the_document_is_made_and_read_in_linear_time(sizes: dict[int, list[Record]]) -> None:
    assert_linear(lambda: dump(to_native(sizes[SHORT])), lambda: dump(to_native(sizes[LONG])))
    short, long = (json.loads(dump(to_native(sizes[steps]))) for steps in (SHORT, LONG))
    assert_linear(lambda: from_native(short), lambda: from_native(long))
