"""engine: measures the event loop's lateness, and names the operation that caused it.

A timer on the loop runs every `BEAT_SECONDS` and counts its lateness. A thread watches the timer;
when it is late by `limits.LOOP_HELD_SECONDS_MAX` the thread reads the loop's stack, once, and finds
the request there, so that requests do no work for this. One line in the log names the operation,
the source line and the time: a warning, or for information only where neither a request nor code of
the server ran, because then the machine gave the process no turn.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Container
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from server import counters, limits

BEAT_SECONDS: Final = 0.05
FRAMES_MAX: Final = 500
ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENT: Final = f"{sys.prefix}/"
"""The packages of other projects, which `make run` installs below ROOT. Another Python's folder may
have ROOT within it, as /usr has /usr/src/boathouse."""


class LoopLag:
    """Measures one loop. Mutable.

    request_codes: the code objects whose frame's local `request` is the current request.
    monotonic: a clock in seconds.
    """

    def __init__(
        self,
        *,
        counts: counters.Counters,
        request_codes: Container[CodeType],
        monotonic: Callable[[], float],
    ) -> None:
        self._counts = counts
        self._request_codes = request_codes
        self._monotonic = monotonic
        self._log = logging.getLogger("boathouse.loop")
        self._beat_at = 0.0
        self._holder: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop_thread = 0

    def start(self) -> None:
        """Start measuring the running loop."""
        self._loop_thread = threading.get_ident()
        self._beat_at = self._monotonic()
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)
        self._thread = threading.Thread(target=self._look, name="loop-lag", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        now = self._monotonic()
        lag_seconds = max(0.0, now - self._beat_at - BEAT_SECONDS)
        self._counts.record_lag(lag_seconds)
        if lag_seconds > limits.LOOP_HELD_SECONDS_MAX:
            self._log.log(
                logging.WARNING if self._holder else logging.INFO,
                "the event loop was held for %.0f ms by %s",
                lag_seconds * 1000,
                self._holder or "no request: the machine may be busy",
            )
        self._holder = None
        self._beat_at = now
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _look(self) -> None:
        overdue_seconds = BEAT_SECONDS + limits.LOOP_HELD_SECONDS_MAX * 0.8
        while not self._ended.wait(BEAT_SECONDS):
            if self._holder is None and self._monotonic() - self._beat_at > overdue_seconds:
                frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented
                self._holder = describe(frame, self._request_codes)


def describe(frame: FrameType | None, request_codes: Container[CodeType]) -> str | None:
    """Return the current request of a stack, if there is one, and our innermost line."""
    where = request = None
    for _ in range(FRAMES_MAX):
        if frame is None:
            break
        code = frame.f_code
        if where is None and _is_ours(code.co_filename):
            if Path(code.co_filename).name == "mini.py":
                break  # the loop itself, idle
            name = code.co_filename.removeprefix(f"{ROOT}/")
            where = f"{name}:{frame.f_lineno} {code.co_qualname}"
        if code in request_codes:
            served = frame.f_locals.get("request")
            if served is not None:
                path = served.raw_path[: limits.LOGGED_PATH_BYTES_MAX].decode("latin-1")
                request = f"{served.method} {path!r}, request id {served.request_id}"
            break
        frame = frame.f_back
    if where is None:
        return None
    return f"{request}, in {where}" if request else where


def _is_ours(filename: str) -> bool:
    home = f"{ROOT}/"
    if not filename.startswith(home):
        return False
    is_below = home != ENVIRONMENT and ENVIRONMENT.startswith(home)
    return not (is_below and filename.startswith(ENVIRONMENT))
