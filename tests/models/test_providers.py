"""Providers as data: model names, addresses, keys, the wire for a model, the model that is used when none is named."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tinyagent.core.errors import ConfigError
from tinyagent.models.addresses import is_local_address
from tinyagent.models.known_providers import PROVIDERS, Provider
from tinyagent.models.providers import (
    ModelRef,
    api_key,
    base_url,
    binds_reasoning,
    choose_model,
    default_api,
    parse_model,
    provider_table,
)
from tinyagent.models.wire import Api, WireOptions


@dataclass(frozen=True)
class Own:
    base_url: str | None = None
    api: Api | None = None
    api_key_env: str | None = None
    local: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def nothing_local(provider: Provider) -> str | None:
    return None


@pytest.mark.parametrize(
    ("text", "provider", "name"),
    [
        ("openrouter/anthropic/claude-x", "openrouter", "anthropic/claude-x"),
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("Ollama/qwen3:8b", "ollama", "qwen3:8b"),
        ("gpt-6-sol", "openai", "gpt-6-sol"),
        ("o3-mini", "openai", "o3-mini"),
        ("o3", "openai", "o3"),
        ("claude-opus-5-5", "anthropic", "claude-opus-5-5"),
        ("gemini-3.8-flash", "gemini", "gemini-3.8-flash"),
        ("anthropic", "anthropic", "claude-sonnet-5-5"),
        (" openai/gpt-4o ", "openai", "gpt-4o"),
    ],
)
def test_a_model_is_named_by_provider_or_by_a_name_that_tells_its_maker(text: str, provider: str, name: str) -> None:
    assert parse_model(text) == ModelRef(provider, name)


def test_an_unknown_provider_is_answered_with_the_nearest_and_how_to_define_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean anthropic/claude-x\?.*providers: \{antropic: \{base_url"):
        parse_model("antropic/claude-x")


@pytest.mark.parametrize("text", ["qwen3", "gpt-oss-120b", "openai/", "/x", "", "oxygen", "o"])
def test_a_name_that_tells_no_maker_is_an_error_that_says_the_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"PROVIDER/NAME|unknown provider"):
        parse_model(text)


def test_a_provider_of_the_users_own_is_added_and_a_known_one_moved() -> None:
    table = provider_table(
        {
            "lab": Own("http://10.0.0.7:9000/v1", local=True, headers={"x-team": "a"}),
            "openai": Own("https://gateway.example/v1", api_key_env="GATEWAY_KEY"),
        }
    )
    assert parse_model("lab/m", table) == ModelRef("lab", "m")
    assert (table["lab"].api, table["lab"].local, table["lab"].headers) == ("openai", True, {"x-team": "a"})
    assert base_url(table["openai"], {"OPENAI_BASE_URL": "https://elsewhere/v1"}) == "https://gateway.example/v1"
    assert api_key(table["openai"], {"OPENAI_API_KEY": "a", "GATEWAY_KEY": "b"}) == "b"
    assert PROVIDERS["openai"].base_url == "https://api.openai.com/v1"


def test_a_new_provider_needs_an_address() -> None:
    with pytest.raises(ConfigError, match=r"providers\.lab needs a base_url"):
        provider_table({"lab": Own()})


@pytest.mark.parametrize(
    ("model", "address", "api"),
    [
        ("gpt-6-sol", "https://api.openai.com/v1", "responses"),
        ("gpt-5.5", "https://api.openai.com/v1", "responses"),
        ("o4-mini", "https://eu.api.openai.com/v1", "responses"),
        ("gpt-5-chat-latest", "https://api.openai.com/v1", "openai"),
        ("gpt-4o", "https://api.openai.com/v1", "openai"),
        ("gpt-4.1", "https://api.openai.com/v1", "openai"),
        ("gpt-6-sol", "http://127.0.0.1:8000/v1", "openai"),
    ],
)
def test_openais_reasoning_models_use_responses_at_openai_itself(model: str, address: str, api: Api) -> None:
    assert default_api(PROVIDERS["openai"], model, address) == api


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":11435", "http://127.0.0.1:11435"),
        ("gpu-box", "http://gpu-box:11434"),
        ("10.1.2.3:8000", "http://10.1.2.3:8000"),
        ("https://ollama.example/", "https://ollama.example:443"),
        ("http://[::1]:11434", "http://[::1]:11434"),
        ("https://host/prefix/", "https://host:443/prefix"),
    ],
)
def test_ollama_host_is_understood_as_ollama_writes_it(host: str, address: str) -> None:
    assert base_url(PROVIDERS["ollama"], {"OLLAMA_HOST": host}) == address


def test_an_address_is_the_users_before_the_variables_before_the_tables() -> None:
    provider, environ = PROVIDERS["anthropic"], {"ANTHROPIC_BASE_URL": "https://proxy.example/"}
    assert base_url(provider, environ, "https://mine.example/") == "https://mine.example"
    assert base_url(provider, environ) == "https://proxy.example"
    assert base_url(provider, {}) == "https://api.anthropic.com"


@pytest.mark.parametrize("address", ["ftp://x", "localhost:8000/v1", "http://[", "http://host:port"])
def test_an_address_that_is_none_is_a_config_error(address: str) -> None:
    with pytest.raises(ConfigError, match="http"):
        base_url(PROVIDERS["vllm"], {}, address)


def test_a_named_key_variable_is_the_only_one_that_counts() -> None:
    environ = {"OPENAI_API_KEY": "usual"}
    assert api_key(PROVIDERS["openai"], environ) == "usual"
    assert api_key(PROVIDERS["openai"], environ, "OTHER") == ""
    assert api_key(PROVIDERS["gemini"], {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "g"}) == "g"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.1.5:8000/v1", True),
        ("http://10.0.0.1", True),
        ("http://host.docker.internal:11434", True),
        ("http://ollama:11434", True),
        ("http://box.local", True),
        ("http://0.0.0.0:8000", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8", False),
        ("not a url", False),
        ("", False),
    ],
)
def test_local_addresses_are_those_of_this_machine_and_private_networks(url: str, expected: bool) -> None:
    assert is_local_address(url) is expected


def test_the_model_is_the_configured_one_before_the_environments() -> None:
    environ = {"TINYAGENT_MODEL": "openai/gpt-4o", "ANTHROPIC_API_KEY": "k"}
    assert str(choose_model("ollama/qwen3", environ, nothing_local)) == "ollama/qwen3"
    assert str(choose_model(None, environ, nothing_local)) == "openai/gpt-4o"
    assert str(choose_model("", {"ANTHROPIC_API_KEY": "k"}, nothing_local)) == "anthropic/claude-sonnet-5-5"
    assert choose_model(None, {"GROQ_API_KEY": "k"}, nothing_local).provider == "groq"


def test_a_local_server_is_used_where_there_is_no_key() -> None:
    def probe(provider: Provider) -> str | None:
        return "qwen3:8b" if provider.name == "ollama" else None

    assert str(choose_model(None, {}, probe)) == "ollama/qwen3:8b"


def test_with_nothing_to_use_all_the_ways_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        choose_model(None, {}, nothing_local)
    for way in ("-m PROVIDER/NAME", "model:", "TINYAGENT_MODEL", "ANTHROPIC_API_KEY", "ollama", "tinyagent demo"):
        assert way in str(caught.value)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-5-5", True),
        ("claude-sonnet-5-5", True),
        ("claude-haiku-5.5", True),
        ("openrouter/anthropic/claude-fable-5.1", True),
        ("us.anthropic.claude-mythos-5-2-v1:0", True),
        ("claude-opus-6", True),
        ("claude-opus-5", False),
        ("claude-sonnet-5-20260601", False),
        ("claude-opus-4-8", False),
        ("claude-3-5-sonnet", False),
        ("gpt-6-sol", False),
    ],
)
def test_models_whose_signatures_bind_to_what_came_before_are_known(model: str, expected: bool) -> None:
    assert binds_reasoning(model) is expected


def test_every_provider_is_complete() -> None:
    for name, provider in PROVIDERS.items():
        assert name == provider.name
        assert provider.base_url or provider.transport == "sdk"
        assert not provider.base_url.endswith("/")
        assert provider.key_variables or provider.transport == "sdk"
        assert not {"AWS_PROFILE", "GOOGLE_CLOUD_PROJECT"} & set(provider.key_variables)  # their values are no secrets
        assert replace(WireOptions(provider.api, "m"), **provider.quirks).model == "m"
        if provider.local:
            assert is_local_address(provider.base_url)
