"""`tinyagent replay --policy`: what other compaction policies would have sent and cost, beside the run as it was."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from tinyagent.config import UsageError

if TYPE_CHECKING:
    from tinyagent.compaction.plan import ContextPolicy
    from tinyagent.console import Paper
    from tinyagent.trajectory.reading import Contents
    from tinyagent.trajectory.simulate import Outcome

OWN = "default"
_RECORDED = "as recorded"
_WITHOUT_EFFECT = ("summary_", "step_output_ratio", "assume_window")
_HEADS = ("POLICY", "REQUESTS", "PASSES", "INPUT", "CACHED", "COST", "LARGEST", "TOO LARGE")


def compare_policies(
    contents: "Contents", names: Sequence[str], *, window: int | None, assignments: Sequence[str], as_json: bool
) -> None:
    """Print an outcome for each policy. Raises UsageError for a name or a setting that there is not."""
    from tinyagent.trajectory.simulate import has_prices, simulate

    policies = _policies(contents, names, assignments)
    records = contents.records
    outcomes = {_RECORDED: simulate(records, None)}
    outcomes |= {name: simulate(records, policy, window=window) for name, policy in policies.items()}
    if as_json:
        _print_json(contents, outcomes, has_prices(records))
    else:
        _print_table(contents, outcomes, policies, has_prices(records))


def _policies(contents: "Contents", names: Sequence[str], assignments: Sequence[str]) -> dict[str, "ContextPolicy"]:
    from tinyagent.compaction.plan import ContextPolicy
    from tinyagent.core.state import fold
    from tinyagent.trajectory.records import context_policy
    from tinyagent.trajectory.simulate import STAGES, named_policy

    known = (*STAGES, OWN)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--policy {unknown[0]}: there is no such policy; choose {', '.join(known)}")
    recorded = context_policy(fold([record.event for record in contents.records]).settings)
    own = replace(recorded or ContextPolicy(), **_varied(assignments))
    return {name: named_policy(name, own) for name in names}


def _varied(assignments: Sequence[str]) -> Mapping[str, Any]:
    from tinyagent.config import assigned

    values = assigned(assignments)
    for (section, *names), setting in values.items():
        if section != "context" or names[0].startswith(_WITHOUT_EFFECT):
            raise UsageError(f"{setting.where}: only settings of passes can be varied, such as context.trigger_ratio")
    return {names[0]: setting.value for (_, *names), setting in values.items()}


def _print_json(contents: "Contents", outcomes: Mapping[str, "Outcome"], has_prices: bool) -> None:
    from tinyagent.cli.output import Stdout

    rows = {name: asdict(outcome) for name, outcome in outcomes.items()}
    recorded = rows.pop(_RECORDED)
    unit = "usd" if has_prices else "million plain input tokens"
    value = {"path": str(contents.path), "cost_unit": unit, "as_recorded": recorded, "policies": rows}
    Stdout(sys.stdout).line(json.dumps(value, ensure_ascii=False, indent=1))


def _print_table(
    contents: "Contents", outcomes: Mapping[str, "Outcome"], policies: Mapping[str, "ContextPolicy"], has_prices: bool
) -> None:
    from tinyagent.cli.paging import paged

    with paged(os.environ, pager=False) as paper:
        _print_rows(paper, [_cells(name, outcome, has_prices) for name, outcome in outcomes.items()])
        for name, outcome in outcomes.items():
            if outcome.end:
                paper.line(f"{name}: a live run would have ended {outcome.end}", "yellow")
        if OWN in policies:
            stages = " and ".join(policies[OWN].stages) if policies[OWN].enabled else "no compaction"
            paper.line(f"{OWN}: the run's own settings ({stages}), digests in place of summaries", "dim")
        if not has_prices:
            paper.line("Costs in plain input tokens, as no price is on record: 1.25 uncached, 0.1 cached.", "dim")
        paper.line(_billed(contents), "dim")
        paper.line("A prefix equal to the step before's counts as cached.", "dim")
        paper.line("The replies are those on record: another view may have led to others.", "dim")


def _billed(contents: "Contents") -> str:
    from tinyagent.core.state import fold

    spend = fold([record.event for record in contents.records]).spend
    cost = "at an unknown price" if spend.cost_usd is None else f"${spend.cost_usd:.4f}"
    used = f"{spend.usage.input_tokens:,} input tokens, {spend.usage.cache_read_tokens:,} of them cached"
    return f"The run was billed {used}, {cost}: with failed requests and sub-agents, which no row counts."


def _cells(name: str, outcome: "Outcome", has_prices: bool) -> tuple[str, ...]:
    known = outcome.cost or 0.0
    cost = f"${known:.4f}" if has_prices else f"{1e6 * known:,.0f}"
    return (
        name,
        f"{outcome.requests:,}",
        f"{outcome.passes:,}",
        f"{outcome.input_tokens:,}",
        f"{outcome.cached_tokens / max(1, outcome.input_tokens):.1%}",
        "?" if outcome.cost is None else cost,
        f"{outcome.largest:,}",
        f"{outcome.too_large:,}",
    )


def _print_rows(paper: "Paper", rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(text) for text in column) for column in zip(_HEADS, *rows, strict=True)]
    for place, row in enumerate((_HEADS, *rows)):
        first, *figures = (text.rjust(width) for text, width in zip(row, widths, strict=True))
        paper.line("  ".join([first.strip().ljust(widths[0]), *figures]), "plain" if place else "bold")
