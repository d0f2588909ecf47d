"""The providers as data: where they are, which wire they speak, which variables hold their keys.

What single hosts want otherwise on the wire is in `quirks.py`; a provider's `quirks` name only what goes beyond it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tinyagent.models.wire import Api

TransportName = Literal["httpx", "sdk"]


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
