"""What one run costs beside what it does: start, each step, memory, bytes written; the floor in the same run.

    python -m benchmarks.single_run [--steps 200] [--output-bytes 2000] [--repeat 3]

A scripted server on loopback asks for one command a step. The floor is the plainest loop that does the same: httpx,
json and bash in one Python file. Times of the agents are seen from the server, CPU and memory are those of the whole
process as the operating system accounts for it. Figures of one run on one machine compare; absolute times do not.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FLOOR = """
import json, subprocess, sys, httpx
url, task = sys.argv[1:]
bash = {"name": "bash", "description": "Run a command.", "parameters": {"type": "object"}}
tools = [{"type": "function", "function": bash}]
messages = [{"role": "system", "content": "You are a coding agent."}, {"role": "user", "content": task}]
with httpx.Client(timeout=60) as client:
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


@dataclass
class Seen:
    """What the server saw of one run. Times are of a monotonic clock."""

    arrived: list[float] = field(default_factory=list[float])
    answered: list[float] = field(default_factory=list[float])
    first_body: bytes = b""
    prefix_kept: bool = True
    last_messages: list[Any] = field(default_factory=list[Any])


class Server(ThreadingHTTPServer):
    """Asks for a command `steps` times, then answers."""

    daemon_threads = True

    def __init__(self, steps: int, command: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.steps, self.command, self.seen = steps, command, Seen()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        seen = self.server.seen
        seen.arrived.append(time.monotonic())
        data = json.loads(body)
        seen.first_body = seen.first_body or body
        messages = data["messages"]
        seen.prefix_kept &= messages[: len(seen.last_messages)] == seen.last_messages
        seen.last_messages = messages
        number = len(seen.arrived)
        message: dict[str, Any] = {"role": "assistant", "content": f"Step {number}."}
        if number <= self.server.steps:
            arguments = json.dumps({"command": f"{self.server.command} # {number}"})
            message["tool_calls"] = [
                {"id": f"call_{number}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
            ]
        self.answer(message, len(body) // 4, streamed=bool(data.get("stream")))
        seen.answered.append(time.monotonic())

    def answer(self, message: dict[str, Any], tokens: int, *, streamed: bool) -> None:
        finish = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
        if streamed:
            for index, call in enumerate(message.get("tool_calls", [])):
                call["index"] = index
            chunks = [
                {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
                {"choices": [], "usage": usage},
            ]
            text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": message, "finish_reason": finish}
            text = json.dumps({"choices": [choice], "usage": usage})
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streamed else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@dataclass(frozen=True)
class Figures:
    """Of one run: seconds, milliseconds a step, megabytes, bytes."""

    first_request_s: float
    exit_s: float
    step_ms: float
    late_over_early: float
    cpu_step_ms: float
    peak_mb: float
    written_mb: float
    first_prompt_chars: int
    prefix_kept: bool


def measure(argv: list[str], server: Server, env: dict[str, str], written: list[Path]) -> Figures:
    started = time.monotonic()
    process = subprocess.Popen(
        argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.monotonic()
    process.returncode = os.waitstatus_to_exitcode(status)
    seen = server.seen
    if process.returncode or len(seen.arrived) != server.steps + 1:
        raise SystemExit(f"{argv} ended with {process.returncode} after {len(seen.arrived)} requests")
    gaps = [(b - a) * 1000 for a, b in zip(seen.answered, seen.arrived[1:], strict=False)]
    tenth = max(1, len(gaps) // 10)
    early, late = statistics.median(gaps[tenth : 3 * tenth]), statistics.median(gaps[-2 * tenth :])
    files = [f for place in written for f in (place.rglob("*") if place.is_dir() else [place]) if f.is_file()]
    return Figures(
        first_request_s=seen.arrived[0] - started,
        exit_s=ended - seen.answered[-1],
        step_ms=statistics.median(gaps),
        late_over_early=late / early,
        cpu_step_ms=(usage.ru_utime + usage.ru_stime) * 1000 / server.steps,
        peak_mb=usage.ru_maxrss / 1024,
        written_mb=sum(f.stat().st_size for f in files) / 1e6,
        first_prompt_chars=len(seen.first_body),
        prefix_kept=seen.prefix_kept,
    )


def one_run(name: str, steps: int, command: str, folder: Path) -> Figures:
    server = Server(steps, command)
    try:
        if name == "floor":
            script = folder / "floor.py"
            script.write_text(FLOOR)
            return measure([sys.executable, str(script), server.url, "Do the steps."], server, dict(os.environ), [])
        home = folder / "home"
        env = os.environ | {"TINYAGENT_HOME": str(home), "OPENAI_API_KEY": "none"}
        argv = [sys.executable, "-m", "tinyagent", "-y", "-q", "-m", "openai/bench", "--base-url", server.url]
        argv += ["--context-window", "1000000", "--cost-limit", "0", "-C", str(folder)]
        argv += ["-o", str(folder / "out.json"), "Do the steps."]
        return measure(argv, server, env, [home, folder / "out.json"])
    finally:
        server.shutdown()
        server.server_close()


def wall(argv: list[str], times: int = 7) -> float:
    """Median milliseconds of a whole command."""
    taken: list[float] = []
    for _ in range(times):
        started = time.monotonic()
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        taken.append((time.monotonic() - started) * 1000)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output-bytes", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    python, agent = [sys.executable], [sys.executable, "-m", "tinyagent"]
    bare, libraries = wall([*python, "-c", "pass"]), wall([*python, "-c", "import typer, rich.console"])
    version, shown = wall([*agent, "--version"]), wall([*agent, "--help"])
    print(f"--version {version:.0f} ms, {version / bare:.1f} x bare Python ({bare:.0f} ms)")
    print(f"--help    {shown:.0f} ms, {shown / libraries:.1f} x `import typer, rich.console` ({libraries:.0f} ms)")
    command = f"head -c {args.output_bytes} /dev/zero | tr '\\0' x"
    rows: dict[str, list[Figures]] = {"floor": [], "tinyagent": []}
    for _ in range(args.repeat):  # in turn, so that both see the same machine
        for name, taken in rows.items():
            with tempfile.TemporaryDirectory() as folder:
                taken.append(one_run(name, args.steps, command, Path(folder)))
    print(f"{args.steps} steps, {args.output_bytes} bytes of output each, median of {args.repeat}:")
    for key in Figures.__dataclass_fields__:
        floor, ours = (statistics.median(getattr(f, key) for f in rows[name]) for name in rows)
        ratio = f"{ours / floor:8.2f} x" if floor else ""
        print(f"  {key:20} floor {floor:10.3f}   tinyagent {ours:10.3f} {ratio}")


if __name__ == "__main__":
    main()
