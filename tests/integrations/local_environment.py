# pyright: reportMissingImports=false, reportUntypedBaseClass=false
"""A Harbor environment without a container: a folder of this machine, and child processes that take it for the root.

What it does as Harbor's Docker environment does: logs are not mounted but copied, the host's environment stays outside
but for pip's settings, and a command that is no longer waited for goes on until the environment stops.
"""

import asyncio
import os
import re
import shutil
import signal
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult

_OF_THE_ROOT = re.compile(r"(?<![\w./-])/(?=(?:logs|tests|installed-agent)\b)")


class LocalEnvironment(BaseEnvironment):
    """`program` is a folder that stands where the agent would have been installed, for trials that skip this."""

    def __init__(self, *args: Any, program: str | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._program = program
        self._root = Path()
        self._commands: list[asyncio.subprocess.Process] = []

    @staticmethod
    def type() -> str:
        return "local"

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        self._root = Path(mkdtemp(prefix="trial-"))
        for name in ("app", "home", "tmp", "logs/agent", "logs/verifier", "logs/artifacts"):
            (self._root / name).mkdir(parents=True)
        if self._program:
            (self._root / "home" / ".tinyagent-venv").symlink_to(self._program)

    async def stop(self, delete: bool) -> None:
        for command in self._commands:
            if command.returncode is None:
                os.killpg(command.pid, signal.SIGKILL)
            await command.wait()
        shutil.rmtree(self._root)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._inside(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._inside(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._inside(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._inside(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._inside(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        output = self._root / "tmp" / f"output-{len(self._commands)}"
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *("bash", "-c", self._mapped(command)),
                cwd=self._inside(cwd) if cwd else self._root / "app",
                env=self._environ(env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        self._commands.append(process)
        try:
            code = await asyncio.wait_for(process.wait(), timeout_sec)
        except TimeoutError as error:
            os.killpg(process.pid, signal.SIGKILL)
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds") from error
        return ExecResult(stdout=output.read_text(encoding="utf-8", errors="replace"), return_code=code)

    def _environ(self, env: dict[str, str] | None) -> dict[str, str]:
        host = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("PIP_")}
        own = {"HOME": str(self._root / "home"), "TMPDIR": str(self._root / "tmp"), "ROOT": str(self._root)}
        return host | own | {name: self._mapped(value) for name, value in (self._merge_env(env) or {}).items()}

    def _mapped(self, text: str) -> str:
        return _OF_THE_ROOT.sub(lambda _: f"{self._root}/", text)

    def _inside(self, path: Path | str) -> Path:
        return self._root / str(path).lstrip("/")
