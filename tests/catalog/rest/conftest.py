"""Fixtures of the REST catalog's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.rest import rest_server as kit


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[kit.RestServer]:
    """A REST catalog over an empty folder, with the table bucket `lake`."""
    with kit.opened(tmp_path / "data") as opened:
        yield opened
