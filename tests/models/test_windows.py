"""The window of a model: what servers say of it, which source is believed, what is kept."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.core.pricing import Prices
from tinyagent.core.types import Window
from tinyagent.models import window_answers as answers
from tinyagent.models.fetch import fetch_json
from tinyagent.models.window_answers import Discovered
from tinyagent.models.windows import (
    OLLAMA_NUM_CTX,
    discover,
    discover_cached,
    first_local_model,
    ollama_num_ctx,
    resolve_window,
)
from tinyagent.models.wire import Api

LOCAL = "http://127.0.0.1:8080/v1"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class FakeFetch:
    """Answers by the end of the URL; None for all others. `asked` holds every URL."""

    def __init__(self, pages: Mapping[str, object]) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.headers: list[Mapping[str, str]] = []

    def __call__(
        self, url: str, *, headers: Mapping[str, str], body: Mapping[str, object] | None, timeout_s: float
    ) -> object:
        self.asked.append(url)
        self.headers.append(headers)
        return next((page for end, page in self.pages.items() if url.partition("?")[0].endswith(end)), None)


VLLM = {"object": "list", "data": [{"id": "m", "owned_by": "vllm", "max_model_len": 40_960}]}
LLAMACPP = {"data": [{"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 4_096, "n_ctx_train": 32_768}}]}
PROPS = {"default_generation_settings": {"n_ctx": 2_048}, "total_slots": 2}
LMSTUDIO = {"data": [{"id": "m", "state": "loaded", "loaded_context_length": 8_192, "max_context_length": 131_072}]}
LMSTUDIO_1 = {
    "models": [
        {"key": "m", "max_context_length": 131_072, "loaded_instances": [{"config": {"context_length": 16_384}}]},
    ]
}
PS = {"models": [{"name": "m:latest", "model": "m:latest", "context_length": 4_096}]}
SHOW = {
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
    "parameters": 'stop                           "<|im_end|>"\nnum_ctx                        8192',
}
LITELLM = {
    "data": [
        {"model_name": "other", "model_info": {"max_input_tokens": 1}},
        {
            "model_name": "m",
            "model_info": {
                "max_input_tokens": 200_000,
                "max_output_tokens": 64_000,
                "input_cost_per_token": 3e-06,
                "output_cost_per_token": 1.5e-05,
                "cache_read_input_token_cost": 3e-07,
            },
        },
    ]
}
OPENROUTER = {
    "data": [
        {
            "id": "a/m",
            "context_length": 1_048_576,
            "top_provider": {"context_length": 262_000, "max_completion_tokens": 65_536},
            "pricing": {"prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002"},
        }
    ]
}


@pytest.mark.parametrize(
    ("pages", "window", "runtime"),
    [
        ({"/props": PROPS, "/v1/models": LLAMACPP}, 2_048, "llama.cpp"),
        ({"/v1/models": LLAMACPP}, 4_096, "llama.cpp"),
        ({"/v1/models": VLLM}, 40_960, "vllm"),
        ({"/api/v0/models": LMSTUDIO, "/v1/models": {"data": [{"id": "m"}]}}, 8_192, "lmstudio"),
        ({"/api/v1/models": LMSTUDIO_1}, 16_384, "lmstudio"),
        ({"/api/ps": PS, "/v1/models": {"data": [{"id": "m", "owned_by": "library"}]}}, 4_096, "ollama"),
        ({"/api/show": SHOW}, 8_192, "ollama"),
        ({"/info": {"max_input_tokens": 4_095, "max_total_tokens": 4_096}}, 4_095, "tgi"),
        ({"/get_server_info": {"context_length": 32_768, "max_total_num_tokens": 20_000}}, 20_000, "sglang"),
        ({"/model/info": LITELLM}, 200_000, "litellm"),
        ({}, None, ""),
        ({"/v1/models": {"error": "Unexpected endpoint"}, "/props": [], "/info": "no"}, None, ""),
    ],
)
def test_a_local_server_is_asked_what_it_serves(pages: dict[str, object], window: int | None, runtime: str) -> None:
    """goose#11049: a window of 1,000,000 was believed where the local runtime served 16,384."""
    found = discover(LOCAL, "m", api="openai", key="", fetch=FakeFetch(pages))
    assert (found.window, found.runtime) == (window, runtime)


def test_what_a_model_was_trained_for_is_never_taken_for_the_window() -> None:
    unloaded = {"data": [{"id": "m", "state": "not-loaded", "max_context_length": 131_072}]}
    found = discover(LOCAL, "m", api="openai", key="", fetch=FakeFetch({"/api/v0/models": unloaded}))
    assert (found.window, found.trained) == (None, 131_072)


@pytest.mark.parametrize(
    ("base_url", "api", "model", "page", "window", "output"),
    [
        (
            "https://api.anthropic.com",
            "anthropic",
            "claude-x",
            {"/v1/models/claude-x": {"id": "claude-x", "max_input_tokens": 1_000_000, "max_tokens": 128_000}},
            1_000_000,
            128_000,
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "openai",
            "gemini-x",
            {"/v1beta/models/gemini-x": {"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}},
            1_048_576,
            65_536,
        ),
        ("https://openrouter.ai/api/v1", "openai", "a/m", {"/api/v1/models": OPENROUTER}, 1_048_576, 65_536),
        (
            "https://openrouter.ai/api/v1",
            "openai",
            "a/m:free",
            {"/a/m/endpoints": {"data": {"endpoints": [{"context_length": 9_000}, {"context_length": 64_000}]}}},
            64_000,
            None,
        ),
        (
            "https://api.groq.com/openai/v1",
            "openai",
            "m",
            {"/openai/v1/models": {"data": [{"id": "m", "context_window": 131_072, "max_completion_tokens": 8_192}]}},
            131_072,
            8_192,
        ),
        (
            "https://api.mistral.ai/v1",
            "openai",
            "m",
            {"/v1/models": {"data": [{"id": "m", "max_context_length": 256_000}]}},
            256_000,
            None,
        ),
        (
            "https://api.together.xyz/v1",
            "openai",
            "m",
            {"/v1/models": [{"id": "m", "context_length": 65_536, "pricing": {"input": 0.5, "output": 1.5}}]},
            65_536,
            None,
        ),
        ("https://llm.company.example/v1", "openai", "m", {"/model/info": LITELLM}, 200_000, 64_000),
        ("https://api.openai.com/v1", "openai", "gpt-x", {"/v1/models": VLLM}, None, None),
    ],
)
def test_a_hosted_server_is_asked_where_it_has_an_endpoint(
    base_url: str, api: Api, model: str, page: dict[str, object], window: int | None, output: int | None
) -> None:
    found = discover(base_url, model, api=api, key="k", fetch=FakeFetch(page))
    assert (found.window, found.max_output_tokens) == (window, output)


def test_a_host_that_says_nothing_is_not_asked() -> None:
    fetch = FakeFetch({})
    for host in ("https://api.openai.com/v1", "https://x.openai.azure.com", "https://api.deepseek.com"):
        discover(host, "m", api="openai", key="k", fetch=fetch)
    assert fetch.asked == []


def test_prices_come_with_the_answer_where_the_server_has_them() -> None:
    found = discover(
        "https://openrouter.ai/api/v1", "a/m", api="openai", key="", fetch=FakeFetch({"/models": OPENROUTER})
    )
    assert found.prices == Prices(2.0, 10.0, 0.2, None)
    assert discover(LOCAL, "m", api="openai", key="", fetch=FakeFetch({"/model/info": LITELLM})).prices == Prices(
        3.0, 15.0, 0.3, None
    )


def test_prices_that_vary_are_unknown() -> None:
    varies = {"data": [{"id": "a/m", "context_length": 9_000, "pricing": {"prompt": "-1", "completion": "-1"}}]}
    found = discover("https://openrouter.ai/api/v1", "a/m", api="openai", key="", fetch=FakeFetch({"/models": varies}))
    assert (found.window, found.prices) == (9_000, None)


def test_a_slow_endpoint_costs_no_more_than_the_time_limit() -> None:
    release = threading.Event()

    def slow(url: str, *, headers: Mapping[str, str], body: Mapping[str, object] | None, timeout_s: float) -> object:
        if url.endswith("/v1/models"):
            return VLLM
        release.wait(10)
        return None

    started = time.monotonic()
    found = discover(LOCAL, "m", api="openai", key="", fetch=slow, timeout_s=0.2)
    release.set()
    assert found.window == 40_960
    assert time.monotonic() - started < 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "data",
                        "models",
                        "id",
                        "name",
                        "model_info",
                        "parameters",
                        "context_length",
                        "meta",
                        "n_ctx",
                        "pricing",
                        "prompt",
                        "completion",
                        "loaded_instances",
                        "state",
                        "max_tokens",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_answer_can_break_the_reading(value: object) -> None:
    for read in (
        answers.read_ollama_ps,
        answers.read_ollama_show,
        answers.read_llamacpp_props,
        answers.read_lmstudio_v0,
        answers.read_lmstudio_v1,
        answers.read_tgi_info,
        answers.read_sglang_info,
        answers.read_litellm_info,
        answers.read_model_list,
        answers.read_one_model,
        answers.read_openrouter_endpoints,
    ):
        found = read(value, "m")
        assert found is None or found.window is None or found.window > 0
    answers.read_first_model(value)


@pytest.mark.parametrize(
    ("configured", "learned", "discovered", "catalogue", "assume", "expected"),
    [
        (32_768, 8_192, 1_000_000, 1_000_000, 4_096, Window(32_768, "configured")),
        (None, 100_000, 200_000, 1_000_000, None, Window(100_000, "learned")),
        (None, 300_000, 200_000, None, None, Window(200_000, "server")),
        (None, 300_000, None, 200_000, None, Window(200_000, "catalogue")),
        (None, 8_192, None, None, None, Window(8_192, "learned")),
        (0, None, 40_960, 131_072, None, Window(40_960, "server")),
        (None, None, None, 128_000, 8_192, Window(128_000, "catalogue")),
        (None, None, None, None, 8_192, Window(8_192, "assumed")),
        (0, 0, 0, 0, 0, Window(None, "unknown")),
    ],
)
def test_the_first_source_that_answers_is_believed_and_learning_only_shrinks(
    configured: int | None,
    learned: int | None,
    discovered: int | None,
    catalogue: int | None,
    assume: int | None,
    expected: Window,
) -> None:
    """goose#10679: the user's figure always wins."""
    assert resolve_window(configured, learned, discovered, catalogue, assume) == expected


@pytest.mark.parametrize(
    ("configured", "discovered", "num_ctx"),
    [
        (None, Discovered(), OLLAMA_NUM_CTX),
        (None, Discovered(window=4_096, trained=131_072), OLLAMA_NUM_CTX),
        (None, Discovered(window=262_144, trained=131_072), 131_072),
        (None, Discovered(trained=8_192), 8_192),
        (None, Discovered(num_ctx=16_384, window=4_096, trained=131_072), 16_384),
        (200_000, Discovered(trained=131_072), 200_000),
    ],
)
def test_ollama_is_asked_for_a_window_to_work_in(configured: int | None, discovered: Discovered, num_ctx: int) -> None:
    """R46: a local server with a 4,096 window drops the front of the prompt in silence."""
    assert ollama_num_ctx(configured, discovered) == num_ctx


def test_ollamas_own_api_is_asked_for_the_allocated_and_the_trained_window() -> None:
    fetch = FakeFetch({"/api/ps": PS, "/api/show": SHOW})
    found = discover("http://127.0.0.1:11434", "m", api="ollama", key="", fetch=fetch)
    assert (found.window, found.trained, found.num_ctx) == (4_096, 40_960, 8_192)
    assert sorted(fetch.asked) == ["http://127.0.0.1:11434/api/ps", "http://127.0.0.1:11434/api/show"]


def test_a_hosted_answer_is_kept_for_a_day(tmp_path: Path) -> None:
    fetch = FakeFetch({"/models": OPENROUTER})

    def ask(now: datetime) -> Discovered:
        return discover_cached(
            "https://openrouter.ai/api/v1", "a/m", api="openai", key="secret", fetch=fetch, folder=tmp_path, now=now
        )

    first = ask(NOW)
    asked = len(fetch.asked)
    assert ask(NOW + timedelta(hours=23)) == first
    assert len(fetch.asked) == asked
    ask(NOW + timedelta(hours=25))
    assert len(fetch.asked) > asked
    assert "secret" not in "".join(path.read_text() for path in tmp_path.rglob("*.json"))


def test_a_local_answer_is_never_kept(tmp_path: Path) -> None:
    fetch = FakeFetch({"/v1/models": VLLM})
    for _ in range(2):
        discover_cached(LOCAL, "m", api="openai", key="", fetch=fetch, folder=tmp_path, now=NOW)
    assert sum(url.endswith("/v1/models") and "/api/" not in url for url in fetch.asked) == 2
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"at": "x", "found": {}}', '{"at": "2026-11-30T11:00:00+00:00"}'])
def test_a_broken_cache_file_is_asked_for_again(tmp_path: Path, content: str) -> None:
    fetch = FakeFetch({"/models": OPENROUTER})

    def ask() -> Discovered:
        return discover_cached(
            "https://openrouter.ai/api/v1", "a/m", api="openai", key="", fetch=fetch, folder=tmp_path, now=NOW
        )

    ask()
    next(tmp_path.rglob("*.json")).write_text(content)
    assert ask().window == 1_048_576


def test_a_cache_folder_that_cannot_be_written_is_no_loss(tmp_path: Path) -> None:
    (tmp_path / "windows").write_text("a file in the way")
    found = discover_cached(
        "https://openrouter.ai/api/v1",
        "a/m",
        api="openai",
        key="",
        fetch=FakeFetch({"/models": OPENROUTER}),
        folder=tmp_path,
        now=NOW,
    )
    assert found.window == 1_048_576


def test_the_first_chat_model_of_a_local_server_is_found() -> None:
    tags = {"models": [{"name": "nomic-embed-text:latest"}, {"name": "qwen3:8b"}]}
    assert (
        first_local_model("http://127.0.0.1:11434", api="ollama", key="", fetch=FakeFetch({"/api/tags": tags}))
        == "qwen3:8b"
    )
    assert first_local_model(LOCAL, api="openai", key="", fetch=FakeFetch({"/v1/models": VLLM})) == "m"
    assert first_local_model(LOCAL, api="openai", key="", fetch=FakeFetch({})) is None


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = {
            "/v1/models": (200, json.dumps(VLLM)),
            "/html": (200, "<html>sign in</html>"),
            "/moved": (302, ""),
            "/deep": (200, "[" * 100_000),
        }.get(self.path, (404, "{}"))
        self.send_response(status)
        self.send_header("location", "/v1/models")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


@pytest.fixture
def server() -> Iterator[str]:
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_json_is_fetched_and_everything_else_is_nothing(server: str) -> None:
    assert fetch_json(f"{server}/v1/models", headers={}, timeout_s=5) == VLLM
    for page in ("/html", "/moved", "/deep", "/none"):
        assert fetch_json(f"{server}{page}", headers={}, timeout_s=5) is None
    assert fetch_json(f"{server}/api/show", headers={}, body={"model": "m"}, timeout_s=5) == {"model": "m"}


def test_a_server_that_is_not_there_is_nothing() -> None:
    assert fetch_json("http://127.0.0.1:1/", headers={}, timeout_s=1) is None
    assert fetch_json("http://[", headers={}, timeout_s=1) is None


def test_a_window_is_discovered_over_http(server: str) -> None:
    found = discover(f"{server}/v1", "m", api="openai", key="", fetch=fetch_json, timeout_s=5)
    assert (found.window, found.endpoint) == (40_960, f"{server}/v1/models")
