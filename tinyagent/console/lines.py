"""Events in words, each on one line. Values in, texts out."""

import json
from collections.abc import Sequence
from typing import cast

from tinyagent.console.paper import one_line
from tinyagent.core.errors import END_STATES
from tinyagent.core.events import RunEnded
from tinyagent.core.limits import Spend
from tinyagent.core.state import RunState
from tinyagent.core.types import Json, ToolCall, ToolMessage, Window


def call_line(call: ToolCall) -> str:
    """A call as the tool's name and the argument that tells most."""
    if call.arguments is None:
        return f"{call.name}  (arguments that cannot be read)"
    return f"{call.name}  {one_line(_telling(call.name, call.arguments))}"


def result_line(message: ToolMessage, *, seconds: float | None = None) -> str:
    """What came of a call: exit code, size, time, and the line that says most."""
    ran = message.tool in ("bash", "task")
    time = f"{seconds:.1f} s" if ran and seconds is not None and seconds >= 0.1 else ""
    facts = [_outcome(message), _size(message), time]
    words = ", ".join(fact for fact in facts if fact)
    line = _telling_line(message)
    return f"{words}: {line}" if words and line else words or line or "done"


def status_line(state: RunState) -> str:
    """Where the run stands after a step."""
    window = state.window.tokens
    context = f"~{state.estimate:,} tokens" if window is None else f"{_percent(state.estimate, window)} of {window:,}"
    return f"step {state.spend.steps} · context {context} · {cost_words(state.spend)}"


def window_words(window: Window) -> str:
    return "window unknown" if window.tokens is None else f"window {window.tokens:,} ({window.source})"


def cost_words(spend: Spend) -> str:
    """Dollars with as many digits as they need; a price that is not known is never shown as 0."""
    if spend.cost_usd is None:
        return "cost unknown"
    return f"${spend.cost_usd:.2f}" if spend.cost_usd >= 1 or not spend.cost_usd else f"${spend.cost_usd:.4f}"


def end_words(ended: RunEnded, state: RunState, *, seconds: float, where: str) -> str:
    """The last line about a run: how it ended, what it took, where it is."""
    steps = f"{state.spend.steps} step{'' if state.spend.steps == 1 else 's'}"
    words = END_STATES[ended.reason].words
    again = "" if ended.reason == "submitted" else f"; to go on: tinyagent -r {state.run_id}"
    spent = f"{steps}, {cost_words(state.spend)}, {_time_words(seconds)}"
    return f"{words}: {spent}; run {state.run_id} in {where}{again}"


def _telling(tool: str, arguments: Json) -> str:
    match tool:
        case "bash":
            return _text(arguments, "command")
        case "read":
            start, count = arguments.get("offset"), arguments.get("limit")
            span = f" from line {start}" if start else ""
            return _text(arguments, "path") + span + (f", {count} lines" if count else "")
        case "write" | "edit":
            return _text(arguments, "path")
        case "read_output":
            return " ".join(str(value) for value in arguments.values())
        case "plan":
            return _plan_words(arguments.get("items"))
        case "task":
            return _text(arguments, "prompt")
        case _:
            return json.dumps(arguments, ensure_ascii=False)


def _plan_words(items: object) -> str:
    """How far a plan is, and what is being done."""
    if not isinstance(items, list):
        return ""
    plan = [cast("Json", item) for item in cast("list[object]", items) if isinstance(item, dict)]
    done = sum(item.get("status") == "done" for item in plan)
    doing = next((str(item.get("text")) for item in plan if item.get("status") == "doing"), "")
    return f"{done} of {len(plan)} done" + (f", now: {doing}" if doing else "")


def _text(arguments: Json, name: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else json.dumps(arguments, ensure_ascii=False)


def _outcome(message: ToolMessage) -> str:
    if "exit_code" in message.facts:
        code = message.facts["exit_code"]
        return "stopped at its time limit" if code is None else f"exit {code}"
    return "failed" if message.is_error else ""


def _size(message: ToolMessage) -> str:
    facts = message.facts
    if "first_line" in facts and "last_line" in facts:
        first, last = facts["first_line"], facts["last_line"]
        return f"line {first}" if first == last else f"lines {first}-{last}"
    count = len(_output_lines(message))
    return f"{count} lines" if count > 1 and "exit_code" in facts else ""


def _telling_line(message: ToolMessage) -> str:
    """A command says most at its end, a failure in its first line; what was read is not repeated."""
    lines = _output_lines(message)
    if not lines or ("first_line" in message.facts and not message.is_error):
        return ""
    return one_line(lines[-1] if "exit_code" in message.facts else lines[0])


def _output_lines(message: ToolMessage) -> Sequence[str]:
    """The lines that are not empty, without the tool's own line about the exit code."""
    lines = [line for line in message.text.splitlines() if line.strip()]
    return lines[:-1] if "exit_code" in message.facts and lines and lines[-1].startswith("[") else lines


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "?"


def _time_words(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
