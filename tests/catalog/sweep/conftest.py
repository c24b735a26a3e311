"""What the tests of the sweep share."""

from __future__ import annotations

import pytest

from tests.kit import datafiles, lakes


@pytest.fixture
def bench(lake: lakes.Lake) -> datafiles.Bench:
    """What writes the tables of one data folder and reads them."""
    return datafiles.bench(lake)
