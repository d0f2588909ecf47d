"""Repeated calls, told from work that only looks alike."""

import pytest

from tests.builders import assistant, call, result
from tinyagent.core.loops import STOP_AT, WARN_AT, repetitions, signature


def sign(command: str, output: str = "ok") -> str:
    return signature(assistant("", call("c1", command=command)), [result("c1", output)])


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("", 1),
        ("a", 1),
        ("aaa", 3),
        ("baaaaaa", 6),
        ("ababab", 3),
        ("abcabcabc", 3),
        ("abcdabcd", 1),
        ("aab", 1),
        ("abba", 1),
    ],
)
def test_cycles_of_up_to_three_turns_are_counted(pattern, count):
    assert repetitions([sign(letter) for letter in pattern]) == count


def test_the_same_call_with_another_result_is_polling_and_no_loop():
    assert repetitions([sign("date", f"12:0{n}") for n in range(8)]) == 1


def test_durations_and_ids_of_stored_outputs_do_not_hide_a_loop():
    """claw#126545, #77474: 248 identical calls in 14 hours."""
    outputs = [f'1 failed in 0.{n}s\n[... 900 characters left out; read_output("o{n}") has all ...]' for n in range(6)]
    assert repetitions([sign("pytest", output) for output in outputs]) == STOP_AT


def test_a_turn_without_calls_breaks_a_cycle():
    assert signature(assistant("Hello."), []) == ""
    assert repetitions([sign("a"), "", sign("a")]) == 1


def test_the_warning_comes_well_before_the_end():
    assert 1 < WARN_AT < STOP_AT


def test_unreadable_arguments_are_told_apart_by_their_raw_text():
    from tinyagent.core.types import ToolCall

    broken = [signature(assistant("", ToolCall("c", "bash", None, "no", raw)), []) for raw in ("{a", "{b")]
    assert broken[0] != broken[1]
