"""Reading and searching huge texts by line."""

import io
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.tools.lines import LINE_CHARS, blocks, open_text, search, window

TEXTS = st.lists(st.sampled_from(["", "a", "bb\r", "x" * (LINE_CHARS - 1), "y" * LINE_CHARS, "z" * (LINE_CHARS + 1)]))


@given(TEXTS.map("\n".join))
def test_every_part_of_a_text_is_reached_by_line_numbers(text):
    stream = io.StringIO(text, newline="\n")
    whole = window(stream, first=1, limit=10_000, max_chars=1_000_000)
    assert "".join(whole.lines) == text
    assert whole.total == len(whole.lines)
    assert all(len(line) <= LINE_CHARS + 1 for line in whole.lines)


def test_blocks_end_where_lines_end_also_in_one_endless_line():
    text = "a\n" + "漢" * 3_000_000 + "\nend"
    parts = list(blocks(io.StringIO(text, newline="\n")))
    assert "".join(parts) == text
    assert len(parts) >= 3
    assert all(part.endswith("\n") or len(part) % LINE_CHARS == 0 for part in parts[1:-1])


def test_lines_just_under_the_limit_are_counted_in_one_pass():
    text = ("x" * (LINE_CHARS - 1) + "\n") * 10_000
    started = time.monotonic()
    assert window(io.StringIO(text), first=9_999, limit=1, max_chars=10).total == 10_000
    assert time.monotonic() - started < 5


def test_a_window_stops_at_its_limits_and_tells_the_total():
    text = "".join(f"line {n}\n" for n in range(1, 100_001))
    by_count = window(io.StringIO(text), first=99_990, limit=3, max_chars=1_000)
    by_size = window(io.StringIO(text), first=5, limit=1_000, max_chars=20)
    assert (by_count.lines, by_count.total) == (("line 99990\n", "line 99991\n", "line 99992\n"), 100_000)
    assert by_size.lines == ("line 5\n", "line 6\n")


def test_twenty_megabytes_are_read_and_searched_with_little_memory(tmp_path):
    """R10 claude-code#11155: memory stays flat, whatever the size."""
    path = tmp_path / "big"
    path.write_bytes(b"y\n" * 5_000_000 + b"needle\n" + b"z" * 10_000_000)
    tracemalloc.start()
    with open_text(path) as stream:
        assert window(stream, first=5_000_001, limit=1, max_chars=100).lines == ("needle\n",)
    found = search(path, "needle", first=1, limit=5, timeout_s=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(hit.line, hit.text) for hit in found.hits] == [(5_000_001, "needle")]
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [("one", [1, 4]), ("^one$", [1]), ("one|two", [1, 2, 4]), ("(", [3]), ("[", []), (r"\d{3}", [5]), ("a.c", [6])],
)
def test_a_pattern_is_a_regular_expression_if_it_is_a_valid_one(tmp_path, pattern, lines):
    path = tmp_path / "text"
    path.write_text("one\ntwo\nf(x)\none more\n123\nabc\n")
    found = search(path, pattern, first=1, limit=10, timeout_s=30)
    assert [hit.line for hit in found.hits] == lines
    assert found.count == len(lines)


def test_only_the_first_hits_from_a_line_on_are_given_but_all_are_counted(tmp_path):
    path = tmp_path / "text"
    path.write_text("hit\n" * 100)
    found = search(path, "hit", first=41, limit=2, timeout_s=30)
    assert ([hit.line for hit in found.hits], found.count) == ([41, 42], 60)


def test_a_hit_in_a_long_line_is_shown_around_the_match(tmp_path):
    path = tmp_path / "text"
    path.write_text("x" * 1_000 + "needle" + "y" * 900 + "\n")
    (hit,) = search(path, "needle", first=1, limit=9, timeout_s=30).hits
    assert "needle" in hit.text
    assert len(hit.text) < 320


def test_a_pattern_that_backtracks_for_ever_is_stopped_with_what_was_found(tmp_path):
    """R62: catastrophic regex: partial result in bounded time."""
    path = tmp_path / "text"
    path.write_text("aaa\n" + "a" * 60 + "!\n")
    started = time.monotonic()
    found = search(path, "^(a+)+$", first=1, limit=9, timeout_s=1)
    assert time.monotonic() - started < 10
    assert not found.complete
    assert [hit.text for hit in found.hits] == ["aaa"]
