"""The loop: ask the model, run its calls, until it answers without one. Knows protocols, not implementations."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from tinyagent.compaction.compactor import MIN_OUTPUT_TOKENS, Compactor, output_room, room
from tinyagent.compaction.explain import still_exceeds
from tinyagent.compaction.ladder import NoReply, Summarizer
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.errors import RECOVERY, EndReason, EndRun, ModelError, RecordError, SandboxLost
from tinyagent.core.events import Event, MessageAdded, Notice, RunEnded
from tinyagent.core.limits import USEFUL_OUTPUT_TOKENS, Limits, allow_request
from tinyagent.core.loops import STOP_AT, WARN_AT
from tinyagent.core.state import Run, RunState
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import (
    AssistantMessage,
    Message,
    Request,
    ToolCall,
    ToolMessage,
    ToolRunner,
    UserMessage,
    Verdict,
)
from tinyagent.core.view import open_calls, problems, with_unique_ids
from tinyagent.repairs import Repairs
from tinyagent.sending import PricedModel, Sender

CHARS_PER_TOKEN = 2.5  # dense text: so that a step's outputs stay inside their share of the window
STEP_CHARS_UNKNOWN_WINDOW = 40_000
STEP_CHARS_RANGE = (1_500, 200_000)
TRIES_FOR_A_USABLE_REPLY = 3

EMPTY = "Your last reply was empty. Go on with the task: call a tool, or give the final answer as text."
CUT = "Your last reply was cut off at the output limit. Go on from there, in smaller pieces."
REPEATED = (
    "You have made the same calls {n} times in a row with the same results. "
    "Do something else, or give the final answer if the task is done or cannot be done."
)
NO_TASK = "the run was stopped before its task was on record: give the task again"
NOT_RUN = "The run was stopped before this call had a result. It may have run in part."


class Observer(Protocol):
    """Who watches a run: the console, a JSON stream, or nobody."""

    def event(self, event: Event, state: RunState) -> None:
        """Something happened; `state` is what is true after it."""
        ...

    def text(self, delta: str) -> None:
        """Text of the reply in progress."""
        ...

    def waiting(self, message: str) -> None:
        """A request is repeated after a wait; text of the failed round is void."""
        ...

    def ask(self, call: ToolCall, question: str) -> Verdict | None:
        """Let the user decide about a call; None if nobody can be asked."""
        ...


class Terminated(BaseException):
    """Raised in the main thread by the handler of SIGTERM and SIGHUP."""


class Agent:
    """Works on one run. Built by build.py, used once or, after a resume, again."""

    def __init__(
        self,
        run: Run,
        model: PricedModel,
        tools: ToolRunner,
        sender: Sender,
        *,
        limits: Limits,
        policy: ContextPolicy,
        summarizer: PricedModel,
        summarizer_window: Callable[[], int | None],
        summary_prompt: str,
        reserved_output: int | None = None,
        strip_reasoning: bool = False,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._run = run
        self._model = model
        self._tools = tools
        self._sender = sender
        self._limits = limits
        self._policy = policy
        self._summarizer = summarizer
        self._redact = redact
        self._served = 0  # tokens of the largest prompt that this process had answered, at least
        self._answered = 0  # and as it was estimated
        self._call_ids = {
            call.id for m in run.state.messages if isinstance(m, AssistantMessage) for call in m.tool_calls
        }
        self._compactor = Compactor(
            run,
            policy,
            Summarizer(self._ask_for_summary, summarizer_window, summary_prompt),
            reserved_output=reserved_output,
            strip_reasoning=strip_reasoning,
        )

    def execute(self, task: str | None) -> RunEnded:
        """Work until the run ends, for whatever reason, and say how. `task` None goes on where the run stopped."""
        try:
            end = RunEnded("submitted", submission=self._work(task))
        except EndRun as error:
            end = RunEnded(error.reason, str(error))
        except ModelError as error:
            end = RunEnded(_end_reason(error), str(error))
        except SandboxLost as error:
            end = RunEnded("sandbox_lost", str(error))
        except KeyboardInterrupt:
            end = RunEnded("interrupted", "interrupted by the user")
        except Terminated as error:
            end = RunEnded("terminated", str(error) or "terminated by a signal")
        except Exception as error:  # our own bug: it ends this run, on record, and not the batch around it
            with suppress(RecordError):
                self._run.emit(Notice(f"tinyagent failed: {error!r}", detail=traceback.format_exc()))
            end = RunEnded("crashed", f"{type(error).__name__}: {error}")
        with suppress(RecordError):  # a full disk is what may have ended the run
            self._answer_open_calls()
            self._run.emit(end)
        return end

    def _work(self, task: str | None) -> str:
        self._take_up(task)
        while True:
            last = self._state.messages[-1]
            if isinstance(last, AssistantMessage):
                if not last.tool_calls and last.stop != "length":
                    return last.text
                self._react(last)
            self._compactor.before_request()
            self._receive(self._ask())

    def _take_up(self, task: str | None) -> None:
        if not self._state.messages:
            if task is None:
                raise EndRun("config", NO_TASK)
            self._add(UserMessage(self._redact(task), "task"))
            self._compactor.check_start()
            return
        self._answer_open_calls()
        if task is not None:
            self._add(UserMessage(self._redact(task), "user"))

    def _react(self, reply: AssistantMessage) -> None:
        """Run the calls of a reply, or tell the model that its answer was cut off."""
        if reply.tool_calls:
            self._run_calls(reply.tool_calls)
            self._watch_repetition()
            return
        self._count_unusable("empty_response", "the model's answers are cut off at the output limit each time")
        self._add(UserMessage(CUT, "notice"))

    def _receive(self, reply: AssistantMessage) -> None:
        """Put a reply into the log. An empty one is no message: the model is told so instead."""
        if reply.stop == "refusal":
            raise EndRun("refused", f"the model refused to answer: {reply.text.strip()[:500] or 'no reason given'}")
        if not reply.text.strip() and not reply.tool_calls:
            self._count_unusable("empty_response", "the model answers with nothing", unlogged=1)
            self._add(UserMessage(EMPTY, "notice"))
            return
        reply = with_unique_ids(reply, self._call_ids)
        self._call_ids.update(call.id for call in reply.tool_calls)
        self._add(reply)
        if reply.tool_calls and all(call.arguments is None for call in reply.tool_calls):
            self._count_unusable("bad_tool_calls", f"the model's calls cannot be read: {reply.tool_calls[0].problem}")

    def _count_unusable(self, reason: EndReason, words: str, *, unlogged: int = 0) -> None:
        if _unusable_in_a_row(self._state.messages) + unlogged >= TRIES_FOR_A_USABLE_REPLY:
            raise EndRun(reason, f"{words} ({TRIES_FOR_A_USABLE_REPLY} times in a row)")

    def _run_calls(self, calls: Sequence[ToolCall]) -> None:
        remaining_s = self._sender.remaining_s()  # before `finished` speaks of this step
        try:
            self._tools.run(calls, step_chars=self._step_chars(), remaining_s=remaining_s)
        finally:  # also of a step that was interrupted: what has run is on record
            for result in self._tools.finished:
                self._add(result)

    def _step_chars(self) -> int:
        window = self._state.window.tokens
        if window is None:
            return STEP_CHARS_UNKNOWN_WINDOW
        low, high = STEP_CHARS_RANGE
        return max(low, min(high, int(self._policy.step_output_ratio * window * CHARS_PER_TOKEN)))

    def _watch_repetition(self) -> None:
        repeated = self._state.repeated
        if repeated >= STOP_AT:
            raise EndRun("loop_detected", f"the same calls with the same results {repeated} times in a row")
        if repeated == WARN_AT:
            self._add(UserMessage(REPEATED.format(n=repeated), "notice"))

    def _ask(self) -> AssistantMessage:
        """The next reply. What a provider refuses is repaired once per cause, with different bytes, or raised."""
        repairs = Repairs(
            self._run, self._model.model, self._compactor, self._policy, served=self._served, answered=self._answered
        )
        cap: int | None = None
        while True:
            request = self._next_request(cap)
            least, estimate = self._state.meter.least(self._state.raw_total), self._state.estimate
            try:
                reply = self._sender.step(self._model, request).message
                self._served, self._answered = max(self._served, least), max(self._answered, estimate)
                return reply
            except ModelError as error:
                cap = repairs.apply(error, request)

    def _next_request(self, cap: int | None) -> Request:
        state = self._state
        if found := problems(state.view):
            raise AssertionError(f"the messages are not fit to be sent: {'; '.join(found)}")
        allowed = allow_request(
            self._limits,
            state.spend,
            self._model.prices,
            input_tokens=state.meter.upper_bound(state.raw_total),
            max_output_tokens=self._output_room(cap),
        )
        if allowed.stop:
            raise EndRun(allowed.stop, allowed.why)
        return Request(state.system, state.view.messages, state.tools, allowed.max_output_tokens)

    def _output_room(self, cap: int | None) -> int:
        """The output cap, so that prompt and output never exceed the window together."""
        state = self._state
        wanted = min(n for n in (state.setup.max_output_tokens or 8192, state.output_cap, cap) if n is not None)
        window = state.window.tokens
        if window is None:
            return wanted
        least = MIN_OUTPUT_TOKENS
        if not self._policy.enabled:
            least = USEFUL_OUTPUT_TOKENS  # histories are exact in this mode: the provider has the last word
        elif room(self._policy, state) < least:
            raise EndRun("context_truncated", still_exceeds(state, window))
        return min(wanted, max(least, output_room(self._policy, state, window)))

    def _ask_for_summary(self, request: Request, seconds: float) -> AssistantMessage | NoReply:
        raw = sum(message_tokens(m) for m in request.messages) + message_tokens(UserMessage(request.system))
        allowed = allow_request(
            self._limits,
            self._state.spend,
            self._summarizer.prices,
            input_tokens=2 * raw,
            max_output_tokens=request.max_output_tokens or 0,
            is_step=False,
        )
        if allowed.stop:
            return NoReply(allowed.why)
        request = Request(request.system, request.messages, request.tools, allowed.max_output_tokens)
        try:
            return self._sender.summary(self._summarizer, request, seconds).message
        except ModelError as error:
            return NoReply(f"{error.kind}: {error}", try_smaller=RECOVERY[error.kind] in ("compact", "lower_output"))

    def _answer_open_calls(self) -> None:
        for call in open_calls(self._state.view):
            self._add(ToolMessage(call.id, call.name, NOT_RUN, is_error=True))

    def _add(self, message: Message) -> None:
        self._run.emit(MessageAdded(message, message_tokens(message), self._state.spend.steps))

    @property
    def _state(self) -> RunState:
        return self._run.state


def _end_reason(error: ModelError) -> EndReason:
    match error.kind:
        case "auth":
            return "auth"
        case kind if RECOVERY[kind] == "retry":
            return "transient_provider_error"
        case _:
            return "provider_error"


def _unusable_in_a_row(messages: Sequence[Message]) -> int:
    """How many of the newest replies could not be used: empty, cut off, or with calls that cannot be read."""
    count = 0
    for message in reversed(messages):
        match message:
            case UserMessage(kind="notice"):
                count += message.text == EMPTY
            case AssistantMessage(tool_calls=()) if message.stop == "length":
                count += 1
            case AssistantMessage() if message.tool_calls and all(c.arguments is None for c in message.tool_calls):
                count += 1
            case ToolMessage(is_error=True):
                continue
            case _:
                break
    return count
