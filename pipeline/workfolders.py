"""engine: temporary folders of jobs, which outlive no job for long.

A job that is killed removes nothing. While a job lives it holds a lock on each of its folders,
which the kernel drops with the process: a folder whose lock is free is abandoned, and the next job
on the machine removes it. Only folders of the same user in the same temporary folder are looked at.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "boathouse-job-"
UNLOCKED_PREFIX: Final = "boathouse-unlocked-"
TRIES_MAX: Final = 10


@contextmanager
def opened() -> Iterator[Path]:
    """A new folder that only this user can enter; removed with the block."""
    path, descriptor = _created()
    try:
        yield path
    finally:
        # What cannot be removed now is abandoned.
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned() -> int:
    """Remove the folders whose jobs have ended; return how many."""
    count = 0
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):  # a live job has it, or another user
                count += _removed(path)
    return count


def _created() -> tuple[Path, int]:
    """Return a new folder and the descriptor that holds its lock."""
    for _ in range(TRIES_MAX):
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Before it is locked, another job may take the folder for an abandoned one.
        with contextlib.suppress(FileNotFoundError):
            descriptor = _open(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:  # a file system without locks: no job may look for the folder
                os.close(descriptor)
                path = path.rename(path.with_name(path.name.replace(PREFIX, UNLOCKED_PREFIX, 1)))
                return path, _open(path)
            if _is_there(path, descriptor):
                return path, descriptor
            os.close(descriptor)
    raise FileNotFoundError(f"each new folder in {tempfile.gettempdir()} disappears")


def _removed(path: Path) -> bool:
    """Remove a folder that no process holds. Raises OSError for others."""
    descriptor = _open(path)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_there(path, descriptor):
            return False
        shutil.rmtree(path)
        return True
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _is_there(path: Path, descriptor: int) -> bool:
    """Return whether a name still is the folder that a descriptor opened."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
