"""Long texts on stdout: through a pager on a terminal, as they are into a file or pipe."""

import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from tinyagent.cli.output import Stdout
from tinyagent.console import Paper, paper_for
from tinyagent.core.errors import RecordError

LESS = "FRX"  # as git: ends by itself if all fits, shows colours, leaves the text on the screen


@contextmanager
def paged(environ: Mapping[str, str], *, pager: bool = True) -> Generator[Paper]:
    """A paper for stdout. Whoever writes on it should stop when it `is_gone`: the reader has seen enough."""
    paper = paper_for(sys.stdout, environ)
    command = _pager(environ) if pager and paper.is_live else []
    process = _started(command, environ) if command else None
    try:
        if process is None or process.stdin is None:
            yield paper
        else:
            with _pager_decides():
                yield replace(paper, stream=process.stdin)
                with suppress(OSError):  # it was quit before the end
                    process.stdin.close()
                process.wait()
    finally:
        Stdout(sys.stdout).write("")  # flushes; silent if nobody reads any more


def print_bytes(data: bytes) -> None:
    """The bytes on stdout as they are. A reader that has gone away is no error; raises RecordError on a full disk."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        Stdout(sys.stdout).write("")  # what is still held back goes nowhere
        if not isinstance(error, BrokenPipeError):
            raise RecordError(f"stdout cannot be written: {error.strerror or error}") from error


def _pager(environ: Mapping[str, str]) -> list[str]:
    """The user's pager, else less; empty for none."""
    wanted = environ.get("PAGER")
    if wanted is None:
        return ["less"] if shutil.which("less") and environ.get("TERM", "dumb") != "dumb" else []
    try:
        words = shlex.split(wanted)
    except ValueError:
        return []
    return [] if words == ["cat"] else words


def _started(command: list[str], environ: Mapping[str, str]) -> "subprocess.Popen[str] | None":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            text=True,
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
            env={"LESS": LESS, "LESSCHARSET": "utf-8", **environ},
        )
    except OSError:
        return None


@contextmanager
def _pager_decides() -> Generator[None]:
    """Ctrl-C is for the pager (less stops a search with it); quitting it ends us too."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
