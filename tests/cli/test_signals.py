"""Ctrl-C, SIGTERM and SIGHUP: a clean end, dead children, a valid record."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.cli.program import Program, Script, end


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
