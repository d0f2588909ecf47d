"""Write the help texts into the documents again: `python -m tests.update_docs`.

A document holds one between the lines `<!-- help: NAME -->` and `<!-- end -->`.
"""

import re
from pathlib import Path

import typer

from tinyagent.cli.app import PROGRAM, command

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", ROOT / "tinyagent" / "cli" / "README.md")

_BLOCK = re.compile(r"(<!-- help: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def help_text(name: str) -> str:
    """What `tinyagent NAME --help` prints on a terminal of 80 columns."""
    built = command(name)
    program = PROGRAM if name == "run" else f"{PROGRAM} {name}"
    context = typer.Context(built, info_name=program, terminal_width=80, **built.context_settings)
    return built.get_help(context).rstrip()


def updated(text: str) -> str:
    """The document with current help texts."""
    return _BLOCK.sub(lambda block: f"{block[1]}```\n{help_text(block[2])}\n```\n{block[3]}", text)


def names(text: str) -> list[str]:
    """The commands whose help the document holds."""
    return [name for _, name, _ in _BLOCK.findall(text)]


def main() -> None:
    for path in DOCUMENTS:
        if path.exists():
            path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
