"""Other projects' programs as judges of our exports, each in a Python of its own."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def ask_peer(module: str, variable: str, script: str, data: Any, folder: Path) -> Any:
    """What a script prints as JSON, run where `module` can be imported; it finds the data in the file argv[1].

    That is the Python of this test, or the one that the environment variable names. Without either the test is skipped.
    """
    python = sys.executable if importlib.util.find_spec(module) else os.environ.get(variable)
    if not python:
        pytest.skip(f"{module} is not installed: pip install it, or name a Python that has it in {variable}")
    file = folder / "data.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "MSWEA_SILENT_STARTUP": "1"}
    done = subprocess.run(
        [python, "-c", script, str(file)], capture_output=True, text=True, timeout=100, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
