"""Real agent runs of other projects as scripts, from the folder beside the checkout where there is one."""

import functools
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Call, Item, Turn, World, say
from tinyagent.core.events import RunEnded
from tinyagent.core.types import AssistantMessage, Facts, Json

_PATH = re.compile(r"[\w./~-]*/[\w./-]+|[\w-]+\.\w{1,5}")
FOLDER = Path(__file__).resolve().parents[3] / "shared" / "replays"


@functools.cache
def replays() -> tuple[Any, ...]:
    """All runs, shortest first. Skips the test where the folder is not there."""
    runs = read_replays(FOLDER)
    if not runs:
        pytest.skip(f"there are no recorded runs in {FOLDER}")
    return tuple(sorted(runs, key=lambda run: run["stats"]["tokens"]))


def read_replays(folder: Path) -> list[Any]:
    files = sorted(folder.glob("*.jsonl.gz"))
    return [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]


def script_of(run: Any, *, most: int | None = None) -> list[Item]:
    """The replies of a run, at most `most`; where the user spoke between two turns, the agent is interrupted."""
    items: list[Any] = []
    for number, step in enumerate(run["steps"][:most]):
        if number and step.get("user") and run["steps"][number - 1]["tool_calls"]:
            items.append(KeyboardInterrupt)
        calls = tuple(
            _call(number, call, result) for call, result in zip(step["tool_calls"], step["results"], strict=True)
        )
        items.append(Turn(calls, step["assistant_text"]) if calls else say(step["assistant_text"] or "(nothing said)"))
    return items


def play(world: World, run: Any, *, most: int | None = None) -> RunEnded:
    """Work through a recorded run, the user's later messages included."""
    steps = run["steps"][:most]
    end = world.execute(run["task"] or "Go on.")
    while end.reason in ("interrupted", "submitted") and (given := _replies(world)) < len(steps):
        end = world.execute(steps[given].get("user") or "Go on.")
    return end


def _replies(world: World) -> int:
    return sum(isinstance(message, AssistantMessage) for message in world.state.messages)


def _call(step: int, call: Any, result: Any) -> Call:
    """`step` makes calls differ that the log shows only by a description: they were no loop when they were made."""
    arguments = call["arguments"] | {"step": step}
    is_error = bool(result.get("is_error"))
    return Call(result["output"], call["name"], arguments, _facts(call["name"].lower(), arguments, is_error), is_error)


def _facts(tool: str, arguments: Json, is_error: bool) -> Facts:
    """What our own tools would have noted of the call."""
    words = str(arguments.get("text", ""))
    path = next((arguments[key] for key in ("path", "file_path", "filePath") if key in arguments), None)
    command = arguments.get("command") or arguments.get("keystrokes")
    if tool in ("read", "write", "edit", "apply_patch", "str_replace_editor"):
        found = path or next(iter(_PATH.findall(words)), "")
        changed = tool in ("write", "edit", "apply_patch") or (tool == "str_replace_editor" and command != "view")
        return Facts(path=found, changed=changed, digest="d") if found else Facts()
    if tool in ("bash", "shell", "execute_bash", "exec_command", "terminal", "bash_command"):
        return Facts(command=str(command or words), exit_code=int(is_error))
    return Facts()
