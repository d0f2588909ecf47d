"""Commands in a container of docker or podman that lives as long as the sandbox."""

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from tinyagent.core.errors import SandboxLost
from tinyagent.core.types import Completed
from tinyagent.sandboxes.local import LocalSandbox, bash_argv
from tinyagent.sandboxes.process import run_process
from tinyagent.sandboxes.tree import TREE_VARIABLE
from tinyagent.security.paths import inside

Engine = Literal["docker", "podman"]

_START_S = 900.0  # the first start may have to fetch the image
_ENGINE_S = 60.0
_MAX_BYTES = 20_000
_IN_USE = "already in use"  # docker and podman of a container's name
# The first process: a shell, because it also reaps orphans. It ends by itself after a day, so that a container whose
# agent was killed does not stay for good.
_IDLE = ["sh", "-c", "trap 'exit 0' TERM; sleep 86400 & wait $!"]
# The engine carries the two output streams apart, and their order would be lost.
_ONE_STREAM = ["sh", "-c", 'exec "$@" 2>&1', "sh"]
# Ends the processes inside whose environment carries the mark: killing the engine's client leaves them running.
_KILL_MARKED = """
again=20
while [ "$again" -gt 0 ]; do
  again=$((again - 1)) found=
  for folder in /proc/[0-9]*; do
    while IFS= read -r -d '' entry; do
      [[ $entry == "$1"=*"$2" ]] && kill -9 "${folder#/proc/}" && found=1
    done < "$folder/environ"
  done 2> /dev/null
  [ -n "$found" ] || break
done
"""


class ContainerSandbox(LocalSandbox):
    """One container for all commands, the workspace mounted at its own path, and no network unless it is shared.

    `env` is the environment of the engine's client, `variables` are set inside. `user` as the engine takes it
    (`1000:1000`); "" leaves the image's own, usually root, to which new files in the workspace then belong.

    Covers: everything outside the workspace and the engine's own rules; what commands leave running, which ends with
    the container. Does not cover: a container whose agent was killed by force lives on for up to a day, or until
    the next sandbox with the same `mark`.
    """

    def __init__(
        self,
        root: Path,
        *,
        env: Mapping[str, str],
        image: str,
        engine: Engine,
        variables: Mapping[str, str] | None = None,
        share_net: bool = False,
        user: str = "",
        mark: str = "",
    ) -> None:
        super().__init__(root, env=env, mark=mark)
        self._engine: Engine = engine
        self._name = f"tinyagent-{mark or secrets.token_hex(6)}"
        self._client_env = dict(env)
        self._start = start_argv(
            engine,
            image,
            self.root,
            name=self._name,
            variables=variables or {},
            share_net=share_net,
            user=user,
        )
        self._image = image

    def __enter__(self) -> Self:
        if shutil.which(self._engine, path=self._client_env.get("PATH")) is None:
            raise SandboxLost(f"{self._engine} is not installed: install it, or choose --sandbox bubblewrap or local")
        if ":" in str(self.root):
            raise SandboxLost(f"{self._engine} cannot mount a folder with a colon in its path: {self.root}")
        try:
            started = self._call(self._start, timeout_s=_START_S)
            if started.exit_code != 0 and _IN_USE in started.output:  # by a container whose agent was killed
                self._call([self._engine, "rm", "-f", "-v", self._name], timeout_s=_ENGINE_S)
                started = self._call(self._start, timeout_s=_START_S)
            if started.exit_code != 0:
                raise SandboxLost(f"{self._engine} could not start the image {self._image}: {_end(started)}")
            probe = self.run("true", timeout_s=_ENGINE_S, max_bytes=_MAX_BYTES)
            if probe.exit_code != 0:
                raise SandboxLost(f"the image {self._image} cannot run bash, which commands need: {_end(probe)}")
        except BaseException:
            self.close()
            raise
        return self

    def run(self, command: str, *, timeout_s: float, max_bytes: int, spool: Path | None = None) -> Completed:
        result = super().run(command, timeout_s=timeout_s, max_bytes=max_bytes, spool=spool)
        if result.exit_code and self._name in result.output and not self._is_running():
            raise SandboxLost(f"the container {self._name} is gone: {_end(result)}")
        return result

    def read_bytes(self, path: str, *, max_bytes: int) -> bytes:
        if not inside(self.root, self.root / path):
            raise ValueError(f"{path} is outside the workspace: read it with a command, which runs in the container")
        return super().read_bytes(path, max_bytes=max_bytes)

    def argv(self, command: str, *, mark: str) -> list[str]:
        return exec_argv(self._engine, self._name, self.root, command, mark=mark)

    def end_command(self, mark: str) -> None:
        kill = ["bash", "-c", _KILL_MARKED, "bash", TREE_VARIABLE, mark]
        self._call([self._engine, "exec", self._name, *kill], timeout_s=_ENGINE_S)

    def close(self) -> None:
        super().close()
        self._call([self._engine, "rm", "-f", "-v", self._name], timeout_s=_ENGINE_S)

    def _is_running(self) -> bool:
        state = [self._engine, "inspect", "-f", "{{.State.Running}}", self._name]
        return self._call(state, timeout_s=_ENGINE_S).output.strip() == "true"

    def _call(self, argv: list[str], *, timeout_s: float) -> Completed:
        return run_process(argv, cwd=Path("/"), env=self._client_env, timeout_s=timeout_s, max_bytes=_MAX_BYTES)


def start_argv(
    engine: Engine,
    image: str,
    root: Path,
    *,
    name: str,
    variables: Mapping[str, str],
    share_net: bool,
    user: str,
) -> list[str]:
    """The engine's command that starts the container."""
    argv = [engine, "run", "--detach", "--rm", "--name", name, "--label", "tinyagent", "--workdir", str(root)]
    argv += ["--volume", f"{root}:{root}", "--entrypoint", _IDLE[0]]
    for key, value in variables.items():
        argv += ["--env", f"{key}={value}"]
    if not share_net:
        argv += ["--network", "none"]
    if user:
        argv += ["--user", user]
    return [*argv, image, *_IDLE[1:]]


def exec_argv(engine: Engine, name: str, root: Path, command: str, *, mark: str) -> list[str]:
    """The engine's command that runs bash in the started container."""
    argv = [engine, "exec", "--workdir", str(root), "--env", f"{TREE_VARIABLE}={mark}", name]
    return [*argv, *_ONE_STREAM, *bash_argv(command)]


def _end(result: Completed) -> str:
    """The last lines of what the engine said; it puts progress first."""
    if result.timed_out:
        return "it did not answer in time"
    return result.output.strip()[-600:]
