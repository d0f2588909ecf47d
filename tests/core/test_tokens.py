"""Raw estimates of texts, against real tokenizers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import BASH, assistant, call, result, user
from tests.generators import KINDS, text
from tests.harness import TOKENIZERS, counter
from tinyagent.core.meter import SEED_FACTOR
from tinyagent.core.tokens import estimate_text, fixed_tokens, message_tokens

EXTREME = {"blank", "one word"}  # cost next to nothing, whatever is estimated


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_first_estimate_of_a_text_of_any_kind_is_not_below_its_true_size(kind, tokenizer):
    sample = text(kind, 4_000)
    assert SEED_FACTOR * estimate_text(sample) >= 0.98 * counter(tokenizer)(sample) - 40


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - EXTREME))
def test_no_kind_of_text_is_estimated_at_more_than_twice_and_a_bit(kind, tokenizer):
    sample = text(kind, 4_000)
    assert estimate_text(sample) <= 2.2 * counter(tokenizer)(sample)


@pytest.mark.parametrize(("kind", "least"), [("base64", 0.85), ("hex", 0.85), ("cjk", 0.9), ("emoji", 2.0)])
def test_dense_scripts_and_encoded_runs_count_nearly_a_token_a_character(kind, least):
    """claw#103930, #70052: Chinese text was kept at three to four times what was asked for."""
    assert estimate_text(text(kind, 1_000)) >= least * 1_000


@pytest.mark.parametrize(
    ("words", "most"),
    [("=" * 4000, 200), (" " * 4000, 130), ("\n" * 4000, 130), ("-" * 80 + "\n", 8), ("a_long_identifier_name", 12)],
)
def test_rulers_and_white_space_are_cheap(words, most):
    assert estimate_text(words) <= most


def test_paths_and_names_are_not_taken_for_encoded_runs():
    path = "src/components/navigation/side-bar/navigation_entry_of_the_side_bar.py"
    assert estimate_text(path) < len(path) / 2


def test_an_empty_text_has_no_tokens():
    assert estimate_text("") == 0


@given(st.text(max_size=300), st.text(max_size=300))
@settings(max_examples=60)
def test_two_texts_together_are_about_as_large_as_apart(first, second):
    apart = estimate_text(first) + estimate_text(second)
    assert estimate_text(first + second) <= apart + 40


def test_tool_schemas_count_once_and_only_in_the_fixed_part():
    """hermes#27566: schemas were counted twice, so every pass fired far too early."""
    assert fixed_tokens("system", (BASH, BASH)) - fixed_tokens("system", (BASH,)) == (
        fixed_tokens("system", (BASH,)) - fixed_tokens("system", ())
    )
    assert message_tokens(user("hello")) < 10


def test_big_arguments_of_a_call_are_counted():
    """xagent PR#2072: the JSON of a write call bypassed every cap."""
    big = call("c1", "write", path="a.py", content=text("code", 8_000))
    assert message_tokens(assistant("", big)) > 2_000


def test_a_call_that_could_not_be_read_counts_its_raw_text():
    from tinyagent.core.types import ToolCall

    broken = ToolCall("c1", "bash", None, "no JSON", "x y " * 500)
    assert message_tokens(assistant("", broken)) > 800


def test_reasoning_counts_only_where_it_is_sent_back():
    from dataclasses import replace

    thinking = replace(assistant("Yes."), reasoning="word " * 1000)
    assert message_tokens(thinking) < 20
    assert message_tokens(replace(thinking, wire={"content": []})) > 900


def test_each_message_costs_a_little_even_if_it_is_empty():
    assert message_tokens(user("")) > 0
    assert message_tokens(result("c1", "")) > message_tokens(user(""))
