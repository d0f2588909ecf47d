"""What every sandbox does alike: the contract of `core.types.Sandbox`."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandboxes.engines import open_sandbox
from tests.sandboxes.processes import alive, comes_alive, long_sleep
from tinyagent.core.errors import SandboxLost
from tinyagent.core.types import Completed, Sandbox

KINDS = [
    "local",
    "bubblewrap",
    pytest.param("podman", marks=pytest.mark.containers),
    pytest.param("docker", marks=pytest.mark.containers),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def sandbox(kind: str, root: Path) -> Iterator[Sandbox]:
    with open_sandbox(kind, root) as opened:
        yield opened


def run(sandbox: Sandbox, command: str, *, timeout_s: float = 20, max_bytes: int = 100_000) -> Completed:
    return sandbox.run(command, timeout_s=timeout_s, max_bytes=max_bytes)


def test_a_command_runs_in_bash_in_the_workspace(sandbox: Sandbox, root: Path):
    result = run(sandbox, "[[ x == x ]] && pwd")
    assert (result.exit_code, result.output) == (0, f"{root}\n")


def test_both_output_streams_come_in_arrival_order(sandbox: Sandbox):
    result = run(sandbox, "echo one; echo two >&2; echo three")
    assert result.output == "one\ntwo\nthree\n"
    assert result.output_bytes == 14


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("exit 7", 7), ("kill -9 $$", 137), ("kill 0", 143), ("exec sleep 0.1", 0), ("no-such-program", 127), ("(", 2)],
)
def test_a_failing_or_killed_shell_is_a_result_and_the_sandbox_lives_on(sandbox: Sandbox, command: str, exit_code: int):
    """R16: mini-swe-agent's FAQ on killed shells."""
    assert run(sandbox, command).exit_code == exit_code
    assert run(sandbox, "echo alive").output == "alive\n"


def test_an_exit_code_of_143_is_no_timeout(sandbox: Sandbox):
    """R20 claude-code 2.1.212."""
    result = run(sandbox, "exit 143")
    assert (result.exit_code, result.timed_out, result.signal) == (143, False, "")


def test_stdin_is_at_its_end_and_there_is_no_terminal(sandbox: Sandbox):
    """R5 prime-agent#2219."""
    result = run(sandbox, "cat; : < /dev/tty")
    assert result.exit_code == 1
    assert result.duration_s < 10


def test_a_background_child_that_holds_the_output_delays_nothing(sandbox: Sandbox):
    """R7 opencode#47350: waiting for the end of the output took as long as the child lived."""
    result = run(sandbox, "setsid sleep 60 & sleep 60 & echo done")
    assert (result.exit_code, result.output) == (0, "done\n")
    assert result.duration_s < 10


def test_a_background_child_that_keeps_writing_delays_nothing(sandbox: Sandbox):
    """R8 opencode#22012."""
    result = run(sandbox, "yes & echo done", max_bytes=1_000)
    assert result.exit_code == 0
    assert result.duration_s < 10


def test_at_its_time_limit_everything_that_a_command_started_is_dead(sandbox: Sandbox):
    child, detached, plain = long_sleep(), long_sleep(), long_sleep()
    result = run(sandbox, f"echo begun; {child} & setsid {detached} & trap '' TERM; {plain}", timeout_s=1)
    assert (result.exit_code, result.timed_out, result.output) == (None, True, "begun\n")
    assert not alive(child)
    assert not alive(detached)
    assert not alive(plain)
    assert result.duration_s < 10


def test_at_its_time_limit_only_this_command_ends(kind: str, sandbox: Sandbox):
    if kind == "bubblewrap":
        pytest.skip("bubblewrap ends background processes with their command")
    server = long_sleep()
    run(sandbox, f"{server} > /dev/null 2>&1 &")
    run(sandbox, "sleep 60", timeout_s=0.5)
    assert alive(server)


def test_leaving_the_sandbox_ends_what_commands_left_running(kind: str, root: Path):
    """R26 codex#8744."""
    child, detached = long_sleep(), long_sleep()
    with open_sandbox(kind, root) as sandbox:
        run(sandbox, f"{child} & setsid {detached} > /dev/null 2>&1 &")
    assert not alive(child)
    assert not alive(detached)


def test_leaving_the_sandbox_ends_commands_of_other_threads(kind: str, root: Path):
    command, results = long_sleep(), []
    with open_sandbox(kind, root) as sandbox:
        thread = threading.Thread(target=lambda: results.append(run(sandbox, command, timeout_s=100)))
        thread.start()
        assert comes_alive(command)
    thread.join(timeout=20)
    assert not alive(command)
    assert not thread.is_alive()


def test_a_closed_sandbox_runs_nothing(kind: str, root: Path):
    with open_sandbox(kind, root) as sandbox:
        pass
    with pytest.raises(SandboxLost, match="closed"):
        run(sandbox, "true")


def test_too_much_output_is_cut_in_the_middle_and_the_true_size_told(sandbox: Sandbox):
    """R10 ANOLISA#2841."""
    result = run(sandbox, "echo first; head -c 300000 /dev/zero; echo; echo last", max_bytes=2_000)
    assert result.output.startswith("first\n")
    assert result.output.endswith("\nlast\n")
    assert "bytes left out" in result.output
    assert result.output_bytes == 300_012


def test_the_whole_output_goes_to_the_spool(sandbox: Sandbox, tmp_path: Path):
    spool = tmp_path / "spool"
    sandbox.run("echo first; head -c 300000 /dev/zero; echo last", timeout_s=20, max_bytes=1_000, spool=spool)
    assert spool.read_bytes() == b"first\n" + bytes(300_000) + b"last\n"
    assert spool.stat().st_mode & 0o777 == 0o600


def test_output_that_is_no_text_is_shown_with_replacement_characters(sandbox: Sandbox):
    """R13."""
    result = run(sandbox, r"printf 'caf\351 \0 \377\376a\0 ok'; exit 3")
    assert result.output == "caf\ufffd \ufffd \ufffd\ufffda\ufffd ok"
    assert (result.exit_code, result.output_bytes) == (3, 14)


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800", f"echo {'x' * 3_000_000}"])
def test_a_command_that_cannot_be_passed_on_is_a_result(sandbox: Sandbox, command: str):
    result = run(sandbox, command)
    assert result.exit_code == 126
    assert "command" in result.output
    assert run(sandbox, "echo alive").output == "alive\n"


def test_a_workspace_that_is_gone_says_so(sandbox: Sandbox, root: Path):
    """R17 claude-code 2.1.203."""
    shutil.rmtree(root)
    with pytest.raises(SandboxLost, match="does not exist any more"):
        run(sandbox, "echo alive")


def test_files_are_written_for_commands_and_read_from_them(sandbox: Sandbox):
    sandbox.write_bytes("new/folder/a.txt", b"one\r\ntwo")
    assert run(sandbox, "cat new/folder/a.txt && echo three > b.txt").output == "one\r\ntwo"
    assert sandbox.read_bytes("b.txt", max_bytes=100) == b"three\n"
    assert sandbox.read_bytes(str(sandbox.root / "b.txt"), max_bytes=100) == b"three\n"


def test_a_replaced_file_keeps_its_mode_and_leaves_no_other_file(sandbox: Sandbox, root: Path):
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    sandbox.write_bytes("run.sh", b"new")
    assert script.read_bytes() == b"new"
    assert script.stat().st_mode & 0o777 == 0o751
    assert [path.name for path in root.iterdir()] == ["run.sh"]


def test_what_is_not_a_regular_file_is_neither_read_nor_replaced(sandbox: Sandbox, root: Path):
    """S49: devices and FIFOs as files. A FIFO without a writer must not block."""
    os.mkfifo(root / "fifo")
    (root / "zero").symlink_to("/dev/zero")
    (root / "folder").mkdir()
    started = time.monotonic()
    for name in ("fifo", "zero", "folder"):
        with pytest.raises((ValueError, OSError)):
            sandbox.read_bytes(name, max_bytes=100)
        with pytest.raises((ValueError, OSError)):
            sandbox.write_bytes(name, b"x")
    assert time.monotonic() - started < 5


def test_a_file_larger_than_asked_is_refused_by_its_size(sandbox: Sandbox, root: Path):
    """S49: a sparse file of 5 GB."""
    with (root / "sparse").open("wb") as file:
        file.truncate(5_000_000_000)
    with pytest.raises(ValueError, match="5,000,000,000 bytes"):
        sandbox.read_bytes("sparse", max_bytes=1_000)


def test_a_planted_link_does_not_lead_a_write_out_of_the_workspace(sandbox: Sandbox, root: Path, tmp_path: Path):
    """S20 Claude Code CVE-2026-39861, S22 Claude Code 2.1.69."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("untouched")
    run(sandbox, f"ln -s {outside} d; ln -s {outside}/file f; ln -s {outside}/new n")
    for path in ("d/x", "f", "n", "d/sub/x", "../outside/x", str(outside / "x")):
        with pytest.raises(ValueError, match="outside the workspace"):
            sandbox.write_bytes(path, b"x")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "untouched"


def test_a_link_inside_the_workspace_is_followed_and_stays(sandbox: Sandbox, root: Path):
    (root / "real").write_text("old")
    (root / "link").symlink_to("real")
    sandbox.write_bytes("link", b"new")
    assert (root / "link").is_symlink()
    assert (root / "real").read_text() == "new"


def test_a_loop_of_links_is_an_error(sandbox: Sandbox, root: Path):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        sandbox.read_bytes("a", max_bytes=10)
