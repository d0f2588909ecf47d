"""Runs in the Agent Trajectory Interchange Format (ATIF), version 1.7.

Source: the models in harbor 0.26.0 (harbor/models/trajectories), and section VII of ATIF's RFC 0001 for what stands in
`extra.context_management`. A message is a step, a tool's result is part of its call's step, a pass is a `system` step.
Requests without a reply in the log (failed, empty, for a summary) stand in `extra.model_calls` of the next step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyagent.core.errors import END_STATES
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    Decision,
    MessageAdded,
    ModelCalled,
    ReasoningStripped,
    Record,
    RunResumed,
    RunStarted,
    record_to_json,
)
from tinyagent.core.limits import Spend
from tinyagent.core.types import AssistantMessage, Json, ToolMessage, UserMessage
from tinyagent.core.view import with_unique_ids
from tinyagent.trajectory import atif_items as items
from tinyagent.trajectory.records import ending, start_of
from tinyagent.trajectory.shapes import event_item, timestamp
from tinyagent.trajectory.strict import strict_json

SCHEMA_VERSION = "ATIF-v1.7"
NOTES = (
    "A system step with extra.context_management is a pass that changed what the model is sent from there on: "
    "view lists the messages by extra.message_id (-1: the summary), the observation holds the texts that are new. "
    "final_metrics count every request: those of the steps, those in extra.model_calls (summaries, failed and repeated "
    "requests) and those of sub-agents; final_metrics.extra splits them."
)


def to_atif(records: Sequence[Record], *, children: Mapping[str, Sequence[Record]] | None = None) -> Json:
    """The document of a run, finished or not.

    `children` are the records of its sub-agents by run id; those that are given are embedded, of others only the
    figures are known. Raises RecordError if the records do not begin with a run's start.
    """
    started = start_of(records)
    written = _Written(_asides(records), started.setup.model, children or {})
    if started.system:
        written.add({"source": "system", "message": started.system, "extra": {"message_id": 0}}, records[0].time)
    for record in records:
        written.take(record)
    written.book_unanswered()
    document: Json = {
        "schema_version": SCHEMA_VERSION,
        "session_id": started.run_id,
        "trajectory_id": started.run_id,
        "agent": items.agent(started),
        "steps": written.steps or [{"step_id": 1, "source": "system", "message": ""}],
        "notes": NOTES,
        "final_metrics": written.totals.item(len(written.steps) or 1),
        "extra": _root_extra(records, written),
    }
    if written.embedded:
        document["subagent_trajectories"] = written.embedded
    return strict_json(document)


@dataclass(frozen=True, slots=True)
class _Asides:
    """What belongs to a call but stands elsewhere in the log. `children` are taken out as their results are written."""

    decisions: dict[str, Json] = field(default_factory=dict[str, Json])
    children: dict[str, list[ChildEnded]] = field(default_factory=dict[str, "list[ChildEnded]"])


@dataclass(slots=True)
class _Totals:
    """What was used, by what it was for."""

    steps: Spend = Spend()
    model_calls: Spend = Spend()
    subagents: Spend = Spend()

    def item(self, number_of_steps: int) -> Json:
        parts = {"steps": self.steps, "model_calls": self.model_calls, "subagents": self.subagents}
        total = Spend()
        for part in parts.values():
            total = total.plus(part.usage, part.cost_usd, requests=part.requests)
        return {
            "total_prompt_tokens": total.usage.input_tokens,
            "total_completion_tokens": total.usage.output_tokens,
            "total_cached_tokens": total.usage.cache_read_tokens,
            "total_cost_usd": total.cost_usd,
            "total_steps": number_of_steps,
            "extra": {
                "api_calls": total.requests,
                "cache_write_tokens": total.usage.cache_write_tokens,
                "reasoning_tokens": total.usage.reasoning_tokens,
                **{name: items.part(part) for name, part in parts.items()},
            },
        }


@dataclass(slots=True)
class _Written:
    """The steps so far. `calls` are requests that no step accounts for yet."""

    asides: _Asides
    model: str
    records_of: Mapping[str, Sequence[Record]]
    steps: list[Json] = field(default_factory=list[Json])
    calls: list[Json] = field(default_factory=list[Json])
    embedded: list[Json] = field(default_factory=list[Json])
    totals: _Totals = field(default_factory=_Totals)
    _last_id: int = 0
    _step: Json = field(default_factory=dict[str, Any])  # the newest one
    _reply_to: ModelCalled | None = None  # a request whose reply has not come into the log yet
    _open: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # calls: id in the log, id here
    _ids: set[str] = field(default_factory=set[str])

    def add(self, step: Json, time: float) -> None:
        if self.calls:
            step["extra"] = step.get("extra", {}) | {"model_calls": self.calls}
            self.calls = []
        self.steps.append(step)
        step |= {"step_id": len(self.steps), "timestamp": timestamp(time)}

    def take(self, record: Record) -> None:
        match record.event:
            case MessageAdded() as event:
                self._last_id += 1
                self._message(event, record.time)
            case ModelCalled() as event:
                self._called(event)
            case Compacted() as event:
                self.book_unanswered()
                self.add(items.pass_step(event, self.calls), record.time)
            case ReasoningStripped() as event:
                self.add(items.stripped_step(event), record.time)
            case ChildEnded() as event:
                spend = self.totals.subagents
                self.totals.subagents = spend.plus(event.usage, event.cost_usd, requests=event.requests)
            case RunResumed() as event:
                self.model = event.setup.model
            case _:
                pass

    def book_unanswered(self) -> None:
        """An answered request without a reply in the log: empty, refused, or the process was killed in between."""
        if self._reply_to is not None:
            self._book(self._reply_to)
            self._reply_to = None

    def _message(self, event: MessageAdded, time: float) -> None:
        extra: Json = {"message_id": self._last_id, "step": event.step}
        match event.message:
            case UserMessage() as message:
                self.book_unanswered()
                extra["kind"] = message.kind
                self.add({"source": "user", "message": message.text, "extra": extra}, time)
            case AssistantMessage() as message:
                self._step = self._agent_step(message, extra)
                self.add(self._step, time)
            case ToolMessage() as message:
                self._result(message, extra, time)

    def _agent_step(self, message: AssistantMessage, extra: Json) -> Json:
        unique = with_unique_ids(message, self._ids)
        self._ids.update(call.id for call in unique.tool_calls)
        self._open = [(old.id, new.id) for old, new in zip(message.tool_calls, unique.tool_calls, strict=True)]
        call, self._reply_to = self._reply_to, None
        step: Json = {
            "source": "agent",
            "model_name": self.model,
            "message": message.text,
            "llm_call_count": 1,
            "extra": extra | {"stop": message.stop} | items.how(call),
        }
        if message.reasoning:
            step["reasoning_content"] = message.reasoning
        if unique.tool_calls:
            decisions = self.asides.decisions
            pairs = zip(message.tool_calls, unique.tool_calls, strict=True)
            step["tool_calls"] = [items.tool_call(new, decisions.get(old.id)) for old, new in pairs]
        if call is not None:
            self.totals.steps = self.totals.steps.plus(call.usage, call.cost_usd)
            step["metrics"] = items.metrics(call)
        return step

    def _result(self, message: ToolMessage, extra: Json, time: float) -> None:
        """Add a result to its call's step; one that answers no open call gets a step of its own."""
        result: Json = {"content": message.text, "extra": extra | items.result_facts(message)}
        opened = next((pair for pair in self._open if pair[0] == message.call_id), None)
        if opened is None:
            result["extra"]["call_id"] = message.call_id
            self.add({"source": "system", "message": "", "observation": {"results": [result]}}, time)
            return
        self._open.remove(opened)
        result["source_call_id"] = opened[1]
        children = self.asides.children.pop(message.call_id, [])
        if children:
            result["extra"]["subagents"] = [items.child(child) for child in children]
        refs = [self._embed(child.run_id) for child in children if child.run_id in self.records_of]
        if refs:
            result["subagent_trajectory_ref"] = refs
        self._step.setdefault("observation", {"results": []})["results"].append(result)

    def _embed(self, run_id: str) -> Json:
        if all(document["trajectory_id"] != run_id for document in self.embedded):
            self.embedded.append(to_atif(self.records_of[run_id]) | {"trajectory_id": run_id})
        return {"trajectory_id": run_id, "session_id": run_id}

    def _called(self, event: ModelCalled) -> None:
        self.book_unanswered()
        if event.purpose == "step" and not event.error:
            self._reply_to = event
        else:
            self._book(event)

    def _book(self, event: ModelCalled) -> None:
        self.calls.append({"purpose": event.purpose, "step": event.step, **items.metrics(event), **items.how(event)})
        self.totals.model_calls = self.totals.model_calls.plus(event.usage, event.cost_usd)


def _root_extra(records: Sequence[Record], written: _Written) -> Json:
    """How the run ended, and what is no step's: requests after the last one, sub-agents without a result, events."""
    extra: Json = {"events": list(_other_events(records))}
    if (ended := ending(records)) is not None:
        event, time = ended
        extra["end"] = {
            "exit_status": END_STATES[event.reason].status,
            "reason": event.reason,
            "error": event.error,
            "submission": event.submission,
            "timestamp": timestamp(time),
        }
    if written.calls:
        extra["model_calls"] = written.calls
    if alone := [items.child(child) for children in written.asides.children.values() for child in children]:
        extra["subagents"] = alone
    return extra


def _other_events(records: Sequence[Record]) -> Iterator[Json]:
    elsewhere = RunStarted | MessageAdded | ModelCalled | Compacted | ChildEnded | Decision
    for record in records:
        if not isinstance(record.event, elsewhere):
            yield event_item(record_to_json(record))


def _asides(records: Sequence[Record]) -> _Asides:
    asides = _Asides()
    for record in records:
        match record.event:
            case Decision() as event:
                asides.decisions[event.call_id] = {"allowed": event.allowed, "by": event.by}
            case ChildEnded() as event:
                asides.children.setdefault(event.call_id, []).append(event)
            case _:
                pass
    return asides
