"""Fixtures of the catalog's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import lakes


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lakes.Lake]:
    """A catalog over an empty folder, with the table bucket `lake`."""
    with lakes.opened(tmp_path / "data") as opened:
        yield opened
