"""`tinyagent export`: write a trajectory in another form."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagent.cli.show import Source

if TYPE_CHECKING:
    from tinyagent.trajectory.reading import Contents

STDOUT = "-"

Export = Callable[["Contents"], bytes]


def export(
    source: Source,
    to: Annotated[str, typer.Option("--to", metavar="FORM", help="native, atif, mini or html.")] = "native",
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout.")
    ] = STDOUT,
) -> None:
    """Write a trajectory in another form.

    native holds everything: requests can be rebuilt from it. atif is the Agent Trajectory Interchange Format 1.7, mini
    the form of mini-swe-agent 1.1, html one page to look at. A file is replaced as a whole, or stays as it is.
    """
    from tinyagent.cli.paging import print_bytes
    from tinyagent.cli.show import load_and_warn
    from tinyagent.trajectory.writing import write_file

    write = _form(to)
    data = write(load_and_warn(source))
    if output == STDOUT:
        print_bytes(data)
    else:
        write_file(Path(output), data)


def _form(name: str) -> Export:
    """How a form is made. A further one is one more line here. Raises UsageError."""
    from tinyagent.config import UsageError
    from tinyagent.trajectory.atif import to_atif
    from tinyagent.trajectory.mini import to_mini
    from tinyagent.trajectory.native import dump, to_native
    from tinyagent.trajectory.runs import sub_agents
    from tinyagent.trajectory.viewer.page import render_html

    forms: dict[str, Export] = {
        "native": lambda run: dump(to_native(run.records)),
        "atif": lambda run: dump(to_atif(run.records, children=sub_agents(run.path))),
        "mini": lambda run: dump(to_mini(run.records)),
        "html": lambda run: render_html(run.records).encode(),
    }
    if name not in forms:
        raise UsageError(f"--to {name}: there is no such form; choose {', '.join(forms)}")
    return forms[name]
