"""What one run costs beside what it does: start, each step, end, memory, bytes written; the floor in the same run.

    python -m benchmarks.single_run [--steps 200] [--output-bytes 2000] [--repeat 3] [--peer mini=/path/to/python]

A scripted server asks for one command a step. The floor is the plainest loop that does the same: httpx, json and bash
in one Python file. `--peer mini=PYTHON` adds mini-swe-agent, installed for that interpreter, with its own prompt.
Agents take turns, so that all see the same machine; figures are medians, and ratios are what counts: on a busy machine
absolute times are not. CPU is that of the agent and its commands, start and end included, divided by the steps.
Content is the JSON of the messages that the steps added.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scripted import (
    FINISH_MINI,
    REPOSITORY,
    TASK,
    Program,
    Ran,
    Script,
    Server,
    environment,
    floor,
    run,
    size,
    tinyagent,
)

Start = Callable[[str, Path], Program]


@dataclass(frozen=True)
class Figures:
    """Of one run. Bytes are None where nothing is written."""

    first_request_s: float
    exit_s: float
    cpu_step_ms: float
    wall_step_ms: float
    p95_over_median: float
    late_over_early: float
    peak_mb: float
    disk_mb: float
    first_prompt_tokens: int
    cacheable: float
    prefix_kept: bool
    written_over_export: float | None = None
    journal_over_content: float | None = None


@dataclass(frozen=True)
class Line:
    """A line of the table: at most so many times the floor, or at most (`least`: at least) a figure."""

    name: str
    figure: str
    times: float | None = None
    most: float | None = None
    least: float | None = None


LINES = (
    Line("start to first request, s", "first_request_s", times=1.5),
    Line("last reply to exit, s", "exit_s", most=0.15),
    Line("CPU a step, ms", "cpu_step_ms", times=2),
    Line("wall a step, median ms", "wall_step_ms", times=2),
    Line("wall a step, p95 / median", "p95_over_median", most=3),
    Line("wall a step, late / early", "late_over_early", most=1.5),
    Line("peak memory, MB", "peak_mb", times=1.5),
    Line("written to disk, MB", "disk_mb"),
    Line("journal, outputs, export / export", "written_over_export", most=3),
    Line("journal / content of the steps", "journal_over_content", most=1.3),
    Line("first request, o200k tokens", "first_prompt_tokens", most=1500),
    Line("input that was sent before", "cacheable", least=0.99),
    Line("prefix kept byte for byte", "prefix_kept", least=1),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output-bytes", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peer", metavar="mini=PYTHON", help="mini-swe-agent as well, in that interpreter")
    args = parser.parse_args()
    report_commands()
    agents: dict[str, Start] = {"floor": floor, "tinyagent": tinyagent}
    if args.peer:
        agents["mini"] = mini(args.peer.removeprefix("mini="))
    command = f"head -c {args.output_bytes} /dev/zero | tr '\\0' x"
    rows = measure_in_turn(agents, args.steps, command, args.repeat)
    print(f"\n{args.steps} steps, {args.output_bytes} bytes of output each, median of {args.repeat}:\n")
    print(f"{'':34}" + "".join(f"{name:>11}" for name in rows) + "    ratio  goal")
    for line in LINES:
        print(words(line, {name: median(line.figure, taken) for name, taken in rows.items()}))


def report_commands() -> None:
    """Commands that do no work, beside what they cannot do without."""
    python = [sys.executable]
    bare, libraries = ["-c", "pass"], ["-c", "import typer, rich.console"]
    commands = [bare, libraries, ["-m", "tinyagent", "--version"], ["-m", "tinyagent", "--help"]]
    empty, imports, version, shown = wall([[*python, *command] for command in commands])
    print(f"--version {version:.0f} ms: {version / empty:.1f} x bare Python ({empty:.0f} ms), goal 3 x")
    print(f"--help {shown:.0f} ms: {shown / imports:.1f} x typer and rich ({imports:.0f} ms), goal 1.5 x")


def wall(commands: Sequence[Sequence[str]], times: int = 9) -> list[float]:
    """Median milliseconds of whole commands, which take turns; the first turn is not counted."""
    taken: list[list[float]] = [[] for _ in commands]
    for _ in range(times + 1):
        for argv, own in zip(commands, taken, strict=True):
            started = time.monotonic()
            subprocess.run(argv, stdout=subprocess.DEVNULL, env=environment(), cwd=REPOSITORY, check=True)
            own.append((time.monotonic() - started) * 1000)
    return [statistics.median(own[1:]) for own in taken]


def measure_in_turn(agents: dict[str, Start], steps: int, command: str, repeat: int) -> dict[str, list[Figures]]:
    rows: dict[str, list[Figures]] = {name: [] for name in agents}
    for name, start in agents.items():
        measure(name, start, 3, command)  # bytecode and page cache are there from here on
    for _ in range(repeat):
        for name, start in agents.items():
            rows[name].append(measure(name, start, steps, command))
    return rows


def measure(name: str, start: Start, steps: int, command: str) -> Figures:
    last = FINISH_MINI if name == "mini" else ""
    with tempfile.TemporaryDirectory() as place, Server(Script(steps, command, last)) as server:
        folder = Path(place)
        program = start(server.url, folder)
        ran = run(program, server, folder)
        return figures(ran, steps, program)


def figures(ran: Ran, steps: int, program: Program) -> Figures:
    seen, milliseconds = ran.seen, sorted(ran.steps_ms)
    median_ms = statistics.median(milliseconds)
    written_over_export = journal_over_content = None
    if program.written:
        *_, export = program.written
        journals = [path for place in program.written if place.is_dir() for path in place.rglob("journal.jsonl")]
        content = len(seen.history.encode()) - len(seen.first_history.encode())
        written_over_export = size(program.written) / size([export])
        journal_over_content = size(journals) / content if journals else None
    return Figures(
        first_request_s=ran.first_request_s,
        exit_s=ran.exit_s,
        cpu_step_ms=ran.cost.cpu_s * 1000 / steps,
        wall_step_ms=median_ms,
        p95_over_median=milliseconds[int(0.95 * len(milliseconds))] / median_ms,
        late_over_early=ran.late_over_early,
        peak_mb=ran.cost.peak_mb,
        disk_mb=ran.cost.disk_bytes / 1e6,
        first_prompt_tokens=tokens(seen.first_body.decode()),
        cacheable=seen.repeated_chars / seen.sent_chars,
        prefix_kept=seen.prefix_kept,
        written_over_export=written_over_export,
        journal_over_content=journal_over_content,
    )


def tokens(text: str) -> int:
    """Of the whole request body, tool schemas included."""
    import splintr

    return len(splintr.Tokenizer.from_pretrained("o200k_base").encode(text))


def mini(python: str) -> Start:
    """mini-swe-agent 2 through its own command line."""

    def start(url: str, folder: Path) -> Program:
        export = folder / "out.traj.json"
        argv = [python, "-m", "minisweagent", "-m", "openai/bench", "-t", TASK, "-y", "--exit-immediately", "-l", "0"]
        argv += [
            "-c",
            "mini.yaml",
            "-c",
            f"model.model_kwargs.api_base={url}",
            "-c",
            "model.cost_tracking=ignore_errors",
        ]
        config = {"MSWEA_CONFIGURED": "true", "MSWEA_GLOBAL_CONFIG_DIR": str(folder / "home"), "OPENAI_API_KEY": "none"}
        env = environment() | config | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        return Program([*argv, "-o", str(export)], env, [export])

    return start


def median(figure: str, taken: Sequence[Figures]) -> float | None:
    values = [value for one in taken if (value := getattr(one, figure)) is not None]
    return statistics.median(values) if values else None


def words(line: Line, found: dict[str, float | None]) -> str:
    base, ours = found["floor"], found["tinyagent"]
    ratio = ours / base if line.times is not None and ours is not None and base else None
    cells = "".join(f"{'' if value is None else f'{value:.3g}':>11}" for value in found.values())
    times = "" if ratio is None else f"{ratio:.2f} x"
    return f"{line.name:34}{cells}{times:>9}  {verdict(line, ours, ratio)}".rstrip()


def verdict(line: Line, ours: float | None, ratio: float | None) -> str:
    """The goal, and whether it is met."""
    if ratio is not None and line.times is not None:
        return f"{line.times:g} x{'' if ratio <= line.times else ', missed'}"
    if ours is None or (line.most is None and line.least is None):
        return ""
    if line.least is not None:
        return f"at least {line.least:g}{'' if ours >= line.least else ', missed'}"
    return f"{line.most:g}{'' if line.most is None or ours <= line.most else ', missed'}"


if __name__ == "__main__":
    os.environ.pop("TINYAGENT_MODEL", None)
    main()
