"""The process runner by itself."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sandboxes.engines import environment
from tests.sandboxes.processes import alive, comes_alive, long_sleep
from tinyagent.core.errors import SandboxLost
from tinyagent.core.types import Completed
from tinyagent.sandboxes.process import run_process
from tinyagent.security.environment import child_environment

PROJECT = Path(__file__).parents[2]


def bash(command: str, cwd: Path, *, timeout_s: float = 20, max_bytes: int = 10_000, **options) -> Completed:
    options.setdefault("env", environment())
    return run_process(["bash", "-c", command], cwd=cwd, timeout_s=timeout_s, max_bytes=max_bytes, **options)


def test_a_flood_of_output_keeps_memory_flat_and_the_time_limit_sharp(tmp_path: Path):
    """R10 zero#469 (12.4 GB for `timeout 10 yes`), R11 kimi-code#1285."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = bash("yes", tmp_path, timeout_s=1.5)
    assert result.timed_out
    assert result.duration_s < 2.5
    assert result.output_bytes > 50_000_000
    assert len(result.output) < 10_100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 50_000


def test_cutting_never_parts_a_character(tmp_path: Path):
    """R14: U+FFFD at the edges of chunks and cuts."""
    result = bash("for ((i = 0; i < 3000; i++)); do printf '汉😀é'; done", tmp_path, max_bytes=5_001)
    assert result.output_bytes == 3_000 * 9
    assert "\ufffd" not in result.output


def test_a_signal_is_named(tmp_path: Path):
    result = bash("kill -SEGV $$", tmp_path)
    assert (result.exit_code, result.signal) == (139, "SIGSEGV")


def test_a_time_limit_lets_a_command_clean_up_first(tmp_path: Path):
    result = bash("trap 'echo cleaned; exit' TERM; echo begun; while :; do sleep 0.05; done", tmp_path, timeout_s=0.5)
    assert result.timed_out
    assert result.output.endswith("cleaned\n")


def test_a_command_that_ignores_the_polite_signal_is_killed_after_the_grace(tmp_path: Path):
    result = bash("trap '' TERM; while :; do :; done", tmp_path, timeout_s=0.3, grace_s=0.2)
    assert result.timed_out
    assert 0.5 <= result.duration_s < 2


def test_an_interrupt_ends_the_whole_tree_and_is_passed_on(tmp_path: Path):
    """R23. The command itself sends the signal, so it comes while the runner waits for it."""
    child, detached = long_sleep(), long_sleep()
    command = f"{child} & setsid {detached} & sleep 0.1; kill -INT {os.getpid()}; sleep 60"
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            bash(command, tmp_path)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not alive(child)
    assert not alive(detached)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of Popen, which is cut off
def test_an_interrupt_while_the_command_is_being_started_leaves_nothing(tmp_path: Path):
    """The command interrupts at once, so it often comes before Popen has returned."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(8):
            sleeper = long_sleep()
            with pytest.raises(KeyboardInterrupt):
                bash(f"setsid {sleeper} & kill -INT {os.getpid()}; sleep 60", tmp_path)
            assert not alive(sleeper)
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a file that was being opened
def test_a_second_interrupt_cuts_the_grace_short_and_leaves_nothing(tmp_path: Path):
    """R23: first = clean stop, second = hard stop. Here the command answers the polite signal with the second one."""
    sleeper, interrupt = long_sleep(), f"kill -INT {os.getpid()}"
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            bash(
                f"setsid {sleeper} & trap '{interrupt}; sleep 60' TERM; sleep 0.2; {interrupt}; sleep 60",
                tmp_path,
                grace_s=30,
            )
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not alive(sleeper)
    assert time.monotonic() - started < 10


def test_an_agent_inside_a_command_is_ended_with_all_that_it_started(tmp_path: Path):
    """R29: the inner agent's commands carry the outer mark too, also when it dies without cleaning up."""
    inner = long_sleep()
    script = (
        "import os, signal; from pathlib import Path; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "from tinyagent.sandboxes.process import run_process\n"
        "from tinyagent.security.environment import child_environment\n"
        "env = child_environment(os.environ, key_names=[])\n"
        f"argv = {['setsid', '--wait', *inner.split()]}\n"
        "run_process(argv, cwd=Path('.'), env=env, timeout_s=60, max_bytes=10)\n"
    )
    env = environment() | {"PYTHONPATH": str(PROJECT)}
    result = run_process([sys.executable, "-c", script], cwd=tmp_path, env=env, timeout_s=2, max_bytes=2_000)
    assert result.timed_out, result.output
    assert not alive(inner)


def test_a_background_process_survives_the_end_of_its_command_and_its_own_output(tmp_path: Path):
    """A server that logs to the command's output must not break on its next line."""
    os.mkfifo(tmp_path / "finished")
    server = "sleep 0.3; for ((i = 0; i < 2000; i++)); do echo 'more bytes in all than any pipe takes'; done"
    bash(f"(trap '' PIPE; {server}; echo $? > finished) & echo up", tmp_path)
    assert (tmp_path / "finished").read_text() == "0\n"


def test_closed_output_does_not_end_the_waiting(tmp_path: Path):
    result = bash("exec > /dev/null 2>&1; sleep 0.3; exit 5", tmp_path)
    assert result.exit_code == 5
    assert result.duration_s >= 0.3


def test_the_command_is_the_first_to_be_killed_when_memory_runs_out(tmp_path: Path):
    """R19 claude-code#70204. Set once the command runs, which may see the moment before."""
    result = bash("until grep -qx 500 /proc/self/oom_score_adj; do :; done; echo set", tmp_path)
    assert result.output.strip() == "set"


def test_a_memory_hog_is_a_result(tmp_path: Path):
    """R19: with a limit of its own, as the user's shell may set one."""
    result = bash("ulimit -v 100000; x=$(head -c 500000000 /dev/zero | tr '\\0' a)", tmp_path)
    assert result.exit_code not in (0, None)
    assert "cannot allocate" in result.output


def test_a_bounded_fork_bomb_is_dead_after_its_time_limit(tmp_path: Path):
    """R19."""
    sleeper = long_sleep()
    result = bash(f"for ((i = 0; i < 60; i++)); do setsid {sleeper} & done; wait", tmp_path, timeout_s=1)
    assert result.timed_out
    assert not alive(sleeper)


@pytest.mark.parametrize(
    "command",
    [
        "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty",
        "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a && git rebase -i --root",
        "git push https://127.0.0.1:1/x.git HEAD",
        "sudo -k true",
        "read -r line < /dev/tty",
        "crontab -e",
    ],
)
def test_programs_that_want_a_person_end_at_once_with_an_error(tmp_path: Path, command: str):
    """R4 pi#298, crush#3025; the user's own settings do not win."""
    environ = {**os.environ, "EDITOR": "vim", "VISUAL": "vim", "GIT_EDITOR": "vim", "PAGER": "less"}
    result = bash(command, tmp_path, env=child_environment(environ, key_names=[]), timeout_s=15)
    assert result.exit_code not in (0, None), result.output
    assert result.output.strip()


def test_a_pager_never_waits(tmp_path: Path):
    result = bash(
        "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m m && git log", tmp_path
    )
    assert result.exit_code == 0
    assert " m\n" in result.output


def test_no_interpreter_at_all_is_a_lost_sandbox(tmp_path: Path):
    with pytest.raises(SandboxLost, match="cannot start bash"):
        bash("true", tmp_path, env={"PATH": str(tmp_path)})


def test_a_result_with_any_bytes_is_valid_json(tmp_path: Path):
    """R13: 4 KB of random bytes."""
    result = bash("head -c 4096 /dev/urandom", tmp_path)
    assert json.loads(json.dumps(result.output).encode()) == result.output
    assert result.output_bytes == 4096


def test_a_spool_that_cannot_be_written_costs_the_file_only(tmp_path: Path):
    result = bash("seq 1000", tmp_path, max_bytes=500, spool=tmp_path / "missing" / "spool")
    assert result.output.startswith("1\n2\n")
    assert "could not be written" in result.output


def test_no_file_descriptor_stays_open(tmp_path: Path):
    bash("true", tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        bash("echo x", tmp_path)
        bash("sleep 5", tmp_path, timeout_s=0.05)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_under_bubblewrap_a_killed_agent_leaves_nothing_behind(tmp_path: Path):
    """R25."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
    sleeper = long_sleep()
    script = (
        "from pathlib import Path; import os\n"
        "from tinyagent.sandboxes.bubblewrap import BubblewrapSandbox\n"
        f"with BubblewrapSandbox(Path({str(tmp_path)!r}), env=dict(os.environ)) as sandbox:\n"
        f"    sandbox.run('setsid {sleeper}', timeout_s=60, max_bytes=10)\n"
    )
    env = environment() | {"PYTHONPATH": str(PROJECT)}
    agent = subprocess.Popen([sys.executable, "-c", script], env=env, cwd=tmp_path)
    assert comes_alive(sleeper)
    agent.kill()
    agent.wait()
    deadline = time.monotonic() + 5
    while alive(sleeper) and time.monotonic() < deadline:
        pass
    assert not alive(sleeper)
