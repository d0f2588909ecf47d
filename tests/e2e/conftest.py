from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.program import Tinyagent


@pytest.fixture
def tinyagent(tmp_path: Path) -> Iterator[Tinyagent]:
    program = Tinyagent(tmp_path)
    yield program
    program.close()
