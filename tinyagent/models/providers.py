"""Which provider and model are meant, where they are and with which key."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Protocol
from urllib.parse import urlsplit

from tinyagent.core.errors import ConfigError
from tinyagent.models.addresses import OPENAI_HOSTS, host_of
from tinyagent.models.known_providers import PROVIDERS, Provider
from tinyagent.models.wire import Api

MODEL_VARIABLE = "TINYAGENT_MODEL"

# Makers that a bare name tells; other models are served by many.
_BARE = (
    (r"gpt-(?!oss)|chatgpt-|o[1-9](?:-|$)|codex-", "openai"),
    (r"claude-", "anthropic"),
    (r"gemini-", "gemini"),
    (r"grok-", "xai"),
)


class ProviderOverrides(Protocol):
    """A provider in the user's settings: a new one, or another address for a known one."""

    @property
    def base_url(self) -> str | None: ...
    @property
    def api(self) -> Api | None: ...
    @property
    def api_key_env(self) -> str | None: ...
    @property
    def local(self) -> bool: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model at a provider."""

    provider: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def provider_table(overrides: Mapping[str, ProviderOverrides]) -> Mapping[str, Provider]:
    """The built-in providers with the user's own laid over them. Raises ConfigError for a new one without address."""
    table = dict(PROVIDERS)
    for name, own in overrides.items():
        table[name] = _merged(name, own, table.get(name))
    return table


def parse_model(text: str, providers: Mapping[str, Provider] = PROVIDERS) -> ModelRef:
    """PROVIDER/NAME, or a bare name whose maker is known. The name may hold slashes.

    Raises ConfigError that names the nearest provider and says how to define one.
    """
    text = text.strip()
    head, slash, rest = text.partition("/")
    if slash and rest and head.lower() in providers:
        return ModelRef(head.lower(), rest)
    if not slash:
        maker = next((maker for pattern, maker in _BARE if re.match(pattern, text.lower())), None)
        if maker:
            return ModelRef(maker, text)
        if text.lower() in providers and (default := providers[text.lower()].default_model):
            return ModelRef(text.lower(), default)
    raise ConfigError(_unknown(text, head if slash else "", providers))


def choose_model(
    configured: str | None,
    environ: Mapping[str, str],
    probe: Callable[[Provider], str | None],
    providers: Mapping[str, Provider] = PROVIDERS,
) -> ModelRef:
    """The model to use: configured, the environment's, else that of the first provider with a key, else a local one.

    `probe` returns the name of a model that a local server at the provider's usual port offers, or None. Raises
    ConfigError with all the ways where there is none.
    """
    if named := configured or environ.get(MODEL_VARIABLE, ""):
        return parse_model(named, providers)
    for provider in providers.values():
        if provider.default_model and not provider.local and api_key(provider, environ):
            return ModelRef(provider.name, provider.default_model)
    for provider in providers.values():
        if provider.local and (name := probe(provider)):
            return ModelRef(provider.name, name)
    keys = ", ".join(provider.key_variables[0] for provider in providers.values() if provider.default_model)
    local = ", ".join(provider.name for provider in providers.values() if provider.local)
    raise ConfigError(
        f"no model is named, no key is set and no local server answers. Name one with -m PROVIDER/NAME, with `model:` "
        f"in the config file or with {MODEL_VARIABLE}; or set a key ({keys}); or start a local server ({local}). "
        "To see the program at work without any model: tinyagent demo"
    )


def default_api(provider: Provider, model: str, base_url: str) -> Api:
    """The wire for a model: the Responses API for OpenAI's reasoning models at OpenAI itself, else the provider's."""
    is_official = provider.name == "openai" and host_of(base_url) in OPENAI_HOSTS
    is_reasoning = re.match(r"o[1-9](?:-|$)|gpt-(?:[5-9]|\d{2})(?!.*chat)|codex-", model.lower()) is not None
    return "responses" if is_official and is_reasoning else provider.api


def binds_reasoning(model: str) -> bool:
    """Whether a model's reasoning signatures cover all that came before, so that a changed history voids them.

    True for Claude from 5.1 on (Fable and Mythos 5.1 and 5.2, Opus, Sonnet and Haiku 5.5; Anthropic, August 2026), by
    any provider, and for later ones until more is known.
    """
    found = re.search(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2})(?!\d))?", model.lower())
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (5, 1)


def api_key(provider: Provider, environ: Mapping[str, str], api_key_env: str | None = None) -> str:
    """The key, from `api_key_env` alone if it is given, else from the first of the provider's variables; "" if none."""
    names = (api_key_env,) if api_key_env else provider.key_variables
    return next((environ[name] for name in names if environ.get(name)), "")


def base_url(provider: Provider, environ: Mapping[str, str], configured: str | None = None) -> str:
    """The address: configured, the vendor's variable, the table's; without a slash at its end. "" if there is none.

    Raises ConfigError for one that is no http address.
    """
    variable = next((environ[name] for name in provider.url_variables if environ.get(name)), "")
    address = (configured or variable or provider.base_url).strip()
    if provider.name == "ollama" and "://" not in address:
        address = f"http://{address}"  # OLLAMA_HOST may be a host, a host with a port, or ":port"
    try:
        parts = urlsplit(address)
        port, is_web = parts.port, parts.scheme in ("http", "https")
    except ValueError:  # a bracket left open, a port that is no number
        port, is_web = None, False
    if address and not is_web:
        raise ConfigError(f"{address!r} is no address for {provider.name}: it must begin with http:// or https://")
    return _ollama_address(address, port) if provider.name == "ollama" else address.rstrip("/")


def _merged(name: str, own: ProviderOverrides, known: Provider | None) -> Provider:
    if known is None and not own.base_url:
        raise ConfigError(f"providers.{name} needs a base_url, such as http://127.0.0.1:8000/v1")
    provider = known or Provider(name)
    return replace(
        provider,
        base_url=own.base_url or provider.base_url,
        url_variables=() if own.base_url else provider.url_variables,
        api=own.api or provider.api,
        key_variables=(own.api_key_env,) if own.api_key_env else provider.key_variables,
        local=own.local or provider.local,
        transport="httpx" if own.base_url else provider.transport,
        headers={**provider.headers, **own.headers},
    )


def _unknown(text: str, head: str, providers: Iterable[str]) -> str:
    names = sorted(providers)
    if not head:
        return f"{text!r} does not say whose model it is: write PROVIDER/NAME, with a provider of {', '.join(names)}"
    near = get_close_matches(head.lower(), names, n=1)
    hint = f"; did you mean {near[0]}/{text.partition('/')[2]}?" if near else f"; known are {', '.join(names)}."
    return (
        f"unknown provider {head!r} in {text!r}{hint} "
        "For an OpenAI-compatible server write openai/NAME with --base-url, "
        f"or define it in the config file: providers: {{{head}: {{base_url: https://..., api_key_env: NAME}}}}"
    )


def _ollama_address(address: str, port: int | None) -> str:
    """With Ollama's port where none is given; a server that listens on all addresses is here."""
    parts = urlsplit(address)
    host = host_of(address) or "127.0.0.1"
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    usual = 443 if parts.scheme == "https" else 11434
    return f"{parts.scheme}://{host}:{port or usual}{parts.path.rstrip('/')}"
