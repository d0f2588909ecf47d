"""Runs in the form `mini-swe-agent-1.1`, as that project's inspector and scripts read it.

Source: mini-swe-agent 2.4.6 (agents/default.py `serialize`, models/litellm_model.py, run/utilities/inspector.py). The
form is a list of chat messages with what else is known in `extra`; it has no word for a pass, so `messages` is the full
log and the passes stand in `info.compactions`.
"""

import json
from collections.abc import Sequence

from tinyagent.compaction.explain import pass_line
from tinyagent.core.codec import encode
from tinyagent.core.errors import END_STATES
from tinyagent.core.events import Compacted, MessageAdded, ModelCalled, Record, RunEnded, RunStarted, record_to_json
from tinyagent.core.state import RunState, fold
from tinyagent.core.types import AssistantMessage, Json, ToolCall, ToolMessage, Usage, UserMessage
from tinyagent.trajectory.records import ending, start_of
from tinyagent.trajectory.shapes import call_item
from tinyagent.trajectory.strict import strict_json

FORMAT = "mini-swe-agent-1.1"


def to_mini(records: Sequence[Record]) -> Json:
    """The document of a run, finished or not. Raises RecordError if the records do not begin with a run's start."""
    started = start_of(records)
    state = fold([record.event for record in records])
    document: Json = {
        "info": _info(started, records, state),
        "messages": _messages(started, records),
        "trajectory_format": FORMAT,
    }
    return strict_json(document)


def _info(started: RunStarted, records: Sequence[Record], state: RunState) -> Json:
    """`instance_cost` null: a price was not known. The fields that only a finished run has are "" before."""
    info: Json = {
        "model_stats": {"instance_cost": state.spend.cost_usd, "api_calls": state.spend.requests},
        "config": {
            "agent": state.settings or {},
            "agent_type": "tinyagent",
            "model": {"model_name": state.setup.model, **state.setup.options},
            "model_type": "tinyagent",
            "environment": {"cwd": started.cwd},
            "environment_type": "tinyagent",
        },
        "mini_version": "",
        "tinyagent_version": started.version,
        "run_id": started.run_id,
        **_outcome(state.ended),
    }
    passes = [record for record in records if isinstance(record.event, Compacted)]
    return info | ({"compactions": [_pass(record) for record in passes]} if passes else {})


def _outcome(ended: RunEnded | None) -> Json:
    status = "" if ended is None else END_STATES[ended.reason].status
    return {"exit_status": status, "submission": "" if ended is None else ended.submission}


def _pass(record: Record) -> Json:
    assert isinstance(record.event, Compacted)
    return {"line": pass_line(record.event), **record_to_json(record)}


def _messages(started: RunStarted, records: Sequence[Record]) -> list[Json]:
    messages: list[Json] = [{"role": "system", "content": started.system, "extra": {"timestamp": records[0].time}}]
    call: ModelCalled | None = None
    for record in records:
        match record.event:
            case ModelCalled() as event:
                call = event
            case MessageAdded() as event:
                messages.append(_message(event, call, record.time))
                call = None
            case _:
                pass
    if (ended := ending(records)) is not None:
        event, time = ended
        content = event.submission or event.error or END_STATES[event.reason].words
        outcome = _outcome(event) | {"reason": event.reason, "error": event.error, "timestamp": time}
        messages.append({"role": "exit", "content": content, "extra": outcome})
    return messages


def _message(event: MessageAdded, call: ModelCalled | None, time: float) -> Json:
    extra: Json = {"timestamp": time, "step": event.step}
    match event.message:
        case UserMessage() as message:
            return {"role": "user", "content": message.text, "extra": extra | {"kind": message.kind}}
        case AssistantMessage() as message:
            return _reply(message, extra | _paid(call))
        case ToolMessage() as message:
            return {
                "role": "tool",
                "tool_call_id": message.call_id,
                "name": message.tool,
                "content": message.text,
                "extra": extra | _observed(message),
            }


def _reply(message: AssistantMessage, extra: Json) -> Json:
    item: Json = {"role": "assistant", "content": message.text}
    if message.reasoning:
        item["reasoning_content"] = message.reasoning
    if message.tool_calls:
        item["tool_calls"] = [call_item(encode(call)) for call in message.tool_calls]
        extra["actions"] = [_action(call) for call in message.tool_calls]
    return item | {"extra": extra}


def _action(call: ToolCall) -> Json:
    """What was done, as one command; the one of a tool other than bash is its name with its arguments."""
    command = (call.arguments or {}).get("command")
    if call.name != "bash" or not isinstance(command, str):
        arguments = call.raw if call.arguments is None else json.dumps(call.arguments, ensure_ascii=False)
        command = f"{call.name} {arguments}"
    return {"command": command, "tool_call_id": call.id}


def _paid(call: ModelCalled | None) -> Json:
    """Cost, and the usage where the form has it: in the provider's response."""
    if call is None or call.error or call.purpose != "step":
        return {}
    response: Json = {"model": call.model, "id": call.request_id}
    if call.usage is not None:
        response["usage"] = _usage(call.usage)
    return {"cost": call.cost_usd, "response": response, "seconds": call.duration_s}


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "write_tokens": usage.cache_write_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _observed(message: ToolMessage) -> Json:
    """What the tool gave back. `returncode` is that of a command; 0 or 1 for a tool that has none."""
    timed_out = "exit_code" in message.facts and message.facts["exit_code"] is None
    code = message.facts.get("exit_code", int(message.is_error))
    extra: Json = {
        "raw_output": message.text,
        "returncode": -1 if code is None else code,
        "exception_info": "the command was stopped at its time limit" if timed_out else "",
        "is_error": message.is_error,
    }
    if message.output_id:
        extra["output_id"] = message.output_id
    return extra | ({"facts": encode(message.facts)} if message.facts else {})
