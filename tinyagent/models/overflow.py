"""A provider's error answer becomes one of our errors.

Structure decides first (codes, named fields, JSON inside JSON), words last; everything that shares words with an
overflow is told apart before it. The status is a weak signal: overflows were seen with 200, 400, 413, 422, 500, 502.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from tinyagent.core.errors import RECOVERY, ErrorKind, ModelError
from tinyagent.core.types import Window
from tinyagent.models.error_body import ErrorBody, plain, read_error_body, rejected_parameter, sentences
from tinyagent.models.error_figures import Figures, read_figures, read_output_limit
from tinyagent.models.error_kinds import (
    demanded_field,
    kind_after_overflow,
    kind_before_overflow,
    kind_by_code,
    says_body_too_large,
    says_field_length,
    says_used_up,
)
from tinyagent.models.error_message import describe
from tinyagent.models.overflow_words import (
    OVERFLOW_CODES,
    blames_output_alone,
    is_about_other_things,
    says_output_limit,
    says_overflow,
)
from tinyagent.models.retry_hints import retry_after_s

SUSPICIOUS_SHARE = 0.85  # of the window: from here on an unexplained refusal is taken for an overflow, once
CALM_SHARE = 0.5  # of a window: below it an overflow that says nothing of the prompt may be the fault of others

_OVERFLOW_KINDS: frozenset[ErrorKind] = frozenset({"overflow", "overflow_total"})
_CLIP_CHARS = 2_500
_SAID_OF_THE_PROMPT = (
    r"(?i)prompt|input|message|request|conversation|token|length|too (?:long|large|big)|reduce|shorten"
)
_LONG_FIELDS = frozenset({"content", "text", "output", "arguments", "input", "instructions", "prompt", "body"})


def classify(
    status: int | None,
    text: str,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    in_stream: bool = False,
    now: datetime | None = None,
) -> ModelError:
    """The error behind an answer: HTTP `status` (None: no answer came), raw body or stream event, response headers.

    `in_stream`: the error came after a stream had begun with status 200. `now` (aware) lets headers with dates count.
    Sets `window` only from a recognised overflow, `max_output_tokens` only from a stated output limit.
    """
    body = read_error_body(text)
    texts = [plain(_clip(part)) for text in body.texts for part in sentences(_clip(text))]
    parts = texts + [plain(code) for code in body.telling_codes]
    effective = _effective_status(status, body)
    said = " ".join(texts)
    figures = read_figures(said, body.figures)
    kind = _with_retry_header(_kind(body, parts, effective, figures, in_stream), headers)
    is_overflow = kind in _OVERFLOW_KINDS
    return ModelError(
        describe(kind, body, effective),
        kind=kind,
        status=effective,
        window=figures.window if is_overflow else None,
        prompt_tokens=figures.prompt if is_overflow else None,
        max_output_tokens=read_output_limit(said) if kind == "output_cap" else None,
        parameter=(demanded_field(said) or rejected_parameter(body)) if kind == "parameter" else "",
        retry_after_s=_wait_s(kind, headers, body, now),
    )


def is_suspicious_400(error: ModelError, estimate_tokens: int, window: int | None) -> bool:
    """Whether an unexplained refusal of a nearly full request should count as an overflow, once.

    Only answers that explain nothing: an unknown 400, 413, 422, 500 or 502, or an empty one. A declared overload, a bad
    key and the like never count.
    """
    if window is None or estimate_tokens < SUSPICIOUS_SHARE * window:
        return False
    match error.kind:
        case "bad_request" | "malformed":
            return error.status is None or error.status < 300 or error.status in (400, 413, 422) or error.status >= 500
        case "overloaded":
            return error.status in (500, 502) and "overloaded" not in str(error).partition(": ")[2].lower()
        case "body_too_large":
            return True
        case _:
            return False


def is_full_of_others(error: ModelError, estimate_tokens: int, window: Window) -> bool:
    """Whether an overflow may pass by waiting: the server failed in words that say nothing of this small prompt.

    Slots of llama.cpp may share one pool. Where others fill it, each gets "Context size has been exceeded.", also in
    the middle of a reply (measured, b11549: at 838 of 2,048 tokens). What a catalogue says or a user assumes of a
    window does not count: this server may serve less.
    """
    if error.kind != "overflow" or window.tokens is None or window.source in ("catalogue", "assumed"):
        return False
    is_theirs = error.status is None or error.status < 400 or error.status >= 500
    if not is_theirs or error.window is not None or error.prompt_tokens is not None:
        return False
    said = str(error).partition(": ")[2]
    is_vague = said != "" and not re.search(_SAID_OF_THE_PROMPT, said)
    return is_vague and estimate_tokens < CALM_SHARE * window.tokens


def _clip(text: str) -> str:
    """What an error has to say stands at its beginning or its end; between them may be the whole request."""
    return text if len(text) <= _CLIP_CHARS else f"{text[: _CLIP_CHARS - 500]}\n{text[-500:]}"


def _kind(body: ErrorBody, parts: list[str], status: int | None, figures: Figures, in_stream: bool) -> ErrorKind:
    words = " ".join(parts)
    if body.is_html:
        return _kind_by_status(status, body, in_stream)
    if says_field_length(words):
        return _field_kind(body, words)
    if body.codes & OVERFLOW_CODES:
        return _overflow_kind(words, figures)
    if early := _early_kind(body, words, status):
        return early
    if says_output_limit(words):
        return "output_cap"
    if says_overflow(parts):
        return _overflow_kind(words, figures)
    if status == 413 and not words:
        return "overflow"  # Cerebras and Mistral answer 413 with nothing (pi-ai's list)
    if says_body_too_large(words) and not is_about_other_things(words):
        return "body_too_large"
    return kind_by_code(body.codes) or kind_after_overflow(words) or _kind_by_status(status, body, in_stream)


def _early_kind(body: ErrorBody, words: str, status: int | None) -> ErrorKind | None:
    """Money, rates, keys and refused histories: told from an overflow before the words are asked about one."""
    if status == 402:
        # OpenRouter's budget for requests under way frees itself as they end.
        return "rate" if "in flight budget" in words else "quota"
    by_code = kind_by_code(body.codes)
    by_text = kind_before_overflow(words)
    if by_code == "quota" or by_text == "quota":
        return "quota"
    if by_code == "rate" or by_text in ("rate", "rate_tier"):
        return _rate_kind(words, by_text)
    if status == 401 or by_code == "auth":
        return "auth"
    return by_text


def _rate_kind(words: str, by_text: ErrorKind | None) -> ErrorKind:
    if by_text == "rate_tier":
        return "rate_tier"
    # "Limit 6000, Used 5034, Requested 1443": waiting helps only if the request alone is under the limit.
    stated = re.search(r"limit:? (\d+)(?:,? used:? \d+)?,? requested:? (\d+)", words)
    if stated and int(stated[2]) > int(stated[1]):
        return "rate_tier"
    # Gemini says "exceeded your current quota" for a minute's allowance too, then with a time to come back.
    comes_back = re.search(r"(?:retry|try again) in \d", words)
    if re.search(r"limit: 0\b|tomorrow", words) or (says_used_up(words) and not comes_back):
        return "quota"
    return "rate"


def _field_kind(body: ErrorBody, words: str) -> ErrorKind:
    """One field is too long: a message's text is the history's size, an id is its form, others are plain errors."""
    named = re.search(r"value at (\w+) failed", words)
    last = re.split(r"[.\[\]/ ]+", (body.parameter or (named[1] if named else "")).strip("]"))[-1].lower()
    if last in _LONG_FIELDS:
        return "body_too_large"
    return "history" if "call_id" in body.parameter or last == "id" else "bad_request"


def _overflow_kind(words: str, figures: Figures) -> ErrorKind:
    """Whether less output would do: the answer's own figures decide; without figures the prompt is to blame."""
    if figures.prompt_fits:
        return "overflow_total"
    has_figures = figures.prompt is not None or figures.total is not None
    return "overflow_total" if blames_output_alone(words) and not has_figures else "overflow"


def _kind_by_status(status: int | None, body: ErrorBody, in_stream: bool) -> ErrorKind:
    match status:
        case None:
            return "overloaded" if in_stream else "network"
        case 401 | 403:
            return "auth"
        case 402:
            return "quota"
        case 404 | 405 | 410:
            return "not_found"
        case 408 | 499:
            return "network"
        case 409 | 425:
            return "overloaded"
        case 413:
            return "body_too_large"
        case 429:
            return "rate"
        case _ if status >= 500:
            return "bad_request" if "invalid_request_error" in body.codes else "overloaded"
        case _ if status >= 400:
            return "bad_request"
        case _:
            return "overloaded" if in_stream else "malformed"


def _effective_status(status: int | None, body: ErrorBody) -> int | None:
    """The status of the answer, or the one inside it where the answer itself claims success or none came."""
    is_error = status is not None and status >= 400
    return status if is_error or body.status is None else body.status


def _with_retry_header(kind: ErrorKind, headers: Mapping[str, str]) -> ErrorKind:
    """`x-should-retry` is the provider's own word on whether the same request may succeed (official SDKs obey it)."""
    value = next((value for name, value in headers.items() if name.lower() == "x-should-retry"), "")
    if value == "false" and RECOVERY[kind] == "retry":
        return "quota" if kind == "rate" else "bad_request"
    return "overloaded" if value == "true" and kind == "bad_request" else kind


def _wait_s(kind: ErrorKind, headers: Mapping[str, str], body: ErrorBody, now: datetime | None) -> float | None:
    if RECOVERY[kind] != "retry" and kind not in ("quota", "rate_tier", "overflow"):
        return None
    return retry_after_s(headers, body.texts, now=now)
