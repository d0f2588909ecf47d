"""The wire of Anthropic's Messages API, and of the many servers that imitate it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from tinyagent.models.addresses import host_of
from tinyagent.models.anthropic_reply import AnthropicDecoder, decode_message
from tinyagent.models.payload import as_list, as_object, dump, dump_text, legal_id, legal_name, sent_arguments
from tinyagent.models.wire import Field, MessageCache, Reply, WireOptions, array, has_error, join_body

if TYPE_CHECKING:
    from anthropic.types import ToolParam

# The dated version that every imitation knows; the newer one refuses temperature (SDK 2.0, October 2026).
VERSION = "2023-06-01"
OFFICIAL_HOST = "api.anthropic.com"
DEFAULT_MAX_TOKENS = 8192  # the API demands a figure; every model since Claude 3.5 allows this one
MARK = b',"cache_control":{"type":"ephemeral"}}'
# Four marks are allowed. One goes on the system text; three on the newest ends of user messages, so that the entries
# of the last two requests are hit directly and never have to be found by the look-back of 20 blocks.
MARKED_ENDS = 3


class AnthropicWire:
    """Codec of `POST /v1/messages`."""

    path = "/v1/messages"
    framing: Literal["sse", "ndjson"] = "sse"

    def headers(self, api_key: str, *, base_url: str) -> dict[str, str]:
        """Imitations and company gateways read one header or the other, so they get both."""
        version = {"anthropic-version": VERSION}
        if not api_key:
            return version
        if host_of(base_url) == OFFICIAL_HOST:
            return {"x-api-key": api_key} | version
        return {"x-api-key": api_key, "authorization": f"Bearer {api_key}"} | version

    def encode(self, request: Request, options: WireOptions, *, cache: MessageCache | None = None) -> bytes:
        cache = cache or MessageCache()
        marks = options.cache_marks is not False
        fields: list[Field] = [("model", dump(options.model))]
        if request.system.strip():
            system = cache.part("system", request.system, options, lambda: _text_block(request.system))
            fields.append(("system", b"[%b]" % (_mark(system) if marks else system)))
        if request.tools:
            fields.append(("tools", cache.part("tools", request.tools, options, lambda: _tools(request.tools))))
        fields.append(("messages", _messages(request.messages, options, cache, marks=marks)))
        fields.append(("max_tokens", dump(request.max_output_tokens or DEFAULT_MAX_TOKENS)))
        fields += [(name, dump(value)) for name, value in _settings(options).items()]
        return join_body(fields)

    def is_error(self, event: str, data: Json) -> bool:
        return has_error(event, data)

    def decode(self, data: Json, options: WireOptions) -> Reply:
        return decode_message(data, options)

    def decoder(self, options: WireOptions) -> AnthropicDecoder:
        return AnthropicDecoder(options)


def _settings(options: WireOptions) -> Json:
    settings: Json = {}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.reasoning_effort == "none":
        settings["thinking"] = {"type": "disabled"}
    elif options.reasoning_effort:
        # thinking.enabled with a budget is refused by Claude 4.7 and later.
        settings["thinking"] = {"type": "adaptive"}
        settings["output_config"] = {"effort": options.reasoning_effort}
    return settings | options.extra | ({"stream": True} if options.stream else {})


def _tools(tools: Sequence[ToolSpec]) -> bytes:
    return dump([_tool(tool) for tool in tools])


def _tool(tool: ToolSpec) -> "ToolParam":
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _messages(messages: Sequence[Message], options: WireOptions, cache: MessageCache, *, marks: bool) -> list[bytes]:
    """User and assistant messages in turn: neighbours of one role are merged, tool results before text."""
    pieces = cache.messages(messages, options, _blocks)
    if messages and isinstance(last := messages[-1], AssistantMessage):
        pieces[-1] = _blocks(replace(last, text=last.text.rstrip(), wire=None), options)  # refused with white space
    turns: list[_Turn] = []
    for message, blocks in zip(messages, pieces, strict=True):
        role = b"assistant" if isinstance(message, AssistantMessage) else b"user"
        if not blocks:
            continue
        if not turns or turns[-1].role != role:
            turns.append(_Turn(role, []))
        turns[-1].add(blocks, first=isinstance(message, ToolMessage))
    ends = [turn for turn in turns if turn.role == b"user"][-MARKED_ENDS:]
    return array(turn.encode(marked=marks and turn in ends) for turn in turns)


@dataclass(slots=True, eq=False)
class _Turn:
    """A message as the API wants it, put together from one or more of ours. The first `results` blocks are results."""

    role: bytes
    blocks: list[bytes]
    results: int = 0

    def add(self, blocks: Sequence[bytes], *, first: bool) -> None:
        """Add results after those that are there, other blocks at the end."""
        if first:
            self.blocks[self.results : self.results] = blocks
            self.results += len(blocks)
        else:
            self.blocks += blocks

    def encode(self, *, marked: bool) -> list[bytes]:
        last = _mark(self.blocks[-1]) if marked else self.blocks[-1]
        return [b'{"role":"', self.role, b'","content":[', b",".join((*self.blocks[:-1], last)), b"]}"]


def _mark(block: bytes) -> bytes:
    return block[:-1] + MARK


def _blocks(message: Message, options: WireOptions) -> tuple[bytes, ...]:
    """The content blocks of one message; none for blank text, which the API refuses."""
    match message:
        case UserMessage():
            return (_text_block(message.text),) if message.text.strip() else ()
        case ToolMessage():
            flag = b',"is_error":true' if message.is_error else b""
            call_id = legal_id(message.call_id).encode()
            head = b'{"type":"tool_result","tool_use_id":"%s"%s,"content":' % (call_id, flag)
            return (b"".join((head, dump_text(message.text), b"}")),)
        case AssistantMessage():
            return _assistant_blocks(message, options)


def _text_block(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % dump_text(text)


def _assistant_blocks(message: AssistantMessage, options: WireOptions) -> tuple[bytes, ...]:
    uses = [_tool_use(call) for call in message.tool_calls]
    own = as_list(message.wire) if message.wire_format == options.wire_format else []
    kept = [as_object(block) for block in own]
    if sum(block.get("type") == "tool_use" for block in kept) != len(uses) or not kept:
        return ((_text_block(message.text),) if message.text.strip() else ()) + tuple(uses)
    calls = iter(uses)
    return tuple(next(calls) if block.get("type") == "tool_use" else dump(block) for block in kept)


def _tool_use(call: ToolCall) -> bytes:
    names = (legal_id(call.id).encode(), legal_name(call.name).encode())
    return b'{"type":"tool_use","id":"%s","name":"%s","input":%s}' % (*names, dump(sent_arguments(call)))
