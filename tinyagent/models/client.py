"""A model behind an endpoint: encode, one HTTP round, read the answer; whatever goes wrong becomes a ModelError."""

import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from tinyagent.core.errors import ModelError
from tinyagent.core.types import Json, Request, Response
from tinyagent.models.payload import as_cost
from tinyagent.models.quirks import adjusted, for_endpoint
from tinyagent.models.reading import AnswerReader
from tinyagent.models.transport import HttpTransport, Transport
from tinyagent.models.watch import Timeouts
from tinyagent.models.wire import MessageCache, WireOptions
from tinyagent.models.wires import WIRES

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
        self,
        name: str,
        options: WireOptions,
        transport: Transport,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._name = name
        self._options = options
        self._wire = WIRES[options.api]
        self._transport = transport
        self._clock = clock
        self._now = now
        self._cache = MessageCache()
        self._refused: list[WireOptions] = []  # never gone back to: two spellings may both be unknown to a server

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
                reply = AnswerReader(self._wire, self._options, now=self._now).read(answer, on_text or _ignore)
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
        if changed is None or changed in self._refused:
            return False
        self._refused.append(self._options)
        self._options = changed
        return True

    def close(self) -> None:
        self._transport.close()


def _ignore(_: str) -> None:
    return
