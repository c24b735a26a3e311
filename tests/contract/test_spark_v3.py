"""Types and columns of format version 3 in tables that Spark, DuckDB, PyIceberg and SQL share.

An engine that has no such type refuses the table and names the type; which do is asserted, so that
a release that learns one is noticed.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationError

from sql import shell
from tests.kit import rest as rest_kit
from tests.kit.engines import Engines

pytestmark = pytest.mark.spark

NAMESPACE = "spark_v3"
V3 = "TBLPROPERTIES ('format-version'='3')"


@pytest.fixture(scope="module", autouse=True)
def _namespace(engines: Engines) -> None:
    engines.spark(f"CREATE NAMESPACE documented.{NAMESPACE}")


def test_variants_of_spark_and_duckdb_are_read_by_both(engines: Engines) -> None:
    name = f"{NAMESPACE}.variants"
    engines.spark(
        f"CREATE TABLE documented.{name} (id BIGINT, v VARIANT) TBLPROPERTIES ("
        # DuckDB shreds what it writes, which Iceberg's vectorized reader refuses in Spark.
        "'format-version'='3', 'read.parquet.vectorization.enabled'='false')"
    )
    engines.spark(
        f"""INSERT INTO documented.{name} SELECT 1L, parse_json('{{"a":[1,2.5,"x"],"b":null}}')"""
    )
    engines.duckdb(
        f"INSERT INTO lake.{name} VALUES (2, {{'a': 7}}::VARIANT), (3, {{'a': 8}}::VARIANT)"
    )
    engines.spark(f"REFRESH TABLE documented.{name}")
    assert sorted(engines.spark(f"SELECT id, to_json(v) FROM documented.{name}")) == [
        (1, '{"a":[1,2.5,"x"],"b":null}'), (2, '{"a":7}'), (3, '{"a":8}'),
    ]  # fmt: skip
    assert engines.spark(
        f"SELECT id FROM documented.{name} WHERE try_variant_get(v, '$.a', 'int') = 7"
    ) == [(2,)]
    assert engines.duckdb(f"SELECT v.a::VARCHAR FROM lake.{name} ORDER BY id") == [
        ("[1, 2.5, x]",), ("7",), ("8",),
    ]  # fmt: skip
    engines.spark(f"DELETE FROM documented.{name} WHERE id = 1")
    assert sorted(engines.duckdb(f"SELECT id, v.a::BIGINT FROM lake.{name}")) == [(2, 7), (3, 8)]

    assert sorted(engines.sql(f"select id from {name}")) == [(2,), (3,)]
    refused = "Unsupported feature 'column V of Iceberg type variant'"
    with pytest.raises(shell.ShellError, match=refused):
        engines.sql(f"select * from {name}")
    with pytest.raises(ValueError, match="Unsupported field type: 'variant'"):
        engines.catalog.load_table(name)


def test_rows_from_before_a_column_have_its_default_in_every_engine(engines: Engines) -> None:
    """Spark makes no defaults itself: SQL adds them, as `initial-default` and `write-default`."""
    name = f"{NAMESPACE}.defaults"
    engines.spark(f"CREATE TABLE documented.{name} (id BIGINT, name STRING) {V3}")
    engines.spark(f"INSERT INTO documented.{name} VALUES (1, 'before')")
    engines.sql("alter table defaults add column n int default 5", schema=NAMESPACE)
    engines.sql("alter table defaults add column w varchar default 'w'", schema=NAMESPACE)
    engines.spark(f"REFRESH TABLE documented.{name}")
    engines.spark(f"INSERT INTO documented.{name} (id, name) VALUES (2, 'spark')")
    engines.duckdb(f"INSERT INTO lake.{name} (id, name) VALUES (3, 'duckdb')")
    engines.sql("insert into defaults (id, name) values (4, 'sql')", schema=NAMESPACE)
    engines.sql("insert into defaults values (5, 'given', null, 'x')", schema=NAMESPACE)
    expected = [
        (1, "before", 5, "w"), (2, "spark", 5, "w"), (3, "duckdb", 5, "w"), (4, "sql", 5, "w"),
        (5, "given", None, "x"),
    ]  # fmt: skip
    readers = ("spark", "pyiceberg", "duckdb", "sql")
    assert engines.rows_by_reader(readers, name) == dict.fromkeys(readers, expected)
    engines.spark(f"UPDATE documented.{name} SET name = 'changed' WHERE id = 1")
    expected[0] = (1, "changed", 5, "w")
    assert engines.rows_by_reader(readers, name) == dict.fromkeys(readers, expected)


def test_nanoseconds_of_sql_and_duckdb_are_read_by_pyiceberg_duckdb_and_sql(
    engines: Engines,
) -> None:
    name = f"{NAMESPACE}.moments"
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "moment", "required": False, "type": "timestamp_ns"},
    ]
    with rest_kit.Client(engines.running) as client:
        status, _ = client.ask(
            "POST",
            f"namespaces/{NAMESPACE}/tables",
            {
                "name": "moments",
                "schema": {"type": "struct", "schema-id": 0, "fields": fields},
                "properties": {"format-version": "3"},
            },
        )
    assert status == 200
    by_sql, by_duckdb = "2026-01-02 03:04:05.123456789", "1969-12-31 23:59:59.999999999"
    engines.sql(f"insert into moments values (1, '{by_sql}')", schema=NAMESPACE)
    engines.duckdb(f"INSERT INTO lake.{name} VALUES (2, '{by_duckdb}')")
    expected = [(1, by_sql), (2, by_duckdb)]
    text = "to_varchar(moment, 'YYYY-MM-DD HH24:MI:SS.FF9')"
    assert sorted(engines.sql(f"select id, {text} from {name}")) == expected
    assert sorted(engines.duckdb(f"SELECT id, moment::VARCHAR FROM lake.{name}")) == expected
    scanned = engines.catalog.load_table(name).scan().to_arrow()
    assert scanned.schema.field("moment").type == pa.timestamp("ns")
    nanoseconds = dict(
        zip(scanned["id"].to_pylist(), scanned["moment"].cast(pa.int64()).to_pylist(), strict=True)
    )
    assert nanoseconds == {1: 1_767_323_045_123_456_789, 2: -1}
    with pytest.raises(Exception, match="Cannot convert unsupported type to Spark: timestamp"):
        engines.spark(f"SELECT id FROM documented.{name}")


def test_pyiceberg_refuses_to_write_a_table_of_format_version_3(engines: Engines) -> None:
    name = f"{NAMESPACE}.refused"
    engines.spark(f"CREATE TABLE documented.{name} (id BIGINT) {V3}")
    loaded = engines.catalog.load_table(name)
    with pytest.raises((ValueError, ValidationError), match="Cannot write manifest"):
        loaded.append(pa.table({"id": [1]}))
    assert engines.rows("duckdb", name) == []
