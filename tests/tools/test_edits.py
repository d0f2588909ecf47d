"""Replacing a text and nothing else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.tools.edits import Edited, edit

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.lists(st.tuples(st.text(st.sampled_from("abé漢 "), max_size=4), ENDS), min_size=1, max_size=12)


@given(LINES, LINES, ENDS, st.booleans())
def test_every_untouched_character_stays(before, after, end, last_ends):
    """R58 openclaw#116011, opencode#9443: CRLF, mixed, lone CR, no final newline."""
    head = "".join(line + stop for line, stop in before)
    tail = "".join(line + stop for line, stop in after)[: None if last_ends else -1]
    edited = edit(f"{head}x = OLD{end}{tail}", "x = OLD", "y = NEW", everywhere=False)
    assert isinstance(edited, Edited)
    assert edited.text == f"{head}y = NEW{end}{tail}"


@given(LINES, ENDS, ENDS)
def test_context_lines_keep_their_own_line_ends(lines, end, other):
    """R58: mixed line ends inside the text that is replaced."""
    text = "".join(line + stop for line, stop in lines) + f"one{end}OLD{other}three{end}"
    edited = edit(text, "one\nOLD\nthree\n", "one\nNEW\nmore\nthree\n", everywhere=False)
    assert isinstance(edited, Edited)
    kept = "".join(line + stop for line, stop in lines) + f"one{end}NEW{other}"
    assert edited.text in (f"{kept}more{other}three{end}", f"{kept}more{end}three{end}")


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "c\r\nd", "c\r\nd\r\n"),
        ("a\rb\r", "b", "b\nc", "a\rb\rc\r"),
        ("a\r\nb", "b", "b\nc\n", "a\r\nb\r\nc\r\n"),
        ("a\nb\r\nc\n", "b", "b\nx", "a\nb\r\nx\r\nc\n"),
        ("a\r\nb\r\nc", "a\n", "", "b\r\nc"),
        ("a\u2028b\x0cc\r\n", "c", "d", "a\u2028b\x0cd\r\n"),
        ("\n\n", "\n\n", "x", "x"),
    ],
)
def test_new_lines_end_as_those_around_them(text, old, new, expected):
    edited = edit(text, old, new, everywhere=False)
    assert isinstance(edited, Edited)
    assert edited.text == expected


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        ("a\n", "", "x", "`old` is empty"),
        ("a\r\n", "a\n", "a\r\n", "`old` and `new` are the same"),
        ("a\nb\na\n", "a", "x", "`old` occurs 2 times, at lines 1, 3: "),
        ("aaa", "aa", "x", "`old` occurs 2 times"),
        (
            "    x = 1\n    y = 2\n",
            "x = 1\ny = 2",
            "z",
            "It is there with other white space:\n1:     x = 1\n2:     y = 2",
        ),
        ("one\ntwo\ndef total(self):\n", "def totals(self):", "z", "The nearest lines are:\n3: def total(self):"),
        ("x" * 200_000, "x", "y", "`old` occurs more than 100,000 times, too many"),
        ("one\n", "completely different", "z", "No line of the file is like it."),
    ],
)
def test_what_cannot_be_replaced_is_told_with_what_would_help(text, old, new, words):
    answer = edit(text, old, new, everywhere=False)
    assert isinstance(answer, str)
    assert words in answer


def test_all_places_are_replaced_when_asked_for():
    edited = edit("a b\r\na\r\n", "a", "x\ny", everywhere=True)
    assert isinstance(edited, Edited)
    assert (edited.text, edited.places, edited.line) == ("x\r\ny b\r\nx\r\ny\r\n", 2, 1)


def test_the_snippet_shows_the_change_at_its_line():
    text = "".join(f"line {n}\n" for n in range(1, 101))
    edited = edit(text, "line 50\n", "LINE\n", everywhere=False)
    assert isinstance(edited, Edited)
    assert edited.snippet == "@@ -49,3 +49,3 @@\n line 49\n-line 50\n+LINE\n line 51"


def test_replacing_everywhere_is_bounded():
    answer = edit("x" * 90_000, "x", "y" * 10_000, everywhere=True)
    assert isinstance(answer, str)


@pytest.mark.parametrize("old", ["x" * 3_000 + "!", "x\n" * 3_000 + "!", " y\n" * 3_000, "\n" * 3_000 + "q"])
def test_a_search_without_success_ends_soon_in_a_large_file(old):
    text = ("x" * 300 + "\n") * 30_000 + "x\n" * 30_000 + " \n" * 30_000
    started = time.monotonic()
    assert isinstance(edit(text, old, "z", everywhere=False), str)
    assert time.monotonic() - started < 10
