"""When a pass runs, whether its outcome is taken, and how it is put on record."""

import math

from tinyagent.compaction.explain import contributors, still_exceeds
from tinyagent.compaction.ladder import Ladder, Summarizer
from tinyagent.compaction.plan import ContextPolicy, Draft, Figures, figures, head_length, is_due, safety
from tinyagent.core.errors import EndRun
from tinyagent.core.events import Attempt, Compacted, CompactionFailed, CompactionStarted, Notice, Stage, Trigger
from tinyagent.core.limits import USEFUL_OUTPUT_TOKENS
from tinyagent.core.meter import FACTOR_RANGE, SEED_FACTOR
from tinyagent.core.state import Run, RunState

MIN_OUTPUT_TOKENS = 64  # a request that leaves less for the answer does not fit
_BESIDE_A_REPLY = 600  # raw tokens: the smallest digest, and two results that were clipped
_EFFECTIVE_PASSES, _WITHIN_STEPS = 3, 9  # so many in so few steps: the window is small for this work
_SMALL_WINDOW = "small_window"
_PATIENCE = 2  # passes in a row that did not help


def room(policy: ContextPolicy, state: RunState) -> float:
    """Tokens of the window that the next request certainly leaves free; endless if the window is unknown."""
    window = state.window.tokens
    return math.inf if window is None else window - state.meter.certain(state.raw_total) - safety(policy, window)


def output_room(policy: ContextPolicy, state: RunState, window: int) -> int:
    """Tokens that the window has left for the next reply, so that a later pass can keep it with its results."""
    prompt = state.meter.cautious(state.raw_total)
    free = window - prompt - safety(policy, window)
    if not policy.enabled:
        return free
    head = state.view.entries[: head_length(state.view.entries)]
    can_go = state.view.tokens - sum(entry.tokens for entry in head)
    kept = free + round(FACTOR_RANGE[0] * can_go - SEED_FACTOR * _BESIDE_A_REPLY) - MIN_OUTPUT_TOKENS
    return min(free, max(USEFUL_OUTPUT_TOKENS, kept))


class Compactor:
    """Keeps the view of one run inside the window. Changes it only by events."""

    def __init__(
        self,
        run: Run,
        policy: ContextPolicy,
        summarizer: Summarizer,
        *,
        reserved_output: int | None = None,
        strip_reasoning: bool = False,
    ) -> None:
        self._run = run
        self._policy = policy
        self._ladder = Ladder(policy, summarizer)
        self._reserved_output = reserved_output
        self._strip_reasoning = strip_reasoning

    def check_start(self) -> None:
        """Refuse a run whose pinned part leaves less than a quarter of the window. Raises EndRun."""
        state = self._run.state
        window = state.window.tokens
        if not self._policy.enabled or window is None or state.estimate <= 0.75 * window:
            return
        raise EndRun(
            "context_truncated",
            f"system prompt, tools and task need ~{state.estimate:,} of the window's {window:,} tokens, "
            f"which leaves too little to work in ({contributors(state)}); "
            "shorten the task or the AGENTS.md files, or use a model with a larger window",
        )

    def before_request(self) -> None:
        """Run a pass if one is due. Raises EndRun if the request cannot be made to fit."""
        state = self._run.state
        window = state.window.tokens
        if not self._policy.enabled or window is None:
            return
        deep = _is_small_for_this_work(state)
        sizes = figures(self._policy, window, reserved_output=self._reserved_output, deep=deep)
        sizes = sizes.landing_at(_roomy(self._policy, state, window))
        if not is_due(self._policy, sizes, estimate=state.estimate, growth=state.meter.growth):
            return
        if self._is_stuck(state, sizes):
            return
        if deep and _SMALL_WINDOW not in state.notices:
            text = f"the window of {window:,} tokens is small for this work: compacting deeper from now on"
            self._run.emit(Notice(text, code=_SMALL_WINDOW))
        self._pass("budget", sizes)
        self._end_if_too_large()

    def after_overflow(self, *, answered: int = 0) -> bool:
        """A pass because the provider refused the prompt as too long; False if the view could not be made smaller.

        The provider is right and the estimate wrong, or no window is known: that of the estimate is the most it can be.
        There is one try, so it aims for what is known to fit: `answered`, the largest estimate of an answered prompt.
        """
        state = self._run.state
        believed = min(state.window.tokens or state.estimate, state.estimate)
        hard = state.window.tokens is None or state.estimate < state.window.tokens
        sizes = figures(self._policy, believed, reserved_output=None, hard=hard)
        return self._pass("overflow", sizes.at_most(answered) if hard and answered else sizes)

    def _is_stuck(self, state: RunState, sizes: Figures) -> bool:
        """Whether passes did not help, the request still fits, and too little was added since to try again."""
        if state.passes.ineffective < _PATIENCE or room(self._policy, state) < MIN_OUTPUT_TOKENS:
            return False
        return state.estimate < state.passes.stuck_at + sizes.gain_needed(self._policy)

    def _pass(self, trigger: Trigger, sizes: Figures) -> bool:
        state = self._run.state
        before = state.estimate
        self._run.emit(CompactionStarted(trigger, before))
        draft, attempts = self._ladder.climb(state, sizes)
        after = draft.tokens
        effective = after <= sizes.trigger and before - after >= sizes.gain_needed(self._policy)
        needed = trigger == "overflow" or not _fits(self._policy, before, sizes.window)
        if not effective and not (needed and _fits(self._policy, after, sizes.window) and after < before):
            why = f"~{after:,} tokens would remain of ~{before:,}"
            self._run.emit(CompactionFailed(trigger, why, tuple(attempts)))
            return False
        self._run.emit(self._record(state, draft, attempts, trigger, effective=effective))
        return True

    def _record(
        self, state: RunState, draft: Draft, attempts: list[Attempt], trigger: Trigger, *, effective: bool
    ) -> Compacted:
        taken: list[Stage] = [attempt.stage for attempt in attempts if not attempt.rejected]
        if draft.elided and "elide" not in taken:
            taken.insert(0, "elide")  # too little by itself, and worth it beside another rung
        if draft.clipped or not taken:  # without either, the digest of an earlier pass was shortened
            taken.append("clip")
        return Compacted(
            trigger=trigger,
            step=state.step,
            tokens_before=state.estimate,
            tokens_after=draft.tokens,
            view=tuple(entry.id for entry in draft.entries),
            stages=tuple(taken),
            replaced=draft.replaced,
            elided=draft.elided,
            clipped=draft.clipped,
            summarized=draft.summarized,
            pruned=draft.pruned,
            pruned_turns=draft.pruned_turns,
            summary=draft.summary,
            narrative=draft.narrative,
            effective=effective,
            strip_reasoning=self._strip_reasoning,
            attempts=tuple(attempts),
        )

    def _end_if_too_large(self) -> None:
        state = self._run.state
        if room(self._policy, state) < MIN_OUTPUT_TOKENS:
            raise EndRun("context_truncated", still_exceeds(state, state.window.tokens))


def _roomy(policy: ContextPolicy, state: RunState, window: int) -> int:
    """The estimate under which a request has room for a useful answer right after a pass, when no report counts."""
    after = state.meter.voided(state.raw_total)
    share = after.estimate(state.raw_total) / max(1, after.cautious(state.raw_total))
    return int(share * (window - safety(policy, window) - USEFUL_OUTPUT_TOKENS))


def _fits(policy: ContextPolicy, tokens: int, window: int) -> bool:
    return tokens + MIN_OUTPUT_TOKENS + safety(policy, window) <= window


def _is_small_for_this_work(state: RunState) -> bool:
    """Once it was, it stays so: deeper passes come less often, which is the point of them."""
    passes = state.passes.effective_at
    often = len(passes) == _EFFECTIVE_PASSES and passes[-1] - passes[0] <= _WITHIN_STEPS
    return often or _SMALL_WINDOW in state.notices
