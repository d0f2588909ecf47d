"""Provider errors, told apart: two corpora of real answers, and single facts that stem from reported faults."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.core.errors import RECOVERY, ModelError
from tinyagent.core.types import Window
from tinyagent.models.overflow import classify, is_full_of_others, is_suspicious_400

Row = dict[str, Any]

OWN = Path(__file__).parent / "data" / "provider_errors.json"
SHARED = Path(__file__).parents[3] / "shared" / "overflow_errors.json"  # beside the checkout, where it is kept
OVERFLOWS = ("overflow", "overflow_total")
TOO_MUCH = (*OVERFLOWS, "body_too_large")


def own_rows() -> list[Row]:
    return json.loads(OWN.read_text("utf-8"))["rows"]


def shared_rows() -> list[Row]:
    return json.loads(SHARED.read_text("utf-8")) if SHARED.exists() else []


def classify_row(row: Row) -> ModelError:
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    in_stream = bool(row.get("in_stream", row.get("stream", False)))
    return classify(row["status"], body, in_stream=in_stream)


@pytest.mark.parametrize("row", own_rows(), ids=lambda row: row["id"])
def test_each_known_answer_gets_its_kind_and_teaches_only_its_limit(row: Row) -> None:
    error = classify_row(row)
    assert error.kind == row["kind"]
    assert error.window == row.get("window")
    assert error.max_output_tokens == row.get("max_output_tokens")
    assert error.prompt_tokens == row.get("prompt_tokens", error.prompt_tokens)
    assert error.parameter == row.get("parameter", error.parameter)
    assert error.retry_after_s == pytest.approx(row.get("retry_after_s", error.retry_after_s))


def test_the_shared_corpus_is_beside_the_checkout() -> None:
    if not SHARED.exists():
        pytest.skip("no corpus of overflow answers beside the checkout")
    assert len(shared_rows()) >= 96


@pytest.mark.parametrize("row", shared_rows(), ids=lambda row: row["id"])
def test_each_answer_of_the_shared_corpus_is_told_from_its_look_alikes(row: Row) -> None:
    error = classify_row(row)
    assert (error.kind in TOO_MUCH) == row["overflow"]
    assert error.window == row["window"]
    if row["overflow"]:
        assert error.prompt_tokens == row["prompt_tokens"]
    if row["action"] == "lower_max_tokens":
        assert RECOVERY[error.kind] == "lower_output"


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("input length and `max_tokens` exceed context limit: 250000 + 8192 > 200000", 200_000),  # hermes PR#40477
        ("prompt too long; exceeded max context length by 100918 tokens", None),
        ("invalid params, context window exceeds limit (2013)", None),
        ("prompt is too long: 90000 characters, the model's maximum is 60000 characters", None),
        ("The maximum context length of DeepSeek-V3-0324 is 32768. Your request will take 39732 tokens.", 32_768),
        ("This model's maximum context length is 1,048,576 tokens, you sent 1,200,000 tokens.", 1_048_576),
    ],
)
def test_only_a_number_that_is_the_limit_is_learned(text: str, window: int | None) -> None:
    error = classify(400, text)
    assert error.kind in OVERFLOWS
    assert error.window == window


def test_an_output_limit_is_never_learned_as_the_window() -> None:
    """hermes PR#106769: "output limit of 16384" was learned as the window."""
    error = classify(400, "max_tokens exceeds the output limit of 16384 tokens for this model")
    assert (error.kind, error.window, error.max_output_tokens) == ("output_cap", None, 16_384)


@pytest.mark.parametrize(
    ("prompt", "output", "kind"), [(9_000, 4_000, "overflow"), (3_000, 8_000, "overflow_total"), (8_192, 1, "overflow")]
)
def test_the_answers_own_figures_say_whether_less_output_would_do(prompt: int, output: int, kind: str) -> None:
    text = f"maximum context length is 8192 tokens ({prompt} in the messages, {output} in the completion)"
    assert classify(400, text).kind == kind


def test_json_is_found_however_deep_it_is_wrapped() -> None:
    text = "prompt is too long: 210000 tokens > 200000 maximum"
    for depth in range(6):
        assert classify(500, text).window == 200_000, depth
        text = json.dumps({"error": {"message": text, "code": 500}})


def test_a_prompt_that_is_echoed_decides_nothing() -> None:
    body = {
        "detail": [{"loc": ["body", "n"], "msg": "Input should be 1", "input": "prompt is too long: 9 > 8 maximum"}]
    }
    assert classify(422, json.dumps(body)).kind == "bad_request"


@pytest.mark.parametrize("text", ["context deadline exceeded", "context canceled", "rpc: context deadline exceeded"])
def test_gos_context_is_not_the_models(text: str) -> None:
    assert classify(500, text).kind == "network"


def test_a_server_error_in_a_stream_may_be_tried_again() -> None:
    assert RECOVERY[classify(200, '{"error": {"message": "boom"}}', in_stream=True).kind] == "retry"


NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"Retry-After": "Mon, 30 Nov 2026 12:00:30 GMT"}, "", 30),
        ({"retry-after-ms": "1500"}, "", 1.5),
        ({"retry-after": "2", "retry-after-ms": "1500"}, "Please try again in 4.77s.", 4.77),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-30T12:00:45Z"}, "", 45),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, "", 360),
        ({"x-ratelimit-reset-requests": "24h0m0s", "x-ratelimit-remaining-requests": "9000"}, "", None),
        ({}, '{"error": {"message": "slow down", "details": [{"retryDelay": "37s"}]}}', None),
        ({}, "Please retry in 20.5s", 20.5),
        ({}, "Try again in 1 minute 5 seconds", 65),
        ({"retry-after": "soon"}, "", None),
    ],
)
def test_the_longest_wait_that_is_asked_for_counts(headers: dict[str, str], text: str, seconds: float | None) -> None:
    error = classify(429, text, headers=headers, now=NOW)
    assert error.kind == "rate"
    assert error.retry_after_s == (None if seconds is None else pytest.approx(seconds))


def test_a_date_in_a_header_needs_a_clock() -> None:
    assert classify(503, "", headers={"retry-after": "Mon, 30 Nov 2026 12:00:30 GMT"}).retry_after_s is None


def test_the_providers_own_word_on_retrying_is_obeyed() -> None:
    assert RECOVERY[classify(529, "Overloaded", headers={"x-should-retry": "false"}).kind] == "stop"
    assert RECOVERY[classify(409, "conflict", headers={"x-should-retry": "true"}).kind] == "retry"


@pytest.mark.parametrize(
    "secret",
    [
        "https://someone:hunter2secret@proxy.example/v1",
        "Authorization: Bearer abcdefghijklmnop",
        "sk-ant-REDACTED",
        "AIzaSyA1234567890abcdefghijklmnop",
        "https://host/v1?key=abcdef1234567890",
        "x-api-key: 0123456789abcdef",
    ],
)
def test_a_message_for_people_holds_no_credentials_and_stays_short(secret: str) -> None:
    message = str(classify(400, f"refused: {secret} " + "and so on " * 200))
    assert not any(part in message for part in ("hunter2", "abcdefghij", "AAAA", "SyA1234", "abcdef1234", "0123456789"))
    assert len(message) <= 500
    assert "\n" not in message


def test_the_innermost_words_are_shown() -> None:
    raw = json.dumps({"error": {"message": "model is busy, sorry"}})
    body = {"error": {"message": "Provider returned error", "code": 503, "metadata": {"raw": raw}}}
    assert str(classify(503, json.dumps(body))).endswith("(HTTP 503): model is busy, sorry")


@pytest.mark.parametrize(
    ("status", "text", "estimate", "expected"),
    [
        (400, "", 8_500, True),
        (400, "", 8_000, False),
        (400, "failed to parse request", 9_000, True),
        (500, "llama-server process has terminated: exit status 2", 9_000, True),  # writeragent#574
        (529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', 9_900, False),
        (401, "", 9_900, False),
        (429, "rate limit", 9_900, False),
    ],
)
def test_an_unexplained_refusal_near_the_window_is_suspicious(
    status: int, text: str, estimate: int, expected: bool
) -> None:
    assert is_suspicious_400(classify(status, text), estimate, 10_000) is expected


def test_nothing_is_suspicious_without_a_window() -> None:
    assert not is_suspicious_400(classify(400, ""), 10**6, None)


@given(st.one_of(st.none(), st.integers(100, 599)), st.text(max_size=300), st.booleans())
def test_any_answer_is_classified_without_raising(status: int | None, text: str, in_stream: bool) -> None:
    error = classify(status, text, in_stream=in_stream, now=NOW)
    assert error.kind in RECOVERY
    assert len(str(error)) <= 500


@given(
    st.recursive(
        st.none() | st.text(max_size=20) | st.integers(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["error", "message", "code", "detail", "type", "raw"]), inner)
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_without_raising(value: object) -> None:
    assert classify(400, json.dumps(value)).kind in RECOVERY


@given(prompt=st.integers(9_000, 2_000_000), window=st.integers(1_000, 8_999))
def test_a_window_is_never_learned_above_what_was_asked(prompt: int, window: int) -> None:
    for text in (
        f"prompt is too long: {prompt} tokens > {window} maximum",
        f"The input ({prompt} tokens) is longer than the model's context length ({window} tokens).",
        f"maximum context length is {window} tokens. However, your messages resulted in {prompt} tokens.",
    ):
        assert classify(400, text).window == window


POOL = '{"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}'


@pytest.mark.parametrize(
    ("status", "text", "estimate", "window", "expected"),
    [
        (500, POOL, 838, Window(2_048, "server"), True),  # measured: the other slots fill the pool
        (200, POOL, 838, Window(2_048, "configured"), True),  # in the middle of a stream
        (500, POOL, 1_100, Window(2_048, "server"), False),
        (500, POOL, 838, Window(None), False),
        (500, POOL, 838, Window(8_192, "catalogue"), False),  # of the model, not of this server
        (500, POOL, 838, Window(8_192, "assumed"), False),
        (400, "invalid params, context window exceeds limit (2013)", 838, Window(204_800, "server"), False),  # MiniMax
        (500, "the prompt exceeds the context size", 838, Window(8_192, "server"), False),
        (500, "context length exceeded: 9000 tokens of 8192", 838, Window(16_384, "server"), False),
        (500, '{"error": {"code": "context_length_exceeded"}}', 838, Window(16_384, "server"), False),
        (503, "Loading model", 838, Window(16_384, "server"), False),  # passes anyway
    ],
)
def test_an_overflow_far_below_the_window_in_words_that_say_nothing_of_the_prompt_may_pass(
    status: int, text: str, estimate: int, window: Window, expected: bool
) -> None:
    error = classify(status, text, in_stream=status == 200)
    assert is_full_of_others(error, estimate, window) == expected
