"""What stdout gets: the answer, or JSON. A reader that has gone away is no error."""

import json
import os
from contextlib import suppress
from typing import TextIO

from tinyagent.console import legible
from tinyagent.core.errors import END_STATES, EndReason
from tinyagent.core.events import RunEnded
from tinyagent.core.state import RunState
from tinyagent.core.types import Json, Usage

# Names that scripts know from other agents; every other reason is an error during execution.
_SUBTYPES: dict[EndReason, str] = {
    "submitted": "success",
    "step_limit": "error_max_turns",
    "cost_limit": "error_max_budget_usd",
    "time_limit": "error_max_time",
    "loop_detected": "loop",
}


class Stdout:
    """Standard output, given up in silence once nobody reads it any more (`| head -1`).

    `failure` says why something was lost that somebody may be waiting for, as on a full disk.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_gone = False
        self.failure = ""

    def write(self, text: str) -> None:
        """Write and flush. Characters that the encoding lacks become escapes."""
        if self._is_gone:
            return
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._is_gone = True
            if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                self.failure = f"stdout cannot be written: {error.strerror or error}"
            silence(self._stream)

    def answer(self, text: str) -> None:
        """The final answer: as it is for a program, with nothing that acts on it for a terminal."""
        self.line(legible(text) if self._stream.isatty() else text)

    def line(self, text: str) -> None:
        self.write(text if text.endswith("\n") else text + "\n")

    def json_line(self, value: Json) -> None:
        self.line(json.dumps(value, ensure_ascii=False))


def result_object(
    ended: RunEnded,
    state: RunState,
    *,
    exit_code: int,
    duration_s: float,
    compactions: int,
    trajectory_path: str | None,
) -> Json:
    """The `result` object of `json` and `stream-json`. `total_cost_usd` is null where a price is not known."""
    end = END_STATES[ended.reason]
    result: Json = {
        "type": "result",
        "subtype": _SUBTYPES.get(ended.reason, "error_during_execution"),
        "is_error": exit_code != 0,
        "result": ended.submission,
        "session_id": state.run_id,
        "num_turns": state.spend.steps,
        "duration_ms": round(duration_s * 1000),
        "total_cost_usd": state.spend.cost_usd,
        "usage": usage_object(state.spend.usage),
        "model": state.setup.model,
        "exit_status": end.status,
        "reason": ended.reason,
        "exit_code": exit_code,
        "retryable": end.retryable,
        "trajectory_path": trajectory_path,
        "compactions": compactions,
    }
    return result | {"error": ended.error} if ended.error else result


def usage_object(usage: Usage) -> Json:
    """Tokens under Anthropic's names; unlike there, `input_tokens` includes what came from the cache."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }


def silence(stream: TextIO) -> None:
    """Let the interpreter's own flush at its end go nowhere."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
