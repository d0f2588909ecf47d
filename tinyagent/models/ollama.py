"""The wire of Ollama's own chat API.

Its OpenAI-style route ignores `num_ctx` and cuts a long prompt in silence (ollama#18107); this one takes the window
from us and refuses what does not fit.
"""

from collections.abc import Sequence
from typing import Literal

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
    dump_text,
    legal_id,
    legal_name,
    read_call,
    sent_arguments,
    with_unique_ids,
)
from tinyagent.models.wire import Field, MessageCache, Reply, WireOptions, array, has_error, join_body


class OllamaWire:
    """Codec of `POST /api/chat`."""

    path = "/api/chat"
    framing: Literal["sse", "ndjson"] = "ndjson"

    def headers(self, api_key: str, *, base_url: str) -> dict[str, str]:
        return {"authorization": f"Bearer {api_key}"} if api_key else {}

    def encode(self, request: Request, options: WireOptions, *, cache: MessageCache | None = None) -> bytes:
        cache = cache or MessageCache()
        messages = [piece for pieces in cache.messages(request.messages, options, _pieces) for piece in pieces]
        if request.system.strip():
            system = cache.part("system", request.system, options, lambda: dump_text(request.system))
            messages.insert(0, b'{"role":"system","content":%s}' % system)
        fields: list[Field] = [("model", dump(options.model)), ("messages", array((message,) for message in messages))]
        if request.tools:
            fields.append(("tools", cache.part("tools", request.tools, options, lambda: _tools(request.tools))))
        fields += [(name, dump(value)) for name, value in _settings(request, options).items()]
        return join_body(fields)

    def is_error(self, event: str, data: Json) -> bool:
        return has_error(event, data)

    def decode(self, data: Json, options: WireOptions) -> Reply:
        decoder = OllamaDecoder(options)
        decoder.feed("", data)
        return decoder.finish()

    def decoder(self, options: WireOptions) -> "OllamaDecoder":
        return OllamaDecoder(options)


class OllamaDecoder:
    """Puts the lines of a reply together; a whole body is one line. Calls come whole, without ids."""

    def __init__(self, options: WireOptions) -> None:
        self._options = options
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[Json] = []
        self._last: Json = {}
        self._has_message = False
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        """prompt_eval_count is left out when it would be 0, and by older builds when the prompt was cached: unknown."""
        prompt = as_count(self._last.get("prompt_eval_count"))
        return Usage(prompt, as_count(self._last.get("eval_count"))) if prompt else None

    @property
    def heard(self) -> str:
        return "".join((*self._text, *self._thinking, *map(str, self._calls)))

    def feed(self, event: str, data: Json) -> str:
        message = as_object(data.get("message"))
        self._has_message = self._has_message or "message" in data
        text = as_text(message.get("content"))
        self._text.append(text)
        self._thinking.append(as_text(message.get("thinking")))
        self._calls += [as_object(call) for call in as_list(message.get("tool_calls"))]
        if data.get("done"):
            self._last = data
            self.ended = True
        return text

    def finish(self) -> Reply:
        if not self._has_message:
            raise ModelError("the answer has no message", kind="malformed", billed=True)
        if not self.ended:
            raise ModelError("the stream ended without its final line", kind="stream_cut", billed=True)
        cut = self._last.get("done_reason") == "length"
        calls = with_unique_ids([_read_call(call, cut=cut) for call in self._calls])
        thinking = "".join(self._thinking)
        message = AssistantMessage(
            text="".join(self._text),
            tool_calls=calls,
            stop=_stop(cut=cut, has_calls=bool(calls)),
            wire={"thinking": thinking} if thinking else None,
            wire_format=self._options.wire_format if thinking else "",
            reasoning=thinking,
        )
        usage = self.usage
        return Reply(message, usage, usage and usage.output_tokens, model=as_text(self._last.get("model")))


def _settings(request: Request, options: WireOptions) -> Json:
    """`truncate` and `shift` off: a prompt that does not fit is a clean 400 and never cut in silence."""
    settings: Json = {"truncate": False, "shift": False}
    if options.reasoning_effort:
        settings["think"] = False if options.reasoning_effort == "none" else options.reasoning_effort
    own: Json = {}
    if options.num_ctx is not None:
        own["num_ctx"] = options.num_ctx
    if request.max_output_tokens is not None:
        own["num_predict"] = request.max_output_tokens
    if options.temperature is not None:
        own["temperature"] = options.temperature
    if own:
        settings["options"] = own
    return settings | options.extra | {"stream": options.stream}


def _tools(tools: Sequence[ToolSpec]) -> bytes:
    return dump([_tool(tool) for tool in tools])


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _pieces(message: Message, options: WireOptions) -> tuple[bytes, ...]:
    match message:
        case UserMessage():
            return (b'{"role":"user","content":%b}' % dump_text(message.text),) if message.text.strip() else ()
        case ToolMessage():
            names = (legal_name(message.tool).encode(), legal_id(message.call_id).encode())
            head = b'{"role":"tool","tool_name":"%s","tool_call_id":"%s","content":' % names
            return (b"".join((head, dump_text(message.text), b"}")),)
        case AssistantMessage():
            return _assistant_piece(message, options)


def _assistant_piece(message: AssistantMessage, options: WireOptions) -> tuple[bytes, ...]:
    own = as_object(message.wire) if message.wire_format == options.wire_format else {}
    if not message.text.strip() and not message.tool_calls:
        return ()
    encoded: Json = {"role": "assistant", "content": message.text}
    if thinking := as_text(own.get("thinking")):
        encoded["thinking"] = thinking
    if message.tool_calls:
        encoded["tool_calls"] = [_call(call) for call in message.tool_calls]
    return (dump(encoded),)


def _call(call: ToolCall) -> Json:
    """Arguments are an object here, not text. Servers before 0.12 ignore the id."""
    return {"id": legal_id(call.id), "function": {"name": legal_name(call.name), "arguments": sent_arguments(call)}}


def _read_call(data: Json, *, cut: bool) -> ToolCall:
    function = as_object(data.get("function"))
    return read_call(as_text(data.get("id")), as_text(function.get("name")), function.get("arguments"), cut=cut)


def _stop(*, cut: bool, has_calls: bool) -> StopReason:
    if cut:
        return "length"
    return "tool_calls" if has_calls else "end"
