"""What tells one kind of model server from another: words for an overflow, what it says of its window, counts."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tests.fake_wires import Json

# How servers word an overflow: status, body; {n} prompt tokens, {w} window, {m} output tokens asked for.
WORDINGS: dict[str, tuple[int, str]] = {
    "openai": (
        400,
        '{"error":{"message":"This model\'s maximum context length is {w} tokens. However, your messages resulted in'
        ' {n} tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages",'
        '"code":"context_length_exceeded"}}',
    ),
    "anthropic": (
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: {n} tokens > {w}'
        ' maximum"}}',
    ),
    "llama.cpp": (
        400,
        '{"error":{"code":400,"message":"request ({n} tokens) exceeds the available context size ({w} tokens), try'
        ' increasing it","type":"exceed_context_size_error","n_prompt_tokens":{n},"n_ctx":{w}}}',
    ),
    "ollama": (400, '{"error":"input length exceeds the context length ({n} > {w})"}'),
}
# Servers that refuse a prompt which fits while prompt + max_tokens does not.
TOTAL_WORDINGS: dict[str, tuple[int, str]] = {
    "vllm": (
        400,
        '{"object":"error","message":"This model\'s maximum context length is {w} tokens. However, you requested {t}'
        " tokens ({n} in the messages, {m} in the completion). Please reduce the length of the messages or"
        ' completion.","type":"BadRequestError","param":null,"code":400}',
    ),
    "anthropic-total": (
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed'
        ' context limit: {n} + {m} > {w}, decrease input length or `max_tokens` and try again"}}',
    ),
}


def prompt_tokens(body: Json) -> int:
    """The true size of a request's prompt by a real tokenizer: every text in it, and a little for each message."""
    parts = [body.get(key) for key in ("system", "instructions", "messages", "input", "tools")]
    messages = [part for part in (body.get("messages"), body.get("input")) if isinstance(part, list)]
    return sum(text_tokens(text) for part in parts for text in texts(part)) + 4 * sum(len(part) for part in messages)


def texts(value: object) -> Iterator[str]:
    """Every string of a JSON value, and the names of objects' fields that are no part of the protocol."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts(item)
        case dict():
            for key, item in value.items():
                if key not in ("type", "role", "cache_control", "id", "tool_use_id", "tool_call_id", "signature"):
                    yield from texts(item)
        case _:
            return


@cache
def _tokenizer() -> Any:
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("o200k_base")


@cache
def text_tokens(text: str) -> int:
    return len(_tokenizer().encode(text)) if text else 0


def discovery_of(server: str, *, model: str, window: int) -> dict[str, Json | Callable[[Json], Json]]:
    """What a kind of server answers to those who ask for its window."""
    match server:
        case "llama.cpp":
            models = {
                "object": "list",
                "data": [{"id": model, "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}],
            }
            return {
                "/props": {"default_generation_settings": {"n_ctx": window}, "total_slots": 1},
                "/v1/models": models,
                "/tokenize": lambda body: {"tokens": list(range(text_tokens(str(body.get("content", "")))))},
            }
        case "vllm":
            return {
                "/v1/models": {"object": "list", "data": [{"id": model, "owned_by": "vllm", "max_model_len": window}]}
            }
        case "ollama":
            return {
                "/api/version": {"version": "0.13.0"},
                "/api/ps": {"models": [{"name": model, "model": model, "context_length": window}]},
                "/api/show": lambda body: {"model_info": {"general.architecture": "q", "q.context_length": 131072}},
                "/v1/models": {"object": "list", "data": [{"id": model, "owned_by": "library"}]},
            }
        case "anthropic":
            return {f"/v1/models/{model}": {"id": model, "max_input_tokens": window, "max_tokens": 8192}}
        case _:
            raise ValueError(f"no discovery known for {server}")
