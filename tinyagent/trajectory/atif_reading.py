"""Reading ATIF documents, of any version 1 and by whatever program, as far as people want to see them.

Of our own documents, passes come back as they were; of others, only that there was one. Wire payloads, digests of
requests and texts that were never in a step do not stand in the format and do not come back.
"""

from typing import Any, get_args

from tinyagent.core.codec import decode
from tinyagent.core.errors import END_STATES, EndReason, RecordError
from tinyagent.core.events import (
    SUMMARY_ID,
    ChildEnded,
    Compacted,
    ModelCalled,
    ModelSetup,
    Notice,
    Purpose,
    Record,
    RunEnded,
    RunStarted,
)
from tinyagent.core.types import (
    AssistantMessage,
    Json,
    StopReason,
    ToolCall,
    ToolSpec,
    Usage,
    Window,
)
from tinyagent.trajectory.foreign import (
    Recorder,
    an_object,
    call_of,
    count,
    number,
    objects,
    one_of,
    seconds,
    text_of,
)


def is_atif(document: Json) -> bool:
    """Whether the document says that it is of this format."""
    return str(document.get("schema_version", "")).startswith("ATIF-v1")


def from_atif(document: Json) -> list[Record]:
    """The records of a document. Raises RecordError that names the place in it."""
    steps = objects(document.get("steps"), "steps")
    if not steps:
        raise RecordError("steps: there are none")
    reading = _Reading(document, steps)
    for index, step in enumerate(steps[reading.system_steps :], reading.system_steps):
        reading.step(step, f"steps[{index}]")
    reading.end()
    return reading.recorder.records


class _Reading:
    """One document on its way to records."""

    def __init__(self, document: Json, steps: list[Json]) -> None:
        self.recorder = Recorder()
        self.system_steps = _system_steps(steps)
        self._root = an_object(document.get("extra"), "extra")
        subagents = objects(document.get("subagent_trajectories"), "subagent_trajectories")
        self._children = {str(child.get("trajectory_id")): child for child in subagents}
        system = "\n\n".join(text_of(step.get("message")) for step in steps[: self.system_steps])
        self.recorder.add(_started(document, system), time=seconds(steps[0].get("timestamp")))

    def step(self, step: Json, place: str) -> None:
        extra = an_object(step.get("extra"), f"{place}.extra")
        time = seconds(step.get("timestamp"))
        self._other_calls(extra, f"{place}.extra", time)
        match step.get("source"):
            case "agent":
                self._agent(step, extra, place, time)
            case "user":
                self.recorder.say_as_user(text_of(step.get("message")), extra.get("kind"), time=time)
                self._results(step, place, time)
            case "system":
                self._system(step, extra, place, time)
            case source:
                raise RecordError(f"{place}.source: {source!r} is not known")

    def end(self) -> None:
        self._other_calls(self._root, "extra", None)
        self._subagents({"extra": self._root}, None, "the document", None)
        end = an_object(self._root.get("end"), "extra.end")
        reason: EndReason | None = one_of(end.get("reason"), END_STATES, None)
        if reason is not None:
            event = RunEnded(reason, text_of(end.get("error")), text_of(end.get("submission")))
            self.recorder.add(event, time=seconds(end.get("timestamp")))

    def _other_calls(self, extra: Json, place: str, time: float | None) -> None:
        """Requests that are no step here: summaries, failed and repeated ones."""
        for call in objects(extra.get("model_calls"), f"{place}.model_calls"):
            purpose: Purpose = one_of(call.get("purpose"), get_args(Purpose), "step")
            how: Json = _how(call) | {
                "model": str(call.get("model_returned") or ""),
                "error": text_of(call.get("error")),
            }
            usage, cost = _usage(call), number(call.get("cost_usd"))
            event = ModelCalled(purpose, count(call.get("step")), "", usage=usage, cost_usd=cost, **how)
            self.recorder.add(event, time=time)

    def _agent(self, step: Json, extra: Json, place: str, time: float | None) -> None:
        if step.get("llm_call_count") != 0:
            metrics = an_object(step.get("metrics"), f"{place}.metrics")
            how: Json = _how(extra) | {"model": str(extra.get("model_returned") or step.get("model_name") or "")}
            self.recorder.called(_usage(metrics), number(metrics.get("cost_usd")), time=time, **how)
        calls = tuple(_call(call) for call in objects(step.get("tool_calls"), f"{place}.tool_calls"))
        stop: StopReason = one_of(extra.get("stop"), get_args(StopReason), "tool_calls" if calls else "end")
        text, reasoning = text_of(step.get("message")), text_of(step.get("reasoning_content"))
        self.recorder.say(AssistantMessage(text, calls, stop, reasoning=reasoning), time=time)
        self._results(step, place, time)

    def _results(self, step: Json, place: str, time: float | None) -> None:
        """Results of the step's calls; what belongs to none is something that the agent was told."""
        observation = an_object(step.get("observation"), f"{place}.observation")
        for index, result in enumerate(objects(observation.get("results"), f"{place}.observation.results")):
            where = f"{place}.observation.results[{index}]"
            extra = an_object(result.get("extra"), f"{where}.extra")
            call = self.recorder.take_call(result.get("source_call_id"))
            self._subagents(result, call, where, time)
            self.recorder.answer(call, text_of(result.get("content")), extra, time=time)

    def _subagents(self, result: Json, call: ToolCall | None, place: str, time: float | None) -> None:
        call_id = "" if call is None else call.id
        known = objects(an_object(result.get("extra"), place).get("subagents"), f"{place}.extra.subagents")
        for child in known:
            usage = _own_usage(an_object(child.get("usage"), f"{place}.extra.subagents"))
            reason: EndReason = one_of(child.get("reason"), END_STATES, "submitted")
            cost, requests = number(child.get("cost_usd")), count(child.get("requests"))
            self.recorder.add(ChildEnded(call_id, str(child.get("run_id")), reason, usage, cost, requests), time=time)
        for ref in [] if known else objects(result.get("subagent_trajectory_ref"), f"{place}.subagent_trajectory_ref"):
            name = str(ref.get("trajectory_id") or ref.get("trajectory_path") or "")
            self.recorder.add(_child(call_id, name, self._children.get(name, {})), time=time)

    def _system(self, step: Json, extra: Json, place: str, time: float | None) -> None:
        management = an_object(extra.get("context_management"), f"{place}.extra.context_management")
        text = text_of(step.get("message"))
        if management:
            event = self._pass(step, management, place)
            self.recorder.add(event or Notice(text or "the agent compacted its context here"), time=time)
            return
        if text:
            self.recorder.add(Notice(text), time=time)
        self._results(step, place, time)

    def _pass(self, step: Json, management: Json, place: str) -> Compacted | None:
        """A pass of our own; None for one of another program."""
        observation = an_object(step.get("observation"), f"{place}.observation")
        texts = {
            an_object(result.get("extra"), place).get("message_id"): text_of(result.get("content"))
            for result in objects(observation.get("results"), f"{place}.observation.results")
        }
        summary = texts.pop(SUMMARY_ID, None)
        fields = management | {"summary": summary, "replaced": texts, "strip_reasoning": False}
        try:
            return decode(Compacted, fields)
        except (KeyError, TypeError, ValueError):
            return None


def _system_steps(steps: list[Json]) -> int:
    """How many steps at the beginning make the system prompt."""
    for index, step in enumerate(steps):
        if step.get("source") != "system" or "observation" in step:
            return index
    return len(steps)


def _started(document: Json, system: str) -> RunStarted:
    agent = an_object(document.get("agent"), "agent")
    extra = an_object(agent.get("extra"), "agent.extra")
    window = number(an_object(extra.get("context_window"), "agent.extra.context_window").get("tokens"))
    options = an_object(extra.get("options"), "agent.extra.options")
    return RunStarted(
        run_id=str(document.get("session_id") or document.get("trajectory_id") or ""),
        version=f"{agent.get('name', '')} {agent.get('version', '')}".strip(),
        cwd=str(extra.get("cwd") or ""),
        setup=ModelSetup(
            str(agent.get("model_name") or ""),
            options,
            Window(None) if window is None else Window(int(window), "configured"),
        ),
        system=system,
        tools=tuple(_tool(item) for item in objects(agent.get("tool_definitions"), "agent.tool_definitions")),
        settings=an_object(extra.get("settings"), "agent.extra.settings"),
    )


def _tool(item: Json) -> ToolSpec:
    function = an_object(item.get("function"), "agent.tool_definitions.function") or item
    parameters = an_object(function.get("parameters"), "agent.tool_definitions.function.parameters")
    return ToolSpec(str(function.get("name", "")), text_of(function.get("description")), parameters)


def _call(item: Json) -> ToolCall:
    call = call_of(item.get("tool_call_id"), item.get("function_name"), item.get("arguments"))
    extra = an_object(item.get("extra"), "tool_calls.extra")
    if "raw_arguments" not in extra:
        return call
    return ToolCall(call.id, call.name, None, text_of(extra.get("problem")), text_of(extra["raw_arguments"]))


def _usage(metrics: Json) -> Usage | None:
    if metrics.get("prompt_tokens") is None and metrics.get("completion_tokens") is None:
        return None
    extra = an_object(metrics.get("extra"), "metrics.extra")
    return Usage(
        count(metrics.get("prompt_tokens")),
        count(metrics.get("completion_tokens")),
        count(metrics.get("cached_tokens")),
        count(extra.get("cache_write_tokens") or extra.get("cache_creation_input_tokens")),
        count(extra.get("reasoning_tokens")),
    )


def _how(item: Json) -> dict[str, Any]:
    return {
        "estimate": count(item.get("estimate")),
        "duration_s": number(item.get("duration_s")) or 0.0,
        "attempts": count(item.get("attempts")) or 1,
        "request_id": str(item.get("request_id") or ""),
    }


def _own_usage(item: Json) -> Usage:
    return Usage(**{name: count(item.get(name)) for name in Usage.__dataclass_fields__})


def _child(call_id: str, run_id: str, document: Json) -> ChildEnded:
    final = an_object(document.get("final_metrics"), "final_metrics")
    usage = Usage(
        count(final.get("total_prompt_tokens")),
        count(final.get("total_completion_tokens")),
        count(final.get("total_cached_tokens")),
    )
    requests = sum(step.get("source") == "agent" for step in objects(document.get("steps"), "steps"))
    return ChildEnded(call_id, run_id, "submitted", usage, number(final.get("total_cost_usd")), requests)
