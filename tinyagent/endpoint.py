"""From settings to a model that can be asked: which provider, where, with which key, window and price."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tinyagent.config import Settings
from tinyagent.core.errors import ConfigError
from tinyagent.core.events import ModelSetup
from tinyagent.core.pricing import FREE, Prices
from tinyagent.core.types import Model, Window
from tinyagent.models import providers as table
from tinyagent.models.addresses import OPENAI_HOSTS, host_of, is_local_address
from tinyagent.models.catalogue import lookup
from tinyagent.models.client import WireModel
from tinyagent.models.client import connect as connect_http
from tinyagent.models.fetch import fetch_json
from tinyagent.models.known_providers import PROVIDERS, Provider, TransportName
from tinyagent.models.pause import PAUSE_VARIABLE, PausingModel, SharedPause
from tinyagent.models.providers import ModelRef
from tinyagent.models.quirks import for_endpoint
from tinyagent.models.retry import IsPassing, OnFailed, OnWait, RetryingModel
from tinyagent.models.scripted import SCRIPTED, ScriptedModel, read_script
from tinyagent.models.window_answers import Discovered
from tinyagent.models.windows import discover_cached, first_local_model, ollama_num_ctx, resolve_window
from tinyagent.models.wire import Api, WireOptions
from tinyagent.sending import PricedModel

OUTPUT_SHARE = 4  # the answer gets at most this part of the window
OUTPUT_CAP = 32_000  # a longer answer is no use to an agent, and some servers reserve the money for it
OUTPUT_UNKNOWN = 8192

# What answers as one of these at a local address runs models itself, so it costs nothing; a proxy is another matter.
LOCAL_RUNTIMES = frozenset({"ollama", "llama.cpp", "vllm", "sglang", "lmstudio", "tgi"})


@dataclass(frozen=True, slots=True)
class Target:
    """A model that was chosen and looked up, but not yet connected. `key` is a secret.

    `prices` None: unknown. The `_from` fields say which source a figure comes from.
    """

    ref: ModelRef
    provider: Provider
    base_url: str
    key: str
    options: WireOptions
    window: Window
    window_from: str
    max_output_tokens: int
    output_from: str
    prices: Prices | None
    prices_from: str
    runtime: str = ""

    @property
    def setup(self) -> ModelSetup:
        options = for_endpoint(self.options, self.base_url).to_json()
        return ModelSetup(str(self.ref), options, self.window, self.max_output_tokens, self.prices)


@dataclass(frozen=True, slots=True)
class Connected:
    """A model with everything that a run has to know of it. `summarizer_window` None: the same as the run's."""

    model: PricedModel
    summarizer: PricedModel
    setup: ModelSetup
    summarizer_window: int | None = None
    strip_reasoning: bool = False
    close: Callable[[], None] = lambda: None


def stand_in(model: Model, settings: Settings) -> Connected:
    """A model that costs nothing and needs no endpoint."""
    priced = PricedModel(model, FREE)
    window = resolve_window(settings.context_window, None, None, None, settings.context.assume_window)
    cap, _ = _output_cap(settings, window, None)
    return Connected(priced, priced, ModelSetup(model.name, model.options(), window, cap, FREE))


def connect(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    cache: Path,
    on_wait: OnWait,
    on_failed: OnFailed,
    is_passing: IsPassing,
    cache_key: str = "",
    steps_done: int = 0,
) -> Connected:
    """The configured model, and the one for summaries if that is another. Nothing is sent yet.

    Raises ConfigError that says what is missing and how to give it: a model, a key, a price under a cost limit.
    """
    if (settings.model or "").startswith(f"{SCRIPTED}/"):
        script = Path((settings.model or "").partition("/")[2])
        return stand_in(ScriptedModel(settings.model or "", read_script(script), start=steps_done), settings)
    target = find_target(settings, environ, cache=cache, cache_key=cache_key, prepare=_prepare(settings))
    _check_price(target, settings)
    wires = [_open(target, settings)]
    first = RetryingModel(_pausing(wires[0], environ), on_wait=on_wait, on_failed=on_failed, is_passing=is_passing)
    priced = PricedModel(first, target.prices)
    summarizer, summarizer_window = priced, None
    if settings.context.summary_model:
        other = find_target(_for_summaries(settings), environ, cache=cache)
        _check_price(other, settings)
        wires.append(_open(other, settings))
        second = RetryingModel(_pausing(wires[1], environ), on_wait=on_wait, on_failed=on_failed)
        summarizer = PricedModel(second, other.prices)
        summarizer_window = other.window.tokens

    def close() -> None:
        for wire in wires:
            wire.close()

    return Connected(
        priced,
        summarizer,
        target.setup,
        summarizer_window,
        strip_reasoning=table.binds_reasoning(target.ref.name),
        close=close,
    )


def find_target(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    cache: Path,
    cache_key: str = "",
    prepare: Callable[[Provider, Api], None] = lambda provider, api: None,
) -> Target:
    """Which model at which address, with its window, output cap and price from the best source. Raises ConfigError.

    `prepare` is called when it is known how the model is spoken to, before the server is asked about it.
    """
    known = table.provider_table(settings.providers)
    ref = table.choose_model(settings.model, environ, _probe(environ), known)
    provider = known[ref.provider]
    base_url = table.base_url(provider, environ, settings.base_url)
    key = _key(provider, base_url, settings, environ)
    api: Api = settings.api or table.default_api(provider, ref.name, base_url)
    prepare(provider, api)
    found = _ask_server(settings, provider, base_url, ref.name, api=api, key=key, cache=cache)
    row = None if provider.local else lookup(str(ref))
    options = _options(settings, provider, ref.name, api, base_url, cache_key)
    served = found.window
    if api == "ollama":
        served = ollama_num_ctx(settings.context_window, found)
        options = replace(options, num_ctx=served)
    # What a model can do says nothing about what a local server was started with.
    listed = row.window if row and found.runtime not in LOCAL_RUNTIMES else None
    window = resolve_window(settings.context_window, None, served, listed, settings.context.assume_window)
    cap, cap_from = _output_cap(settings, window, found.max_output_tokens or (row.max_output_tokens if row else None))
    prices, prices_from = _prices(settings, provider, base_url, found, row.prices if row else None)
    return Target(
        ref=ref,
        provider=provider,
        base_url=base_url,
        key=key,
        options=options,
        window=window,
        window_from=_window_words(window, found, row.date if row else ""),
        max_output_tokens=cap,
        output_from=cap_from,
        prices=prices,
        prices_from=prices_from,
        runtime=found.runtime,
    )


def key_names(settings: Settings) -> tuple[str, ...]:
    """Environment variables that hold keys: they never reach a command, and their values never reach a file."""
    known = [name for provider in PROVIDERS.values() for name in provider.key_variables]
    custom = [own.api_key_env for own in settings.providers.values()]
    return tuple(dict.fromkeys(filter(None, (settings.api_key_env, *custom, *known))))


def _probe(environ: Mapping[str, str]) -> Callable[[Provider], str | None]:
    def probe(provider: Provider) -> str | None:
        url = table.base_url(provider, environ)
        return first_local_model(url, api=provider.api, key=table.api_key(provider, environ), fetch=fetch_json)

    return probe


def _key(provider: Provider, base_url: str, settings: Settings, environ: Mapping[str, str]) -> str:
    key = table.api_key(provider, environ, settings.api_key_env)
    if key:
        return key
    if settings.api_key_env:
        raise ConfigError(f"the variable {settings.api_key_env} (api_key_env) is not set or empty")
    own_address = base_url == provider.base_url.rstrip("/")
    if provider.transport == "httpx" and own_address and not provider.local and provider.key_variables:
        raise ConfigError(
            f"no key for {provider.name}: set {provider.key_variables[0]}, or name another variable with api_key_env"
        )
    return ""


def _ask_server(
    settings: Settings, provider: Provider, base_url: str, name: str, *, api: Api, key: str, cache: Path
) -> Discovered:
    """What the server says of the model; nothing where the user has said all that it could."""
    said_all = settings.context_window and (settings.prices or provider.local or not settings.cost_limit)
    if said_all or not base_url or provider.transport == "sdk":
        return Discovered()
    now = datetime.now(UTC)
    return discover_cached(base_url, name, api=api, key=key, fetch=fetch_json, folder=cache, now=now)


def _options(settings: Settings, provider: Provider, name: str, api: Api, base_url: str, cache_key: str) -> WireOptions:
    official = host_of(base_url) in OPENAI_HOSTS
    options = WireOptions(
        api=api,
        model=name,
        temperature=settings.temperature,
        reasoning_effort=settings.reasoning_effort or "",
        cache_key=cache_key if official else "",
    )
    return WireOptions.from_json(options.to_json() | dict(provider.quirks))


def _prices(
    settings: Settings, provider: Provider, base_url: str, found: Discovered, listed: Prices | None
) -> tuple[Prices | None, str]:
    own = settings.providers.get(provider.name)
    if configured := settings.prices or (own.prices if own else None):
        return configured, "configured"
    if provider.local:
        return FREE, "local"
    if found.prices:
        return found.prices, "server"
    if listed:  # before the next: a proxy on this machine may pass on to a model that costs
        return listed, "catalogue"
    if found.runtime in LOCAL_RUNTIMES and is_local_address(base_url):
        return FREE, "local"
    return None, "unknown"


def _output_cap(settings: Settings, window: Window, limit: int | None) -> tuple[int, str]:
    """The output cap to ask for: the user's, else a useful size within what model and window allow."""
    if settings.max_output_tokens:
        return settings.max_output_tokens, "configured"
    share = window.tokens // OUTPUT_SHARE if window.tokens else OUTPUT_UNKNOWN
    cap = min(limit or OUTPUT_UNKNOWN, OUTPUT_CAP, share)
    return cap, "a share of the window" if cap == share else "known limit" if cap == limit else "default"


def _window_words(window: Window, found: Discovered, date: str) -> str:
    match window.source:
        case "server":
            return f"server ({found.endpoint})" if found.endpoint else "asked of the server with each request (num_ctx)"
        case "catalogue":
            return f"catalogue of {date}"
        case source:
            return source


def _check_price(target: Target, settings: Settings) -> None:
    if target.prices is None and settings.cost_limit:
        raise ConfigError(
            f"the price of {target.ref} is not known, so the cost limit of ${settings.cost_limit:g} cannot be kept. "
            "Give the price in dollars per million tokens, such as -s prices.input_usd_per_mtok=3 "
            "-s prices.output_usd_per_mtok=15, or mark a provider of your own as `local: true`, or switch the limit "
            "off with --cost-limit 0"
        )


def _for_summaries(settings: Settings) -> Settings:
    """The settings of the other model: what was said of the first one's address, window and price is not about it."""
    return replace(
        settings,
        model=settings.context.summary_model,
        base_url=None,
        api=None,
        api_key_env=None,
        context_window=0,
        max_output_tokens=0,
        prices=None,
    )


def _prepare(settings: Settings) -> Callable[[Provider, Api], None]:
    """Importing an SDK takes a second or two: it begins while the server is asked."""

    def prepare(provider: Provider, api: Api) -> None:
        if api != "ollama" and _transport(settings, provider) == "sdk":
            from tinyagent.models import sdk

            sdk.import_soon(sdk.kind_for(provider.name, api))

    return prepare


def _transport(settings: Settings, provider: Provider) -> TransportName:
    return settings.transport or provider.transport


def _pausing(model: Model, environ: Mapping[str, str]) -> Model:
    """The model, kept to the pause that the runs of a batch share."""
    path = environ.get(PAUSE_VARIABLE)
    return PausingModel(model, SharedPause(Path(path))) if path else model


def _open(target: Target, settings: Settings) -> WireModel:
    if _transport(settings, target.provider) == "httpx":
        headers = target.provider.headers
        return connect_http(
            str(target.ref), target.options, base_url=target.base_url, api_key=target.key, headers=headers
        )
    from tinyagent.models import sdk

    if target.options.api == "ollama":
        raise ConfigError("transport: sdk cannot be used with Ollama's own API, which has no official client here")
    kind = sdk.kind_for(target.provider.name, target.options.api)
    endpoint = sdk.Endpoint(kind, target.base_url, target.key, target.provider.headers)
    return sdk.connect_sdk(str(target.ref), target.options, endpoint)
