"""One HTTP round: bytes out, a status, headers and raw chunks in; time limits; no retries, no redirects.

Covers: a limit each for connecting, the first byte, silence (any byte counts, also a keep-alive ping) and the whole
round; proxies from the environment; Ctrl-C, which closes the connection so that the server stops generating.
Does not cover: a server that sends its headers so slowly that each single read stays within the limit.
"""

import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

from tinyagent.core.errors import ModelError
from tinyagent.models.addresses import is_local_address
from tinyagent.models.watch import Timeouts, Watch, Watchdog, hang_up

if TYPE_CHECKING:
    import httpx

ERROR_BODY_BYTES = 1_000_000
BODY_BYTES = 64_000_000
STALE_S = 1.0  # a kept connection that breaks so soon was closed before the server read the request
LAST_WORDS_S = 0.5  # given to a server to end its stream after the final event, so that the connection can be reused


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event, or one line of ndjson (with no name)."""

    name: str
    data: str


class Answer(Protocol):
    """What came back. Valid inside the `with` of its round."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes in; may be iterated once. Raises ModelError: `network`, or `stream_cut` inside it."""
        ...

    def drain(self) -> None:
        """Read what little is left, for a moment only and without complaint."""
        ...


class Transport(Protocol):
    """Sends a body to an endpoint."""

    def post(self, path: str, body: bytes, *, total_s: float | None = None) -> AbstractContextManager[Answer]:
        """One round. Raises ModelError of kind `network`; `bad_request` where no retry can help."""
        ...

    def close(self) -> None: ...


class HttpTransport:
    """The round through httpx. The client is made at the first request and kept."""

    def __init__(
        self, base_url: str, *, headers: Mapping[str, str], timeouts: Timeouts | None = None, verify: bool | str = True
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"content-type": "application/json", "accept": "*/*"} | dict(headers)
        self._timeouts = timeouts or Timeouts()
        self._watchdog = Watchdog(self._timeouts)
        self._verify = verify
        self._client: httpx.Client | None = None

    @contextmanager
    def post(self, path: str, body: bytes, *, total_s: float | None = None) -> Generator["HttpAnswer"]:
        ends_at = None if total_s is None else time.monotonic() + total_s
        with forgotten_if_interrupted(self._forget):
            response = self._send(self._base_url + path, body, total_s)
            stream = response.extensions.get("network_stream")
            try:
                with self._watchdog.watch(lambda: hang_up(stream), ends_at=ends_at) as watch:
                    yield HttpAnswer(response.status_code, response.headers, response.iter_bytes(), watch)
            finally:
                response.close()

    def _forget(self) -> None:
        self._client = None

    def close(self) -> None:
        self._watchdog.close()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _send(self, url: str, body: bytes, total_s: float | None) -> "httpx.Response":
        """Send the request, and once more if the server had closed the kept connection, as llama.cpp does after 5 s."""
        try:
            return self._send_once(url, body, total_s)
        except StaleConnection:
            return self._send_once(url, body, total_s)

    def _send_once(self, url: str, body: bytes, total_s: float | None) -> "httpx.Response":
        import httpx

        opened: list[str] = []

        def note(event: str, _: object) -> None:
            if event.startswith("connection.connect_"):
                opened.append(event)

        first = at_most(self._timeouts.first_byte_s, total_s)
        timeout = httpx.Timeout(first, connect=at_most(self._timeouts.connect_s, total_s), pool=None)
        started = time.monotonic()
        try:
            request = self._open().build_request(
                "POST", url, content=body, headers=self._headers, timeout=timeout, extensions={"trace": note}
            )
            return self._open().send(request, stream=True, follow_redirects=False)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            failed = connection_error(error, url)
            was_broken = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
            if was_broken and not opened and time.monotonic() - started < STALE_S:
                raise StaleConnection(str(failed), kind="network") from error
            raise failed from error

    def _open(self) -> "httpx.Client":
        import httpx

        if self._client is None:
            verify = trust(self._verify if self._base_url.startswith("https:") else False)
            # A proxy of the environment is for the outside, also where nobody thought of NO_PROXY.
            self._client = httpx.Client(verify=verify, trust_env=not is_local_address(self._base_url))
        return self._client


@contextmanager
def forgotten_if_interrupted(forget: Callable[[], None]) -> Generator[None]:
    """Let go of a client, unclosed, after Ctrl-C or a signal in its midst.

    The exception may have come between the taking of one of its locks and the `with` that gives it back: closing the
    client would wait for ever (httpcore 1.0.9, seen after a second Ctrl-C). Its connection is closed with the round.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException:
        forget()
        raise


class StaleConnection(ModelError):
    """A kept connection was closed by the server before it read the request."""


class HttpAnswer:
    """An answer whose reading is watched. Also used for the SDKs' own copy of httpx, which has the same errors."""

    def __init__(self, status: int, headers: Mapping[str, str], chunks: Iterable[bytes], watch: Watch) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self._chunks = iter(chunks)
        self._watch = watch
        self._has_begun = False

    def chunks(self) -> Iterator[bytes]:
        """Translates whatever the HTTP library raises: it cannot be named here for both libraries."""
        while True:
            try:
                chunk = next(self._chunks)
            except StopIteration:
                break
            except Exception as error:  # every failure of a read is the network's: see the docstring
                raise self._broken(error) from error
            self._watch.touch()
            self._has_begun = True
            yield chunk
        if self._watch.expired:
            raise self._broken(None)

    def drain(self) -> None:
        self._watch.hurry(LAST_WORDS_S)
        try:
            for _ in self._chunks:
                pass
        except Exception:  # the reply is complete; how the connection ends no longer matters
            return

    def _broken(self, error: Exception | None) -> ModelError:
        if self._watch.expired:
            return ModelError(self._watch.expired, kind="network", status=self.status, billed=True)
        words = f"the connection broke: {error}"
        return ModelError(words, kind="stream_cut" if self._has_begun else "network", status=self.status, billed=True)


def sse_events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Server-sent events of a body, whatever its content type says. Comments (pings) yield nothing."""
    import httpx
    from httpx_sse import EventSource

    headers = {"content-type": "text/event-stream; charset=utf-8"}
    for event in EventSource(httpx.Response(200, headers=headers, content=iter(chunks))).iter_sse():
        if event.data:
            yield Event(event.event, event.data)


def ndjson_events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Lines of a body, the last one also without its line end."""
    begun: list[bytes] = []  # pieces of a line without its end: joined once, however many they are
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join((*begun, ended[0]))
            begun = []
        begun.append(rest)
        yield from (Event("", line.decode("utf-8", "replace")) for line in ended if line.strip())
    if last := b"".join(begun).strip():
        yield Event("", last.decode("utf-8", "replace"))


def read_body(chunks: Iterable[bytes], *, max_bytes: int) -> bytes:
    """The body, at most its first `max_bytes`."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= max_bytes:
            break
    return bytes(body[:max_bytes])


def connection_error(error: Exception, url: str) -> ModelError:
    """The error of a round that got no answer. Certificates, proxies and addresses do not heal by waiting."""
    from tinyagent.models.error_message import mask_secrets

    name = type(error).__name__
    words = mask_secrets(f"{url}: {str(error) or name}")
    if _has_cause(error, ssl.SSLCertVerificationError):
        return ModelError(f"certificate not accepted: {words}", kind="bad_request")
    if name in ("UnsupportedProtocol", "InvalidURL", "LocalProtocolError"):
        return ModelError(f"cannot be sent: {words}", kind="bad_request")
    if name == "ReadTimeout":
        return ModelError(f"no answer in time: {words}", kind="network", billed=True)
    was_sent = name in ("ReadError", "RemoteProtocolError")
    return ModelError(f"cannot reach the server: {words}", kind="network", billed=was_sent)


def at_most(seconds: float, total_s: float | None) -> float:
    """A time limit within the total one."""
    return seconds if total_s is None else max(0.001, min(seconds, total_s))


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


@cache
def trust(verify: bool | str) -> ssl.SSLContext:
    """The certificates that are believed; those of a file in place of the usual ones.

    Loading them costs 40 ms, which the runs of a batch pay once. A server without TLS (False) need not pay it at all.
    """
    import httpx

    return ssl.create_default_context(cafile=verify) if isinstance(verify, str) else httpx.create_ssl_context(verify)
