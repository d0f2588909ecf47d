"""The wires by the name of their API, and the body of a recorded request."""

from collections.abc import Callable

from tinyagent.core.types import Json, Request
from tinyagent.models.anthropic import AnthropicWire
from tinyagent.models.ollama import OllamaWire
from tinyagent.models.openai_chat import OpenAIChatWire
from tinyagent.models.openai_responses import OpenAIResponsesWire
from tinyagent.models.scripted import SCRIPTED, encode_neutral
from tinyagent.models.wire import MessageCache, Wire, WireOptions

WIRES: dict[str, Wire] = {
    "anthropic": AnthropicWire(),
    "openai": OpenAIChatWire(),
    "responses": OpenAIResponsesWire(),
    "ollama": OllamaWire(),
}


def encode(request: Request, options: Json) -> bytes:
    """The body of a request, byte for byte as it was sent: its sha256 is the recorded digest.

    `options` is what the model's `options()` returned. Raises KeyError for an API that does not exist.
    """
    return encoder()(request, options)


def encoder() -> Callable[[Request, Json], bytes]:
    """`encode` for the requests of one run, one after the other: each message is written once, not in each body."""
    cache = MessageCache()
    last: tuple[Json, WireOptions] | None = None

    def encode_next(request: Request, options: Json) -> bytes:
        nonlocal last
        if options["api"] == SCRIPTED:
            return encode_neutral(request)
        if last is None or last[0] is not options:
            last = (options, WireOptions.from_json(options))
        return WIRES[options["api"]].encode(request, last[1], cache=cache)

    return encode_next
