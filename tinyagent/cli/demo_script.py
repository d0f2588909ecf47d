"""What the scripted model of the demo says and calls. Its calls are run for real; only the words are made up."""

import re

from tinyagent.core.types import Json, Request, ToolMessage
from tinyagent.models.scripted import ScriptedReply, ScriptItem

TASK = "The test suite fails. Find the cause, fix it, and prove that it is fixed."
MODULE = "money.py"

_POINTER = re.compile(r'\[output elided: [^\]]*\] read_output\("([^"]+)"\)')


def replies(broken: str, whole: str) -> list[ScriptItem]:
    """The replies in order. `broken` is the faulty part of the module, `whole` what it should be."""
    return [
        _reply("I run the tests first, to see what fails.", _bash("python3 -m unittest")),
        _reply(
            "Shares of an amount do not add up to it. I read the tests and the module.",
            ("read", {"path": "test_money.py"}),
            ("read", {"path": MODULE}),
        ),
        _reply("Now the rest of the module, which was cut off.", ("read", {"path": MODULE, "offset": 73})),
        _reply(
            "`allocate` rounds every share down and forgets the cents that are left. Who relies on it?",
            _bash("grep -n 'allocate\\|split(' *.py"),
            ("read", {"path": "accounts.py"}),
        ),
        _reply(
            "It has worked before, or nobody could have written these tests. What does the history say?",
            _bash("git log --oneline && git show HEAD --stat -p"),
        ),
        _reply(
            "There it is: the last commit dropped the step that hands out the remaining cents. I put it back.",
            ("edit", {"path": MODULE, "old": broken, "new": whole}),
        ),
        _reply("", _bash("python3 -m unittest test_money.Splitting -v")),
        _look_again,
        _reply("None of them is left. At last the whole suite, and the change itself.", _bash(_PROOF)),
        ScriptedReply(
            "The suite failed because `money.allocate` rounded every share down, so that up to one cent a person got "
            "lost; the last commit had removed the step that hands out what is left. I put that step back: the "
            "remaining cents go to the largest remainders, ties to the first. All 16 tests pass; only money.py changed."
        ),
    ]


_PROOF = "python3 -m unittest 2>&1 | tail -n 3 && git diff --stat"


def _look_again(request: Request) -> ScriptedReply:
    """Read an output that a pass has elided, where there is one."""
    pointers = (_POINTER.search(m.text) for m in request.messages if isinstance(m, ToolMessage))
    found = next((pointer[1] for pointer in pointers if pointer), None)
    if found is None:
        return _reply("Now I count the failures again.", _bash("python3 -m unittest 2>&1 | grep -c FAIL"))
    call = ("read_output", {"id": found, "pattern": "^(FAIL|ERROR): "})
    return _reply("The first output was elided meanwhile. I look up which tests had failed, in the store.", call)


def _reply(text: str, *calls: tuple[str, Json]) -> ScriptedReply:
    return ScriptedReply(text, calls)


def _bash(command: str) -> tuple[str, Json]:
    return "bash", {"command": command}
