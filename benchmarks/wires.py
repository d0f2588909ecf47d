"""What the wires cost: writing a long history, reading a long stream, and what a run imports.

    python -m benchmarks.wires [--megabytes 1] [--events 10000]

Writing is compared with `json.dumps` of the same body, as text and as the UTF-8 bytes that HTTP needs. Cold: nothing is
known yet, as for the first request after a resume. Warm: one more turn, as in each step. Reading is a whole stream of
events as a server sends it, through the same reader as in a run. CPU times, the best of several.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.fake_provider import FakeProvider
from tests.fake_wires import Call, Count, Say, frames
from tinyagent.core.types import AssistantMessage, Message, Request, ToolCall, ToolMessage, ToolSpec, UserMessage
from tinyagent.models.reading import AnswerReader
from tinyagent.models.wire import Api, MessageCache, WireOptions
from tinyagent.models.wires import WIRES

APIS: tuple[Api, ...] = ("anthropic", "openai", "responses", "ollama")
PACKAGE = Path(__file__).parent.parent / "tinyagent"
OUTPUT_CHARS = 3_000
BASH = ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
MEASURE = (
    "import sys, time; sys.argv[1:] = {arguments!r}; started = time.process_time()\n"
    "from tinyagent.cli.app import command_line\n"
    "code = command_line(sys.argv[1:])\n"
    "sdks = sorted({{'anthropic', 'openai', 'httpx', 'httpx2'}} & set(sys.modules))\n"
    "print(code, f'{{time.process_time() - started:.2f}}', *sdks, file=sys.stderr)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--events", type=int, default=10_000)
    args = parser.parse_args()
    messages = history(int(args.megabytes * 1e6))
    print("writing, ms:   json.dumps   to bytes       cold   x dumps   x bytes       warm")
    for api in APIS:
        print(f"{api:13}", writing(api, messages))
    print(f"\nreading {args.events:,} events, s:")
    for api in APIS:
        print(f"{api:13} {reading(api, args.events):10.2f}")
    print("\nCPU seconds of a run of one step, and what it imported:")
    for transport in ("httpx", "sdk"):
        for api in ("openai", "anthropic"):
            print(f"{api:10} {transport:6}", a_run(api, transport))


def history(size: int) -> list[Message]:
    """Turns of one call each that read this package's own source, again and again, of so many characters in all."""
    source = "".join(path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py")))
    messages: list[Message] = [UserMessage("Fix the failing test.", "task")]
    for number, start in enumerate(range(0, size, OUTPUT_CHARS)):
        at = start % (len(source) - OUTPUT_CHARS)
        call = ToolCall(f"call_{number}", "bash", {"command": f"sed -n '1,100p' src/module_{number}.py"})
        messages.append(AssistantMessage(f"Step {number}: I read on.", (call,), "tool_calls"))
        messages.append(ToolMessage(call.id, "bash", source[at : at + OUTPUT_CHARS]))
    return messages


def writing(api: Api, messages: list[Message]) -> str:
    wire, options, cache = WIRES[api], WireOptions(api, "m"), MessageCache()
    request = Request("You are a coding agent.", tuple(messages), (BASH,), 8_192)
    body = json.loads(wire.encode(request, options, cache=cache))
    dumped = best(lambda: json.dumps(body))
    to_bytes = best(lambda: json.dumps(body, ensure_ascii=False).encode())
    cold = best(lambda: wire.encode(request, options))
    warm = best(lambda: wire.encode(request, options, cache=cache))
    ratios = f"{cold / dumped:9.2f} {cold / to_bytes:9.2f}"
    return f"{dumped * 1e3:11.2f} {to_bytes * 1e3:10.2f} {cold * 1e3:10.2f} {ratios} {warm * 1e3:10.2f}"


@dataclass
class Recorded:
    """An answer that came in earlier."""

    body: list[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def chunks(self) -> Iterator[bytes]:
        return iter(self.body)

    def drain(self) -> None:
        return


def reading(api: Api, events: int) -> float:
    """Seconds for a reply of so many events, two thirds of them text, the others a call."""
    command = "x" * (12 * (events // 3))
    say = Say("word and so " * (events - events // 3), (Call("write", {"content": command}, "call_1"),))
    sent = list(frames(api, say, Count(1_000, 2 * events), "m"))
    options = WireOptions(api, "m")

    def read() -> None:
        reader = AnswerReader(WIRES[api], options, now=lambda: datetime.now(UTC))
        reply = reader.read(Recorded(sent), lambda text: None)
        assert reply.message.tool_calls[0].arguments == {"content": command}

    return best(read, times=3)


def a_run(api: str, transport: str) -> str:
    with FakeProvider(["Done."]) as server:
        arguments = ["-q", "-m", f"{api}/bench", "--base-url", server.base_url(api), "--cost-limit", "0"]
        arguments += ["--context-window", "100000", "-s", f"transport={transport}", "Say done."]
        script = MEASURE.format(arguments=arguments)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stderr.strip().splitlines()[-1]


def best(function: Callable[[], object], *, times: int = 15) -> float:
    """CPU seconds of the quickest call."""
    taken: list[float] = []
    for _ in range(times):
        started = time.process_time()
        function()
        taken.append(time.process_time() - started)
    return min(taken)


if __name__ == "__main__":
    main()
