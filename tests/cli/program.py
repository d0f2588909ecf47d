"""The program as users start it: another process, with a home and a workspace of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

ROOT = Path(__file__).parent.parent.parent
LONGEST_S = 60

Script = list[dict[str, Any]]
DONE: Script = [{"final": "All done."}]
TWO_STEPS: Script = [{"text": "I look.", "tool": "bash", "arguments": {"command": "echo here"}}, {"final": "All done."}]


class Program:
    """Runs `tinyagent` with a scripted model."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.workspace = root / "work"
        self.home.mkdir()
        (self.workspace / ".git").mkdir(parents=True)
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "PYTHONDONTWRITEBYTECODE")}
        self.environ = kept | {"HOME": str(root), "TINYAGENT_HOME": str(self.home), "PYTHONPATH": str(ROOT)}

    def script(self, replies: Script, *, name: str = "script") -> str:
        """The name of a model that plays these replies."""
        path = self.root / f"{name}.json"
        path.write_text(json.dumps(replies))
        return f"scripted/{path}"

    def run(
        self,
        *arguments: str,
        replies: Script | None = DONE,
        stdin: str | bytes | IO[bytes] | None = None,
        **environ: str,
    ) -> "subprocess.CompletedProcess[str]":
        """Run to the end. `stdin` None is /dev/null, text comes through a pipe."""
        model = {} if replies is None else {"TINYAGENT_MODEL": self.script(replies)}
        given: dict[str, Any] = {"stdin": stdin or subprocess.DEVNULL}
        if isinstance(stdin, str | bytes):
            given = {"input": stdin.encode() if isinstance(stdin, str) else stdin}
        done = subprocess.run(
            [sys.executable, "-m", "tinyagent", *arguments],
            cwd=self.workspace,
            env=self.environ | model | environ,
            capture_output=True,
            timeout=LONGEST_S,
            **given,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process be in the workspace, with the same variables: for what needs no process of its own."""
        monkeypatch.chdir(self.workspace)
        for name, value in self.environ.items():
            monkeypatch.setenv(name, value)

    def start(self, *arguments: str, replies: Script, **environ: str) -> "subprocess.Popen[str]":
        """Start without waiting."""
        return subprocess.Popen(
            [sys.executable, "-m", "tinyagent", *arguments],
            cwd=self.workspace,
            env=self.environ | {"TINYAGENT_MODEL": self.script(replies)} | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def runs(self) -> list[Path]:
        """The run folders, oldest first."""
        return sorted((self.home / "runs").glob("*")) if (self.home / "runs").exists() else []


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[str, str]:
    """Send a signal and wait for the end; stdout and stderr."""
    process.send_signal(number)
    return process.communicate(timeout=LONGEST_S)
