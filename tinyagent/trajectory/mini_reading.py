"""Reading the trajectories of mini-swe-agent, versions 1 and 2, and our own in that form.

Covers replies with tool calls, replies with the command in a fenced block (version 1), and turns that are the raw
object of the Responses API. Does not cover passes: the form has no word for them.
"""

from collections.abc import Sequence

from tinyagent.core.errors import END_STATES, EndReason, RecordError
from tinyagent.core.events import ModelSetup, Record, RunEnded, RunStarted
from tinyagent.core.types import AssistantMessage, Json, ToolCall, Usage, UserKind, UserMessage, Window
from tinyagent.trajectory.foreign import (
    Recorder,
    an_object,
    call_of,
    count,
    facts_of,
    if_object,
    number,
    objects,
    one_of,
    seconds,
    text_of,
)

_KINDS: tuple[UserKind, ...] = ("task", "user", "summary", "notice")
_REASONS: dict[str, EndReason] = {
    "Submitted": "submitted",
    "LimitsExceeded": "cost_limit",
    "TimeExceeded": "time_limit",
    "Interrupted": "interrupted",
    "UserInterruption": "interrupted",
    "RepeatedFormatError": "bad_tool_calls",
}


def is_mini(document: Json) -> bool:
    """Whether the document says that it is of this form."""
    return str(document.get("trajectory_format", "")).startswith("mini-swe-agent-")


def from_mini(document: Json) -> list[Record]:
    """The records of a document. Raises RecordError that names the place in it."""
    messages = objects(document.get("messages"), "messages")
    if not messages:
        raise RecordError("messages: there are none")
    info = an_object(document.get("info"), "info")
    first_is_system = messages[0].get("role") == "system"
    recorder = Recorder()
    system = text_of(messages[0].get("content")) if first_is_system else ""
    recorder.add(_started(info, system), time=_time(messages[0]))
    for index, item in enumerate(messages[first_is_system:], int(first_is_system)):
        _message(recorder, item, f"messages[{index}]")
    _end(recorder, info, messages)
    return recorder.records


def _started(info: Json, system: str) -> RunStarted:
    config = an_object(info.get("config"), "info.config")
    model = an_object(config.get("model"), "info.config.model")
    name = str(model.get("model_name") or "")
    return RunStarted(
        run_id=str(info.get("run_id") or ""),
        version=str(info.get("tinyagent_version") or f"mini-swe-agent {info.get('mini_version', '')}".strip()),
        cwd=str(an_object(config.get("environment"), "info.config.environment").get("cwd") or ""),
        setup=ModelSetup(name, {}, Window(None)),
        system=system,
        tools=(),
        settings=an_object(config.get("agent"), "info.config.agent"),
    )


def _message(recorder: Recorder, item: Json, place: str) -> None:
    extra = an_object(item.get("extra"), f"{place}.extra")
    time, text = _time(item), text_of(item.get("content"))
    role = item.get("role") or item.get("type") or item.get("object")
    match role:
        case "assistant":
            _reply(recorder, item, _calls(item, extra, place), text, time, place)
        case "response":
            _response(recorder, item, time, place)
        case "tool" | "function_call_output":
            call_id = item.get("tool_call_id") or item.get("call_id")
            _result(
                recorder, None if call_id is None else str(call_id), text or text_of(item.get("output")), item, time
            )
        case "user" | "system":
            if role == "user" and recorder.open_calls and "kind" not in extra:
                _result(recorder, None, text, item, time)
                return
            default: UserKind = "user" if recorder.messages else "task"
            recorder.say(UserMessage(text, one_of(extra.get("kind"), _KINDS, default)), time=time)
        case "exit":
            pass
        case _:
            raise RecordError(f"{place}.role: {role!r} is not known")


def _calls(item: Json, extra: Json, place: str) -> tuple[ToolCall, ...]:
    """The calls of a reply; version 1 has none and runs the command that `actions` names."""
    calls = objects(item.get("tool_calls"), f"{place}.tool_calls")
    if not calls:
        actions = objects(extra.get("actions"), f"{place}.extra.actions")
        return tuple(ToolCall("call", "bash", {"command": str(action.get("command", ""))}) for action in actions)
    found: list[ToolCall] = []
    for call in calls:
        function = an_object(call.get("function"), f"{place}.tool_calls.function")
        found.append(call_of(call.get("id"), function.get("name"), function.get("arguments")))
    return tuple(found)


def _reply(
    recorder: Recorder, item: Json, calls: Sequence[ToolCall], text: str, time: float | None, place: str
) -> None:
    extra = an_object(item.get("extra"), f"{place}.extra")
    response = if_object(extra.get("response"))  # a text, where the program could not keep it as an object
    usage = _usage(an_object(response.get("usage") or item.get("usage"), f"{place}.usage"))
    seconds_ = number(extra.get("seconds")) or 0.0
    model = str(response.get("model") or item.get("model") or "")
    recorder.called(usage, number(extra.get("cost")), time=time, model=model, duration_s=seconds_)
    reasoning = text_of(item.get("reasoning_content"))
    stop = "tool_calls" if calls else "end"
    recorder.say(AssistantMessage(text, tuple(calls), stop, reasoning=reasoning), time=time)


def _response(recorder: Recorder, item: Json, time: float | None, place: str) -> None:
    """A turn that is the Responses API's own object."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    for part in objects(item.get("output"), f"{place}.output"):
        if part.get("type") == "message":
            texts.append(text_of(part.get("content")))
        elif part.get("type") == "function_call":
            calls.append(call_of(part.get("call_id") or part.get("id"), part.get("name"), part.get("arguments")))
    _reply(recorder, item, calls, "\n".join(texts), time, place)


def _result(recorder: Recorder, call_id: str | None, text: str, item: Json, time: float | None) -> None:
    extra = an_object(item.get("extra"), "extra")
    call = recorder.take_call(call_id)
    if call is None:
        recorder.say(UserMessage(text, "notice"), time=time)
        return
    code = {"exit_code": extra["returncode"]} if "returncode" in extra and call.name == "bash" else {}
    facts = facts_of(code | if_object(extra.get("facts")))
    output_id = str(extra.get("output_id") or "")
    recorder.answer(call, text, time=time, is_error=extra.get("is_error") is True, output_id=output_id, facts=facts)


def _end(recorder: Recorder, info: Json, messages: Sequence[Json]) -> None:
    """The end, if there is one; what the program calls by a name of its own is kept as the error."""
    last = messages[-1]
    extra = an_object(last.get("extra"), "extra")
    status = str(extra.get("exit_status") or info.get("exit_status") or "")
    if not status:
        return
    submission = text_of(extra.get("submission") or info.get("submission"))
    reason: EndReason = one_of(extra.get("reason"), END_STATES, _REASONS.get(status, "provider_error"))
    error = "" if reason == "submitted" else text_of(extra.get("error")) or status
    recorder.add(RunEnded(reason, error, submission), time=_time(last))


def _usage(item: Json) -> Usage | None:
    if not item:
        return None
    details = an_object(item.get("prompt_tokens_details") or item.get("input_tokens_details"), "usage")
    output = an_object(item.get("completion_tokens_details") or item.get("output_tokens_details"), "usage")
    return Usage(
        count(item.get("prompt_tokens") or item.get("input_tokens")),
        count(item.get("completion_tokens") or item.get("output_tokens")),
        count(details.get("cached_tokens")),
        count(details.get("write_tokens")),
        count(output.get("reasoning_tokens")),
    )


def _time(item: Json) -> float | None:
    own = if_object(item.get("extra")).get("timestamp")
    return seconds(item.get("created_at") if own is None else own)
