"""A run in memory: a server that counts with a real tokenizer, tools that return what they are told, our agent between.

    world = World([turn("a" * 9000), turn("b"), say("done")], window=16_000)
    end = world.execute("Fix it.")

Every request is checked as the server gets it; what is wrong with one stands in `world.faults`, which `execute` asserts
to be empty.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.builders import BASH, Clock
from tinyagent.agent import Agent
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.clip import clip
from tinyagent.core.errors import ModelError
from tinyagent.core.events import (
    Compacted,
    CompactionFailed,
    Event,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
    record_from_json,
    record_to_json,
)
from tinyagent.core.limits import Limits
from tinyagent.core.pricing import FREE, Prices
from tinyagent.core.state import Run, RunState, fold
from tinyagent.core.types import (
    AssistantMessage,
    Facts,
    Json,
    Message,
    Request,
    Response,
    ToolCall,
    ToolMessage,
    ToolRunner,
    ToolSpec,
    Usage,
    UserMessage,
    Window,
)
from tinyagent.models.scripted import HEADINGS
from tinyagent.sending import PricedModel, Sender
from tinyagent.tools.shares import shares

SYSTEM = "You are a coding agent. Work step by step and check what you did."
SUMMARY_PROMPT = "Write handover notes under the usual headings."
TOKENIZERS = ("o200k_base", "qwen2", "llama3")
OVERHEAD = 4  # tokens that a chat template adds to a message


@dataclass(frozen=True)
class Call:
    """A tool call of a scripted turn, and what comes of it."""

    output: str = "ok"
    name: str = "bash"
    arguments: Json | None = None
    facts: Facts = field(default_factory=Facts)
    is_error: bool = False


@dataclass(frozen=True)
class Turn:
    """A scripted reply with calls. `ids` are the server's; it makes up unique ones where none are given."""

    calls: tuple[Call, ...]
    text: str = ""
    ids: tuple[str, ...] = ()
    wire: Any = None
    reasoning: str = ""


Reply = AssistantMessage | Turn | ModelError
Item = Reply | type[BaseException] | Callable[[Request], Reply]
Report = Callable[[int, int], Usage | None]
Refuse = Callable[[int, int, int], ModelError]


def turn(*outputs: str | Call, text: str = "") -> Turn:
    return Turn(tuple(Call(o) if isinstance(o, str) else o for o in outputs), text)


def say(text: str = "Done.", **more: Any) -> AssistantMessage:
    return AssistantMessage(text, **more)


def notes(text: str = "Looked at the code.", *, headings: Sequence[str] = HEADINGS) -> AssistantMessage:
    """A good summary."""
    return AssistantMessage("\n".join(f"## {heading}\n{text}" for heading in headings))


@functools.cache
def counter(name: str) -> Callable[[str], int]:
    """The tokens of a text by a real tokenizer."""
    import splintr

    encode = splintr.Tokenizer.from_pretrained(name).encode
    return functools.lru_cache(maxsize=50_000)(lambda text: len(encode(text)))


def text_of(message: Message) -> str:
    """What a provider counts of a message."""
    if not isinstance(message, AssistantMessage):
        return message.text
    calls = [{"name": c.name, "arguments": c.raw if c.arguments is None else c.arguments} for c in message.tool_calls]
    kept = message.reasoning if message.wire is not None else ""
    return message.text + kept + "".join(json.dumps(call, ensure_ascii=False) for call in calls)


def true_tokens(request: Request, count: Callable[[str], int]) -> int:
    """The size of a request as its server counts it."""
    tools = sum(count(json.dumps([t.name, t.description, t.parameters])) + OVERHEAD for t in request.tools)
    return count(request.system) + tools + sum(count(text_of(m)) + OVERHEAD for m in request.messages)


def truthful(prompt: int, output: int) -> Usage | None:
    return Usage(prompt, output)


def no_usage(prompt: int, output: int) -> Usage | None:
    return None


def zero_usage(prompt: int, output: int) -> Usage | None:
    return Usage(0, 0)


def with_numbers(prompt: int, output: int, window: int) -> ModelError:
    if prompt > window:
        words = f"prompt is too long: {prompt} tokens > {window} maximum"
        return ModelError(words, kind="overflow", window=window, prompt_tokens=prompt)
    words = f"{prompt} + {output} > {window}"
    return ModelError(words, kind="overflow_total", window=window, prompt_tokens=prompt)


def without_numbers(prompt: int, output: int, window: int) -> ModelError:
    return ModelError("input is too long", kind="overflow" if prompt > window else "overflow_total")


@dataclass(frozen=True)
class Sent:
    """A request as the server got it. `log`: how many messages the run had then."""

    request: Request
    prompt: int
    is_summary: bool
    log: int
    timeout_s: float | None = None

    @property
    def texts(self) -> str:
        return "\n".join(text_of(message) for message in self.request.messages)


class ToyModel:
    """A server and its model.

    `window` is what it really serves; None: anything. `report` makes the usage from true prompt and output, `refuse`
    the error for a request that is too large. `cuts`: a prompt over the window is cut to half of it in silence.
    `summaries` are the replies to summary requests; without them each gets good notes. An error among the replies takes
    the place of one; what is refused for its size leaves the reply for the next request. `seconds` is how long each
    summary takes, `calls` how many calls it has made before. `obeys`: it keeps to the output cap.
    """

    def __init__(
        self,
        replies: Iterable[Item] = (),
        *,
        summaries: Iterable[Item] | None = None,
        window: int | None = None,
        tokenizer: str = "o200k_base",
        report: Report = truthful,
        refuse: Refuse = with_numbers,
        cuts: bool = False,
        seconds: float = 0.0,
        calls: int = 0,
        obeys: bool = True,
        name: str = "toy/model",
    ) -> None:
        self._replies = iter(replies)
        self._summaries = iter(summaries) if summaries is not None else None
        self.window = window
        self.count = counter(tokenizer)
        self._report = report
        self.report_summary = report
        self._refuse = refuse
        self._cuts = cuts
        self._seconds = seconds
        self._name = name
        self._ids = calls
        self._obeys = obeys
        self.sent: list[Sent] = []
        self.outputs: dict[str, Call] = {}
        self.clock = Clock()
        self.log: Callable[[], Sequence[Message]] = tuple
        self.on_complete: Callable[[], None] = lambda: None
        self.faults: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    def options(self) -> Json:
        return {"model": self._name}

    def adjust(self, parameter: str) -> bool:
        return False

    def complete(
        self, request: Request, *, on_text: Callable[[str], None] | None = None, timeout_s: float | None = None
    ) -> Response:
        self.on_complete()
        is_summary = is_for_summary(request)
        prompt = true_tokens(request, self.count)
        sent = Sent(request, prompt, is_summary, len(self.log()), timeout_s)
        self.sent.append(sent)
        self.faults += [f"request {len(self.sent)}: {fault}" for fault in illegal(sent, self.log())]
        cut = self._cut_or_refuse(prompt, request.max_output_tokens or 0)
        if is_summary and self._seconds:
            self._wait(timeout_s)
        message = self._within(request.max_output_tokens, self._message(request, is_summary))
        output = self.count(text_of(message)) + OVERHEAD
        usage = (self.report_summary if is_summary else self._report)(cut, output)
        return Response(message, usage, duration_s=self._seconds, digest=f"d{len(self.sent)}")

    def _cut_or_refuse(self, prompt: int, output: int) -> int:
        if self.window is None or prompt + output * self._obeys <= self.window:
            return prompt
        if self._cuts:
            return self.window // 2 + 2 if prompt > self.window else prompt
        raise self._refuse(prompt, output, self.window)

    def _within(self, cap: int | None, message: AssistantMessage) -> AssistantMessage:
        """The message as far as the output cap lets the model write it: it gives up a long call for a short one."""
        if cap is None or not self._obeys or self.count(text_of(message)) + OVERHEAD <= cap:
            return message
        calls = tuple(replace(call, arguments={"command": "cat short.txt"}) for call in message.tool_calls[:2])
        for call in calls:
            self.outputs.pop(call.id, None)
        return replace(message, text=message.text[: 2 * cap] if not calls else "", tool_calls=calls)

    def _wait(self, timeout_s: float | None) -> None:
        if timeout_s is not None and self._seconds > timeout_s:
            self.clock.sleep(timeout_s)
            raise ModelError(f"no answer within {timeout_s:g} s", kind="network", billed=True)
        self.clock.sleep(self._seconds)

    def _message(self, request: Request, is_summary: bool) -> AssistantMessage:
        item = self._next(is_summary)
        if isinstance(item, type):
            raise item()
        if callable(item):
            item = item(request)
        if isinstance(item, ModelError):
            raise item
        return self._called(item) if isinstance(item, Turn) else item

    def _next(self, is_summary: bool) -> Item:
        if is_summary and self._summaries is None:
            return notes()
        source = self._summaries if is_summary and self._summaries is not None else self._replies
        return next(source, say("The script is over."))

    def _called(self, item: Turn) -> AssistantMessage:
        calls: list[ToolCall] = []
        for place, call in enumerate(item.calls):
            self._ids += 1
            call_id = item.ids[place] if item.ids else f"c{self._ids}"
            arguments = {"command": f"cat {self._ids}.txt"} if call.arguments is None else call.arguments
            calls.append(ToolCall(call_id, call.name, arguments))
            self.outputs[call_id] = call
        return AssistantMessage(
            item.text, tuple(calls), "tool_calls", item.wire, "toy" * bool(item.wire), item.reasoning
        )


class ToyTools:
    """Returns the outputs of the script, cut to size as dispatch does it; the whole text is in `stored`."""

    def __init__(self, outputs: Mapping[str, Call], specs: tuple[ToolSpec, ...], *, max_chars: int) -> None:
        self._outputs = outputs
        self._specs = specs
        self._max_chars = max_chars
        self.stored: dict[str, str] = {}
        self.finished: Sequence[ToolMessage] = ()
        self.before_call: Callable[[ToolCall], None] = lambda call: None  # may raise, or take its time

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    def run(self, calls: Sequence[ToolCall], *, step_chars: int, remaining_s: float | None) -> Sequence[ToolMessage]:
        most = min(self._max_chars, step_chars)
        found: list[Call] = []
        try:
            for call in calls:
                self.before_call(call)
                found.append(self._output(call))
        finally:
            limits = shares([min(len(call.output), most) for call in found], step_chars)
            self.finished = [self._result(*one) for one in zip(calls, found, limits, strict=False)]
        return self.finished

    def _output(self, call: ToolCall) -> Call:
        base = call.id.rpartition("_")[0]  # a reused id was made unique
        return self._outputs.get(call.id) or self._outputs.get(base) or Call("There is no such output.", is_error=True)

    def _result(self, call: ToolCall, found: Call, limit: int) -> ToolMessage:
        text, output_id = found.output, ""
        if len(text) > limit:
            output_id = f"o{len(self.stored) + 1}"
            self.stored[output_id] = text
            text = clip(text, limit, again=f'read_output("{output_id}") has all')
        facts: Facts = {"output_chars": len(found.output), **found.facts}
        return ToolMessage(call.id, call.name, text, found.is_error, output_id, facts)


class World:
    """One run from its start, or with `records` taken up again.

    `window` is what the run believes; the model of a plain script serves exactly that. A `model` of your own serves
    what it is told to. `runner` puts other tools in place of those that play the script's outputs.
    """

    def __init__(
        self,
        replies: Iterable[Item] = (),
        *,
        model: ToyModel | None = None,
        window: int | None = 16_000,
        summarizer: ToyModel | None = None,
        policy: ContextPolicy | None = None,
        limits: Limits | None = None,
        prices: Prices = FREE,
        system: str = SYSTEM,
        tools: tuple[ToolSpec, ...] = (BASH,),
        max_chars: int = 10_000,
        max_output_tokens: int = 1_000,
        reserved_output: int | None = None,
        strip_reasoning: bool = False,
        redact: Callable[[str], str] = str,
        runner: Callable[["World"], ToolRunner] | None = None,
        records: Sequence[Record] = (),
        sink: Callable[[Record], None] | None = None,
    ) -> None:
        self.model = model or ToyModel(replies, window=window)
        self.summarizer = summarizer or self.model
        self.records: list[Record] = list(records)
        self._sink = sink
        self.run = Run(sink=self._write, clock=lambda: 0.0, state=fold([r.event for r in records]))
        setup = ModelSetup(
            self.model.name,
            self.model.options(),
            Window(window, "configured" if window else "unknown"),
            max_output_tokens,
        )
        if records:
            self.run.emit(RunResumed("0", setup))
        else:
            self.run.emit(RunStarted("run", "0", "/w", setup, system, tools))
        for model_ in (self.model, self.summarizer):
            model_.log = lambda: self.state.messages
        self.tools = ToyTools(self.model.outputs, self.state.tools, max_chars=max_chars)
        limits = limits or Limits()
        sender = Sender(self.run, limits, on_text=lambda text: None, clock=self.model.clock)
        self.agent = Agent(
            self.run,
            PricedModel(self.model, prices),
            runner(self) if runner else self.tools,
            sender,
            limits=limits,
            policy=policy or ContextPolicy(),
            summarizer=PricedModel(self.summarizer, prices),
            summarizer_window=lambda: self.summarizer.window,
            summary_prompt=SUMMARY_PROMPT,
            reserved_output=reserved_output,
            strip_reasoning=strip_reasoning,
            redact=redact,
        )

    def execute(self, task: str | None = "Fix the failing test.") -> RunEnded:
        """Work until the run ends. Asserts that each request was legal and that we did not crash."""
        end = self.agent.execute(task)
        assert self.faults == []
        assert end.reason != "crashed", self.crash()
        return end

    def crash(self) -> str:
        """The traceback of our own failure."""
        return "\n".join(getattr(event, "detail", "") for event in self.events)

    def _write(self, record: Record) -> None:
        self.records.append(record)
        if self._sink:
            self._sink(record)

    @property
    def state(self) -> RunState:
        return self.run.state

    @property
    def faults(self) -> list[str]:
        return self.model.faults + (self.summarizer.faults if self.summarizer is not self.model else [])

    @property
    def events(self) -> list[Event]:
        return [record.event for record in self.records]

    @property
    def steps(self) -> list[Sent]:
        """The requests of steps."""
        return [sent for sent in self.model.sent if not sent.is_summary]

    @property
    def summaries(self) -> list[Sent]:
        return [sent for sent in self.summarizer.sent if sent.is_summary]

    @property
    def passes(self) -> list[Compacted]:
        return [event for event in self.events if isinstance(event, Compacted)]

    @property
    def failed_passes(self) -> list[CompactionFailed]:
        return [event for event in self.events if isinstance(event, CompactionFailed)]

    @property
    def called(self) -> list[ModelCalled]:
        return [event for event in self.events if isinstance(event, ModelCalled)]

    @property
    def refused(self) -> list[ModelCalled]:
        """Requests of any kind that ended in an error."""
        return [event for event in self.called if event.error]

    def refolded(self) -> RunState:
        """The state by a fold over the journal's lines."""
        lines = [json.dumps(record_to_json(record)) for record in self.records]
        return fold([record_from_json(json.loads(line)).event for line in lines])


def _window(tokens: int | None) -> Window:
    return Window(tokens, "unknown" if tokens is None else "configured")


def is_for_summary(request: Request) -> bool:
    last = request.messages[-1]
    return request.system == SUMMARY_PROMPT or (isinstance(last, UserMessage) and last.text == SUMMARY_PROMPT)


def illegal(sent: Sent, log: Sequence[Message]) -> Iterator[str]:
    """What a provider, or our own promises, would not allow in a request; `log` is the run's messages so far."""
    messages = sent.request.messages
    if not messages or not isinstance(messages[0], UserMessage):
        yield "the first message is not the user's"
    if messages and isinstance(messages[-1], AssistantMessage):
        yield "the last message is the assistant's"
    if any(isinstance(m, UserMessage) and not m.text.strip() for m in messages):
        yield "a user message is empty"
    yield from _wrong_pairs(messages)
    if sent.is_summary:
        return
    task = next(m for m in log if isinstance(m, UserMessage) and m.kind == "task")
    if task not in messages:
        yield "the task is missing"
    yield from _missing_of_newest(messages, log)


def _wrong_pairs(messages: Sequence[Message]) -> Iterator[str]:
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.call_id:
                yield f"the result of {message.call_id} is not where it belongs"
            continue
        if waiting:
            yield f"calls {waiting} have no result"
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            if seen & set(waiting) or len(set(waiting)) < len(waiting):
                yield f"a call id of {waiting} was used before"
            seen.update(waiting)
    if waiting:
        yield f"calls {waiting} have no result"


def _missing_of_newest(messages: Sequence[Message], log: Sequence[Message]) -> Iterator[str]:
    """The newest turn and all that came after it: replies word for word, results at least in part."""
    start = max((i for i, m in enumerate(log) if isinstance(m, AssistantMessage)), default=0)
    newest = log[start:]
    for ours, wanted in zip(messages[-len(newest) :], newest, strict=False):
        if isinstance(wanted, ToolMessage):
            if not isinstance(ours, ToolMessage) or ours.call_id != wanted.call_id:
                yield f"the newest result of {wanted.call_id} is missing"
            elif ours.text.startswith("[output elided"):
                yield f"the newest result of {wanted.call_id} is elided"
        elif isinstance(wanted, AssistantMessage) and isinstance(ours, AssistantMessage):
            if (ours.text, ours.tool_calls) != (wanted.text, wanted.tool_calls):
                yield "the newest reply was edited"
        elif ours != wanted:
            yield f"the newest messages are not at the end: {wanted!r:.80}"


def messages_added(events: Iterable[Event]) -> list[Message]:
    return [event.message for event in events if isinstance(event, MessageAdded)]
