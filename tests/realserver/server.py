"""A llama.cpp server for the tests, through a script beside the checkout that fetches it from PyPI."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START = Path(os.environ.get("REALSERVER_START") or Path(__file__).parents[3] / "shared" / "realserver" / "start")
MODEL = "0.5b"
INSTALL_S = 600
READY_S = 300
COUNTERS = {
    "openai": "/v1/chat/completions/input_tokens",
    "anthropic": "/v1/messages/count_tokens",
    "responses": "/v1/responses/input_tokens",
}


class CannotInstall(Exception):
    """The server or its weights cannot be had here."""


@dataclass(frozen=True)
class RealServer:
    url: str
    window: int

    def base_url(self, api: str) -> str:
        return self.url if api == "anthropic" else f"{self.url}/v1"

    def count(self, body: dict[str, Any], api: str) -> int:
        """The tokens of a request's prompt by the server's own count."""
        data = json.dumps(body).encode()
        asked = urllib.request.Request(self.url + COUNTERS[api], data, {"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)["input_tokens"]


def install(folder: Path) -> None:
    """Fetch server and weights. Raises CannotInstall that says why."""
    if not START.exists():
        raise CannotInstall(f"{START} is not there")
    try:
        done = _start(folder, "--install-only", within_s=INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{START}: {error}") from error
    if done.returncode:
        raise CannotInstall(f"{START} --install-only: {done.stderr[-500:]}")


@contextmanager
def running(folder: Path, *, window: int) -> Iterator[RealServer]:
    done = _start(folder, "--ctx", str(window), "--model", MODEL, "--lifetime", "1800", within_s=READY_S)
    assert done.returncode == 0, done.stderr
    try:
        yield RealServer(done.stdout.strip(), window)
    finally:
        _start(folder, "--stop", within_s=30)


def _start(folder: Path, *options: str, within_s: float) -> "subprocess.CompletedProcess[str]":
    command = [str(START), "--dir", str(folder), "--name", "tests", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)
