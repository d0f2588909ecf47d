"""What single endpoints want otherwise: known beforehand by their host, or learned from a refusal."""

import re
from collections.abc import Callable
from dataclasses import replace

from tinyagent.models.addresses import OPENAI_HOSTS, host_of
from tinyagent.models.error_kinds import MISSING_REASONING, MISSING_SIGNATURE
from tinyagent.models.wire import WireOptions


def for_endpoint(options: WireOptions, base_url: str) -> WireOptions:
    """The options with what is known of a host. Facts as of November 2026, from the providers' documentation."""
    host = host_of(base_url)
    if options.api != "openai":
        return options
    if host in OPENAI_HOSTS or host.endswith(".openai.azure.com"):
        return replace(options, max_tokens_field="max_completion_tokens")
    if host.endswith(("api.deepseek.com", "api.moonshot.ai", "api.moonshot.cn")):
        return replace(options, blank_reasoning=True)
    if host == "generativelanguage.googleapis.com":
        return replace(options, stand_in_signature=re.match(r"gemini-[3-9]", options.model) is not None)
    if host.endswith("openrouter.ai"):
        # Its middle-out transform would drop messages in silence; its Claude models want explicit cache marks.
        marks = options.cache_marks if options.cache_marks is not None else options.model.startswith("anthropic/")
        return replace(options, cache_marks=marks, extra={"transforms": []} | options.extra)
    return options


def adjusted(options: WireOptions, parameter: str) -> WireOptions | None:
    """The options without what the server refused to take; None if there is nothing to change.

    `parameter` is the server's word for it, also with a path ("messages[0].role", "thinking.type").
    """
    words = parameter.lower()
    for name, change in _CHANGES:
        if name in words:
            changed = change(options)
            return changed if changed != options else None
    key = next((key for key in options.extra if key.lower() in words), None) if words else None
    if key is None:
        return None
    return replace(options, extra={name: value for name, value in options.extra.items() if name != key})


def _swap_max_tokens(options: WireOptions) -> WireOptions:
    if options.api != "openai":
        return options
    is_old = options.max_tokens_field == "max_tokens"
    return replace(options, max_tokens_field="max_completion_tokens" if is_old else "max_tokens")


def _swap_system_role(options: WireOptions) -> WireOptions:
    if options.api != "openai":
        return options
    return replace(options, system_role="developer" if options.system_role == "system" else "system")


def _without_reasoning_fields(options: WireOptions) -> WireOptions:
    return replace(options, echo=(), blank_reasoning=False)


def _with_reasoning_field(options: WireOptions) -> WireOptions:
    return replace(options, echo=tuple(dict.fromkeys((*options.echo, "reasoning_content"))), blank_reasoning=True)


# The first name found in the server's word for the parameter decides: longer names stand before their parts.
_CHANGES: tuple[tuple[str, Callable[[WireOptions], WireOptions]], ...] = (
    ("max_completion_tokens", _swap_max_tokens),
    ("max_tokens", _swap_max_tokens),
    ("stream_options", lambda options: replace(options, stream_usage=False)),
    ("include_usage", lambda options: replace(options, stream_usage=False)),
    ("temperature", lambda options: replace(options, temperature=None)),
    ("encrypted", lambda options: replace(options, encrypted_reasoning=False)),
    ("include", lambda options: replace(options, encrypted_reasoning=False)),
    (MISSING_REASONING, _with_reasoning_field),
    (MISSING_SIGNATURE, lambda options: replace(options, stand_in_signature=True)),
    ("reasoning_content", _without_reasoning_fields),
    ("reasoning_details", _without_reasoning_fields),
    ("reasoning", lambda options: replace(options, reasoning_effort="")),
    ("thinking", lambda options: replace(options, reasoning_effort="")),
    ("think", lambda options: replace(options, reasoning_effort="")),
    ("output_config", lambda options: replace(options, reasoning_effort="")),
    ("effort", lambda options: replace(options, reasoning_effort="")),
    ("prompt_cache_key", lambda options: replace(options, cache_key="")),
    ("cache_control", lambda options: replace(options, cache_marks=False)),
    ("num_ctx", lambda options: replace(options, num_ctx=None)),
    ("role", _swap_system_role),
    ("developer", _swap_system_role),
    ("system", _swap_system_role),
    ("stream", lambda options: replace(options, stream=False)),
)
