import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.program import Tinyagent
from tests.realserver.server import CannotInstall, RealServer, install, running

MARK = "realserver"
WINDOW = 2048  # tokens; small, so that it is full after a few steps


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only `-m realserver` runs them: they fetch half a gigabyte."""
    if MARK in str(config.option.markexpr):
        return
    left_out = [item for item in items if item.get_closest_marker(MARK)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def server() -> Iterator[RealServer]:
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("one server for all tests: add -n 0")
    with tempfile.TemporaryDirectory(prefix="realserver-") as scratch:
        folder = Path(os.environ.get("REALSERVER_DIR") or scratch)
        try:
            install(folder)
        except CannotInstall as error:
            pytest.skip(str(error))
        with running(folder, window=WINDOW) as server:
            yield server


@pytest.fixture(scope="session")
def tinyagent(tmp_path_factory: pytest.TempPathFactory) -> Tinyagent:
    """One workspace for all tests: its path is in the system prompt, which the server then has in its cache."""
    return Tinyagent(tmp_path_factory.mktemp("real"))
