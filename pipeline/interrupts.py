"""engine: Ctrl-C and SIGTERM, remembered.

An exception that comes in the middle of a library's finaliser is lost there, and a job would go on
that somebody asked to end. So nothing more is announced, and with it nothing more begun, once an
end was asked for.
"""

from __future__ import annotations

import signal
from types import FrameType

from pipeline import progress


class Interrupts:
    """The process's answer to both signals: KeyboardInterrupt, at once or before the next step."""

    def __init__(self) -> None:
        self._asked = False

    def install(self) -> None:
        """Answer this process's signals from now on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.interrupt)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Do what a signal's handler does."""
        self._asked = True
        raise KeyboardInterrupt

    def before(self, say: progress.Say) -> progress.Say:
        """Return say as announcing steps uses it: it raises once an end was asked for."""

        def announce(line: str) -> None:
            if self._asked:
                raise KeyboardInterrupt
            say(line)

        return announce
