"""Whole runs as lists of records, as varied as real ones: for property tests, and for long runs by a seed.

A generated run is legal: passes speak of messages that are in the view, calls get results, digests are those of
`plain_body`. It may stop anywhere, as a killed run does, and may have been taken up again.
"""

import hashlib
import json
from random import Random
from typing import Any

from hypothesis import strategies as st

from tinyagent.core.codec import encode
from tinyagent.core.errors import END_STATES
from tinyagent.core.events import (
    SUMMARY_ID,
    Attempt,
    ChildEnded,
    Compacted,
    CompactionFailed,
    CompactionStarted,
    Decision,
    Event,
    Learned,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Notice,
    Purpose,
    ReasoningStripped,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
    Stage,
    Unknown,
)
from tinyagent.core.pricing import Prices
from tinyagent.core.state import Run, RunState
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
from tinyagent.core.view import Entry, blocks, view_of

TEXTS = (
    "",
    "ok",
    "1 failed in 0.12s\nE   assert 3 == 4",
    'quotes " and \\ and \t tabs',
    "日本語のテキスト 🙂 é",
    "\x1b[31mred\x1b[0m \x00 \x7f",
    "[bold]not markup[/bold] {0} %s",
    "line\u2028separator\r\nand more",
    "word " * 300,
)
STARTED = 1_764_500_000.0


def runs(*, max_steps: int = 6) -> st.SearchStrategy[list[Record]]:
    """Runs of up to `max_steps` steps, cut anywhere after the start."""
    return st.builds(_cut, st.builds(build_run, st.randoms(), steps=st.integers(0, max_steps)), st.integers(0, 3))


def plain_body(request: Request, options: Json) -> bytes:
    """A request's body by the simplest encoding there is; stands for a wire."""
    return json.dumps([encode(request), options], ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")


def build_run(random: Random, *, steps: int) -> list[Record]:
    """The records of one run; the same for the same state of `random`."""
    return Builder(random).build(steps)


def _cut(records: list[Record], missing: int) -> list[Record]:
    return records[: max(1, len(records) - missing)]


class Builder:
    """Makes up one run, event by event, with its live state at hand."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.records: list[Record] = []
        self.run = Run(sink=self.records.append, clock=self._clock)
        self._now = STARTED
        self._calls = 0

    @property
    def state(self) -> RunState:
        return self.run.state

    def build(self, steps: int) -> list[Record]:
        self.run.emit(self._started())
        self._add(UserMessage(self._text() or "Fix it.", "task"))
        for _ in range(steps):
            self._before_step()
            self._step()
        if self._rarely():
            self._end()
        return self.records

    def _clock(self) -> float:
        self._now = round(self._now + self.random.randrange(1, 5000) / 1000, 3)
        return self._now

    def _rarely(self) -> bool:
        return self.random.random() < 0.2

    def _text(self) -> str:
        return self.random.choice(TEXTS)

    def _started(self) -> RunStarted:
        tools = (ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {}}}),)
        return RunStarted(
            "20261130-054112-7f3a",
            "0.1.0",
            "/home/user/project",
            self._setup(),
            "You are a coding agent. " + self._text(),
            tools if self.random.random() < 0.8 else (),
            {"cost_limit": 3.0, "context": {"stages": ["elide", "summarize"]}},
            ("/home/user/project/AGENTS.md",) if self._rarely() else (),
            "20261130-054000-aaaa" if self._rarely() else "",
        )

    def _setup(self) -> ModelSetup:
        window = self.random.choice((Window(None), Window(8192, "server"), Window(200_000, "configured")))
        prices = self.random.choice((None, Prices(3.0, 15.0), Prices(3.0, 15.0, 0.3, 3.75)))
        return ModelSetup("openai/gpt-x", self._options(), window, self.random.choice((None, 4096)), prices)

    def _options(self) -> Json:
        return {"api": "openai", "model": "gpt-x", "temperature": self.random.choice((None, 0.0, 0.7)), "echo": ["a"]}

    def _add(self, message: Message) -> None:
        step = 0 if isinstance(message, UserMessage) else self.state.spend.steps
        self.run.emit(MessageAdded(message, message_tokens(message), step))

    def _before_step(self) -> None:
        if self._rarely():
            self.run.emit(self._aside())
        if self._rarely():
            self._add(UserMessage(self._text() or "And this.", self.random.choice(("user", "notice"))))
        if self._rarely():
            self._end()
            self.run.emit(RunResumed("0.1.1", self._setup(), {"cost_limit": 5.0}))
        if self.random.random() < 0.35:
            self._pass()

    def _aside(self) -> Event:
        return self.random.choice(
            (
                Notice(self._text(), self._text(), self.random.choice(("", "small-window"))),
                Learned(self.random.choice((None, 4096)), self.random.choice((None, 1024))),
                ReasoningStripped("the signatures are bound to another conversation"),
                Decision("c1", "bash", self.random.random() < 0.5, "rule 3"),
                ChildEnded("c1", "child-1", "submitted", Usage(500, 20), self.random.choice((None, 0.25)), 3),
                Unknown("checkpoint_made", {"path": "a", "n": 1}),
            )
        )

    def _called(self, purpose: Purpose, *, error: str = "", own: Request | None = None) -> None:
        state = self.state
        limit = self.random.choice((None, 1024, 4096))
        changed = own is not None or self._rarely()
        options = self._options() if changed else state.setup.options
        request = Request(state.system, state.view.messages, state.tools, limit) if own is None else own
        usage = None if error and self.random.random() < 0.5 else Usage(state.estimate, 20, 5, 0, 3)
        self.run.emit(
            ModelCalled(
                purpose,
                state.step,
                hashlib.sha256(plain_body(request, options)).hexdigest(),
                state.estimate,
                request.max_output_tokens,
                usage,
                self._rarely(),
                None if usage is None or error or purpose == "summary" else usage.input_tokens + 20,
                self.random.choice((None, 0.0, 0.0125)),
                1.25,
                "gpt-x-2026-10-01",
                "req_1",
                2 if error else 1,
                error,
                options if changed else None,
                None if own is None else _own(own),
            )
        )

    def _step(self) -> None:
        if self._rarely():
            self._called("step", error="overloaded: try again later")
        self._called("step")
        self._add(self._reply())
        turn = self.state.turn
        for call in turn[0].tool_calls if turn else ():
            self._add(self._result(call))

    def _reply(self) -> AssistantMessage:
        calls = tuple(self._call() for _ in range(self.random.choice((0, 1, 1, 1, 2, 3))))
        text = self._text()
        wire: object = self.random.choice((None, {"role": "assistant", "content": text}, [{"type": "text"}]))
        reasoning = self._text() if self._rarely() else ""
        wire_format = "openai:gpt-x" if wire is not None else ""
        return AssistantMessage(text, calls, "tool_calls" if calls else "end", wire, wire_format, reasoning)

    def _call(self) -> ToolCall:
        self._calls += 1
        call_id = f"c{self._calls}"
        if self._rarely():
            return ToolCall(call_id, "bash", None, "the arguments are not valid JSON", '{"command": "ls')
        return ToolCall(call_id, "bash", {"command": self._text(), "n": 1, "deep": {"a": [None, True, 0.5]}})

    def _result(self, call: ToolCall) -> ToolMessage:
        facts = self.random.choice(
            (
                Facts(),
                Facts(exit_code=0, command="ls", output_chars=2),
                Facts(exit_code=None, command="sleep 99"),
                Facts(path="a.py", first_line=1, last_line=9, digest="00ff", changed=True),
                Facts(plan=[{"text": "look", "status": "done"}]),
            )
        )
        is_error = call.arguments is None or self._rarely()
        return ToolMessage(
            call.id, call.name, self._text(), is_error, f"o{self._calls}" if self._rarely() else "", facts
        )

    def _pass(self) -> None:
        self.run.emit(CompactionStarted("budget", self.state.estimate))
        entries = self.state.view.entries
        middle = _middle(entries)
        choice = self.random.choice(("elide", "summarize", "prune", "fail", "killed"))
        if choice == "elide":
            self._elide(entries)
        elif choice == "fail" or (choice in ("summarize", "prune") and not middle):
            self.run.emit(CompactionFailed("budget", "nothing to remove", (Attempt("elide", "frees too little"),)))
        elif choice == "summarize":
            self._summarize(entries, middle)
        elif choice == "prune":
            self._compacted(
                ("prune",), _without(entries, middle), pruned=_ids(middle), summary="Digest. " + self._text()
            )

    def _elide(self, entries: tuple[Entry, ...]) -> None:
        results = [e for e in entries if isinstance(e.message, ToolMessage) and not e.elided]
        chosen = [e.id for e in results if self.random.random() < 0.6]
        replaced = {i: f"[output elided: {n} chars]" for n, i in enumerate(chosen)}
        self._compacted(("elide",), [e.id for e in entries], replaced=replaced, elided=tuple(chosen))

    def _summarize(self, entries: tuple[Entry, ...], middle: list[Entry]) -> None:
        own = Request("Write notes.", (UserMessage(self._text()),), self.random.choice(((), self.state.tools)), 2000)
        if self._rarely():
            self._called("summary", error="network: reset", own=own)
        self._called("summary", own=own)
        summary = "Summary so far. " + self._text()
        self._compacted(
            ("elide", "summarize"),
            _without(entries, middle),
            summarized=_ids(middle),
            summary=summary,
            narrative="So far.",
        )

    def _compacted(self, stages: tuple[Stage, ...], view: list[int], **more: Any) -> None:
        attempts = (Attempt("elide", "frees too little", 900), Attempt("summarize", "", 400))
        before = self.state.estimate
        self.run.emit(
            Compacted(
                "budget",
                self.state.step,
                before,
                before // 2,
                tuple(view),
                stages,
                pruned_turns=len(view),
                effective=not self._rarely(),
                strip_reasoning=self._rarely(),
                attempts=() if self._rarely() else attempts,
                **more,
            )
        )

    def _end(self) -> None:
        self.run.emit(RunEnded(self.random.choice(list(END_STATES)), self._text(), self._text()))


def _own(request: Request) -> Json:
    """How a summary's request stands in its record."""
    return {"system": request.system, "messages": encode(request.messages), "tools": bool(request.tools)}


def _middle(entries: tuple[Entry, ...]) -> list[Entry]:
    """Whole blocks between the task and the newest block."""
    found = blocks(view_of(entries))[1:-1]
    return [entry for block in found for entry in block.entries]


def _ids(entries: list[Entry]) -> tuple[int, ...]:
    return tuple(entry.id for entry in entries if entry.id > 0)


def _without(entries: tuple[Entry, ...], removed: list[Entry]) -> list[int]:
    """Ids of the new view: the task, the summary, the rest."""
    gone = {entry.id for entry in removed}
    rest = [entry.id for entry in entries if entry.id not in gone and entry.id != SUMMARY_ID]
    return [rest[0], SUMMARY_ID, *rest[1:]]
