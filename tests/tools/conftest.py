"""A workspace, a store and a dispatch over the real tools, for one test."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tinyagent.core.types import Tool, ToolCall, ToolContext, ToolMessage, ToolOutput, Verdict
from tinyagent.sandboxes.local import LocalSandbox
from tinyagent.tools import BUILTIN
from tinyagent.tools.dispatch import Dispatch
from tinyagent.tools.store import FileOutputStore


class Room:
    """`call` runs one tool call through a dispatch; what it was given and what went wrong is kept beside it."""

    def __init__(self, root: Path, sandbox: LocalSandbox) -> None:
        self.root = root
        self.outputs = root.parent / "run" / "outputs"
        self.sandbox = sandbox
        self.store = FileOutputStore(self.outputs)
        self.crashes: list[str] = []
        self.dispatch = self.dispatch_of(*BUILTIN.values())
        self._numbers = itertools.count(1)

    def dispatch_of(
        self, *tools: Tool, permit: Callable[[ToolCall, Tool], Verdict] | None = None, **options
    ) -> Dispatch:
        return Dispatch(
            tools,
            self.sandbox,
            self.store,
            permit=permit or (lambda call, tool: Verdict(True, "test")),
            redact=lambda text: text.replace("hunter2", "[secret]"),
            on_crash=lambda call, trace: self.crashes.append(trace),
            **options,
        )

    def context(self, *, max_chars: int = 10_000, spawn: Callable[[str], ToolOutput] | None = None) -> ToolContext:
        return ToolContext(self.sandbox, self.store, {}, max_chars, spawn=spawn)

    def call(self, name: str, /, **arguments: object) -> ToolMessage:
        call = ToolCall(f"call-{next(self._numbers)}", name, arguments)
        (message,) = self.dispatch.run([call], step_chars=100_000, remaining_s=None)
        return message


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    root = tmp_path / "workspace"
    root.mkdir()
    with LocalSandbox(root, env={"PATH": os.environ["PATH"]}) as sandbox:
        yield Room(root, sandbox)
