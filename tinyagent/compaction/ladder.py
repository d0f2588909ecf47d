"""The rungs of a pass, from the one that loses nothing to the one that always works. Changes nothing by itself."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tinyagent.compaction.digest import compose, plan_within
from tinyagent.compaction.elide import elide
from tinyagent.compaction.plan import ContextPolicy, Draft, Figures, Zones, safety, zones
from tinyagent.compaction.prune import LEAST_CHARS, clip_recent, prune
from tinyagent.compaction.summarize import SummaryTask, prefix_request, reason_to_reject, transcript_request
from tinyagent.core.events import SUMMARY_ID, Attempt
from tinyagent.core.state import RunState
from tinyagent.core.tokens import MESSAGE_OVERHEAD, estimate_text
from tinyagent.core.types import AssistantMessage, Request, UserMessage
from tinyagent.core.view import Entry

_TRANSCRIPT_SHARE = 0.9  # of the summariser's window, with the answer: another text than the one that was measured
_SUMMARY_SHARE = 0.15  # of either window, at most
_DIGEST_SHARES, _LEAST_DIGEST = (0.12, 0.03), 200  # of the window, the second if the first is too much; raw tokens
_PLAN_SHARE = 1 / 3  # of the window, beside the digest: so much of a plan is never shortened where it fits


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


class Ladder:
    """Climbs for one run. Only the summary rung has an effect, that of its requests."""

    def __init__(self, policy: ContextPolicy, summarizer: Summarizer) -> None:
        self._policy = policy
        self._summarizer = summarizer

    def climb(self, state: RunState, sizes: Figures) -> tuple[Draft, list[Attempt]]:
        """Rung after rung until the request is small enough."""
        draft = Draft(state.view.entries, _sizer(state))
        ratio = draft.tokens / max(1, state.raw_total)
        goal = min(sizes.enough, draft.tokens - sizes.gain_needed(self._policy))
        draft = self._clip_oversized(draft, sizes, ratio)
        attempts: list[Attempt] = []
        enough = sizes.target if draft.clipped or self._policy.stages[0] == "elide" else 0
        for name in self._policy.stages:
            if draft.tokens <= (goal if name == "prune" and attempts else enough):
                break
            if name == "elide":
                draft, attempt = self._elide(draft, sizes, ratio)
            elif name == "summarize":
                draft, attempt = self._summarize(state, draft, sizes, ratio)
            else:
                draft, attempt = self._prune(state, draft, sizes, ratio, goal=goal)
            attempts.append(attempt)
            enough = sizes.target if name == "elide" else goal
        return self._shorten(state, draft, sizes, ratio), attempts

    def _shorten(self, state: RunState, draft: Draft, sizes: Figures, ratio: float) -> Draft:
        """Where the rungs were too little: recent outputs, then the digest, outputs again, and the plan last of all."""
        recent = zones(draft.entries, self._policy, sizes, ratio=ratio).protected
        plan_most = self._plan_most(sizes, ratio)
        for least in LEAST_CHARS:
            draft = clip_recent(draft, recent, goal=sizes.enough, ratio=ratio, least_chars=(least,))
            excess = (draft.tokens - sizes.enough) / ratio
            draft = _with_shorter_digest(state, draft, excess_raw=excess, plan_most=plan_most, keep_plan=True)
        excess = (draft.tokens - sizes.enough) / ratio
        return _with_shorter_digest(state, draft, excess_raw=excess, plan_most=plan_most, keep_plan=False)

    def _plan_most(self, sizes: Figures, ratio: float) -> int:
        """Raw tokens that a plan may take beside a digest."""
        return int(_PLAN_SHARE * sizes.window / ratio)

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
        gain, lines = sizes.gain_needed(self._policy), self._policy.preview_lines
        result = elide(draft, older, target=sizes.target, gain=gain, preview_lines=lines)
        if isinstance(result, int):
            return draft, Attempt("elide", f"would free only ~{result:,} tokens", draft.tokens)
        return result, Attempt("elide", tokens_after=result.tokens)

    def _summarize(self, state: RunState, draft: Draft, sizes: Figures, ratio: float) -> tuple[Draft, Attempt]:
        split = zones(draft.entries, self._policy, sizes, ratio=ratio)
        gone = [e for block in split.older for e in block.entries if e.id != SUMMARY_ID]
        source = sum(entry.tokens for entry in gone)
        if source * ratio < sizes.gain_needed(self._policy):
            return draft, Attempt("summarize", f"would free at most ~{round(source * ratio):,} tokens", draft.tokens)
        if state.passes.ineffective:
            return draft, Attempt("summarize", "left out: the last pass did not help", draft.tokens)
        window = min(sizes.window, self._summarizer.window() or sizes.window)
        most = min(self._policy.summary_max_tokens, int(_SUMMARY_SHARE * window))
        narrative, why = self._ask(state, split, gone, most, ratio)
        if why:
            return draft, Attempt("summarize", why, draft.tokens)
        text = compose(
            state.messages,
            state.plan,
            narrative,
            most=int((most + 0.1 * sizes.window) / ratio),
            plan_most=self._plan_most(sizes, ratio),
        )
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

    def _prune(
        self, state: RunState, draft: Draft, sizes: Figures, ratio: float, *, goal: int
    ) -> tuple[Draft, Attempt]:
        split, target = zones(draft.entries, self._policy, sizes, ratio=ratio), sizes.target
        if "elide" in self._policy.stages:  # what was too little by itself now leaves more turns in place
            target = min(goal, sizes.prune_target)
            lines = self._policy.preview_lines
            elided = elide(draft, split.older, target=target, gain=0, preview_lines=lines)
            draft = draft if isinstance(elided, int) else elided
            split = zones(draft.entries, self._policy, sizes, ratio=ratio)
        narrative = draft.narrative or state.narrative
        plan_most = self._plan_most(sizes, ratio)
        result = draft
        for share in _DIGEST_SHARES:
            most = max(_LEAST_DIGEST, int(share * sizes.window / ratio))
            text = compose(state.messages, state.plan, narrative, most=most, plan_most=plan_most)
            result = prune(draft, split, text=text, target=target, goal=goal)
            if result.tokens <= goal:
                break
        if result is draft:
            return draft, Attempt("prune", "nothing can be dropped", draft.tokens)
        return result, Attempt("prune", tokens_after=result.tokens)


def _with_shorter_digest(state: RunState, draft: Draft, *, excess_raw: float, plan_most: int, keep_plan: bool) -> Draft:
    """The draft with a digest that is smaller by so many raw tokens, as far as it can be."""
    old = next((entry for entry in draft.entries if entry.id == SUMMARY_ID), None)
    if old is None or excess_raw <= 0:
        return draft
    room = int(old.tokens - excess_raw) - MESSAGE_OVERHEAD
    plan = estimate_text(plan_within(state.plan, plan_most))
    least = estimate_text(compose(state.messages, (), "", most=0, plan_most=0))
    if not keep_plan:
        plan = min(plan, max(0, room - least))
    narrative = draft.narrative or state.narrative
    text = compose(state.messages, state.plan, narrative, most=max(least, room - plan), plan_most=plan)
    shorter = draft.with_summary((), text)
    return shorter if shorter.tokens < draft.tokens else draft


def _sizer(state: RunState) -> Callable[[int], int]:
    """Raw view tokens to tokens of the whole request, as they will be estimated after the pass."""
    after = state.meter.voided(state.raw_total)
    return lambda raw_view: after.estimate(state.fixed + raw_view)
