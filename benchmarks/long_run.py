"""Runs that are long in steps or in output: flat steps, a linear journal, flat memory, and reading it all again.

    python -m benchmarks.long_run [--steps 2000] [--output-bytes 1000] [--flood-mb 300]

The window is large enough that nothing is compacted. `late / early` is the median step of the last fifth to that of the
second and third tenth; the floor beside it writes its whole history as JSON each time. `growth` is the last quarter of
the journal to its first: 1 is linear. The flood is one command with so much output. CPU of the reading commands is of
the whole process, the best of three.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.scripted import REPOSITORY, Program, Ran, Script, Server, environment, floor, run, run_alone, tinyagent

WINDOW = 100_000_000
SHOW_GOAL_S = 0.5
FLOOD_GOAL_MB = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--output-bytes", type=int, default=1000)
    parser.add_argument("--flood-mb", type=int, default=300)
    args = parser.parse_args()
    flood(args.flood_mb)
    command = f"head -c {args.output_bytes} /dev/zero | tr '\\0' x"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        base, _ = one_run("floor", Script(args.steps, command), folder)
        ours, program = one_run("tinyagent", Script(args.steps, command), folder)
        print(f"{args.steps} steps, {args.output_bytes} bytes of output each:")
        for name, ran in (("floor", base), ("tinyagent", ours)):
            print(f"  {name:10} {words(ran, args.steps)}")
        home, export = program.written
        (journal,) = home.rglob("journal.jsonl")
        print(f"  journal {journal.stat().st_size / 1e6:.2f} MB, growth {growth(journal):.3f}")
        for source in (journal, export):
            show = ["show", str(source), "--step", str(args.steps // 2)]
            print(f"  show --step {show[-1]} of the {source.suffix[1:]}: {command_cpu(show)}, goal {SHOW_GOAL_S} s")
        print(f"  replay --check: {command_cpu(['replay', str(journal), '--check'])}")


def flood(megabytes: int) -> None:
    """One command whose output no memory should hold."""
    with tempfile.TemporaryDirectory() as place:
        quiet, _ = one_run("tinyagent", Script(1, "echo"), Path(place))
    with tempfile.TemporaryDirectory() as place:
        ran, _ = one_run("tinyagent", Script(1, f"yes 0123456789abcdef | head -c {megabytes}000000"), Path(place))
    peaks = f"peak {ran.cost.peak_mb:.0f} MB, with one line {quiet.cost.peak_mb:.0f} MB, goal {FLOOD_GOAL_MB} MB"
    print(f"{megabytes} MB of output: {peaks}; CPU {ran.cost.cpu_s - quiet.cost.cpu_s:.1f} s, the command's included")


def one_run(name: str, script: Script, folder: Path) -> tuple[Ran, Program]:
    with Server(script) as server:
        program = floor(server.url, folder) if name == "floor" else tinyagent(server.url, folder, window=WINDOW)
        return run(program, server, folder), program


def words(ran: Ran, steps: int) -> str:
    cpu_ms = ran.cost.cpu_s * 1000 / steps
    flat = f"late / early {ran.late_over_early:.2f}, CPU a step {cpu_ms:.1f} ms"
    return f"{flat}, {ran.cost.peak_mb:.0f} MB, exit {ran.exit_s:.2f} s"


def growth(journal: Path) -> float:
    """By the places where requests are recorded."""
    data = journal.read_bytes()
    sizes = [b - a for a, b in pairwise(found.start() for found in re.finditer(rb'"event":"model_called"', data))]
    quarter = len(sizes) // 4
    return sum(sizes[-quarter:]) / sum(sizes[:quarter])


def command_cpu(arguments: Sequence[str]) -> str:
    program = Program([sys.executable, "-m", "tinyagent", *arguments], environment())
    return f"{min(run_alone(program, REPOSITORY).cpu_s for _ in range(3)):.2f} s of CPU"


if __name__ == "__main__":
    main()
