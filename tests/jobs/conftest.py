"""A lake of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import lakes


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lakes.Lake]:
    with lakes.opened(tmp_path / "data") as opened_lake:
        yield opened_lake
