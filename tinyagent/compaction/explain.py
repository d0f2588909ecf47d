"""Passes in words: what one did, why one did not help, what fills the window of a run that cannot go on."""

from tinyagent.core.events import Compacted, CompactionFailed
from tinyagent.core.state import RunState
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import AssistantMessage, ToolMessage, UserMessage
from tinyagent.core.view import Entry


def pass_line(event: Compacted) -> str:
    """What one pass did to the view, with its size before and after."""
    parts = [
        _counted("elided", len(event.elided), "tool output"),
        _counted("summarized", len(event.summarized), "message"),
        _counted("pruned", event.pruned_turns, "turn"),
        _counted("clipped", len(event.clipped), "tool output"),
    ]
    done = ", ".join(part for part in parts if part) or ", ".join(event.stages)
    return f"compacted context: ~{event.tokens_before:,} → ~{event.tokens_after:,} tokens ({done})"


def failed_pass_line(event: CompactionFailed) -> str:
    """What a pass that changed nothing had tried."""
    tried = "; ".join(f"{attempt.stage}: {attempt.rejected}" for attempt in event.attempts if attempt.rejected)
    return f"compaction did not help, {event.why}" + (f" ({tried})" if tried else "")


def still_exceeds(state: RunState, window: int | None) -> str:
    """The sentence of the named end, with the biggest contributors."""
    of = f"{window:,}" if window else "an unknown number of"
    return (
        f"context still exceeds the window after compaction: ~{state.estimate:,} of {of} tokens ({contributors(state)})"
    )


def contributors(state: RunState) -> str:
    """The three biggest parts of the next request with their estimates."""
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


def _counted(verb: str, number: int, noun: str) -> str:
    return f"{verb} {number:,} {noun}{'' if number == 1 else 's'}" if number else ""
