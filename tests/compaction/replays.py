"""Real agent runs of other projects as scripts, from the folder beside the checkout where there is one."""

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Call, Item, Turn, World, say
from tinyagent.core.events import RunEnded
from tinyagent.core.types import AssistantMessage, Facts

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "replays"


@functools.cache
def replays() -> tuple[Any, ...]:
    """All runs, shortest first. Skips the test where the folder is not there."""
    files = sorted(FOLDER.glob("*.jsonl.gz"))
    if not files:
        pytest.skip(f"there are no recorded runs in {FOLDER}")
    runs = [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]
    return tuple(sorted(runs, key=lambda run: run["stats"]["tokens"]))


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


def _call(number: int, call: Any, result: Any) -> Call:
    """`step` makes calls differ that the log shows only by a description: they were no loop when they were made."""
    arguments, name = call["arguments"] | {"step": number}, call["name"]
    facts = Facts(output_chars=len(result["output"]))
    path = arguments.get("path") or arguments.get("file_path")
    if isinstance(path, str) and name.lower() in ("read", "write", "edit"):
        facts["path"] = path
        facts["changed"] = name.lower() != "read"
        facts["digest"] = "d"
    command = arguments.get("command")
    if isinstance(command, str):
        facts["command"] = command
        facts["exit_code"] = int(bool(result.get("is_error")))
    return Call(result["output"], name, arguments, facts, bool(result.get("is_error")))
