"""Fixtures of the REST catalog's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.rest import house as houses


@pytest.fixture
def house(tmp_path: Path) -> Iterator[houses.House]:
    """A REST catalog over an empty folder, with the table bucket `lake`."""
    with houses.opened(tmp_path / "data") as opened:
        yield opened
