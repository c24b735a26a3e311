"""engine: Ctrl-C and SIGTERM end a process at once, or before its next step; a cancel ends one job.

Python discards an exception that is raised inside a finaliser, so a KeyboardInterrupt can be lost.
A moment later it is raised again, also in a job that waits, unless the job was interrupted since or
has ended, so that its cleanup goes on. Code of others can discard it too, so it is remembered, and
the next step that the job announces raises again.

A shell does several jobs. When one of them is cancelled, a signal of its own ends that job alone; a
job that has ended by then is left as it is.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from pipeline import progress

CANCEL = signal.SIGUSR1
"""The signal by which a thread cancels the job of the main thread."""
AGAIN = signal.SIGUSR2
"""The signal by which a thread raises again what was lost in a finaliser of the main thread."""
AGAIN_SECONDS = 0.05
"""How long after an interruption was lost in a finaliser it comes again."""


class JobCancelled(KeyboardInterrupt):
    """A job of a shell was cancelled. It ends as after Ctrl-C, and the shell goes on."""


class Interrupts:
    """The handler of the signals. Mutable: it remembers that one came, whether it was lost, and
    whether a job goes on that can be cancelled alone."""

    def __init__(self) -> None:
        self._interrupted = False
        self._cancelled = False
        self._is_lost = False
        self._has_job = False
        self._has_ended = False

    def install(self) -> None:
        """Become this process's handler of SIGINT, SIGTERM, CANCEL and AGAIN."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.interrupt)
        signal.signal(CANCEL, self.cancel)
        signal.signal(AGAIN, self.again)
        report = sys.unraisablehook

        def notice(lost: sys.UnraisableHookArgs) -> None:
            if not isinstance(lost.exc_value, KeyboardInterrupt):
                report(lost)
                return
            if not isinstance(lost.exc_value, JobCancelled):  # also that of a handler of others
                self._interrupted = True
            self._is_lost = True
            again = threading.Timer(AGAIN_SECONDS, self._send_again)
            again.daemon = True
            with contextlib.suppress(RuntimeError):  # the interpreter ends and starts no thread
                again.start()

        sys.unraisablehook = notice

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal and raise KeyboardInterrupt."""
        self._interrupted = True
        self._raise()

    def cancel(self, number: int, frame: FrameType | None) -> None:
        """Raise JobCancelled in the job that goes on; without one, do nothing."""
        if self._has_job:
            self._cancelled = True
            self._raise()

    def again(self, number: int, frame: FrameType | None) -> None:
        """Raise what was lost, unless it was raised meanwhile or has nothing left to end."""
        if self._is_lost and not self._has_ended:
            self._raise()

    def _send_again(self) -> None:
        if self._is_lost and not self._has_ended:
            _send(AGAIN)

    def _raise(self) -> None:
        """Raise what was remembered, if anything: Ctrl-C before a cancel."""
        self._is_lost = False
        if self._interrupted:
            raise KeyboardInterrupt
        if self._cancelled:
            raise JobCancelled

    @contextlib.contextmanager
    def of_the_process(self) -> Iterator[None]:
        """Let what was lost come again within the block, and not once it has ended."""
        self._has_ended = False
        try:
            yield
        finally:
            self._has_ended = True

    @contextlib.contextmanager
    def of_one_job(self) -> Iterator[None]:
        """Let a cancel end the block alone, with JobCancelled."""
        self._has_job = True
        try:
            yield
        finally:
            self._has_job = self._cancelled = False

    def before(self, say: progress.Say) -> progress.Say:
        """Return `say` for announcing steps: it raises after a signal, as the signal did."""

        def announce(line: str) -> None:
            self._raise()
            say(line)

        return announce


def cancel_one_job() -> None:
    """Cancel the job that the main thread does. Called from another thread."""
    _send(CANCEL)


def _send(number: int) -> None:
    """Send a signal to the main thread, which ends its wait."""
    main = threading.main_thread().ident
    assert main is not None, "the main thread has started"
    signal.pthread_kill(main, number)
