"""Settings of all tests."""

import os

import pytest
from hypothesis import settings

# Where a failure cannot be looked into at once, the same examples are tried each time; at a desk others are.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait for processes and clocks."""
    return (os.cpu_count() or 1) + 1
