"""What the page holds of a run: a small index that is read at once, and the texts in sections that are read when shown.

A section is a step with its request, reply and results, a pass, or the run's start or end. The index has a row for each
section and for each request; from its numbers the page works out what the model saw at any request: the view of the
last pass before it, and every message that was added since.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyagent.compaction.plan import figures
from tinyagent.compaction.preview import is_failure
from tinyagent.core.errors import END_STATES
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    CompactionFailed,
    CompactionStarted,
    Decision,
    Learned,
    MessageAdded,
    ModelCalled,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
)
from tinyagent.core.state import RunState, advance
from tinyagent.core.types import AssistantMessage, Json, ToolMessage, UserMessage
from tinyagent.trajectory.records import context_policy, ending, reserved_output, start_of
from tinyagent.trajectory.rows import note_of
from tinyagent.trajectory.shapes import timestamp
from tinyagent.trajectory.viewer import items

_COUNTED = RunStarted | RunResumed | Learned | ModelCalled | ChildEnded


@dataclass(frozen=True, slots=True)
class Contents:
    """`index` and `sections` are JSON values; `title` is the first line of the task."""

    title: str
    index: Json
    sections: list[Json]


def contents(records: Sequence[Record]) -> Contents:
    """What the page holds. Raises RecordError if the records do not begin with a run's start."""
    started = start_of(records)
    book = _Book(records[0].time)
    for record in records:
        book.take(record)
    run = _run(started, records, book.state) | {"task": book.task}
    rows = [{name: row[name] for name in row if name != "items"} for row in book.sections]
    index: Json = {"run": run, "limits": book.limits, "requests": book.requests, "passes": book.passes, "rows": rows}
    title = next((line.strip() for line in book.task.splitlines() if line.strip()), "")
    return Contents(title, index, [{"items": row["items"]} for row in book.sections])


@dataclass(slots=True)
class _Book:
    """Sections, requests and passes so far. `state` has the counts and the window, not the messages."""

    start: float
    state: RunState = field(default_factory=RunState)
    task: str = ""
    sections: list[Json] = field(default_factory=list[Json])
    requests: list[Json] = field(default_factory=list[Json])
    passes: list[Json] = field(default_factory=list[Json])
    limits: list[Json] = field(default_factory=list[Json])
    messages: int = 0
    _decisions: dict[str, Json] = field(default_factory=dict[str, Any])
    _children: dict[str, list[Json]] = field(default_factory=dict[str, Any])

    def take(self, record: Record) -> None:
        event = record.event
        if isinstance(event, _COUNTED):
            self.state = advance(self.state, event)
        match event:
            case RunStarted():
                self._open("start", "start", record.time)
                self._put(items.system(event))
            case RunResumed():
                self._open("resumed", f"taken up again by {event.version}", record.time)
                self._put(items.resumed(event))
            case ModelCalled():
                self._called(event, record.time)
            case MessageAdded():
                self._message(event)
            case CompactionStarted():
                self._open("pass", "not finished", record.time)
            case Compacted() | CompactionFailed():
                self._passed(event, record.time)
            case Decision():
                self._decisions[event.call_id] = {"allowed": event.allowed, "by": event.by}
            case ChildEnded():
                self._children.setdefault(event.call_id, []).append(items.child(event))
            case RunEnded():
                self._open("end", END_STATES[event.reason].words, record.time)
                self._put(items.ended(event))
            case _:
                self.sections[-1]["items"] += [items.note(row) for row in note_of(event, 0)]

    def _open(self, kind: str, label: str, time: float) -> Json:
        section: Json = {"kind": kind, "label": label, "t": round(time - self.start, 3), "items": []}
        self.sections.append(section)
        return section

    def _put(self, item: Json) -> None:
        self.sections[-1]["items"].append(item)

    def _called(self, event: ModelCalled, time: float) -> None:
        if event.purpose == "step" and not self._retries():
            self._open("step", "", time)["step"] = event.step
        number = len(self.requests) + 1
        self._note_limits(number)
        row = items.request(event) | {
            "messages": self.messages,
            "passes": len(self.passes),
            "section": len(self.sections) - 1,
        }
        self.requests.append({name: value for name, value in row.items() if value not in (None, "", 0)})
        section = self.sections[-1]
        if event.error or event.purpose == "summary":
            section["items"].append(items.call(event, number))
        if event.error:
            section["error"] = True
        if event.purpose == "step":
            section["request"] = number

    def _retries(self) -> bool:
        """Whether the section in progress is a step that has no reply yet."""
        section = self.sections[-1]
        return section["kind"] == "step" and all(item["k"] in ("call", "note") for item in section["items"])

    def _note_limits(self, number: int) -> None:
        window = self.state.window.tokens
        limits = {"from": number, "window": window, "trigger": _trigger(self.state.settings, window)}
        if not self.limits or {**self.limits[-1], "from": number} != limits:
            self.limits.append(limits)

    def _message(self, event: MessageAdded) -> None:
        self.messages += 1
        if isinstance(event.message, UserMessage) and event.message.kind == "task" and not self.task:
            self.task = event.message.text
        if self.sections[-1]["kind"] in ("pass", "end"):
            self._open("note", "", self.start + self.sections[-1]["t"])
        section = self.sections[-1]
        if isinstance(event.message, AssistantMessage):
            section.pop("error", None)  # the requests that failed before were made good
        section.setdefault("first", self.messages)
        section["last"] = self.messages
        item = items.message(event.message, self.messages)
        if isinstance(event.message, ToolMessage):
            call_id = event.message.call_id
            item |= {"decision": self._decisions.get(call_id), "children": self._children.get(call_id)}
            section["error"] = section.get("error", False) or is_failure(event.message)
        section["items"].append({name: value for name, value in item.items() if value not in (None, "", [], False)})
        if not section["label"]:
            section |= items.label(event.message)

    def _passed(self, event: Compacted | CompactionFailed, time: float) -> None:
        if self.sections[-1]["kind"] != "pass":  # a journal that lost the line of its start
            self._open("pass", "", time)
        section = self.sections[-1]
        section["label"] = items.pass_label(event)
        if isinstance(event, CompactionFailed):
            section["failed"] = True
            self._put(items.failed_pass(event))
            return
        section["pass"] = len(self.passes)
        self._put(items.passed(event, len(self.passes)))
        self.passes.append(
            {
                "section": len(self.sections) - 1,
                "before_request": len(self.requests) + 1,
                "messages": self.messages,
                "view": _ranges(event.view),
                "replaced": _ranges(list(event.replaced)),
                "summarized": _ranges(event.summarized),
                "pruned": _ranges(event.pruned),
                "has_summary": event.summary is not None,
                "before": event.tokens_before,
                "after": event.tokens_after,
            }
        )


def _run(started: RunStarted, records: Sequence[Record], state: RunState) -> Json:
    ended = ending(records)
    usage = state.spend.usage
    run: Json = {
        "id": started.run_id,
        "parent": started.parent,
        "version": started.version,
        "model": state.setup.model,
        "cwd": started.cwd,
        "started": timestamp(records[0].time),
        "seconds": round(records[-1].time - records[0].time, 3),
        "window": state.window.tokens,
        "window_source": state.window.source,
        "steps": state.spend.steps,
        "api_calls": state.spend.requests,
        "cost_usd": state.spend.cost_usd,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
    }
    if ended is not None:
        event, _ = ended
        end = END_STATES[event.reason]
        run |= {"status": end.status, "reason": event.reason, "words": end.words, "error": event.error}
    return run


def _ranges(ids: Sequence[int]) -> list[list[int]]:
    """The ids in their order as runs of [first, last]: views of long runs have thousands that follow each other."""
    runs: list[list[int]] = []
    for message_id in ids:
        if runs and message_id == runs[-1][1] + 1 and message_id > 0:
            runs[-1][1] = message_id
        else:
            runs.append([message_id, message_id])
    return runs


def _trigger(settings: Json | None, window: int | None) -> int | None:
    """The size at which a pass starts; None without a window, or where passes are off or the settings not known."""
    policy = context_policy(settings)
    if window is None or policy is None or not policy.enabled:
        return None
    return figures(policy, window, reserved_output=reserved_output(settings)).trigger
