"""One served face for the tests that only talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sql.rest import served


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Served]:
    with served.serve(tmp_path_factory.mktemp("face")) as running:
        yield running
