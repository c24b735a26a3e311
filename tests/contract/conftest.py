"""What the contract tests share: the engines of the running server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import duck as duck_kit
from tests.kit import engines as engines_kit
from tests.kit import line_programs
from tests.kit import server as server_kit
from tests.kit.trino import Trino


@pytest.fixture(scope="session")
def engines(
    server: server_kit.Running, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[engines_kit.Engines]:
    """Spark, PyIceberg, DuckDB and SQL."""
    engines_kit.documented_in_spark(spark.session, server)
    with duck_kit.attached(server, tmp_path_factory.mktemp("duckdb")) as duck:
        yield engines_kit.Engines(running=server, session=spark.session, duck=duck)


@pytest.fixture(scope="module")
def every(
    engines: engines_kit.Engines, server: server_kit.Running, trino: Trino
) -> Iterator[engines_kit.Engines]:
    """Those and Trino, Polars, Daft and iceberg-rust, with a namespace for their tables."""
    engines.spark(f"CREATE NAMESPACE IF NOT EXISTS documented.{engines_kit.EVERY_NAMESPACE}")
    with line_programs.running(server, "readers", engines_kit.LIBRARIES_PROGRAM) as program:
        yield engines.having(program=program, trino=trino)
