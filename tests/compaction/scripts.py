"""Scripts and states that fill a window in a known way."""

from tests.builders import BASH, assistant, call, task
from tests.generators import text
from tests.harness import Item, turn
from tinyagent.core.events import MessageAdded, ModelSetup, RunStarted
from tinyagent.core.state import RunState, advance, fold
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import Facts, Message, ToolMessage, Window


def reading(number: int, *, chars: int = 4_000, kind: str = "code") -> list[Item]:
    """Turns whose outputs fill the window: about 1,170 tokens of code each."""
    return [turn(text(kind, chars, n), text=f"I read part {n}.") for n in range(number)]


def talking(number: int, *, chars: int = 3_500) -> list[Item]:
    """Turns whose own words fill the window, about 730 tokens each: eliding does not help."""
    return [turn("ok", text=text("prose", chars, n)) for n in range(number)]


BATCH = turn(text("code", 900, 71), text("code", 900, 72), text("code", 900, 73), text="Three at once.")


def long_state(turns: int, *, chars: int = 600) -> RunState:
    """The state of a run after that many turns of one call each, whose outputs have that many characters."""
    kinds = ("log", "code", "json", "prose")
    state = fold([RunStarted("r", "0", "/w", ModelSetup("m", {}, Window(200_000, "configured")), "system", (BASH,))])
    messages: list[Message] = [task()]
    for n in range(turns):
        facts = Facts(command=f"pytest -q {n}", exit_code=n % 2, path=f"src/part{n % 40}.py")
        body = text(kinds[n % len(kinds)], chars, n % 30)
        messages += [
            assistant(f"Step {n}.", call(f"c{n}", command=f"cat {n}")),
            ToolMessage(f"c{n}", "bash", body, facts=facts),
        ]
    for message in messages:
        state = advance(state, MessageAdded(message, message_tokens(message)))
    return state
