"""Drafts and parts of views for tests of the pure rungs; one raw token is one token here."""

from typing import Any, cast

from tests.builders import assistant, call, task
from tinyagent.compaction.plan import ContextPolicy, Draft, Figures, Zones, figures, zones
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import Facts, Message, ToolMessage
from tinyagent.core.view import Entry

POLICY = ContextPolicy()


def entries(*messages: Message) -> tuple[Entry, ...]:
    return tuple(Entry(i, message, message_tokens(message)) for i, message in enumerate(messages, 1))


def draft(*messages: Message, fixed: int = 0) -> Draft:
    return Draft(entries(*messages), lambda raw: raw + fixed)


def output(call_id: str, text: str, **facts: Any) -> ToolMessage:
    return ToolMessage(call_id, "bash", text, facts=cast(Facts, {"output_chars": len(text), **facts}))


def run_of(*outputs: str, words: str = "looking") -> list[Message]:
    """A task, and a turn of one call for each output."""
    messages: list[Message] = [task()]
    for number, text in enumerate(outputs, 1):
        messages += [assistant(words, call(f"c{number}")), output(f"c{number}", text)]
    return messages


def sizes(window: int, policy: ContextPolicy = POLICY) -> Figures:
    return figures(policy, window, reserved_output=None)


def split(parts: Draft, window: int, policy: ContextPolicy = POLICY) -> Zones:
    return zones(parts.entries, policy, sizes(window, policy), ratio=1.0)
