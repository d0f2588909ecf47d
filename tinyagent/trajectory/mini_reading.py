"""Reading the trajectories of mini-swe-agent, versions 1 and 2, and our own in that form.

Covers replies with tool calls, replies with the command in a fenced block (version 1), and turns that are the raw
object of the Responses API. Does not cover passes: the form has no word for them.
"""

from collections.abc import Sequence

from tinyagent.core.errors import END_STATES, EndReason, RecordError
from tinyagent.core.events import ModelSetup, Record, RunEnded, RunStarted
from tinyagent.core.types import AssistantMessage, Json, ToolCall, Usage, Window
from tinyagent.trajectory.foreign import (
    Recorder,
    an_object,
    call_of,
    count,
    if_object,
    number,
    objects,
    one_of,
    seconds,
    text_of,
)

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
    text = text_of(item.get("content"))
    match item.get("role") or item.get("type") or item.get("object"):
        case "assistant":
            _reply(recorder, item, text, _calls(item, extra, place), place)
        case "response":
            _response(recorder, item, place)
        case "tool" | "function_call_output":
            _result(recorder, item, text or text_of(item.get("output")))
        case "user" if recorder.open_calls and "kind" not in extra:
            _result(recorder, item, text)
        case "user" | "system":
            recorder.say_as_user(text, extra.get("kind"), time=_time(item))
        case "exit":
            pass
        case role:
            raise RecordError(f"{place}.role: {role!r} is not known")


def _calls(item: Json, extra: Json, place: str) -> list[ToolCall]:
    """The calls of a reply; version 1 has none and runs the command that `actions` names."""
    calls = objects(item.get("tool_calls"), f"{place}.tool_calls")
    if not calls:
        actions = objects(extra.get("actions"), f"{place}.extra.actions")
        return [ToolCall("call", "bash", {"command": str(action.get("command", ""))}) for action in actions]
    functions = [an_object(call.get("function"), f"{place}.tool_calls.function") for call in calls]
    return [
        call_of(call.get("id"), function.get("name"), function.get("arguments"))
        for call, function in zip(calls, functions, strict=True)
    ]


def _response(recorder: Recorder, item: Json, place: str) -> None:
    """A turn that is the Responses API's own object."""
    parts = objects(item.get("output"), f"{place}.output")
    texts = [text_of(part.get("content")) for part in parts if part.get("type") == "message"]
    calls = [
        call_of(part.get("call_id") or part.get("id"), part.get("name"), part.get("arguments"))
        for part in parts
        if part.get("type") == "function_call"
    ]
    _reply(recorder, item, "\n".join(texts), calls, place)


def _reply(recorder: Recorder, item: Json, text: str, calls: Sequence[ToolCall], place: str) -> None:
    extra, time = an_object(item.get("extra"), f"{place}.extra"), _time(item)
    response = if_object(extra.get("response"))  # a text, where the program could not keep it as an object
    recorder.called(
        _usage(an_object(response.get("usage") or item.get("usage"), f"{place}.usage")),
        number(extra.get("cost")),
        time=time,
        model=str(response.get("model") or item.get("model") or ""),
        duration_s=number(extra.get("seconds")) or 0.0,
    )
    reasoning = text_of(item.get("reasoning_content"))
    stop = "tool_calls" if calls else "end"
    recorder.say(AssistantMessage(text, tuple(calls), stop, reasoning=reasoning), time=time)


def _result(recorder: Recorder, item: Json, text: str) -> None:
    extra = an_object(item.get("extra"), "extra")
    call = recorder.take_call(item.get("tool_call_id") or item.get("call_id"))
    code = {"exit_code": extra["returncode"]} if "returncode" in extra and call and call.name == "bash" else {}
    recorder.answer(call, text, extra | {"facts": code | if_object(extra.get("facts"))}, time=_time(item))


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
