"""When a pass is due, what it aims for, which messages it must leave alone, and the draft of a new view."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tinyagent.core.errors import ConfigError
from tinyagent.core.events import SUMMARY_ID
from tinyagent.core.limits import USEFUL_OUTPUT_TOKENS
from tinyagent.core.view import Block, Entry, View, blocks, summary_entry, view_of

StageName = Literal["elide", "summarize", "prune"]


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """The settings under `context:`. Ratios are shares of the window.

    Raises ConfigError for values that cannot work together.
    """

    enabled: bool = True
    stages: tuple[StageName, ...] = ("elide", "summarize", "prune")
    trigger_ratio: float = 0.80
    target_ratio: float = 0.50
    deep_target_ratio: float = 0.35
    protect_ratio: float = 0.25
    protect_turns: int = 2
    min_gain_ratio: float = 0.10
    safety_tokens: int = 512
    summary_max_tokens: int = 4000
    summary_time_limit: float = 120.0
    summary_model: str | None = None
    summary_form: Literal["transcript", "prefix"] = "transcript"
    assume_window: int | None = None
    step_output_ratio: float = 0.20
    preview_lines: int = 3

    def __post_init__(self) -> None:
        order = (self.deep_target_ratio, self.target_ratio, self.trigger_ratio)
        if not 0.05 <= order[0] <= order[1] < order[2] <= 0.95:
            raise ConfigError(
                "context: 0.05 <= deep_target_ratio <= target_ratio < trigger_ratio <= 0.95 is needed, not "
                + ", ".join(f"{ratio:g}" for ratio in order)
            )
        if not 0 <= self.protect_ratio <= self.target_ratio:
            raise ConfigError(
                f"context.protect_ratio: {self.protect_ratio:g} is outside 0 to target_ratio ({self.target_ratio:g})"
            )
        if self.protect_turns < 1:
            raise ConfigError("context.protect_turns: at least 1 turn has to stay")
        if not self.stages or len(set(self.stages)) != len(self.stages):
            raise ConfigError("context.stages: name at least one stage, each once; to switch off use context.enabled")


@dataclass(frozen=True, slots=True)
class Figures:
    """The sizes that one pass works with, in tokens. `window` is what is believed of it at this moment.

    `target` is what eliding aims for, `enough` what the rungs after it have to reach.
    """

    window: int
    trigger: int
    target: int
    enough: int

    @property
    def prune_target(self) -> int:
        """Where outputs are elided first: what is left of old turns says more for its size than they did."""
        return (self.target + self.enough) // 2

    def landing_at(self, tokens: int) -> "Figures":
        return replace(self, target=min(self.target, tokens), enough=min(self.enough, tokens))

    def at_most(self, tokens: int) -> "Figures":
        return Figures(self.window, *(min(size, tokens) for size in (self.trigger, self.target, self.enough)))

    def gain_needed(self, policy: ContextPolicy) -> int:
        return round(self.window * policy.min_gain_ratio)


def figures(
    policy: ContextPolicy, window: int, *, reserved_output: int | None, deep: bool = False, hard: bool = False
) -> Figures:
    """Trigger and target for a window. `reserved_output` is the user's own max_output_tokens, None without one.

    `deep` lowers the target; `hard` asks every rung for the target, where nobody knows how much is too much.
    """
    answer = min(USEFUL_OUTPUT_TOKENS, window // 16)
    trigger = min(policy.trigger_ratio * window, window - safety(policy, window) - answer)
    if reserved_output is not None:
        trigger = max(window / 2, min(trigger, window - reserved_output - safety(policy, window)))
    target = (policy.deep_target_ratio if deep else policy.target_ratio) * window
    target = min(target, trigger)
    return Figures(window, int(trigger), int(target), int(target if hard else trigger))


def safety(policy: ContextPolicy, window: int) -> int:
    """Tokens kept free beyond every estimate; less on windows where the setting would be a large share."""
    return min(policy.safety_tokens, window // 16)


def is_due(policy: ContextPolicy, sizes: Figures, *, estimate: int, growth: float) -> bool:
    """Whether a pass starts before the next request."""
    expected = min(growth, 0.25 * sizes.window)
    return estimate > sizes.trigger or estimate + expected > sizes.window - safety(policy, sizes.window)


@dataclass(frozen=True, slots=True)
class Draft:
    """A view in the making. `size` turns raw tokens of the view into tokens of the whole request."""

    entries: tuple[Entry, ...]
    size: Callable[[int], int]
    replaced: dict[int, str] = field(default_factory=dict[int, str])
    elided: tuple[int, ...] = ()
    clipped: tuple[int, ...] = ()
    summarized: tuple[int, ...] = ()
    pruned: tuple[int, ...] = ()
    pruned_turns: int = 0
    summary: str | None = None
    narrative: str = ""

    @property
    def view(self) -> View:
        return view_of(self.entries)

    @property
    def tokens(self) -> int:
        return self.size(self.view.tokens)

    def with_bodies(self, changed: Sequence[Entry], *, elided: bool) -> "Draft":
        """These tool results in place of those with the same ids."""
        by_id = {entry.id: entry for entry in changed}
        return replace(
            self,
            entries=tuple(by_id.get(entry.id, entry) for entry in self.entries),
            replaced=self.replaced | {entry.id: entry.message.text for entry in changed},
            elided=self.elided + tuple(by_id) if elided else self.elided,
            clipped=self.clipped if elided else tuple(dict.fromkeys((*self.clipped, *by_id))),
        )

    def with_summary(self, gone: Sequence[Entry], text: str) -> "Draft":
        """The draft without `gone`, and one summary message after the pinned head."""
        ids = {entry.id for entry in gone} | {SUMMARY_ID}
        kept = [entry for entry in self.entries if entry.id not in ids]
        at = head_length(kept)
        entries = (*kept[:at], summary_entry(SUMMARY_ID, text), *kept[at:])
        still_there = {entry.id for entry in entries}
        return replace(
            self,
            entries=entries,
            replaced={i: t for i, t in self.replaced.items() if i in still_there},
            elided=tuple(i for i in self.elided if i in still_there),
            clipped=tuple(i for i in self.clipped if i in still_there),
            summary=text,
        )


def head_length(entries: Sequence[Entry]) -> int:
    """How many entries at the start are pinned: the task."""
    length = 0
    while length < len(entries) and getattr(entries[length].message, "kind", "") == "task":
        length += 1
    return length


@dataclass(frozen=True, slots=True)
class Zones:
    """A view in three parts. `older` may be compacted; it may hold the summary of an earlier pass."""

    head: tuple[Entry, ...]
    older: tuple[Block, ...]
    protected: tuple[Block, ...]


def zones(entries: Sequence[Entry], policy: ContextPolicy, sizes: Figures, *, ratio: float) -> Zones:
    """Cut a view into head, older blocks and the protected recent turns.

    The protected zone holds the newest turns up to `protect_ratio` of the window, never fewer than `protect_turns`
    with their results, and starts at an assistant message; what came after the newest turn is always in it, even
    where there is no turn. `ratio` is tokens per raw token.
    """
    head = head_length(entries)
    rest = blocks(view_of(entries[head:]))
    start, turns, total = len(rest), 0, 0.0
    if not any(block.is_turn for block in rest):
        start = next((i for i, block in enumerate(rest) if block.entries[0].id != SUMMARY_ID), start)
    for index in range(len(rest) - 1, -1, -1):
        total += rest[index].tokens * ratio
        if turns >= policy.protect_turns and total > policy.protect_ratio * sizes.window:
            break
        if rest[index].is_turn:
            start, turns = index, turns + 1
    return Zones(tuple(entries[:head]), tuple(rest[:start]), tuple(rest[start:]))
