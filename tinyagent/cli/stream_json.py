"""`--output-format stream-json`: a run as JSON objects, one a line, in the shape that Claude Code made common."""

from collections.abc import Sequence

from tinyagent.cli.output import Stdout, usage_object
from tinyagent.core.events import Compacted, Event, MessageAdded, ModelCalled, Notice, RunResumed, RunStarted
from tinyagent.core.state import RunState
from tinyagent.core.types import AssistantMessage, Json, Message, ToolCall, ToolMessage, Usage, Verdict


class StreamJson:
    """The observer behind it. `warnings` are what the user should know already before the run."""

    def __init__(self, stdout: Stdout, *, warnings: Sequence[str] = ()) -> None:
        self._stdout = stdout
        self._warnings = list(warnings)
        self._usage: Usage | None = None
        self._init: Json | None = None

    def event(self, event: Event, state: RunState) -> None:
        match event:
            case RunStarted() | RunResumed():
                self._init = _init(event, state)
            case Notice() if self._init is not None:
                self._warnings.append(event.text)
            case ModelCalled(purpose="step"):
                self._usage = event.usage
            case MessageAdded():
                self._started()
                self._message(event.message, state)
            case Compacted():
                self._line(_compacted(event), state)
            case Notice():
                self._line({"type": "system", "subtype": "warning", "message": event.text}, state)
            case _:
                pass

    def text(self, delta: str) -> None:
        """Whole messages only."""

    def waiting(self, message: str) -> None:
        self._started()
        self._stdout.json_line({"type": "system", "subtype": "waiting", "message": message})

    def ask(self, call: ToolCall, question: str) -> Verdict | None:
        return None

    def end(self, result: Json) -> None:
        """The last line of every run."""
        self._started()
        self._stdout.json_line(result)

    def _started(self) -> None:
        """The first line is held back until all warnings of the start are known."""
        if self._init is not None:
            self._stdout.json_line(self._init | {"warnings": self._warnings})
            self._init = None

    def _message(self, message: Message, state: RunState) -> None:
        match message:
            case AssistantMessage():
                self._line(_assistant(message, self._usage, state.setup.model), state)
            case ToolMessage():
                self._line({"type": "user", "message": {"role": "user", "content": [_result(message)]}}, state)
            case _:
                content = [{"type": "text", "text": message.text}]
                self._line(
                    {"type": "user", "kind": message.kind, "message": {"role": "user", "content": content}}, state
                )

    def _line(self, value: Json, state: RunState) -> None:
        self._stdout.json_line(value | {"session_id": state.run_id})


def _init(event: RunStarted | RunResumed, state: RunState) -> Json:
    return {
        "type": "system",
        "subtype": "init",
        "session_id": state.run_id,
        "model": state.setup.model,
        "cwd": state.cwd,
        "tools": [tool.name for tool in state.tools],
        "version": event.version,
        "window": {"tokens": state.window.tokens, "source": state.window.source},
        "context_files": list(event.context_files) if isinstance(event, RunStarted) else [],
        "resumed": isinstance(event, RunResumed),
    }


def _assistant(message: AssistantMessage, usage: Usage | None, model: str) -> Json:
    content: list[Json] = [{"type": "text", "text": message.text}] if message.text else []
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        | ({"problem": call.problem, "raw": call.raw} if call.arguments is None else {})
        for call in message.tool_calls
    ]
    inner: Json = {"role": "assistant", "model": model, "content": content, "stop_reason": message.stop}
    return {"type": "assistant", "message": inner | ({} if usage is None else {"usage": usage_object(usage)})}


def _result(message: ToolMessage) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
    return block | {"is_error": message.is_error} | ({"output_id": message.output_id} if message.output_id else {})


def _compacted(event: Compacted) -> Json:
    return {
        "type": "system",
        "subtype": "compact",
        "trigger": event.trigger,
        "step": event.step,
        "stages": list(event.stages),
        "tokens_before": event.tokens_before,
        "tokens_after": event.tokens_after,
        "elided": len(event.elided),
        "summarized": len(event.summarized),
        "pruned_turns": event.pruned_turns,
        "clipped": len(event.clipped),
    }
