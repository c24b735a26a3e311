"""engine: Ctrl-C and SIGTERM end a job at once, or before its next step.

Python discards an exception that is raised inside a finaliser, so a KeyboardInterrupt can be lost.
The signal is therefore remembered, and the next step that the job announces raises again.
"""

from __future__ import annotations

import signal
from types import FrameType

from pipeline import progress


class Interrupts:
    """The handler of both signals. Mutable: it remembers that one came."""

    def __init__(self) -> None:
        self._interrupted = False

    def install(self) -> None:
        """Become this process's handler of SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.interrupt)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal and raise KeyboardInterrupt."""
        self._interrupted = True
        raise KeyboardInterrupt

    def before(self, say: progress.Say) -> progress.Say:
        """Return `say` for announcing steps: it raises KeyboardInterrupt after a signal."""

        def announce(line: str) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            say(line)

        return announce
