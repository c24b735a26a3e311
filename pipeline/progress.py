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
END_SECONDS = 5.0
"""How long the end of a block waits for the thread: a JVM that hangs answers no question."""
REASON_MAX = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCounters:
    """How far a job is. rows: written or read so far. done, total: tasks that Spark has done and
    planned so far, or files, by noun. read_bytes: of whatever is read; None if it is not counted.
    """

    rows: int | None
    done: int
    total: int
    noun: str = "tasks"
    read_bytes: int | None = None


class ReadCount:
    """How many things were read whole, and how many bytes of all. Mutable: threads count."""

    def __init__(self, total: int, noun: str = "objects") -> None:
        self._total = total
        self._noun = noun
        self._lock = threading.Lock()
        self._done = self._read_bytes = 0

    def add(self, size_bytes: int) -> None:
        """Count bytes of a thing."""
        with self._lock:
            self._read_bytes += size_bytes

    def end(self) -> None:
        """Count a thing that is read whole."""
        with self._lock:
            self._done += 1

    def counters(self) -> JobCounters:
        """Return what is counted so far."""
        with self._lock:
            return JobCounters(
                rows=None,
                done=self._done,
                total=self._total,
                noun=self._noun,
                read_bytes=self._read_bytes,
            )


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 object`, `2,000 objects`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def sized(size_bytes: float) -> str:
    """Return a number of bytes in words: `17 bytes`, `2.5 kB`, `31.0 MB`, `1.2 GB`."""
    if size_bytes < 1_000:
        return counted(round(size_bytes), "byte")
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if size_bytes < scale * 1_000:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes / 1e9:,.1f} GB"


def speaker() -> Say:
    """Return a function that prints one line on the standard error stream, flushed."""
    stream = sys.stderr

    def say(line: str) -> None:
        stream.write(f"pipeline: {line}\n")
        stream.flush()

    return say


@contextmanager
def watching(
    label: str,
    counters: Callable[[], JobCounters],
    *,
    total_bytes: int | None = None,
    total_rows: int | None = None,
    stream: TextIO | None = None,
) -> Iterator[None]:
    """Show label, rows, tasks, bytes, rate, time left and seconds until the block ends.

    counters: called from a separate thread; an error that it raises ends the display, with a line.
    total_bytes: of all that is read, where that is known. total_rows: of those to be written,
    where that is known; the time left follows from the bytes if both are.
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
            if ended.is_set():  # the block has waited long enough for the answer
                return
            line = f"pipeline: {label}: {_shown(counts, total_bytes, total_rows, now - started)}"
            stream.write(f"{wipe}{line}" if redraw else f"{line}\n")
            stream.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(END_SECONDS)
        if redraw:
            stream.write("\r\x1b[K")
            stream.flush()


def _shown(
    counts: JobCounters, total_bytes: int | None, total_rows: int | None, seconds: float
) -> str:
    """Return what is counted, and a time left where the whole of it is known.

    More bytes than the whole are no part of it: they, and their rate, are shown by themselves.
    """
    parts: list[str] = []
    rows, read_bytes = counts.rows, counts.read_bytes
    whole_rows = total_rows if rows is not None and rows <= (total_rows or 0) else None
    whole_bytes = (
        total_bytes if read_bytes is not None and read_bytes <= (total_bytes or 0) else None
    )
    if rows is not None:
        parts.append(
            f"{rows:,} of {counted(whole_rows, 'row')}" if whole_rows else counted(rows, "row")
        )
    parts.append(f"{counts.done:,}/{counts.total:,} {counts.noun}")
    if read_bytes is not None and whole_bytes:
        parts.append(f"{sized(read_bytes)} of {sized(whole_bytes)}")
    elif read_bytes:
        parts.append(f"{sized(read_bytes)} read")
    if read_bytes and seconds > 0:
        parts.append(f"{sized(read_bytes / seconds)}/s")
    for done, whole in ((read_bytes, whole_bytes), (rows, whole_rows)):
        if whole and done:
            if done < whole:
                parts.append(f"{seconds * (whole - done) / done:.0f} s left")
            break
    return ", ".join([*parts, f"{seconds:.0f} s"])
