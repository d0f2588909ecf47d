"""One table for the kinds of provider errors, one for the ends of runs."""

import typing

from tinyagent.core.errors import END_STATES, RECOVERY, EndReason, EndRun, ErrorKind, ModelError

CODES = {
    "submitted": 0,
    "provider_error": 1,
    "refused": 1,
    "empty_response": 1,
    "bad_tool_calls": 1,
    "loop_detected": 1,
    "sandbox_lost": 1,
    "crashed": 1,
    "cost_limit": 3,
    "step_limit": 3,
    "time_limit": 3,
    "context_truncated": 4,
    "transient_provider_error": 75,
    "auth": 77,
    "config": 78,
    "interrupted": 130,
    "terminated": 143,
}


def test_every_kind_of_error_has_a_recovery():
    assert set(RECOVERY) == set(typing.get_args(ErrorKind))


def test_every_end_has_the_exit_code_of_the_contract():
    assert {reason: state.exit_code for reason, state in END_STATES.items()} == CODES
    assert set(CODES) == set(typing.get_args(EndReason))


def test_a_context_that_does_not_fit_is_not_to_be_tried_again():
    assert not END_STATES["context_truncated"].retryable
    assert END_STATES["transient_provider_error"].retryable


def test_an_end_without_words_has_those_of_the_table():
    assert str(EndRun("auth")) == END_STATES["auth"].words
    assert str(EndRun("auth", "no key")) == "no key"


def test_an_error_carries_what_the_provider_said():
    error = ModelError("too long", kind="overflow", window=100, prompt_tokens=120)
    assert (error.kind, error.window, error.prompt_tokens, error.billed) == ("overflow", 100, 120, False)
