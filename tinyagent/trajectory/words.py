"""A pass in one sentence, for documents that have no form of their own for it."""

from tinyagent.core.events import Compacted


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


def _counted(verb: str, number: int, noun: str) -> str:
    return f"{verb} {number:,} {noun}{'' if number == 1 else 's'}" if number else ""
