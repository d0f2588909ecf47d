"""Help in plain text, grouped as the options are declared. Rich's boxes would triple the time that `--help` takes."""

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand

Row = tuple[str, str]


class GroupedCommand(TyperCommand):
    """A command whose options stand under their `rich_help_panel`, in the order of declaration.

    `commands` are names and sentences that the help lists at its end.
    """

    commands: Sequence[Row] = ()

    # Typer has its own copy of click since 0.26, under a private name: its types cannot be named here.
    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[Row]] = {}
        for param in self.get_params(ctx):
            if row := _row(param, ctx):
                groups.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(row)
        for name, rows in [*groups.items(), *([("Commands", self.commands)] if self.commands else [])]:
            with formatter.section(name):
                formatter.write_dl(rows)


def _row(param: Any, ctx: Any) -> Row | None:
    """How a parameter is written, and what it means; None for a hidden one."""
    if param.hidden:
        return None
    if param.param_type_name == "argument":
        return (param.metavar or param.name.upper(), param.help or "")
    return param.get_help_record(ctx)
