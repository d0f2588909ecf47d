"""Journals of every schema so far keep opening. A file in tests/data/journals is never changed, only added to."""

import json
from pathlib import Path

import pytest

from tests.trajectory.files import events_of
from tests.trajectory.generators import plain_body
from tinyagent.core.events import KINDS, SCHEMA
from tinyagent.core.state import fold
from tinyagent.trajectory.native import from_native, to_native
from tinyagent.trajectory.reading import read_journal
from tinyagent.trajectory.replay import check

JOURNALS = Path(__file__).parents[1] / "data" / "journals"


@pytest.mark.parametrize("path", sorted(JOURNALS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_an_old_journal_means_what_it_meant(path: Path) -> None:
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    contents = read_journal(path)
    state = fold(events_of(contents.records))
    assert not contents.notices
    assert {
        "messages": len(state.messages),
        "steps": state.spend.steps,
        "requests": state.spend.requests,
        "view": [entry.id for entry in state.view.entries],
        "reason": state.ended and state.ended.reason,
        "input_tokens": state.spend.usage.input_tokens,
        "cost_usd": state.spend.cost_usd,
        "last_text": state.messages[-1].text,
        "kinds": sorted({json.loads(line)["event"] for line in path.read_bytes().splitlines()}),
    } == expected
    assert check(contents.records, plain_body) == []
    assert from_native(to_native(contents.records)) == list(contents.records)


def test_the_present_schema_has_a_journal_with_every_kind_of_event() -> None:
    """If this fails, SCHEMA or KINDS changed: add a journal of the new form beside the old ones."""
    expected = json.loads((JOURNALS / f"schema-{SCHEMA}.expected.json").read_text())
    assert set(KINDS) <= set(expected["kinds"])
