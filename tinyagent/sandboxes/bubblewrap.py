"""Commands in a bubblewrap container: the machine read-only, the workspace writable, no network."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tinyagent.core.errors import SandboxLost
from tinyagent.sandboxes.local import LocalSandbox, bash_argv
from tinyagent.security.paths import protected_places, secret_places

_PROBE_S = 10.0


class BubblewrapSandbox(LocalSandbox):
    """Each command in namespaces of its own; entering raises `SandboxLost` with what to do where that is not possible.

    Covers: writes outside the workspace and /tmp; hooks and configuration of git and of the agent; the usual places of
    keys in the home folder; sockets under /run; the network, unless it is shared; every process, however it detaches.
    Does not cover: reading the rest of the machine; faults of the kernel. A background process ends with its command,
    and /tmp is empty at each command's start.
    """

    def __init__(self, root: Path, *, env: Mapping[str, str], share_net: bool = False, mark: str = "") -> None:
        super().__init__(root, env=env, mark=mark)
        self._home = Path(env.get("HOME") or "/root")
        self._path = env.get("PATH")
        self._share_net = share_net

    def __enter__(self) -> Self:
        if shutil.which("bwrap", path=self._path) is None:
            raise SandboxLost(
                "the sandbox `bubblewrap` needs the program bwrap: install the package `bubblewrap` "
                "(apt, dnf, pacman, apk and nix have it), or choose --sandbox local"
            )
        probe = self.run("true", timeout_s=_PROBE_S, max_bytes=2_000)
        if probe.exit_code != 0:
            raise SandboxLost(
                f"bubblewrap cannot make its namespaces here: {probe.output.strip()[:500]}. User namespaces may be "
                "switched off on this machine; choose --sandbox podman or --sandbox local"
            )
        return self

    def argv(self, command: str, *, mark: str) -> list[str]:
        wrap = bubblewrap_argv(self.root, home=self._home, share_net=self._share_net)
        return [*wrap, *bash_argv(command)]


def bubblewrap_argv(root: Path, *, home: Path, share_net: bool) -> list[str]:
    """bwrap and its options; the order matters, a later mount covers an earlier one.

    The workspace is bound at its own path, since nothing can be created under the read-only root. There is no
    --new-session: the runner has already taken the terminal away, and with it the group could not be signalled.
    """
    argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    argv += ["--ro-bind-try", "/run/current-system", "/run/current-system"]  # NixOS: every program's path
    if share_net:
        argv += ["--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"]  # where resolv.conf often points
    argv += ["--bind", str(root), str(root)]
    for place in protected_places(root):
        argv += ["--ro-bind-try", str(place), str(place)]
    for place in secret_places(home):
        if place.is_dir():
            argv += ["--tmpfs", str(place)]
        elif place.exists():
            argv += ["--ro-bind", "/dev/null", str(place)]
    argv += ["--setenv", "TMPDIR", "/tmp", "--unshare-all", "--die-with-parent", "--chdir", str(root)]
    return [*argv, "--share-net", "--"] if share_net else [*argv, "--"]
