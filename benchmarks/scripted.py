"""A scripted model server on loopback, the plainest agent as a floor, and what one process cost.

Times are seen from the server, so that they mean the same for every agent: from the start of the process to the first
request, from an answer to the next request (a step), from the last answer to the end of the process. CPU, memory and
bytes written are the operating system's own figures for the process and what it waited for.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

REPOSITORY = Path(__file__).parent.parent
TASK = "Do the steps."
MESSAGES = re.compile(r'"messages":\s*(?=\[)')

# The plainest loop that does a job: one client, one conversation, bash.
LOOP = """
import json, subprocess, sys, httpx
bash = {"name": "bash", "description": "Run a command.", "parameters": {"type": "object"}}
tools = [{"type": "function", "function": bash}]
def loop(client, url, task):
    messages = [{"role": "system", "content": "You are a coding agent."}, {"role": "user", "content": task}]
    while True:
        body = json.dumps({"model": "x", "messages": messages, "tools": tools}).encode()
        reply = json.loads(client.post(url + "/chat/completions", content=body).content)["choices"][0]["message"]
        messages.append(reply)
        if not reply.get("tool_calls"):
            break
        for call in reply["tool_calls"]:
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout})
"""
FLOOR = (
    LOOP
    + """
with httpx.Client(timeout=60) as client:
    loop(client, *sys.argv[1:])
"""
)

# Starts a program and tells what it cost. A process of its own, since a program's peak memory includes that of the
# process that started it.
RUNNER = """
import json, os, re, sys, time
null = os.open(os.devnull, os.O_RDWR)
started = time.monotonic()
silence = [(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)]
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=silence)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
ended = time.monotonic()
written = re.search(r"(?m)^write_bytes: (.*)", open(f"/proc/{pid}/io").read())[1]
_, status, usage = os.wait4(pid, 0)
print(json.dumps({"code": os.waitstatus_to_exitcode(status), "started": started, "ended": ended,
    "cpu_s": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1024, "disk_bytes": int(written)}))
"""

FINISH_MINI = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass(frozen=True)
class Script:
    """What the server asks for: a command so many times, then an answer, or `last` where an agent ends by a command."""

    steps: int
    command: str
    last: str = ""


@dataclass
class Seen:
    """What the server saw of one run. Times are of a monotonic clock; `history` is the newest list of messages."""

    arrived: list[float] = field(default_factory=list[float])
    answered: list[float] = field(default_factory=list[float])
    first_body: bytes = b""
    first_history: str = ""
    history: str = ""
    sent_chars: int = 0
    repeated_chars: int = 0  # of these, what stood at the same place in the request before
    prefix_kept: bool = True

    def take(self, body: bytes) -> None:
        text = body.decode()
        start = MESSAGES.search(text)
        assert start, "no messages in the request"
        _, end = json.JSONDecoder().raw_decode(text, start.end())
        history, kept = text[start.end() : end], self.history[:-1]
        is_kept = history.startswith(kept)
        self.prefix_kept &= is_kept
        self.sent_chars += len(history)
        self.repeated_chars += len(kept) if is_kept else 0
        self.history = history
        self.first_history = self.first_history or history
        self.first_body = self.first_body or body


class Server(ThreadingHTTPServer):
    """Answers as its script says; the context manager stops it."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.seen = script, Seen()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20  # head and body in one packet: in two, the second waits 40 ms for a delayed acknowledgement

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        server = cast("Server", self.server)
        seen, script = server.seen, server.script
        seen.arrived.append(time.monotonic())
        seen.take(body)
        number = len(seen.arrived)
        command = f"{script.command} # {number}" if number <= script.steps else script.last
        self.answer(_reply(number, command), len(body) // 4, streamed=b'"stream":true' in body)
        seen.answered.append(time.monotonic())

    def answer(self, message: dict[str, Any], tokens: int, *, streamed: bool) -> None:
        finish = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": "bench"}
        if streamed:
            chunks = [
                {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
                {"choices": [], "usage": usage},
            ]
            text = "".join(f"data: {json.dumps(head | chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": message, "finish_reason": finish}
            text = json.dumps(head | {"choices": [choice], "usage": usage})
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streamed else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        return


def _reply(number: int, command: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": f"Step {number}."}
    if command:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    return message


@dataclass(frozen=True)
class Cost:
    """Of one process. `disk_bytes` is what it gave to the disk, as the kernel counts it. Times as in `Seen`."""

    code: int
    started: float
    ended: float
    cpu_s: float
    peak_mb: float
    disk_bytes: int


@dataclass(frozen=True)
class Ran:
    """One run that did all its steps."""

    seen: Seen
    cost: Cost

    @property
    def first_request_s(self) -> float:
        return self.seen.arrived[0] - self.cost.started

    @property
    def exit_s(self) -> float:
        return self.cost.ended - self.seen.answered[-1]

    @property
    def steps_ms(self) -> list[float]:
        return [(b - a) * 1000 for a, b in zip(self.seen.answered, self.seen.arrived[1:], strict=False)]

    @property
    def late_over_early(self) -> float:
        """Median step of the last fifth to that of the second and third tenth."""
        steps = self.steps_ms
        tenth = max(1, len(steps) // 10)
        return statistics.median(steps[-2 * tenth :]) / statistics.median(steps[tenth : 3 * tenth])


@dataclass(frozen=True)
class Program:
    """How an agent is started. `written` are the files and folders that it leaves behind."""

    argv: Sequence[str]
    env: dict[str, str]
    written: Sequence[Path] = ()


def floor(url: str, folder: Path) -> Program:
    script = folder / "floor.py"
    script.write_text(FLOOR)
    return Program([sys.executable, str(script), url, TASK], environment())


def tinyagent(url: str, folder: Path, *, window: int = 1_000_000) -> Program:
    home, export = folder / "home", folder / "out.json"
    argv = [sys.executable, "-m", "tinyagent", "-y", "-q", "-m", "openai/bench", "--base-url", url]
    argv += ["--context-window", str(window), "--cost-limit", "0", "-C", str(folder), "-o", str(export), TASK]
    env = environment() | {"TINYAGENT_HOME": str(home), "OPENAI_API_KEY": "none", "PYTHONPATH": str(REPOSITORY)}
    return Program(argv, env, [home, export])


def environment() -> dict[str, str]:
    """That of a user: with bytecode, which some machines switch off, kept apart from the sources."""
    off = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    cache = Path(tempfile.gettempdir()) / "tinyagent-benchmarks-bytecode"
    return {name: value for name, value in os.environ.items() if name not in off} | {"PYTHONPYCACHEPREFIX": str(cache)}


def run(program: Program, server: Server, cwd: Path) -> Ran:
    """Run an agent to its end. Raises SystemExit if it fails or does not do all steps."""
    cost, seen = run_alone(program, cwd), server.seen
    if cost.code or len(seen.arrived) != server.script.steps + 1:
        raise SystemExit(f"{program.argv} ended with {cost.code} after {len(seen.arrived)} requests")
    return Ran(seen, cost)


def run_alone(program: Program, cwd: Path) -> Cost:
    """Run any program to its end, its output thrown away."""
    argv = [sys.executable, "-c", RUNNER, *program.argv]
    return Cost(**json.loads(subprocess.run(argv, env=program.env, cwd=cwd, capture_output=True, check=True).stdout))


def size(places: Sequence[Path]) -> int:
    """Bytes of files, and of all files in folders."""
    files = [f for place in places for f in (place.rglob("*") if place.is_dir() else [place]) if f.is_file()]
    return sum(f.stat().st_size for f in files)
