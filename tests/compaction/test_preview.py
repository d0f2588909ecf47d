"""The lines that stand for an elided output."""

import pytest

from tests.compaction.views import output
from tinyagent.compaction.preview import LINE_LIMIT, is_failure, preview

NOISE = "reading file\n" * 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("\n \n", ""),
        ("first\nsecond\nthird\nfourth", "first"),
        (NOISE + "ERROR: disk full\n" + NOISE, "ERROR: disk full"),
        (
            NOISE + "Traceback (most recent call last):\n  File x\nKeyError: 1\n" + NOISE,
            "Traceback (most recent call last):",
        ),
        ("error 1\nerror 2\nerror 3\nerror 4", "error 2\nerror 3\nerror 4"),
        (NOISE + "===== 3 passed, 1 warning in 2.0s =====", "===== 3 passed, 1 warning in 2.0s ====="),
        (NOISE + "bash: foo: command not found", "bash: foo: command not found"),
    ],
)
def test_the_telling_lines_are_kept_newest_last(text, expected):
    assert preview(output("c", text)) == expected


def test_the_exit_code_comes_first_and_counts_as_a_line():
    assert preview(output("c", "error a\nerror b\nerror c", exit_code=2)) == "[exit code 2]\nerror b\nerror c"


def test_a_command_without_an_exit_code_was_stopped():
    assert preview(output("c", "", exit_code=None)) == "[stopped at its time limit]"


@pytest.mark.parametrize("lines", [0, 1, 2, 3])
def test_there_are_never_more_lines_than_asked_for(lines):
    shown = preview(output("c", "error\n" * 50, exit_code=1), lines=lines)
    assert len(shown.splitlines()) <= lines


def test_a_long_line_is_cut():
    assert len(preview(output("c", "error " + "x" * 5_000))) == LINE_LIMIT


@pytest.mark.parametrize(
    ("facts", "failed"), [({}, False), ({"exit_code": 0}, False), ({"exit_code": 1}, True), ({"exit_code": None}, True)]
)
def test_failure_is_told_by_facts_and_not_by_words(facts, failed):
    assert is_failure(output("c", "error error error", **facts)) is failed
