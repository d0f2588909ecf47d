"""Which command is meant, and what its failure means for the exit code."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

import typer

from tinyagent.cli.groups import GroupedCommand
from tinyagent.core.errors import END_STATES, USAGE_EXIT_CODE, ModelError, SandboxLost, TinyagentError

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup

PROGRAM = "tinyagent"
COMPLETE = "_TINYAGENT_COMPLETE"  # set by the shell's completion script

# Each is the function of that name in the module of that name. `run` is meant where none is named.
COMMANDS = {
    "run": "Work on one task (the word may be left out).",
    "batch": "Run many tasks under one budget.",
    "show": "Read a trajectory in the terminal, or write it as a page.",
    "export": "Write a trajectory in another form.",
    "replay": "Prove, print or compare the requests of a trajectory.",
    "runs": "List the runs.",
    "models": "Windows, output caps and prices, and where each figure comes from.",
    "config": "The effective settings and the layer each came from.",
    "doctor": "Check keys, endpoint, window, tools and sandbox.",
    "demo": "Watch a scripted model fix a real bug, offline.",
}


def command_line(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code. Whatever is wrong is one sentence on stderr."""
    try:
        if COMPLETE in os.environ:
            _main(_completion(), [], PROGRAM)
        name, rest = split(arguments)
        _main(command(name), rest, PROGRAM if name == "run" else f"{PROGRAM} {name}")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except TinyagentError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return END_STATES["interrupted"].exit_code
    return 0


def split(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The command that is meant and its own arguments: `run` unless the first bare word names another one.

    Raises UsageError for what is more likely a slip than a task.
    """
    if list(arguments) == ["help"]:
        return "run", ["--help"]
    if arguments and arguments[0] in COMMANDS:
        return arguments[0], list(arguments[1:])
    words = [word for word in arguments if not word.startswith("-")]
    if COMMANDS.keys().isdisjoint(words):
        if slip := _slip(arguments):
            from tinyagent.config import UsageError

            raise UsageError(slip)
        return "run", list(arguments)
    position = _first_bare_word(arguments)
    if position is None or arguments[position] not in COMMANDS:
        return "run", list(arguments)
    return arguments[position], [*arguments[:position], *arguments[position + 1 :]]


@cache
def command(name: str) -> "TyperCommand":
    """The typer command of that name. Building one takes 4 ms."""
    function = cast("Callable[..., None]", getattr(import_module(f"tinyagent.cli.{name}"), name))
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=name == "run")
    app.command(name, cls=GroupedCommand, context_settings={"help_option_names": ["-h", "--help"]})(function)
    built = cast("TyperCommand", typer.main.get_command(app))
    if name == "run" and isinstance(built, GroupedCommand):
        built.commands = list(COMMANDS.items())
    return built


def _main(built: "TyperCommand | TyperGroup", arguments: Sequence[str], program: str) -> None:
    """Typer's own: prints usage errors and exits with 2, and exits with the command's code."""
    built.main(args=list(arguments), prog_name=program)


def _slip(arguments: Sequence[str]) -> str:
    """What is wrong with a command's name with a slip in it, or a task without its quotes: they would cost money."""
    bare = [word for word in arguments[:2] if not word.startswith("-") and " " not in word]
    if len(bare) < len(arguments[:2]) or not bare:
        return ""
    from difflib import get_close_matches

    if near := get_close_matches(bare[0], COMMANDS, n=1, cutoff=0.75):
        return f"there is no command {bare[0]}; did you mean {near[0]}? (As a task: tinyagent run {bare[0]})"
    quoted = f'the task is one argument, so put it in quotes: tinyagent "{" ".join(arguments)}"'
    return quoted if len(bare) == 2 else ""


def _first_bare_word(arguments: Sequence[str]) -> int | None:
    """The position of the first word that is neither an option nor an option's value."""
    takes_value = {
        name for param in command("run").params if not getattr(param, "is_flag", True) for name in param.opts
    }
    skip = False
    for position, word in enumerate(arguments):
        if skip:
            skip = False
        elif word == "--":
            return None
        elif not word.startswith("-") or word == "-":
            return position
        else:
            skip = word in takes_value
    return None


def _completion() -> "TyperGroup":
    """All commands with the options of a run before them, for the shell's completion."""
    from tinyagent.cli.run import run

    app = typer.Typer(rich_markup_mode=None)
    app.callback(invoke_without_command=True)(run)
    for name in COMMANDS:
        app.command(name, help=COMMANDS[name])(getattr(import_module(f"tinyagent.cli.{name}"), name))
    group = cast("TyperGroup", typer.main.get_command(app))
    group.params = [
        param for param in group.params if param.param_type_name != "argument"
    ]  # it would hide the commands
    return group


def _failed(error: TinyagentError) -> int:
    """Say what is wrong in one sentence; the exit code."""
    from tinyagent.config import UsageError
    from tinyagent.console import legible

    sys.stderr.write(f"{PROGRAM}: {legible(str(error))}\n")
    match error:
        case UsageError():
            return USAGE_EXIT_CODE
        case ModelError(kind="auth"):
            return END_STATES["auth"].exit_code
        case ModelError():
            return END_STATES["provider_error"].exit_code
        case SandboxLost():
            return END_STATES["sandbox_lost"].exit_code
        case _:
            return END_STATES["config"].exit_code
