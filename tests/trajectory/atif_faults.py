"""Faults of an ATIF document that Harbor's own models let pass."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from tinyagent.core.types import Json

_TOLERANCE_USD = 1e-9
_TOTALS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}


def problems(document: Json) -> list[str]:
    """A sentence for each fault, each with its place in the document; empty if there is none.

    Covers: numbers and characters that JSON files cannot hold, ids that occur twice, calls with more than one result,
    totals that are not the sum of their parts, references to sub-agents that are not there.
    Does not cover what the format's models check themselves.
    """
    return [
        *_values(document, ""),
        *_ids(document),
        *_totals(document),
        *_subagents(document),
        *(f"sub-agent {sub['trajectory_id']}: {found}" for sub in _embedded(document) for found in problems(sub)),
    ]


def _values(value: object, place: str) -> Iterator[str]:
    match value:
        case float() if not math.isfinite(value):
            yield f"{place}: {value} is no JSON number"
        case str() if not _is_unicode(value):
            yield f"{place}: a lone surrogate"
        case dict():
            for name, item in cast(Json, value).items():
                yield from _values(name, f"{place}, a key")
                yield from () if name == "subagent_trajectories" else _values(item, f"{place}.{name}".lstrip("."))
        case list():
            for index, item in enumerate(cast("list[Any]", value)):
                yield from _values(item, f"{place}[{index}]")
        case _:
            pass


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _ids(document: Json) -> Iterator[str]:
    steps: list[Json] = document["steps"]
    for index, step in enumerate(steps):
        if step["step_id"] != index + 1:
            yield f"steps[{index}].step_id: {step['step_id']}, not {index + 1}"
    called = Counter(str(call["tool_call_id"]) for step in steps for call in _list(step.get("tool_calls")))
    sources = [result.get("source_call_id") for result in _results(steps)]
    answered = Counter(str(source) for source in sources if source is not None)
    yield from (f"tool_call_id {name!r} occurs {n} times" for name, n in called.items() if n > 1)
    yield from (f"call {name!r} has {n} results" for name, n in answered.items() if n > 1)


def _totals(document: Json) -> Iterator[str]:
    steps: list[Json] = document["steps"]
    final: Json = document.get("final_metrics") or {}
    given = final.get("total_steps")
    if given is not None and given != len(steps):
        yield f"final_metrics.total_steps: {given}, but there are {len(steps)} steps"
    extra: Json = final.get("extra") or {}
    others: list[Json] = [extra[part] for part in ("model_calls", "subagents") if part in extra]
    metrics: list[Json] = [step["metrics"] for step in steps if step.get("metrics")]
    for total, name in _TOTALS.items():
        if final.get(total) is None:
            continue
        parts = sum(item.get(name) or 0 for item in (*metrics, *others))
        if abs(final[total] - parts) > _TOLERANCE_USD * max(1.0, abs(final[total])):
            yield f"final_metrics.{total}: {final[total]}, but its parts make {parts}"


def _subagents(document: Json) -> Iterator[str]:
    names = Counter(str(sub["trajectory_id"]) for sub in _embedded(document))
    yield from (f"trajectory_id {name!r} occurs {n} times" for name, n in names.items() if n > 1)
    for result in _results(document["steps"]):
        for ref in _list(result.get("subagent_trajectory_ref")):
            if ref.get("trajectory_path") is None and ref.get("trajectory_id") not in names:
                yield f"there is no sub-agent {ref.get('trajectory_id')!r}"


def _results(steps: list[Json]) -> Iterator[Json]:
    for step in steps:
        observation: Json = step.get("observation") or {}
        yield from _list(observation.get("results"))


def _embedded(document: Json) -> list[Json]:
    return _list(document.get("subagent_trajectories"))


def _list(value: Any) -> list[Json]:
    return value or []
