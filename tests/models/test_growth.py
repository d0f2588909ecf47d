"""Time grows with the size of what servers send and no faster, whatever it is made of."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from tests.fake_wires import Call, Count, Json, Say, frames
from tinyagent.models.overflow import classify
from tinyagent.models.reading import AnswerReader
from tinyagent.models.wire import Api, WireOptions
from tinyagent.models.wires import WIRES

SLACK = 2.5  # times the ratio of the sizes: caches and other work on the machine
LEAST_S = 0.002  # what takes less says nothing

HOSTILE = {
    "a word without end": "a",
    "a number without end": "1",
    "parentheses": "(",
    "brackets": "[",
    "braces": "{",
    "objects": '{"a":',
    "quotes": '\\"',
    "backslashes": "\\",
    "tags": "<",
    "scripts": "<html><script>",
    "comments": "<html><!--",
    "lines": "a\n\n",
    "points": "a. ",
    "exceptions": "AError",
    "escapes": "\\u0041",
    "limits": "limit is 1 ",
    "windows": "context exceeds the ",
    "sent": "messages 1 tokens ",
    "parameters": "unsupported parameter x: extra inputs are not permitted ",
    "waits": "rate limit: retry in 11111 ",
    "messages": '[{"message":"context length exceeded"}],',
    "secrets": "x://a:b?key=",
}


def grown(unit: str, chars: int) -> str:
    return (unit * (chars // len(unit) + 1))[:chars]


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the quickest of two."""
    taken: list[float] = []
    for _ in range(2):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_error_answer_is_read_in_linear_time_and_a_huge_one_only_in_part(name: str) -> None:
    def read(chars: int) -> float:
        plain = grown(HOSTILE[name], chars)
        inside = json.dumps({"error": {"message": plain, "code": 400}})
        return seconds(lambda: (classify(400, plain), classify(429, inside)))

    small, large, huge = read(10_000), read(40_000), read(1_000_000)
    assert large < 4 * SLACK * max(small, LEAST_S)
    assert huge < 6 * SLACK * max(small, LEAST_S)  # 60,000 characters are looked at


@pytest.mark.parametrize("depth", [100, 10_000, 500_000])
def test_an_answer_nested_without_end_is_an_answer_like_others(depth: int) -> None:
    text = '{"error":' * depth + '"context length exceeded"' + "}" * depth
    assert seconds(lambda: classify(400, text)) < 0.5
    assert classify(400, text).kind in ("overflow", "bad_request")


@dataclass
class Body:
    chunks_: list[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def chunks(self) -> Iterator[bytes]:
        return iter(self.chunks_)

    def drain(self) -> None:
        return


def reading_time(api: Api, sent: list[bytes]) -> float:
    reader = AnswerReader(WIRES[api], WireOptions(api, "m"), now=lambda: datetime.now(UTC))
    return seconds(lambda: reader.read(Body(sent), lambda text: None))


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("part", ["text", "reasoning", "call"])
def test_a_stream_is_read_in_linear_time(api: Api, part: str) -> None:
    def read(events: int) -> float:
        long = "x" * (12 * events)  # 12 characters an event
        call = (Call("write", {"content": long}, "c1"),)
        say = Say(calls=call) if part == "call" else Say(long) if part == "text" else Say(reasoning=long)
        return reading_time(api, list(frames(api, say, Count(10, 10), "m")))

    small, large = read(500), read(4_000)
    assert large < 8 * SLACK * max(small, LEAST_S)


ODD: dict[str, tuple[Api, Callable[[int], Iterator[Json]]]] = {
    "a name with every piece": (
        "openai",
        lambda n: (
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "bash", "arguments": "}x" * 20}}]}
            for _ in range(n)
        ),
    ),
    "reasoning details": (
        "openai",
        lambda n: ({"reasoning_details": [{"index": 0, "type": "t", "text": "word"}]} for _ in range(n)),
    ),
    "calls": (
        "openai",
        lambda n: (
            {"tool_calls": [{"index": k, "function": {"name": "b", "arguments": "{}"}}]} for k in range(n // 20)
        ),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_stream_is_read_in_linear_time(name: str) -> None:
    api, deltas = ODD[name]

    def read(events: int) -> float:
        chunks: list[Json] = [{"choices": [{"delta": delta}]} for delta in deltas(events)]
        chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        return reading_time(api, [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks])

    small, large = read(500), read(4_000)
    assert large < 8 * SLACK * max(small, LEAST_S)


@pytest.mark.parametrize("api", ["openai", "ollama"])
def test_one_event_in_many_chunks_is_read_in_linear_time(api: Api) -> None:
    def read(chars: int) -> float:
        sent = b"".join(frames(api, Say("x"), Count(10, 10), "m")).replace(b'"x"', b'"' + b"x" * chars + b'"')
        return reading_time(api, [sent[at : at + 500] for at in range(0, len(sent), 500)])

    small, large = read(500_000), read(4_000_000)
    assert large < 8 * SLACK * max(small, LEAST_S)
