"""Journals that a kill, another version or an editor damaged: repaired or refused, always in a sentence."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, json_object, result, task
from tests.trajectory.files import events_of, lines_of, seeded_run, write_lines
from tests.trajectory.generators import runs
from tinyagent.core.errors import RecordError
from tinyagent.core.events import Compacted, Event, MessageAdded, Notice, Record, RunEnded, RunStarted, Unknown
from tinyagent.core.state import RunState, fold
from tinyagent.core.types import Message
from tinyagent.core.view import blocks, problems, view_of
from tinyagent.trajectory.journal import Journal, line_of
from tinyagent.trajectory.native import from_native, to_native
from tinyagent.trajectory.reading import read_journal
from tinyagent.trajectory.repair import LOST_TEXT


def start() -> RunStarted:
    event = seeded_run()[0].event
    assert isinstance(event, RunStarted)
    return event


def numbered(*events: Event) -> list[Record]:
    return [Record(seq, 100.0 + seq, event) for seq, event in enumerate(events, 1)]


def dialogue(*messages: Message) -> list[Record]:
    """A start and these messages."""
    return numbered(start(), *(MessageAdded(message, 1, 1) for message in messages))


def two_calls() -> list[Record]:
    """Start 1, task 2, a reply with two calls 3, its results 4 and 5, a reply with one call 6, its result 7."""
    return dialogue(
        task(),
        assistant("both", call("c1"), call("c2")),
        result("c1", "one"),
        result("c2", "two"),
        assistant("last", call("c3")),
        result("c3", "three"),
    )


def ended() -> list[Record]:
    """Such a run with its end."""
    return [*two_calls(), Record(8, 200.0, RunEnded("submitted", submission='Fertig: "größer" 🙂'))]


def state_of(path: Path) -> RunState:
    return fold(events_of(read_journal(path).records))


def texts(state: RunState) -> list[str]:
    return [message.text for message in state.messages]


def test_a_record_torn_at_any_byte_costs_that_record_alone(tmp_path: Path) -> None:
    """R25, R34: kill during a write."""
    *whole, last = ended()
    line = line_of(last)
    path = write_lines(tmp_path, lines_of(whole))
    intact = path.read_bytes()
    for cut in range(len(line)):
        path.write_bytes(intact + line[:cut])
        contents = read_journal(path)
        complete = cut == len(line) - 1  # only the newline is missing
        assert contents.records == tuple([*whole, last] if complete else whole), cut
        assert len(contents.notices) == (0 if complete or cut == 0 else 1), cut


def test_a_torn_record_is_cut_off_and_saved_before_the_run_goes_on(tmp_path: Path) -> None:
    *whole, last = ended()
    line = line_of(last)
    intact = b"".join(lines_of(whole))
    for cut in range(1, len(line) - 1):
        folder = tmp_path / str(cut)
        write_lines(folder, [intact, line[:cut]])
        with Journal.open(folder) as journal:
            assert any("was moved to" in notice for notice in journal.contents.notices)
            journal.append(Record(journal.contents.next_seq, 1.0, Notice("on")))
        assert events_of(read_journal(journal.path).records) == [*events_of(whole), Notice("on")]
        assert (folder / f"journal.jsonl.torn-{len(intact)}").read_bytes() == line[:cut]


def test_a_last_record_without_its_newline_is_kept_when_the_run_goes_on(tmp_path: Path) -> None:
    records = seeded_run(3)
    path = write_lines(tmp_path, [b"".join(lines_of(records)).rstrip(b"\n")])
    with Journal.open(tmp_path) as journal:
        journal.append(Record(journal.contents.next_seq, 1.0, Notice("on")))
    assert events_of(read_journal(path).records) == [*events_of(records), Notice("on")]
    assert not read_journal(path).notices


def test_two_records_on_a_line_are_both_read(tmp_path: Path) -> None:
    records = seeded_run(3)
    path = write_lines(tmp_path, [*(line.rstrip(b"\n") for line in lines_of(records)), b"\n"])
    assert read_journal(path).records == tuple(records)


def test_a_record_behind_the_rest_of_a_torn_one_is_read(tmp_path: Path) -> None:
    first, second, third, *rest = lines_of(seeded_run(3))
    path = write_lines(tmp_path, [first, second, b'{"seq":3,"time":1.0,"event":"noti', third, *rest])
    contents = read_journal(path)
    assert contents.records == tuple(seeded_run(3))
    assert re.search(r"line 3: it cannot be read", contents.notices[0])


def test_events_of_unknown_kinds_are_kept_and_written_again(tmp_path: Path) -> None:
    line = b'{"seq":2,"time":5.0,"event":"moon_rose","phase":{"full":true},"n":[1,2]}\n'
    path = write_lines(tmp_path, [line_of(seeded_run()[0]), line])
    contents = read_journal(path)
    assert contents.records[1].event == Unknown("moon_rose", {"phase": {"full": True}, "n": [1, 2]})
    assert line_of(contents.records[1]) == line
    assert not contents.notices


def test_unknown_fields_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    records = seeded_run(3)
    lines = [json.dumps(json.loads(line) | {"colour": "red"}).encode() + b"\n" for line in lines_of(records)]
    known = [record for record in records if not isinstance(record.event, Unknown)]
    read = read_journal(write_lines(tmp_path, lines)).records
    assert [record for record in read if not isinstance(record.event, Unknown)] == known


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    data = json.loads(line_of(seeded_run()[0])) | {"schema": 2}
    path = write_lines(tmp_path, [json.dumps(data).encode()])
    with pytest.raises(RecordError, match=r"journal\.jsonl:1: written by a newer tinyagent \(schema 2, .* up to 1\)"):
        read_journal(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"\0" * 4096, "no record of it is whole"),
        (b'{"seq":1,"time":1.0,"event":"run_sta', "no record of it is whole"),
        (b"hello\nworld\n", "not the journal of a run"),
        (b"[1, 2]\nnull\n3\n", "not the journal of a run"),
        (b"\xff\xfe\x00\x01" * 99 + b"\n", "not the journal of a run"),
        (b"[" * 100_000 + b"\n", "not the journal of a run"),
        (b'{"trajectory_format": "tinyagent-1"}', "not the journal of a run"),
        (b'{"seq":1,"time":1.0,"event":"notice","text":"x"}\n', "the start of the run is missing"),
        (b'{"seq":1,"time":1.0,"event":"run_started"}\n', "run_id"),
        (b'{"seq":1,"time":1.0,"event":"run_started","run_id":7}\n', "not a journal record"),
        (b'{"seq":1e999,"time":1.0,"event":"notice","text":"x"}\n', "not the journal of a run"),
    ],
)
def test_what_is_no_journal_is_refused_in_a_sentence_with_file_and_line(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(RecordError, match=said) as caught:
        read_journal(write_lines(tmp_path, [data]))
    assert "journal.jsonl:1: " in str(caught.value)


@pytest.mark.parametrize("place", ["missing.jsonl", ".", "journal.jsonl/below"])
def test_what_cannot_be_opened_is_told(tmp_path: Path, place: str) -> None:
    write_lines(tmp_path, [b""])
    with pytest.raises(RecordError, match=r"cannot be read|is not a file"):
        read_journal(tmp_path / place)


def test_bytes_that_are_not_utf8_are_shown_as_replacement_characters(tmp_path: Path) -> None:
    """R13: latin-1 in a file that other programs touched."""
    lines = lines_of(dialogue(task("caf?")))
    path = write_lines(tmp_path, [lines[0], lines[1].replace(b"caf?", b"caf\xe9")])
    assert texts(state_of(path)) == ["caf\ufffd"]
    assert "line 2: it is not valid UTF-8" in read_journal(path).notices[0]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    lines = [line.replace(b"\n", b"\r\n") for line in lines_of(two_calls())]
    contents = read_journal(write_lines(tmp_path, [b"\xef\xbb\xbf", *lines]))
    assert contents.records == tuple(two_calls())
    assert not contents.notices


GARBAGE = (b"\n", b"garbage\n", b"{\n", b'{"seq":5}\n', b"\xff\xfe\0\n", b'["a"]\n', b'{"seq":"x","event":[]}\n')


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("at", range(1, 8))
def test_a_line_of_garbage_between_records_changes_nothing_but_a_notice(
    tmp_path: Path, garbage: bytes, at: int
) -> None:
    """Context case 149: one malformed record made a session unresumable."""
    lines = lines_of(two_calls())
    path = write_lines(tmp_path, [*lines[:at], garbage, *lines[at:]])
    if garbage.strip():
        assert f"line {at + 1}: " in read_journal(path).notices[0]
    assert state_of(path).view.messages == fold(events_of(two_calls())).view.messages


ROLE_LEFT = b'"event":"message","message":{"role":"%s"\n'


@pytest.mark.parametrize(
    ("at", "left"),
    [
        *((at, ROLE_LEFT) for at in range(1, 7)),
        *((at, b"\0\0\0\0\n") for at in range(2, 6)),
        *((at, b"") for at in range(2, 6)),
    ],
)
def test_a_lost_message_gets_a_stand_in_so_that_the_run_can_go_on(tmp_path: Path, at: int, left: bytes) -> None:
    """Context case 149. Of the line, its role is `left`, or zero bytes, or nothing."""
    lines = lines_of(two_calls())
    role = json_object(json.loads(lines[at])["message"])["role"]
    path = write_lines(tmp_path, [*lines[:at], left.replace(b"%s", role.encode()), *lines[at + 1 :]])
    wanted = texts(fold(events_of(two_calls())))
    wanted[at - 1] = LOST_TEXT
    assert texts(state_of(path)) == wanted
    assert problems(state_of(path).view) == []
    assert read_journal(path).notices


def test_all_results_of_a_turn_may_be_lost(tmp_path: Path) -> None:
    lines = lines_of(two_calls())
    state = state_of(write_lines(tmp_path, [*lines[:3], *lines[5:]]))
    assert texts(state)[2:4] == [LOST_TEXT, LOST_TEXT]
    assert problems(state.view) == []


def test_a_lost_task_is_still_the_task(tmp_path: Path) -> None:
    lines = lines_of(two_calls())
    path = write_lines(tmp_path, [lines[0], ROLE_LEFT.replace(b"%s", b"user"), *lines[2:]])
    assert state_of(path).messages[0] == task(LOST_TEXT)


@given(runs(), st.data())
def test_a_journal_that_lost_any_line_still_reads_and_exports(records: list[Record], data: st.DataObject) -> None:
    lines = lines_of(records)
    lost = data.draw(st.integers(1, len(lines)))
    left = data.draw(st.sampled_from([b"", b"\n", b"x\n", b"{}\n", b'{"seq":9,"time":1.0,"event":"compacted"}\n']))
    with TemporaryDirectory() as folder:
        path = write_lines(Path(folder), [*lines[:lost], left, *lines[lost + 1 :]])
        contents = read_journal(path)
    state = fold(events_of(contents.records))
    assert from_native(to_native(contents.records))
    assert [p for p in problems(state.view) if "answered by" in p or "does not follow" in p] == unanswered(state)


def unanswered(state: RunState) -> list[str]:
    """The problem of the last turn if its calls still wait, as they do in a run that was cut off there."""
    turn = blocks(state.view)[-1:]
    return [p for p in problems(view_of(turn[0].entries)) if "answered by" in p] if turn else []


def test_a_pass_that_does_not_fit_the_messages_is_left_out(tmp_path: Path) -> None:
    """Context case 149: fall back to the raw log."""
    impossible = Compacted("budget", 1, 900, 100, (1, 99), ("prune",), summary="digest")
    records = [*two_calls(), Record(8, 200.0, impossible)]
    path = write_lines(tmp_path, lines_of(records))
    assert state_of(path).view == fold(events_of(two_calls())).view
    assert "record 8: a change of the view does not fit the messages" in read_journal(path).notices[0]


def test_a_second_run_in_the_same_file_is_left_out(tmp_path: Path) -> None:
    path = write_lines(tmp_path, [*lines_of(two_calls()), *lines_of(seeded_run(7))])
    contents = read_journal(path)
    assert contents.records == tuple(two_calls())
    assert any("another run follows" in notice for notice in contents.notices)


def test_a_file_of_mostly_garbage_is_read_in_linear_time_with_few_notices(tmp_path: Path) -> None:
    path = write_lines(tmp_path, [line_of(seeded_run()[0]), *[b"garbage\n"] * 50_000])
    contents = read_journal(path)
    assert len(contents.records) == 1
    assert len(contents.notices) < 30
    assert any("49,980 more places" in notice for notice in contents.notices)


def test_two_events_of_one_number_both_stay(tmp_path: Path) -> None:
    """An interrupt can come between the writing of a record and the counting of it."""
    records = [*two_calls(), Record(7, 200.0, Notice("again"))]
    contents = read_journal(write_lines(tmp_path, lines_of(records)))
    assert contents.records == tuple(records)
    assert events_of(from_native(to_native(records))) == events_of(records)
