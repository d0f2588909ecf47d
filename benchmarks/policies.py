"""What our context policies keep of what an agent later needed, beside six simple ones, on recorded runs; no model.

    python -m benchmarks.policies FOLDER_WITH_REPLAYS [--window 32000 64000 128000]

The folder's own recall.py defines the measure and the six policies (its tokens are characters / 4): recall, far recall
(what was last seen more than half a window ago), cost with a prompt cache, and the runs whose every request stayed in
the window. Ours play the same runs through the real agent, on a server that counts in that way. Stages that ask a model
for a summary cannot be measured so.
"""

import argparse
import importlib.util
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.compaction.replays import play, read_replays, script_of
from tests.harness import OVERHEAD, ToyModel, World, text_of
from tinyagent.compaction.plan import ContextPolicy

OURS: dict[str, ContextPolicy] = {
    "elide+prune": ContextPolicy(stages=("elide", "prune")),
    "prune": ContextPolicy(stages=("prune",)),
}
Figures = dict[str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--window", type=int, nargs="*", default=[32_000, 64_000, 128_000])
    args = parser.parse_args()
    recall = load(args.folder / "recall.py")
    runs = read_replays(args.folder)
    for window in args.window:
        long = [run for run in runs if run["stats"]["tokens"] > window]
        print(f"W {window:,}: {len(long)} runs\n  policy        recall    far   input M  cached   cost M  in W  passes")
        for name in recall.POLICIES:
            show(name, [recall.run_one(run, name, window) for run in long], window)
        for name, policy in OURS.items():
            show(name, [run_ours(recall, run, policy, window) for run in long], window)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def show(name: str, rows: Sequence[Figures], window: int) -> None:
    total = {key: sum(row.get(key, 0) for row in rows) for key in (*rows[0], "passes")} if rows else {}
    if not total:
        return
    cost = 1.25 * (total["input"] - total["cached"]) + 0.1 * total["cached"]
    print(
        f"  {name:12}  {total['kept'] / max(1, total['needed']):.3f}  {total['far_kept'] / max(1, total['far']):.3f}"
        f"  {total['input'] / 1e6:8.1f}  {total['cached'] / total['input']:6.1%}  {cost / 1e6:7.1f}"
        f"  {sum(row['peak'] <= window for row in rows):4}  {total['passes']:6}"
    )


def run_ours(recall: ModuleType, run: Any, policy: ContextPolicy, window: int) -> Figures:
    model = ToyModel(script_of(run), window=window, obeys=False)  # what was said is said, whatever there is room for
    model.count = lambda text: len(text) // 4
    world = World(model=model, window=window, policy=policy, system=run["system"] or "-", max_output_tokens=1_000)
    end = play(world, run)
    if end.reason != "submitted":
        raise SystemExit(f"{run['id']} ended early: {end.error}")
    answered = [sent for sent, call in zip(model.sent, world.called, strict=True) if not call.error]
    requests = [[sent.request.system, *map(text_of, sent.request.messages)] for sent in answered[: len(run["steps"])]]
    return measure(recall, run, requests, window) | {"passes": len(world.passes)}


def measure(recall: ModuleType, run: Any, requests: Sequence[list[str]], window: int) -> Figures:
    """The same figures as recall.py's, for the texts of each request; one request for each step."""
    out = dict.fromkeys(("needed", "kept", "far", "far_kept"), 0)
    at = size_of(run["system"] + run["task"])
    seen: dict[str, int] = dict.fromkeys(recall.words(run["system"] + run["task"]), 0)

    def saw(text: str) -> None:
        nonlocal at
        seen.update(dict.fromkeys(recall.words(text), at))
        at += size_of(text)

    for step, texts in zip(run["steps"], requests, strict=True):
        if step.get("user"):
            saw(step["user"])
        arguments = " ".join(json.dumps(c["arguments"], ensure_ascii=False) for c in step["tool_calls"])
        needed = {w for w in recall.words(arguments.replace("\\n", "\n").replace("\\t", "\t")) if w in seen}
        far = {w for w in needed if at - seen[w] > window * 0.5}
        present: set[str] = set().union(*map(recall.words, texts))
        out["needed"] += len(needed)
        out["kept"] += len(needed & present)
        out["far"] += len(far)
        out["far_kept"] += len(far & present)
        saw(step["assistant_text"] + " " + arguments)
        for result in step["results"]:
            saw(result["output"])
    sizes = [sum(map(size_of, texts)) for texts in requests]
    cached = sum(common_prefix(one, two) for one, two in pairwise(requests))
    return out | {"input": sum(sizes), "cached": cached, "peak": max(sizes)}


def common_prefix(one: Sequence[str], two: Sequence[str]) -> int:
    total = 0
    for ours, theirs in zip(one, two, strict=False):
        if ours != theirs:
            break
        total += size_of(ours)
    return total


def size_of(text: str) -> int:
    return len(text) // 4 + OVERHEAD


if __name__ == "__main__":
    main()
