"""One fork server for all batches of these tests, as one batch has for all its tasks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.batch.batches import Batch, ForkLauncher
from tinyagent.batch.launch import Launcher
from tinyagent.core.types import Json


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ray: needs Ray, which starts two nodes on this machine")


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    with ForkLauncher() as launcher:
        yield launcher


@pytest.fixture
def batch(tmp_path: Path, launcher: Launcher) -> Callable[..., Batch]:
    """Makes a batch in this test's folder."""

    def make(rows: list[Json], **more: Any) -> Batch:
        return Batch(tmp_path, rows, launcher=launcher, **more)

    return make
