"""Replies of OpenAI's Responses API, whole or streamed."""

from collections.abc import Sequence

from tinyagent.core.errors import ModelError
from tinyagent.core.types import AssistantMessage, Json, StopReason, Usage
from tinyagent.models.payload import as_count, as_list, as_object, as_text, read_call, with_unique_ids
from tinyagent.models.wire import Reply, WireOptions

FINAL_EVENTS = ("response.completed", "response.incomplete", "response.done")


def decode_response(data: Json, options: WireOptions) -> Reply:
    """The reply in a whole body. Raises ModelError `malformed`."""
    if not isinstance(data.get("output"), list):
        raise ModelError("the answer has no output", kind="malformed", usage=_usage(data), billed=True)
    return _reply([as_object(item) for item in as_list(data["output"])], data, options)


class OpenAIResponsesDecoder:
    """Puts a streamed response together: the finished items, and the final event with status and usage."""

    def __init__(self, options: WireOptions) -> None:
        self._options = options
        self._items: list[Json] = []
        self._response: Json = {}
        self._deltas: list[str] = []
        self._seen = False
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return _usage(self._response)

    @property
    def heard(self) -> str:
        return "".join(self._deltas)

    def feed(self, event: str, data: Json) -> str:
        self._deltas.append(as_text(data.get("delta")))
        match data.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return as_text(data.get("delta"))
            case "response.output_item.done":
                self._items.append(as_object(data.get("item")))
            case str(kind) if kind in FINAL_EVENTS:
                self._response = as_object(data.get("response"))
                self.ended = True
            case _:
                pass
        self._seen = self._seen or as_text(data.get("type")).startswith("response.")
        return ""

    def finish(self) -> Reply:
        if not self.ended:
            kind = "stream_cut" if self._seen else "malformed"
            raise ModelError("the stream ended without its final event", kind=kind, billed=True)
        items = [as_object(item) for item in as_list(self._response.get("output"))]
        return _reply(items or self._items, self._response, self._options)


def _reply(items: Sequence[Json], response: Json, options: WireOptions) -> Reply:
    usage = _usage(response)
    reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
    cut = reason == "max_output_tokens"
    calls = with_unique_ids(
        [
            read_call(as_text(item.get("call_id")), as_text(item.get("name")), item.get("arguments"), cut=cut)
            for item in items
            if item.get("type") == "function_call"
        ]
    )
    parts = [as_object(part) for item in items for part in as_list(item.get("content")) if _is_message(item)]
    refusal = "".join(as_text(part.get("refusal")) for part in parts)
    message = AssistantMessage(
        text="".join(as_text(part.get("text")) for part in parts) or refusal,
        tool_calls=calls,
        stop="refusal" if refusal else _stop(reason, has_calls=bool(calls)),
        wire=(wire := _own_payload(items)),
        wire_format=options.wire_format if wire else "",
        reasoning="\n\n".join(_summary(item) for item in items if item.get("type") == "reasoning").strip(),
    )
    is_kept = any(item.get("type") == "reasoning" for item in wire or ())
    return Reply(
        message,
        usage,
        usage and usage.output_tokens - (0 if is_kept else usage.reasoning_tokens),
        model=as_text(response.get("model")),
        request_id=as_text(response.get("id")),
    )


def _is_message(item: Json) -> bool:
    return item.get("type") == "message"


def _own_payload(items: Sequence[Json]) -> list[Json] | None:
    """The items to send back; None where text and calls say it all.

    Reasoning goes back only with its encrypted content and with the item that follows it: either alone is refused.
    A function_call is a mark of its place only. Items are sent without their ids, since an id ties an item to
    reasoning that may not be there.
    """
    kept: list[Json] = []
    for item in items:
        match item.get("type"):
            case "reasoning" if item.get("encrypted_content"):
                kept.append({key: value for key, value in item.items() if key != "status"})
            case "function_call":
                kept.append({"type": "function_call"})
            case "message":
                text = "".join(as_text(as_object(part).get("text")) for part in as_list(item.get("content")))
                if text.strip():
                    kept.append(_text_item(text, item.get("phase")))
            case _:
                pass
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    says_more = any(item.get("type") == "reasoning" or "phase" in item for item in kept)
    return kept if says_more else None


def _text_item(text: str, phase: object) -> Json:
    """`phase` tells commentary from the final answer; newer models want it back."""
    item: Json = {"type": "message", "role": "assistant", "content": text}
    return item | {"phase": phase} if phase else item


def _summary(item: Json) -> str:
    return "\n\n".join(as_text(as_object(part).get("text")) for part in as_list(item.get("summary")))


def _stop(reason: str, *, has_calls: bool) -> StopReason:
    match reason:
        case "max_output_tokens":
            return "length"
        case "content_filter":
            return "refusal"
        case _:
            return "tool_calls" if has_calls else "end"


def _usage(response: Json) -> Usage | None:
    """Input includes the cached tokens here. No input at all cannot be true: unknown."""
    data = as_object(response.get("usage"))
    total = as_count(data.get("input_tokens"))
    if not total:
        return None
    details = as_object(data.get("input_tokens_details"))
    read = min(as_count(details.get("cached_tokens")), total)
    return Usage(
        input_tokens=total,
        output_tokens=as_count(data.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=min(as_count(details.get("cache_write_tokens")), total - read),
        reasoning_tokens=as_count(as_object(data.get("output_tokens_details")).get("reasoning_tokens")),
    )
