"""What every run of a batch has before it begins."""

import os
import subprocess
import sys

# In a process of its own: what a rehearsal loads stays loaded.
REHEARSE = """
import os, sys, threading
from tinyagent.batch.rehearsal import CALLS, rehearse
from tinyagent.cli.app import command_line

before, codes = dict(os.environ), []
rehearse(lambda arguments: codes.append(command_line(arguments)) or 0)
assert codes == [0], codes
assert dict(os.environ) == before
assert threading.active_count() == 1
"""


def rehearse(**environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REHEARSE], env=os.environ | environ, capture_output=True, text=True, check=False
    )


def test_the_rehearsal_is_a_whole_run_that_nobody_sees() -> None:
    done = rehearse()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_of_the_user_s_takes_part_in_it() -> None:
    """Neither settings that would make it fail, nor a proxy, nor keys."""
    done = rehearse(TINYAGENT_CONFIG="/nowhere", TINYAGENT_STEP_LIMIT="1", HTTP_PROXY="http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
