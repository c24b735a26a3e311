"""engine: the progress line of a long job.

On a terminal one line of standard error is redrawn; elsewhere a line is added every few seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO, TypeAlias

Say: TypeAlias = Callable[[str], None]

POLL_SECONDS = 0.5
PLAIN_SECONDS = 5.0
REASON_MAX = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkCounters:
    """Rows written so far, tasks done, and all tasks that Spark has planned so far."""

    rows: int
    tasks_done: int
    tasks: int


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 object`, `2,000 objects`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def speaker() -> Say:
    """Return a function that prints one line on the standard error stream, flushed."""
    stream = sys.stderr

    def say(line: str) -> None:
        stream.write(f"pipeline: {line}\n")
        stream.flush()

    return say


@contextmanager
def watching(
    label: str, counters: Callable[[], SparkCounters], *, stream: TextIO | None = None
) -> Iterator[None]:
    """Show label, rows, tasks and seconds until the block ends.

    counters: called from a separate thread; an error that it raises ends the display, with a line.
    """
    stream = stream or sys.stderr
    ended = threading.Event()
    started = time.monotonic()
    redraw = stream.isatty()
    wipe = "\r\x1b[K" if redraw else ""

    def show() -> None:
        last = started
        while not ended.wait(POLL_SECONDS):
            now = time.monotonic()
            if not redraw and now - last < PLAIN_SECONDS:
                continue
            last = now
            try:
                counts = counters()
            except Exception as error:  # noqa: BLE001 - a JVM that is going away must not fail the job
                reason = " ".join(str(error).split())[:REASON_MAX]
                stream.write(f"{wipe}pipeline: {label}: progress cannot be shown: {reason}\n")
                stream.flush()
                return
            line = (
                f"pipeline: {label}: {counts.rows:,} rows, "
                f"{counts.tasks_done}/{counts.tasks} tasks, {now - started:.0f} s"
            )
            stream.write(f"{wipe}{line}" if redraw else f"{line}\n")
            stream.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if redraw:
            stream.write("\r\x1b[K")
            stream.flush()
