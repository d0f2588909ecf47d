"""The nouns of a run: messages, tool calls, usage, requests, and the protocols of what may vary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypedDict

Json = dict[str, Any]

UserKind = Literal["task", "user", "summary", "notice"]
StopReason = Literal["end", "tool_calls", "length", "refusal"]
Effect = Literal["read", "write", "execute", "spawn"]


class Facts(TypedDict, total=False):
    """What a tool knows for certain about one call, kept beside its text.

    Compaction, the digest and read-before-edit rely on facts and never on the wording of an output.
    """

    exit_code: int | None  # None: the command was stopped at its time limit
    command: str
    path: str  # relative to the workspace where it lies inside
    first_line: int  # 1-based range that a read showed
    last_line: int
    digest: str  # sha256 of the file's bytes after this call
    changed: bool  # the call wrote `path`
    output_chars: int  # characters of the full output, as stored
    plan: list[Json]  # items of the plan tool: {"text": str, "status": "open" | "doing" | "done"}


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message in the user's role. `kind` is what compaction pins or recognises it by, never its text."""

    text: str
    kind: UserKind = "user"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asked for.

    `id` is unique in the run. `arguments` is None if and only if `problem` says why they could not be read; `raw` then
    holds the text as it came. Such a call is answered with an error and never run.
    """

    id: str
    name: str
    arguments: Json | None
    problem: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A model's reply, never edited.

    `wire` is the provider's own payload (reasoning, signatures, items); it is sent back unchanged, and only to the same
    `wire_format` ("<api>:<model>"). None: the message is rebuilt from the neutral fields. `reasoning` is readable
    thinking text for people; it is not sent.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    stop: StopReason = "end"
    wire: Any = None
    wire_format: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call: `text` is what the model sees, the full output is in the store under `output_id`.

    `output_id` is "" where the text is complete and nothing was stored.
    """

    call_id: str
    tool: str
    text: str
    is_error: bool = False
    output_id: str = ""
    facts: Facts = field(default_factory=Facts)


Message = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, nested: input contains both cache counts, output contains reasoning.

    Source of the form: OpenTelemetry GenAI conventions. Anthropic's own `input_tokens` leaves the cached part out;
    its adapter adds it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Json


@dataclass(frozen=True, slots=True)
class Request:
    """One model request in neutral form. `max_output_tokens` None leaves the provider's own default in force."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A complete reply.

    `usage` is None where the server reported none. `reply_tokens` is what the reply will occupy in the next request
    (output without reasoning that is not sent back); None if unknown. `digest` is the sha256 of the body sent,
    `cost_usd` a cost that the server itself reported.
    """

    message: AssistantMessage
    usage: Usage | None
    reply_tokens: int | None = None
    model: str = ""
    request_id: str = ""
    duration_s: float = 0.0
    digest: str = ""
    attempts: int = 1
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A context window and where the figure comes from. `tokens` None: unknown."""

    tokens: int | None
    source: Literal["configured", "learned", "server", "catalogue", "assumed", "unknown"] = "unknown"


class Model(Protocol):
    """One model behind one endpoint."""

    @property
    def name(self) -> str:
        """PROVIDER/NAME, as the user writes it."""
        ...

    def options(self) -> Json:
        """The encoding options in force (api, model, temperature, ...): with a Request they determine its body."""
        ...

    def complete(
        self, request: Request, *, on_text: Callable[[str], None] | None = None, timeout_s: float | None = None
    ) -> Response:
        """Send one request and return the whole reply; `on_text` gets text as it streams in.

        Raises only `ModelError`. `timeout_s` bounds the whole call including retries; None sets no bound of its own.
        """
        ...

    def adjust(self, parameter: str) -> bool:
        """Leave out or rename a request parameter that the provider rejected; False if there is nothing to change."""
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """Result of one command.

    `output` is stdout and stderr in arrival order, at most the asked number of bytes, cut in the middle with a marker;
    `output_bytes` is the true count. `exit_code` is None if and only if `timed_out`; a command ended by a signal has
    the shell's code, 128 + N, and `signal` names it. A failing command is a normal result.
    """

    exit_code: int | None
    output: str
    output_bytes: int
    timed_out: bool = False
    signal: str = ""
    duration_s: float = 0.0


class Sandbox(Protocol):
    """Where commands run and files live. Use as a context manager; leaving it ends every process it started."""

    @property
    def root(self) -> Path:
        """The workspace: absolute, links resolved, fixed by the user's start directory."""
        ...

    def run(self, command: str, *, timeout_s: float, max_bytes: int, spool: Path | None = None) -> Completed:
        """Run a command in bash. An output larger than `max_bytes` is written to `spool` whole, where one is given.

        Raises `SandboxLost` when no command can be run at all.
        """
        ...

    def read_bytes(self, path: str, *, max_bytes: int) -> bytes:
        """The file's bytes. Raises OSError; ValueError with a sentence if it is too large or no regular file."""
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace or create a file atomically, making parent folders, keeping the mode. Raises OSError, ValueError."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class OutputStore(Protocol):
    """Full tool outputs by id; the folder belongs to one run."""

    def new_path(self) -> tuple[str, Path]:
        """A fresh id and the file that its output may be spooled to."""
        ...

    def put(self, text: str) -> str:
        """Store a text and return its id."""
        ...

    def read(self, output_id: str) -> str:
        """The stored text. Raises KeyError for an unknown id."""
        ...


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool hands to dispatch. `spool_id`: the full output was spooled to the store under this id."""

    text: str
    is_error: bool = False
    facts: Facts = field(default_factory=Facts)
    spool_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running tool may use. `seen` maps a path to the digest of the bytes that the model last read or wrote."""

    sandbox: Sandbox
    store: OutputStore
    seen: Mapping[str, str]
    max_chars: int  # per output
    remaining_s: float | None = None  # of the run's time limit; None: no limit
    spawn: "Callable[[str], ToolOutput] | None" = None  # runs a sub-agent; None inside one


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool is a record with a function."""

    name: str
    description: str
    parameters: Json
    effect: Effect
    run: Callable[[Json, ToolContext], ToolOutput]

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A permission decision. `by` names the rule or person; `reason` is what the model is told on a denial."""

    allowed: bool
    by: str
    reason: str = ""


class ToolRunner(Protocol):
    """Runs the calls of one step; `tools/dispatch.py` is the one implementation.

    `finished` are the results of the last step so far, in order, also after `run` raised.
    """

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    @property
    def finished(self) -> Sequence[ToolMessage]: ...

    def run(
        self, calls: Sequence[ToolCall], *, step_chars: int, remaining_s: float | None
    ) -> "Sequence[ToolMessage]": ...
