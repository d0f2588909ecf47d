"""What the four wires share: their options, their reply, the protocol they follow, the cache of encoded messages.

A wire is a pure codec between our messages and one API's JSON; it does no input or output.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, Protocol

from tinyagent.core.types import AssistantMessage, Json, Message, Request, Usage

Api = Literal["anthropic", "openai", "responses", "ollama"]
Field = tuple[str, bytes | Sequence[bytes]]  # of a body: its name, its JSON whole or in pieces


@dataclass(frozen=True, slots=True)
class WireOptions:
    """All that decides a body beside the `Request`: the same request and options give the same bytes."""

    api: Api
    model: str
    stream: bool = True
    temperature: float | None = None
    reasoning_effort: str = ""  # "" sends nothing, the provider's default holds
    num_ctx: int | None = None  # the window that an Ollama server shall allocate
    cache_key: str = ""  # OpenAI's prompt_cache_key
    cache_marks: bool | None = None  # cache_control marks; None: where the API has them
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    stream_usage: bool = True  # stream_options.include_usage
    echo: tuple[str, ...] = ("reasoning_content", "reasoning_details")  # fields of a chat reply to send back
    blank_reasoning: bool = False  # reasoning_content: "" on calls that have none (DeepSeek refuses its absence)
    stand_in_signature: bool = False  # on calls without Gemini's thought signature, which it demands with each step
    encrypted_reasoning: bool = True  # ask the Responses API for reasoning items that can be sent back
    extra: Json = field(default_factory=dict[str, object])  # further top-level fields, as they are

    def to_json(self) -> Json:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"echo": list(self.echo)}

    @classmethod
    def from_json(cls, data: Json) -> "WireOptions":
        """Options of a record; fields that this version does not know are left out."""
        known: Json = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        if "echo" in known:
            known["echo"] = tuple(known["echo"])
        return cls(**known)

    @property
    def wire_format(self) -> str:
        return f"{self.api}:{self.model}"


@dataclass(frozen=True, slots=True)
class Reply:
    """A decoded answer. `usage` is None where the server reported none that can be true."""

    message: AssistantMessage
    usage: Usage | None = None
    reply_tokens: int | None = None  # what the message occupies in the next request
    model: str = ""
    request_id: str = ""
    cost_usd: float | None = None


class StreamDecoder(Protocol):
    """Puts one streamed reply together."""

    @property
    def usage(self) -> Usage | None:
        """What is known so far."""
        ...

    @property
    def heard(self) -> str:
        """All that the model has said so far: answer, reasoning and arguments, in any order."""
        ...

    @property
    def ended(self) -> bool:
        """The final event was seen: nothing that matters comes after it."""
        ...

    def feed(self, event: str, data: Json) -> str:
        """Take one event in; returns the answer text that it adds."""
        ...

    def finish(self) -> Reply:
        """The whole reply. Raises ModelError: `stream_cut` without a final event, `malformed`, `overflow`."""
        ...


class Wire(Protocol):
    """One API. `path` follows the base URL as the vendor's own variable means it."""

    @property
    def path(self) -> str: ...

    @property
    def framing(self) -> Literal["sse", "ndjson"]: ...

    def headers(self, api_key: str, *, base_url: str) -> dict[str, str]:
        """Authentication and version headers."""
        ...

    def encode(self, request: Request, options: WireOptions, *, cache: "MessageCache | None" = None) -> bytes:
        """The body. The cache saves work and never changes the result."""
        ...

    def is_error(self, event: str, data: Json) -> bool:
        """Whether a 200 body or an event of a stream is an error."""
        ...

    def decode(self, data: Json, options: WireOptions) -> Reply:
        """The reply in a whole body. Raises ModelError `malformed` or `overflow`."""
        ...

    def decoder(self, options: WireOptions) -> StreamDecoder: ...


class MessageCache:
    """The JSON of each message of the last request, so that a message is encoded once.

    Keyed by the identity of the frozen message objects, which it holds: an id cannot come to mean another message.
    """

    def __init__(self) -> None:
        self._options: WireOptions | None = None
        self._messages: dict[int, tuple[Message, tuple[bytes, ...]]] = {}
        self._parts: dict[str, tuple[object, bytes]] = {}

    def messages(
        self,
        messages: Sequence[Message],
        options: WireOptions,
        encode: Callable[[Message, WireOptions], tuple[bytes, ...]],
    ) -> list[tuple[bytes, ...]]:
        """The pieces of each message; forgets messages that are not in this request."""
        self._use(options)
        kept: dict[int, tuple[Message, tuple[bytes, ...]]] = {}
        for message in messages:
            kept[id(message)] = self._messages.get(id(message)) or (message, encode(message, options))
        self._messages = kept
        return [kept[id(message)][1] for message in messages]

    def part(self, name: str, value: object, options: WireOptions, encode: Callable[[], bytes]) -> bytes:
        """The JSON of the system text or the tools, encoded again only when the object is another one."""
        self._use(options)
        held = self._parts.get(name)
        if held is None or held[0] is not value:
            held = self._parts[name] = (value, encode())
        return held[1]

    def _use(self, options: WireOptions) -> None:
        if self._options is not options:
            self._options = options
            self._messages, self._parts = {}, {}


def join_body(fields: Sequence[Field]) -> bytes:
    """A JSON object from names and encoded values, whole or in pieces, in this order. Here all is copied, once."""
    parts: list[bytes] = []
    for name, value in fields:
        parts.append(b',"%s":' % name.encode())
        parts += [value] if isinstance(value, bytes) else value
    parts[0] = b"{" + parts[0][1:]
    return b"".join((*parts, b"}"))


def array(items: Iterable[Sequence[bytes]]) -> list[bytes]:
    """A JSON array, in pieces, of values in pieces."""
    parts: list[bytes] = []
    for item in items:
        parts.append(b",")
        parts += item
    return [b"[", *parts[1:], b"]"]


def has_error(event: str, data: Json) -> bool:
    """Whether an event or a 200 body is an error in one of the forms seen in the field.

    `error_type` is Venice's (hermes-agent#68451), `detail` FastAPI's; llama.cpp names the event `error` and puts the
    fields at the top level.
    """
    if event == "error" or data.get("error") or data.get("type") == "error":
        return True
    return "choices" not in data and any(data.get(key) for key in ("error_type", "error_message", "detail"))
