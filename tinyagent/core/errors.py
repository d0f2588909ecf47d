"""What can go wrong, in one tree, and how a run can end, in one table.

TinyagentError
├── ConfigError       a setting, task file or argument is wrong
├── RecordError       a journal or trajectory cannot be read
├── ModelError        a provider's answer, normalised; `kind` decides what is done about it
├── SandboxLost       no command can be run at all
└── EndRun            the run ends now, for a reason of the table below
"""

from dataclasses import dataclass
from typing import Literal

from tinyagent.core.types import Usage

ErrorKind = Literal[
    "overflow",  # the prompt alone is larger than the window
    "overflow_total",  # the prompt fits, prompt + max_output_tokens does not
    "body_too_large",  # 413 for bytes
    "output_cap",  # max_output_tokens is above what the model allows
    "rate_tier",  # this single request is larger than the account's rate allows: waiting never helps
    "rate",
    "overloaded",
    "network",
    "stream_cut",  # the stream ended without its final event
    "malformed",  # an answer that is no answer: HTML, an empty body, no choices
    "quota",
    "auth",
    "not_found",
    "parameter",  # a request parameter is unknown to the server
    "reasoning",  # a reasoning signature or field is missing or bound to another conversation
    "history",  # the history's shape was refused
    "bad_request",
]
Recovery = Literal["retry", "compact", "lower_output", "strip_reasoning", "adjust", "stop"]

# What is done about each kind of provider error. "retry" is the wait-and-repeat of models/retry.py;
# the others are the step's own repairs, each tried once per cause.
RECOVERY: dict[ErrorKind, Recovery] = {
    "overflow": "compact",
    "overflow_total": "lower_output",
    "body_too_large": "compact",
    "output_cap": "lower_output",
    "rate_tier": "lower_output",
    "rate": "retry",
    "overloaded": "retry",
    "network": "retry",
    "stream_cut": "retry",
    "malformed": "retry",
    "quota": "stop",
    "auth": "stop",
    "not_found": "stop",
    "parameter": "adjust",
    "reasoning": "strip_reasoning",
    "history": "strip_reasoning",
    "bad_request": "stop",
}


class TinyagentError(Exception):
    """Base of all errors that carry a sentence for the user."""


class ConfigError(TinyagentError):
    """A setting, task file or argument is wrong; the message names file, line and key."""


class RecordError(TinyagentError):
    """A journal or trajectory cannot be read; the message names file and line."""


class SandboxLost(TinyagentError):
    """No command can be run at all."""


class ModelError(TinyagentError):
    """A provider's error in neutral form.

    `window` is a context limit that the answer states, `max_output_tokens` an output limit that it states;
    `parameter` names a rejected request parameter. `usage` is what the failed call is known to have used;
    `billed` is True if it may have been billed although no usage was reported. `digest` is that of the body sent.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind,
        status: int | None = None,
        window: int | None = None,
        prompt_tokens: int | None = None,
        max_output_tokens: int | None = None,
        parameter: str = "",
        retry_after_s: float | None = None,
        usage: Usage | None = None,
        billed: bool = False,
        digest: str = "",
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.status = status
        self.window = window
        self.prompt_tokens = prompt_tokens
        self.max_output_tokens = max_output_tokens
        self.parameter = parameter
        self.retry_after_s = retry_after_s
        self.usage = usage
        self.billed = billed
        self.digest = digest
        self.attempts = attempts


EndReason = Literal[
    "submitted",
    "provider_error",
    "refused",
    "empty_response",
    "bad_tool_calls",
    "loop_detected",
    "sandbox_lost",
    "crashed",
    "cost_limit",
    "step_limit",
    "time_limit",
    "context_truncated",
    "transient_provider_error",
    "auth",
    "config",
    "interrupted",
    "terminated",
]


@dataclass(frozen=True, slots=True)
class EndState:
    """How a run ended. `retryable`: the same command may succeed later with nothing changed."""

    status: str
    exit_code: int
    retryable: bool
    words: str


USAGE_EXIT_CODE = 2  # typer's own, for a wrong command line

END_STATES: dict[EndReason, EndState] = {
    "submitted": EndState("Submitted", 0, False, "finished"),
    "provider_error": EndState("Error", 1, False, "the provider refused the request"),
    "refused": EndState("Error", 1, False, "the model refused to answer"),
    "empty_response": EndState("Error", 1, True, "the model keeps answering with nothing"),
    "bad_tool_calls": EndState("Error", 1, False, "the model keeps sending tool calls that cannot be read"),
    "loop_detected": EndState("Error", 1, False, "the model repeats itself without progress"),
    "sandbox_lost": EndState("Error", 1, True, "commands can no longer be run"),
    "crashed": EndState("Error", 1, False, "tinyagent failed"),
    "cost_limit": EndState("LimitsExceeded", 3, False, "stopped at the cost limit"),
    "step_limit": EndState("LimitsExceeded", 3, False, "stopped at the step limit"),
    "time_limit": EndState("LimitsExceeded", 3, False, "stopped at the time limit"),
    "context_truncated": EndState("Error", 4, False, "the context no longer fits the model's window"),
    "transient_provider_error": EndState("Error", 75, True, "the provider is not available"),
    "auth": EndState("Error", 77, False, "the provider did not accept the key"),
    "config": EndState("Error", 78, False, "the configuration is wrong"),
    "interrupted": EndState("Interrupted", 130, True, "interrupted"),
    "terminated": EndState("Interrupted", 143, True, "terminated"),
}


class EndRun(TinyagentError):
    """The run ends now. Caught once, at the end of the loop."""

    def __init__(self, reason: EndReason, message: str = "") -> None:
        super().__init__(message or END_STATES[reason].words)
        self.reason: EndReason = reason
