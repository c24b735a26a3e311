"""What the tests of a cluster share: the cluster itself, which takes some seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import standalone


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.Cluster]:
    with standalone.running(tmp_path_factory.mktemp("cluster") / "spark") as running:
        yield running
