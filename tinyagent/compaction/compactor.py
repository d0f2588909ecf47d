"""The ladder: runs the rungs in order, measures what they did, and puts the outcome on record."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tinyagent.compaction.digest import compose
from tinyagent.compaction.elide import elide, stubs
from tinyagent.compaction.plan import ContextPolicy, Draft, Figures, Zones, figures, is_due, safety, zones
from tinyagent.compaction.prune import clip_recent, prune
from tinyagent.compaction.summarize import SummaryTask, prefix_request, reason_to_reject, transcript_request
from tinyagent.core.errors import EndRun
from tinyagent.core.events import (
    SUMMARY_ID,
    Attempt,
    Compacted,
    CompactionFailed,
    CompactionStarted,
    Notice,
    Stage,
    Trigger,
)
from tinyagent.core.state import Run, RunState
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import AssistantMessage, Request, ToolMessage, UserMessage
from tinyagent.core.view import Entry

MIN_OUTPUT_TOKENS = 64  # a request that leaves less for the answer does not fit
_TRANSCRIPT_SHARE = 0.9  # of the summariser's window, with the answer: another text than the one that was measured
_EFFECTIVE_PASSES, _WITHIN_STEPS = 3, 9  # so many in so few steps: the window is small for this work
_DIGEST_SHARES, _LEAST_DIGEST = (0.12, 0.03), 200  # of the window, the second if the first is too much; raw tokens
_PATIENCE = 2  # passes in a row that did not help


@dataclass(frozen=True, slots=True)
class NoReply:
    """Why a summary request has no answer, and whether a smaller one may have."""

    why: str
    try_smaller: bool = False


@dataclass(frozen=True, slots=True)
class Summarizer:
    """How summaries are asked for.

    `ask` sends one request within a number of seconds, books it, and returns the reply if there is one; it raises
    EndRun at a limit. `window` is that model's own, None if unknown.
    """

    ask: Callable[[Request, float], AssistantMessage | NoReply]
    window: Callable[[], int | None]
    prompt: str


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
        self._summarizer = summarizer
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
            f"which leaves too little to work in ({_contributors(state)}); "
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
        if not is_due(self._policy, sizes, estimate=state.estimate, growth=state.meter.growth):
            return
        if self._is_stuck(state, sizes):
            return
        if deep and "small_window" not in state.notices:
            text = f"the window of {window:,} tokens is small for this work: compacting deeper from now on"
            self._run.emit(Notice(text, code="small_window"))
        self._pass("budget", sizes)
        self._end_if_too_large(sizes)

    def after_overflow(self) -> bool:
        """A pass because the provider refused the prompt as too long; False if the view could not be made smaller.

        The provider is right and the estimate wrong, or no window is known: that of the estimate is the most it can be.
        """
        state = self._run.state
        believed = min(state.window.tokens or state.estimate, state.estimate)
        return self._pass("overflow", figures(self._policy, believed, reserved_output=None))

    def _is_stuck(self, state: RunState, sizes: Figures) -> bool:
        """Whether passes did not help, the request still fits, and too little was added since to try again."""
        if state.passes.ineffective < _PATIENCE or not _fits(self._policy, state.estimate, sizes.window):
            return False
        return state.estimate < state.passes.stuck_at + sizes.gain_needed(self._policy)

    def _pass(self, trigger: Trigger, sizes: Figures) -> bool:
        state = self._run.state
        before = state.estimate
        self._run.emit(CompactionStarted(trigger, before))
        draft, attempts = self._climb(state, sizes)
        after = draft.tokens
        effective = after <= sizes.trigger and before - after >= sizes.gain_needed(self._policy)
        needed = trigger == "overflow" or not _fits(self._policy, before, sizes.window)
        if not effective and not (needed and _fits(self._policy, after, sizes.window) and after < before):
            why = f"~{after:,} tokens would remain of ~{before:,}"
            self._run.emit(CompactionFailed(trigger, why, tuple(attempts)))
            return False
        self._run.emit(self._record(state, draft, attempts, trigger, effective=effective))
        return True

    def _climb(self, state: RunState, sizes: Figures) -> tuple[Draft, list[Attempt]]:
        """Rung after rung until the request is small enough."""
        draft = Draft(state.view.entries, _sizer(state))
        ratio = draft.tokens / max(1, state.raw_total)
        draft = self._clip_oversized(draft, sizes, ratio)
        attempts: list[Attempt] = []
        enough = sizes.target if draft.clipped or self._policy.stages[0] == "elide" else 0
        for name in self._policy.stages:
            if draft.tokens <= enough:
                break
            if name == "elide":
                draft, attempt = self._elide(draft, sizes, ratio)
            elif name == "summarize":
                draft, attempt = self._summarize(state, draft, sizes, ratio)
            else:
                draft, attempt = self._prune(state, draft, sizes, ratio)
            attempts.append(attempt)
            enough = sizes.target if name == "elide" else sizes.trigger
        if draft.tokens > sizes.trigger:
            split = zones(draft.entries, self._policy, sizes, ratio=ratio)
            draft = clip_recent(draft, split.protected, goal=sizes.trigger, ratio=ratio)
        return draft, attempts

    def _clip_oversized(self, draft: Draft, sizes: Figures, ratio: float) -> Draft:
        """Recent turns that alone fill over half the window are shortened, the newest last.

        Where the window is small for the work, over the deeper target: else each step would need a pass.
        """
        split = zones(draft.entries, self._policy, sizes, ratio=ratio)
        recent = sum(block.tokens for block in split.protected) * ratio
        excess = recent - max(sizes.target, self._policy.protect_ratio * sizes.window)
        if excess <= 0:
            return draft
        return clip_recent(draft, split.protected, goal=int(draft.tokens - excess), ratio=ratio)

    def _elide(self, draft: Draft, sizes: Figures, ratio: float) -> tuple[Draft, Attempt]:
        older = zones(draft.entries, self._policy, sizes, ratio=ratio).older
        found = stubs(draft, older, preview_lines=self._policy.preview_lines)
        freed = draft.tokens - draft.size(draft.view.tokens - sum(stub.saves for stub in found))
        if freed < sizes.gain_needed(self._policy):
            return draft, Attempt("elide", f"would free only ~{freed:,} tokens", draft.tokens)
        result = elide(draft, found, target=sizes.target)
        return result, Attempt("elide", tokens_after=result.tokens)

    def _summarize(self, state: RunState, draft: Draft, sizes: Figures, ratio: float) -> tuple[Draft, Attempt]:
        split = zones(draft.entries, self._policy, sizes, ratio=ratio)
        gone = [e for block in split.older for e in block.entries if e.id != SUMMARY_ID]
        source = sum(entry.tokens for entry in gone)
        if source * ratio < sizes.gain_needed(self._policy):
            return draft, Attempt("summarize", f"would free less than {round(source * ratio):,} tokens", draft.tokens)
        if state.passes.ineffective:
            return draft, Attempt("summarize", "left out: the last pass did not help", draft.tokens)
        most = min(self._policy.summary_max_tokens, int(0.15 * sizes.window))
        narrative, why = self._ask(state, split, gone, most, ratio)
        if why:
            return draft, Attempt("summarize", why, draft.tokens)
        text = compose(state.messages, state.plan, narrative, most=int((most + 0.1 * sizes.window) / ratio))
        result = replace(draft, summarized=tuple(e.id for e in gone), narrative=narrative).with_summary(gone, text)
        if result.tokens >= draft.tokens:
            return draft, Attempt("summarize", "not smaller than what it summarizes", draft.tokens)
        return result, Attempt("summarize", tokens_after=result.tokens)

    def _ask(self, state: RunState, split: Zones, gone: list[Entry], most: int, ratio: float) -> tuple[str, str]:
        """A narrative of at most `most` tokens, or why there is none. The second try is smaller than the first."""
        source = sum(entry.tokens for entry in gone)
        why = "the request for it does not fit"
        for smaller in (False, True):
            request = self._summary_request(state, split, gone, most, ratio, smaller=smaller)
            if request is None:
                break
            reply = self._summarizer.ask(request, self._policy.summary_time_limit)
            if isinstance(reply, NoReply):
                why = reply.why
                if reply.try_smaller:
                    continue
                break
            why = reason_to_reject(reply, max_tokens=int(most / ratio), source_tokens=source)
            if not why:
                return reply.text.strip(), ""
        return "", why

    def _summary_request(
        self, state: RunState, split: Zones, gone: list[Entry], most: int, ratio: float, *, smaller: bool
    ) -> Request | None:
        prompt, output = self._summarizer.prompt, 2 * most  # reasoning counts as output too
        window = self._summarizer.window() or state.window.tokens or state.estimate
        if self._policy.summary_form == "prefix" and not smaller:
            asked = round(estimate_text(prompt) * ratio)
            if state.estimate + asked + output + safety(self._policy, window) <= window:
                return prefix_request(
                    state.system, state.view.messages, state.tools, prompt=prompt, output_tokens=output
                )
        work = SummaryTask(
            task="\n\n".join(e.message.text for e in split.head if isinstance(e.message, UserMessage)),
            earlier=state.narrative,
            older=tuple(state.messages[e.id - 1] for e in gone),
            recent=tuple(e.message for block in split.protected for e in block.entries),
        )
        return transcript_request(
            work,
            prompt=prompt,
            input_tokens=int(_TRANSCRIPT_SHARE * window) - output,
            output_tokens=output,
            ratio=max(1.0, ratio),  # a view of cheap text says nothing of a transcript without it
            smaller=smaller,
        )

    def _prune(self, state: RunState, draft: Draft, sizes: Figures, ratio: float) -> tuple[Draft, Attempt]:
        split = zones(draft.entries, self._policy, sizes, ratio=ratio)
        narrative = draft.narrative or state.narrative
        result = draft
        for share in _DIGEST_SHARES:
            most = max(_LEAST_DIGEST, int(share * sizes.window / ratio))
            result = prune(draft, split, sizes, text=compose(state.messages, state.plan, narrative, most=most))
            if result.tokens <= sizes.trigger:
                break
        if result is draft:
            return draft, Attempt("prune", "nothing can be dropped", draft.tokens)
        return result, Attempt("prune", tokens_after=result.tokens)

    def _record(
        self, state: RunState, draft: Draft, attempts: list[Attempt], trigger: Trigger, *, effective: bool
    ) -> Compacted:
        taken: list[Stage] = [attempt.stage for attempt in attempts if not attempt.rejected]
        if draft.clipped:
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

    def _end_if_too_large(self, sizes: Figures) -> None:
        state = self._run.state
        if not _fits(self._policy, state.estimate, sizes.window):
            raise EndRun("context_truncated", still_exceeds(state, sizes.window))


def still_exceeds(state: RunState, window: int | None) -> str:
    """The sentence of the named end, with the biggest contributors."""
    of = f"{window:,}" if window else "an unknown number of"
    return (
        f"context still exceeds the window after compaction: ~{state.estimate:,} of {of} tokens "
        f"({_contributors(state)})"
    )


def _sizer(state: RunState) -> Callable[[int], int]:
    """Raw view tokens to tokens of the whole request, by the ratio that the present request has."""
    ratio = state.estimate / max(1, state.raw_total)
    return lambda raw_view: round((state.fixed + raw_view) * ratio)


def _fits(policy: ContextPolicy, tokens: int, window: int) -> bool:
    return tokens + MIN_OUTPUT_TOKENS + safety(policy, window) <= window


def _is_small_for_this_work(state: RunState) -> bool:
    passes = state.passes.effective_at
    return len(passes) == _EFFECTIVE_PASSES and state.spend.steps - passes[0] <= _WITHIN_STEPS


def _contributors(state: RunState) -> str:
    ratio = state.estimate / max(1, state.raw_total)
    system = estimate_text(state.system)
    sizes = [(system, "system prompt"), (max(0, state.fixed - system), "tool schemas")]
    sizes += [(entry.tokens, _label(entry)) for entry in state.view.entries]
    biggest = sorted(sizes, key=lambda item: -item[0])[:3]
    return ", ".join(f"{label} ~{round(tokens * ratio):,}" for tokens, label in biggest)


def _label(entry: Entry) -> str:
    match entry.message:
        case UserMessage():
            return {"task": "task", "summary": "summary"}.get(entry.message.kind, f"user message {entry.id}")
        case AssistantMessage():
            return f"reply {entry.id}"
        case ToolMessage():
            return f"{entry.message.tool} output {entry.id}"
