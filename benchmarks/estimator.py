"""How far the estimate of the next request is from the truth, over recorded agent runs and real tokenizers.

    python -m benchmarks.estimator FOLDER_WITH_REPLAYS [--window 32000]

For every request of every run: the estimate that a live run would have had at that moment (anchored on the usage of the
request before it, calibrated as it went), against the count of a real tokenizer. `low` is the share of requests whose
estimate is below the truth by more than 2 % of the window; `median` the median error after the third request; beside
them characters / 4. Needs splintr-rs (six tokenizers in one wheel).
"""

import argparse
import gzip
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyagent.core.clip import clip
from tinyagent.core.meter import Meter
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

TOKENIZERS = ("o200k_base", "cl100k_base", "llama3", "qwen2", "deepseek_v3", "mistral_v3")
OVERHEAD = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--most", type=int, default=10_000, help="characters of an output that are shown")
    args = parser.parse_args()
    runs = list(replays(args.folder))
    print(f"{len(runs)} runs, window {args.window:,}")
    print(
        f"{'tokenizer':12} {'requests':>8} {'low':>7} {'worst':>7} {'median':>7}   {'chars/4: low':>12} {'median':>7}"
    )
    for name in TOKENIZERS:
        report(name, runs, tokenizer(name), args.window, args.most)


def report(name: str, runs: list[Any], count: Callable[[str], int], window: int, most: int) -> None:
    rows = [row for run in runs for row in measure(messages_of(run, most), count)]
    late = [row for row in rows if row[0] > 3]
    low = [(truth - ours) / window for _, truth, ours, _ in rows]
    plain_low = [(truth - quarter) / window for _, truth, _, quarter in rows]
    median = statistics.median(abs(ours - truth) / truth for _, truth, ours, _ in late)
    plain = statistics.median(abs(quarter - truth) / truth for _, truth, _, quarter in late)
    print(
        f"{name:12} {len(rows):8} {share(low):7.2%} {max(low):7.2%} {median:7.2%}"
        f"   {share(plain_low):12.2%} {plain:7.2%}"
    )


def share(low: list[float]) -> float:
    return sum(value > 0.02 for value in low) / len(low)


def measure(steps: list[list[Message]], count: Callable[[str], int]) -> Iterator[tuple[int, int, int, int]]:
    """Request number, truth, our estimate and characters / 4, for every request."""
    meter, raw, truth, chars = Meter(), 0, 0, 0
    for number, added in enumerate(steps, 1):
        for message in added:
            tokens = message_tokens(message)
            raw += tokens
            reply = isinstance(message, AssistantMessage)
            meter = replace(meter, awaits_reply=False) if reply and meter.awaits_reply else meter.added(tokens)
            truth += count(text_of(message)) + OVERHEAD
            chars += len(text_of(message))
            if reply:
                continue
        if isinstance(added[-1], AssistantMessage):
            continue
        estimate = meter.estimate(raw)
        yield number, truth, estimate, chars // 4
        reply_truth = sum(count(text_of(m)) + OVERHEAD for m in steps[number][:1]) if number < len(steps) else 0
        if meter.believes(truth, raw_total=raw):
            meter = meter.observed(reported_input=truth, context_tokens=truth + reply_truth, raw_total=raw)


def messages_of(run: Any, most: int) -> list[list[Message]]:
    """What each request adds: the reply before it, its results, and what the user said."""
    steps: list[list[Message]] = [[UserMessage(run["system"]), UserMessage(run["task"], "task")]]
    for step in run["steps"]:
        if step.get("user") and step is not run["steps"][0]:
            steps[-1].append(UserMessage(step["user"]))
        calls = tuple(ToolCall(c["id"], c["name"], c["arguments"]) for c in step["tool_calls"])
        results = [ToolMessage(r["id"], "tool", clip(r["output"], most)) for r in step["results"]]
        steps.append([AssistantMessage(step["assistant_text"], calls), *results])
    return steps


def text_of(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        calls = "".join(
            json.dumps({"name": c.name, "arguments": c.arguments}, ensure_ascii=False) for c in message.tool_calls
        )
        return message.text + calls
    return message.text


def replays(folder: Path) -> Iterator[Any]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def tokenizer(name: str) -> Callable[[str], int]:
    import splintr

    known: dict[str, int] = {}
    encode = splintr.Tokenizer.from_pretrained(name).encode

    def count(text: str) -> int:
        if text not in known:
            known[text] = len(encode(text))
        return known[text]

    return count


if __name__ == "__main__":
    main()
