"""The view: the messages as the model will see them, derived from the log and changed only by events."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in the view. `id` is its position in the log (-1: the summary); `tokens` is uncalibrated.

    `elided`: its body was replaced by a pointer, and will not be again.
    """

    id: int
    message: Message
    tokens: int
    elided: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """Entries in the order they are sent. `tokens` is their sum, kept so that asking costs nothing."""

    entries: tuple[Entry, ...] = ()
    tokens: int = 0

    def added(self, entry: Entry) -> "View":
        return View((*self.entries, entry), self.tokens + entry.tokens)

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(entry.message for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Block:
    """Entries that stay together: a user message, or a turn (an assistant message with all its results)."""

    entries: tuple[Entry, ...]

    @property
    def is_turn(self) -> bool:
        return isinstance(self.entries[0].message, AssistantMessage)

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)


def view_of(entries: Sequence[Entry]) -> View:
    return View(tuple(entries), sum(entry.tokens for entry in entries))


def blocks(view: View) -> list[Block]:
    """The view cut at every place where cutting is legal."""
    found: list[list[Entry]] = []
    for entry in view.entries:
        if isinstance(entry.message, ToolMessage) and found and isinstance(found[-1][0].message, AssistantMessage):
            found[-1].append(entry)
        else:
            found.append([entry])
    return [Block(tuple(entries)) for entries in found]


def with_text(entry: Entry, text: str, *, elided: bool) -> Entry:
    """The entry of a tool result with another body."""
    assert isinstance(entry.message, ToolMessage), "only tool results are ever replaced"
    message = replace(entry.message, text=text)
    return Entry(entry.id, message, message_tokens(message), elided)


def summary_entry(summary_id: int, text: str) -> Entry:
    message = UserMessage(text, "summary")
    return Entry(summary_id, message, message_tokens(message))


def without_reasoning(view: View) -> View:
    """Every assistant message without the provider's own payload, so that it is rebuilt from the neutral fields."""
    return view_of([_strip(entry) for entry in view.entries])


def rebuilt(
    view: View, order: Sequence[int], *, replaced: Mapping[int, str], elided: Sequence[int], summary: Entry | None
) -> View:
    """The view after a pass: the ids of `order`, other bodies for `replaced`, and `summary` where its id stands."""
    by_id = {entry.id: entry for entry in view.entries}
    if summary is not None:
        by_id[summary.id] = summary
    stubs = set(elided)
    return view_of([with_text(by_id[i], replaced[i], elided=i in stubs) if i in replaced else by_id[i] for i in order])


def problems(view: View) -> list[str]:
    """What would make a provider refuse these messages; empty before every send."""
    found: list[str] = []
    if not view.entries:
        return ["there are no messages"]
    if not isinstance(view.entries[0].message, UserMessage):
        found.append("the first message is not the user's")
    if isinstance(view.entries[-1].message, AssistantMessage):
        found.append("the last message is the assistant's")
    seen: set[str] = set()
    for block in blocks(view):
        found += _block_problems(block, seen)
    return found


def with_unique_ids(message: AssistantMessage, used: Collection[str]) -> AssistantMessage:
    """The message with call ids that no earlier call of the run has: some servers reuse theirs, or give none."""
    taken, calls = set(used), list[ToolCall]()
    for call in message.tool_calls:
        fresh, number = call.id or "call", 1
        while fresh in taken:
            number += 1
            fresh = f"{call.id or 'call'}_{number}"
        taken.add(fresh)
        calls.append(call if fresh == call.id else replace(call, id=fresh))
    return message if tuple(calls) == message.tool_calls else replace(message, tool_calls=tuple(calls))


def open_calls(view: View) -> list[ToolCall]:
    """Calls of the last turn that have no result yet, in order."""
    turns = [block for block in blocks(view) if block.is_turn]
    if not turns or turns[-1].entries[-1] is not view.entries[-1]:
        return []
    first, *results = [entry.message for entry in turns[-1].entries]
    answered = {m.call_id for m in results if isinstance(m, ToolMessage)}
    calls = first.tool_calls if isinstance(first, AssistantMessage) else ()
    return [call for call in calls if call.id not in answered]


def _strip(entry: Entry) -> Entry:
    message = entry.message
    if not isinstance(message, AssistantMessage) or message.wire is None:
        return entry
    bare = replace(message, wire=None, wire_format="")
    return Entry(entry.id, bare, message_tokens(bare), entry.elided)


def _block_problems(block: Block, seen: set[str]) -> list[str]:
    first, *rest = [entry.message for entry in block.entries]
    match first:
        case UserMessage():
            return [] if first.text.strip() else [f"message {block.entries[0].id} is empty"]
        case ToolMessage():
            return [f"the result of call {first.call_id} does not follow its call"]
        case AssistantMessage():
            wanted = [call.id for call in first.tool_calls]
            given = [m.call_id for m in rest if isinstance(m, ToolMessage)]
            twice = sorted({i for i in wanted if i in seen or wanted.count(i) > 1})
            seen.update(wanted)
            found = [f"call id {i} occurs twice" for i in twice]
            if wanted != given:
                found.append(f"calls {wanted} are answered by results {given}")
            return found
