"""Tasks a minute, CPU and memory of a batch, beside the floor of bare threads in the same run.

    python -m benchmarks.batch [--workers 8 32] [--steps 10] [--latency 0.2] [--rounds 4] [--ray] [--peer mini=PYTHON]

A server in a process of its own answers every request after the latency: `steps` commands, then the end. The ideal is
what the latency alone allows. The floor does the same requests with httpx and the same commands from threads of one
process, with no journal, no workspace and no isolation. The peer is mini-swe-agent 2, installed for that interpreter,
driven as its own batch command does: an agent a task in a pool of threads, and its trajectory saved. Rates count from
the first request to the last reply, so that start-up is left out. CPU is that of the driver and all that it started,
once without what was used before the first task, once with it; memory is the proportional set size of the same, its
highest sample less that of the driver and the fork server before the first task.
"""

import argparse
import asyncio
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.scripted import FINISH_MINI, LOOP

FLOOR = (
    LOOP
    + """
import threading
url, workers, tasks = sys.argv[1], int(sys.argv[2]), iter(range(int(sys.argv[3])))
def work():
    with httpx.Client(timeout=60) as client:
        for _ in tasks:
            loop(client, url, "Do it.")
threads = [threading.Thread(target=work) for _ in range(workers)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
)

MINI = """
import os, pathlib, sys
from concurrent.futures import ThreadPoolExecutor
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models import get_model
url, workers, tasks, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
config = get_config_from_spec("default.yaml")
def work(number):
    own = {"model_name": "openai/bench", "cost_tracking": "ignore_errors", "model_kwargs": {"api_base": url}}
    place = os.path.join(folder, str(number))
    os.mkdir(place)
    agent = DefaultAgent(get_model(config=config["model"] | own), LocalEnvironment(cwd=place), **config["agent"])
    agent.run("Do it.")
    agent.save(pathlib.Path(folder, f"{number}.traj.json"))
with ThreadPoolExecutor(max_workers=workers) as pool:
    list(pool.map(work, range(tasks)))
"""


DRIVER_AND_SERVER = 2
# Found by pattern: the model must not take the CPU time of those who are measured.
ASSISTANT, STREAM = re.compile(rb'"role":\s*"assistant"'), re.compile(rb'"stream":\s*true')


@dataclass(frozen=True)
class Figures:
    """Of one batch: seconds from the first request to the last reply, CPU seconds, megabytes, tasks done."""

    seconds: float
    start_cpu_s: float
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
    parser.add_argument("--peer", metavar="mini=PYTHON", help="mini-swe-agent as well, in that interpreter")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--last", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.steps, args.latency, args.last))
        return
    names = ["floor", "local", *(["ray"] if args.ray else []), *(["mini"] if args.peer else [])]
    print(f"{args.steps} steps at {args.latency * 1000:.0f} ms, {args.rounds} tasks a worker; tasks a minute")
    for workers in args.workers:
        ideal = workers * 60 / ((args.steps + 1) * args.latency)
        for name in names:
            found = measure(name, workers, args)
            rate, cpu = found.tasks * 60 / found.seconds, found.cpu_s / found.tasks
            used = f"{cpu - found.start_cpu_s / found.tasks:.3f} s a task, {cpu:.3f} with start-up"
            print(
                f"{workers:3} workers  {name:6} {rate:7.1f} = {rate / ideal:5.1%} of ideal {ideal:.0f}"
                f"   CPU {used if name != 'ray' else 'unknown: its processes outlive the driver'}"
                f"   memory +{found.memory_mb:.0f} MB   wall {found.wall_s:.1f} s"
            )


def measure(name: str, workers: int, args: argparse.Namespace) -> Figures:
    tasks = workers * args.rounds
    own = [sys.executable, "-m", "benchmarks.batch", "--serve", "--steps", str(args.steps)]
    own += ["--latency", str(args.latency), "--last", FINISH_MINI if name == "mini" else ""]
    server = subprocess.Popen(own, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        env = os.environ | {"TINYAGENT_HOME": str(folder / "home"), "OPENAI_API_KEY": "none"}
        if name == "floor":
            argv = [sys.executable, "-c", FLOOR, url, str(workers), str(tasks)]
        elif name == "mini":
            argv = [args.peer.removeprefix("mini="), "-c", MINI, url, str(workers), str(tasks), place]
            env |= {"MSWEA_CONFIGURED": "true", "MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        else:
            argv = batch_argv(name, url, workers, tasks, folder)
        started = time.monotonic()
        process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        watch = Watch(process.pid, server.stdout)
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        peak = watch.stop()
        start_cpu = watch.start_cpu_s
    first, last, requests = json.loads(server.communicate(b"end\n")[0])
    if process.returncode or requests != tasks * (args.steps + 1):
        raise SystemExit(f"{name} ended with {process.returncode} after {requests} requests: {errors.decode()[-2000:]}")
    return Figures(last - first, start_cpu, usage.ru_utime + usage.ru_stime, wall, peak, tasks)


def batch_argv(name: str, url: str, workers: int, tasks: int, folder: Path) -> list[str]:
    rows = [json.dumps({"id": f"t{n}", "task": "Do it."}) for n in range(tasks)]
    (folder / "tasks.jsonl").write_text("\n".join(rows), encoding="utf-8")
    argv = [sys.executable, "-m", "tinyagent", "batch", str(folder / "tasks.jsonl"), "-o", str(folder / "out")]
    argv += ["-w", str(workers), "-m", "openai/bench", "--base-url", url, "--api", "openai", "--cost-limit", "0"]
    return [*argv, "--context-window", "100000", "--executor", name]


class Watch:
    """Samples the memory of a process and all below it. `begun` is a pipe that tells of the first request."""

    def __init__(self, pid: int, begun: IO[bytes]) -> None:
        self.start_cpu_s = 0.0
        self._pid = pid
        self._before_mb = self._highest_mb = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, args=(begun,))
        self._thread.start()

    def stop(self) -> float:
        """Megabytes of the highest sample above what was there before the first task."""
        self._over.set()
        self._thread.join()
        return max(0.0, self._highest_mb - self._before_mb)

    def _sample(self, begun: IO[bytes]) -> None:
        while not select.select([begun], [], [], 0.1)[0]:
            pids = below(self._pid)
            if len(pids) <= DRIVER_AND_SERVER:
                self._before_mb = sum(map(proportional_mb, pids))
        begun.readline()
        self.start_cpu_s = sum(map(cpu_s, below(self._pid)))
        while not self._over.wait(2.5):  # seldom: a look at 32 runs takes 50 ms of CPU time
            self._highest_mb = max(self._highest_mb, sum(map(proportional_mb, below(self._pid))))


def below(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with suppress(OSError):
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_s(pid: int) -> float:
    """Of a process and of those below it that have ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def proportional_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


async def serve(steps: int, latency: float, last: str) -> None:
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
                if not times:
                    print("begun", flush=True)
                times.append(time.monotonic())
                await asyncio.sleep(latency)
                writer.write(reply(body, steps, last))
                await writer.drain()
                times.append(time.monotonic())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps([min(times, default=0), max(times, default=0), len(times) // 2]), flush=True)
    os._exit(0)


def reply(body: bytes, steps: int, last: str) -> bytes:
    """The next step; after all of them the end, which for some agents is a command."""
    number = len(ASSISTANT.findall(body)) + 1
    message: dict[str, object] = {"role": "assistant", "content": f"Step {number}."}
    command = f"echo {number}" if number <= steps else last
    if command:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    finish = "tool_calls" if command else "stop"
    usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 20, "total_tokens": len(body) // 4 + 20}
    if not STREAM.search(body):
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
