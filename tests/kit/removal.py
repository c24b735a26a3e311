"""Removes what a test wrote: a data folder has 256 folders, most of them empty."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def remove(folder: Path) -> None:
    """Remove a folder, as far as its files can be removed."""
    try:
        _remove(str(folder))
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: str) -> None:
    with os.scandir(folder) as opened:
        entries = list(opened)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)  # noqa: PTH108 - a path for each name costs more than its removal
            continue
        try:
            os.rmdir(entry.path)  # noqa: PTH106 - as above
        except OSError:
            _remove(entry.path)
    os.rmdir(folder)  # noqa: PTH106 - as above
