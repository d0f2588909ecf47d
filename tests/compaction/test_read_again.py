"""Nothing is lost: what a pass took out of sight can be read again by the name in its place, with the real tools."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compaction.scripts import talking
from tests.harness import Call, Reply, Turn, World, say
from tinyagent.core.types import Request, Tool, ToolCall, ToolMessage, ToolRunner, Verdict
from tinyagent.sandboxes.local import LocalSandbox
from tinyagent.tools import BUILTIN
from tinyagent.tools.dispatch import Dispatch
from tinyagent.tools.store import FileOutputStore

WINDOW = 16_000
_POINTER = re.compile(r'read_output\("(\w+)"\)')


def fail(call: ToolCall, trace: str) -> None:
    raise AssertionError(trace)


def allow(call: ToolCall, tool: Tool) -> Verdict:
    return Verdict(True, "test")


def hide(text: str) -> str:
    return text.replace("hunter2", "[secret]")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Callable[[World], ToolRunner]]:
    root = tmp_path / "workspace"
    root.mkdir()

    def of(world: World) -> ToolRunner:
        def logged(position: int) -> str | None:
            message = world.state.messages[position - 1]
            return message.text if isinstance(message, ToolMessage) else None

        store = FileOutputStore(tmp_path / "outputs", logged=logged)
        return Dispatch(tuple(BUILTIN.values()), sandbox, store, permit=allow, redact=hide, on_crash=fail)

    with LocalSandbox(root, env={"PATH": os.environ["PATH"]}) as sandbox:
        yield of


def bash(command: str) -> Turn:
    return Turn((Call("", "bash", {"command": command, "timeout_s": 20}),))


def read_what_is_gone(request: Request) -> Reply:
    """Call read_output with every name that stands in the view."""
    names = dict.fromkeys(name for m in request.messages for name in _POINTER.findall(m.text))
    return Turn(tuple(Call("", "read_output", {"id": name}) for name in list(names)[:2]))


@pytest.mark.parametrize("lines", [200, 5_000])
def test_an_elided_output_can_be_read_again_whether_it_was_shown_whole_or_cut(runner, lines):
    script = [bash(f"seq -f 'line {n} %g' {lines}") for n in range(12)]
    world = World([*script, read_what_is_gone, say()], window=WINDOW, runner=runner)
    assert world.execute().reason == "submitted"
    assert any(done.elided for done in world.passes)
    again = [m.text for m in world.state.messages if isinstance(m, ToolMessage) and m.tool == "read_output"]
    assert len(again) == 2
    for n, text in enumerate(again):
        assert f"line {n} 1\nline {n} 2\n" in text
        assert f"line {n} {lines}\n" in text or "[go on with offset=" in text


def test_a_secret_that_a_command_printed_gets_into_no_summary(runner):
    """hermes PR#9200, #69294: what `printenv` had printed before the pass stayed in the summary for good."""
    world = World([bash("echo password=hunter2"), *talking(20), say()], window=WINDOW, runner=runner)
    assert world.execute().reason == "submitted"
    assert world.summaries
    assert "password=[secret]" in world.summaries[0].texts
    assert not any("hunter2" in sent.texts.replace("echo password=hunter2", "") for sent in world.model.sent)


def test_the_real_tools_keep_a_small_window(runner):
    commands = (
        "head -c 2000000 /dev/urandom | base64 -w0",
        "seq 100000",
        "yes 日本語 | head -20000",
        "printf '\\xff\\xfe%.0s' {1..9000}",
    )
    world = World([*(bash(commands[n % 4]) for n in range(16)), say()], window=12_000, runner=runner)
    assert world.execute().reason == "submitted"
    assert world.refused == []
    assert world.passes
