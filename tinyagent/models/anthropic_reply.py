"""Replies of Anthropic's Messages API, whole or streamed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyagent.core.errors import ModelError
from tinyagent.core.types import AssistantMessage, Json, StopReason, Usage
from tinyagent.models.payload import as_count, as_list, as_object, as_text, load, read_call, with_unique_ids
from tinyagent.models.wire import Reply, WireOptions


def decode_message(data: Json, options: WireOptions) -> Reply:
    """The reply in a whole body. Raises ModelError `malformed` or `overflow`."""
    if "content" not in data:
        raise ModelError("the answer has no content", kind="malformed", billed=True)
    content = data["content"]
    listed = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
    blocks = [_Block(as_object(block), closed=True) for block in listed]
    return _reply(blocks, options, stop=as_text(data.get("stop_reason")), envelope=data)


@dataclass(slots=True)
class _Block:
    """A content block; while it streams, its pieces are beside it."""

    data: Json
    closed: bool = False
    pieces: list[str] = field(default_factory=list[str])
    signature: list[str] = field(default_factory=list[str])


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

    @property
    def heard(self) -> str:
        return "".join(piece for block in self._blocks.values() for piece in block.pieces)

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
            block.signature.append(as_text(delta.get("signature")))
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
            if block.signature:
                block.data["signature"] = as_text(block.data.get("signature")) + "".join(block.signature)
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
