"""What servers do wrong, by name. Each is a recipe that `fake_provider.py` follows for one request.

A fault with a `status` or `body` answers in place of the reply, which stays in the script for the next request; so does
one that breaks the reply off. The others change how the reply comes.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from time import time

from tests.fake_wires import Call, Count, Json, Say


@dataclass(frozen=True)
class Fault:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: str | None = None  # a whole answer in place of the reply
    content_type: str = "application/json"
    cut_after: int | None = None  # frames, then the connection is closed inside the body
    end_after: int | None = None  # frames, then the body ends in good order
    error_after: int | None = None  # frames, then an error event and the end
    reset: bool = False  # the connection is reset before any answer
    pings: int = 0  # keep-alive comments before the first frame
    silent: bool = False  # nothing more after the pings
    first_byte_s: float = 0.0  # before the status line
    frame_s: float = 0.0  # before each frame
    change: Callable[[Say], Say] | None = None
    count: Callable[[Count], Count | None] | None = None  # what usage is reported
    truncates: bool = False  # a prompt over the window is cut in silence, as Ollama does it

    @property
    def keeps_reply(self) -> bool:
        """Whether the reply stays for the next request."""
        return self.body is not None or self.reset or self.silent or self.breaks_off

    @property
    def breaks_off(self) -> bool:
        return any(after is not None for after in (self.cut_after, self.end_after, self.error_after))


def error(status: int, message: str, kind: str, **headers: str) -> Fault:
    """An error in OpenAI's form, which Anthropic's resembles closely enough to be read as one."""
    body = {"type": "error", "error": {"message": message, "type": kind, "code": kind}}
    return Fault(status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body))


def rate_limited(**headers: str) -> Fault:
    return error(429, "Rate limit reached for requests per minute.", "rate_limit_error", **headers)


def _first_call_with(arguments: str) -> Callable[[Say], Say]:
    def change(say: Say) -> Say:
        return replace(say, calls=tuple(replace(c, arguments=arguments) for c in say.calls[:1]) + say.calls[1:])

    return change


def _with_ids(make: Callable[[Call, int], str]) -> Callable[[Say], Say]:
    def change(say: Say) -> Say:
        return replace(say, calls=tuple(replace(call, id=make(call, n)) for n, call in enumerate(say.calls)))

    return change


def _cut_arguments(say: Say) -> Say:
    calls = [replace(call, arguments=call.text[: len(call.text) // 2]) for call in say.calls]
    return replace(say, calls=tuple(calls), finish="length")


IN_STREAM_ERROR: Json = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded", "code": 529}}

FAULTS: dict[str, Fault] = {
    # refusals
    "rate": rate_limited(),
    "rate_seconds": rate_limited(retry_after="7"),
    "rate_ms": rate_limited(retry_after_ms="2500"),
    "rate_date": rate_limited(retry_after=formatdate(time() + 100, usegmt=True)),
    "rate_long": rate_limited(retry_after="3600"),
    "rate_text": error(429, "Rate limit reached. Please try again in 4.77s.", "rate_limit_exceeded"),
    "quota": error(429, "You exceeded your current quota, please check your plan.", "insufficient_quota"),
    "server_error": error(500, "Internal server error", "server_error"),
    "unavailable": error(503, "Loading model", "unavailable_error"),
    "overloaded": error(529, "Overloaded", "overloaded_error"),
    "bad_key": error(401, "Invalid API Key", "authentication_error"),
    "no_such_model": error(404, "model: nope", "not_found_error"),
    "body_too_large": error(413, "Request exceeds the maximum allowed number of bytes.", "request_too_large"),
    "redirect": Fault(307, {"location": "http://127.0.0.1:1/elsewhere"}, ""),
    # answers that are none
    "html": Fault(body="<html><body>Bad gateway</body></html>", content_type="text/html"),
    "html_502": Fault(502, body="<html><body>Bad gateway</body></html>", content_type="text/html"),
    "empty_body": Fault(body=""),
    "not_json": Fault(body="upstream said no", content_type="text/plain"),
    "error_in_200": Fault(body=json.dumps({"error": {"message": "Overloaded", "type": "overloaded_error"}})),
    "no_choices": Fault(body=json.dumps({"id": "x", "choices": [], "usage": {"prompt_tokens": 5}})),
    "null": Fault(body="null"),
    "empty_stream": Fault(body="", content_type="text/event-stream"),
    "only_done": Fault(body="data: [DONE]\n\n", content_type="text/event-stream"),
    # streams that break
    "cut_at_once": Fault(cut_after=1),
    "cut": Fault(cut_after=3),
    "polite_end": Fault(end_after=3),
    "error_in_stream": Fault(error_after=3),
    "reset": Fault(reset=True),
    # slowness
    "pings_only": Fault(pings=3, silent=True),
    "pings_first": Fault(pings=5),
    "slow_first_byte": Fault(first_byte_s=1.0),
    "slow_frames": Fault(frame_s=0.15),
    # replies that are wrong
    "garbage_arguments": Fault(change=_first_call_with('{"command": "ls')),
    "list_arguments": Fault(change=_first_call_with('["ls"]')),
    "raw_control_characters": Fault(change=_first_call_with('{"command": "a\nb\tc"}')),
    "cut_arguments": Fault(change=_cut_arguments),
    "missing_ids": Fault(change=_with_ids(lambda call, n: "")),
    "same_ids": Fault(change=_with_ids(lambda call, n: "call_1")),
    "empty_reply": Fault(change=lambda say: Say()),
    "blank_reply": Fault(change=lambda say: Say(" \n")),
    "only_reasoning": Fault(change=lambda say: Say(reasoning="Let me think.")),
    "refusal": Fault(change=lambda say: Say("I cannot help.", finish="content_filter")),
    "window_exceeded": Fault(change=lambda say: replace(say, finish="model_context_window_exceeded")),
    "length": Fault(change=lambda say: replace(say, calls=(), finish="length")),
    # usage
    "no_usage": Fault(count=lambda count: None),
    "zero_usage": Fault(count=lambda count: Count(0, 0)),
    "half_usage": Fault(count=lambda count: Count(count.prompt // 2, count.output)),
    "nonsense_usage": Fault(count=lambda count: Count(10**9, -5)),
    "silent_truncation": Fault(truncates=True),
}
