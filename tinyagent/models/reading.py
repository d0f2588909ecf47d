"""From an HTTP answer to a reply: whole or streamed, JSON or not, error or not."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from tinyagent.core.errors import ModelError
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import Json, Usage
from tinyagent.models.payload import as_list, as_object, load
from tinyagent.models.transport import (
    BODY_BYTES,
    ERROR_BODY_BYTES,
    Answer,
    Event,
    ndjson_events,
    read_body,
    sse_events,
)
from tinyagent.models.wire import Reply, StreamDecoder, Wire, WireOptions

QUOTED_CHARS = 300  # of an answer that is no answer, in the error's message
END_MARK = "[DONE]"
_CAUTION = 1.25  # an estimate of tokens that were made and not reported, so that their price is not too low

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reads answers of one wire. Every failure is a ModelError that carries what is known of status and usage."""

    wire: Wire
    options: WireOptions
    now: Callable[[], datetime]  # aware; for waits given as a date

    def read(self, answer: Answer, on_text: OnText) -> Reply:
        """The reply. Judged by the first byte and not by the content type: some servers stream nothing when asked to,
        and some send an error as plain JSON under the type of an event stream."""
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)
        chunks = answer.chunks()
        first = _first(chunks)
        chunks = chain([first], chunks)
        is_whole = not self.options.stream or first[:1] in (b"{", b"[", b"<")
        if is_whole and not (self.options.stream and self.wire.framing == "ndjson"):
            return self._read_whole(answer, chunks, on_text)
        events = ndjson_events(chunks) if self.wire.framing == "ndjson" else sse_events(chunks)
        return self._read_stream(answer, events, on_text)

    def _refusal(self, answer: Answer) -> ModelError:
        if 300 <= answer.status < 400:
            words = f"the server redirects to {answer.headers.get('location', 'elsewhere')}: set base_url"
            return ModelError(words, kind="not_found", status=answer.status)
        try:
            body = read_body(answer.chunks(), max_bytes=ERROR_BODY_BYTES)
        except ModelError:
            body = b""  # the status alone must do
        return self._classified(answer, body.decode("utf-8", "replace"))

    def _read_whole(self, answer: Answer, chunks: Iterable[bytes], on_text: OnText) -> Reply:
        text = read_body(chunks, max_bytes=BODY_BYTES).decode("utf-8", "replace")
        try:
            body = load(text)
        except ValueError as error:
            raise _no_answer(answer, text) from error
        listed = as_list(body)  # Gemini wraps its errors in a list
        data = as_object(listed[0] if listed else body)
        if self.wire.is_error("", data):
            raise self._classified(answer, text)
        if not data:
            raise _no_answer(answer, text)
        reply = self.wire.decode(data, self.options)
        if reply.message.text:
            on_text(reply.message.text)
        return reply

    def _read_stream(self, answer: Answer, events: Iterable[Event], on_text: OnText) -> Reply:
        decoder = self.wire.decoder(self.options)
        with _with_known_usage(decoder):
            try:
                self._feed(answer, events, decoder, on_text)
            except ModelError as error:
                if error.kind not in ("network", "stream_cut"):
                    raise
                return _whole_or(decoder, error)
            reply = decoder.finish()
        answer.drain()
        return reply

    def _feed(self, answer: Answer, events: Iterable[Event], decoder: StreamDecoder, on_text: OnText) -> None:
        seen = 0
        for event in events:
            if event.data.strip() == END_MARK:
                break
            data = self._data(answer, event, begun=seen > 0)
            seen += 1
            if text := decoder.feed(event.name, data):
                on_text(text)
            if decoder.ended:
                break
        if not seen:
            raise ModelError("the stream has no events", kind="malformed", status=answer.status, billed=True)

    def _data(self, answer: Answer, event: Event, *, begun: bool) -> Json:
        try:
            data = as_object(load(event.data))
        except ValueError as error:
            if event.name != "error":
                raise _no_answer(answer, event.data) from error
            data = {}
        if self.wire.is_error(event.name, data):
            failed = self._classified(answer, event.data, in_stream=True)
            # A server that finds the prompt too long has generated nothing; any other break may have cost something.
            failed.billed = begun and failed.kind not in ("overflow", "overflow_total")
            raise failed
        return data

    def _classified(self, answer: Answer, text: str, *, in_stream: bool = False) -> ModelError:
        from tinyagent.models.overflow import classify  # seven modules of words that most runs never need

        return classify(answer.status, text, headers=answer.headers, in_stream=in_stream, now=self.now())


def _first(chunks: Iterator[bytes]) -> bytes:
    """The beginning of a body, without leading white space. Raises ModelError if the body is empty."""
    for chunk in chunks:
        if begun := chunk.lstrip():
            return begun
    raise ModelError("the server's answer is empty", kind="malformed", status=200, billed=True)


@contextmanager
def _with_known_usage(decoder: StreamDecoder) -> Generator[None]:
    """An error inside a stream carries what the stream had told of its usage, and what the model had said by then."""
    try:
        yield
    except ModelError as error:
        error.usage = error.usage or _usage_so_far(decoder)
        raise


def _usage_so_far(decoder: StreamDecoder) -> Usage | None:
    """Input as it was told (0: it was not), output at least what has come; None if nothing is known."""
    told = decoder.usage or Usage()
    made = round(_CAUTION * estimate_text(decoder.heard))
    usage = replace(told, output_tokens=max(told.output_tokens, made))
    return usage if usage != Usage() else None


def _whole_or(decoder: StreamDecoder, error: ModelError) -> Reply:
    """The reply if the connection broke only after its final event, else the error."""
    try:
        return decoder.finish()
    except ModelError:
        raise error from None


def _no_answer(answer: Answer, text: str) -> ModelError:
    kind = "HTML" if text.lstrip()[:1] == "<" else "not JSON"
    quoted = " ".join(text.split())[:QUOTED_CHARS]
    return ModelError(f"the answer is {kind}: {quoted}", kind="malformed", status=answer.status, billed=True)
