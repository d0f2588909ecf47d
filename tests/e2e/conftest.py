from pathlib import Path

import pytest

from tests.e2e.program import Tinyagent


@pytest.fixture
def tinyagent(tmp_path: Path) -> Tinyagent:
    return Tinyagent(tmp_path)
