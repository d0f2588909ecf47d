"""Ask a server for JSON: small questions beside the model's requests, to which no answer is an answer too."""

import json
from collections.abc import Mapping

from tinyagent.models.addresses import is_local_address
from tinyagent.models.transport import read_body

MOST_BYTES = 16_000_000  # OpenRouter's list of models has about one


def fetch_json(
    url: str, *, headers: Mapping[str, str], body: Mapping[str, object] | None = None, timeout_s: float
) -> object:
    """The decoded JSON of a 200 answer; None for any other, for HTML, for too much and for no answer in time.

    GET, or POST where there is a body. Never raises for what a server or the network does; follows no redirects.
    """
    import httpx

    is_local = is_local_address(url)
    # Loading the certificates costs 40 ms, which a server without TLS need not pay; a proxy cannot reach local ones.
    verify = url.startswith("https:")
    try:
        with (
            httpx.Client(verify=verify, trust_env=not is_local, timeout=timeout_s) as client,
            client.stream("GET" if body is None else "POST", url, headers=dict(headers), json=body) as response,
        ):
            if response.status_code != 200:
                return None
            content = read_body(response.iter_bytes(), max_bytes=MOST_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    if len(content) == MOST_BYTES:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
