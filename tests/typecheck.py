"""Runs mypy, with what it has learnt of the same files in another checkout: `make check`.

mypy keeps what it has learnt of each file, and compares the file's content before it uses that. A
checkout that has no such folder yet begins with a copy of the one that was left last on this
machine, in the user's cache: 1 CPU second instead of 53. A run without an error leaves its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline import jars

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    own = ROOT / ".mypy_cache"
    cache = jars.cache_folder(os.environ)
    left = cache / "mypy"
    with _lock(cache):
        if left.exists() and not own.exists():
            _copy(left, own)
    code = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, check=False).returncode
    if code == 0:
        with _lock(cache):
            _copy(own, left)
    return code


def _copy(folder: Path, place: Path) -> None:
    """Copy a folder in place of another one; a copy that is cut off is no cache."""
    new = place.with_name(f"{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(folder, new)
    shutil.rmtree(place, ignore_errors=True)
    new.rename(place)


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".mypy.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
