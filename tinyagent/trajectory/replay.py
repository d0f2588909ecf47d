"""Each request that a run sent, rebuilt from its records and proven by its digest; and how two of them differ."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tinyagent.core.codec import decode
from tinyagent.core.errors import RecordError
from tinyagent.core.events import SUMMARY_ID, ModelCalled, Purpose, Record
from tinyagent.core.state import RunState, advance
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import AssistantMessage, Json, Message, Request, ToolMessage, UserMessage
from tinyagent.core.view import Entry

Encode = Callable[[Request, Json], bytes]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it left. `number` counts from 1 over all of them, summaries and failed ones included.

    `entries` are the view's, one for each of the request's messages; empty for a summary request, which brought its own
    messages. `digest` is the sha256 on record, "" if there is none. `error` is "" for an answered request.
    """

    number: int
    step: int
    purpose: Purpose
    request: Request
    options: Json
    entries: tuple[Entry, ...]
    digest: str
    error: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A request whose rebuilt body has another digest. `suspects` are the parts of it that no proven request shares."""

    number: int
    step: int
    purpose: Purpose
    recorded: str
    rebuilt: str
    suspects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two requests. A text is None where the part was not there."""

    kind: Literal["added", "removed", "replaced"]
    what: str
    before: str | None
    after: str | None


def requests(records: Sequence[Record]) -> Iterator[Sent]:
    """Every request in the order they were sent. What a record changes in the view takes effect after it."""
    state = RunState()
    number = 0
    for record in records:
        event = record.event
        if isinstance(event, ModelCalled):
            number += 1
            yield _sent(state, event, number)
        state = advance(state, event)


def request_number(records: Sequence[Record], number: int) -> Sent:
    """One request, by its number from 1. Raises RecordError if the run did not send so many."""
    last = 0
    for sent in requests(records):
        if sent.number == number:
            return sent
        last = sent.number
    raise RecordError(f"there is no request {number}: the run sent {last}, counted from 1")


def check(records: Sequence[Record], encode: Encode, *, changed: Collection[int] = ()) -> list[Mismatch]:
    """The requests that do not rebuild to the digest on record. One without a digest is passed over.

    `changed` are ids of messages that are known to have been edited in the document.
    """
    found: list[Mismatch] = []
    proven: Sent | None = None
    vouched: dict[int, Message] = {}
    for sent in requests(records):
        if not sent.digest:
            continue
        rebuilt = hashlib.sha256(encode(sent.request, sent.options)).hexdigest()
        if rebuilt == sent.digest:
            proven = sent
            vouched.update((entry.id, entry.message) for entry in sent.entries)
        else:
            suspects = _suspects(sent, proven, vouched=vouched, changed=changed)
            found.append(Mismatch(sent.number, sent.step, sent.purpose, sent.digest, rebuilt, suspects))
    return found


def diff(records: Sequence[Record], first: int, second: int) -> list[Change]:
    """How request `second` differs from request `first`. Raises RecordError for a number that does not exist."""
    before, after = request_number(records, first), request_number(records, second)
    return [*_part_changes(before, after), *_message_changes(before, after)]


def describe(message_id: int, message: Message) -> str:
    """A message in a few words: its id, and whose it is."""
    if message_id == SUMMARY_ID:
        return "the summary"
    match message:
        case UserMessage():
            return f"message {message_id} ({message.kind})"
        case AssistantMessage():
            return f"message {message_id} (assistant)"
        case ToolMessage():
            return f"message {message_id} (result of {message.tool}, call {message.call_id})"


def _sent(state: RunState, event: ModelCalled, number: int) -> Sent:
    options = state.setup.options if event.options is None else event.options
    request = Request(state.system, state.view.messages, state.tools, event.max_output_tokens)
    entries = state.view.entries
    if event.request is not None:
        request, entries = _own_request(request, event.request, number), ()
    return Sent(number, event.step, event.purpose, request, options, entries, event.digest, event.error)


def _own_request(live: Request, own: Json, number: int) -> Request:
    """A summary request: its own system text and messages, and the run's tools if it carried them."""
    try:
        request = decode(Request, {"system": own["system"], "messages": own["messages"]})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"request {number} has no messages of its own that can be read: {error!r}") from error
    tools = live.tools if own.get("tools") else ()
    return replace(request, tools=tools, max_output_tokens=live.max_output_tokens)


def _suspects(
    sent: Sent, proven: Sent | None, *, vouched: Mapping[int, Message], changed: Collection[int]
) -> tuple[str, ...]:
    """The likeliest first: messages known to be edited, else those whose recorded size no longer fits, else all new."""
    new = [entry for entry in sent.entries if vouched.get(entry.id) is not entry.message]
    edited = [entry for entry in new if entry.id in changed]
    resized = [entry for entry in new if message_tokens(entry.message) != entry.tokens]
    named = [describe(entry.id, entry.message) for entry in edited or resized or new]
    if not sent.entries:
        named = ["its own messages"]
    if edited or (resized and len(resized) < len(new)):
        return tuple(named)
    return (*named, *(name for name in _parts(sent) if proven is None or _parts(proven)[name] != _parts(sent)[name]))


def _parts(sent: Sent) -> dict[str, str | None]:
    """What a request has beside its messages, as text for people."""
    request = sent.request
    limit = request.max_output_tokens
    return {
        "the system prompt": request.system,
        "the tools": ", ".join(sorted(str(tool) for tool in request.tools)),
        "the options": str(sent.options),
        "max_output_tokens": None if limit is None else str(limit),
    }


def _part_changes(before: Sent, after: Sent) -> Iterator[Change]:
    old, new = _parts(before), _parts(after)
    for name, text in new.items():
        if text != old[name]:
            yield Change("replaced", name, old[name], text)


def _message_changes(before: Sent, after: Sent) -> Iterator[Change]:
    old, new = _labelled(before), _labelled(after)
    for key, (label, text) in old.items():
        if key not in new:
            yield Change("removed", label, text, None)
    for key, (label, text) in new.items():
        if key not in old:
            yield Change("added", label, None, text)
        elif old[key][1] != text:
            yield Change("replaced", label, old[key][1], text)


def _labelled(sent: Sent) -> dict[tuple[str, int], tuple[str, str]]:
    """Label and text of each message, by a key that stays the same from request to request."""
    if sent.entries:
        return {("view", e.id): (describe(e.id, e.message), readable(e.message)) for e in sent.entries}
    own = enumerate(sent.request.messages)
    return {("own", i): (f"the request's own message {i + 1}", readable(message)) for i, message in own}


def readable(message: Message) -> str:
    """All that is sent of a message, as text for people."""
    if not isinstance(message, AssistantMessage):
        return message.text
    calls = [f"{c.name} {c.raw if c.arguments is None else c.arguments}" for c in message.tool_calls]
    payload = [] if message.wire is None else [f"(with the provider's payload for {message.wire_format})"]
    return "\n".join([part for part in (message.text, *calls, *payload) if part])
