"""What batches came to, and how two of them compare. Pure, but for reading the folders."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tinyagent.batch.folder import RUN, SUMMARY, TASKS
from tinyagent.batch.status import Status, read_status
from tinyagent.core.codec import encode
from tinyagent.core.errors import RecordError
from tinyagent.core.types import Json, Usage

Z_95 = 1.959964  # standard normal quantile for a two-sided interval of 95 %


@dataclass(frozen=True, slots=True)
class Interval:
    """A share with its 95 % interval (Wilson's, which stays within 0 and 1 and holds for small counts)."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One batch in figures. `judged` are the attempts that ended for good; the others say nothing about the model.

    `pass_at[k]`: the chance that at least one of k attempts solves a task; `pass_all[k]`: that all k do. Both are
    averages over the tasks with at least k judged attempts. `cost_usd` None: a price was unknown.
    """

    name: str
    model: str
    tasks: int
    attempts: int
    judged: int
    resolved: int
    rate: Interval | None
    pass_at: tuple[float, ...]
    pass_all: tuple[float, ...]
    states: tuple[tuple[str, int], ...]
    reasons: tuple[tuple[str, int], ...]
    cost_usd: float | None
    usage: Usage
    steps: int
    compactions: int
    seconds: float
    pending: int = 0


def wilson(resolved: int, judged: int) -> Interval | None:
    """The share with its interval (E. B. Wilson, 1927); None where nothing was judged."""
    if judged <= 0:
        return None
    share, z2 = resolved / judged, Z_95 * Z_95
    middle = (share + z2 / (2 * judged)) / (1 + z2 / judged)
    half = Z_95 * math.sqrt(share * (1 - share) / judged + z2 / (4 * judged * judged)) / (1 + z2 / judged)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def pass_at(k: int, counts: Sequence[tuple[int, int]]) -> float | None:
    """The mean chance that one of k attempts succeeds, from (attempts, successes) of each task (unbiased form)."""
    shares = [1 - math.comb(n - c, k) / math.comb(n, k) for n, c in counts if n >= k]
    return sum(shares) / len(shares) if shares else None


def pass_all(k: int, counts: Sequence[tuple[int, int]]) -> float | None:
    """The mean chance that all of k attempts succeed."""
    shares = [math.comb(c, k) / math.comb(n, k) for n, c in counts if n >= k]
    return sum(shares) / len(shares) if shares else None


def figures(statuses: Sequence[Status], *, name: str = "", pending: int = 0) -> Figures:
    """The figures of one batch."""
    judged = [status for status in statuses if status.is_final]
    resolved = sum(status.is_resolved for status in judged)
    counts = _counts(judged)
    ks = range(1, max((n for n, _ in counts), default=0) + 1)
    costs = [status.cost_usd for status in statuses]
    known = [cost for cost in costs if cost is not None]
    return Figures(
        name=name,
        model=next((s.model_returned or s.model for s in statuses if s.model), ""),
        tasks=len({status.id for status in statuses}),
        attempts=len(statuses),
        judged=len(judged),
        resolved=resolved,
        rate=wilson(resolved, len(judged)),
        pass_at=tuple(value for k in ks if (value := pass_at(k, counts)) is not None),
        pass_all=tuple(value for k in ks if (value := pass_all(k, counts)) is not None),
        states=tuple(Counter(status.state for status in statuses).most_common()),
        reasons=tuple(Counter(status.reason for status in statuses if status.reason).most_common()),
        cost_usd=sum(known) if len(known) == len(costs) else None,
        usage=sum((status.usage for status in statuses), Usage()),
        steps=sum(status.steps for status in statuses),
        compactions=sum(status.compactions for status in statuses),
        seconds=sum(status.seconds for status in statuses),
        pending=pending,
    )


def summary_json(statuses: Sequence[Status]) -> Json:
    """The figures as `summary.json` has them."""
    found = figures(statuses)
    models = sorted({status.model_returned for status in statuses if status.model_returned})
    rate = None if found.rate is None else {"share": found.rate.share, "low": found.rate.low, "high": found.rate.high}
    return {
        "tasks": found.tasks,
        "attempts": found.attempts,
        "judged": found.judged,
        "resolved": found.resolved,
        "pass_rate": rate,
        "pass_at": {str(k): value for k, value in enumerate(found.pass_at, 1)},
        "pass_all": {str(k): value for k, value in enumerate(found.pass_all, 1)},
        "states": dict(found.states),
        "reasons": dict(found.reasons),
        "cost_usd": found.cost_usd,
        "usage": encode(found.usage),
        "steps": found.steps,
        "compactions": found.compactions,
        "seconds": round(found.seconds, 3),
        "models_returned": models,
    }


def read_statuses(folder: Path) -> list[Status]:
    """The statuses in a batch's folder, by name. Raises RecordError if it is none."""
    if not (folder / RUN).is_file() or not (folder / TASKS).is_dir():
        raise RecordError(f"{folder} is not the folder of a batch: {RUN} or {TASKS}/ is missing")
    found = [read_status(path) for path in sorted((folder / TASKS).iterdir())]
    return [status for status in found if status is not None]


def read_figures(folder: Path) -> Figures:
    """The figures of a batch's folder, also while it runs. Raises RecordError."""
    statuses = read_statuses(folder)
    pending = sum(1 for path in (folder / TASKS).iterdir() if not (path / "status.json").exists())
    try:
        summary = cast(Json, json.loads((folder / SUMMARY).read_bytes()))
        pending = max(pending, len(summary["pending"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not ended yet: what was started is all that is known
    return figures(statuses, name=folder.name, pending=pending)


def rows(batches: Sequence[Figures]) -> list[tuple[str, ...]]:
    """A table: the first column names the figure, each further one is a batch."""
    return [
        ("", *(b.name for b in batches)),
        ("model", *(b.model or "unknown" for b in batches)),
        ("attempts", *(f"{b.attempts}, {b.judged} judged" for b in batches)),
        ("solved", *(_rate_words(b) for b in batches)),
        *_pass_rows(batches),
        ("ends", *(", ".join(f"{count} {state}" for state, count in b.states) or "none" for b in batches)),
        ("pending", *(str(b.pending) for b in batches)),
        ("cost", *("unknown" if b.cost_usd is None else f"${b.cost_usd:.4f}" for b in batches)),
        ("cost per solved", *(_per_solved(b) for b in batches)),
        ("tokens in / out", *(f"{b.usage.input_tokens:,} / {b.usage.output_tokens:,}" for b in batches)),
        ("from cache", *(_cache_words(b.usage) for b in batches)),
        ("steps", *(f"{b.steps:,}" for b in batches)),
        ("compactions", *(f"{b.compactions:,}" for b in batches)),
        ("task seconds", *(f"{b.seconds:,.1f}" for b in batches)),
    ]


def differences(first: Sequence[Status], second: Sequence[Status]) -> tuple[list[str], list[str]]:
    """Ids of tasks that only the first batch solved, and only the second, of those that both judged."""
    a, b = _solved(first), _solved(second)
    both = sorted(a.keys() & b.keys())
    return [name for name in both if a[name] and not b[name]], [name for name in both if b[name] and not a[name]]


def html_page(table: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """The table as one page without anything from elsewhere."""
    from html import escape

    head, *body = table
    cells = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    cells += [f"<th>{escape(row[0])}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) for row in body]
    lines = "\n".join(f"<tr>{row}</tr>" for row in cells)
    paragraphs = "\n".join(f"<p>{escape(note)}</p>" for note in notes)
    return _PAGE.replace("ROWS", lines).replace("NOTES", paragraphs)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Batches</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th { text-align: left; font-weight: 600; }
td { text-align: right; }
</style></head><body>
<h1>Batches</h1>
<div><table>
ROWS
</table></div>
NOTES
</body></html>
"""


def _counts(judged: Sequence[Status]) -> list[tuple[int, int]]:
    by_task: dict[str, list[bool]] = defaultdict(list)
    for status in judged:
        by_task[status.id].append(status.is_resolved)
    return [(len(results), sum(results)) for results in by_task.values()]


def _solved(statuses: Sequence[Status]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for status in statuses:
        if status.is_final:
            found[status.id] = found.get(status.id, False) or status.is_resolved
    return found


def _rate_words(batch: Figures) -> str:
    if batch.rate is None:
        return "none judged"
    rate = batch.rate
    return f"{batch.resolved} = {rate.share:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def _pass_rows(batches: Sequence[Figures]) -> list[tuple[str, ...]]:
    most = max((len(b.pass_at) for b in batches), default=0)
    if most < 2:
        return []
    table: list[tuple[str, ...]] = []
    for k in range(2, most + 1):
        table.append((f"pass@{k}", *(_share(b.pass_at, k) for b in batches)))
        table.append((f"pass^{k}", *(_share(b.pass_all, k) for b in batches)))
    return table


def _share(values: Sequence[float], k: int) -> str:
    return f"{values[k - 1]:.1%}" if len(values) >= k else ""


def _per_solved(batch: Figures) -> str:
    if batch.cost_usd is None or not batch.resolved:
        return ""
    return f"${batch.cost_usd / batch.resolved:.4f}"


def _cache_words(usage: Usage) -> str:
    return f"{usage.cache_read_tokens / usage.input_tokens:.0%}" if usage.input_tokens else ""
