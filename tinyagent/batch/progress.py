"""What a run's journal tells those who watch it: progress while it runs, the account when it has ended.

One reader for both, so that the table on the screen and the ledger cannot disagree. Only the records that count are
decoded; the rest of a journal is messages.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from tinyagent.core.errors import RecordError
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    Event,
    Learned,
    ModelCalled,
    RunEnded,
    RunResumed,
    RunStarted,
    record_from_json,
)
from tinyagent.core.limits import Limits, Spend, allow_request
from tinyagent.core.pricing import worst_case
from tinyagent.core.state import RunState, fold
from tinyagent.core.types import AssistantMessage, Json, Window
from tinyagent.trajectory.reading import read_journal

JOURNAL = "journal.jsonl"
CHILDREN = "children"
_KIND = re.compile(rb'\{"seq":\d+,"time":[^,]+,"event":"(\w+)"')
_COUNTED = frozenset(
    {b"run_started", b"run_resumed", b"model_called", b"child_ended", b"compacted", b"learned", b"run_ended"}
)
_MOST_AT_ONCE = 1 << 24  # bytes of a journal taken in one look
# Error kinds that say "not now" about the provider and nothing about the request.
TROUBLE = frozenset({"rate", "overloaded", "network"})


@dataclass(frozen=True, slots=True)
class Progress:
    """A run so far. `trouble` and `answers` count failed rounds that were the provider's fault, and good replies."""

    run_id: str = ""
    model: str = ""
    model_returned: str = ""
    window: Window = Window(None)
    spend: Spend = Spend()
    context_tokens: int = 0
    compactions: int = 0
    trouble: int = 0
    answers: int = 0
    last_error: str = ""
    known_children: frozenset[str] = frozenset()
    ended: RunEnded | None = None

    @property
    def error_kind(self) -> str:
        """The kind of the last failed request; "" if the last one succeeded."""
        return self.last_error.partition(":")[0]


class JournalTail:
    """Follows one journal; a file that is not there yet is an empty one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.progress = Progress()
        self._offset = 0
        self._rest = b""

    def look(self) -> Progress:
        """The progress up to the last whole line."""
        for line in self._new_lines():
            event = _counted(line)
            if event is not None:
                self.progress = _advanced(self.progress, event)
        return self.progress

    def _new_lines(self) -> list[bytes]:
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_MOST_AT_ONCE)
        except OSError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


def read_progress(path: Path) -> Progress:
    """The progress of a run that is over."""
    tail = JournalTail(path)
    while True:
        before = tail.look()
        if tail.look() is before:
            return before


def spent_usd(folder: Path, *, reserved_usd: float | None, progress: Progress | None = None) -> float | None:
    """What a run that is over has cost at most; None if its journal is lost or a price was unknown.

    `progress` is that of its journal, where that was read already.

    A run that ended by itself told all. One that was killed may have had a request under way, which the provider may
    bill: that one counts with its worst case, within what was reserved. So does what a sub-agent spent that was killed
    with it.
    """
    progress = progress or read_progress(folder / JOURNAL)
    if not progress.run_id:
        return None
    spent = progress.spend.cost_usd
    for child in sorted((folder / CHILDREN).glob(f"*/{JOURNAL}")):
        own = read_progress(child)
        if own.run_id and own.run_id not in progress.known_children:
            spent = _plus(_plus(spent, own.spend.cost_usd), _under_way(child, own))
    if not progress.ended:
        spent = _plus(spent, _under_way(folder / JOURNAL, progress))
    if spent is None or reserved_usd is None:
        return spent
    known = progress.spend.cost_usd or 0.0
    return max(known, min(spent, reserved_usd))


def awaits_model(path: Path) -> bool:
    """Whether a run without an end was killed while only a reply was waited for, so that it can go on unchanged."""
    try:
        return _asks(fold([record.event for record in read_journal(path).records]))
    except RecordError:
        return False


def _under_way(path: Path, progress: Progress) -> float | None:
    """The worst case of the request that may have been out when the run was killed; 0 if none was."""
    if progress.ended:
        return 0.0
    try:
        state = fold([record.event for record in read_journal(path).records])
    except RecordError:
        return None
    if not _asks(state):
        return 0.0
    limits = Limits(cost_usd=cast("float | None", (state.settings or {}).get("cost_limit")) or None)
    prices, tokens = state.setup.prices, state.meter.upper_bound(state.raw_total)
    output = state.output_cap or state.setup.max_output_tokens or state.window.tokens or 0
    allowed = allow_request(limits, state.spend, prices, input_tokens=tokens, max_output_tokens=output)
    if prices is None:
        return None
    return 0.0 if allowed.stop else worst_case(tokens, allowed.max_output_tokens or 0, prices)


def _asks(state: RunState) -> bool:
    """Whether the model's turn had come: every call of the newest reply has its result.

    A run that was killed between its start and its task has nothing to ask.
    """
    for results, message in enumerate(reversed(state.messages)):
        if isinstance(message, AssistantMessage):
            return results >= len(message.tool_calls)
    return bool(state.messages)


def _counted(line: bytes) -> Event | None:
    kind = _KIND.match(line)
    if kind is None or kind[1] not in _COUNTED:
        return None
    with suppress(ValueError, RecursionError, RecordError):  # a torn or foreign line tells nothing
        return record_from_json(cast(Json, json.loads(line))).event
    return None


def _advanced(progress: Progress, event: Event) -> Progress:
    match event:
        case RunStarted():
            started = Progress(event.run_id, event.setup.model, window=event.setup.window)
            return started if not progress.run_id else progress
        case RunResumed():
            return replace(progress, ended=None, model=event.setup.model, window=event.setup.window)
        case ModelCalled():
            return _called(progress, event)
        case ChildEnded():
            spend = progress.spend.plus(event.usage, event.cost_usd, requests=event.requests)
            return replace(progress, spend=spend, known_children=progress.known_children | {event.run_id})
        case Compacted():
            return replace(progress, compactions=progress.compactions + 1, context_tokens=event.tokens_after)
        case Learned(window_tokens=int() as tokens):
            return replace(progress, window=Window(tokens, "learned"))
        case RunEnded():
            return replace(progress, ended=event)
        case _:
            return progress


def _called(progress: Progress, call: ModelCalled) -> Progress:
    good = not call.error
    kind = call.error.partition(":")[0]
    return replace(
        progress,
        spend=progress.spend.plus(call.usage, call.cost_usd, steps=int(good and call.purpose == "step")),
        context_tokens=call.context_tokens or call.estimate if call.purpose == "step" else progress.context_tokens,
        model_returned=call.model or progress.model_returned,
        trouble=progress.trouble + (kind in TROUBLE),
        answers=progress.answers + good,
        last_error=call.error,
    )


def _plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
