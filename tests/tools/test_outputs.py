"""The tool `read_output`."""

import pytest

from tinyagent.tools import BUILTIN
from tinyagent.tools.store import FileOutputStore


@pytest.fixture
def output_id(room):
    return room.store.put("".join(f"row {n}\n" for n in range(1, 5_001)))


def test_a_range_says_what_is_shown_of_what(room, output_id):
    message = room.call("read_output", id=output_id, offset=4_000, limit=2)
    assert message.text == "[o1, lines 4000-4001 of 5000]\nrow 4000\nrow 4001\n[go on with offset=4002]"


def test_the_last_range_has_no_continuation(room, output_id):
    assert room.call("read_output", id=output_id, offset=5_000).text == "[o1, lines 5000-5000 of 5000]\nrow 5000\n"


def test_every_character_can_be_read_again(room):
    """Also of one line without an end."""
    text = "first\n" + "x" * 30_000 + "\nlast"
    output_id, read, offset = room.store.put(text), "", 1
    while offset:
        message = room.call("read_output", id=output_id, offset=offset)
        assert len(message.text) <= 10_000
        assert message.output_id == ""
        body, _, more = message.text.partition("\n")[2].partition("[go on with offset=")
        read += body
        offset = int(more.rstrip("]") or 0)
    assert read.replace("\n", "") == text.replace("\n", "")


def test_matching_lines_come_with_their_numbers(room, output_id):
    message = room.call("read_output", id=output_id, pattern="row 4[0-9]{2}7$")
    assert message.text.startswith("[o1, 100 lines match 'row 4[0-9]{2}7$']\n4007: row 4007\n4017: ")


def test_matching_lines_are_capped(room, output_id):
    message = room.call("read_output", id=output_id, pattern="row", limit=3)
    assert message.text == "[o1, 5,000 lines contain 'row', the first 3 shown]\n1: row 1\n2: row 2\n3: row 3"
    assert len(room.call("read_output", id=output_id, pattern="row").text) <= 10_000


@pytest.mark.parametrize("output_id", ["o9", "", "../../etc/passwd", "o1.txt", "o" * 500])
def test_an_unknown_id_is_an_error_result(room, output_id):
    """S26: names from data used as paths."""
    message = room.call("read_output", id=output_id)
    assert message.is_error
    assert message.text.startswith("There is no output")


def test_an_offset_past_the_end_is_an_error_result(room, output_id):
    assert (
        room.call("read_output", id=output_id, offset=5_001).text == "o1 has 5,000 lines: offset 5,001 is past its end."
    )


def test_an_elided_output_is_read_and_searched_from_the_log(room):
    room.store = FileOutputStore(room.outputs, logged={3: "one\ntwo\n"}.get)
    room.dispatch = room.dispatch_of(*BUILTIN.values())
    assert room.call("read_output", id="m3").text == "[m3, lines 1-2 of 2]\none\ntwo\n"
    assert room.call("read_output", id="m3", pattern="tw.").text == "[m3, 1 lines match 'tw.']\n2: two"
    assert room.call("read_output", id="m4").is_error
