"""A real Chromium, driven through chromedriver's own HTTP protocol. From Debian: chromium and chromium-driver."""

import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
PATIENCE_S = 20
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Browser:
    """One window. `script` runs JavaScript and gives back what it returns."""

    def __init__(self, base: str, session: str) -> None:
        self._base = f"{base}/session/{session}"

    def open(self, page: Path, place: str = "") -> None:
        self._ask("/url", {"url": f"{page.as_uri()}{place}"})

    def script(self, source: str, *arguments: object) -> Any:
        return self._ask("/execute/sync", {"script": source, "args": list(arguments)})

    def keys(self, text: str) -> None:
        """Presses keys, one after the other, wherever the focus is."""
        presses = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._ask("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": presses}]})

    def wait(self, source: str) -> Any:
        """What the script returns, as soon as it is true."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if value := self.script(source):
                return value
            time.sleep(0.03)
        raise AssertionError(f"not in {PATIENCE_S} s: {source}")

    def size(self, width: int, height: int) -> None:
        self._ask("/window/rect", {"width": width, "height": height})

    def command(self, name: str, **parameters: object) -> Any:
        """A command of the DevTools protocol."""
        return self._ask("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._ask("/screenshot")))

    def complaints(self) -> list[str]:
        """What the browser wrote to its console since it was last asked: errors, and what the policy blocked."""
        return [entry["message"] for entry in self._ask("/se/log", {"type": "browser"})]

    def _ask(self, path: str, data: object = None) -> Any:
        return ask(f"{self._base}{path}", data)


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A new window with an empty profile in `folder`. Skips the test where no Chromium is installed."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium chromium-driver)")
    profile = folder / "profile"
    profile.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    process = subprocess.Popen(
        [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        base = f"http://127.0.0.1:{_port(process)}"
        options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = ask(f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        try:
            yield Browser(base, session)
        finally:
            ask(f"{base}/session/{session}", method="DELETE")
    finally:
        process.terminate()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def ask(url: str, data: object = None, *, method: str | None = None) -> Any:
    """One round with the driver. Raises AssertionError with its words if it refuses."""
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with _OPENER.open(request, timeout=100) as answer:
            return json.loads(answer.read())["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(error.read().decode()[:2000]) from error


def _port(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"successfully on port (\d+)", line):
            return found[1]
    raise AssertionError("chromedriver did not start")
