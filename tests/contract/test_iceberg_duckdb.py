"""The catalog as DuckDB uses it: a secret, an endpoint, and nothing about S3."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import BucketTransform

from tests.kit import bigtables, duck, lake_client, stalls
from tests.kit.server import Running


@pytest.fixture
def database(server: Running, tmp_path: Path) -> Any:
    return duck.attached(server, tmp_path)


@pytest.fixture
def schema(database: Any) -> str:
    name = f"duck_{uuid.uuid4().hex[:8]}"
    database.execute(f"create schema lake.{name}")
    return name


def test_duckdb_creates_inserts_deletes_and_reads(database: Any, schema: str) -> None:
    table = f"lake.{schema}.t"
    database.execute(f"create table {table} (id bigint, name varchar)")
    database.execute(f"insert into {table} values (1, 'a'), (2, 'b')")
    database.execute(f"insert into {table} select range + 100, 'x' from range(1000)")
    assert database.execute(f"select count(*), sum(id) from {table}").fetchall() == [
        (1002, 3 + sum(range(100, 1100)))
    ]
    database.execute(f"delete from {table} where id = 2")
    assert database.execute(f"select id, name from {table} where id < 10").fetchall() == [(1, "a")]
    database.execute(f"create table lake.{schema}.u as select * from {table} where id < 110")
    assert database.execute(f"select count(*) from lake.{schema}.u").fetchall() == [(11,)]
    database.execute(f"drop table lake.{schema}.u")
    listed = database.execute(
        f"select table_name from duckdb_tables() where schema_name = '{schema}'"
    ).fetchall()
    assert listed == [("t",)]


def test_duckdb_commits_several_tables_in_one_transaction_or_none(
    database: Any, schema: str
) -> None:
    for name in ("a", "b"):
        database.execute(f"create table lake.{schema}.{name} (id bigint)")
    database.execute("begin")
    for name in ("a", "b"):
        database.execute(f"insert into lake.{schema}.{name} values (1)")
    database.execute("commit")
    database.execute("begin")
    for name in ("a", "b"):
        database.execute(f"insert into lake.{schema}.{name} values (2)")
    database.execute("rollback")
    for name in ("a", "b"):
        rows = database.execute(f"select id from lake.{schema}.{name}").fetchall()
        assert rows == [(1,)]


def test_duckdb_and_pyiceberg_see_each_others_rows(
    server: Running, database: Any, schema: str
) -> None:
    catalog = load_catalog(
        "lake",
        type="rest",
        uri=server.iceberg,
        warehouse="lake",
        credential=f"{server.access_key}:{server.secret_key}",
    )
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    table = catalog.create_table(f"{schema}.t", schema=rows.schema)
    table.append(rows)
    database.execute(f"insert into lake.{schema}.t values (3, 'c')")
    assert database.execute(f"select id from lake.{schema}.t order by id").fetchall() == [
        (1,), (2,), (3,),
    ]  # fmt: skip
    table.refresh()
    table.append(rows)
    assert table.scan().count() == 5
    counted = database.execute(f"select count(*) from lake.{schema}.t").fetchall()
    assert counted == [(5,)]


@pytest.mark.parametrize("version", [2, 3])
def test_duckdb_changes_rows_of_the_current_partition_spec_alone(
    database: Any, server: Running, schema: str, version: int
) -> None:
    """DuckDB 1.5 writes each delete file under the current spec, also for files of older ones."""
    table = f"lake.{schema}.t"
    database.execute(f"create table {table} (id bigint) with ('format-version' = {version})")
    catalog = lake_client.catalog(server)
    with catalog.load_table(f"{schema}.t").update_spec() as spec:
        spec.add_field("id", BucketTransform(2), "id_bucket")
    database.execute(f"insert into {table} values (0), (1), (2)")
    with catalog.load_table(f"{schema}.t").update_spec() as spec:
        spec.remove_field("id_bucket")
        spec.add_identity("id")
    database.execute(f"insert into {table} values (3), (4)")
    before = catalog.load_table(f"{schema}.t").metadata_location
    for change in (f"delete from {table} where id = 2", f"update {table} set id = 9 where id = 1"):
        with pytest.raises(duckdb.Error, match=r"which has partition spec 1, by .* spec 2: "):
            database.execute(change)
    assert catalog.load_table(f"{schema}.t").metadata_location == before
    database.execute(f"delete from {table} where id = 4")
    expected = [(0,), (1,), (2,), (3,)]
    assert database.execute(f"select id from {table} order by id").fetchall() == expected
    with lake_client.session(server, schema) as sql:
        assert sql.rows("select id from t order by id") == expected
        assert sql.rows("select id from t where id > 2 order by id") == [(3,)]


def test_writers_in_turn_leave_rows_that_pyiceberg_duckdb_and_sql_see(
    server: Running, database: Any, schema: str
) -> None:
    catalog = load_catalog(
        "lake",
        type="rest",
        uri=server.iceberg,
        warehouse="lake",
        credential=f"{server.access_key}:{server.secret_key}",
    )
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    catalog.create_table(f"{schema}.turns", schema=columns)
    rows: dict[int, str] = {}
    with lake_client.session(server, schema) as session:

        def by_pyiceberg() -> None:
            added = pa.table({"id": [1, 2], "name": ["a", "b"]}, schema=columns)
            catalog.load_table(f"{schema}.turns").append(added)
            rows.update({1: "a", 2: "b"})

        def by_duckdb() -> None:
            database.execute(f"insert into lake.{schema}.turns values (3, 'c')")
            database.execute(f"delete from lake.{schema}.turns where id = 1")
            rows[3] = "c"
            del rows[1]

        def by_sql() -> None:
            session.rows("insert into turns values (4, 'd')")
            rows[4] = "d"

        def by_pyiceberg_again() -> None:
            catalog.load_table(f"{schema}.turns").delete("id = 3")
            del rows[3]

        for write in (by_pyiceberg, by_duckdb, by_sql, by_pyiceberg_again):
            write()
            expected = sorted(rows.items())
            scanned = catalog.load_table(f"{schema}.turns").scan().to_arrow().to_pylist()
            assert sorted(tuple(each.values()) for each in scanned) == expected
            read = database.execute(f"from lake.{schema}.turns order by id").fetchall()
            assert read == expected
            assert session.rows("select * from turns order by id") == expected


def test_sql_reads_what_duckdb_wrote_deleted_and_updated(
    server: Running, database: Any, schema: str
) -> None:
    database.execute(f"create table lake.{schema}.t (id bigint, name varchar)")
    database.execute(f"insert into lake.{schema}.t select range, 'x' from range(3000)")
    database.execute(f"delete from lake.{schema}.t where id < 10")
    database.execute(f"update lake.{schema}.t set name = 'y' where id = 11")
    with lake_client.session(server, schema) as sql:
        for text in (
            "select count(*) from t",
            "select count(*), min(id), max(id), max(name) from t where id >= 5",
            "select id, name from t where id between 8 and 12 order by id",
        ):
            expected = database.execute(text.replace(" t", f" lake.{schema}.t", 1)).fetchall()
            assert sql.rows(text) == expected


@pytest.mark.parametrize("count", [250, pytest.param(1_000, marks=pytest.mark.clients)])
def test_sql_and_duckdb_apply_very_many_interleaved_equality_deletes_alike(
    server: Running, database: Any, schema: str, count: int
) -> None:
    """As a stream of upserts leaves them: each commit adds rows and deletes older ones by id."""
    ids = [(number, -1 - number % 7) for number in range(count)]
    deleted = [(number // 2, -1 - number % 5) for number in range(count)]
    sorts = bigtables.Sorts(
        data_files=len(ids),
        equality_deletes=len(deleted),
        sequenced=True,
        ids=ids.__getitem__,
        deleted_ids=deleted.__getitem__,
    )
    target = stalls.Target(
        running=server, access_key=server.access_key, secret_key=server.secret_key
    )
    bigtables.make(target, schema, "upserted", sorts)
    last_deleted = {value: number for number, pair in enumerate(deleted) for value in pair}
    # The n-th delete file is younger than the n-th data file and older than the next.
    expected = sorted(
        value
        for number, pair in enumerate(ids)
        for value in pair
        if last_deleted.get(value, -1) < number
    )

    with lake_client.session(server, schema) as sql:
        rows = sql.rows("select id from upserted order by id")
        assert [row[0] for row in rows] == expected
        assert sql.rows("select count(*), sum(id) from upserted") == [
            (len(expected), sum(expected))
        ]
    rows = database.execute(f"select id from lake.{schema}.upserted order by id").fetchall()
    assert [row[0] for row in rows] == expected


def test_duckdb_and_pyiceberg_read_what_a_sql_transaction_committed(
    server: Running, database: Any, schema: str
) -> None:
    with lake_client.session(server, schema) as sql:
        for table in ("a", "b"):
            sql.rows(f"create table {table} (id int)")
            sql.rows(f"insert into {table} values (1), (2)")
        sql.rows("begin")
        sql.rows("insert overwrite into a select id * 10 from a")
        sql.rows("insert into a select id + 1 from a")
        sql.rows("truncate table b")
        sql.rows("insert into b select sum(id) from a")
        for table in ("a", "b"):
            before = database.execute(f"select id from lake.{schema}.{table} order by id")
            assert before.fetchall() == [(1,), (2,)]
        sql.rows("commit")
    for table, expected in (("a", [10, 11, 20, 21]), ("b", [62])):
        rows = database.execute(f"select id from lake.{schema}.{table} order by id").fetchall()
        assert [row[0] for row in rows] == expected
        read = lake_client.catalog(server).load_table(f"{schema}.{table}").scan().to_arrow()
        assert sorted(read["id"].to_pylist()) == expected
