"""Made-up runs that look like real ones, for the page and the exchange formats: one to look at, one that is large."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tinyagent.compaction.compactor import Compactor, Summarizer
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.codec import encode
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    CompactionStarted,
    Decision,
    Event,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Notice,
    Record,
    RunEnded,
    RunStarted,
)
from tinyagent.core.pricing import Prices, cost
from tinyagent.core.state import Run
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import (
    AssistantMessage,
    Facts,
    Json,
    Message,
    Request,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
    Window,
)

PRICES = Prices(3.0, 15.0, 0.3, 3.75)
STARTED = 1_764_500_000.0
SYSTEM = (
    "You are a coding agent. You work in a repository through tools, step by step, and answer in plain text when the "
    "task is done.\n\n# Rules\n- Read a file before you change it.\n- Run the tests after each change.\n"
    "- Say what you did and what you could not do.\n\n# AGENTS.md\nUse `pytest -q`. Line length is 120.\n"
)
TASK = (
    "Log lines are lost when the process is killed while a file is being rotated.\n\n"
    "Find out why, write a test that fails, and fix it. The rotation lives in `tinylog/rotate.py`. "
    "Do not change the public API."
)
SUMMARY = """## Task
Fix lost log lines when the process is killed during rotation (`tinylog/rotate.py`), with a test that fails first.

## Progress so far
- `Rotator.rotate` closes the old file before the new one is open: lines in between go nowhere.
- A test with a killed child process reproduces it in 3 of 10 runs.

## Files changed
- `tests/test_rotate.py`: new test `test_no_line_is_lost_when_killed_while_rotating`

## Key decisions
- Open the new file first, then swap the descriptor with `os.dup2`, then close the old one.

## Open problems
- `fsync` of the folder is missing after the rename.

## Next steps
- Apply the swap in `rotate.py`, run the whole suite."""
WORDS = ("stream", "handler", "rotate", "record", "buffer", "flush", "rename", "lock", "queue", "offset", "header")
TOOLS = tuple(
    ToolSpec(name, description, {"type": "object", "properties": {key: {"type": "string"} for key in keys}})
    for name, description, keys in (
        ("bash", "Run a command in the workspace.", ("command",)),
        ("read", "Read lines of a file.", ("path", "offset", "limit")),
        ("edit", "Replace a text that occurs once.", ("path", "old", "new")),
        ("write", "Write a file.", ("path", "content")),
        ("plan", "Keep the plan.", ("items",)),
        ("task", "Give a self-contained job to a sub-agent.", ("prompt",)),
    )
)


def realistic_run(*, steps: int = 60, window: int = 32_768, seed: int = 7) -> list[Record]:
    """A run that finishes, with passes of the real compactor, a failed request, a sub-agent and a denied call."""
    story = _Story(Random(seed), window)
    story.start()
    for number in range(1, steps + 1):
        story.step(number, last=number == steps)
    story.emit(
        RunEnded("submitted", submission="No line is lost any more: the new file is open before the old closes.")
    )
    return story.records


def large_run(megabytes: float, *, steps: int = 2000) -> list[Record]:
    """A run whose journal is about so large; passes every 40 steps elide what is older than 10."""
    random = Random(1)
    line = "".join(f"{random.choice(WORDS)} {random.randrange(10**6)} " for _ in range(7)) + "<b>é</b>\n"
    chars = int(megabytes * 1_000_000 / steps)
    records: list[Record] = []
    run = Run(sink=records.append, clock=_ticking())
    run.emit(_started(200_000))
    run.emit(MessageAdded(UserMessage(TASK, "task"), 60))
    for number in range(1, steps + 1):
        size = 4_000 + (number % 40) * 3_000
        run.emit(_called("step", number, size, cached=size - 3_000, random=random))
        call = ToolCall(f"c{number}", "bash", {"command": f"sed -n {number},{number + 80}p tinylog/{number % 37}.py"})
        run.emit(MessageAdded(AssistantMessage(f"Step {number}.", (call,), "tool_calls"), 40, number))
        text = line * (chars // len(line))
        run.emit(MessageAdded(ToolMessage(call.id, "bash", text, facts=Facts(exit_code=0)), chars // 3, number))
        if number % 40 == 0:
            old = [e for e in run.state.view.entries[:-20] if isinstance(e.message, ToolMessage) and not e.elided]
            replaced = {entry.id: f"[output elided: {chars} chars]" for entry in old}
            view = tuple(entry.id for entry in run.state.view.entries)
            run.emit(CompactionStarted("budget", 121_000))
            run.emit(
                Compacted("budget", number + 1, 121_000, 4_000, view, ("elide",), replaced, elided=tuple(replaced))
            )
    run.emit(RunEnded("step_limit", f"step limit of {steps} reached"))
    return records


def _ticking() -> Callable[[], float]:
    ticks = iter(range(1, 10**9))
    return lambda: STARTED + next(ticks) * 0.9


def _started(window: int) -> RunStarted:
    setup = ModelSetup(
        "anthropic/claude-sonnet-4-5",
        {"api": "anthropic", "model": "claude-sonnet-4-5"},
        Window(window, "catalogue"),
        8192,
        PRICES,
    )
    settings: Json = {"cost_limit": 3.0, "max_output_tokens": 0, "context": encode(ContextPolicy())}
    return RunStarted("20261130-054112-7f3a", "0.1.0", "/home/ada/tinylog", setup, SYSTEM, TOOLS, settings)


def _called(
    purpose: str, step: int, size: int, *, cached: int, random: Random, error: str = "", request: Json | None = None
) -> ModelCalled:
    output = 0 if error else random.randrange(90, 700)
    usage = Usage(size, output, max(0, cached), max(0, size - cached))
    return ModelCalled(
        "summary" if purpose == "summary" else "step",
        step,
        f"{random.getrandbits(256):064x}",
        int(size * 1.04),
        4096,
        None if error else usage,
        context_tokens=None if error or purpose == "summary" else size + output,
        cost_usd=0.0 if error else cost(usage, PRICES),
        duration_s=round(random.uniform(1.2, 9.5), 2),
        model="claude-sonnet-4-5-20250929",
        request_id=f"req_{random.getrandbits(48):012x}",
        attempts=3 if error else 1,
        error=error,
        request=request,
    )


@dataclass(slots=True)
class _Story:
    """Writes one run, step by step."""

    random: Random
    window: int
    records: list[Record] = field(default_factory=list[Record])
    calls: int = 0
    cached: int = 0

    def __post_init__(self) -> None:
        self.run = Run(sink=self.records.append, clock=_ticking())

    run: Run = field(init=False)

    def emit(self, event: Event) -> None:
        self.run.emit(event)

    def start(self) -> None:
        self.emit(_started(self.window))
        self.say(UserMessage(TASK, "task"))

    def say(self, message: Message) -> None:
        self.emit(MessageAdded(message, message_tokens(message), self.run.state.spend.steps))

    def step(self, number: int, *, last: bool) -> None:
        self.compact()
        if number == 23:
            error = "overloaded: the server is overloaded, try again later"
            self.emit(_called("step", number, self.size(), cached=0, random=self.random, error=error))
        size = self.size()
        self.emit(_called("step", number, size, cached=self.cached, random=self.random))
        self.cached = size
        if last:
            self.say(AssistantMessage("Done. The new file is open before the old one closes, and the test passes."))
            return
        self.turn(number)

    def compact(self) -> None:
        """A pass if one is due: the first elides, later ones summarize."""
        passes = self.run.state.passes.effective_at
        policy = ContextPolicy(stages=("summarize", "prune") if passes else ("elide",), summary_max_tokens=900)
        summarizer = Summarizer(self._summary, lambda: self.window, "Write notes on the work so far.")
        Compactor(self.run, policy, summarizer).before_request()
        if self.run.state.passes.effective_at != passes:
            self.cached = 1_200

    def size(self) -> int:
        return int(self.run.state.raw_total * 0.94)

    def turn(self, number: int) -> None:
        text, calls = self.move(number)
        reasoning = "The old descriptor is closed before the new one exists." if number % 9 == 4 else ""
        self.say(AssistantMessage(text, calls, "tool_calls", reasoning=reasoning))
        for call in calls:
            self.say(self.result(number, call))
        if number == 41:
            self.emit(Notice("the window of 32,768 tokens is small for this work", code="small_window"))

    def move(self, number: int) -> tuple[str, tuple[ToolCall, ...]]:
        """What the model says and does in a step."""
        word = WORDS[number % len(WORDS)]
        path = f"tinylog/{word}.py"
        match number:
            case 1:
                items = [{"text": t, "status": s} for t, s in (("reproduce it", "doing"), ("fix rotate.py", "open"))]
                return "I start with a plan and a look around.", (self.call("plan", items=items), self.bash("ls -la"))
            case 9:
                return "", (
                    ToolCall(self.new_id(), "edit", None, "not valid JSON: line 1 column 42", '{"path": "tiny'),
                )
            case 17:
                return "A sub-agent can read the queue code.", (self.call("task", prompt="How does queue.py flush?"),)
            case 30:
                return "The old segments can go.", (self.bash("rm -rf /var/log/tinylog"),)
            case _ if number % 7 == 5:
                old, new = f"self._close()\nself._open({word!r})", f"fresh = open_segment({word!r})\nself._swap(fresh)"
                return f"`{path}` closes too early; I swap first.", (self.call("edit", path=path, old=old, new=new),)
            case _ if number % 3 == 0:
                return "Now the tests.", (self.bash(f"python -m pytest -q tests/test_{word}.py 2>&1 | tail -40"),)
            case _:
                first = self.random.randrange(1, 200)
                reads = [self.call("read", path=path, offset=first, limit=120)]
                if number % 5 == 1:
                    reads.append(self.bash(f"grep -rn {word} tinylog | head -20"))
                return f"Where is `{word}` used? I look at {path}.", tuple(reads)

    def new_id(self) -> str:
        self.calls += 1
        return f"toolu_{self.calls:03}"

    def call(self, name: str, **arguments: object) -> ToolCall:
        return ToolCall(self.new_id(), name, arguments)

    def bash(self, command: str) -> ToolCall:
        return self.call("bash", command=command)

    def result(self, number: int, call: ToolCall) -> ToolMessage:
        if call.arguments is None:
            return ToolMessage(call.id, call.name, f"The arguments cannot be read: {call.problem}", True)
        match call.name:
            case "plan":
                return ToolMessage(call.id, "plan", "plan kept", facts=Facts(plan=call.arguments["items"]))
            case "task":
                self.emit(ChildEnded(call.id, "20261130-054312-c0de", "submitted", Usage(48_210, 1_950), 0.1739, 6))
                return ToolMessage(call.id, "task", "queue.py flushes when 64 records wait or 0.2 s have passed.")
            case "edit":
                facts = Facts(path=call.arguments["path"], changed=True)
                return ToolMessage(call.id, "edit", f"{call.arguments['path']}: 1 place changed", facts=facts)
            case "read":
                return self.source(call)
            case _:
                return self.output(number, call)

    def source(self, call: ToolCall) -> ToolMessage:
        arguments: Json = call.arguments or {}
        first, path = int(arguments["offset"]), str(arguments["path"])
        lines = [f"{n:>5}  {self.code_line()}" for n in range(first, first + self.random.randrange(40, 110))]
        facts = Facts(path=path, first_line=first, last_line=first + len(lines) - 1, digest=f"{len(lines):x}")
        return ToolMessage(call.id, "read", "\n".join(lines), False, f"o{self.calls}", facts)

    def code_line(self) -> str:
        pick = self.random.choice
        return pick(
            (
                f"    def {pick(WORDS)}_{pick(WORDS)}(self, {pick(WORDS)}: int) -> None:",
                f"        self._{pick(WORDS)} = {pick(WORDS)}.{pick(WORDS)}({self.random.randrange(999)})",
                f"        if {pick(WORDS)} is None or not {pick(WORDS)}:",
                f"            raise {pick(WORDS).title()}Error(f'{{{pick(WORDS)}}}: <none> & \"{pick(WORDS)}\"')",
                "",
            )
        )

    def output(self, number: int, call: ToolCall) -> ToolMessage:
        command = str((call.arguments or {}).get("command"))
        if command.startswith("rm"):
            self.emit(Decision(call.id, "bash", False, "rule bash(rm -rf *)"))
            return ToolMessage(
                call.id, "bash", "Denied by the rule bash(rm -rf *).", True, facts=Facts(command=command)
            )
        failed = "pytest" in command and number < 48
        text = self.test_report(failed=failed) if "pytest" in command else self.listing()
        facts = Facts(exit_code=int(failed), command=command, output_chars=len(text))
        return ToolMessage(call.id, "bash", text, False, f"o{self.calls}", facts)

    def test_report(self, *, failed: bool) -> str:
        dots = "".join("F" if failed and self.random.random() < 0.03 else "." for _ in range(140))
        if not failed:
            return f"{dots}  [100%]\n140 passed in 3.21s"
        trace = "\n".join(f"E   {self.code_line().strip()}" for _ in range(24))
        return f"{dots}  [100%]\n=== FAILURES ===\n{trace}\nE   AssertionError: 99 == 100 lines\n1 failed, 139 passed"

    def listing(self) -> str:
        rows = (
            f"tinylog/{self.random.choice(WORDS)}.py:{self.random.randrange(400)}: {self.code_line().strip()}"
            for _ in range(self.random.randrange(12, 45))
        )
        return "\n".join(rows)

    def _summary(self, request: Request, seconds: float) -> AssistantMessage:
        own: Json = {"system": request.system, "messages": encode(request.messages), "tools": False}
        size = sum(message_tokens(m) for m in request.messages)
        self.emit(_called("summary", self.run.state.step, size, cached=0, random=self.random, request=own))
        return AssistantMessage(SUMMARY)
