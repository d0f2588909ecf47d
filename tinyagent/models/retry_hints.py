"""How long a provider asks us to wait, in seconds: the largest of the hints in headers, body fields and text."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

_UNITS_S = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
}
_DURATION_PART = r"(\d+(?:\.\d+)?) ?(ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])"
_TEXT_HINT = (
    r"(?:try again|retry|retrying|wait|available|reset\w*|retry ?delay|retry.after)[^.\d]{0,40}?"
    r"((?:\d+(?:\.\d+)? ?(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z]) ?(?:and )?)+)"
)


def retry_after_s(
    headers: Mapping[str, str], texts: Iterable[str] = (), *, now: datetime | None = None
) -> float | None:
    """The longest wait asked for; None if none is. Dates need `now` (aware) and are left out without it."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    hints = [*_plain_headers(lower, now), *_bucket_headers(lower, now)]
    for text in texts:
        hints += [
            found for hint in re.findall(_TEXT_HINT, text.lower()) if (found := parse_duration_s(hint)) is not None
        ]
    positive = [hint for hint in hints if hint >= 0]
    return max(positive) if positive else None


def parse_duration_s(text: str) -> float | None:
    """Seconds of "4.77s", "6m0s", "1 minute 5 seconds" or "120ms"; None if it is no duration."""
    parts = re.findall(_DURATION_PART, text.lower())
    if not parts:
        return None
    return sum(float(number) * _UNITS_S[unit if unit in _UNITS_S else unit.rstrip("s")] for number, unit in parts)


def _plain_headers(headers: Mapping[str, str], now: datetime | None) -> list[float]:
    hints: list[float] = []
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        hints.append(milliseconds / 1_000)
    if value := headers.get("retry-after", ""):
        seconds = _number(value)
        hints += [seconds] if seconds is not None else _until(value, now)
    return hints


def _bucket_headers(headers: Mapping[str, str], now: datetime | None) -> list[float]:
    """Resets of used-up allowances. A bucket that says something remains in it is not what we wait for."""
    hints: list[float] = []
    for name, value in headers.items():
        if not re.fullmatch(r"anthropic-ratelimit-[\w-]+-reset|x-ratelimit-reset(?:-[\w-]+)?", name):
            continue
        remaining = (
            name.removesuffix("-reset") + "-remaining" if name.startswith("a") else name.replace("reset", "remaining")
        )
        if _number(headers.get(remaining, "0")) not in (0, None):
            continue
        seconds = _number(value)
        if seconds is not None and seconds > 1e9:  # OpenRouter: a moment in Unix time, in milliseconds
            moment = seconds / 1_000 if seconds > 1e11 else seconds
            hints += [moment - now.timestamp()] if now else []
        elif seconds is not None:
            hints.append(seconds)
        elif (duration := parse_duration_s(value)) is not None and "t" not in value.lower():
            hints.append(duration)
        else:
            hints += _until(value, now)
    return hints


def _until(value: str, now: datetime | None) -> list[float]:
    from email.utils import parsedate_to_datetime

    if now is None:
        return []
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(value)
        except (ValueError, TypeError, IndexError):  # the other of the two forms, or no date at all
            continue
        return [(moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now.timestamp()]
    return []


def _number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"\d+(?:\.\d+)?", value) else None
