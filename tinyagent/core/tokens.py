"""The one estimator of sizes in tokens, and how a run calibrates it.

Trigger, planning, acceptance and records all use it. A raw estimate comes from the text alone; the `Meter` turns raw
figures into tokens of the model at hand, anchored on what the provider last reported.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyagent.core.types import AssistantMessage, Json, Message, ToolMessage, ToolSpec, UserMessage

MESSAGE_OVERHEAD = 5
CALL_OVERHEAD = 10

# Weights fitted on 2,500 texts of real agent runs against six tokenizers (o200k, cl100k, Llama 3, Qwen 2, DeepSeek V3,
# Mistral): median error 6 %, 5 % of texts low by over 12 to 19 %, which the factor below absorbs. A figure of
# characters / 4 is low by 2 to 3.6 times on JSON, logs and listings.
_LETTERS = re.compile(r"[A-Za-z]{1,7}")
_DIGIT = re.compile(r"[0-9]")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]{1,2}")
_WHITESPACE = re.compile(r"\n\s*|[ \t]{2,}")
_OTHER = re.compile(r"[^\x00-\x7f]")
_ASTRAL = re.compile(r"[\U00010000-\U0010ffff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_-]{40,}")
_PUNCTUATION_WEIGHT = 0.7
_ASTRAL_EXTRA = 1.5  # emoji: 1.2 to 2.1 tokens each (o200k, Claude)

SEED_FACTOR = 1.15
_SEED_TOKENS = 500  # how much observed text the seed weighs as much as
_MEMORY = 0.85  # weight of earlier observations at each new one
_MARGIN = 1.04  # calibrated estimates stay this much above the truth
_FACTOR_RANGE = (0.5, 3.0)
_GROWTH_MEMORY = 0.7


def estimate_text(text: str) -> int:
    """Raw tokens of a text, erring high: words by seven letters, each digit, punctuation in pairs, white space in runs,
    a token for each non-Latin character and for each character of a long base64 or hex run."""
    if not text:
        return 0
    encoded, text = _take_encoded_runs(text)
    count = (
        _count(_LETTERS, text)
        + _count(_DIGIT, text)
        + _PUNCTUATION_WEIGHT * _count(_PUNCTUATION, text)
        + _count(_WHITESPACE, text)
    )
    if not text.isascii():
        count += _count(_OTHER, text) + _ASTRAL_EXTRA * _count(_ASTRAL, text)
    if not text.isprintable():
        count += _count(_CONTROL, text)
    return int(count) + encoded + 1


def message_tokens(message: Message) -> int:
    """Raw tokens of one message with its overhead."""
    match message:
        case UserMessage():
            return MESSAGE_OVERHEAD + estimate_text(message.text)
        case ToolMessage():
            return MESSAGE_OVERHEAD + CALL_OVERHEAD + estimate_text(message.text)
        case AssistantMessage():
            kept_reasoning = estimate_text(message.reasoning) if message.wire is not None else 0
            calls = sum(
                CALL_OVERHEAD + estimate_text(c.name) + estimate_text(_arguments(c.arguments, c.raw))
                for c in message.tool_calls
            )
            return MESSAGE_OVERHEAD + estimate_text(message.text) + kept_reasoning + calls


def fixed_tokens(system: str, tools: Sequence[ToolSpec]) -> int:
    """Raw tokens of what every request carries once: system prompt and tool schemas."""
    schemas = sum(CALL_OVERHEAD + estimate_text(t.description) + estimate_text(json.dumps(t.parameters)) for t in tools)
    return MESSAGE_OVERHEAD + estimate_text(system) + schemas


@dataclass(frozen=True, slots=True)
class Meter:
    """What this run has learned about sizes; starts fresh with each run.

    `anchor` is the reported size of the view up to and including the last reply, `since` the raw tokens added after it;
    None: no figure that is still valid. `factor` scales added text, `whole` a view without anchor. `growth` is the
    moving average of how many tokens a step adds.
    """

    anchor: int | None = None
    since: int = 0
    factor: float = SEED_FACTOR
    whole: float = SEED_FACTOR
    growth: float = 0.0
    observations: int = 0
    _actual: float = SEED_FACTOR * _SEED_TOKENS
    _raw: float = _SEED_TOKENS
    _last_size: int = 0

    def estimate(self, raw_total: int) -> int:
        """Tokens of a request whose system, tools and view are `raw_total` raw tokens."""
        if self.anchor is None:
            return round(self.whole * raw_total)
        return self.anchor + round(self.factor * self.since)

    def upper_bound(self, raw_total: int) -> int:
        """Tokens that the request will not exceed, for money: texts of all kinds stay under twice their raw figure."""
        if self.anchor is not None:
            return self.anchor + 2 * self.since
        return round((1.4 * self.whole if self.observations else 2.0) * raw_total)

    def added(self, raw: int) -> "Meter":
        return replace(self, since=self.since + raw)

    def observed(self, *, reported_input: int, context_tokens: int, raw_total: int) -> "Meter":
        """After a believed usage figure: calibrate, and anchor on it."""
        base = 0 if self.anchor is None else self.anchor
        raw = raw_total if self.anchor is None else self.since
        actual = max(0, reported_input - base)
        sum_actual, sum_raw = self._actual * _MEMORY + actual, self._raw * _MEMORY + raw
        size = reported_input
        return replace(
            self,
            anchor=context_tokens,
            since=0,
            factor=_bounded(_MARGIN * sum_actual / max(1.0, sum_raw)),
            whole=_bounded(_MARGIN * reported_input / max(1, raw_total)),
            growth=self._next_growth(size),
            observations=self.observations + 1,
            _actual=sum_actual,
            _raw=sum_raw,
            _last_size=size,
        )

    def sent(self, size: int) -> "Meter":
        """After a request whose usage was not reported or not believed: the estimate stands."""
        return replace(self, growth=self._next_growth(size), _last_size=size)

    def voided(self, raw_total: int) -> "Meter":
        """After a pass over a view of `raw_total`: no figure from before counts, but their ratio to the text stays."""
        whole = _bounded(self.estimate(raw_total) / max(1, raw_total))
        return replace(self, anchor=None, since=0, whole=whole, _last_size=0)

    def _next_growth(self, size: int) -> float:
        if not self._last_size or size <= self._last_size:
            return self.growth
        added = size - self._last_size
        return added if not self.growth else _GROWTH_MEMORY * self.growth + (1 - _GROWTH_MEMORY) * added


def believable(reported_input: int, *, estimate: int, previous: int | None) -> bool:
    """Whether a reported prompt size may be used: not zero, not shrunken since `previous`, not far from the estimate.

    A figure far below is a server that cut the prompt or counts only a part; it never lowers the estimate.
    """
    if reported_input <= 0 or (previous is not None and reported_input < 0.9 * previous):
        return False
    return 0.5 * estimate <= reported_input <= 4 * estimate + 1000


def raw_of_json(value: Json) -> int:
    """Raw tokens of a JSON value as it would stand in a request."""
    return estimate_text(json.dumps(value, ensure_ascii=False))


def _take_encoded_runs(text: str) -> tuple[int, str]:
    """Tokens of long base64 and hex runs, and the text without them."""
    tokens = 0

    def weigh(match: re.Match[str]) -> str:
        nonlocal tokens
        run = match.group()
        if not _looks_encoded(run):
            return run
        tokens += len(run)
        return " "

    rest = _LONG_RUN.sub(weigh, text)  # before `tokens` is read: it counts as it goes
    return tokens, rest


def _looks_encoded(run: str) -> bool:
    digits = _count(_DIGIT, run)
    mixed = run.lower() != run and run.upper() != run
    return digits >= len(run) // 25 and (mixed or digits >= len(run) // 4) and run.count("_") + run.count("-") < 4


def _count(pattern: re.Pattern[str], text: str) -> int:
    return len(pattern.findall(text))


def _arguments(arguments: Json | None, raw: str) -> str:
    return raw if arguments is None else json.dumps(arguments, ensure_ascii=False)


def _bounded(factor: float) -> float:
    low, high = _FACTOR_RANGE
    return min(high, max(low, factor))
