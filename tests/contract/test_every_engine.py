"""Every engine that writes tables, and every one that reads them, on the same tables.

After each write, and after each step of the pipeline's maintenance, all readers see the same rows.
Trino 476 makes no table of format version 3, and neither it nor Daft 0.7 reads deletion vectors;
PyIceberg 0.12 writes no table of that version.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pipeline import expiry, maintenance, settings
from tests.kit import engines as engines_kit
from tests.kit import line_programs
from tests.kit.engines import Engines
from tests.kit.trino import TrinoError

pytestmark = [pytest.mark.clients, pytest.mark.spark, pytest.mark.timeout(900)]

EVERY_READER = (
    "spark", "pyiceberg", "duckdb", "sql", "trino", "polars", "daft", "iceberg-rust",
)  # fmt: skip
READERS_OF_DELETION_VECTORS = tuple(
    reader for reader in EVERY_READER if reader not in {"trino", "daft"}
)
COLUMNS = ("id", "name")
NUMBERS = itertools.count()
Write = Callable[[Engines, str], None]


def new_name() -> str:
    return f"{engines_kit.EVERY_NAMESPACE}.t{next(NUMBERS)}"


def test_every_writer_in_turn_leaves_rows_that_every_reader_sees(every: Engines) -> None:
    name = new_name()
    schema, _, short = name.partition(".")
    every.spark(f"CREATE TABLE documented.{name} (id BIGINT, name STRING)")
    rows: dict[int, str] = {}

    def by_spark() -> None:
        every.spark(f"INSERT INTO documented.{name} VALUES (1, 'spark'), (2, 'spark')")
        rows.update({1: "spark", 2: "spark"})

    def by_pyiceberg() -> None:
        table = every.catalog.load_table(name)
        table.append(pa.table({"id": [3, 4], "name": ["pyiceberg", "pyiceberg"]}))
        table.delete("id = 1")
        rows.update({3: "pyiceberg", 4: "pyiceberg"})
        del rows[1]

    def by_duckdb() -> None:
        every.duckdb(f"INSERT INTO lake.{name} VALUES (5, 'duckdb'), (6, 'duckdb')")
        every.duckdb(f"DELETE FROM lake.{name} WHERE id = 3")
        every.duckdb(f"UPDATE lake.{name} SET name = 'duckdb too' WHERE id = 4")
        rows.update({4: "duckdb too", 5: "duckdb", 6: "duckdb"})
        del rows[3]

    def by_sql() -> None:
        every.sql(f"insert into {short} values (7, 'sql'), (8, 'sql')", schema=schema)
        every.sql(
            f"update {short} set name = 'sql too' where id in (2, 5)",
            schema=schema,
        )
        rows.update({2: "sql too", 5: "sql too", 7: "sql", 8: "sql"})

    def by_trino() -> None:
        every.trino(f"INSERT INTO lake.{name} VALUES (9, 'trino'), (10, 'trino')")
        every.trino(f"DELETE FROM lake.{name} WHERE id = 7")
        every.trino(
            f"MERGE INTO lake.{name} t USING (VALUES (8, 'trino too'), (11, 'trino')) "
            "AS s(id, name) ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name "
            "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name)"
        )
        rows.update({8: "trino too", 9: "trino", 10: "trino", 11: "trino"})
        del rows[7]

    def by_pyiceberg_again() -> None:
        every.catalog.load_table(name).overwrite(
            pa.table({"id": [6], "name": ["pyiceberg again"]}), overwrite_filter="id = 6"
        )
        rows[6] = "pyiceberg again"

    def by_polars() -> None:
        every.library("polars", name, {"id": [13, 14], "name": ["polars", "polars"]})
        every.library("polars", name, {"id": [5], "name": ["polars too"]}, replaced="id = 5")
        rows.update({5: "polars too", 13: "polars", 14: "polars"})

    def by_daft() -> None:
        every.library("daft", name, {"id": [15], "name": ["daft"]})
        every.library("daft", name, {"id": [13], "name": ["daft too"]}, replaced="id = 13")
        rows.update({13: "daft too", 15: "daft"})

    def by_spark_again() -> None:
        every.spark(f"REFRESH TABLE documented.{name}")
        every.spark(f"ALTER TABLE documented.{name} ADD PARTITION FIELD bucket(2, id)")
        every.spark(f"UPDATE documented.{name} SET name = 'spark again' WHERE id IN (4, 9)")
        every.spark(f"DELETE FROM documented.{name} WHERE id = 10")
        rows.update({4: "spark again", 9: "spark again"})
        del rows[10]

    def by_trino_again() -> None:
        every.trino(f"UPDATE lake.{name} SET name = 'trino again' WHERE id IN (2, 4, 11)")
        every.trino(f"INSERT INTO lake.{name} VALUES (12, 'trino')")
        rows.update({2: "trino again", 4: "trino again", 11: "trino again", 12: "trino"})

    for write in (
        by_spark, by_pyiceberg, by_duckdb, by_sql, by_trino, by_polars, by_daft,
        by_pyiceberg_again, by_spark_again, by_trino_again,
    ):  # fmt: skip
        write()
        expected = sorted(rows.items())
        read = every.rows_by_reader(EVERY_READER, name, COLUMNS)
        assert read == dict.fromkeys(EVERY_READER, expected), write.__name__


def test_deletion_vectors_of_each_writer_are_seen_or_refused(every: Engines) -> None:
    name = new_name()
    schema, _, short = name.partition(".")
    every.spark(
        f"CREATE TABLE documented.{name} TBLPROPERTIES ('format-version'='3', "
        "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read') "
        "AS SELECT id, concat('n', id) AS name FROM range(0, 8, 1, 1)"
    )
    rows = {number: f"n{number}" for number in range(8)}
    assert every.rows_by_reader(EVERY_READER, name, COLUMNS) == dict.fromkeys(
        EVERY_READER, sorted(rows.items())
    )
    deletions: dict[int, Callable[[], Any]] = {
        1: lambda: every.spark(f"DELETE FROM documented.{name} WHERE id = 1"),
        3: lambda: every.duckdb(f"DELETE FROM lake.{name} WHERE id = 3"),
        5: lambda: every.sql(f"delete from {short} where id = 5", schema=schema),
    }
    readers = READERS_OF_DELETION_VECTORS
    for number, delete in deletions.items():
        delete()
        del rows[number]
        read = every.rows_by_reader(readers, name, COLUMNS)
        assert read == dict.fromkeys(readers, sorted(rows.items())), number
    formats = every.spark(f"SELECT DISTINCT file_format FROM documented.{name}.delete_files")
    assert formats == [("PUFFIN",)]
    with pytest.raises(TrinoError, match="Unexpected PUFFIN file format"):
        every.rows("trino", name, COLUMNS)
    with pytest.raises(line_programs.ProgramError, match="not a valid parquet file"):
        every.rows("daft", name, COLUMNS)


# Tables for maintenance: each writer leaves the rows of CHANGED.

CHANGED = sorted(
    (number, "changed" if number in {5, 25} else f"n{number}")
    for number in range(30)
    if number not in {3, 4, 15, 16}
)


def by_trino(properties: str, *between: str) -> Write:
    """between: statements after the first third of the rows, and after the second."""

    def write(every: Engines, name: str) -> None:
        table = f"lake.{name}"
        every.trino(f"CREATE TABLE {table} (id bigint, name varchar) {properties}")
        for start, statement in zip((0, 10, 20), (*between, "", "", "")[:3], strict=True):
            every.trino(
                f"INSERT INTO {table} (id, name) SELECT x, 'n' || CAST(x AS varchar) "
                f"FROM UNNEST(sequence({start}, {start + 9})) t(x)"
            )
            every.trino(f"DELETE FROM {table} WHERE id IN (3, 15)")
            if statement:
                every.trino(statement.format(table=table))
        every.trino(f"UPDATE {table} SET name = 'changed' WHERE id IN (5, 25)")
        every.trino(
            f"MERGE INTO {table} t USING (VALUES 4, 16) AS s(id) ON t.id = s.id "
            "WHEN MATCHED THEN DELETE"
        )

    return write


def by_spark(every: Engines, name: str) -> None:
    table = f"documented.{name}"
    every.spark(
        f"CREATE TABLE {table} (id BIGINT, name STRING) TBLPROPERTIES ("
        "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"
    )
    for start in (0, 10, 20):
        every.spark(
            f"INSERT INTO {table} SELECT id, concat('n', id) FROM range({start}, {start + 10})"
        )
    every.spark(f"DELETE FROM {table} WHERE id IN (3, 4, 15, 16)")
    every.spark(f"UPDATE {table} SET name = 'changed' WHERE id IN (5, 25)")


def by_duckdb(every: Engines, name: str) -> None:
    every.spark(f"CREATE TABLE documented.{name} (id BIGINT, name STRING)")
    table = f"lake.{name}"
    for start in (0, 10, 20):
        every.duckdb(
            f"INSERT INTO {table} SELECT n, 'n' || n FROM range({start}, {start + 10}) t(n)"
        )
    every.duckdb(f"DELETE FROM {table} WHERE id IN (3, 4, 15, 16)")
    every.duckdb(f"UPDATE {table} SET name = 'changed' WHERE id IN (5, 25)")


def by_pyiceberg(every: Engines, name: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = every.catalog.create_table(name, schema=columns)
    for start in (0, 10, 20):
        ids = list(range(start, start + 10))
        table.append(pa.table({"id": ids, "name": [f"n{number}" for number in ids]}))
    table.delete("id in (3, 4, 5, 15, 16, 25)")
    table.append(pa.table({"id": [5, 25], "name": ["changed", "changed"]}))


def by_sql(every: Engines, name: str) -> None:
    schema, _, short = name.partition(".")
    every.sql(
        f"create iceberg table {short} (id bigint, name varchar) "
        "iceberg_merge_on_read_behavior = 'ENABLED'",
        schema=schema,
    )
    for start in (0, 10, 20):
        values = ", ".join(f"({number}, 'n{number}')" for number in range(start, start + 10))
        every.sql(f"insert into {short} values {values}", schema=schema)
    every.sql(f"delete from {short} where id in (3, 4, 15, 16)", schema=schema)
    every.sql(f"update {short} set name = 'changed' where id in (5, 25)", schema=schema)


WRITERS: dict[str, Write] = {
    "trino": by_trino(""),
    "trino, partitioned": by_trino("WITH (partitioning = ARRAY['bucket(id, 2)'])"),
    "trino, three specs": by_trino(
        "",
        "ALTER TABLE {table} SET PROPERTIES partitioning = ARRAY['bucket(id, 2)']",
        "ALTER TABLE {table} SET PROPERTIES partitioning = ARRAY['truncate(name, 1)']",
    ),
    "trino, columns added and files optimized": by_trino(
        "WITH (sorted_by = ARRAY['name'])",
        "ALTER TABLE {table} ADD COLUMN note varchar",
        "ALTER TABLE {table} EXECUTE optimize",
    ),
    "spark": by_spark,
    "duckdb": by_duckdb,
    "pyiceberg": by_pyiceberg,
    "sql": by_sql,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_reader_sees_the_rows_of_each_writer_after_each_step_of_maintenance(
    every: Engines, spark: Any, writer: str
) -> None:
    name = new_name()
    WRITERS[writer](every, name)
    expected = dict.fromkeys(EVERY_READER, CHANGED)
    assert every.rows_by_reader(EVERY_READER, name, COLUMNS) == expected
    table = settings.parse_table(f"lake.{name}")

    def open_spark(_: str) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext(spark)

    counts = maintenance.compact(
        table,
        target_file_size_mib=None,
        min_input_files=2,
        open_spark=open_spark,
        say=print,
    )
    assert counts["rewritten_data_files_count"] > counts["added_data_files_count"] > 0
    assert every.rows_by_reader(EVERY_READER, name, COLUMNS) == expected
    maintenance.rewrite_manifests(table, open_spark=open_spark)
    assert every.rows_by_reader(EVERY_READER, name, COLUMNS) == expected
    now = datetime.datetime.now(datetime.UTC)
    expiry.run(table, older_than=now, retain_last=1, open_spark=open_spark)
    assert len(every.catalog.load_table(name).metadata.snapshots) == 1
    assert every.rows_by_reader(EVERY_READER, name, COLUMNS) == expected

    every.trino(f"DELETE FROM lake.{name} WHERE id < 20")
    left = [row for row in CHANGED if row[0] >= 20]
    assert every.rows_by_reader(EVERY_READER, name, COLUMNS) == dict.fromkeys(EVERY_READER, left)
