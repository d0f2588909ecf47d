"""A model behind an endpoint: encode, one HTTP round, decode; whatever goes wrong becomes a ModelError."""

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain

from tinyagent.core.errors import ModelError
from tinyagent.core.types import Json, Request, Response
from tinyagent.models.overflow import classify
from tinyagent.models.payload import as_cost, as_list, as_object, load
from tinyagent.models.quirks import adjusted, for_endpoint
from tinyagent.models.transport import (
    BODY_BYTES,
    ERROR_BODY_BYTES,
    Answer,
    Event,
    HttpTransport,
    Timeouts,
    Transport,
    ndjson_events,
    read_body,
    sse_events,
)
from tinyagent.models.wire import MessageCache, Reply, StreamDecoder, Wire, WireOptions
from tinyagent.models.wires import WIRES

QUOTED_CHARS = 300  # of an answer that is no answer, in the error's message
REQUEST_ID_HEADERS = ("request-id", "x-request-id", "apim-request-id")
COST_HEADER = "x-litellm-response-cost"


def connect(
    name: str,
    options: WireOptions,
    *,
    base_url: str,
    api_key: str = "",
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts | None = None,
    verify: bool | str = True,
) -> "WireModel":
    """A model over plain HTTP. `headers` are added to, and win over, those of the wire; nothing is opened yet."""
    wire = WIRES[options.api]
    base_url = base_url.rstrip("/")
    if options.api in ("anthropic", "ollama"):
        base_url = base_url.removesuffix("/v1")  # the vendors' own variables have none there
    own = wire.headers(api_key, base_url=base_url)
    added = {key.lower(): value for key, value in (headers or {}).items()}
    transport = HttpTransport(base_url, headers=own | added, timeouts=timeouts, verify=verify)
    return WireModel(name, for_endpoint(options, base_url), transport)


class WireModel:
    """The core's Model over a wire and a transport. Owns the transport; close it with `close`."""

    def __init__(
        self, name: str, options: WireOptions, transport: Transport, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._options = options
        self._wire = WIRES[options.api]
        self._transport = transport
        self._clock = clock
        self._cache = MessageCache()

    @property
    def name(self) -> str:
        return self._name

    def options(self) -> Json:
        return self._options.to_json()

    def complete(
        self, request: Request, *, on_text: Callable[[str], None] | None = None, timeout_s: float | None = None
    ) -> Response:
        started = self._clock()
        body = self._wire.encode(request, self._options, cache=self._cache)
        digest = hashlib.sha256(body).hexdigest()
        try:
            with self._transport.post(self._wire.path, body, total_s=timeout_s) as answer:
                reply = _read(answer, self._wire, self._options, on_text or _ignore)
                headers = answer.headers
        except ModelError as error:
            error.digest = digest
            raise
        cost = as_cost(headers.get(COST_HEADER))
        return Response(
            message=reply.message,
            usage=reply.usage,
            reply_tokens=reply.reply_tokens,
            model=reply.model,
            request_id=next((headers[h] for h in REQUEST_ID_HEADERS if headers.get(h)), reply.request_id),
            duration_s=self._clock() - started,
            digest=digest,
            cost_usd=reply.cost_usd if reply.cost_usd is not None else cost,
        )

    def adjust(self, parameter: str) -> bool:
        changed = adjusted(self._options, parameter)
        if changed is None:
            return False
        self._options = changed
        return True

    def close(self) -> None:
        self._transport.close()


def _ignore(_: str) -> None:
    return


def _read(answer: Answer, wire: Wire, options: WireOptions, on_text: Callable[[str], None]) -> Reply:
    """The reply in an answer, streamed or whole: some servers stream nothing although they were asked to."""
    if not 200 <= answer.status < 300:
        raise _refusal(answer)
    chunks = answer.chunks()
    first = _first(chunks)
    chunks = chain([first], chunks)
    if wire.framing == "ndjson" and options.stream:
        return _read_stream(answer, ndjson_events(chunks), wire, options, on_text)
    if first[:1] in (b"{", b"[", b"<") or not options.stream:
        return _read_whole(answer, chunks, wire, options, on_text)
    return _read_stream(answer, sse_events(chunks), wire, options, on_text)


def _first(chunks: Iterator[bytes]) -> bytes:
    """The beginning of a body, without leading white space. Raises ModelError if the body is empty."""
    for chunk in chunks:
        if begun := chunk.lstrip():
            return begun
    raise ModelError("the server's answer is empty", kind="malformed", status=200, billed=True)


def _refusal(answer: Answer) -> ModelError:
    try:
        body = read_body(answer.chunks(), max_bytes=ERROR_BODY_BYTES)
    except ModelError:
        body = b""  # the status alone must do
    if 300 <= answer.status < 400:
        target = answer.headers.get("location", "elsewhere")
        return ModelError(f"the server redirects to {target}: set base_url", kind="not_found", status=answer.status)
    return classify(answer.status, body.decode("utf-8", "replace"), headers=answer.headers)


def _read_whole(
    answer: Answer, chunks: Iterable[bytes], wire: Wire, options: WireOptions, on_text: Callable[[str], None]
) -> Reply:
    text = read_body(chunks, max_bytes=BODY_BYTES).decode("utf-8", "replace")
    try:
        body = load(text)
    except ValueError as error:
        raise _not_json(answer, text) from error
    listed = as_list(body)  # Gemini wraps its errors in a list
    data = as_object(listed[0] if listed else body)
    if wire.is_error("", data):
        raise classify(answer.status, text, headers=answer.headers)
    if not data:
        raise _not_json(answer, text)
    reply = wire.decode(data, options)
    if reply.message.text:
        on_text(reply.message.text)
    return reply


def _read_stream(
    answer: Answer, events: Iterable[Event], wire: Wire, options: WireOptions, on_text: Callable[[str], None]
) -> Reply:
    decoder = wire.decoder(options)
    seen = 0
    with _known_usage(decoder):
        try:
            for event in events:
                if event.data.strip() == "[DONE]":
                    break
                seen += 1
                if text := decoder.feed(event.name, _event_data(answer, event, wire)):
                    on_text(text)
                if decoder.ended:
                    break
        except ModelError as error:
            if error.kind not in ("network", "stream_cut"):
                raise
            return _whole_or(decoder, error)
        if not seen:
            raise ModelError("the stream has no events", kind="malformed", status=answer.status, billed=True)
        reply = decoder.finish()
    answer.drain()
    return reply


@contextmanager
def _known_usage(decoder: StreamDecoder) -> Generator[None]:
    """An error inside a stream carries what the stream had told of its usage."""
    try:
        yield
    except ModelError as error:
        error.usage = error.usage or decoder.usage
        # A server that finds the prompt too long has generated nothing; any other break may have cost something.
        error.billed = error.billed or error.kind not in ("overflow", "overflow_total")
        raise


def _event_data(answer: Answer, event: Event, wire: Wire) -> Json:
    try:
        data = as_object(load(event.data))
    except ValueError as error:
        if event.name == "error":
            raise classify(answer.status, event.data, headers=answer.headers, in_stream=True) from error
        raise _not_json(answer, event.data) from error
    if wire.is_error(event.name, data):
        raise classify(answer.status, event.data, headers=answer.headers, in_stream=True)
    return data


def _whole_or(decoder: StreamDecoder, error: ModelError) -> Reply:
    """The reply if the connection broke only after its final event, else the error."""
    try:
        return decoder.finish()
    except ModelError:
        raise error from None


def _not_json(answer: Answer, text: str) -> ModelError:
    kind = "HTML" if text.lstrip()[:1] == "<" else "not JSON"
    quoted = " ".join(text.split())[:QUOTED_CHARS]
    return ModelError(f"the answer is {kind}: {quoted}", kind="malformed", status=answer.status, billed=True)
