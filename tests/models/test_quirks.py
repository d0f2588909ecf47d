import pytest

from tinyagent.core.types import Json
from tinyagent.models.quirks import adjusted, for_endpoint
from tinyagent.models.wire import WireOptions

FULL = WireOptions(
    "openai", "m", temperature=0.0, reasoning_effort="high", cache_key="run-1", num_ctx=4096, extra={"transforms": []}
)


@pytest.mark.parametrize(
    ("parameter", "changes"),
    [
        ("max_tokens", {"max_tokens_field": "max_completion_tokens"}),
        ("stream_options", {"stream_usage": False}),
        ("stream_options.include_usage", {"stream_usage": False}),
        ("temperature", {"temperature": None}),
        ("reasoning_effort", {"reasoning_effort": ""}),
        ("thinking.type", {"reasoning_effort": ""}),
        ("output_config", {"reasoning_effort": ""}),
        ("messages[0].role", {"system_role": "developer"}),
        ("messages.3.reasoning_content", {"echo": []}),
        ("missing reasoning_content", {"blank_reasoning": True}),
        ("missing thought_signature", {"stand_in_signature": True}),
        ("prompt_cache_key", {"cache_key": ""}),
        ("cache_control", {"cache_marks": False}),
        ("include", {"encrypted_reasoning": False}),
        ("transforms", {"extra": {}}),
        ("stream", {"stream": False}),
    ],
)
def test_a_refused_parameter_is_renamed_or_left_out(parameter: str, changes: Json) -> None:
    changed = adjusted(FULL, parameter)
    assert changed is not None
    assert changed.to_json() == FULL.to_json() | changes


@pytest.mark.parametrize("parameter", ["", "frequency_penalty", "tools[0].name", "temperature"])
def test_there_may_be_nothing_to_change(parameter: str) -> None:
    assert adjusted(WireOptions("openai", "m"), parameter) is None


def test_a_reasoning_field_that_is_demanded_is_sent_again_after_it_was_left_out() -> None:
    without = adjusted(FULL, "reasoning_content")
    assert without is not None
    blank = adjusted(without, "missing reasoning_content")
    assert blank is not None
    assert (blank.blank_reasoning, blank.echo) == (True, ("reasoning_content",))


@pytest.mark.parametrize(("model", "expected"), [("gemini-3.8-flash", True), ("gemini-2.5-pro", False)])
def test_gemini_3_gets_a_stand_in_for_signatures_that_other_models_do_not_give(model: str, expected: bool) -> None:
    address = "https://generativelanguage.googleapis.com/v1beta/openai"
    assert for_endpoint(WireOptions("openai", model), address).stand_in_signature is expected


@pytest.mark.parametrize(
    ("base_url", "changes"),
    [
        ("https://api.openai.com/v1", {"max_tokens_field": "max_completion_tokens"}),
        ("https://x.openai.azure.com/openai/v1", {"max_tokens_field": "max_completion_tokens"}),
        ("https://api.deepseek.com", {"blank_reasoning": True}),
        ("https://openrouter.ai/api/v1", {"cache_marks": True, "extra": {"transforms": []}}),
        ("http://localhost:8080/v1", {}),
    ],
)
def test_known_hosts_get_what_they_want(base_url: str, changes: Json) -> None:
    options = WireOptions("openai", "anthropic/claude")
    assert for_endpoint(options, base_url).to_json() == options.to_json() | changes


def test_other_apis_have_no_quirks_by_host() -> None:
    options = WireOptions("anthropic", "m")
    assert for_endpoint(options, "https://openrouter.ai/api") == options
