"""TPC-H's 22 queries over the wire, on Iceberg tables, against DuckDB on the same data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.kit import lake_client, tpch
from tests.kit import server as server_kit

SCALE = 0.01
SCHEMA = "tpch"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder, SCALE)
    return folder


@pytest.fixture(scope="module")
def session(server: server_kit.Running, generated: Path) -> Iterator[lake_client.Session]:
    tpch.ingest(server, generated, SCHEMA)
    with lake_client.session(server, SCHEMA) as opened:
        yield opened


@pytest.fixture(scope="module")
def oracle(generated: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in tpch.TABLES:
            connection.execute(f"create view {name} as from '{generated}/{name}.parquet'")
        yield connection


@pytest.mark.parametrize("number", sorted(tpch.QUERIES))
def test_tpch_query_answers_as_duckdb_does(
    number: int, session: lake_client.Session, oracle: duckdb.DuckDBPyConnection
) -> None:
    text = tpch.query(number, SCALE)
    answer = session.answer(text)
    assert tpch.differences(answer, oracle.execute(text).fetchall()) == []
