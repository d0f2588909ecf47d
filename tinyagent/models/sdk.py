"""The same round through the official SDK clients: the only file that imports them, and only when one is used.

They bring the authentication of Bedrock, Vertex and Azure. They cost: importing `anthropic` 2.14 takes 1.5 s of CPU
and 77 MiB, `openai` 3.57 0.7 s and 49 MiB. Only their lowest layer is used, with our bytes in and raw bytes out, and
without their retries, which would multiply ours.
"""

import importlib
import importlib.util
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Literal, Protocol

from tinyagent.core.errors import ConfigError, ModelError
from tinyagent.models.addresses import host_of
from tinyagent.models.anthropic import OFFICIAL_HOST, VERSION
from tinyagent.models.client import WireModel
from tinyagent.models.payload import as_object, load
from tinyagent.models.quirks import for_endpoint
from tinyagent.models.transport import HttpAnswer, at_most, connection_error, forgotten_if_interrupted
from tinyagent.models.watch import Timeouts, Watchdog, hang_up
from tinyagent.models.wire import Api, WireOptions

if TYPE_CHECKING:
    import httpx2

Kind = Literal["anthropic", "openai", "azure", "bedrock", "vertex"]

# Module, and the extra of the SDK that brings it.
NEEDED = {"bedrock": ("boto3", "anthropic[bedrock]"), "vertex": ("google.auth", "anthropic[vertex]")}
# These put the model into the address, so they must get the body as an object.
REWRITES_BODY = ("azure", "bedrock", "vertex")
RAW_STREAM = {"X-Stainless-Raw-Response": "stream"}  # hand the response over before its body was read
FOREIGN = ("anthropic", "openai", "botocore", "boto3", "google")  # whose exceptions tell of credentials
NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and as whom. Empty fields are left to the SDK, which looks at its vendor's variables and files."""

    kind: Kind
    base_url: str = ""
    api_key: str = ""
    headers: Mapping[str, str] | None = None
    region: str = ""  # bedrock, vertex
    project: str = ""  # vertex
    api_version: str = ""  # azure


def kind_for(provider: str, api: Api) -> Kind:
    """The client for a provider's name and API."""
    match provider:
        case "azure" | "bedrock" | "vertex":
            return provider
        case _:
            return "anthropic" if api == "anthropic" else "openai"


def import_soon(kind: Kind) -> None:
    """Import the client in a thread, which takes longer than all else before the first request. What fails there fails
    again where the client is opened."""

    def run() -> None:
        with suppress(ImportError):
            importlib.import_module("openai" if kind in ("openai", "azure") else "anthropic")

    threading.Thread(target=run, name="tinyagent-import", daemon=True).start()


def connect_sdk(name: str, options: WireOptions, endpoint: Endpoint, *, timeouts: Timeouts | None = None) -> WireModel:
    """A model through an official client, which is opened at the first request. Raises ConfigError for a missing
    package."""
    if endpoint.kind == "bedrock" or (endpoint.kind == "vertex" and not endpoint.api_key):
        _check_installed(endpoint.kind)
    options = for_endpoint(options, endpoint.base_url)
    if endpoint.kind == "azure" and options.api == "openai":
        options = replace(options, max_tokens_field="max_completion_tokens")
    return WireModel(name, options, SdkTransport(endpoint, timeouts=timeouts))


class SdkTransport:
    """The round through an SDK client, which is made at the first request and kept."""

    def __init__(self, endpoint: Endpoint, *, timeouts: Timeouts | None = None) -> None:
        self._endpoint = endpoint
        self._timeouts = timeouts or Timeouts()
        self._watchdog = Watchdog(self._timeouts)
        self._client: _Client | None = None

    @contextmanager
    def post(self, path: str, body: bytes, *, total_s: float | None = None) -> Generator[HttpAnswer]:
        ends_at = None if total_s is None else monotonic() + total_s
        with forgotten_if_interrupted(self._forget):
            response = self._send(path, body, total_s)
            stream = response.extensions.get("network_stream")
            try:
                with self._watchdog.watch(lambda: hang_up(stream), ends_at=ends_at) as watch:
                    yield HttpAnswer(response.status_code, response.headers, _chunks(response), watch)
            finally:
                response.close()

    def _forget(self) -> None:
        self._client = None

    def close(self) -> None:
        self._watchdog.close()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _send(self, path: str, body: bytes, total_s: float | None) -> "httpx2.Response":
        import httpx2

        limits = self._timeouts
        first = at_most(limits.first_byte_s, total_s)
        options = {
            "headers": RAW_STREAM,
            "timeout": httpx2.Timeout(first, connect=at_most(limits.connect_s, total_s), pool=None),
            "follow_redirects": False,
            "max_retries": 0,
        }
        rewrites = self._endpoint.kind in REWRITES_BODY
        sent = {"body": as_object(load(body))} if rewrites else {"content": body}
        try:
            self._client = self._client or OPENERS[self._endpoint.kind](self._endpoint)
            return self._client.post(path, cast_to=httpx2.Response, options=options, **sent)
        except Exception as error:  # sorted out below; what is not the SDK's or its helpers' own is raised again
            if refused := _refused_response(error):
                return refused
            raise _translated(error, self._endpoint) from error


class _Client(Protocol):
    """What an SDK client is used for."""

    @property
    def post(self) -> "Callable[..., httpx2.Response]": ...

    def close(self) -> None: ...


def _open_anthropic(endpoint: Endpoint) -> _Client:
    """Since SDK 2.0 the key goes out as a bearer token and under a new version date; imitations know the old ones."""
    from anthropic import Anthropic

    headers = {"anthropic-version": VERSION}
    if endpoint.api_key and endpoint.base_url and host_of(endpoint.base_url) != OFFICIAL_HOST:
        headers["x-api-key"] = endpoint.api_key
    return Anthropic(
        api_key=endpoint.api_key or _no_key(endpoint),
        base_url=endpoint.base_url.removesuffix("/v1") or None,
        max_retries=0,
        default_headers=headers | dict(endpoint.headers or {}),
        open_telemetry=False,
    )


def _open_openai(endpoint: Endpoint) -> _Client:
    from openai import OpenAI

    return OpenAI(
        api_key=endpoint.api_key or _no_key(endpoint),
        base_url=endpoint.base_url or None,
        max_retries=0,
        default_headers=dict(endpoint.headers or {}),
    )


def _open_azure(endpoint: Endpoint) -> _Client:
    from openai import AzureOpenAI

    return AzureOpenAI(
        azure_endpoint=endpoint.base_url,
        api_version=endpoint.api_version or None,
        api_key=endpoint.api_key or None,
        max_retries=0,
        default_headers=dict(endpoint.headers or {}),
    )


def _open_bedrock(endpoint: Endpoint) -> _Client:
    from anthropic.lib.bedrock import AnthropicBedrock

    return AnthropicBedrock(
        api_key=endpoint.api_key or None,
        aws_region=endpoint.region or None,
        base_url=endpoint.base_url or None,
        max_retries=0,
        default_headers=dict(endpoint.headers or {}),
        open_telemetry=False,
    )


def _open_vertex(endpoint: Endpoint) -> _Client:
    from anthropic import not_given
    from anthropic.lib.vertex import AnthropicVertex

    return AnthropicVertex(
        region=endpoint.region or not_given,
        project_id=endpoint.project or not_given,
        access_token=endpoint.api_key or None,
        base_url=endpoint.base_url or None,
        max_retries=0,
        default_headers=dict(endpoint.headers or {}),
        open_telemetry=False,
    )


OPENERS: dict[Kind, Callable[[Endpoint], _Client]] = {
    "anthropic": _open_anthropic,
    "openai": _open_openai,
    "azure": _open_azure,
    "bedrock": _open_bedrock,
    "vertex": _open_vertex,
}


def _no_key(endpoint: Endpoint) -> str | None:
    """What stands for a key at a server that wants none: the clients demand one, and would take the vendor's own from
    the environment and send it there."""
    return NO_KEY if endpoint.base_url else None


def _check_installed(kind: str) -> None:
    module, extra = NEEDED[kind]
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise ConfigError(f"{kind} needs the package {module}: pip install '{extra}'")


def _chunks(response: "httpx2.Response") -> Iterator[bytes]:
    """The body's bytes. Bedrock frames its stream in Amazon's own way, which is turned into server-sent events."""
    if "vnd.amazon.eventstream" not in response.headers.get("content-type", ""):
        return response.iter_bytes()
    return _as_sse(response.iter_bytes())


def _as_sse(chunks: Iterable[bytes]) -> Iterator[bytes]:
    from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder  # pyright: ignore[reportPrivateUsage]

    for event in AWSEventStreamDecoder().iter_bytes(iter(chunks)):
        yield f"event: {event.event}\ndata: {event.data}\n\n".encode()


def _refused_response(error: Exception) -> "httpx2.Response | None":
    """The response behind a status error of either SDK: the SDKs' own messages lose what its body says."""
    import httpx2

    response = getattr(error, "response", None)
    return response if isinstance(response, httpx2.Response) else None


def _translated(error: Exception, endpoint: Endpoint) -> Exception:
    """A network error with its cause; an error of an authentication library as one; our own bugs as they are."""
    where = endpoint.base_url or endpoint.kind
    if type(error).__name__ in ("APIConnectionError", "APITimeoutError"):
        cause = error.__cause__
        return connection_error(cause if isinstance(cause, Exception) else error, where)
    if type(error).__module__.split(".")[0] in FOREIGN or isinstance(error, ValueError | RuntimeError | ImportError):
        return ModelError(f"{where}: {error}", kind="auth")
    return error
