"""The providers as data: where they are, which wire they speak, which variables hold their keys.

What single hosts want otherwise on the wire is in `quirks.py`; a provider's `quirks` name only what goes beyond it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Literal, Protocol
from urllib.parse import urlsplit

from tinyagent.core.errors import ConfigError
from tinyagent.models.wire import Api

TransportName = Literal["httpx", "sdk"]
OPENAI_HOSTS = frozenset({"api.openai.com", "eu.api.openai.com", "us.api.openai.com"})
MODEL_VARIABLE = "TINYAGENT_MODEL"


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider.

    `base_url` is "" where the user or an SDK must say it. `key_variables` and `url_variables` are the vendors' own
    environment variables, first that is set. `local`: its models cost nothing and its server decides the window.
    `quirks` are fields of `WireOptions`. `default_model` is used when the user names none.
    """

    name: str
    base_url: str = ""
    api: Api = "openai"
    key_variables: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    local: bool = False
    transport: TransportName = "httpx"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    quirks: Mapping[str, object] = field(default_factory=dict[str, object])
    default_model: str = ""


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


# Facts as of November 2026, from the providers' documentation. The order is that in which a key decides the default.
_NO_ECHO: Mapping[str, object] = {"echo": ()}  # these refuse fields in a message that they do not know
_ALL = (
    Provider(
        "anthropic",
        "https://api.anthropic.com",
        "anthropic",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL",),
        default_model="claude-sonnet-5-5",
    ),
    Provider(
        "openai",
        "https://api.openai.com/v1",
        "openai",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        default_model="gpt-6-sol",
    ),
    Provider(
        "openrouter",
        "https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        default_model="anthropic/claude-sonnet-5.5",
    ),
    Provider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini-3.8-flash",
    ),
    Provider(
        "deepseek",
        "https://api.deepseek.com",
        key_variables=("DEEPSEEK_API_KEY",),
        default_model="deepseek-v4-pro",
    ),
    Provider("xai", "https://api.x.ai/v1", key_variables=("XAI_API_KEY",), default_model="grok-4.7"),
    Provider(
        "moonshot",
        "https://api.moonshot.ai/v1",
        key_variables=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
        default_model="kimi-k2.7-code",
    ),
    Provider(
        "zai",
        "https://api.z.ai/api/paas/v4",
        key_variables=("ZAI_API_KEY", "ZHIPUAI_API_KEY"),
        default_model="glm-5.3",
    ),
    Provider(
        "mistral",
        "https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        quirks=_NO_ECHO,
        default_model="devstral-latest",
    ),
    Provider(
        "groq",
        "https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        quirks=_NO_ECHO,
        default_model="openai/gpt-oss-120b",
    ),
    Provider(
        "cerebras",
        "https://api.cerebras.ai/v1",
        key_variables=("CEREBRAS_API_KEY",),
        quirks=_NO_ECHO,
        default_model="gpt-oss-120b",
    ),
    Provider(
        "together",
        "https://api.together.xyz/v1",
        key_variables=("TOGETHER_API_KEY", "TOGETHERAI_API_KEY"),
        default_model="zai-org/GLM-5.3",
    ),
    Provider(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
        default_model="accounts/fireworks/models/glm-5p3",
    ),
    # The official SDK clients bring these three their authentication, and read addresses, profiles and projects from
    # the vendors' variables themselves; only what is itself a secret is a key variable.
    Provider(
        "azure",
        api="openai",
        key_variables=("AZURE_OPENAI_API_KEY",),
        url_variables=("AZURE_OPENAI_ENDPOINT",),
        transport="sdk",
    ),
    Provider(
        "bedrock",
        api="anthropic",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        transport="sdk",
    ),
    Provider(
        "vertex",
        api="anthropic",
        transport="sdk",
    ),
    Provider(
        "litellm",
        "http://127.0.0.1:4000/v1",
        key_variables=("LITELLM_API_KEY", "LITELLM_PROXY_API_KEY"),
        url_variables=("LITELLM_BASE_URL", "LITELLM_PROXY_API_BASE"),
    ),
    Provider(
        "ollama",
        "http://127.0.0.1:11434",
        "ollama",
        ("OLLAMA_API_KEY",),
        ("OLLAMA_HOST",),
        local=True,
    ),
    Provider(
        "lmstudio",
        "http://127.0.0.1:1234/v1",
        key_variables=("LMSTUDIO_API_KEY",),
        url_variables=("LMSTUDIO_BASE_URL",),
        local=True,
    ),
    Provider(
        "llamacpp",
        "http://127.0.0.1:8080/v1",
        key_variables=("LLAMACPP_API_KEY",),
        url_variables=("LLAMACPP_BASE_URL",),
        local=True,
    ),
    Provider(
        "vllm",
        "http://127.0.0.1:8000/v1",
        key_variables=("VLLM_API_KEY",),
        url_variables=("VLLM_BASE_URL",),
        local=True,
    ),
)
PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in _ALL}

# Makers that a bare name tells; other models are served by many.
_BARE = (
    (r"gpt-(?!oss)|chatgpt-|o[1-9](?:-|$)|codex-", "openai"),
    (r"claude-", "anthropic"),
    (r"gemini-", "gemini"),
    (r"grok-", "xai"),
)


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


def host_of(url: str) -> str:
    """The host of a URL in lower case; "" if it has none or cannot be read."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def is_local_address(url: str) -> bool:
    """Whether a URL points at this machine or a private network: loopback, private ranges, names without a dot."""
    host = host_of(url)
    try:
        address = ip_address(host)
    except ValueError:  # a name
        return bool(host) and ("." not in host or host.endswith((".local", ".lan", ".internal", ".localhost")))
    return address.is_private or address.is_loopback or address.is_link_local or address.is_unspecified


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
