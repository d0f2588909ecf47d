"""`tinyagent config`: the effective settings, and the layer each came from."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tinyagent.cli import options as opt
from tinyagent.core.types import Json

if TYPE_CHECKING:
    from tinyagent.config import Loaded


def config(
    cwd: opt.Cwd = None,
    config: opt.ConfigFile = None,
    assignments: opt.Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with the origin of each setting.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the defaults.")] = False,
) -> None:
    """Show the effective settings and the layer each came from.

    Order, the later ones win: defaults, your config.yaml, the project's .tinyagent/config.yaml, variables
    TINYAGENT_<OPTION>, the command line.
    """
    from tinyagent.cli.checks import window_words
    from tinyagent.cli.session import Invocation, settings_for
    from tinyagent.console import legible

    invocation = Invocation(
        cwd=Path(cwd or "."),
        config_file=None if config is None else Path(config),
        assignments=tuple(assignments or ()),
    )
    loaded = settings_for(invocation, os.environ)
    rows = [row for row in _rows(loaded) if not changed or row.origin != "default"]
    for notice in loaded.notices:
        typer.echo(f"warning: {notice}", err=True)
    if as_json:
        typer.echo(json.dumps({row.key: {"value": row.value, "origin": row.origin} for row in rows}, indent=1))
        return
    width = max((len(row.key) for row in rows), default=0)
    for row in rows:
        typer.echo(legible(f"{row.key:<{width}}  {json.dumps(row.value, ensure_ascii=False):<24}  {row.origin}"))
    if not changed:
        typer.echo(legible("\n" + "\n".join(window_words(loaded.settings, os.environ))))


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    value: object
    origin: str


def _rows(loaded: "Loaded") -> Iterator[_Row]:
    """Each setting as it may be shown: secrets are masked."""
    for key, value in _leaves(loaded.settings.public(), ""):
        yield _Row(key, value, loaded.origin.get(key, "default"))


def _leaves(data: Json, above: str) -> Iterator[tuple[str, object]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(cast("Json", value), f"{above}{name}.")
        else:
            yield f"{above}{name}", value
