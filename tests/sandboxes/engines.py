"""Sandboxes for tests: which exist on this machine, and an image made without a registry."""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tinyagent.core.types import Sandbox
from tinyagent.sandboxes.bubblewrap import BubblewrapSandbox
from tinyagent.sandboxes.container import ContainerSandbox
from tinyagent.sandboxes.local import LocalSandbox
from tinyagent.security.environment import child_environment

IMAGE = "tinyagent-test"
_PROGRAMS = ("bash", "sh", "sleep", "setsid", "cat", "head", "yes", "ln", "rm", "env", "printf")


def environment() -> dict[str, str]:
    """The environment of commands, as the program itself makes it."""
    return child_environment(os.environ, key_names=["ANTHROPIC_API_KEY"])


def open_sandbox(kind: str, root: Path) -> contextlib.AbstractContextManager[Sandbox]:
    """A sandbox of that kind; skips the test, and says why, where the machine has none."""
    match kind:
        case "local":
            return LocalSandbox(root, env=environment())
        case "bubblewrap":
            if shutil.which("bwrap") is None:
                pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
            return BubblewrapSandbox(root, env=environment())
        case "docker" | "podman":
            if problem := _problem(kind):
                pytest.skip(problem)
            return ContainerSandbox(root, env=dict(os.environ), image=IMAGE, engine=kind)
    raise AssertionError(kind)


@functools.cache
def _problem(engine: Literal["docker", "podman"]) -> str:
    """Why containers cannot be tested here; "" if they can, and then the image is there."""
    if shutil.which(engine) is None:
        return f"{engine} is not installed"
    if not _works(engine, "info"):
        return f"{engine} is installed but does not work here: see `{engine} info`"
    if not _works(engine, "image", "inspect", IMAGE):
        with _image_folder() as folder:
            tar = ["tar", "-C", str(folder), "-c", "."]
            packed = subprocess.run(tar, capture_output=True, check=True).stdout
            subprocess.run([engine, "import", "-", IMAGE], input=packed, capture_output=True, check=True)
    if not _works(engine, "run", "--rm", "--network", "none", IMAGE, "true"):
        return f"{engine} cannot start a container here"
    return ""


def _works(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


@contextlib.contextmanager
def _image_folder() -> Iterator[Path]:
    """A root file system of this machine's own bash and a few programs with their libraries."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in (*_PROGRAMS, "true"):
            source = shutil.which(program)
            assert source is not None, program
            _copy(Path(source), folder / "bin" / program)
            listed = subprocess.run(["ldd", source], capture_output=True, text=True, check=False).stdout
            for library in re.findall(r"(/\S+) \(0x", listed):
                _copy(Path(library), folder / library.lstrip("/"))
        for empty in ("tmp", "proc", "dev"):
            (folder / empty).mkdir()
        yield folder


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
