"""Ctrl-C, SIGTERM and SIGHUP during requests, commands and passes; pipes that close; children that stay."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.e2e.processes import all_dead, until
from tests.e2e.program import Tinyagent, proven
from tests.e2e.scripts import SUMMARY, bash, files, reads
from tests.fake_provider import FakeProvider, Scripted
from tests.faults import Fault
from tests.generators import text

SMALL = ("--context-window", "8000", "--output-format", "stream-json")
TALK = text("prose", 3_500, 7)
# A command with children that do all they can to stay: another session, no ear for signals.
STUBBORN = (
    "trap '' INT TERM HUP; sleep 71 & echo $! >> pids; setsid sleep 72 & echo $! >> pids; "
    "(trap '' INT TERM HUP; sleep 73) & echo $! >> pids; echo $$ >> pids; touch ready; wait; sleep 74"
)


@dataclass(frozen=True)
class Phase:
    """What a run is doing when the signal comes: its script, what is slow, and how one sees that it has begun."""

    script: Callable[[Tinyagent], list[Scripted]]
    slow: dict[int | str, Fault | str]
    begun: Callable[[Tinyagent, FakeProvider], bool]


def _talks(tinyagent: Tinyagent) -> list[Scripted]:
    return [*reads(files(tinyagent, 8, chars=300), said=TALK), "Done."]


PHASES = {
    "request": Phase(
        lambda tinyagent: [bash("echo here"), "Done."],
        {2: Fault(first_byte_s=30)},
        lambda tinyagent, server: len(server.requests) == 2,
    ),
    "stream": Phase(
        lambda tinyagent: [bash("echo here"), "Done. " * 200],
        {2: Fault(frame_s=0.05)},
        lambda tinyagent, server: len(server.requests) == 2 and server.frames > 20,
    ),
    "command": Phase(
        lambda tinyagent: [bash("echo first", STUBBORN, "echo never"), "Done."],
        {},
        lambda tinyagent, server: (tinyagent.workspace / "ready").exists(),
    ),
    "pass": Phase(
        _talks,
        {"summary": Fault(first_byte_s=30)},
        lambda tinyagent, server: not server.bodies[-1].get("tools") if server.bodies else False,
    ),
    "wait": Phase(
        lambda tinyagent: [bash("echo here"), "Done."],
        {n: Fault(529, {"retry-after": "60"}, '{"error": {"message": "Overloaded"}}') for n in range(2, 9)},
        lambda tinyagent, server: len(server.requests) == 2,
    ),
}
RESUMED = ("request", "stream", "command")  # where the server is well afterwards
ENDS = {
    signal.SIGINT: (130, "interrupted"),
    signal.SIGTERM: (143, "terminated"),
    signal.SIGHUP: (143, "terminated"),
}
CASES = [
    (signal.SIGINT, "request", "anthropic"),
    (signal.SIGINT, "stream", "openai"),
    (signal.SIGINT, "command", "openai"),
    (signal.SIGINT, "pass", "anthropic"),
    (signal.SIGINT, "wait", "openai"),
    (signal.SIGTERM, "request", "openai"),
    (signal.SIGTERM, "command", "anthropic"),
    (signal.SIGTERM, "pass", "openai"),
    (signal.SIGHUP, "request", "anthropic"),
    (signal.SIGHUP, "command", "openai"),
]


def pids(tinyagent: Tinyagent) -> list[int]:
    path = tinyagent.workspace / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.parametrize(("number", "phase", "api"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_signal_ends_the_run_cleanly_at_once(
    tinyagent: Tinyagent, number: signal.Signals, phase: str, api: str
) -> None:
    """R22 orca-agent#72, R23: the tree dead, a `result` line, a valid trajectory, the right code."""
    what = PHASES[phase]
    with FakeProvider(what.script(tinyagent), faults=what.slow, summaries=[SUMMARY]) as server:
        process = tinyagent.start(server, *SMALL, api=api)
        until(lambda: what.begun(tinyagent, server))
        started = time.monotonic()
        process.popen.send_signal(number)
        done = process.done()
        assert time.monotonic() - started < 5
        code, reason = ENDS[number]
        assert all_dead(pids(tinyagent))
        assert (done.code, done.reason, done.info["exit_status"]) == (code, reason, "Interrupted")
        assert done.info["retryable"]
        assert (done.result["type"], done.result["reason"], done.result["exit_code"]) == ("result", reason, code)
        assert "Traceback" not in done.stderr
        proven(done, server)
        resumed = tinyagent.run(server, "-r", "latest", *SMALL, api=api, task=None) if phase in RESUMED else None
    if phase == "stream":  # what was made until then is paid for
        assert done.trajectory["requests"][-1]["usage"]["output_tokens"] > 0
    if phase == "command":
        texts = [m["content"] for m in done.trajectory["messages"] if m["role"] == "tool"]
        assert len(texts) == 3
        assert texts[0].startswith("first\n")
        assert "stopped before this call had a result" in texts[2]
    if resumed is not None:
        assert (resumed.code, resumed.reason) == (0, "submitted")


@pytest.mark.parametrize(("phase", "api"), [("request", "openai"), ("command", "anthropic"), ("pass", "openai")])
def test_ctrl_c_twice_as_a_terminal_sends_it_ends_everything(tinyagent: Tinyagent, phase: str, api: str) -> None:
    """R23: first a clean stop, the second a hard one."""
    what = PHASES[phase]
    with FakeProvider(what.script(tinyagent), faults=what.slow, summaries=[SUMMARY]) as server:
        process = tinyagent.start(server, *SMALL, api=api)
        until(lambda: what.begun(tinyagent, server))
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)
        done = process.done(within_s=10)
    assert done.code == 130
    assert all_dead(pids(tinyagent))
    assert "Traceback" not in done.stderr
    assert done.journal.records[-1].event.__class__.__name__ == "RunEnded"


@pytest.mark.parametrize("number", list(ENDS))
def test_a_signal_in_the_last_moments_changes_nothing(tinyagent: Tinyagent, number: signal.Signals) -> None:
    """Found here: the process died of it after it had said that the run was submitted."""
    with FakeProvider([bash("echo x"), "Done."]) as server:
        process = tinyagent.start(server, *SMALL)
        progress = process.path.with_suffix(".err")
        until(lambda: "finished: " in progress.read_text())
        process.popen.send_signal(number)
        done = process.done()
    assert (done.code, done.result["exit_code"], done.reason) == (0, 0, "submitted")


def test_an_interrupt_during_an_import_does_not_become_the_exit_code(tinyagent: Tinyagent) -> None:
    """Found here: of 45 runs that were interrupted while a module was imported 2 died of SIGINT after a clean end."""
    tinyagent.file(
        "interrupted.py",
        "import contextlib, sys\nfrom tinyagent.__main__ import main\nsys.argv = ['tinyagent', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "with contextlib.suppress(KeyboardInterrupt): exec('raise KeyboardInterrupt')\n"
        "main()\n",
    )
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(
        command, cwd=tinyagent.workspace, env=tinyagent.environ, capture_output=True, check=False, timeout=20
    )
    assert done.returncode == 0


def test_a_reader_that_goes_away_is_no_error(tinyagent: Tinyagent) -> None:
    """R28 blz#150: `tinyagent ... | head -1`."""
    with FakeProvider([*[bash(f"echo {n}; sleep 0.05") for n in range(6)], "Done."]) as server:
        reader = subprocess.Popen(
            [sys.executable, "-c", "print(input())"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert reader.stdin is not None
        process = tinyagent.start(server, *SMALL, stdout=reader.stdin.fileno())
        reader.stdin.close()
        reader.stdin = None
        first, _ = reader.communicate(timeout=20)
        done = process.done()
    assert json.loads(first)["subtype"] == "init"
    assert (done.code, done.reason, len(server.requests)) == (0, "submitted", 7)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(("stream", "code"), [("1", 1), ("2", 0)])
def test_a_full_disk_under_a_stream_costs_no_run(tinyagent: Tinyagent, stream: str, code: int) -> None:
    """An answer that nobody got is an error, progress that nobody saw is none."""
    full = ("bash", "-c", f'exec "$@" {stream}>/dev/full', "-")
    with FakeProvider([bash("echo x"), "Done."]) as server:
        done = tinyagent.start(server, before=full).done()
    assert (done.code, done.reason) == (code, "submitted")
    assert ("stdout cannot be written" in done.stderr) == (stream == "1")


def test_a_background_child_does_not_hold_the_end(tinyagent: Tinyagent) -> None:
    """R26 codex#8744, claude-code 2.1.163: hung after the result."""
    start = bash("sleep 75 & echo $! >> pids", "setsid sleep 76 > /dev/null 2>&1 & echo $! >> pids; exit 0")
    with FakeProvider([start, "Done."]) as server:
        process = tinyagent.start(server)
        until(lambda: len(server.requests) == 2)
        done = process.done(within_s=10)
    assert (done.code, done.stdout) == (0, "Done.\n")
    assert len(pids(tinyagent)) == 2
    assert all_dead(pids(tinyagent))


def test_nohup_keeps_a_run_alive(tinyagent: Tinyagent) -> None:
    what = PHASES["request"]
    with FakeProvider(what.script(tinyagent), faults={2: Fault(first_byte_s=0.5)}) as server:
        process = tinyagent.start(server, environ={}, before=("nohup",))
        until(lambda: what.begun(tinyagent, server))
        process.popen.send_signal(signal.SIGHUP)
        done = process.done()
    assert (done.code, done.reason) == (0, "submitted")
