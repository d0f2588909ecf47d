"""The snapshot of windows and prices: which row a name gets, and what the file itself must hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.core.pricing import cost
from tinyagent.core.types import Usage
from tinyagent.models.catalogue import DATA, CatalogueRow, lookup, snapshot_date
from tinyagent.models.known_providers import PROVIDERS


def found(name: str) -> CatalogueRow:
    row = lookup(name)
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("name", "window", "output"),
    [
        ("gpt-4o", 128_000, 16_384),
        ("openai/gpt-4o-mini", 128_000, 16_384),
        ("gpt-4.1", 1_047_576, 32_768),
        ("gpt-4", 8_192, 4_096),
        ("gpt-4-0314", 8_192, 4_096),
        ("gpt-5", 272_000, 128_000),
        ("gpt-5.5", 922_000, 128_000),
        ("o3", 200_000, 100_000),
        ("claude-opus-5-5", 1_000_000, 128_000),
        ("anthropic/claude-sonnet-4-5-20250929", 200_000, 64_000),
        ("claude-3-5-sonnet-20241022", 200_000, None),
        ("openrouter/anthropic/claude-opus-4.5", 200_000, 64_000),
        ("openrouter/anthropic/claude-opus-4.5:thinking", 200_000, 64_000),
        ("bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0", 200_000, 64_000),
        ("vertex/claude-sonnet-4-5@20250929", 200_000, 64_000),
        ("gemini/models/gemini-2.5-pro", 1_048_576, 65_536),
        ("GPT-4O-2024-11-20", 128_000, 16_384),
        ("azure/gpt-4.1", 128_000, 32_768),
        ("fireworks/accounts/fireworks/models/glm-5p2", 1_048_576, 131_072),
        ("groq/openai/gpt-oss-120b", 131_072, 65_536),
        ("my-gateway/claude-sonnet-4-6", 1_000_000, 128_000),
    ],
)
def test_a_name_finds_its_row_however_it_is_nested_and_dated(name: str, window: int, output: int | None) -> None:
    assert (found(name).window, found(name).max_output_tokens) == (window, output)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4.1-foo", 1_047_576),
        ("gpt-4-foo", 8_192),
        ("gpt-4o-foo", 128_000),
        ("gpt-5.99", 272_000),
        ("claude-opus-9", 1_000_000),
        ("claude-new", 200_000),
        ("openrouter/qwen/qwen3-something-new", 129_024),
    ],
)
def test_a_shorter_name_never_lends_its_price_nor_a_longer_one_its_window(name: str, window: int) -> None:
    """The window of gpt-4 must not become that of gpt-4.1."""
    row = found(name)
    assert row.window == window
    assert row.match in ("prefix", "family")
    assert row.prices is None


@pytest.mark.parametrize(
    "name", ["ollama/llama3.1", "lmstudio/qwen3-8b", "vllm/gpt-4o", "no-such-model", "superministral", "x/y/z", "", "/"]
)
def test_local_servers_and_unknown_names_have_no_row(name: str) -> None:
    assert lookup(name) is None


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("openai/gpt-4o", True),
        ("azure/gpt-4o", True),
        ("openrouter/anthropic/claude-sonnet-4.5", True),
        ("deepseek/deepseek-v4-pro", True),
        ("openrouter/deepseek/deepseek-v4-pro", False),
        ("openrouter/openai/gpt-oss-120b", False),
        ("groq/openai/gpt-oss-120b", True),
    ],
)
def test_a_price_counts_only_where_it_is_the_same_everywhere(name: str, is_known: bool) -> None:
    assert (found(name).prices is not None) == is_known


def test_prices_hold_cache_and_long_context_figures() -> None:
    row = found("claude-opus-5-5")
    assert (row.input_usd_per_mtok, row.output_usd_per_mtok) == (4, 20)
    assert (row.cache_read_usd_per_mtok, row.cache_write_usd_per_mtok, row.cache_write_1h_usd_per_mtok) == (0.2, 5, 8)
    long = found("gpt-5.5")
    assert (long.long_context_over_tokens, long.long_context_factor_input, long.long_context_factor_output) == (
        272_000,
        2,
        1.5,
    )
    assert cost(Usage(1_000_000, 0), long.prices) == pytest.approx(10)


def test_the_file_is_small_dated_and_names_its_sources() -> None:
    data = json.loads(DATA.read_text("utf-8"))
    assert DATA.stat().st_size < 100_000
    assert data["date"] == snapshot_date()
    assert "MIT" in data["notice"]
    assert "Copyright" in data["notice"]
    assert set(data["sources"]) == {"l", "g"}


def test_every_row_is_sound() -> None:
    listed = json.loads(DATA.read_text("utf-8"))["models"]
    for provider, name in ((provider, name) for provider, rows in listed.items() for name in rows):
        row = found(f"{provider}/{name}")
        assert row.window >= 2_048, name
        assert row.max_output_tokens is None or 0 < row.max_output_tokens <= row.window, name
        assert row.total_tokens is None or row.total_tokens >= row.window, name
        for price in (row.input_usd_per_mtok, row.output_usd_per_mtok, row.cache_read_usd_per_mtok):
            assert price is None or 0 <= price <= 1_000, name
        assert row.long_context_factor_input >= 1, name
        assert row.source, name


def test_the_default_model_of_each_provider_is_known() -> None:
    for provider in PROVIDERS.values():
        if provider.default_model:
            assert found(f"{provider.name}/{provider.default_model}").match in ("exact", "normalised"), provider.name


@given(st.text(max_size=40))
def test_any_name_is_looked_up_without_raising(name: str) -> None:
    row = lookup(name)
    assert row is None or row.window > 0
