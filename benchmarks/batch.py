"""Tasks a minute, CPU and memory of a batch, beside the floor of bare threads in the same run.

    python -m benchmarks.batch [--workers 8 32] [--steps 10] [--latency 0.2] [--rounds 4] [--ray]

A server in a process of its own answers every request after the latency: `steps` commands, then the end. The ideal is
what the latency alone allows. The floor does the same requests with httpx and the same commands from threads of one
process, with no journal, no workspace and no isolation. Rates count from the first request to the last reply, so that
start-up is left out. CPU is that of the driver and all that it started; memory is the proportional set size of the
same, its highest sample less that of the driver and the fork server before the first task.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FLOOR = """
import json, queue, subprocess, sys, threading, httpx
url, workers, tasks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
todo = queue.SimpleQueue()
for n in range(tasks):
    todo.put(n)
def work():
    with httpx.Client(timeout=60) as client:
        while True:
            try:
                todo.get_nowait()
            except queue.Empty:
                return
            messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Do it."}]
            while True:
                body = json.dumps({"model": "x", "messages": messages}).encode()
                reply = json.loads(client.post(url + "/chat/completions", content=body).content)
                reply = reply["choices"][0]["message"]
                messages.append(reply)
                if not reply.get("tool_calls"):
                    break
                for call in reply["tool_calls"]:
                    command = json.loads(call["function"]["arguments"])["command"]
                    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout})
threads = [threading.Thread(target=work) for _ in range(workers)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


@dataclass(frozen=True)
class Figures:
    """Of one batch: seconds from the first request to the last reply, CPU seconds, megabytes, tasks done."""

    seconds: float
    cpu_s: float
    wall_s: float
    memory_mb: float
    tasks: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=4, help="tasks a worker")
    parser.add_argument("--ray", action="store_true", help="also with --executor ray")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.steps, args.latency))
        return
    names = ["floor", "local", *(["ray"] if args.ray else [])]
    print(f"{args.steps} steps at {args.latency * 1000:.0f} ms, {args.rounds} tasks a worker; tasks a minute")
    for workers in args.workers:
        ideal = workers * 60 / ((args.steps + 1) * args.latency)
        for name in names:
            found = measure(name, workers, args)
            rate = found.tasks * 60 / found.seconds
            print(
                f"{workers:3} workers  {name:6} {rate:7.1f} = {rate / ideal:5.1%} of ideal {ideal:.0f}"
                f"   CPU {found.cpu_s / found.tasks:.3f} s a task   memory +{found.memory_mb:.0f} MB"
                f"   wall {found.wall_s:.1f} s"
            )


def measure(name: str, workers: int, args: argparse.Namespace) -> Figures:
    tasks = workers * args.rounds
    own = [sys.executable, "-m", "benchmarks.batch", "--serve", "--steps", str(args.steps)]
    server = subprocess.Popen([*own, "--latency", str(args.latency)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        argv = floor_argv(url, workers, tasks) if name == "floor" else batch_argv(name, url, workers, tasks, folder)
        env = os.environ | {"TINYAGENT_HOME": str(folder / "home"), "OPENAI_API_KEY": "none"}
        started = time.monotonic()
        process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        memory = Memory(process.pid)
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        peak = memory.stop()
    first, last, requests = json.loads(server.communicate(b"end\n")[0])
    if process.returncode or requests != tasks * (args.steps + 1):
        raise SystemExit(f"{name} ended with {process.returncode} after {requests} requests: {errors.decode()[-2000:]}")
    return Figures(last - first, usage.ru_utime + usage.ru_stime, wall, peak, tasks)


def floor_argv(url: str, workers: int, tasks: int) -> list[str]:
    return [sys.executable, "-c", FLOOR, url, str(workers), str(tasks)]


def batch_argv(name: str, url: str, workers: int, tasks: int, folder: Path) -> list[str]:
    rows = [json.dumps({"id": f"t{n}", "task": "Do it."}) for n in range(tasks)]
    (folder / "tasks.jsonl").write_text("\n".join(rows), encoding="utf-8")
    argv = [sys.executable, "-m", "tinyagent", "batch", str(folder / "tasks.jsonl"), "-o", str(folder / "out")]
    argv += ["-w", str(workers), "-m", "openai/bench", "--base-url", url, "--api", "openai", "--cost-limit", "0"]
    return [*argv, "--context-window", "100000", "--executor", name]


class Memory:
    """Samples the proportional set size of a process and all below it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._samples: list[tuple[int, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def stop(self) -> float:
        """Megabytes of the highest sample above the lowest one with the driver and its server only."""
        self._over.set()
        self._thread.join()
        quiet = [size for count, size in self._samples if count <= 2 and size > 0]
        return max((size for _, size in self._samples), default=0.0) - max(quiet[:8], default=0.0)

    def _sample(self) -> None:
        while not self._over.wait(0.25):
            pids = below(self._pid)
            sizes = [size for pid in pids if (size := proportional_mb(pid)) > 0]
            self._samples.append((len(sizes), sum(sizes)))


def below(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def proportional_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


async def serve(steps: int, latency: float) -> None:
    """Answer until a line comes on stdin; then tell the time of the first request and the last reply, and the count."""
    times: list[float] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                body = await reader.readexactly(length)
                if b"/chat/completions" not in head.split(b"\r\n")[0]:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
                    continue
                times.append(time.monotonic())
                await asyncio.sleep(latency)
                writer.write(reply(body, steps))
                await writer.drain()
                times.append(time.monotonic())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps([min(times, default=0), max(times, default=0), len(times) // 2]), flush=True)
    os._exit(0)


def reply(body: bytes, steps: int) -> bytes:
    data = json.loads(body)
    number = sum(message["role"] == "assistant" for message in data["messages"]) + 1
    message: dict[str, object] = {"role": "assistant", "content": f"Step {number}."}
    if number <= steps:
        function = {"name": "bash", "arguments": json.dumps({"command": f"echo {number}"})}
        message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    finish = "tool_calls" if number <= steps else "stop"
    usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 20, "total_tokens": len(body) // 4 + 20}
    if not data.get("stream"):
        text = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})
        kind = "application/json"
    else:
        chunks = [
            {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {"choices": [], "usage": usage},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        kind = "text/event-stream"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(text.encode())}\r\n\r\n"
    return head.encode() + text.encode()


if __name__ == "__main__":
    main()
