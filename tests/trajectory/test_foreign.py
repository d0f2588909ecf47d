"""Documents of other programs that are damaged in any place: read as far as it goes, or refused with a sentence."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tests.trajectory.generators import build_run
from tests.trajectory.viewer_data import realistic_run
from tinyagent.core.errors import RecordError
from tinyagent.core.events import Record
from tinyagent.core.state import fold
from tinyagent.core.types import Json
from tinyagent.trajectory.atif import to_atif
from tinyagent.trajectory.documents import read_document
from tinyagent.trajectory.mini import to_mini
from tinyagent.trajectory.viewer.page import render_html

DAMAGE: tuple[Any, ...] = (
    None, True, -1, 1e300, float("nan"), float("inf"), "", "x", "\ud800", "9999-99-99T00:00:00Z", [], [None], [[]], [1],
    {}, {"a": None}, {"extra": 1}, {"id": {}, "function": 3}, 10**400,
)  # fmt: skip


@pytest.mark.parametrize("write", [to_atif, to_mini])
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_document_is_read_or_refused(
    write: Callable[[list[Record]], Json], seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    sound = json.dumps(write(build_run(Random(seed), steps=4) if seed else realistic_run(steps=12)))
    for _ in range(150):
        document = json.loads(sound)
        for _ in range(random.choice((1, 1, 2))):
            place, key = random.choice(places(document))
            place[key] = random.choice(DAMAGE)
        (tmp_path / "out.json").write_text(json.dumps(document))
        with suppress(RecordError):
            records = read_document(tmp_path / "out.json").records
            fold([record.event for record in records])
            render_html(records)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: what holds it, and its key or index there."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found = [(value, key) for key in cast(Json, value)]
    elif isinstance(value, list):
        found = [(value, index) for index in range(len(cast("list[Any]", value)))]
    return [*found, *(inner for holder, key in found for inner in places(holder[key]))]
