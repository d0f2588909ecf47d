"""Journal lines: there and back, and what is no line at all."""

import json

import pytest
from hypothesis import given, settings

from tests.trajectory.generators import runs
from tinyagent.core.errors import RecordError
from tinyagent.core.events import (
    SCHEMA,
    MessageAdded,
    ModelCalled,
    Notice,
    Record,
    Unknown,
    record_from_json,
    record_to_json,
)
from tinyagent.core.types import AssistantMessage, ToolCall, UserMessage


@given(runs())
@settings(max_examples=40)
def test_every_record_survives_its_line(records):
    for record in records:
        assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


def test_defaults_are_left_out_of_a_line():
    line = record_to_json(Record(1, 0.0, MessageAdded(UserMessage("hello"), 7)))
    assert line == {
        "seq": 1,
        "time": 0.0,
        "event": "message",
        "message": {"role": "user", "text": "hello"},
        "tokens": 7,
    }


def test_a_zero_that_is_not_the_default_stays():
    called = ModelCalled("step", 1, "d", 5, cost_usd=0.0)
    assert record_to_json(Record(1, 0.0, called))["cost_usd"] == 0.0


def test_arguments_that_could_not_be_read_stay_apart_from_empty_ones():
    calls = (ToolCall("a", "bash", None, "no JSON", "{"), ToolCall("b", "bash", {}))
    record = Record(1, 0.0, MessageAdded(AssistantMessage("", calls, "tool_calls"), 9))
    assert record_from_json(record_to_json(record)) == record


def test_an_unknown_kind_is_kept_as_it_came():
    line = {"seq": 3, "time": 1.0, "event": "telepathy", "strength": 4}
    record = record_from_json(line)
    assert record.event == Unknown("telepathy", {"strength": 4})
    assert record_to_json(record) == line


def test_fields_of_a_newer_version_are_ignored():
    line = {"seq": 1, "time": 0.0, "event": "notice", "text": "hello", "colour": "red"}
    assert record_from_json(line).event == Notice("hello")


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"seq": 1, "time": 0.0},
        {"seq": "x", "time": 0.0, "event": "notice", "text": "a"},
        {"seq": 1, "time": 0.0, "event": "notice"},
        {"seq": 1, "time": 0.0, "event": "notice", "text": 5},
        {"seq": 1, "time": 0.0, "event": "message", "message": {"role": "wizard", "text": "x"}, "tokens": 1},
        {"seq": 1, "time": 0.0, "event": "message", "message": {"role": "user", "text": "x"}, "tokens": "many"},
        {"seq": 1, "time": 0.0, "event": "message", "message": {"role": "user", "text": "x"}, "tokens": True},
    ],
)
def test_what_is_no_record_says_so(line):
    with pytest.raises(RecordError, match="not a journal record"):
        record_from_json(line)


def test_a_journal_of_a_newer_schema_is_refused_with_both_versions():
    line = {"seq": 1, "time": 0.0, "event": "run_started", "run_id": "r", "version": "9", "cwd": "/", "system": ""}
    line |= {"setup": {"model": "m", "options": {}, "window": {"tokens": None}}, "tools": [], "schema": SCHEMA + 1}
    with pytest.raises(RecordError, match=f"schema {SCHEMA + 1}, this one reads up to {SCHEMA}"):
        record_from_json(line)
