"""A small file system in memory, where this user may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, *, mib: int) -> Iterator[Path]:
    """Mount mib MiB at place, a folder that is made; skips the test where that is not allowed."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode != 0:
        pytest.skip("mounting a small file system needs root on Linux")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
