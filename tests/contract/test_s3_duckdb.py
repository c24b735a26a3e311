"""S3 as DuckDB's httpfs uses it; the extension comes from its own package, not from the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit import duck
from tests.kit import s3 as kit
from tests.kit.server import Running


@pytest.fixture
def database(server: Running, tmp_path: Path) -> Any:
    connection = duck.opened(tmp_path, ("httpfs",))
    connection.execute(
        f"""create secret (type s3, key_id '{server.access_key}', secret '{server.secret_key}',
        region '{kit.REGION}', endpoint '127.0.0.1:{server.port}', url_style 'path',
        use_ssl false)"""
    )
    return connection


def test_duckdb_writes_parquet_and_reads_it_back(server: Running, database: Any) -> None:
    bucket = kit.new_bucket(kit.client(server))
    database.execute(
        f"copy (select range as n, n % 7 as g from range(300000)) to 's3://{bucket}/t.parquet'"
    )
    rows = database.execute(
        f"select g, count(*), sum(n) from 's3://{bucket}/t.parquet' group by g order by g"
    ).fetchall()
    expected = [(g, len(r := range(g, 300_000, 7)), sum(r)) for g in range(7)]
    assert rows == expected


@pytest.mark.clients
def test_duckdb_writes_partitions_and_globs(server: Running, database: Any) -> None:
    bucket = kit.new_bucket(kit.client(server))
    database.execute(
        f"""copy (select range as n, 'p ' || n % 3 as part from range(30000))
        to 's3://{bucket}/d' (format csv, partition_by (part))"""
    )
    query = f"select part, count(*) from 's3://{bucket}/d/**/*.csv' group by part order by part"
    assert database.execute(query).fetchall() == [(f"p {n}", 10000) for n in range(3)]


@pytest.mark.clients
def test_duckdb_uploads_a_large_file_in_parts(server: Running, database: Any) -> None:
    bucket = kit.new_bucket(kit.client(server))
    database.execute(
        f"""copy (select range as n, hash(range) as h, md5(range::varchar) as m
        from range(3000000)) to 's3://{bucket}/large.parquet' (compression uncompressed)"""
    )
    query = f"select count(distinct h) from 's3://{bucket}/large.parquet'"
    assert database.execute(query).fetchall() == [(3_000_000,)]
