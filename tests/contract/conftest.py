"""What the contract tests share: the engines of the running server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import engines as engines_kit
from tests.kit import server as server_kit


@pytest.fixture(scope="session")
def engines(
    server: server_kit.Running, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[engines_kit.Engines]:
    """Spark, PyIceberg, DuckDB and SQL."""
    engines_kit.documented_in_spark(spark.session, server)
    with engines_kit.duckdb_attached(server, tmp_path_factory.mktemp("duckdb")) as duck:
        yield engines_kit.Engines(running=server, session=spark.session, duck=duck)
