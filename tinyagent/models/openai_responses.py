"""The wire of OpenAI's Responses API, used without state on the server: every request carries all items."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tinyagent.core.types import (
    AssistantMessage,
    Json,
    Message,
    Request,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from tinyagent.models.payload import (
    as_list,
    as_object,
    dump,
    dump_arguments,
    dump_text,
    legal_id,
    legal_name,
    sent_arguments,
)
from tinyagent.models.responses_reply import OpenAIResponsesDecoder, decode_response
from tinyagent.models.wire import Field, MessageCache, Reply, WireOptions, array, has_error, join_body

if TYPE_CHECKING:
    from openai.types.responses import FunctionToolParam


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
        return decode_response(data, options)

    def decoder(self, options: WireOptions) -> OpenAIResponsesDecoder:
        return OpenAIResponsesDecoder(options)


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
