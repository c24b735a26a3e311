"""A data folder with the general bucket `raw`, and its clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.opening import Storage
from tests.kit import folders


@pytest.fixture
def clock() -> folders.Clock:
    return folders.Clock()


@pytest.fixture
def storage(tmp_path: Path, clock: folders.Clock) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path / "data", clock=clock)
    folders.run(folders.make_bucket(opened))
    yield opened
    opened.close()
