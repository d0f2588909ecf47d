"""What a run learns about sizes from the provider's reports: the calibration of the estimator.

Raw tokens (core/tokens.py) become tokens of the model at hand, anchored on what was last reported.
"""

from dataclasses import dataclass, replace

from tinyagent.core.types import Usage

SEED_FACTOR = 1.15
_SEED_TOKENS = 500  # how much observed text the seed weighs as much as
_MEMORY = 0.85  # weight of earlier observations at each new one
_MARGIN = 1.04  # calibrated estimates stay this much above the truth
# Texts that cost much less than their raw figure (hex dumps, digits) must not make the next text look small.
FACTOR_RANGE = (0.7, 3.0)
# A gateway may put a long prompt of its own before ours: the whole may be far more than our text.
_WHOLE_RANGE = (0.85, 1000.0)
_DEAREST = 3.0  # tokens per raw token: no text costs more
_CAUTION = 1.25  # for text that was added since the last report; without a report, a smaller one for the whole
_CAUTION_WHOLE = 1.1
_GROWTH_MEMORY = 0.7

_LARGEST_WINDOW = 2_000_000  # tokens, of any model in November 2026
_CHEAPEST = 0.45  # tokens per raw token: no text costs less
_GROWTH_SLACK = 200  # what may leave a prompt when a reply turns into history
_SMALLEST_CUT = 2_000  # tokens: below it the estimate is too coarse to accuse a server
_CUT_SHARE = 0.75  # of the estimate


@dataclass(frozen=True, slots=True)
class Meter:
    """What this run has learned about sizes; starts fresh with each run.

    `anchor` is the reported size of the view up to and including the last reply, `since` the raw tokens added after it;
    None: no figure that is still valid. `awaits_reply`: the next reply is in the anchor already. `reported` is the
    prompt that was last reported since the last pass, and `reported_raw` what it was in raw tokens. `factor` scales
    added text, `whole` a view without anchor. `growth` is the moving average of how many tokens a step adds.
    """

    anchor: int | None = None
    since: int = 0
    awaits_reply: bool = False
    reported: int | None = None
    reported_raw: int = 0
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

    def cautious(self, raw_total: int) -> int:
        """Tokens that the request hardly ever exceeds: what is left of the window after it is the answer's."""
        if self.anchor is None:
            return round(max(_CAUTION_WHOLE * self.whole, SEED_FACTOR) * raw_total)
        return self.anchor + round(max(_CAUTION * self.factor, SEED_FACTOR) * self.since)

    def upper_bound(self, raw_total: int) -> int:
        """Tokens that the request will not exceed, for money: texts of all kinds stay under twice their raw figure."""
        if self.anchor is not None:
            return self.anchor + 2 * self.since
        return round((1.4 * self.whole if self.observations else 2.0) * raw_total)

    def added(self, raw: int) -> "Meter":
        return replace(self, since=self.since + raw, awaits_reply=False)

    def observed(self, *, reported_input: int, context_tokens: int, raw_total: int) -> "Meter":
        """After a believed usage figure: calibrate by what the prompt grew, and anchor on it."""
        grown, raw = reported_input - (self.reported or 0), raw_total - (self.reported_raw if self.reported else 0)
        sums = (self._actual * _MEMORY + grown, self._raw * _MEMORY + raw)
        # Reasoning that does not go back can shrink a prompt; that says nothing about texts.
        actual, weight = sums if grown > 0 and raw > 0 else (self._actual, self._raw)
        return replace(
            self,
            anchor=context_tokens,
            since=0,
            awaits_reply=True,
            reported=reported_input,
            reported_raw=raw_total,
            factor=_bounded(_MARGIN * actual / weight, FACTOR_RANGE),
            whole=_bounded(_MARGIN * reported_input / max(1, raw_total), _WHOLE_RANGE),
            growth=self._next_growth(reported_input),
            observations=self.observations + 1,
            _actual=actual,
            _raw=weight,
            _last_size=reported_input,
        )

    def counted(self, prompt_tokens: int, *, raw_total: int) -> "Meter":
        """After a provider refused a prompt and said how large it is: that replaces the estimate."""
        whole = _bounded(prompt_tokens / max(1, raw_total), _WHOLE_RANGE)
        return replace(self, anchor=prompt_tokens, since=0, awaits_reply=False, reported=None, whole=whole)

    def sent(self, size: int) -> "Meter":
        """After a request whose usage was not reported or not believed: the estimate stands."""
        return replace(self, awaits_reply=False, growth=self._next_growth(size), _last_size=size)

    def voided(self, raw_total: int) -> "Meter":
        """After a pass over a view of `raw_total`: no figure from before counts, but their ratio to the text stays."""
        whole = _bounded(self.estimate(raw_total) / max(1, raw_total), _WHOLE_RANGE)
        return replace(self, anchor=None, since=0, awaits_reply=False, reported=None, whole=whole, _last_size=0)

    def certain(self, raw_total: int) -> int:
        """The estimate as far as the text bears it out: a figure that only the server vouches for ends no run."""
        return min(self.estimate(raw_total), round(_DEAREST * raw_total))

    def believes(self, reported_input: int, *, raw_total: int, window: int | None = None) -> bool:
        """Whether a reported prompt size may be used: possible, and not shrunken.

        A figure far below is a server that cut the prompt or counts only a part; it never lowers the estimate.
        """
        return self.is_possible(reported_input, raw_total=raw_total, window=window) and reported_input >= self.least(
            raw_total
        )

    def is_possible(self, reported_input: int, *, raw_total: int, window: int | None) -> bool:
        """Whether a server can have been sent and have billed so much: within its window, or near the estimate.

        Far above the estimate it may still be true, as of a gateway that adds a prompt of its own.
        """
        return 0 < reported_input <= max(window or _LARGEST_WINDOW, 4 * self.estimate(raw_total) + 1000)

    def least(self, raw_total: int) -> int:
        """Tokens that the request has at least, if the figures that are still valid are true."""
        if self.reported is None:
            return int(_CHEAPEST * raw_total)
        grown = int(_CHEAPEST * (raw_total - self.reported_raw)) - _GROWTH_SLACK
        return self.reported + max(0, grown)

    def _next_growth(self, size: int) -> float:
        if not self._last_size or size <= self._last_size:
            return self.growth
        added = size - self._last_size
        return added if not self.growth else _GROWTH_MEMORY * self.growth + (1 - _GROWTH_MEMORY) * added


@dataclass(frozen=True, slots=True)
class Cut:
    """A prompt that the server seems to have cut in silence. `window` is what it then serves; None: not to be told."""

    window: int | None


def silent_cut(meter: Meter, usage: Usage, *, raw_total: int, window: int | None) -> Cut | None:
    """Whether reported figures show that the server dropped a part of the prompt; None: no sign of it.

    Ollama keeps half its window and two tokens more (ollama#3839, #17427), others fill it or drop old messages. A view
    only grows between passes, so the report before bounds what can be true; without one only Ollama's form is telling.
    """
    reported, previous, estimate = usage.input_tokens, meter.reported, meter.estimate(raw_total)
    if reported <= 0 or estimate <= _SMALLEST_CUT or reported >= estimate:
        return None
    if window is not None:
        is_half = window // 2 <= reported <= window // 2 + 8 and estimate > 0.75 * window
        if is_half or (reported + usage.output_tokens == window and estimate > window):
            return Cut(window)
    if reported >= meter.least(raw_total) or reported >= _CUT_SHARE * estimate:
        return None
    doubled = 2 * (reported - 2)
    if previous is None:
        return Cut(doubled) if doubled % 256 == 0 and doubled <= 1.15 * estimate else None
    if reported >= 0.98 * previous:
        return Cut(reported)
    if 0.98 * previous <= doubled <= 1.15 * estimate:
        return Cut(doubled)
    return Cut(None) if reported >= 0.25 * estimate else None


def _bounded(factor: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return min(high, max(low, factor))
