"""How large a model's context window is, and where that figure comes from.

A server is asked at all its possible endpoints at once, within a short time; whatever is not a clear answer is
"unknown". This module does no HTTP itself.
"""

import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from tinyagent.core.pricing import Prices
from tinyagent.core.types import Window
from tinyagent.models import window_answers as answers
from tinyagent.models.addresses import OPENAI_HOSTS, host_of, is_local_address
from tinyagent.models.anthropic import VERSION
from tinyagent.models.window_answers import Discovered, Reader
from tinyagent.models.wire import Api

TIMEOUT_S = 1.5
CACHED_FOR = timedelta(days=1)
# The smallest window in which an agent has room to work: system prompt, tools and task take three to four thousand
# tokens. Costs about 4 GB of memory for an 8B model.
OLLAMA_NUM_CTX = 32_768

# Hosts whose model list says nothing of windows.
_SILENT_HOSTS = OPENAI_HOSTS | {"api.x.ai", "api.deepseek.com"}
_SILENT_SUFFIXES = (".openai.azure.com", ".cognitiveservices.azure.com", "api.z.ai", ".amazonaws.com")


class FetchJson(Protocol):
    """One HTTP request: GET, or POST where there is a body."""

    def __call__(
        self, url: str, *, headers: Mapping[str, str], body: Mapping[str, object] | None, timeout_s: float
    ) -> object:
        """The decoded JSON of a 200 answer; None for any other, for HTML and for no answer in time. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class _Question:
    url: str
    read: Reader
    headers: Mapping[str, str]
    body: Mapping[str, object] | None = None


def discover(
    base_url: str, model: str, *, api: Api, key: str, fetch: FetchJson, timeout_s: float = TIMEOUT_S
) -> Discovered:
    """What the server says of the model, all its endpoints asked in parallel; empty if it says nothing in time.

    Servers at local and private addresses are asked for everything that any runtime offers; hosted ones only where they
    have an endpoint for it.
    """
    found = _ask_all(_questions(base_url, model, api, key), model, fetch, timeout_s)
    if api == "ollama":
        return _together(found)
    result = _together(sorted(found, key=lambda answer: answer.window is None))
    # Through its OpenAI-compatible side an Ollama server serves what the Modelfile says, whatever we send.
    return replace(result, window=result.window or result.num_ctx)


def discover_cached(
    base_url: str,
    model: str,
    *,
    api: Api,
    key: str,
    fetch: FetchJson,
    folder: Path,
    now: datetime,
    timeout_s: float = TIMEOUT_S,
) -> Discovered:
    """As `discover`; answers of hosted servers are kept in `folder` for a day.

    Local servers are asked again each time: a model that was loaded anew may have another window. `now` is aware.
    """
    if is_local_address(base_url):
        return discover(base_url, model, api=api, key=key, fetch=fetch, timeout_s=timeout_s)
    digest = sha256(f"{base_url}\n{model}".encode()).hexdigest()[:24]
    path = folder / "windows" / f"{digest}.json"
    if cached := _read_cache(path, now):
        return cached
    found = discover(base_url, model, api=api, key=key, fetch=fetch, timeout_s=timeout_s)
    if found.window or found.max_output_tokens or found.prices:
        _write_cache(path, found, now)
    return found


def resolve_window(
    configured: int | None, learned: int | None, discovered: int | None, catalogue: int | None, assume: int | None
) -> Window:
    """The window to believe, and which source answered first; 0 and None both mean that a source says nothing.

    What an overflow taught only shrinks what a server or the catalogue says. Leave `catalogue` out for a local server:
    what a model can do says nothing about what is served.
    """
    if configured:
        return Window(configured, "configured")
    known = Window(discovered, "server") if discovered else Window(catalogue, "catalogue") if catalogue else None
    if learned and (known is None or known.tokens is None or learned <= known.tokens):
        return Window(learned, "learned")
    if known:
        return known
    return Window(assume, "assumed") if assume else Window(None)


def ollama_num_ctx(configured: int | None, discovered: Discovered) -> int:
    """The window to ask an Ollama server for with each native request; it is then the window of the run.

    The user's figure, else the Modelfile's, else what the server allocates by itself where that is more than our
    default: less than the default, an agent cannot work, and Ollama would cut its prompts in silence. Never more than
    the model was trained for, unless the user says so. A larger window costs memory, and changing it reloads the model.
    """
    if configured:
        return configured
    wanted = discovered.num_ctx or max(discovered.window or 0, OLLAMA_NUM_CTX)
    return min(wanted, discovered.trained or wanted)


def first_local_model(
    base_url: str, *, api: Api, key: str, fetch: FetchJson, timeout_s: float = TIMEOUT_S
) -> str | None:
    """The name of a model that a server offers; None if none answers there."""
    path = "/api/tags" if api == "ollama" else "/v1/models"
    return answers.read_first_model(fetch(_root(base_url) + path, headers=_bearer(key), body=None, timeout_s=timeout_s))


def _questions(base_url: str, model: str, api: Api, key: str) -> list[_Question]:
    """Whom to ask, the most telling first."""
    host = host_of(base_url)
    root, bearer = _root(base_url), _bearer(key)
    if api == "ollama":
        show = _Question(f"{root}/api/show", answers.read_ollama_show, bearer, {"model": model})
        return [_Question(f"{root}/api/ps", answers.read_ollama_ps, bearer), show]
    if is_local_address(base_url):
        return _local_questions(root, model, bearer)
    if host.endswith("anthropic.com"):
        headers = {"x-api-key": key, "anthropic-version": VERSION}
        return [_Question(f"{root}/v1/models/{quote(model)}", answers.read_one_model, headers)]
    if host == "generativelanguage.googleapis.com":
        return [
            _Question(f"https://{host}/v1beta/models/{quote(model)}", answers.read_one_model, {"x-goog-api-key": key})
        ]
    if host in _SILENT_HOSTS or host.endswith(_SILENT_SUFFIXES):
        return []
    models = f"{root}/v1/models" if api == "anthropic" else f"{base_url.rstrip('/')}/models"
    listed = _Question(models, answers.read_model_list, bearer)
    if host.endswith("openrouter.ai"):
        url = f"{base_url.rstrip('/')}/models/{quote(model.partition(':')[0])}/endpoints"
        return [listed, _Question(url, answers.read_openrouter_endpoints, bearer)]
    return [_Question(f"{root}/model/info", answers.read_litellm_info, bearer), listed]


def _local_questions(root: str, model: str, headers: Mapping[str, str]) -> list[_Question]:
    named = f"?model={quote(model, safe='')}"  # a llama.cpp router serves many
    return [
        _Question(f"{root}/api/ps", answers.read_ollama_ps, headers),
        _Question(f"{root}/props{named}", answers.read_llamacpp_props, headers),
        _Question(f"{root}/api/v0/models", answers.read_lmstudio_v0, headers),
        _Question(f"{root}/api/v1/models", answers.read_lmstudio_v1, headers),
        _Question(f"{root}/model/info", answers.read_litellm_info, headers),
        _Question(f"{root}/get_server_info", answers.read_sglang_info, headers),
        _Question(f"{root}/info", answers.read_tgi_info, headers),
        _Question(f"{root}/v1/models", answers.read_model_list, headers),
        _Question(f"{root}/api/show", answers.read_ollama_show, headers, {"model": model}),
    ]


def _ask_all(questions: Sequence[_Question], model: str, fetch: FetchJson, timeout_s: float) -> list[Discovered]:
    """The answers that came in time, in the order of the questions; waits no longer than the most telling one needs.

    Threads that hang do not hold the program.
    """
    inbox: queue.Queue[tuple[int, Discovered | None]] = queue.Queue()

    def ask(index: int, question: _Question) -> None:
        answer = fetch(question.url, headers=question.headers, body=question.body, timeout_s=timeout_s)
        found = question.read(answer, model) if answer is not None else None
        inbox.put((index, replace(found, endpoint=question.url) if found else None))

    for index, question in enumerate(questions):
        threading.Thread(target=ask, args=(index, question), name="tinyagent-window", daemon=True).start()
    heard: dict[int, Discovered | None] = {}
    deadline = time.monotonic() + timeout_s
    while len(heard) < len(questions) and not _is_settled(heard):
        try:
            index, answer = inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        heard[index] = answer
    return [answer for _, answer in sorted(heard.items()) if answer]


def _is_settled(heard: Mapping[int, Discovered | None]) -> bool:
    """Whether a window is known that no answer still to come would be preferred to."""
    for index in range(len(heard)):
        if index not in heard:
            return False
        if (answer := heard[index]) and answer.window and answer.runtime != "ollama":
            return True
    return False


def _together(found: Sequence[Discovered]) -> Discovered:
    """All that the answers say; an earlier one wins."""
    result = Discovered()
    for answer in found:
        missing = {name: value for name, value in _facts(answer).items() if not _facts(result)[name]}
        result = replace(result, **missing)
    return result


def _facts(found: Discovered) -> dict[str, Any]:
    return {field.name: getattr(found, field.name) for field in fields(found)}


def _root(base_url: str) -> str:
    """The address without the API's version, under which runtimes have their own endpoints."""
    root = base_url.rstrip("/")
    for suffix in ("/v1", "/api"):
        root = root.removesuffix(suffix)
    return root


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _read_cache(path: Path, now: datetime) -> Discovered | None:
    """A kept answer that is young enough; None for anything unreadable, which is then written anew."""
    try:
        data = json.loads(path.read_text("utf-8"))
        age = now - datetime.fromisoformat(data["at"])
        prices = Prices(**data["found"].pop("prices")) if data["found"].get("prices") else None
        found = Discovered(**data["found"] | {"prices": prices})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if timedelta(0) <= age < CACHED_FOR else None


def _write_cache(path: Path, found: Discovered, now: datetime) -> None:
    """Replace the file at once, so that no other run reads half of it. A folder that cannot be written is no loss."""
    text = json.dumps({"at": now.isoformat(), "found": asdict(found)})
    scratch = path.with_suffix(f".{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(text, "utf-8")
        scratch.replace(path)
    except OSError:
        return
