"""What servers say of a model's window, read from their JSON. Pure; unknown forms give None, never an error.

Sources: documentation and code of the servers, November 2026. A window that a model was *trained* for is kept apart
from the one that is *served*: only the second counts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from tinyagent.core.pricing import Prices
from tinyagent.core.types import Json
from tinyagent.models.payload import as_list, as_object

PER_MTOK = 1_000_000
# Names under which servers give the window and the output limit, dots for nesting; most telling first.
_WINDOW_FIELDS = (
    "max_model_len",
    "loaded_context_length",
    "meta.n_ctx",
    "capabilities.limits.max_prompt_tokens",
    "capabilities.limits.max_context_window_tokens",
    "max_input_tokens",
    "inputTokenLimit",
    "context_length",
    "context_window",
    "max_context_length",
    "token_limits.context_window",
    "contextLength",
)
_OUTPUT_FIELDS = (
    "max_completion_tokens",
    "top_provider.max_completion_tokens",
    "capabilities.limits.max_output_tokens",
    "max_output_tokens",
    "outputTokenLimit",
)


@dataclass(frozen=True, slots=True)
class Discovered:
    """What a server says. None is unknown.

    `window` is what it serves now; `trained` the most the model can; `num_ctx` what an Ollama Modelfile sets.
    `prices` are dollars per million tokens. `runtime` and `endpoint` say who answered and where.
    """

    window: int | None = None
    max_output_tokens: int | None = None
    prices: Prices | None = None
    runtime: str = ""
    endpoint: str = ""
    trained: int | None = None
    num_ctx: int | None = None


Reader = Callable[[object, str], Discovered | None]


def read_ollama_ps(answer: object, model: str) -> Discovered | None:
    """GET /api/ps: the allocated window of a loaded model."""
    for entry in _objects(_at(answer, "models")):
        if _same_tag(model, entry.get("name")) or _same_tag(model, entry.get("model")):
            return Discovered(window=_count(entry.get("context_length")), runtime="ollama")
    return None


def read_ollama_show(answer: object, model: str) -> Discovered | None:
    """POST /api/show: the trained maximum, and num_ctx where the Modelfile sets it."""
    info = as_object(_at(answer, "model_info"))
    trained = _count(info.get(f"{info.get('general.architecture')}.context_length"))
    trained = trained or next((_count(value) for key, value in info.items() if key.endswith(".context_length")), None)
    words = str(_at(answer, "parameters") or "").split()
    num_ctx = next((_count(value) for name, value in pairwise(words) if name == "num_ctx"), None)
    return Discovered(runtime="ollama", trained=trained, num_ctx=num_ctx) if trained or num_ctx else None


def read_llamacpp_props(answer: object, model: str) -> Discovered | None:
    """GET /props: the window of one slot."""
    window = _count(_at(answer, "default_generation_settings.n_ctx")) or _count(_at(answer, "n_ctx"))
    return Discovered(window=window, runtime="llama.cpp") if window else None


def read_lmstudio_v0(answer: object, model: str) -> Discovered | None:
    """GET /api/v0/models: the window of a loaded model; of one that is not loaded only what it was trained for."""
    entry = _entry(answer, model)
    if entry is None or "state" not in entry:
        return None
    return Discovered(
        window=_count(entry.get("loaded_context_length")),
        trained=_count(entry.get("max_context_length")),
        runtime="lmstudio",
    )


def read_lmstudio_v1(answer: object, model: str) -> Discovered | None:
    """GET /api/v1/models of LM Studio 0.4 and later."""
    for entry in _objects(_at(answer, "models")):
        if "loaded_instances" in entry and _same(model, entry.get("key"), entry.get("id")):
            loaded = next(_objects(entry["loaded_instances"]), None)
            window = _count(_at(loaded, "config.context_length"))
            return Discovered(window=window, trained=_count(entry.get("max_context_length")), runtime="lmstudio")
    return None


def read_tgi_info(answer: object, model: str) -> Discovered | None:
    """GET /info: input and total limit; the smaller holds both."""
    limits = [_count(_at(answer, name)) for name in ("max_input_tokens", "max_input_length", "max_total_tokens")]
    known = [limit for limit in limits if limit]
    return Discovered(window=min(known), runtime="tgi") if known else None


def read_sglang_info(answer: object, model: str) -> Discovered | None:
    """GET /get_server_info: the window, or the token pool where that is smaller."""
    limits = [_count(_at(answer, name)) for name in ("context_length", "max_total_num_tokens", "max_req_input_len")]
    known = [limit for limit in limits if limit]
    return Discovered(window=min(known), runtime="sglang") if known else None


def read_litellm_info(answer: object, model: str) -> Discovered | None:
    """GET /model/info of a LiteLLM proxy: limits and prices of a model group."""
    for entry in _objects(_at(answer, "data")):
        if _same(model, entry.get("model_name")):
            info = as_object(entry.get("model_info"))
            return Discovered(
                window=_count(info.get("max_input_tokens")) or _count(info.get("max_tokens")),
                max_output_tokens=_count(info.get("max_output_tokens")),
                prices=_prices(
                    info,
                    "input_cost_per_token",
                    "output_cost_per_token",
                    "cache_read_input_token_cost",
                    "cache_creation_input_token_cost",
                ),
                runtime="litellm",
            )
    return None


def read_model_list(answer: object, model: str) -> Discovered | None:
    """GET /v1/models: vLLM, SGLang, llama.cpp, OpenRouter, Groq, Mistral, Together and others, each in its field."""
    entry = _entry(answer, model)
    return None if entry is None else _from_entry(entry)


def read_one_model(answer: object, model: str) -> Discovered | None:
    """GET /v1/models/{id}: Anthropic, Gemini."""
    entry = as_object(answer)
    found = _from_entry(entry)
    # Anthropic names its output limit max_tokens, which elsewhere is a window or a default.
    output = found.max_output_tokens or (_count(entry.get("max_tokens")) if "max_input_tokens" in entry else None)
    if found.window is None and output is None:
        return None
    return Discovered(window=found.window, max_output_tokens=output, runtime=found.runtime)


def read_openrouter_endpoints(answer: object, model: str) -> Discovered | None:
    """GET /api/v1/models/{author}/{slug}/endpoints: the widest of the hosts that serve a model."""
    entries = [_from_entry(entry) for entry in _objects(_at(answer, "data.endpoints"))]
    widest = max((entry for entry in entries if entry.window), key=lambda entry: entry.window or 0, default=None)
    return (
        None
        if widest is None
        else Discovered(
            window=widest.window, max_output_tokens=widest.max_output_tokens, prices=widest.prices, runtime="openrouter"
        )
    )


def read_first_model(answer: object) -> str | None:
    """The name of the first model in a list: of /v1/models, or of Ollama's /api/tags."""
    for entry in (*_objects(_at(answer, "data")), *_objects(_at(answer, "models"))):
        name = entry.get("id") or entry.get("model") or entry.get("name")
        is_chat = "embed" not in str(name).lower() and entry.get("type") not in ("embeddings", "embedding")
        if isinstance(name, str) and name and is_chat:
            return name
    return None


def _from_entry(entry: Json) -> Discovered:
    pricing = as_object(entry.get("pricing"))
    per_token = _prices(pricing, "prompt", "completion", "input_cache_read", "input_cache_write")
    return Discovered(
        window=next((value for name in _WINDOW_FIELDS if (value := _count(_at(entry, name)))), None),
        max_output_tokens=next((value for name in _OUTPUT_FIELDS if (value := _count(_at(entry, name)))), None),
        prices=per_token or _prices(pricing, "input", "output", "cached_input", "", per=1),
        runtime=_runtime(entry),
        trained=_count(_at(entry, "meta.n_ctx_train")),
    )


def _runtime(entry: Json) -> str:
    if "top_provider" in entry:
        return "openrouter"
    owner = str(entry.get("owned_by", ""))
    return {"llamacpp": "llama.cpp", "library": "ollama"}.get(owner, owner if owner in ("vllm", "sglang") else "")


def _prices(found: Json, *names: str, per: int = PER_MTOK) -> Prices | None:
    """Prices from four fields; None unless input and output are there. Negative ones mean that they vary."""
    values = [_price(found.get(name), per) for name in names]
    if values[0] is None or values[1] is None:
        return None
    return Prices(values[0], values[1], values[2], values[3])


def _price(value: object, per: int) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        price = float(value)
    except ValueError:
        return None
    return round(price * per, 6) if 0 <= price < PER_MTOK else None


def _entry(answer: object, model: str) -> Json | None:
    """The list's entry for the model; the only one stands for any name, as servers of one model ignore the name."""
    entries = list(_objects(_at(answer, "data") or answer))
    for entry in entries:
        if _same(model, entry.get("id"), entry.get("name"), entry.get("root")):
            return entry
    return entries[0] if len(entries) == 1 else None


def _same(model: str, *names: object) -> bool:
    wanted = model.lower()
    return any(isinstance(name, str) and name.lower() in (wanted, f"models/{wanted}") for name in names)


def _same_tag(model: str, name: object) -> bool:
    """Ollama adds the tag that was left out."""
    return _same(model, name) or _same(f"{model}:latest", name)


def _at(value: object, path: str) -> object:
    for name in path.split("."):
        value = as_object(value).get(name)
    return value


def _objects(value: object) -> Iterator[Json]:
    return (found for item in as_list(value) if (found := as_object(item)))


def _count(value: object) -> int | None:
    """A positive number of tokens, also as a string of digits; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    is_count = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 10**9
    return int(value) if is_count and isinstance(value, (int, float)) else None
