"""What tests of crashes share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of restarts, and no real sync is needed."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    place = Path(tempfile.mkdtemp(dir=memory))
    yield place
    shutil.rmtree(place)
