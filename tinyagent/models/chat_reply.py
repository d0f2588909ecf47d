"""Replies of chat-completion servers, whole or streamed, in all their dialects."""

from dataclasses import dataclass, field

from tinyagent.core.errors import ModelError
from tinyagent.core.types import AssistantMessage, Json, StopReason, Usage
from tinyagent.models.chat_reasoning import ReasoningDetails
from tinyagent.models.chat_usage import read_usage
from tinyagent.models.payload import as_cost, as_list, as_object, as_text, load, read_call, with_unique_ids
from tinyagent.models.wire import Reply, WireOptions

LENGTH_REASONS = ("length", "max_tokens", "MAX_TOKENS")
REFUSAL_REASONS = ("refusal", "content_filter", "safety", "SAFETY", "sensitive", "PROHIBITED_CONTENT", "RECITATION")


def decode_completion(data: Json, options: WireOptions) -> Reply:
    """The reply in a whole body. Raises ModelError `malformed`, `overflow` or `overloaded`."""
    choices = as_list(data.get("choices"))
    if not choices:
        raise ModelError("the answer has no choices", kind="malformed", usage=read_usage(data), billed=True)
    choice = as_object(choices[0])
    draft = _Draft()
    draft.add(as_object(choice.get("message")))
    return draft.reply(options, finish=as_text(choice.get("finish_reason")), envelope=data, choice=choice)


class OpenAIChatDecoder:
    """Puts a streamed completion together. Usage may come with any chunk, or in one after the finish reason."""

    def __init__(self, options: WireOptions) -> None:
        self._options = options
        self._draft = _Draft()
        self._envelope: Json = {}
        self._choice: Json = {}
        self._finish = ""
        self._has_choices = False
        self.ended = False  # only [DONE] ends this stream, and the caller sees that

    @property
    def usage(self) -> Usage | None:
        return read_usage(self._envelope, self._choice)

    @property
    def heard(self) -> str:
        draft = self._draft
        arguments = [piece for call in draft.calls for piece in call.arguments]
        return "".join((*draft.text, *draft.reasoning, *draft.refusal, *arguments))

    def feed(self, event: str, data: Json) -> str:
        self._envelope |= {key: value for key, value in data.items() if key != "choices" and value}
        text = ""
        for choice in [as_object(choice) for choice in as_list(data.get("choices"))][:1]:
            self._has_choices = True
            self._choice |= {key: value for key, value in choice.items() if key == "usage" and value}
            self._finish = as_text(choice.get("finish_reason")) or self._finish
            text = self._draft.add(as_object(choice.get("delta")) or as_object(choice.get("message")))
        return text

    def finish(self) -> Reply:
        if not self._has_choices:
            raise ModelError("the stream has no choices", kind="malformed", billed=True)
        if not self._finish:
            raise ModelError("the stream ended without a finish reason", kind="stream_cut", billed=True)
        return self._draft.reply(self._options, finish=self._finish, envelope=self._envelope, choice=self._choice)


@dataclass(slots=True)
class _CallDraft:
    index: object
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    end: str = ""  # the last piece that is not blank
    whole: object = None  # arguments that came as an object
    extra: object = None  # Gemini's thought signature

    def is_complete(self) -> bool:
        if self.whole is not None:
            return True
        if not self.end.rstrip().endswith("}"):
            return False  # parsed only where it may be whole: some servers repeat the name with every piece
        try:
            return isinstance(load("".join(self.arguments)), dict)
        except ValueError:
            return False


@dataclass(slots=True)
class _Draft:
    """A reply while its deltas come in; a whole message is one delta."""

    text: list[str] = field(default_factory=list[str])
    parts: list[object] = field(default_factory=list[object])  # content as a list, with Mistral's thinking chunks
    reasoning: list[str] = field(default_factory=list[str])
    refusal: list[str] = field(default_factory=list[str])
    reasoning_content: list[str] = field(default_factory=list[str])  # not empty where the field was there
    details: ReasoningDetails = field(default_factory=ReasoningDetails)
    calls: list[_CallDraft] = field(default_factory=list[_CallDraft])

    def add(self, delta: Json) -> str:
        """Take in one delta; returns the answer text that it adds."""
        content = delta.get("content")
        parts = as_list(content)
        self.parts += parts
        text = as_text(content) + "".join(as_text(as_object(part).get("text")) for part in parts)
        self.text.append(text)
        self.reasoning.append(as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning")))
        self.refusal.append(as_text(delta.get("refusal")))
        if isinstance(piece := delta.get("reasoning_content"), str):
            self.reasoning_content.append(piece)
        self.details.add(as_list(delta.get("reasoning_details")))
        for call in as_list(delta.get("tool_calls")):
            self._add_call(as_object(call))
        return text

    def _add_call(self, delta: Json) -> None:
        function = as_object(delta.get("function"))
        call = self._target(delta, function)
        call.id = call.id or as_text(delta.get("id"))
        call.name = call.name or as_text(function.get("name"))
        call.extra = delta.get("extra_content") or call.extra
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)
            call.end = arguments if arguments.strip() else call.end
        elif arguments is not None:
            call.whole = arguments

    def _target(self, delta: Json, function: Json) -> _CallDraft:
        """The call that a delta continues, or a new one.

        Servers leave out the index or repeat one for every call, leave out ids or repeat them with every piece.
        """
        index, call_id = delta.get("index"), as_text(delta.get("id"))
        same = [c for c in self.calls if (c.index == index if index is not None else not call_id or c.id == call_id)]
        if same:
            last = same[-1]
            is_other = bool(call_id and last.id and call_id != last.id)
            starts_again = bool(as_text(function.get("name")) and last.name and last.is_complete())
            if not is_other and not starts_again:
                return last
        self.calls.append(_CallDraft(index))
        return self.calls[-1]

    def reply(self, options: WireOptions, *, finish: str, envelope: Json, choice: Json) -> Reply:
        usage = read_usage(envelope, choice)
        if finish == "model_context_window_exceeded":  # Z.AI
            words = "the reply reached the end of the context window"
            raise ModelError(words, kind="overflow", usage=usage, billed=True)
        if finish in ("error", "network_error"):  # OpenRouter, Z.AI
            raise ModelError(f"the provider ended its reply with {finish!r}", kind="overloaded", billed=True)
        cut = finish in LENGTH_REASONS
        calls = with_unique_ids(
            [read_call(c.id, c.name, "".join(c.arguments) if c.whole is None else c.whole, cut=cut) for c in self.calls]
        )
        refusal = "".join(self.refusal)
        message = AssistantMessage(
            text="".join(self.text) or refusal,
            tool_calls=calls,
            stop="refusal" if refusal else _stop(finish, has_calls=bool(calls)),
            wire=(wire := self._own_payload(options)),
            wire_format=options.wire_format if wire else "",
            reasoning="".join(self.reasoning),
        )
        return Reply(
            message,
            usage,
            _reply_tokens(usage, is_kept=bool(wire)),
            model=as_text(envelope.get("model")),
            request_id=as_text(envelope.get("id")),
            cost_usd=as_cost(as_object(envelope.get("usage")).get("cost")),
        )

    def _own_payload(self, options: WireOptions) -> Json | None:
        own: Json = {}
        if self.reasoning_content and "reasoning_content" in options.echo:
            own["reasoning_content"] = "".join(self.reasoning_content)
        if (details := self.details.joined()) and "reasoning_details" in options.echo:
            own["reasoning_details"] = details
        if any(as_object(part).get("type") not in ("text", None) for part in self.parts):
            own["content"] = self.parts
        if any(call.extra for call in self.calls):
            own["extra_content"] = [call.extra for call in self.calls]
        return own or None


def _stop(finish: str, *, has_calls: bool) -> StopReason:
    """Anything unknown is judged by the content: "stop" beside a call is common."""
    if finish in LENGTH_REASONS:
        return "length"
    if finish in REFUSAL_REASONS:
        return "refusal"
    return "tool_calls" if has_calls else "end"


def _reply_tokens(usage: Usage | None, *, is_kept: bool) -> int | None:
    """Reasoning that does not go back leaves the context."""
    if usage is None:
        return None
    return usage.output_tokens if is_kept else usage.output_tokens - usage.reasoning_tokens
