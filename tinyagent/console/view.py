"""The observer for people: what happens, as it happens."""

import time
from collections.abc import Callable
from typing import TextIO

from tinyagent.compaction.explain import failed_pass_line, pass_line
from tinyagent.console.lines import (
    call_line,
    cost_words,
    result_line,
    status_line,
    window_words,
)
from tinyagent.console.paper import Paper, Style
from tinyagent.console.question import ask_user
from tinyagent.core.errors import END_STATES
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    CompactionFailed,
    Decision,
    Event,
    Learned,
    MessageAdded,
    ModelCalled,
    Notice,
    ReasoningStripped,
    RunEnded,
    RunResumed,
    RunStarted,
)
from tinyagent.core.limits import Spend
from tinyagent.core.state import RunState
from tinyagent.core.types import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, Verdict


class Console:
    """Shows a run on a paper. `answers` is where a person's answers come from; None: nobody can be asked.

    Quiet leaves warnings, waits and questions; verbose adds reasoning, summaries, decisions and tracebacks.
    """

    def __init__(
        self,
        paper: Paper,
        *,
        answers: TextIO | None = None,
        quiet: bool = False,
        verbose: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paper = paper
        self._answers = answers
        self._quiet = quiet
        self._verbose = verbose
        self._clock = clock
        self._always: set[str] = set()
        self._streamed: str = ""  # text of the reply in progress that is on the paper
        self._held: str = ""  # blanks at its end, which are shown only if more follows
        self._open_calls = 0
        self._calls = 0
        self._asked_at = 0.0

    @property
    def shows_text(self) -> bool:
        """Whether a person has seen the model's text here."""
        return self._paper.is_live and not self._quiet

    def event(self, event: Event, state: RunState) -> None:
        match event:
            case MessageAdded():
                self._message(event.message, state)
            case ModelCalled():
                self._model_called(event)
            case Compacted():
                self._say(pass_line(event), "cyan")
            case Notice():
                self.warn(event.text)
                self._detail(event.detail)
            case RunStarted() | RunResumed():
                self._start(event, state)
            case _:
                self._aside(event, state)

    def text(self, delta: str) -> None:
        if not self.shows_text:
            return
        if not self._streamed:
            self._paper.fresh()
        delta = self._held + delta if self._streamed else delta.lstrip()
        shown = delta.rstrip()
        self._held = delta[len(shown) :]
        self._streamed += shown
        self._paper.piece(shown)

    def waiting(self, message: str) -> None:
        self._void()
        self._paper.line(message, "yellow")

    def ask(self, call: ToolCall, question: str) -> Verdict | None:
        if self._answers is None:
            return None
        self._paper.fresh()
        started = self._clock()
        try:
            return ask_user(call, question, paper=self._paper, answers=self._answers, always=self._always)
        finally:
            self._asked_at += self._clock() - started  # the wait for a person is not the tool's time

    def note(self, text: str) -> None:
        self._say(text, "dim")

    def warn(self, text: str) -> None:
        self._paper.line(f"warning: {text}", "yellow")

    def error(self, text: str) -> None:
        self._paper.line(f"error: {text}", "red")

    def last_line(self, text: str, *, good: bool) -> None:
        """How the run ended; shown also when quiet."""
        self._paper.line(text, "green" if good else "red")

    def _message(self, message: Message, state: RunState) -> None:
        match message:
            case AssistantMessage():
                self._reply(message)
            case ToolMessage():
                self._result(message, state)
            case UserMessage(kind="notice"):
                self._say(f"told the model: {message.text}", "dim")
            case UserMessage():
                pass

    def _reply(self, message: AssistantMessage) -> None:
        self._detail(message.reasoning)
        if message.text.strip() and not self._streamed:
            self._say(message.text.strip())
        self._streamed = self._held = ""
        if not self._quiet:
            self._paper.fresh()
        self._calls = self._open_calls = len(message.tool_calls)
        for number, call in enumerate(message.tool_calls, 1):
            self._say_clipped(f"› {self._number(number)}{call_line(call)}", "bold")
        self._asked_at = self._clock()

    def _result(self, message: ToolMessage, state: RunState) -> None:
        number = self._calls - self._open_calls + 1
        seconds = self._clock() - self._asked_at if self._calls == 1 else None
        bad = message.is_error or message.facts.get("exit_code", 0) != 0
        self._say_clipped(f"  {self._number(number)}{result_line(message, seconds=seconds)}", "red" if bad else "dim")
        self._open_calls -= 1
        if self._open_calls == 0 and self._calls:
            self._say_clipped(status_line(state), "dim")

    def _number(self, number: int) -> str:
        return f"[{number}] " if self._calls > 1 else ""

    def _model_called(self, event: ModelCalled) -> None:
        if event.error:
            self._void()
            self._say(f"the request failed: {event.error}", "yellow")
        elif event.purpose == "summary" and self._verbose:
            self._say(f"summary: {cost_words(Spend(cost_usd=event.cost_usd))}, {event.duration_s:.1f} s", "dim")

    def _void(self) -> None:
        """Mark what was streamed of a reply that will come again."""
        if self._streamed:
            self._paper.fresh()
            self._paper.line("[cut off: the text above is void]", "yellow")
        self._streamed = self._held = ""

    def _start(self, event: RunStarted | RunResumed, state: RunState) -> None:
        parts = [f"tinyagent {event.version}", state.setup.model, window_words(state.window), state.cwd]
        self._say(" · ".join(parts), "dim")
        if isinstance(event, RunResumed):
            origin = f" from {event.forked_from}" if event.forked_from else ""
            self._say(f"goes on{origin} after {state.spend.steps} steps, {cost_words(state.spend)}", "dim")

    def _aside(self, event: Event, state: RunState) -> None:
        match event:
            case Learned(window_tokens=int(tokens)):
                self._say(f"the provider says that the window has {tokens:,} tokens", "dim")
            case ChildEnded():
                spend = cost_words(Spend(cost_usd=event.cost_usd))
                self._say(f"  sub-agent: {END_STATES[event.reason].words}, {event.requests} requests, {spend}", "dim")
            case ReasoningStripped():
                self._detail(f"reasoning is no longer sent back: {event.why}")
            case CompactionFailed():
                self._say(failed_pass_line(event), "yellow")
            case RunEnded():
                self._void()
            case Decision():
                self._detail(f"{event.tool} {'allowed' if event.allowed else 'not allowed'} by {event.by}")
            case _:
                pass

    def _detail(self, text: str) -> None:
        if self._verbose and text.strip():
            self._say(text.strip(), "dim")

    def _say(self, text: str, style: Style = "plain") -> None:
        if not self._quiet:
            self._paper.line(text, style)

    def _say_clipped(self, text: str, style: Style) -> None:
        if not self._quiet:
            self._paper.clipped(text, style)
