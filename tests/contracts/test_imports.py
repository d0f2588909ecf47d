"""What a run imports: an SDK costs more time and memory than all the rest together."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import Tinyagent
from tests.fake_provider import FakeProvider

APIS = ("anthropic", "openai", "responses", "ollama")
RUN = (
    "import sys\nfrom tinyagent.cli.app import command_line\ncode = command_line(sys.argv[1:])\n"
    "print(code, *sorted({'anthropic', 'openai', 'httpx', 'httpx2'} & set(sys.modules)))"
)
IMPORT = (
    "import sys, threading\nfrom tinyagent.models.sdk import import_soon\nimport_soon('openai')\n"
    "workers = [thread for thread in threading.enumerate() if thread.name == 'tinyagent-import']\n"
    "[worker.join() for worker in workers]\nprint(len(workers), 'openai' in sys.modules)"
)


def fresh(script: str, *arguments: str, tinyagent: Tinyagent) -> str:
    """The last line of what a script prints in an interpreter of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=tinyagent.environ)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("api", APIS)
def test_a_whole_run_over_http_imports_neither_sdk(tmp_path: Path, api: str) -> None:
    tinyagent = Tinyagent(tmp_path)
    with FakeProvider(["Done."]) as server:
        arguments = tinyagent.arguments(server, api=api, path=tmp_path / "out.json")
        assert fresh(RUN, *arguments, tinyagent=tinyagent) == "0 httpx"


def test_an_sdk_is_imported_in_a_thread_of_its_own(tmp_path: Path) -> None:
    """So that it runs while the server is asked for its window."""
    assert fresh(IMPORT, tinyagent=Tinyagent(tmp_path)) == "1 True"
