"""What can happen in a run. A run is the list of these; everything else is derived from them.

An event that changes what the model sees carries the replacement texts and ids themselves, so that a replay does not
depend on the version of the algorithm that decided them. Message ids are positions: 0 is the system prompt, 1 the
first message that was added. -1 is the summary or digest that a pass puts in place of older messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tinyagent.core.codec import decode, encode
from tinyagent.core.errors import EndReason, RecordError
from tinyagent.core.pricing import Prices
from tinyagent.core.types import Json, Message, ToolSpec, Usage, Window

SCHEMA = 1
SUMMARY_ID = -1

Purpose = Literal["step", "summary"]
Trigger = Literal["budget", "overflow", "manual"]
Stage = Literal["elide", "summarize", "prune", "clip"]


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """The model side of a run. `options` with a request determine the body; `prices` None: unknown."""

    model: str
    options: Json
    window: Window
    max_output_tokens: int | None = None
    prices: Prices | None = None


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first event. `settings` are the effective ones without secrets; `parent` is the run that spawned this one."""

    run_id: str
    version: str
    cwd: str
    setup: ModelSetup
    system: str
    tools: tuple[ToolSpec, ...]
    settings: Json = field(default_factory=dict[str, Any])
    context_files: tuple[str, ...] = ()
    parent: str = ""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A process took the run up again, perhaps with another model, window or limits."""

    version: str
    setup: ModelSetup
    settings: Json = field(default_factory=dict[str, Any])
    forked_from: str = ""


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message entered the log and the view. `tokens` is its uncalibrated estimate."""

    message: Message
    tokens: int
    step: int = 0


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """One request body that was sent, with its outcome.

    `usage` is what is charged: as reported, or estimated (`estimated` True). `context_tokens` is the reported size of
    the view up to and including the reply, or what a refusal said that the prompt has; None if not reported or not
    believed. `error` is "" on success, else "<kind>: <message>". `options` is set when they differ from the last ones.
    A summary's `request` holds its own system text and messages, as no view shows them.
    """

    purpose: Purpose
    step: int
    digest: str
    estimate: int
    max_output_tokens: int | None = None
    usage: Usage | None = None
    estimated: bool = False
    context_tokens: int | None = None
    cost_usd: float | None = None
    duration_s: float = 0.0
    model: str = ""
    request_id: str = ""
    attempts: int = 1
    error: str = ""
    options: Json | None = None
    request: Json | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """An answer of the provider taught a limit. None: nothing new about that one."""

    window_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ReasoningStripped:
    """From here on the view's assistant messages are sent without the provider's own payload."""

    why: str


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A pass began. One that is never followed by `Compacted` changed nothing."""

    trigger: Trigger
    tokens_before: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rung of the ladder that was tried. `rejected` is "" if its result was taken."""

    stage: Stage
    rejected: str = ""
    tokens_after: int | None = None


@dataclass(frozen=True, slots=True)
class Compacted:
    """The view changed: it now is `view`, with `replaced` bodies, and `summary` in place of -1.

    `narrative` is the part of the summary that a model wrote; the next summary updates it. `effective`: the pass freed
    enough and landed under the trigger.
    """

    trigger: Trigger
    step: int
    tokens_before: int
    tokens_after: int
    view: tuple[int, ...]
    stages: tuple[Stage, ...]
    replaced: Mapping[int, str] = field(default_factory=dict[int, str])
    elided: tuple[int, ...] = ()
    clipped: tuple[int, ...] = ()
    summarized: tuple[int, ...] = ()
    pruned: tuple[int, ...] = ()
    pruned_turns: int = 0
    summary: str | None = None
    narrative: str = ""
    effective: bool = True
    strip_reasoning: bool = False
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """A pass found nothing that helps; the view is as it was."""

    trigger: Trigger
    why: str
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A sub-agent ended; what it used counts here."""

    call_id: str
    run_id: str
    reason: EndReason
    usage: Usage
    cost_usd: float | None
    requests: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A permission decision that was not simply "allowed by default"."""

    call_id: str
    tool: str
    allowed: bool
    by: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know. `detail` holds a traceback; a `code` marks what is said once in a run."""

    text: str
    detail: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event of a process's work on the run; a later `RunResumed` takes it up again."""

    reason: EndReason
    error: str = ""
    submission: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event of a newer version: kept as it is and skipped."""

    kind: str
    data: Any


Event = (
    RunStarted
    | RunResumed
    | MessageAdded
    | ModelCalled
    | Learned
    | ReasoningStripped
    | CompactionStarted
    | Compacted
    | CompactionFailed
    | ChildEnded
    | Decision
    | Notice
    | RunEnded
    | Unknown
)


@dataclass(frozen=True, slots=True)
class Record:
    """An event in its place: `seq` counts from 1, `time` is UTC seconds since 1970."""

    seq: int
    time: float
    event: Event


KINDS: dict[str, type[Event]] = {
    "run_started": RunStarted,
    "run_resumed": RunResumed,
    "message": MessageAdded,
    "model_called": ModelCalled,
    "learned": Learned,
    "reasoning_stripped": ReasoningStripped,
    "compaction_started": CompactionStarted,
    "compacted": Compacted,
    "compaction_failed": CompactionFailed,
    "child_ended": ChildEnded,
    "decision": Decision,
    "notice": Notice,
    "run_ended": RunEnded,
}
_NAMES = {cls: name for name, cls in KINDS.items()}


def record_to_json(record: Record) -> Json:
    """The JSON object of one journal line."""
    event = record.event
    if isinstance(event, Unknown):
        return {"seq": record.seq, "time": record.time, "event": event.kind, **event.data}
    return {"seq": record.seq, "time": round(record.time, 3), "event": _NAMES[type(event)], **encode(event)}


def record_from_json(data: Json) -> Record:
    """The record of one journal line. Raises RecordError if it is not one; unknown kinds become `Unknown`."""
    try:
        fields = dict(data)
        seq, time, kind = int(fields.pop("seq")), float(fields.pop("time")), str(fields.pop("event"))
        cls = KINDS.get(kind)
        event: Event = Unknown(kind, fields) if cls is None else decode(cls, fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"not a journal record: {error!r}") from error
    if isinstance(event, RunStarted) and event.schema > SCHEMA:
        raise RecordError(f"written by a newer tinyagent (schema {event.schema}, this one reads up to {SCHEMA})")
    return Record(seq, time, event)
