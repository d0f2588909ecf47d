"""Settings of all tests."""

import os

from hypothesis import settings

# Where a failure cannot be looked into at once, the same examples are tried each time; at a desk others are.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
