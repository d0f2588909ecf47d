"""What Ctrl-C and the signals that end a process mean while a run is on."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from tinyagent.agent import Terminated

ENDING = (signal.SIGTERM, signal.SIGHUP)
HARD_AT = 3  # Ctrl-C: once ends the run cleanly, twice hurries its end, three times leaves at once


class Signals:
    """Turns signals into exceptions in the main thread until the run is over."""

    def __init__(self) -> None:
        self.is_over = False
        self._interrupts = 0

    def over(self) -> None:
        """From here on a signal changes nothing any more: what is left takes milliseconds."""
        self.is_over = True

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts >= HARD_AT:
            os._exit(128 + number)
        if not self.is_over:
            raise KeyboardInterrupt

    def on_end(self, number: int, frame: FrameType | None) -> None:
        if not self.is_over:
            self.is_over = True  # a second one must not break the ending of the first
            raise Terminated(f"terminated by {signal.Signals(number).name}")


@contextmanager
def handled() -> Generator[Signals]:
    """Install the handlers. A signal that is ignored stays ignored.

    Those from before are there again afterwards, unless the run is over: then the process is about to exit with the
    code of the run, and a signal in its last moments must not change that. (A handler would be dropped as the
    interpreter ends; that a signal is ignored stays.)
    """
    signals = Signals()
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signals.on_interrupt)}
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            before[number] = signal.signal(number, signals.on_end)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if signals.is_over else handler)
