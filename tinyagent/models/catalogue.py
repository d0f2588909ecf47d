"""Windows, output limits and list prices of known models: a dated snapshot that ships with the program.

It is asked last, after the user, the server's errors and the server itself. A row that is found by the model's name in
another house's list gives its window; its price only where that price is the same everywhere.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, cast

from tinyagent.core.pricing import Prices

DATA = Path(__file__).parent / "data" / "catalogue.json"

Match = Literal["exact", "normalised", "prefix", "family"]

# Providers whose servers decide the window themselves; what a model was trained for says nothing there.
_LOCAL = frozenset({"ollama", "lmstudio", "llamacpp", "vllm", "sglang", "local"})
# Where a provider's models stand in the snapshot, beside its own list.
_LISTS: Mapping[str, tuple[str, ...]] = {
    "azure": ("azure", "openai"),
    "bedrock": ("bedrock", "anthropic"),
    "vertex": ("gemini", "anthropic"),
    "google": ("gemini",),
    "grok": ("xai",),
    "dashscope": ("qwen",),
    "kimi": ("moonshot",),
}
# Makers whose models cost the same wherever they are served; open models have another price at every house.
_LIST_PRICE_MAKERS = frozenset({"anthropic", "openai", "gemini", "xai"})
_REGION = r"^(?:us|eu|apac|au|jp|ca|global|us-gov)\."
_VENDOR = r"^(?:anthropic|amazon|meta|mistral|deepseek|qwen|openai|cohere|ai21)\."
_SUFFIX = (
    r"(?::(?:free|thinking|nitro|beta|extended|online|floor|exacto)|@[\w\-]+|-v\d+(?::\d+)?|-latest|-20\d{6}"
    r"|-20\d{2}-\d{2}-\d{2})$"
)

# The smallest window that a family's models have, for names that no row fits. Source: providers' documentation and the
# snapshot, November 2026.
_FAMILIES: tuple[tuple[str, int, int | None], ...] = (
    (r"gpt-4o|chatgpt-4o", 128_000, 16_384),
    (r"gpt-4\.1", 1_047_576, 32_768),
    (r"gpt-4-turbo|gpt-4-1106|gpt-4-0125", 128_000, 4_096),
    (r"gpt-4\b", 8_192, 4_096),
    (r"gpt-3\.5|gpt-35", 16_385, 4_096),
    (r"gpt-oss", 131_072, 32_768),
    (r"gpt-[5-9]", 272_000, 128_000),
    (r"o[1-9](?:-|$)", 200_000, 100_000),
    (
        r"claude-(?:opus|sonnet)-4[-.][6-9]|claude-(?:opus|sonnet|haiku|fable|mythos)-(?:[5-9]|\d{2})(?!\d)",
        1_000_000,
        128_000,
    ),
    (r"claude", 200_000, None),
    (r"gemini-(?:2\.5|[3-9])", 1_048_576, 65_536),
    (r"gemini", 1_000_000, 8_192),
    (r"grok-[4-9]", 256_000, None),
    (r"grok", 131_072, None),
    (r"deepseek-v[4-9]", 1_000_000, None),
    (r"deepseek", 65_536, 8_192),
    (r"kimi-k[3-9]", 1_048_576, None),
    (r"kimi", 131_072, None),
    (r"glm-5\.[2-9]|glm-[6-9]", 1_000_000, 128_000),
    (r"glm-(?:4\.[6-9]|5)", 200_000, 128_000),
    (r"glm", 128_000, None),
    (r"minimax", 200_000, None),
    (r"devstral|codestral|mistral-(?:large|medium)|magistral|ministral", 128_000, None),
    (r"mistral|mixtral", 32_000, None),
    (r"qwen-?3", 129_024, None),
    (r"llama-?(?:3\.[1-9]|4)", 128_000, None),
    (r"nova", 128_000, None),
)


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """What the snapshot says of a model. `window` is the most input; `total_tokens` input and output together.

    None is unknown, for a price as for a limit. `match` says how the name was found, `source` and `date` where the
    figures come from.
    """

    name: str
    provider: str
    window: int
    total_tokens: int | None = None
    max_output_tokens: int | None = None
    input_usd_per_mtok: float | None = None
    output_usd_per_mtok: float | None = None
    cache_read_usd_per_mtok: float | None = None
    cache_write_usd_per_mtok: float | None = None
    cache_write_1h_usd_per_mtok: float | None = None
    long_context_over_tokens: int | None = None
    long_context_factor_input: float = 1.0
    long_context_factor_output: float = 1.0
    match: Match = "exact"
    source: str = ""
    date: str = ""

    @property
    def prices(self) -> Prices | None:
        """The list price, or None if it is not known."""
        if self.input_usd_per_mtok is None or self.output_usd_per_mtok is None:
            return None
        return Prices(
            self.input_usd_per_mtok,
            self.output_usd_per_mtok,
            self.cache_read_usd_per_mtok,
            self.cache_write_usd_per_mtok,
            self.long_context_over_tokens,
            self.long_context_factor_input,
            self.long_context_factor_output,
        )


def lookup(name: str) -> CatalogueRow | None:
    """The row for PROVIDER/NAME or a bare NAME, by falling exactness; None for local servers and unknown names.

    Order: exact, the name without its provider, the last part of a nested name, the name without date and suffixes, the
    longest known name that it begins with at a word boundary, and the family that its name tells.
    """
    provider, _, rest = name.strip().lower().rpartition("/") if "/" in name else ("", "", name.strip().lower())
    house = provider.split("/", 1)[0]
    if house in _LOCAL:
        return None
    whole = name.strip().lower().split("/", 1)[-1]
    lists = _LISTS.get(house, (house,)) if house else ()
    candidates = list(dict.fromkeys((whole, rest)))
    row = _find(lists, candidates) or _find(tuple(_snapshot().models), candidates) or _family(rest)
    return _with_known_price(row, lists) if row else None


def snapshot_date() -> str:
    """The day of the figures, YYYY-MM-DD."""
    return _snapshot().date


@dataclass(frozen=True, slots=True)
class _Snapshot:
    date: str
    sources: Mapping[str, str]
    models: Mapping[str, Mapping[str, list[object]]]  # rows by provider and lower-case name


@cache
def _snapshot() -> _Snapshot:
    """The file, read once at first need (2 ms)."""
    data = json.loads(DATA.read_text("utf-8"))
    models = {
        provider: {name.lower(): cast("list[object]", row) for name, row in rows.items()}
        for provider, rows in data["models"].items()
    }
    return _Snapshot(data["date"], data["sources"], models)


@cache
def _spellings(provider: str) -> Mapping[str, str]:
    """Names of one list by their canonical spelling."""
    return {_canonical(name): name for name in reversed(list(_snapshot().models[provider]))}


def _find(lists: tuple[str, ...], candidates: list[str]) -> CatalogueRow | None:
    known = [provider for provider in lists if provider in _snapshot().models]
    for finder in (_exact, _normalised, _prefix):
        for candidate in candidates:
            for provider in known:
                if row := finder(provider, candidate):
                    return row
    return None


def _exact(provider: str, name: str) -> CatalogueRow | None:
    return _row(provider, name, "exact") if name in _snapshot().models[provider] else None


def _normalised(provider: str, name: str) -> CatalogueRow | None:
    found = _spellings(provider).get(_canonical(name))
    return _row(provider, found, "normalised") if found else None


def _prefix(provider: str, name: str) -> CatalogueRow | None:
    name = _stripped(name)
    fitting = [known for known in _snapshot().models[provider] if _begins_with(name, known)]
    return _row(provider, max(fitting, key=len), "prefix") if fitting else None


def _begins_with(name: str, known: str) -> bool:
    """At a word boundary that is no version: gpt-4 begins gpt-4-foo and gpt-4-0314, not gpt-4.1, gpt-4o or gpt-4-1."""
    return name.startswith(known) and re.match(r"[:@]|-(?:[a-z]|\d{4})", name[len(known) :]) is not None


def _family(name: str) -> CatalogueRow | None:
    name = _stripped(name)
    for pattern, window, output in _FAMILIES:
        if re.search(rf"(?:^|[/_.])(?:{pattern})", name):
            return CatalogueRow(
                name, "", window, max_output_tokens=output, match="family", source="family", date=snapshot_date()
            )
    return None


def _canonical(name: str) -> str:
    """One spelling of a name: without region, vendor, date and variant, 4.5 written as 4-5 and 4-0 as 4."""
    return re.sub(r"-0$", "", re.sub(r"(?<=\d)\.(?=\d)", "-", _stripped(name)))


def _stripped(name: str) -> str:
    for pattern in (r"^models/|^publishers/\w+/models/|^accounts/\w+/models/", _REGION, _VENDOR):
        name = re.sub(pattern, "", name.lower())
    while (shorter := re.sub(_SUFFIX, "", name)) != name:
        name = shorter
    return name


def _row(provider: str, name: str, match: Match) -> CatalogueRow:
    snapshot = _snapshot()
    values = iter(snapshot.models[provider][name])

    def number() -> float | None:
        value = next(values)
        return float(value) if isinstance(value, (int, float)) else None

    def count() -> int | None:
        value = number()
        return None if value is None else int(value)

    return CatalogueRow(
        name=name,
        provider=provider,
        window=count() or 0,
        total_tokens=count(),
        max_output_tokens=count(),
        input_usd_per_mtok=number(),
        output_usd_per_mtok=number(),
        cache_read_usd_per_mtok=number(),
        cache_write_usd_per_mtok=number(),
        cache_write_1h_usd_per_mtok=number(),
        long_context_over_tokens=count(),
        long_context_factor_input=number() or 1.0,
        long_context_factor_output=number() or 1.0,
        match=match,
        source=snapshot.sources.get(str(next(values)), ""),
        date=snapshot.date,
    )


def _with_known_price(row: CatalogueRow, lists: tuple[str, ...]) -> CatalogueRow:
    """The row without its price where another may hold: a name that only begins alike, an open model elsewhere."""
    is_same_model = row.match in ("exact", "normalised")
    if is_same_model and (not lists or row.provider in lists or row.provider in _LIST_PRICE_MAKERS):
        return row
    return replace(row, input_usd_per_mtok=None, output_usd_per_mtok=None)
