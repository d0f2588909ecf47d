"""The question before a call that needs a yes, and what the answers mean."""

import json
import os
from typing import TextIO

from tinyagent.console.paper import Paper
from tinyagent.core.types import Json, ToolCall, Verdict
from tinyagent.security.shell import visible

_SHOWN_CHARS = 4_000  # of each argument that is no command
_YES = ("y", "yes")
_NO = ("n", "no")
_ALWAYS = ("a", "always")


def ask_user(call: ToolCall, question: str, *, paper: Paper, answers: TextIO, always: set[str]) -> Verdict:
    """Show the whole call and wait for an answer. `always` holds the exact calls that were allowed for good.

    Anything but yes and always is a no, and a text that is neither is the reason that the model is told.
    """
    same = json.dumps([call.name, call.arguments], sort_keys=True)
    if same in always:
        return Verdict(True, "the user, for every call like this")
    paper.line(question, "yellow")
    for line in _whole(call.arguments or {}).splitlines():
        paper.line(f"    {line}")
    _drop_typed_ahead(answers)
    paper.piece("allow? y = yes, n = no, a = always exactly this, or say why not: ")
    answer = answers.readline()
    paper.at_line_start = answer.endswith("\n")  # the terminal has shown the line's end
    word = answer.strip().lower()
    if word in _ALWAYS:
        always.add(same)
    if word in _YES or word in _ALWAYS:
        return Verdict(True, "the user")
    if not answer:
        return Verdict(False, "the user", "the user gave no answer")
    return Verdict(False, "the user", "the user said no" if word in ("", *_NO) else f"the user said: {answer.strip()}")


def _whole(arguments: Json) -> str:
    """The arguments with everything in them made visible; a command in full, whatever its length."""
    if isinstance(command := arguments.get("command"), str):
        rest = {key: value for key, value in arguments.items() if key != "command"}
        return visible(command) + "".join(f"\n({key}: {value})" for key, value in rest.items())
    return "\n".join(f"{key}: {_shortened(value)}" for key, value in arguments.items())


def _shortened(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    more = f"\n... and {len(text) - _SHOWN_CHARS:,} more characters" if len(text) > _SHOWN_CHARS else ""
    return visible(text[:_SHOWN_CHARS]) + more


def _drop_typed_ahead(answers: TextIO) -> None:
    """Keys that were pressed before the question was there are no answer to it."""
    import termios

    try:
        if os.isatty(answers.fileno()):
            termios.tcflush(answers.fileno(), termios.TCIFLUSH)
    except (OSError, ValueError, termios.error):
        return  # not a terminal, or one that cannot do it
