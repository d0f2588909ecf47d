"""`tinyagent models`: windows, output caps and prices, and where each figure comes from."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagent.cli import options as opt
from tinyagent.core.errors import ConfigError
from tinyagent.core.pricing import Prices

if TYPE_CHECKING:
    from tinyagent.config import Settings
    from tinyagent.endpoint import Target

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PROVIDER/NAME]...", help="Models to look up. Without any: the one in force, and others."),
]


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one model. None: unknown. Prices are US dollars per million tokens."""

    model: str
    window: int | None
    window_from: str
    max_output_tokens: int | None
    output_from: str
    input_usd_per_mtok: float | None
    output_usd_per_mtok: float | None
    cache_read_usd_per_mtok: float | None
    prices_from: str
    note: str = ""


def models(
    names: Names = None,
    cwd: opt.Cwd = None,
    config: opt.ConfigFile = None,
    assignments: opt.Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON array.")] = False,
) -> None:
    """Show windows, output caps and prices of models, and where each figure comes from.

    The model in force and models that are named are asked of their server; others are looked up in the catalogue.
    """
    from tinyagent.cli.session import Invocation, settings_for
    from tinyagent.config import folders

    invocation = Invocation(
        cwd=Path(cwd or "."), config_file=Path(config) if config else None, assignments=tuple(assignments or ())
    )
    settings = settings_for(invocation, os.environ).settings
    rows = list(_rows(settings, os.environ, names or (), cache=folders(os.environ).cache))
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        typer.echo(_table(rows))


def _rows(settings: "Settings", environ: Mapping[str, str], names: Sequence[str], *, cache: Path) -> Iterator[Row]:
    from tinyagent.models.providers import api_key, provider_table

    if names:
        yield from (_asked(replace(settings, model=name), environ, name, cache=cache) for name in names)
        return
    first = _asked(settings, environ, settings.model or "", cache=cache)
    if first.model:
        yield replace(first, note="; ".join(filter(None, ("in force", first.note))))
    for provider in provider_table(settings.providers).values():
        name = f"{provider.name}/{provider.default_model}"
        if provider.default_model and name != first.model:
            has_key = bool(api_key(provider, environ))
            yield _looked_up(name, "has a key" if has_key else f"needs {provider.key_variables[0]}")


def _asked(settings: "Settings", environ: Mapping[str, str], name: str, *, cache: Path) -> Row:
    """The row of a model as a run would see it; without its key only what the catalogue knows."""
    from tinyagent.endpoint import find_target

    try:
        return _row_of(find_target(settings, environ, cache=cache), has_limit=settings.cost_limit > 0)
    except ConfigError as error:
        return _looked_up(name, str(error))


def _row_of(target: "Target", *, has_limit: bool) -> Row:
    prices = target.prices
    return Row(
        str(target.ref),
        target.window.tokens,
        target.window_from,
        target.max_output_tokens,
        target.output_from,
        *_figures(prices),
        target.prices_from,
        "give its price, or --cost-limit 0" if prices is None and has_limit else "",
    )


def _looked_up(name: str, note: str) -> Row:
    from tinyagent.models.catalogue import lookup

    row = lookup(name) if name else None
    if row is None:
        return Row(name, None, "unknown", None, "unknown", None, None, None, "unknown", note)
    source = f"catalogue of {row.date}" if row.date else "catalogue"
    priced = source if row.prices else "unknown"
    return Row(name, row.window, source, row.max_output_tokens, source, *_figures(row.prices), priced, note)


def _figures(prices: Prices | None) -> tuple[float | None, float | None, float | None]:
    if prices is None:
        return None, None, None
    return prices.input_usd_per_mtok, prices.output_usd_per_mtok, prices.cache_read_usd_per_mtok


def _table(rows: Sequence[Row]) -> str:
    """The rows as aligned columns, with the sources below their figures."""
    head = ("MODEL", "WINDOW", "OUTPUT", "IN", "OUT", "CACHED", "FROM")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head) - 1)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in range(1, 6)), line[6]]).rstrip()
        for line in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    prices = (row.input_usd_per_mtok, row.output_usd_per_mtok, row.cache_read_usd_per_mtok)
    sources = {"window": row.window_from, "output": row.output_from, "price": row.prices_from}
    told = "; ".join(f"{what}: {source}" for what, source in sources.items())
    if len(set(sources.values())) == 1:
        told = row.window_from
    return (
        row.model or "(none)",
        _count(row.window),
        _count(row.max_output_tokens),
        *("?" if price is None else f"{price:g}" for price in prices),
        f"{told} ({row.note})" if row.note else told,
    )


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
