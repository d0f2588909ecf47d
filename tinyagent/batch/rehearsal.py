"""A run before all runs: what it loads, compiles and looks up, every fork of this process has.

The rehearsal is an ordinary run with a model of its own on loopback, so that it goes the way that the others will go:
settings, catalogue, requests, streams, tools, journal, trajectory. It is long enough for Python to specialise the code
that runs often, which a fork could only do in a copy of its own. Nothing of it is kept, and nothing of it is seen.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from tinyagent.core.types import Json

# What runs may need besides what this one does.
LOADED = (
    "encodings.idna",
    "stringprep",
    "tinyagent.models.anthropic",
    "tinyagent.models.ollama",
    "tinyagent.models.openai_responses",
)
# Python specialises a function at its eighth call.
CALLS: tuple[tuple[str, Json], ...] = (
    ("write", {"path": "file.txt", "content": "one\ntwo\n"}),
    ("read", {"path": "file.txt"}),
    ("edit", {"path": "file.txt", "old": "two", "new": "three"}),
    *(("bash", {"command": f"head -n {number} file.txt"}) for number in range(1, 10)),
)
# Where loopback does not work, the time limit ends the tries to reach the model.
SETTINGS = "model: openai/rehearsal\ncost_limit: 0\ntime_limit: 5s\n"
_PASSED = ("PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")
_THREADS_END_S = 5.0


def rehearse(command_line: Callable[[list[str]], int]) -> None:
    """Make the run with `command_line`. If it fails, the runs that come are slower and no worse."""
    environ = dict(os.environ)
    try:
        _load()
        with TemporaryDirectory() as place, _model() as address, _nowhere():
            own = {"TINYAGENT_HOME": f"{place}/home", "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": address}
            os.environ.clear()
            os.environ.update({name: environ[name] for name in _PASSED if name in environ} | own)
            (Path(place) / "task.txt").write_text("Rehearse.", encoding="utf-8")
            (Path(place) / "config.yaml").write_text(SETTINGS, encoding="utf-8")
            words = ("--file", f"{place}/task.txt", "--config", f"{place}/config.yaml", "--cwd", place)
            command_line(["run", *words, "--output", f"{place}/t.json", "--api", "openai", "--yolo"])
    except OSError:  # no loopback, or no place to write
        return
    finally:
        os.environ.clear()
        os.environ.update(environ)
        _wait_for_threads()


def _load() -> None:
    from tinyagent.models.transport import trust

    for name in LOADED:
        import_module(name)
    with suppress(OSError):  # of a file that the environment names
        trust(True)


@contextmanager
def _model() -> Generator[str]:
    """A model on loopback that makes the calls and then says that it is done."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    server.daemon_threads = False  # closing the server waits for them
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        data = cast(Json, json.loads(self.rfile.read(int(self.headers["content-length"]))))
        if not self.path.endswith("/chat/completions"):  # a question that other kinds of servers answer
            self.send_error(404)
            return
        said = sum(message["role"] == "assistant" for message in cast("Sequence[Json]", data["messages"]))
        body = b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in _chunks(said)) + b"data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing of it is seen."""


def _chunks(said: int) -> list[Json]:
    """One streamed reply of the chat completions API."""
    if said < len(CALLS):
        name, arguments = CALLS[said]
        function = {"name": name, "arguments": json.dumps(arguments)}
        delta: Json = {"tool_calls": [{"index": 0, "id": f"call_{said}", "type": "function", "function": function}]}
    else:
        delta = {"content": "Done."}
    finish = "stop" if said >= len(CALLS) else "tool_calls"
    usage = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
    return [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "A step."}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {"choices": [], "usage": usage},
    ]


@contextmanager
def _nowhere() -> Generator[None]:
    """Whatever is written to stdout and stderr is dropped."""
    with Path(os.devnull).open("w", encoding="utf-8") as null, redirect_stdout(null), redirect_stderr(null):
        yield


def _wait_for_threads() -> None:
    """A fork copies only the thread that makes it, and locks as the others hold them."""
    deadline = time.monotonic() + _THREADS_END_S
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
