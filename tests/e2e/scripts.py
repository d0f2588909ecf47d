"""What the model of an end-to-end test says."""

from collections.abc import Sequence

from tests.e2e.program import Tinyagent
from tests.fake_wires import Call, Say
from tests.generators import text

SUMMARY = "\n".join(
    f"## {title}\n{words}"
    for title, words in {
        "Task": "Fix the failing test.",
        "Constraints": "None were given.",
        "Progress so far": "All files so far were read.",
        "Files changed": "None yet.",
        "Key decisions": "Read on before anything is changed.",
        "Open problems": "The fault was not found yet.",
        "Next steps": "Read the remaining files.",
    }.items()
)


def read(name: str, said: str = "I read on.") -> Say:
    return Say(said, (Call("read", {"path": name}),))


def bash(*commands: str, said: str = "I run it.") -> Say:
    """One reply with a call for each command."""
    return Say(said, tuple(Call("bash", {"command": command}) for command in commands))


def files(tinyagent: Tinyagent, number: int, *, chars: int = 6_000, kind: str = "prose") -> list[str]:
    """Files f1.txt, f2.txt, ... of one kind of text, in lines, and their names."""
    for n in range(1, number + 1):
        content = text(kind, chars, n)
        lines = [content[at : at + 100] for at in range(0, len(content), 100)]
        tinyagent.file(f"f{n}.txt", f"file {n}\n" + "\n".join(lines) + "\n")
    return [f"f{n}.txt" for n in range(1, number + 1)]


def reads(names: Sequence[str], *, said: str = "I read on.") -> list[Say]:
    return [read(name, said) for name in names]
