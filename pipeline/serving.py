"""engine: jobs for a server: this process does what it is told on standard input, in one warm
session.

Each line of standard input is one job, `{"arguments": [...]}`, as on a command line. Each line of
standard output is progress, `{"progress": "..."}`, or the answer to the job, `{"code": 0,
"outcome": {...}, "error": null}`. The session of Spark stays open between jobs of one warehouse. A
job that Spark fails at may have a wrong source or query, so the session ends only if its JVM has,
or if Spark fails at the next job too. The process ends with its standard input, also in the middle
of a job, so that it does not outlive the server.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, TextIO

from pipeline import errors, session

LINE_MAX = 1_000
FAILURES_MAX = 2
"""Jobs in a row at which Spark fails before they get another session."""


class WarmSession:
    """A session that stays open between jobs. Mutable: it holds the session and its warehouse."""

    def __init__(self, open_spark: session.Open, *, server_answers: Callable[[], bool]) -> None:
        self._open = open_spark
        self._server_answers = server_answers
        self._block: contextlib.ExitStack | None = None
        self._spark: session.Spark | None = None
        self._warehouse = ""
        self._failures = 0

    @contextlib.contextmanager
    def opened(self, warehouse: str) -> Iterator[session.Spark]:
        """Return the session on a warehouse, started if it is not there.

        An error ends it, but one of the job's arguments, sources or checks, and the first of Spark
        while the session and the server answer.
        """
        if self._spark is None or self._warehouse != warehouse:
            self.close()
            block = contextlib.ExitStack()
            self._spark = block.enter_context(self._open(warehouse))
            self._block, self._warehouse, self._failures = block, warehouse, 0
        try:
            yield self._spark
            self._failures = 0
        except (errors.BadArgument, errors.BadSource, errors.CheckFailed, errors.SourceChanged):
            raise
        except BaseException as error:
            if isinstance(error, errors.SparkJobFailed) and self._is_kept_after(error):
                raise
            ending, self._block, self._spark = self._block, None, None
            # The session's own end may know the error better, as when the server is gone.
            if ending is None or not ending.__exit__(*sys.exc_info()):
                raise

    def _is_kept_after(self, error: errors.SparkJobFailed) -> bool:
        self._failures += 1
        return (
            self._failures < FAILURES_MAX
            and self._spark is not None
            and self._spark.outlives(error)
            and self._server_answers()
        )

    def close(self) -> None:
        """End the session, if there is one."""
        block, self._block, self._spark = self._block, None, None
        if block is not None:
            block.close()


class ReportingStream:
    """Standard error of a job: what is written goes on, and each line of it is reported too.

    Mutable: it holds the beginning of a line.
    """

    def __init__(self, stream: TextIO, report: Callable[[str], None]) -> None:
        self._stream = stream
        self._report = report
        self._rest = ""

    def write(self, text: str) -> int:
        """Write a text; report its whole lines."""
        self._stream.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        self._rest = self._rest[:LINE_MAX]
        for line in lines:
            if line.startswith("pipeline: "):
                self._report(line.removeprefix("pipeline: ")[:LINE_MAX])
        return len(text)

    def flush(self) -> None:
        """Flush the stream behind."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Return that it is no terminal."""
        return False


class Wire:
    """The lines to the server. Used by more than one thread."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one line. A server that is gone ends the process by its standard input."""
        with self._lock, contextlib.suppress(OSError):
            self._stream.write(json.dumps(message, default=str) + "\n")
            self._stream.flush()


class JobQueue:
    """The jobs that arrive on a stream. Mutable: it knows whether one is under way."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._is_busy = False

    def start(self) -> None:
        """Begin to read, in a thread."""
        threading.Thread(target=self._read, daemon=True).start()

    def __iter__(self) -> Iterator[list[str]]:
        while (line := self._lines.get()) is not None:
            self._is_busy = True
            try:
                yield [str(word) for word in json.loads(line)["arguments"]]
            finally:
                self._is_busy = False

    def _read(self) -> None:
        for line in self._stream:
            self._lines.put(line)
        self._lines.put(None)
        if self._is_busy:
            os.kill(os.getpid(), signal.SIGTERM)


def own_streams() -> tuple[IO[str], IO[str]]:
    """Return standard input and output for the wire; other code that prints gets standard error."""
    wire_in = os.fdopen(os.dup(0), "r", encoding="utf-8")
    wire_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return wire_in, wire_out
