"""What a report of a run is made of. Texts are as they are on record, for whoever shows them to make harmless."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tinyagent.core.clip import clip
from tinyagent.core.errors import END_STATES
from tinyagent.core.events import (
    Compacted,
    CompactionFailed,
    Event,
    Learned,
    Notice,
    Purpose,
    ReasoningStripped,
    RunEnded,
    Unknown,
)
from tinyagent.core.limits import Spend
from tinyagent.core.types import AssistantMessage, ToolCall, ToolMessage, Usage, UserKind, Window


@dataclass(frozen=True, slots=True)
class StartRow:
    """How a process began its work on the run. `resumed`: an earlier one had begun it; `origin`: the run it forked."""

    time: float
    run_id: str
    version: str
    model: str
    window: Window
    cwd: str
    resumed: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message of the user, or one that tinyagent wrote in the user's role."""

    id: int
    kind: UserKind
    text: str
    step: int = 0


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What one request used. `context_tokens` is the size of prompt and reply, `window_tokens` None if unknown.

    `error` is "" for an answered one. `usage` None: not known. `cost_usd` None: the price is not known.
    """

    step: int
    time: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    context_tokens: int = 0
    window_tokens: int | None = None
    attempts: int = 1
    error: str = ""
    purpose: Purpose = "step"


@dataclass(frozen=True, slots=True)
class CallRow:
    """A tool call with its result; None: the run was stopped before there was one."""

    call: ToolCall
    result: ToolMessage | None = None
    result_id: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepRow:
    """A request with its reply and what came of its calls. `reply` None: it was empty, or the run stopped there."""

    step: int
    request: RequestRow
    reply: AssistantMessage | None = None
    reply_id: int | None = None
    calls: tuple[CallRow, ...] = ()


@dataclass(frozen=True, slots=True)
class PassRow:
    """A change of the view, as a fold: what was taken out, and what stands there instead.

    `messages` is how many the next request carried, `summaries` what was asked for on the way.
    """

    step: int
    event: Compacted
    summaries: tuple[RequestRow, ...] = ()

    @property
    def messages(self) -> int:
        return len(self.event.view)


@dataclass(frozen=True, slots=True)
class NoteRow:
    """Anything else that the reader should know. `detail` may be a traceback."""

    step: int
    text: str
    detail: str = ""
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class EndRow:
    """How it ended and what it took. `ended` None: no end is on record, so it was killed or still runs."""

    step: int
    ended: RunEnded | None
    spend: Spend
    seconds: float

    @property
    def words(self) -> str:
        return "no end on record" if self.ended is None else END_STATES[self.ended.reason].words


Row = StartRow | MessageRow | RequestRow | StepRow | PassRow | NoteRow | EndRow


def note_of(event: Event, step: int) -> list[NoteRow]:
    """An event that has no row of its own kind, in words; nothing for one that needs none."""
    match event:
        case CompactionFailed():
            return [NoteRow(step, f"no compaction: {event.why}")]
        case ReasoningStripped():
            return [NoteRow(step, f"reasoning is no longer sent back: {event.why}")]
        case Learned():
            limits = {"the window has": event.window_tokens, "an answer has at most": event.max_output_tokens}
            said = [f"{what} {tokens:,} tokens" for what, tokens in limits.items() if tokens is not None]
            return [NoteRow(step, f"the provider says that {words}") for words in said]
        case Notice():
            return [NoteRow(step, event.text, event.detail, is_warning=True)]
        case Unknown():
            return [NoteRow(step, f"an event of a newer version: {event.kind}", json.dumps(event.data))]
        case _:
            return []


def of_step(rows: Sequence[Row], step: int) -> list[Row]:
    """What belongs to one step: its request and reply, and what came between it and the step before."""
    return [row for row in rows if not isinstance(row, StartRow | EndRow) and row.step == step]


def clipped(text: str, *, lines: int, chars: int) -> str:
    """The head and the tail of a text, with the count of what is missing between them."""
    all_lines = text.split("\n")
    if len(all_lines) > lines + 1:  # a note in place of one line saves nothing
        tail = lines // 3
        missing = len(all_lines) - lines
        text = "\n".join([*all_lines[: lines - tail], f"[... {missing:,} lines left out ...]", *all_lines[-tail:]])
    return clip(text, chars)
