"""Runs the tool calls of one step: exactly one result per call, in order, whatever happens."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import BinaryIO

from tinyagent.core.clip import clip
from tinyagent.core.errors import EndRun, SandboxLost
from tinyagent.core.types import (
    Facts,
    Json,
    Sandbox,
    Tool,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolOutput,
    ToolSpec,
    Verdict,
)
from tinyagent.tools.schema import problems
from tinyagent.tools.shares import shares
from tinyagent.tools.store import FileOutputStore


@dataclass(frozen=True, slots=True)
class _Ended:
    """One call that has its result; `chars` is the length of the full text, of which `text` may be head and tail."""

    call: ToolCall
    text: str
    chars: int
    is_error: bool
    output_id: str
    facts: Facts


class Dispatch:
    """The one ToolRunner: schema, then policy, then the tool, then the store, then the cut to size.

    `permit` decides each call that passed the schema; it may ask a person and may raise. `redact` takes secrets out
    of a text, `redact_stream` copies a file without them (default: `redact`, block by block). `seen` maps paths to
    digests and starts a resumed run where it stopped. `on_result` is called as each call ends, with the redacted text
    before it is cut. `on_crash` gets the traceback of a tool that failed by our own fault.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        sandbox: Sandbox,
        store: FileOutputStore,
        *,
        permit: Callable[[ToolCall, Tool], Verdict],
        redact: Callable[[str], str],
        on_crash: Callable[[ToolCall, str], None],
        max_chars: int = 10_000,
        seen: Mapping[str, str] | None = None,
        spawn: Callable[[str], ToolOutput] | None = None,
        on_result: Callable[[ToolCall, ToolOutput], None] | None = None,
        redact_stream: Callable[[BinaryIO, BinaryIO], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._sandbox = sandbox
        self._store = store
        self._permit = permit
        self._redact = redact
        self._on_crash = on_crash
        self._max_chars = max_chars
        self._seen = dict(seen or {})
        self._spawn = spawn
        self._on_result = on_result
        self._redact_stream = redact_stream
        self._clock = clock
        self._finished: tuple[ToolMessage, ...] = ()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    @property
    def seen(self) -> Mapping[str, str]:
        """Path to digest of the bytes that the model last read or wrote."""
        return self._seen

    @property
    def finished(self) -> tuple[ToolMessage, ...]:
        """Results of the calls of the last `run` that ended; after an exception the caller answers the rest."""
        return self._finished

    def run(self, calls: Sequence[ToolCall], *, step_chars: int, remaining_s: float | None) -> Sequence[ToolMessage]:
        """Run the calls one after the other; `step_chars` bounds the text of all results together.

        `remaining_s` is what is left of the run's time; None: no limit. Raises SandboxLost, and whatever ends the run
        from inside a call (EndRun, KeyboardInterrupt); `finished` then has the results so far.
        """
        deadline = None if remaining_s is None else self._clock() + remaining_s
        most = min(self._max_chars, step_chars)
        ended: list[_Ended] = []
        self._finished = ()  # an interrupt below must not leave those of the step before
        try:
            for call in calls:
                ended.append(self._answer(call, most, deadline))
        finally:
            limits = shares([min(one.chars, most) for one in ended], step_chars)
            self._finished = tuple(self._message(one, limit) for one, limit in zip(ended, limits, strict=True))
        return self._finished

    def _answer(self, call: ToolCall, max_chars: int, deadline: float | None) -> _Ended:
        output = self._output(call, max_chars, deadline)
        path, digest = output.facts.get("path"), output.facts.get("digest")
        if path is not None and digest is not None:
            self._seen[path] = digest
        text = _legible(self._redact(output.text))
        facts = output.facts.copy()
        if "command" in facts:
            facts["command"] = self._redact(facts["command"])
        if self._on_result:
            self._on_result(call, replace(output, text=text, facts=facts))
        chars = len(text)
        if output.spool_id:
            chars = self._store.publish(output.spool_id, self._redact, redact_stream=self._redact_stream)
        facts["output_chars"] = chars
        return _Ended(call, text, chars, output.is_error, output.spool_id, facts)

    def _output(self, call: ToolCall, max_chars: int, deadline: float | None) -> ToolOutput:
        if call.arguments is None:
            return _refused(f"The arguments of this call could not be read: {call.problem[:500]}. Nothing was run.")
        tool = self._tools.get(call.name)
        if tool is None:
            return _refused(f"There is no tool `{call.name[:80]}`. {self._nearest(call.name)}")
        arguments = _given(call.arguments, tool.parameters)
        if faults := problems(arguments, tool.parameters):
            return _refused(f"Nothing was run: {'; '.join(faults[:10])}")
        verdict = self._permit(replace(call, arguments=arguments), tool)
        if not verdict.allowed:
            return _refused(f"Not permitted, nothing was run: {verdict.reason or verdict.by}")
        remaining_s = None if deadline is None else deadline - self._clock()
        if remaining_s is not None and remaining_s <= 0:
            return _refused("Nothing was run: the run's time limit is reached.")
        context = ToolContext(self._sandbox, self._store, self._seen, max_chars, remaining_s, self._spawn)
        return self._run(call, tool, arguments, context)

    def _run(self, call: ToolCall, tool: Tool, arguments: Json, context: ToolContext) -> ToolOutput:
        try:
            return tool.run(arguments, context)
        except (SandboxLost, EndRun):
            raise
        except Exception as error:  # a fault of ours inside one tool must not end the run; the journal has it all
            self._on_crash(call, traceback.format_exc())
            return _refused(
                f"The tool {tool.name} itself failed ({type(error).__name__}: {str(error)[:500]}). "
                "This is a fault of the program; try another way."
            )

    def _nearest(self, name: str) -> str:
        if near := get_close_matches(name, self._tools, n=1):
            return f"Did you mean `{near[0]}`?"
        return f"The tools are: {', '.join(self._tools)}."

    def _message(self, ended: _Ended, limit: int) -> ToolMessage:
        output_id, facts = ended.output_id, ended.facts
        text = ended.text
        if ended.chars > limit:
            output_id = output_id or self._store.put(text)
            text = clip(text, limit, again=f'read_output("{output_id}") has all', total=ended.chars)
            # The lines that a read showed are no longer all there.
            facts = facts.copy()
            facts.pop("first_line", None)
            facts.pop("last_line", None)
        return ToolMessage(ended.call.id, ended.call.name, text, ended.is_error, output_id, facts)


def _refused(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)


def _given(arguments: Json, schema: Json) -> Json:
    """The arguments without optional ones that are null: many models send null for "not given"."""
    required = schema.get("required", [])
    return {key: value for key, value in arguments.items() if value is not None or key in required}


def _legible(text: str) -> str:
    """The text with U+FFFD for what no JSON reader is sure to take: lone surrogates and NUL."""
    text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
