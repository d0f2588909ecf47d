"""The usage dialects of chat-completion servers, read into one form.

Where each server puts its figures, and which of them include which, was collected from their documentation and from
reports in November 2026.
"""

from tinyagent.core.types import Json, Usage
from tinyagent.models.payload import as_count, as_list, as_object


def read_usage(body: Json, choice: Json | None = None) -> Usage | None:
    """Usage of a whole body, or of the merged chunks of a stream. None: nothing reported that can be true."""
    choices = as_list(body.get("choices"))
    first = choice if choice is not None else as_object(choices[0]) if choices else {}
    for candidate in (body.get("usage"), first.get("usage"), as_object(body.get("x_groq")).get("usage")):
        if usage := _from_usage(as_object(candidate)):
            return usage
    return _from_timings(as_object(body.get("timings")))


def _from_usage(data: Json) -> Usage | None:
    """OpenAI's form. Moonshot has cached_tokens at the top, DeepSeek prompt_cache_hit_tokens."""
    prompt, output = as_count(data.get("prompt_tokens")), as_count(data.get("completion_tokens"))
    if not prompt:
        return None
    details = as_object(data.get("prompt_tokens_details"))
    reasoning = as_count(as_object(data.get("completion_tokens_details")).get("reasoning_tokens"))
    read = (
        as_count(details.get("cached_tokens"))
        or as_count(data.get("prompt_cache_hit_tokens"))
        or as_count(data.get("cached_tokens"))
    )
    # Gemini's and xAI's completion_tokens leave reasoning out; the total has it.
    output = max(output, as_count(data.get("total_tokens")) - prompt, reasoning)
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=min(read, prompt),
        cache_write_tokens=min(as_count(details.get("cache_write_tokens")), prompt - min(read, prompt)),
        reasoning_tokens=reasoning,
    )


def _from_timings(data: Json) -> Usage | None:
    """llama.cpp without include_usage: prompt_n counts what was newly read, cache_n what was reused."""
    new, cached = as_count(data.get("prompt_n")), as_count(data.get("cache_n"))
    if not new + cached:
        return None
    return Usage(new + cached, as_count(data.get("predicted_n")), cache_read_tokens=cached)
