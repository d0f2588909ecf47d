"""What bubblewrap and the container engines are told, and what they really keep a command from."""

import os
import shutil
from pathlib import Path

import pytest

from tests.sandboxes.engines import IMAGE, environment, open_sandbox
from tests.sandboxes.processes import alive, comes_alive, long_sleep
from tinyagent.core.errors import SandboxLost
from tinyagent.sandboxes.bubblewrap import BubblewrapSandbox, bubblewrap_argv
from tinyagent.sandboxes.container import ContainerSandbox, Engine, exec_argv, start_argv
from tinyagent.sandboxes.process import run_process

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed: apt-get install bubblewrap"
)


def test_bubblewrap_binds_the_workspace_after_everything_that_could_cover_it():
    argv = bubblewrap_argv(Path("/tmp/work"), home=Path("/nowhere"), share_net=False)
    assert argv[argv.index("--bind") + 1] == "/tmp/work"
    assert argv.index("--bind") > max(argv.index("/tmp"), argv.index("/run"))
    assert "--unshare-all" in argv
    assert "--share-net" not in argv


def test_bubblewrap_shares_the_network_when_told():
    assert "--share-net" in bubblewrap_argv(Path("/w"), home=Path("/nowhere"), share_net=True)


def test_missing_bubblewrap_names_the_package(tmp_path: Path):
    with (
        pytest.raises(SandboxLost, match="install the package `bubblewrap`"),
        BubblewrapSandbox(tmp_path, env={"PATH": str(tmp_path)}),
    ):
        pass


@needs_bubblewrap
def test_bubblewrap_hides_keys_and_keeps_the_machine_and_git_hooks_read_only(tmp_path: Path):
    """S10: real protection is a hidden file. S34: the agent's own rules."""
    home, root = tmp_path / "home", tmp_path / "work"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("secret")
    (home / ".netrc").write_text("secret")
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".tinyagent").mkdir()
    command = (
        "cat ~/.ssh/id_rsa ~/.netrc; touch ~/MARK ../MARK .git/hooks/MARK .tinyagent/MARK /usr/MARK; "
        "touch inside /tmp/inside; : > /dev/tcp/127.0.0.1/9"
    )
    with BubblewrapSandbox(root, env=environment() | {"HOME": str(home)}) as sandbox:
        result = sandbox.run(command, timeout_s=10, max_bytes=10_000)
    assert "secret" not in result.output
    assert not [path for path in tmp_path.rglob("MARK")]
    assert (root / "inside").exists()
    assert not Path("/tmp/inside").exists()


@needs_bubblewrap
def test_bubblewrap_has_no_network(tmp_path: Path):
    """S44 Claude Code CVE-2025-55284."""
    with BubblewrapSandbox(tmp_path, env=environment()) as sandbox:
        assert sandbox.run("cat /proc/net/dev", timeout_s=10, max_bytes=10_000).output.count(":") == 1


def test_a_container_gets_the_workspace_at_its_own_path_and_no_network():
    argv = start_argv("podman", "img", Path("/w"), name="n", variables={"A": "1"}, share_net=False, user="1000:1000")
    assert argv[:3] == ["podman", "run", "--detach"]
    assert argv[argv.index("--volume") + 1] == "/w:/w"
    assert argv[argv.index("--network") + 1] == "none"
    assert argv[argv.index("--env") + 1] == "A=1"
    assert argv[argv.index("--user") + 1] == "1000:1000"
    assert argv.index("img") > argv.index("--user")


def test_a_command_in_a_container_is_one_argument():
    """S31: argv only."""
    argv = exec_argv("docker", "n", Path("/w"), "echo 'a b'; $(x)", mark="m")
    assert argv[:2] == ["docker", "exec"]
    assert argv[-1] == "echo 'a b'; $(x)"


def test_a_missing_engine_is_named(tmp_path: Path):
    sandbox = ContainerSandbox(tmp_path, env={"PATH": str(tmp_path)}, image="x", engine="podman")
    with pytest.raises(SandboxLost, match="podman is not installed"), sandbox:
        pass


def test_the_container_of_a_killed_agent_makes_way_for_the_next_one(tmp_path: Path):
    """An engine that knows names, in a few lines: what a killed sandbox leaves is the container of its name."""
    engine = tmp_path / "docker"
    engine.write_text(
        f"#!/bin/bash\ncd {tmp_path}\n"
        'if [ $1 = rm ]; then rm -f "${@: -1}.container"; exit 0; fi\n'
        "[ $1 = run ] || exit 0\n"
        'while [ $1 != --name ]; do shift; done\nset -o noclobber\n(echo > "$2.container") 2> /dev/null && exit 0\n'
        'echo "Conflict. The container name \\"/$2\\" is already in use by container \\"1\\"."; exit 125\n'
    )
    engine.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def sandbox() -> ContainerSandbox:
        return ContainerSandbox(tmp_path, env=env, image="img", engine="docker", mark="a-1")

    sandbox().__enter__()  # and never left
    assert [path.name for path in tmp_path.glob("*.container")] == ["tinyagent-a-1.container"]
    with sandbox():
        assert len(list(tmp_path.glob("*.container"))) == 1
    assert not list(tmp_path.glob("*.container"))


@pytest.mark.containers
@pytest.mark.parametrize("engine", ["podman", "docker"])
class TestContainers:
    def test_what_a_stopped_client_leaves_inside_is_ended(self, engine: Engine, tmp_path: Path):
        sleeper = long_sleep()
        with open_sandbox(engine, tmp_path) as sandbox:
            assert isinstance(sandbox, ContainerSandbox)
            argv = sandbox.argv(f"setsid {sleeper} > /dev/null 2>&1 &", mark="outer.7")
            run_process(argv, cwd=tmp_path, env=os.environ, timeout_s=20, max_bytes=1_000)
            assert comes_alive(sleeper)
            sandbox.end_command("outer.8")
            assert alive(sleeper)
            sandbox.end_command("outer.7")
            assert not alive(sleeper)

    def test_a_container_that_is_gone_is_a_lost_sandbox(self, engine: Engine, tmp_path: Path):
        with open_sandbox(engine, tmp_path) as sandbox:
            assert isinstance(sandbox, ContainerSandbox)
            name = next(word for word in sandbox.argv("true", mark="m") if word.startswith("tinyagent-"))
            run_process([engine, "rm", "-f", name], cwd=tmp_path, env=os.environ, timeout_s=60, max_bytes=1_000)
            with pytest.raises(SandboxLost, match="is gone"):
                sandbox.run("true", timeout_s=20, max_bytes=1_000)

    def test_files_outside_the_workspace_are_the_containers_not_ours(self, engine: Engine, tmp_path: Path):
        with open_sandbox(engine, tmp_path) as sandbox, pytest.raises(ValueError, match="outside the workspace"):
            sandbox.read_bytes("/etc/passwd", max_bytes=100_000)

    def test_an_image_that_cannot_be_had_is_named(self, engine: Engine, tmp_path: Path):
        open_sandbox(engine, tmp_path)
        with (
            pytest.raises(SandboxLost, match="no-such-image"),
            ContainerSandbox(tmp_path, env=dict(os.environ), image=f"localhost/{IMAGE}-no-such-image", engine=engine),
        ):
            pass
