"""What Ctrl-C and the signals that end a process mean while a run is on."""

import _thread
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from tinyagent.agent import Terminated

ENDING = (signal.SIGTERM, signal.SIGHUP)
HARD_AT = 3  # Ctrl-C: once ends the run cleanly, twice gives that a time limit, three times leaves at once
HURRY_S = 5.0  # that limit: the graces of a command and its tree fit into it
_SAME_WISH_S = 1.0


class Signals:
    """Turns signals into exceptions in the main thread until the run is over.

    A second one within a second raises nothing, as it would break what the first has set off: it hit between the taking
    of a lock and its `with`, and the run hung for ever; it hit before the end was on record. Later Ctrl-C is raised
    again, lest the first was lost (in a `__del__`, say), and the process leaves `hurry_s` after it in any case.
    """

    def __init__(self, *, hurry_s: float = HURRY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_over = False
        self.is_left = False
        self._hurry_s = hurry_s
        self._clock = clock
        self._interrupts = 0
        self._raised_at: float | None = None
        self._depth = 0
        self._held: BaseException | None = None

    def over(self) -> None:
        """From here on a signal changes nothing any more: what is left takes milliseconds."""
        self.is_over = True

    @contextmanager
    def unbroken(self) -> Generator[None]:
        """What is done inside is done to its end: a signal is raised after it. For moments only."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            held = None if self._depth else self._held
            if held is not None:
                self._held = None
                raise held

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts >= HARD_AT:
            os._exit(128 + number)
        if self._raised_at is not None:
            # No Thread object: its start takes locks, one of which the interrupted code may hold.
            _thread.start_new_thread(self._leave, (128 + number,))
        if not self.is_over:
            self._raise(KeyboardInterrupt())

    def on_end(self, number: int, frame: FrameType | None) -> None:
        if not self.is_over:
            self.is_over = True  # a second one must not break the ending of the first, however late it comes
            self._raise(Terminated(f"terminated by {signal.Signals(number).name}"))

    def _raise(self, error: BaseException) -> None:
        now, before = self._clock(), self._raised_at
        if before is None or now - before >= _SAME_WISH_S:
            self._raised_at = now
            if not self._depth:
                raise error
            self._held = error

    def _leave(self, code: int) -> None:
        time.sleep(self._hurry_s)
        if not self.is_left:
            os._exit(code)  # without a word: a full pipe may be what the end waits for


@contextmanager
def handled(*, hurry_s: float = HURRY_S) -> Generator[Signals]:
    """Install the handlers. A signal that is ignored stays ignored.

    Those from before are there again afterwards, unless the run is over: then the process is about to exit with the
    code of the run, and a signal in its last moments must not change that. (A handler would be dropped as the
    interpreter ends; that a signal is ignored stays.)
    """
    signals = Signals(hurry_s=hurry_s)
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signals.on_interrupt)}
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            before[number] = signal.signal(number, signals.on_end)
    try:
        yield signals
    finally:
        signals.is_left = True
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if signals.is_over else handler)
