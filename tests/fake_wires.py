"""How a server writes one reply in each API: as a whole body and as the frames of a stream.

Written from the APIs' documentation and from what real servers sent, not from our decoders.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` as a string goes out as it stands, broken or not; `extra` are fields of chat's form."""

    name: str
    arguments: Json | str
    id: str = ""
    extra: Json = field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Say:
    """One reply. `finish` is in OpenAI's words and is translated; "" follows from the content.

    `extra` are fields that some houses add to a chat message, such as OpenRouter's `reasoning_details`.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str = ""
    extra: Json = field(default_factory=dict[str, Any])

    @property
    def stop(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")


@dataclass(frozen=True)
class Count:
    """Usage to report: all of the prompt, the output, the parts of the prompt read from and written to the cache."""

    prompt: int
    output: int
    cached: int = 0
    written: int = 0


def whole(api: str, say: Say, count: Count | None, model: str) -> Json:
    """The body of an answer that is not streamed."""
    return _WHOLE[api](say, count, model)


def frames(api: str, say: Say, count: Count | None, model: str) -> Iterator[bytes]:
    """The frames of a streamed answer, the end marker included."""
    if api == "ollama":
        yield from (json.dumps(line).encode() + b"\n" for line in _ollama_lines(say, count, model))
        return
    for name, data in _STREAMS[api](say, count, model):
        head = f"event: {name}\n" if name else ""
        yield f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def pieces(text: str, size: int = 12) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


# --- chat completions


def _chat_message(say: Say) -> Json:
    message: Json = {"role": "assistant", "content": say.text or ("" if say.calls else None)} | say.extra
    if say.reasoning:
        message["reasoning_content"] = say.reasoning
    if say.calls:
        message["tool_calls"] = [_chat_call(call) for call in say.calls]
    return message


def _chat_call(call: Call) -> Json:
    function = {"name": call.name, "arguments": call.text}
    return {"id": call.id, "type": "function", "function": function} | call.extra


def _chat_usage(count: Count) -> Json:
    return {
        "prompt_tokens": count.prompt,
        "completion_tokens": count.output,
        "total_tokens": count.prompt + count.output,
        "prompt_tokens_details": {"cached_tokens": count.cached, "cache_write_tokens": count.written},
    }


def _chat_whole(say: Say, count: Count | None, model: str) -> Json:
    body: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": _chat_message(say), "finish_reason": say.stop}],
    }
    return body | ({"usage": _chat_usage(count)} if count else {})


def _chat_stream(say: Say, count: Count | None, model: str) -> Iterator[tuple[str, Json | str]]:
    def chunk(delta: Json, finish: str | None = None) -> tuple[str, Json]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": [choice]}

    yield chunk({"role": "assistant", "content": None} | say.extra)
    for piece in pieces(say.reasoning):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(say.text):
        yield chunk({"content": piece})
    for index, call in enumerate(say.calls):
        yield chunk({"tool_calls": [{"index": index} | _chat_call(replace(call, arguments=""))]})
        for piece in pieces(call.text):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, say.stop)
    if count:
        yield "", {"id": "chatcmpl-1", "model": model, "choices": [], "usage": _chat_usage(count)}
    yield "", "[DONE]"


# --- messages

_ANTHROPIC_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_stop(say: Say) -> str:
    return _ANTHROPIC_STOPS.get(say.stop, say.stop)


def _anthropic_usage(count: Count | None) -> Json:
    if count is None:
        return {}
    return {
        "input_tokens": count.prompt - count.cached - count.written,
        "cache_read_input_tokens": count.cached,
        "cache_creation_input_tokens": count.written,
        "output_tokens": count.output,
    }


def _anthropic_whole(say: Say, count: Count | None, model: str) -> Json:
    content: list[Json] = []
    if say.reasoning:
        content.append({"type": "thinking", "thinking": say.reasoning, "signature": "sig"})
    if say.text:
        content.append({"type": "text", "text": say.text})
    content += [{"type": "tool_use", "id": c.id, "name": c.name, "input": _lenient(c)} for c in say.calls]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": _anthropic_stop(say),
        "stop_sequence": None,
        "usage": _anthropic_usage(count),
    }


def _lenient(call: Call) -> object:
    """The arguments as a value where they are JSON; broken ones as text."""
    try:
        return json.loads(call.text, strict=False)
    except ValueError:
        return call.text


def _anthropic_stream(say: Say, count: Count | None, model: str) -> Iterator[tuple[str, Json | str]]:
    start = _anthropic_whole(Say(), None, model) | {"stop_reason": None}
    start["usage"] = _anthropic_usage(count) | ({"output_tokens": 1} if count else {})
    yield _named({"type": "message_start", "message": start})
    yield _named({"type": "ping"})
    blocks: list[tuple[Json, list[Json]]] = []
    if say.reasoning:
        thinking = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(say.reasoning)]
        signature = {"type": "signature_delta", "signature": "sig"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thinking, signature]))
    if say.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces(say.text)]))
    for call in say.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(call.text)]
        blocks.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield _named({"type": "content_block_start", "index": index, "content_block": block})
        yield from (_named({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas)
        yield _named({"type": "content_block_stop", "index": index})
    end = {"stop_reason": _anthropic_stop(say), "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": count.output} if count else {}})
    yield _named({"type": "message_stop"})


def _named(data: Json) -> tuple[str, Json]:
    return str(data["type"]), data


# --- responses


def _responses_items(say: Say) -> list[Json]:
    items: list[Json] = []
    if say.reasoning:
        summary = [{"type": "summary_text", "text": say.reasoning}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"})
    if say.text:
        content = [{"type": "output_text", "text": say.text, "annotations": []}]
        items.append({"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": content})
    for number, call in enumerate(say.calls, 1):
        names = {"id": f"fc_{number}", "call_id": call.id, "name": call.name, "arguments": call.text}
        items.append({"type": "function_call", "status": "completed"} | names)
    return items


def _responses_whole(say: Say, count: Count | None, model: str) -> Json:
    usage = count and {
        "input_tokens": count.prompt,
        "input_tokens_details": {"cached_tokens": count.cached, "cache_write_tokens": count.written},
        "output_tokens": count.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": count.prompt + count.output,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "model": model,
        "error": None,
        "status": "incomplete" if say.stop in ("length", "content_filter") else "completed",
        "incomplete_details": {
            "length": {"reason": "max_output_tokens"},
            "content_filter": {"reason": "content_filter"},
        }.get(say.stop),
        "output": _responses_items(say),
        "usage": usage,
    }


def _responses_stream(say: Say, count: Count | None, model: str) -> Iterator[tuple[str, Json | str]]:
    body = _responses_whole(say, count, model)
    opened = body | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield _named({"type": "response.created", "response": opened})
    for index, item in enumerate(body["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        yield _named(
            {"type": "response.output_item.added", "output_index": index, "item": item | {"status": "in_progress"}}
        )
        if item["type"] == "message":
            for piece in pieces(say.text):
                yield _named({"type": "response.output_text.delta", "content_index": 0, "delta": piece} | place)
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield _named({"type": "response.function_call_arguments.delta", "delta": piece} | place)
        yield _named({"type": "response.output_item.done", "output_index": index, "item": item})
    yield _named({"type": f"response.{body['status']}", "response": body})


# --- ollama


def _ollama_whole(say: Say, count: Count | None, model: str) -> Json:
    message: Json = {"role": "assistant", "content": say.text}
    if say.reasoning:
        message["thinking"] = say.reasoning
    if say.calls:
        message["tool_calls"] = [{"function": {"name": c.name, "arguments": _lenient(c)}} for c in say.calls]
    counts = {"prompt_eval_count": count.prompt, "eval_count": count.output} if count else {}
    reason = "length" if say.stop == "length" else "stop"
    return {"model": model, "message": message, "done": True, "done_reason": reason} | counts


def _ollama_lines(say: Say, count: Count | None, model: str) -> Iterator[Json]:
    whole_body = _ollama_whole(say, count, model)
    for piece in pieces(say.reasoning):
        yield {"model": model, "message": {"role": "assistant", "content": "", "thinking": piece}, "done": False}
    for piece in pieces(say.text):
        yield {"model": model, "message": {"role": "assistant", "content": piece}, "done": False}
    if say.calls:
        calls = whole_body["message"]["tool_calls"]
        yield {"model": model, "message": {"role": "assistant", "content": "", "tool_calls": calls}, "done": False}
    yield whole_body | {"message": {"role": "assistant", "content": ""}}


_WHOLE: dict[str, Callable[[Say, Count | None, str], Json]] = {
    "openai": _chat_whole,
    "anthropic": _anthropic_whole,
    "responses": _responses_whole,
    "ollama": _ollama_whole,
}
_STREAMS: dict[str, Callable[[Say, Count | None, str], Iterator[tuple[str, Json | str]]]] = {
    "openai": _chat_stream,
    "anthropic": _anthropic_stream,
    "responses": _responses_stream,
}
