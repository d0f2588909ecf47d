"""The wire of OpenAI's Chat Completions API, and of the hundred servers that speak a dialect of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from tinyagent.models.chat_usage import read_usage
from tinyagent.models.payload import (
    as_cost,
    as_list,
    as_object,
    as_text,
    dump,
    dump_arguments,
    legal_id,
    legal_name,
    load,
    read_call,
    sent_arguments,
    with_unique_ids,
)
from tinyagent.models.wire import MessageCache, Reply, WireOptions, has_error, join_body, join_list

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionFunctionToolParam

LENGTH_REASONS = ("length", "max_tokens", "MAX_TOKENS")
REFUSAL_REASONS = ("refusal", "content_filter", "safety", "SAFETY", "sensitive", "PROHIBITED_CONTENT", "RECITATION")
MARK = b',"cache_control":{"type":"ephemeral"}}]'
MARKED_MESSAGES = 3  # beside the system text; Claude through OpenRouter takes four marks


class OpenAIChatWire:
    """Codec of `POST /chat/completions`."""

    path = "/chat/completions"
    framing: Literal["sse", "ndjson"] = "sse"

    def headers(self, api_key: str, *, base_url: str) -> dict[str, str]:
        return {"authorization": f"Bearer {api_key}"} if api_key else {}

    def encode(self, request: Request, options: WireOptions, *, cache: MessageCache | None = None) -> bytes:
        cache = cache or MessageCache()
        fields = [("model", dump(options.model)), ("messages", _messages(request, options, cache))]
        if request.tools:
            fields.append(("tools", cache.part("tools", request.tools, options, lambda: _tools(request.tools))))
        if request.max_output_tokens is not None:
            fields.append((options.max_tokens_field, dump(request.max_output_tokens)))
        fields += [(name, dump(value)) for name, value in _settings(options).items()]
        return join_body(fields)

    def is_error(self, event: str, data: Json) -> bool:
        return has_error(event, data)

    def decode(self, data: Json, options: WireOptions) -> Reply:
        if not as_list(data.get("choices")):
            raise ModelError("the answer has no choices", kind="malformed", usage=read_usage(data), billed=True)
        choice = as_object(as_list(data["choices"])[0])
        draft = _Draft()
        draft.add(as_object(choice.get("message")))
        return draft.reply(options, finish=as_text(choice.get("finish_reason")), envelope=data, choice=choice)

    def decoder(self, options: WireOptions) -> "OpenAIChatDecoder":
        return OpenAIChatDecoder(options)


class OpenAIChatDecoder:
    """Puts a streamed completion together. Usage may come with any chunk, or in one after the finish reason."""

    def __init__(self, options: WireOptions) -> None:
        self._options = options
        self._draft = _Draft()
        self._envelope: Json = {}
        self._choice: Json = {}
        self._finish = ""
        self._has_choices = False
        self.ended = False  # only [DONE] ends this stream, and the caller sees that

    @property
    def usage(self) -> Usage | None:
        return read_usage(self._envelope, self._choice)

    def feed(self, event: str, data: Json) -> str:
        self._envelope |= {key: value for key, value in data.items() if key != "choices" and value}
        text = ""
        for choice in [as_object(choice) for choice in as_list(data.get("choices"))][:1]:
            self._has_choices = True
            self._choice |= {key: value for key, value in choice.items() if key == "usage" and value}
            self._finish = as_text(choice.get("finish_reason")) or self._finish
            text = self._draft.add(as_object(choice.get("delta")) or as_object(choice.get("message")))
        return text

    def finish(self) -> Reply:
        if not self._has_choices:
            raise ModelError("the stream has no choices", kind="malformed", billed=True)
        if not self._finish:
            raise ModelError("the stream ended without a finish reason", kind="stream_cut", billed=True)
        return self._draft.reply(self._options, finish=self._finish, envelope=self._envelope, choice=self._choice)


@dataclass(slots=True)
class _CallDraft:
    index: object
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    whole: object = None  # arguments that came as an object
    extra: object = None  # Gemini's thought signature

    def is_complete(self) -> bool:
        if self.whole is not None:
            return True
        try:
            return isinstance(load("".join(self.arguments)), dict)
        except ValueError:
            return False


@dataclass(slots=True)
class _Draft:
    """A reply while its deltas come in; a whole message is one delta."""

    text: list[str] = field(default_factory=list[str])
    parts: list[object] = field(default_factory=list[object])  # content as a list, with Mistral's thinking chunks
    reasoning: list[str] = field(default_factory=list[str])
    refusal: list[str] = field(default_factory=list[str])
    own: Json = field(default_factory=dict[str, object])  # fields that must go back
    calls: list[_CallDraft] = field(default_factory=list[_CallDraft])

    def add(self, delta: Json) -> str:
        """Take in one delta; returns the answer text that it adds."""
        content = delta.get("content")
        parts = as_list(content)
        self.parts += parts
        text = as_text(content) + "".join(as_text(as_object(part).get("text")) for part in parts)
        self.text.append(text)
        self.reasoning.append(as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning")))
        self.refusal.append(as_text(delta.get("refusal")))
        if isinstance(piece := delta.get("reasoning_content"), str):
            self.own["reasoning_content"] = as_text(self.own.get("reasoning_content")) + piece
        if details := as_list(delta.get("reasoning_details")):
            self.own["reasoning_details"] = [*as_list(self.own.get("reasoning_details")), *details]
        for call in as_list(delta.get("tool_calls")):
            self._add_call(as_object(call))
        return text

    def _add_call(self, delta: Json) -> None:
        function = as_object(delta.get("function"))
        call = self._target(delta, function)
        call.id = call.id or as_text(delta.get("id"))
        call.name = call.name or as_text(function.get("name"))
        call.extra = delta.get("extra_content") or call.extra
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif arguments is not None:
            call.whole = arguments

    def _target(self, delta: Json, function: Json) -> _CallDraft:
        """The call that a delta continues, or a new one.

        Servers leave out the index or repeat one for every call, leave out ids or repeat them with every piece.
        """
        index, call_id = delta.get("index"), as_text(delta.get("id"))
        same = [c for c in self.calls if (c.index == index if index is not None else not call_id or c.id == call_id)]
        if same:
            last = same[-1]
            is_other = bool(call_id and last.id and call_id != last.id)
            starts_again = bool(as_text(function.get("name")) and last.name and last.is_complete())
            if not is_other and not starts_again:
                return last
        self.calls.append(_CallDraft(index))
        return self.calls[-1]

    def reply(self, options: WireOptions, *, finish: str, envelope: Json, choice: Json) -> Reply:
        usage = read_usage(envelope, choice)
        if finish == "model_context_window_exceeded":  # Z.AI
            words = "the reply reached the end of the context window"
            raise ModelError(words, kind="overflow", usage=usage, billed=True)
        if finish in ("error", "network_error"):  # OpenRouter, Z.AI
            raise ModelError(f"the provider ended its reply with {finish!r}", kind="overloaded", billed=True)
        cut = finish in LENGTH_REASONS
        calls = with_unique_ids(
            [read_call(c.id, c.name, "".join(c.arguments) if c.whole is None else c.whole, cut=cut) for c in self.calls]
        )
        refusal = "".join(self.refusal)
        message = AssistantMessage(
            text="".join(self.text) or refusal,
            tool_calls=calls,
            stop="refusal" if refusal else _stop(finish, has_calls=bool(calls)),
            wire=(wire := self._own_payload(options)),
            wire_format=options.wire_format if wire else "",
            reasoning="".join(self.reasoning),
        )
        return Reply(
            message,
            usage,
            _reply_tokens(usage, is_kept=bool(wire)),
            model=as_text(envelope.get("model")),
            request_id=as_text(envelope.get("id")),
            cost_usd=as_cost(as_object(envelope.get("usage")).get("cost")),
        )

    def _own_payload(self, options: WireOptions) -> Json | None:
        own: Json = {key: value for key, value in self.own.items() if key in options.echo}
        if any(as_object(part).get("type") not in ("text", None) for part in self.parts):
            own["content"] = self.parts
        if any(call.extra for call in self.calls):
            own["extra_content"] = [call.extra for call in self.calls]
        return own or None


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


def _messages(request: Request, options: WireOptions, cache: MessageCache) -> bytes:
    """Neighbouring user messages become one: strict chat templates want the roles in turn."""
    pieces = cache.messages(request.messages, options, _pieces)
    merged: list[_Piece] = []
    if request.system.strip():
        system = cache.part("system", request.system, options, lambda: dump(request.system))
        merged.append(_Piece(b'{"role":"%s","content":' % options.system_role.encode(), system, b"}"))
    is_user = False
    for message, encoded in zip(request.messages, pieces, strict=True):
        if not encoded:
            continue
        piece = _Piece(*encoded)
        if is_user and isinstance(message, UserMessage):
            merged[-1].content = merged[-1].content[:-1] + rb"\n\n" + piece.content[1:]
        else:
            merged.append(piece)
        is_user = isinstance(message, UserMessage)
    if options.cache_marks:
        _mark(merged)
    return join_list([piece.head + piece.content + piece.tail for piece in merged])


@dataclass(slots=True)
class _Piece:
    """A message as JSON in three parts, the middle one its content."""

    head: bytes
    content: bytes
    tail: bytes


def _mark(pieces: Sequence[_Piece]) -> None:
    """Set Anthropic's marks on the system text and the newest user and tool messages."""
    markable = [p for p in pieces if p.content.startswith(b'"') and not p.head.startswith(b'{"role":"assistant"')]
    system = [p for p in markable[:1] if p is pieces[0]]
    for piece in [*system, *[p for p in markable if p not in system][-MARKED_MESSAGES:]]:
        piece.content = b'[{"type":"text","text":' + piece.content + MARK


def _pieces(message: Message, options: WireOptions) -> tuple[bytes, ...]:
    """Head, content and tail of one message; nothing for an empty one, which some servers refuse."""
    match message:
        case UserMessage():
            return (b'{"role":"user","content":', dump(message.text), b"}") if message.text.strip() else ()
        case ToolMessage():
            head = b'{"role":"tool","tool_call_id":"%s","content":' % legal_id(message.call_id).encode()
            return (head, dump(message.text), b"}")
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
        calls = [_call(call, extra) for call, extra in zip(message.tool_calls, matching, strict=True)]
        tail += b',"tool_calls":' + join_list(calls)
    # "" beside calls: null is legal, but llama-cpp-python answers it with 500.
    content = dump(own.get("content", message.text))
    return (b'{"role":"assistant","content":', content, tail + b"}")


def _call(call: ToolCall, extra: object) -> bytes:
    """A call, with Gemini's thought signature where it came with one."""
    names = (legal_id(call.id).encode(), legal_name(call.name).encode())
    arguments = dump(dump_arguments(sent_arguments(call)))
    signature = b',"extra_content":' + dump(extra) if extra else b""
    return b'{"id":"%s","type":"function","function":{"name":"%s","arguments":%s}%s}' % (*names, arguments, signature)


def _stop(finish: str, *, has_calls: bool) -> StopReason:
    """Anything unknown is judged by the content: "stop" beside a call is common."""
    if finish in LENGTH_REASONS:
        return "length"
    if finish in REFUSAL_REASONS:
        return "refusal"
    return "tool_calls" if has_calls else "end"


def _reply_tokens(usage: Usage | None, *, is_kept: bool) -> int | None:
    """Reasoning that does not go back leaves the context."""
    if usage is None:
        return None
    return usage.output_tokens if is_kept else usage.output_tokens - usage.reasoning_tokens
