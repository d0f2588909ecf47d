"""The parts of an ATIF document that stand for one of our values each."""

from collections.abc import Sequence

from tinyagent.compaction.explain import pass_line
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    ModelCalled,
    ReasoningStripped,
    Record,
    RunStarted,
    record_to_json,
)
from tinyagent.core.limits import Spend
from tinyagent.core.types import Json, ToolCall, ToolMessage, ToolSpec
from tinyagent.trajectory.shapes import usage_item

AGENT = "tinyagent"


def agent(started: RunStarted) -> Json:
    setup = started.setup
    item: Json = {
        "name": AGENT,
        "version": started.version,
        "model_name": setup.model,
        "extra": {
            "cwd": started.cwd,
            "context_window": {"tokens": setup.window.tokens, "source": setup.window.source},
            "options": setup.options,
            "settings": started.settings,
        },
    }
    return item | ({"tool_definitions": [definition(tool) for tool in started.tools]} if started.tools else {})


def definition(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def tool_call(call: ToolCall, decision: Json | None) -> Json:
    """Arguments have to be an object there: those that were none stand in `extra` as they came."""
    item: Json = {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments or {}}
    extra: Json = {} if decision is None else {"decision": decision}
    if call.arguments is None:
        extra |= {"problem": call.problem, "raw_arguments": call.raw}
    return item | ({"extra": extra} if extra else {})


def result_facts(message: ToolMessage) -> Json:
    facts: Json = {"is_error": message.is_error}
    if message.output_id:
        facts["output_id"] = message.output_id
    return facts | ({"facts": dict(message.facts)} if message.facts else {})


def metrics(call: ModelCalled) -> Json:
    """Counts are inclusive there as here. A cost of None is an unknown price, and is left out."""
    item: Json = {}
    if call.usage is not None:
        usage = call.usage
        item |= {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cache_read_tokens,
            "extra": {"cache_write_tokens": usage.cache_write_tokens, "reasoning_tokens": usage.reasoning_tokens},
        }
        if call.estimated:
            item["extra"]["estimated"] = True
    return item if call.cost_usd is None else item | {"cost_usd": call.cost_usd}


def how(call: ModelCalled | None) -> Json:
    """What else is known of a request."""
    if call is None:
        return {}
    facts: Json = {
        "digest": call.digest,
        "estimate": call.estimate,
        "model_returned": call.model,
        "request_id": call.request_id,
        "duration_s": call.duration_s,
        "attempts": call.attempts,
        "error": call.error,
    }
    return {name: value for name, value in facts.items() if value}


def pass_step(event: Compacted, calls: Sequence[Json]) -> Json:
    """A pass that puts a summary or digest in place of messages replaces the context; one that shortens bodies only
    truncates it (the RFC's words)."""
    summaries = [call for call in calls if call["purpose"] == "summary"]
    results: list[Json] = [{"content": event.summary, "extra": {"message_id": -1}}] if event.summary is not None else []
    results += [{"content": text, "extra": {"message_id": i}} for i, text in event.replaced.items()]
    management: Json = {
        "type": "compaction" if "summarize" in event.stages else "pruning",
        "boundary": "truncate" if event.summary is None else "replace",
        **record_to_json(Record(0, 0.0, event)),
    }
    for name in ("seq", "time", "event", "summary", "replaced"):
        management.pop(name, None)
    if summaries:
        spend = Spend()
        for call in summaries:
            spend = spend.plus(None, call.get("cost_usd"))
        management["summary_cost_usd"] = spend.cost_usd
    step: Json = {"source": "system", "message": pass_line(event), "extra": {"context_management": management}}
    return step | ({"observation": {"results": results}} if results else {})


def stripped_step(event: ReasoningStripped) -> Json:
    management = {"type": "pruning", "boundary": "truncate", "reasoning_stripped": True}
    message = f"the model's reasoning so far is no longer sent back: {event.why}"
    return {"source": "system", "message": message, "extra": {"context_management": management}}


def child(event: ChildEnded) -> Json:
    return {
        "run_id": event.run_id,
        "reason": event.reason,
        "requests": event.requests,
        "usage": usage_item(event.usage),
        "cost_usd": event.cost_usd,
    }


def part(spend: Spend) -> Json:
    return {
        "requests": spend.requests,
        "prompt_tokens": spend.usage.input_tokens,
        "completion_tokens": spend.usage.output_tokens,
        "cached_tokens": spend.usage.cache_read_tokens,
        "cost_usd": spend.cost_usd,
    }
