"""A model server on 127.0.0.1 that speaks four APIs, plays a script and does wrong what it is told to.

    with FakeProvider(replies=["Hello", Say(calls=(Call("bash", {"command": "ls"}),))], faults={2: "rate"}) as server:
        server.base_url("openai")

By hand: python -m tests.fake_provider --reply Hello --window 4096 --fault 2=rate
"""

import argparse
import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests import fake_aws
from tests.fake_servers import TOTAL_WORDINGS, WORDINGS, discovery_of, prompt_tokens, text_tokens
from tests.fake_wires import Call, Count, Json, Say, frames, whole
from tests.faults import FAULTS, IN_STREAM_ERROR, Fault

PATHS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai",
    "/v1/responses": "responses",
    "/api/chat": "ollama",
}
Scripted = Say | str | Callable[[Json], Say]


@dataclass(frozen=True)
class Recorded:
    """A request as it came in. `tokens` is the true size of its prompt."""

    api: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Json
    tokens: int


class FakeProvider:
    """The server; a context manager.

    `replies` are played in order, then the last is repeated. `faults` maps the number of a request (from 1), or "all",
    to a fault or its name. `window` is enforced in the words of `wording` (default: the API's own vendor). `discovery`
    maps further paths to their JSON answers; a function gets the request's body. `cached` is the share of the prompt
    reported as read from the cache. Requests without tools ask for summaries: with `summaries` these are played for
    them in the same way, and the fault "summary" is theirs.
    """

    def __init__(
        self,
        replies: Sequence[Scripted] = ("Done.",),
        *,
        window: int | None = None,
        wording: str = "",
        faults: Mapping[int | str, Fault | str] | None = None,
        discovery: Mapping[str, Json | Callable[[Json], Json]] | None = None,
        cached: float = 0.0,
        port: int = 0,
        summaries: Sequence[Scripted] = (),
    ) -> None:
        self.requests: list[Recorded] = []
        self.connections = 0
        self.frames = 0  # of streams, sent so far
        self._gone = threading.Event()  # a client went away inside an answer
        self._replies = list(replies)
        self._summaries = list(summaries)
        self._window = window
        self._wording = wording
        self.faults = dict(faults or {})
        self._discovery = dict(discovery or {})
        self._cached = cached
        self._played = {"replies": 0, "summaries": 0}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), self._handler())
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.02), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def base_url(self, api: str) -> str:
        """As the vendors' own variables mean it."""
        return self.url + ("/v1" if api in ("openai", "responses") else "")

    @property
    def bodies(self) -> list[Json]:
        return [recorded.body for recorded in self.requests]

    def gone_within(self, seconds: float) -> bool:
        """Whether a client goes away inside an answer within that time."""
        return self._gone.wait(seconds)

    # --- what the handler asks

    def record(self, api: str, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[Recorded, Fault]:
        body = json.loads(raw)
        recorded = Recorded(api, path, {k.lower(): v for k, v in headers.items()}, raw, body, prompt_tokens(body))
        with self._lock:
            self.requests.append(recorded)
            general = self.faults.get("all", Fault())
            if not body.get("tools"):
                general = self.faults.get("summary", general)
            fault = self.faults.get(len(self.requests), general)
        return recorded, FAULTS[fault] if isinstance(fault, str) else fault

    def overflow(self, recorded: Recorded) -> tuple[int, str] | None:
        """The refusal of a prompt that does not fit, or None."""
        if self._window is None:
            return None
        asked = next((v for key, v in recorded.body.items() if key.startswith("max_")), 0)
        total = TOTAL_WORDINGS.get(self._wording)
        own = recorded.api if recorded.api in WORDINGS else "openai"
        if recorded.tokens >= self._window:
            status, text = WORDINGS.get(self._wording) or WORDINGS[own]
        elif total is not None and recorded.tokens + asked > self._window:
            status, text = total
        else:
            return None
        figures = {"{n}": recorded.tokens, "{w}": self._window, "{m}": asked, "{t}": recorded.tokens + asked}
        for mark, figure in figures.items():
            text = text.replace(mark, str(figure))
        return status, text

    def reply(self, recorded: Recorded, fault: Fault) -> tuple[Say, Count | None]:
        with self._lock:
            kind = "summaries" if self._summaries and not recorded.body.get("tools") else "replies"
            script = self._summaries if kind == "summaries" else self._replies
            item = script[min(self._played[kind], len(script) - 1)]
            self._played[kind] += not fault.keeps_reply
            number = len(self.requests)
        say = Say(item) if isinstance(item, str) else item if isinstance(item, Say) else item(recorded.body)
        say = replace(say, calls=tuple(replace(c, id=c.id or f"call_{number}_{n}") for n, c in enumerate(say.calls, 1)))
        if fault.change is not None:
            say = fault.change(say)
        prompt = recorded.tokens
        if fault.truncates and self._window is not None and prompt > self._window:
            prompt = self._window // 2 + 2
        output = text_tokens(say.text + say.reasoning + "".join(c.name + c.text for c in say.calls)) + 1
        count = Count(prompt, output, int(prompt * self._cached))
        return say, fault.count(count) if fault.count is not None else count

    def discover(self, path: str, body: Json) -> Json | None:
        answer = self._discovery.get(path)
        return answer(body) if callable(answer) else answer

    def wait(self, seconds: float) -> bool:
        """Sleep, but not after the server was closed. False: it was closed."""
        return not self._closing.wait(seconds)

    def connected(self) -> None:
        with self._lock:
            self.connections += 1

    def gone(self) -> None:
        self._gone.set()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (_Handler,), {"provider": self})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # small writes one after the other would wait 40 ms for the client to acknowledge
    provider: FakeProvider

    def setup(self) -> None:
        self.provider.connected()
        super().setup()

    def do_GET(self) -> None:
        self._discover({})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"] or 0))
        path = self.path.split("?")[0]
        api = api_of(path)
        if api is None:
            self._discover(json.loads(raw or b"{}"))
            return
        try:
            self._answer(api, *self.provider.record(api, self.path, dict(self.headers.items()), raw))
        except (BrokenPipeError, ConnectionResetError):
            self.provider.gone()
            self.close_connection = True

    def _answer(self, api: str, recorded: Recorded, fault: Fault) -> None:
        self.provider.wait(fault.first_byte_s)
        if fault.reset:
            self._reset()
        elif fault.body is not None:
            self._whole(fault.status, fault.body.encode(), fault.content_type, fault.headers)
        elif not fault.truncates and (refusal := self.provider.overflow(recorded)):
            self._whole(refusal[0], refusal[1].encode())
        else:
            say, count = self.provider.reply(recorded, fault)
            model = str(recorded.body.get("model", "fake"))
            if recorded.body.get("stream", api == "ollama" or self.path.endswith("-stream")):
                if not wants_usage(api, recorded.body):
                    count = None
                self._stream(api, frames(api, say, count, model), fault)
            elif fault.error_after is not None:
                self._whole(200, json.dumps(IN_STREAM_ERROR).encode())
            elif fault.breaks_off or fault.silent:
                at_once = replace(fault, cut_after=fault.cut_after and 0, end_after=fault.end_after and 0)
                self._stream(api, iter([json.dumps(whole(api, say, count, model)).encode()]), at_once)
            else:
                self._whole(200, json.dumps(whole(api, say, count, model)).encode())

    def _stream(self, api: str, stream: Iterator[bytes], fault: Fault) -> None:
        self.send_response(200)
        self.send_header("content-type", self._stream_type(api))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for _ in range(fault.pings):
            self._chunk(b"\n" if api == "ollama" else b": ping\n\n")
            self.provider.wait(0.1)
        if fault.silent:
            while self.provider.wait(0.05):
                pass
            self.close_connection = True
            return
        for number, frame in enumerate(stream):
            if number == fault.cut_after:
                self._chunk(frame[: len(frame) // 2])
                self.close_connection = True
                return
            if number == fault.end_after:
                break
            if number == fault.error_after:
                self._chunk(self._error_frame(api))
                break
            if not self.provider.wait(fault.frame_s):
                return
            self._chunk(fake_aws.framed(frame) if self._is_bedrock else frame)
            self.provider.frames += 1
        self.wfile.write(b"0\r\n\r\n")

    def _stream_type(self, api: str) -> str:
        if self._is_bedrock:
            return fake_aws.CONTENT_TYPE
        return "application/x-ndjson" if api == "ollama" else "text/event-stream"

    @property
    def _is_bedrock(self) -> bool:
        return self.path.startswith("/model/")

    def _error_frame(self, api: str) -> bytes:
        if api == "ollama":
            return b'{"error":"Overloaded, server busy"}\n'
        name = b"event: error\n" if api in ("anthropic", "responses") else b""
        return name + b"data: " + json.dumps(IN_STREAM_ERROR).encode() + b"\n\n"

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _whole(
        self, status: int, body: bytes, content_type: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": content_type, "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()
        self.close_connection = True

    def _discover(self, body: Json) -> None:
        answer = self.provider.discover(self.path.split("?")[0], body)
        self._whole(404 if answer is None else 200, json.dumps(answer or {"error": "not found"}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        return


def api_of(path: str) -> str | None:
    """The API behind a path, also where a cloud has the model in it: Azure, Vertex, Bedrock."""
    if path.endswith("/chat/completions"):
        return "openai"
    if re.search(r"/models/[^/]+:(?:stream)?[rR]awPredict$|^/model/[^/]+/invoke(?:-with-response-stream)?$", path):
        return "anthropic"
    return PATHS.get(path)


def wants_usage(api: str, body: Json) -> bool:
    """Chat streams tell their usage only when asked."""
    return api != "openai" or bool((body.get("stream_options") or {}).get("include_usage"))


def say_of(item: object) -> Say:
    """A reply from a script's item: {"tool", "arguments"}, {"final"}, {"text", "calls"}, or a string."""
    if isinstance(item, str):
        return Say(item)
    assert isinstance(item, dict), item
    calls = item.get("calls") or ([item] if "tool" in item else [])
    text = item.get("final") or item.get("text") or ""
    return Say(text, tuple(Call(call["tool"], call.get("arguments", {})) for call in calls))


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake model server for tinyagent: four APIs, one script, any fault.")
    parser.add_argument("--port", type=int, default=8089)
    parser.add_argument("--reply", action="append", default=[], help="a text to answer; repeatable")
    parser.add_argument("--script", help='JSON file: a list of {"tool", "arguments"} and {"final"} items')
    parser.add_argument("--window", type=int, help="context window in tokens that is enforced")
    parser.add_argument(
        "--wording", default="", choices=["", *WORDINGS, *TOTAL_WORDINGS], help="how overflow is worded"
    )
    parser.add_argument("--fault", action="append", default=[], metavar="N=NAME", help=f"N or all; {', '.join(FAULTS)}")
    parser.add_argument("--server", default="llama.cpp", help="whose discovery endpoints: llama.cpp, vllm, ollama")
    given = parser.parse_args()
    replies: list[Scripted] = list(given.reply)
    if given.script:
        replies += [say_of(item) for item in json.loads(Path(given.script).read_text(encoding="utf-8"))]
    pairs = [fault.split("=", 1) for fault in given.fault]
    faults: dict[int | str, Fault | str] = {n if n == "all" else int(n): name for n, name in pairs}
    discovery = discovery_of(given.server, model="fake", window=given.window or 131072)
    with FakeProvider(
        replies or ["Done."],
        window=given.window,
        wording=given.wording,
        faults=faults,
        discovery=discovery,
        port=given.port,
    ) as server:
        print(f"{server.base_url('openai')} (chat, responses), {server.url} (messages, ollama); Ctrl-C ends")  # noqa: T201
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
