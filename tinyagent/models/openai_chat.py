"""The wire of OpenAI's Chat Completions API, and of the hundred servers that speak a dialect of it."""

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
from tinyagent.models.chat_reply import OpenAIChatDecoder, decode_completion
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
from tinyagent.models.wire import Field, MessageCache, Reply, WireOptions, array, has_error, join_body

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionFunctionToolParam

TEXT_PART = b'[{"type":"text","text":'
MARK = b',"cache_control":{"type":"ephemeral"}}]'
# Documented for calls that another model made (ai.google.dev/gemini-api/docs/thought-signatures, November 2026).
STAND_IN_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
MARKED_MESSAGES = 3  # beside the system text; Claude through OpenRouter takes four marks


class OpenAIChatWire:
    """Codec of `POST /chat/completions`."""

    path = "/chat/completions"
    framing: Literal["sse", "ndjson"] = "sse"

    def headers(self, api_key: str, *, base_url: str) -> dict[str, str]:
        return {"authorization": f"Bearer {api_key}"} if api_key else {}

    def encode(self, request: Request, options: WireOptions, *, cache: MessageCache | None = None) -> bytes:
        cache = cache or MessageCache()
        fields: list[Field] = [("model", dump(options.model)), ("messages", _messages(request, options, cache))]
        if request.tools:
            fields.append(("tools", cache.part("tools", request.tools, options, lambda: _tools(request.tools))))
        if request.max_output_tokens is not None:
            fields.append((options.max_tokens_field, dump(request.max_output_tokens)))
        fields += [(name, dump(value)) for name, value in _settings(options).items()]
        return join_body(fields)

    def is_error(self, event: str, data: Json) -> bool:
        return has_error(event, data)

    def decode(self, data: Json, options: WireOptions) -> Reply:
        return decode_completion(data, options)

    def decoder(self, options: WireOptions) -> OpenAIChatDecoder:
        return OpenAIChatDecoder(options)


def _settings(options: WireOptions) -> Json:
    settings: Json = {}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.reasoning_effort:
        settings["reasoning_effort"] = options.reasoning_effort
    if options.cache_key:
        settings["prompt_cache_key"] = options.cache_key
    settings |= options.extra
    if options.stream:
        settings["stream"] = True
        if options.stream_usage:
            settings["stream_options"] = {"include_usage": True}
    return settings


def _tools(tools: Sequence[ToolSpec]) -> bytes:
    return dump([_tool(tool) for tool in tools])


def _tool(tool: ToolSpec) -> "ChatCompletionFunctionToolParam":
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _messages(request: Request, options: WireOptions, cache: MessageCache) -> list[bytes]:
    """Neighbouring user messages become one: strict chat templates want the roles in turn."""
    pieces = cache.messages(request.messages, options, _pieces)
    merged: list[Sequence[bytes]] = []
    if request.system.strip():
        system = cache.part("system", request.system, options, lambda: dump_text(request.system))
        merged.append((b'{"role":"%s","content":' % options.system_role.encode(), system, b"}"))
    is_user = False
    for message, piece in zip(request.messages, pieces, strict=True):
        if not piece:
            continue
        if is_user and isinstance(message, UserMessage):
            head, content, tail = merged[-1]
            merged[-1] = (head, content[:-1] + rb"\n\n" + piece[1][1:], tail)
        else:
            merged.append(piece)
        is_user = isinstance(message, UserMessage)
    return array(_marked(merged) if options.cache_marks else merged)


def _marked(pieces: Sequence[Sequence[bytes]]) -> Sequence[Sequence[bytes]]:
    """With Anthropic's marks on the system text and the newest user and tool messages."""
    is_markable = [c.startswith(b'"') and not h.startswith(b'{"role":"assistant"') for h, c, _ in pieces]
    markable = [n for n, markable in enumerate(is_markable) if markable]
    chosen = {*markable[-MARKED_MESSAGES:], *(n for n in markable[:1] if n == 0)}
    return [(h, TEXT_PART + c + MARK, t) if n in chosen else (h, c, t) for n, (h, c, t) in enumerate(pieces)]


def _pieces(message: Message, options: WireOptions) -> tuple[bytes, ...]:
    """Head, content and tail of one message; nothing for an empty one, which some servers refuse."""
    match message:
        case UserMessage():
            return (b'{"role":"user","content":', dump_text(message.text), b"}") if message.text.strip() else ()
        case ToolMessage():
            head = b'{"role":"tool","tool_call_id":"%s","content":' % legal_id(message.call_id).encode()
            return (head, dump_text(message.text), b"}")
        case AssistantMessage():
            return _assistant_pieces(message, options)


def _assistant_pieces(message: AssistantMessage, options: WireOptions) -> tuple[bytes, ...]:
    own = as_object(message.wire) if message.wire_format == options.wire_format else {}
    if not message.text.strip() and not message.tool_calls and not own:
        return ()
    echoed: Json = {key: own[key] for key in options.echo if key in own}
    if options.blank_reasoning and message.tool_calls:
        echoed.setdefault("reasoning_content", "")
    tail = b"," + dump(echoed)[1:-1] if echoed else b""
    if message.tool_calls:
        extras = as_list(own.get("extra_content"))
        matching = extras if len(extras) == len(message.tool_calls) else [None] * len(message.tool_calls)
        if options.stand_in_signature and not any(matching):
            matching = [STAND_IN_SIGNATURE, *matching[1:]]
        calls = [_call(call, extra) for call, extra in zip(message.tool_calls, matching, strict=True)]
        tail += b',"tool_calls":[%b]' % b",".join(calls)
    # "" beside calls: null is legal, but llama-cpp-python answers it with 500.
    content = dump(own.get("content", message.text))
    return (b'{"role":"assistant","content":', content, tail + b"}")


def _call(call: ToolCall, extra: object) -> bytes:
    """A call, with Gemini's thought signature where it came with one."""
    names = (legal_id(call.id).encode(), legal_name(call.name).encode())
    arguments = dump_text(dump_arguments(sent_arguments(call)))
    signature = b',"extra_content":' + dump(extra) if extra else b""
    return b'{"id":"%s","type":"function","function":{"name":"%s","arguments":%s}%s}' % (*names, arguments, signature)
