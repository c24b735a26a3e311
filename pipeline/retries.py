"""engine: bounds the pauses of commits that another client's commit has overtaken.

Iceberg's libraries try such a commit again as the table's properties `commit.retry.*` say, which
every client of the table may set: one could let a job wait for years. Where one commit may pause
longer than by Iceberg's defaults, a step of a job pauses for WAIT_SECONDS_MAX at most. PyIceberg
reads the properties from the loaded table, which gets Iceberg's defaults there. Iceberg's Java
library has no such place, so that a thread looks for its pauses, and ends those that are beyond the
bound. A step of several commits has one bound for all of them.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline import errors, session, settings

PREFIX: Final = "commit.retry."
TRIES: Final = PREFIX + "num-retries"
MIN_WAIT: Final = PREFIX + "min-wait-ms"
MAX_WAIT: Final = PREFIX + "max-wait-ms"
TOTAL: Final = PREFIX + "total-timeout-ms"
DEFAULTS: Final[Mapping[str, int]] = {
    TRIES: 4, MIN_WAIT: 100, MAX_WAIT: 60_000, TOTAL: 30 * 60 * 1000
}  # fmt: skip
WAIT_SECONDS_MAX: Final = 30 * 60.0
LOOK_SECONDS: Final = 1.0
END_SECONDS: Final = 10.0
"""How long a block's end waits for the thread, whose question the Java machine may not answer."""
SLEEPING: Final = "java.lang.Thread.sleep"
TASKS: Final = "org.apache.iceberg.util.Tasks"
RETRYING: Final = "Tasks$Builder.runTaskWithRetry("
_WAITING: Final = re.compile(r"\bId=(\d+) TIMED_WAITING\b")


class Pauses:
    """How long the commits of a step have paused so far, all together. Mutable: blocks of `bounded`
    add to it."""

    def __init__(self) -> None:
        self.seconds = 0.0


def longest_seconds(properties: Mapping[str, str]) -> float:
    """Return how long the pauses of one commit may be, by a table's properties.

    Each is twice as long as the one before, up to a bound, and none begins after the total; a
    tenth is added by chance. A property that is no number counts as its default.
    """
    tries, pause, pause_max, total = (
        _number(properties, name) for name in (TRIES, MIN_WAIT, MAX_WAIT, TOTAL)
    )
    waited = 0.0
    for number in range(tries):
        # The first retry is done whatever the total says.
        if number and waited > total:
            break
        if pause >= pause_max:
            left = min(tries - number, max(1, (total - waited) // max(1, pause_max) + 1))
            waited += left * pause_max
            break
        waited += pause
        pause = max(1, 2 * pause)
    return 1.1 * waited / 1000


def forget(table: Any) -> None:
    """Give one of PyIceberg's loaded tables Iceberg's defaults, for its commits alone."""
    for name in DEFAULTS:
        table.metadata.properties.pop(name, None)


@contextlib.contextmanager
def bounded(
    spark: session.Spark,
    table: settings.TargetTable,
    properties: Mapping[str, str],
    *,
    commits_here: bool = False,
    commits_max: int = 1,
    pauses: Pauses | None = None,
) -> Iterator[None]:
    """Bound the pauses of commits of Iceberg's Java library in the block.

    commits_here: they happen in the job's own Java machine, also with Spark Connect. commits_max:
    of the whole step. pauses: what the step has paused before, which counts too; the block adds to
    it.

    Raises BadArgument where they happen in a Spark Connect server and one may pause longer than the
    bound; PipelineError instead of the block's error after a pause was ended: that commit was not
    made.
    """
    unwatched = 1.1 * WAIT_SECONDS_MAX + DEFAULTS[MAX_WAIT] / 1000
    longest, commits = longest_seconds(properties), "a commit"
    if longest <= unwatched:
        longest, commits = longest * commits_max, f"{commits_max} commits"
    if longest <= unwatched:
        yield
        return
    is_here = spark.remote is None or commits_here
    # Between the commits of a Spark Connect server the job does not know how long they have paused.
    if not is_here and longest_seconds(properties) <= unwatched:
        yield
        return
    said = (
        f"the properties {PREFIX}* of {table.full} let {commits} wait for {_spoken(longest)} where "
        f"another client's comes first, and a job waits {_spoken(WAIT_SECONDS_MAX)} at most"
    )
    if not is_here:
        raise errors.BadArgument(f"{said}: lower them")
    paused = Pauses() if pauses is None else pauses
    ended, is_cut = threading.Event(), threading.Event()
    watch = threading.Thread(target=_watch, args=(spark.jvm, ended, is_cut, paused), daemon=True)
    watch.start()
    try:
        yield
    except Exception as error:
        if is_cut.is_set():
            raise errors.PipelineError(f"{said}: run the same command again") from error
        raise
    else:
        if is_cut.is_set():  # a procedure may pass over commits that fail
            raise errors.PipelineError(f"{said}: run the same command again")
    finally:
        ended.set()
        watch.join(END_SECONDS)
        if is_cut.is_set():
            # The mark of an interruption would end this Java thread's next wait.
            with contextlib.suppress(Exception):
                spark.jvm.java.lang.Thread.interrupted()


def _watch(jvm: Any, ended: threading.Event, is_cut: threading.Event, paused: Pauses) -> None:
    """End pauses of commits once all have taken WAIT_SECONDS_MAX, until the block ends."""
    looked = time.monotonic()
    while not ended.wait(LOOK_SECONDS):
        now = time.monotonic()
        with contextlib.suppress(Exception):  # the JVM may have ended
            pausing = _pausing(jvm)
            paused.seconds += now - looked if pausing else 0.0
            if pausing and paused.seconds >= WAIT_SECONDS_MAX and not ended.is_set():
                is_cut.set()
                for thread in jvm.java.lang.Thread.getAllStackTraces().keySet().toArray():
                    if int(thread.getId()) in pausing:
                        thread.interrupt()
        looked = now


def _pausing(jvm: Any) -> set[int]:
    """Return the ids of the Java threads that pause before another attempt of a commit.

    A thread's text has its state and the frames at the top of its stack: to ask for each of them
    would take longer than short pauses. Source: java.lang.management.ThreadInfo.toString.
    """
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    waiting = {
        int(match.group(1)): text
        for text in map(str, threads.dumpAllThreads(False, False))
        if SLEEPING in text and (match := _WAITING.search(text))
    }
    return {number for number, text in waiting.items() if _is_retrying(text)}


def _is_retrying(text: str) -> bool:
    """Return whether a thread that sleeps does so in a retry. Iceberg's library sleeps too while it
    waits for tasks that work in other threads."""
    frames = [line for line in text.splitlines() if TASKS in line]
    return bool(frames) and RETRYING in frames[0]


def _number(properties: Mapping[str, str], name: str) -> int:
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else DEFAULTS[name]


def _spoken(seconds: float) -> str:
    for unit, scale in (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0)):
        if seconds >= 2 * scale:
            return f"{seconds / scale:,.0f} {unit}s"
    return f"{seconds:,.0f} seconds"
