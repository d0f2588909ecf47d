"""The wire of OpenAI's Responses API, used without state on the server: every request carries all items."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tinyagent.core.errors import ModelError
from tinyagent.core.types import (
    AssistantMessage,
    Json,
    Message,
    Request,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from tinyagent.models.payload import (
    as_count,
    as_list,
    as_object,
    as_text,
    dump,
    dump_arguments,
    dump_text,
    legal_id,
    legal_name,
    read_call,
    sent_arguments,
    with_unique_ids,
)
from tinyagent.models.wire import Field, MessageCache, Reply, WireOptions, array, has_error, join_body

if TYPE_CHECKING:
    from openai.types.responses import FunctionToolParam

FINAL_EVENTS = ("response.completed", "response.incomplete", "response.done")


class OpenAIResponsesWire:
    """Codec of `POST /responses`."""

    path = "/responses"
    framing: Literal["sse", "ndjson"] = "sse"

    def headers(self, api_key: str, *, base_url: str) -> dict[str, str]:
        return {"authorization": f"Bearer {api_key}"} if api_key else {}

    def encode(self, request: Request, options: WireOptions, *, cache: MessageCache | None = None) -> bytes:
        cache = cache or MessageCache()
        fields: list[Field] = [("model", dump(options.model))]
        if request.system.strip():
            system = cache.part("system", request.system, options, lambda: dump_text(request.system))
            fields.append(("instructions", system))
        pieces = cache.messages(request.messages, options, _items)
        fields.append(("input", array((item,) for items in pieces for item in items)))
        if request.tools:
            fields.append(("tools", cache.part("tools", request.tools, options, lambda: _tools(request.tools))))
        if request.max_output_tokens is not None:
            fields.append(("max_output_tokens", dump(request.max_output_tokens)))
        fields += [(name, dump(value)) for name, value in _settings(options).items()]
        return join_body(fields)

    def is_error(self, event: str, data: Json) -> bool:
        return has_error(event, data) or data.get("type") == "response.failed" or data.get("status") == "failed"

    def decode(self, data: Json, options: WireOptions) -> Reply:
        if not isinstance(data.get("output"), list):
            raise ModelError("the answer has no output", kind="malformed", usage=_usage(data), billed=True)
        return _reply([as_object(item) for item in as_list(data["output"])], data, options)

    def decoder(self, options: WireOptions) -> "OpenAIResponsesDecoder":
        return OpenAIResponsesDecoder(options)


class OpenAIResponsesDecoder:
    """Puts a streamed response together: the finished items, and the final event with status and usage."""

    def __init__(self, options: WireOptions) -> None:
        self._options = options
        self._items: list[Json] = []
        self._response: Json = {}
        self._deltas: list[str] = []
        self._seen = False
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return _usage(self._response)

    @property
    def heard(self) -> str:
        return "".join(self._deltas)

    def feed(self, event: str, data: Json) -> str:
        self._deltas.append(as_text(data.get("delta")))
        match data.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return as_text(data.get("delta"))
            case "response.output_item.done":
                self._items.append(as_object(data.get("item")))
            case str(kind) if kind in FINAL_EVENTS:
                self._response = as_object(data.get("response"))
                self.ended = True
            case _:
                pass
        self._seen = self._seen or as_text(data.get("type")).startswith("response.")
        return ""

    def finish(self) -> Reply:
        if not self.ended:
            kind = "stream_cut" if self._seen else "malformed"
            raise ModelError("the stream ended without its final event", kind=kind, billed=True)
        items = [as_object(item) for item in as_list(self._response.get("output"))]
        return _reply(items or self._items, self._response, self._options)


def _settings(options: WireOptions) -> Json:
    settings: Json = {"store": False}
    if options.encrypted_reasoning:
        settings["include"] = ["reasoning.encrypted_content"]
    if options.reasoning_effort:
        settings["reasoning"] = {"effort": options.reasoning_effort, "summary": "auto"}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.cache_key:
        settings["prompt_cache_key"] = options.cache_key
    return settings | options.extra | ({"stream": True} if options.stream else {})


def _tools(tools: Sequence[ToolSpec]) -> bytes:
    return dump([_tool(tool) for tool in tools])


def _tool(tool: ToolSpec) -> "FunctionToolParam":
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,  # true by default here, and then optional parameters are refused
    }


def _items(message: Message, options: WireOptions) -> tuple[bytes, ...]:
    """The input items of one message; none for blank text."""
    match message:
        case UserMessage():
            return (b'{"role":"user","content":%b}' % dump_text(message.text),) if message.text.strip() else ()
        case ToolMessage():
            call_id = legal_id(message.call_id).encode()
            head = b'{"type":"function_call_output","call_id":"%s","output":' % call_id
            return (b"".join((head, dump_text(message.text), b"}")),)
        case AssistantMessage():
            return _assistant_items(message, options)


def _assistant_items(message: AssistantMessage, options: WireOptions) -> tuple[bytes, ...]:
    calls = [_call(call) for call in message.tool_calls]
    own = as_list(message.wire) if message.wire_format == options.wire_format else []
    kept = [as_object(item) for item in own]
    if not kept or sum(item.get("type") == "function_call" for item in kept) != len(calls):
        text = b'{"type":"message","role":"assistant","content":%b}' % dump_text(message.text)
        return ((text,) if message.text.strip() else ()) + tuple(calls)
    upcoming = iter(calls)
    return tuple(next(upcoming) if item.get("type") == "function_call" else dump(item) for item in kept)


def _call(call: ToolCall) -> bytes:
    names = (legal_id(call.id).encode(), legal_name(call.name).encode())
    arguments = dump_text(dump_arguments(sent_arguments(call)))
    return b'{"type":"function_call","call_id":"%s","name":"%s","arguments":%s}' % (*names, arguments)


def _reply(items: Sequence[Json], response: Json, options: WireOptions) -> Reply:
    usage = _usage(response)
    reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
    cut = reason == "max_output_tokens"
    calls = with_unique_ids(
        [
            read_call(as_text(item.get("call_id")), as_text(item.get("name")), item.get("arguments"), cut=cut)
            for item in items
            if item.get("type") == "function_call"
        ]
    )
    parts = [as_object(part) for item in items for part in as_list(item.get("content")) if _is_message(item)]
    refusal = "".join(as_text(part.get("refusal")) for part in parts)
    message = AssistantMessage(
        text="".join(as_text(part.get("text")) for part in parts) or refusal,
        tool_calls=calls,
        stop="refusal" if refusal else _stop(reason, has_calls=bool(calls)),
        wire=(wire := _own_payload(items)),
        wire_format=options.wire_format if wire else "",
        reasoning="\n\n".join(_summary(item) for item in items if item.get("type") == "reasoning").strip(),
    )
    is_kept = any(item.get("type") == "reasoning" for item in wire or ())
    return Reply(
        message,
        usage,
        usage and usage.output_tokens - (0 if is_kept else usage.reasoning_tokens),
        model=as_text(response.get("model")),
        request_id=as_text(response.get("id")),
    )


def _is_message(item: Json) -> bool:
    return item.get("type") == "message"


def _own_payload(items: Sequence[Json]) -> list[Json] | None:
    """The items to send back; None where text and calls say it all.

    Reasoning goes back only with its encrypted content and with the item that follows it: either alone is refused.
    A function_call is a mark of its place only. Items are sent without their ids, since an id ties an item to
    reasoning that may not be there.
    """
    kept: list[Json] = []
    for item in items:
        match item.get("type"):
            case "reasoning" if item.get("encrypted_content"):
                kept.append({key: value for key, value in item.items() if key != "status"})
            case "function_call":
                kept.append({"type": "function_call"})
            case "message":
                text = "".join(as_text(as_object(part).get("text")) for part in as_list(item.get("content")))
                if text.strip():
                    kept.append(_text_item(text, item.get("phase")))
            case _:
                pass
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    says_more = any(item.get("type") == "reasoning" or "phase" in item for item in kept)
    return kept if says_more else None


def _text_item(text: str, phase: object) -> Json:
    """`phase` tells commentary from the final answer; newer models want it back."""
    item: Json = {"type": "message", "role": "assistant", "content": text}
    return item | {"phase": phase} if phase else item


def _summary(item: Json) -> str:
    return "\n\n".join(as_text(as_object(part).get("text")) for part in as_list(item.get("summary")))


def _stop(reason: str, *, has_calls: bool) -> StopReason:
    match reason:
        case "max_output_tokens":
            return "length"
        case "content_filter":
            return "refusal"
        case _:
            return "tool_calls" if has_calls else "end"


def _usage(response: Json) -> Usage | None:
    """Input includes the cached tokens here. No input at all cannot be true: unknown."""
    data = as_object(response.get("usage"))
    total = as_count(data.get("input_tokens"))
    if not total:
        return None
    details = as_object(data.get("input_tokens_details"))
    read = min(as_count(details.get("cached_tokens")), total)
    return Usage(
        input_tokens=total,
        output_tokens=as_count(data.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=min(as_count(details.get("cache_write_tokens")), total - read),
        reasoning_tokens=as_count(as_object(data.get("output_tokens_details")).get("reasoning_tokens")),
    )
