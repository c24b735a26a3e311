"""engine: Spark's own output, in files that stay: a file for each JVM, few of them, none large."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from pipeline import jars

LOGS_MAX = 20
"""Logs that are kept, with the newest."""
LOG_BYTES_MAX = 8 * 1024 * 1024
PREFIX, SUFFIX = "spark-", ".log"
LEFT_OUT = b"... what stood here is left out ...\n"
CHUNK_BYTES = 64 * 1024
END_SECONDS = 5.0


def folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of logs by hand: BOATHOUSE_LOGS, or `logs` in the user's cache."""
    if environment.get("BOATHOUSE_LOGS"):
        return Path(environment["BOATHOUSE_LOGS"]).expanduser()
    return jars.cache_folder(environment) / "logs"


def new(logs: Path) -> Path | None:
    """Create an empty log in a folder, which this user alone can read; older ones leave it.

    Returns None where the folder cannot be written.
    """
    now = datetime.datetime.now(datetime.UTC)
    path = logs / f"{PREFIX}{now:%Y%m%d-%H%M%S-%f}-{os.getpid()}{SUFFIX}"
    try:
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        for old in sorted(logs.glob(f"{PREFIX}*{SUFFIX}"))[:-LOGS_MAX]:
            old.unlink(missing_ok=True)
    except OSError as error:
        sys.stderr.write(f"pipeline: Spark's log is not kept: {error}\n")
        return None
    return path


class BoundedLog:
    """A file of at most LOG_BYTES_MAX. Mutable: when it is full, its older half leaves it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Add bytes at the end."""
        self._file.write(chunk)
        self._size_bytes += len(chunk)
        if self._size_bytes > LOG_BYTES_MAX:
            self._file.seek(-(LOG_BYTES_MAX // 2), os.SEEK_END)
            rest = LEFT_OUT + self._file.read().partition(b"\n")[2]
            self._file.seek(0)
            self._file.truncate()
            self._file.write(rest)
            self._size_bytes = len(rest)


@contextlib.contextmanager
def copying(stream: IO[bytes], path: Path) -> Iterator[threading.Thread]:
    """Copy a process's output into a log until its end. Yields the thread that does it."""
    with path.open("w+b", buffering=0) as file:
        log = BoundedLog(file)

        def copy() -> None:
            # The stream is closed under a process that does not end.
            with contextlib.suppress(OSError, ValueError):
                while chunk := os.read(stream.fileno(), CHUNK_BYTES):
                    # The process must not wait for a full disk.
                    with contextlib.suppress(OSError, ValueError):
                        log.write(chunk)

        thread = threading.Thread(target=copy, daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            thread.join(END_SECONDS)
