"""The wire of Anthropic's Messages API, and of the many servers that imitate it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

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
    legal_id,
    legal_name,
    load,
    read_call,
    sent_arguments,
    with_unique_ids,
)
from tinyagent.models.wire import MessageCache, Reply, WireOptions, has_error, join_body, join_list

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
        if urlsplit(base_url).hostname == OFFICIAL_HOST:
            return {"x-api-key": api_key} | version
        return {"x-api-key": api_key, "authorization": f"Bearer {api_key}"} | version

    def encode(self, request: Request, options: WireOptions, *, cache: MessageCache | None = None) -> bytes:
        cache = cache or MessageCache()
        marks = options.cache_marks is not False
        fields = [("model", dump(options.model))]
        if request.system.strip():
            system = cache.part("system", request.system, options, lambda: _text_block(request.system))
            fields.append(("system", join_list([_mark(system) if marks else system])))
        if request.tools:
            fields.append(("tools", cache.part("tools", request.tools, options, lambda: _tools(request.tools))))
        fields.append(("messages", _messages(request.messages, options, cache, marks=marks)))
        fields.append(("max_tokens", dump(request.max_output_tokens or DEFAULT_MAX_TOKENS)))
        fields += [(name, dump(value)) for name, value in _settings(options).items()]
        return join_body(fields)

    def is_error(self, event: str, data: Json) -> bool:
        return has_error(event, data)

    def decode(self, data: Json, options: WireOptions) -> Reply:
        if "content" not in data:
            raise ModelError("the answer has no content", kind="malformed", billed=True)
        content: list[Json] = []
        if isinstance(data["content"], str):
            content = [{"type": "text", "text": data["content"]}]
        else:
            content = [as_object(block) for block in as_list(data["content"])]
        blocks = [_Block(block, closed=True) for block in content]
        return _reply(blocks, options, stop=as_text(data.get("stop_reason")), envelope=data)

    def decoder(self, options: WireOptions) -> "AnthropicDecoder":
        return AnthropicDecoder(options)


@dataclass(slots=True)
class _Block:
    """A content block; while it streams, its pieces are beside it."""

    data: Json
    closed: bool = False
    pieces: list[str] = field(default_factory=list[str])


class AnthropicDecoder:
    """Puts a streamed message together. Usage of `message_delta` is cumulative: it overwrites, it is never added."""

    def __init__(self, options: WireOptions) -> None:
        self._options = options
        self._envelope: Json = {}
        self._usage: Json = {}
        self._blocks: dict[object, _Block] = {}
        self._stop = ""
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return _usage(self._usage)

    def feed(self, event: str, data: Json) -> str:
        match data.get("type"):
            case "message_start":
                self._envelope = as_object(data.get("message"))
                self._usage |= as_object(self._envelope.get("usage"))
            case "content_block_start":
                self._blocks[data.get("index")] = _Block(dict(as_object(data.get("content_block"))))
                return as_text(as_object(data.get("content_block")).get("text"))
            case "content_block_delta":
                block = self._blocks.setdefault(data.get("index"), _Block({}))
                return _add_delta(block, as_object(data.get("delta")))
            case "content_block_stop":
                if block := self._blocks.get(data.get("index")):
                    block.closed = True
            case "message_delta":
                self._stop = as_text(as_object(data.get("delta")).get("stop_reason")) or self._stop
                self._usage |= {k: v for k, v in as_object(data.get("usage")).items() if v is not None}
            case "message_stop":
                self.ended = True
            case _:
                pass  # pings, and events of later versions
        return ""

    def finish(self) -> Reply:
        if not self.ended and not self._stop:
            raise ModelError("the stream ended without its final event", kind="stream_cut", billed=True)
        blocks = list(self._blocks.values())
        for block in blocks:
            _close(block)
        return _reply(blocks, self._options, stop=self._stop, envelope=self._envelope | {"usage": self._usage})


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


def _messages(messages: Sequence[Message], options: WireOptions, cache: MessageCache, *, marks: bool) -> bytes:
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
            turns.append(_Turn(role))
        (turns[-1].results if isinstance(message, ToolMessage) else turns[-1].others).extend(blocks)
    ends = [turn for turn in turns if turn.role == b"user"][-MARKED_ENDS:]
    return join_list([turn.encode(marked=marks and turn in ends) for turn in turns])


@dataclass(slots=True, eq=False)
class _Turn:
    """A message as the API wants it, put together from one or more of ours."""

    role: bytes
    results: list[bytes] = field(default_factory=list[bytes])
    others: list[bytes] = field(default_factory=list[bytes])

    def encode(self, *, marked: bool) -> bytes:
        blocks = self.results + self.others
        if marked:
            blocks[-1] = _mark(blocks[-1])
        return b'{"role":"%s","content":%s}' % (self.role, join_list(blocks))


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
            return (b'{"type":"tool_result","tool_use_id":"%s"%s,"content":%s}' % (call_id, flag, dump(message.text)),)
        case AssistantMessage():
            return _assistant_blocks(message, options)


def _text_block(text: str) -> bytes:
    return b'{"type":"text","text":' + dump(text) + b"}"


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


def _add_delta(block: _Block, delta: Json) -> str:
    match delta.get("type"):
        case "text_delta":
            block.data.setdefault("type", "text")
            block.pieces.append(as_text(delta.get("text")))
            return as_text(delta.get("text"))
        case "thinking_delta":
            block.data.setdefault("type", "thinking")
            block.pieces.append(as_text(delta.get("thinking")))
        case "signature_delta":
            block.data["signature"] = as_text(block.data.get("signature")) + as_text(delta.get("signature"))
        case "input_json_delta":
            block.pieces.append(as_text(delta.get("partial_json")))
        case _:
            pass
    return ""


def _close(block: _Block) -> None:
    """Put the pieces of a streamed block where a whole body has them."""
    text = "".join(block.pieces)
    match block.data.get("type"):
        case "text":
            block.data["text"] = as_text(block.data.get("text")) + text
        case "thinking":
            block.data["thinking"] = as_text(block.data.get("thinking")) + text
        case "tool_use" if text:
            block.data["input"] = text
        case "tool_use" if not block.closed:
            block.data["input"] = ""  # cut before its first piece; the start's {} is not the model's word
        case kind if text and kind:
            try:
                block.data["input"] = load(text)
            except ValueError:
                block.data["input"] = {}  # a server's own tool, never run by us
        case _:
            pass


def _reply(blocks: Sequence[_Block], options: WireOptions, *, stop: str, envelope: Json) -> Reply:
    usage = _usage(as_object(envelope.get("usage")))
    if stop == "model_context_window_exceeded":
        raise ModelError("the reply reached the end of the context window", kind="overflow", usage=usage, billed=True)
    kept = [block.data for block in blocks if _is_sendable(block, cut=stop == "max_tokens")]
    calls = with_unique_ids(
        [
            read_call(as_text(b.get("id")), as_text(b.get("name")), b.get("input"), cut=stop == "max_tokens")
            for b in kept
            if b.get("type") == "tool_use"
        ]
    )
    message = AssistantMessage(
        text="".join(as_text(b.get("text")) for b in kept if b.get("type") == "text"),
        tool_calls=calls,
        stop=_stop(stop, has_calls=bool(calls)),
        wire=(wire := _own_payload(kept)),
        wire_format=options.wire_format if wire else "",
        reasoning="".join(as_text(b.get("thinking")) for b in kept if b.get("type") == "thinking"),
    )
    return Reply(
        message,
        usage,
        usage.output_tokens if usage else None,
        model=as_text(envelope.get("model")),
        request_id=as_text(envelope.get("id")),
    )


def _is_sendable(block: _Block, *, cut: bool) -> bool:
    """Whether the API would take the block back: no blank text, no thinking that was cut before its signature."""
    match block.data.get("type"):
        case "text":
            return bool(as_text(block.data.get("text")).strip())
        case "thinking":
            return not (cut and not block.closed) or bool(block.data.get("signature"))
        case _:
            return bool(block.data)


def _own_payload(blocks: Sequence[Json]) -> list[Json] | None:
    """The blocks to send back as they came; None where text and calls say it all.

    A tool_use block is a mark of its place only: the call itself is in `tool_calls`.
    """
    kinds = [block.get("type") for block in blocks]
    uses = ["tool_use"] * kinds.count("tool_use")
    if kinds in (uses, ["text", *uses]):
        return None
    return [{"type": "tool_use"} if block.get("type") == "tool_use" else block for block in blocks]


def _stop(reason: str, *, has_calls: bool) -> StopReason:
    """Anything unknown is judged by the content: imitations say "end_turn" beside a call."""
    match reason:
        case "max_tokens":
            return "length"
        case "refusal":
            return "refusal"
        case _:
            return "tool_calls" if has_calls else "end"


def _usage(data: Json) -> Usage | None:
    """Anthropic's input_tokens leave both cache counts out. No input at all cannot be true: unknown."""
    read = as_count(data.get("cache_read_input_tokens"))
    write = as_count(data.get("cache_creation_input_tokens"))
    total = as_count(data.get("input_tokens")) + read + write
    if not total:
        return None
    return Usage(
        input_tokens=total,
        output_tokens=as_count(data.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=as_count(as_object(data.get("output_tokens_details")).get("thinking_tokens")),
    )
