"""Ctrl-C, SIGTERM and SIGHUP: a clean end, dead children, a valid record."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.cli.program import Program, Script, end
from tinyagent.agent import Terminated
from tinyagent.cli.signals import Signals
from tinyagent.core.events import MessageAdded, Record, RunEnded
from tinyagent.core.state import Run
from tinyagent.core.types import UserMessage


def wait_for(path: Path, *, seconds: float = 20) -> str:
    """The file's text as soon as it has some."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path} was not written")


def sleeper(pid_file: Path) -> Script:
    """A command that says its process id and then sleeps."""
    return [{"tool": "bash", "arguments": {"command": f"echo $$ > {pid_file}; sleep 600 & sleep 600"}}]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 143, "terminated"),
    ],
)
def test_a_signal_during_a_command_ends_the_run_cleanly(
    program: Program, number: signal.Signals, code: int, reason: str, tmp_path: Path
) -> None:
    """R22, R23 orca-agent#72, claude-code 2.1.212; crush left SIGTERM unhandled."""
    pid_file, out = tmp_path / "pid", tmp_path / "out.json"
    process = program.start("wait", "-y", "--output-format", "stream-json", "-o", str(out), replies=sleeper(pid_file))
    pid = int(wait_for(pid_file))
    stdout, stderr = end(process, number)
    result = json.loads(stdout.splitlines()[-1])
    assert process.returncode == code, stderr
    assert (result["type"], result["reason"], result["exit_code"]) == ("result", reason, code)
    assert json.loads(out.read_text())["info"]["reason"] == reason
    assert not is_alive(pid)
    assert "Traceback" not in stderr


def test_a_second_interrupt_does_not_spoil_the_end(program: Program, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    process = program.start("wait", "-y", "--output-format", "json", replies=sleeper(pid_file))
    pid = int(wait_for(pid_file))
    process.send_signal(signal.SIGINT)
    stdout, stderr = end(process, signal.SIGINT)
    assert process.returncode == 130, stderr
    assert json.loads(stdout)["reason"] == "interrupted"
    assert not is_alive(pid)
    assert "Traceback" not in stderr


def test_an_ignored_hangup_stays_ignored(program: Program, tmp_path: Path) -> None:
    """nohup."""
    pid_file, go_on = tmp_path / "pid", tmp_path / "go"
    command = f"echo $$ > {pid_file}; while ! test -e {go_on}; do sleep 0.05; done"
    replies: Script = [{"tool": "bash", "arguments": {"command": command}}, {"final": "still here"}]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = program.start("wait", "-y", replies=replies)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for(pid_file)
    process.send_signal(signal.SIGHUP)
    go_on.touch()
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (0, "still here\n")


NEVER_ENDS = """
    import sys, threading, time
    from tinyagent.cli.signals import handled
    with handled(hurry_s=0.2):
        try:
            print("begun", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            print("ending", flush=True)
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
"""


def test_two_interrupts_end_a_run_whose_end_hangs(program: Program) -> None:
    """Found here: it hung in a lock of the HTTP library, which an interrupt had hit."""
    argv = [sys.executable, "-c", textwrap.dedent(NEVER_ENDS)]
    with subprocess.Popen(argv, env=program.environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ending\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


class Ticks:
    def __init__(self, *times: float) -> None:
        self._times = iter(times)

    def __call__(self) -> float:
        return next(self._times)


def raised(signals: Signals, number: signal.Signals) -> str:
    """The name of what a signal raises; "" for nothing."""
    try:
        (signals.on_interrupt if number == signal.SIGINT else signals.on_end)(number, None)
    except (KeyboardInterrupt, Terminated) as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize(
    ("numbers", "seconds", "effects"),
    [
        ([signal.SIGINT, signal.SIGINT], [0.0, 0.9], ["KeyboardInterrupt", ""]),
        ([signal.SIGINT, signal.SIGINT], [0.0, 1.0], ["KeyboardInterrupt", "KeyboardInterrupt"]),
        ([signal.SIGINT, signal.SIGTERM], [0.0, 0.9], ["KeyboardInterrupt", ""]),
        ([signal.SIGTERM, signal.SIGINT], [0.0, 9.0], ["Terminated", ""]),
        ([signal.SIGTERM, signal.SIGTERM], [0.0, 9.0], ["Terminated", ""]),
    ],
)
def test_a_second_signal_does_not_break_the_ending_that_the_first_has_begun(
    numbers: list[signal.Signals], seconds: list[float], effects: list[str]
) -> None:
    signals = Signals(hurry_s=0, clock=Ticks(*seconds))
    signals.is_left = True
    assert [raised(signals, number) for number in numbers] == effects


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_an_event_is_written_comes_after_its_effect(number: signal.Signals) -> None:
    """Found here: the event stood in the journal and not in the state, and was written again. The run was lost."""
    signals, records = Signals(), list[Record]()

    def sink(record: Record) -> None:
        records.append(record)
        if len(records) == 1:
            (signals.on_interrupt if number == signal.SIGINT else signals.on_end)(number, None)

    run = Run(sink=sink, clock=lambda: 1.0, unbroken=signals.unbroken)
    with pytest.raises((KeyboardInterrupt, Terminated)):
        run.emit(MessageAdded(UserMessage("task", "task"), 1))
    assert len(run.state.messages) == 1
    run.emit(RunEnded("interrupted"))
    assert [record.seq for record in records] == [1, 2]
