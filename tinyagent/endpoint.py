"""From settings to a model that can be asked: which provider, where, with which key, window and price."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tinyagent.config import Settings
from tinyagent.core.errors import ModelError
from tinyagent.core.events import ModelSetup
from tinyagent.core.pricing import FREE
from tinyagent.core.types import Json, Model, Request, Window
from tinyagent.models.retry import RetryingModel
from tinyagent.models.scripted import SCRIPTED, ScriptedModel, encode_neutral, read_script
from tinyagent.models.wire import WireOptions
from tinyagent.models.wires import WIRES
from tinyagent.sending import Endpoint

OUTPUT_SHARE = 4  # the answer gets at most this part of the window
OUTPUT_CAP = 32_000  # a larger answer is no use to an agent, and some servers reserve the money for it
OUTPUT_UNKNOWN = 8192


@dataclass(frozen=True, slots=True)
class Connected:
    """A model with everything that a run has to know of it. `summarizer_window` None: the same as the run's."""

    endpoint: Endpoint
    summarizer: Endpoint
    setup: ModelSetup
    summarizer_window: int | None = None
    strip_reasoning: bool = False
    notices: tuple[str, ...] = ()
    close: Callable[[], None] = lambda: None


def encode_request(request: Request, options: Json) -> bytes:
    """The body of a request as it was sent, from what a trajectory holds."""
    if options.get("api") == SCRIPTED:
        return encode_neutral(request)
    return WIRES[options["api"]].encode(request, WireOptions.from_json(options))


def stand_in(model: Model, settings: Settings) -> Connected:
    """A model that costs nothing and needs no endpoint."""
    endpoint = Endpoint(model, FREE)
    window = _configured_window(settings)
    setup = ModelSetup(model.name, model.options(), window, _output_cap(settings, window, None), FREE)
    return Connected(endpoint, endpoint, setup)


def connect(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    cache: Path,
    on_wait: Callable[[ModelError, float, int], None],
    on_failed: Callable[[ModelError], None],
    steps_done: int = 0,
) -> Connected:
    """The configured model. Raises ConfigError that says what is missing and how to give it."""
    name = settings.model or ""
    provider, _, rest = name.partition("/")
    if provider == SCRIPTED:
        return stand_in(ScriptedModel(name, read_script(Path(rest)), start=steps_done), settings)
    from tinyagent.models.client import connect as connect_http

    api = settings.api or "openai"
    wire = connect_http(name, WireOptions(api, rest), base_url=settings.base_url or "", api_key="x")
    model = RetryingModel(wire, on_wait=on_wait, on_failed=on_failed)
    endpoint = Endpoint(model, settings.prices)
    window = _configured_window(settings)
    setup = ModelSetup(name, model.options(), window, _output_cap(settings, window, None), settings.prices)
    return Connected(endpoint, endpoint, setup, close=wire.close)


def key_names(settings: Settings) -> tuple[str, ...]:
    """Environment variables that hold keys: they never reach a command, and their values never reach a file."""
    custom = [p.api_key_env for p in settings.providers.values() if p.api_key_env]
    return tuple(filter(None, (settings.api_key_env, *custom)))


def _configured_window(settings: Settings) -> Window:
    if settings.context_window:
        return Window(settings.context_window, "configured")
    if settings.context.assume_window:
        return Window(settings.context.assume_window, "assumed")
    return Window(None)


def _output_cap(settings: Settings, window: Window, limit: int | None) -> int:
    """The output cap to ask for: the user's, else a useful size within what model and window allow."""
    if settings.max_output_tokens:
        return settings.max_output_tokens
    share = window.tokens // OUTPUT_SHARE if window.tokens else OUTPUT_UNKNOWN
    return min(limit or OUTPUT_UNKNOWN, OUTPUT_CAP, share)
