"""Types and columns of format version 3 in tables that Spark, DuckDB, PyIceberg and SQL share.

An engine that has no such type refuses the table and names the type; which do is asserted, so that
a release that learns one is noticed.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationError

from tests.kit import rest as rest_kit
from tests.kit.engines import Engines

pytestmark = pytest.mark.spark

NAMESPACE = "spark_v3"
V3 = "TBLPROPERTIES ('format-version'='3')"


@pytest.fixture(scope="module", autouse=True)
def _namespace(engines: Engines) -> None:
    engines.spark(f"CREATE NAMESPACE documented.{NAMESPACE}")


@pytest.mark.smoke
def test_variants_of_spark_duckdb_and_sql_are_read_by_all_three(engines: Engines) -> None:
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
    engines.sql(f"""insert into {name} select 4, parse_json('{{"a": 9, "c": {{"d": [true]}}}}')""")
    engines.spark(f"REFRESH TABLE documented.{name}")
    expected = [
        (1, '{"a":[1,2.5,"x"],"b":null}'), (2, '{"a":7}'), (3, '{"a":8}'),
        (4, '{"a":9,"c":{"d":[true]}}'),
    ]  # fmt: skip
    assert sorted(engines.spark(f"SELECT id, to_json(v) FROM documented.{name}")) == expected
    assert sorted(engines.sql(f"select id, to_json(v) from {name}")) == expected
    assert engines.spark(
        f"SELECT id FROM documented.{name} WHERE try_variant_get(v, '$.a', 'int') = 7"
    ) == [(2,)]
    assert engines.sql(f"select id from {name} where try_to_number(v:a::varchar) = 7") == [(2,)]
    assert engines.duckdb(f"SELECT v.a::VARCHAR FROM lake.{name} ORDER BY id") == [
        ("[1, 2.5, x]",), ("7",), ("8",), ("9",),
    ]  # fmt: skip
    engines.spark(f"DELETE FROM documented.{name} WHERE id = 1")
    engines.sql(f"delete from {name} where v:a = 8")
    assert sorted(engines.duckdb(f"SELECT id, v.a::BIGINT FROM lake.{name}")) == [(2, 7), (4, 9)]
    assert sorted(engines.sql(f"select id from {name}")) == [(2,), (4,)]
    with pytest.raises(ValueError, match="Unsupported field type: 'variant'"):
        engines.catalog.load_table(name)


SPARK_TYPES = {
    "1Y": ("INTEGER", "1"),
    "300S": ("INTEGER", "300"),
    "-70000": ("INTEGER", "-70000"),
    "9223372036854775807L": ("INTEGER", "9223372036854775807"),
    "1.5D": ("DOUBLE", "1.5"),
    "float(0.25)": ("DOUBLE", "0.25"),
    "1.50BD": ("DECIMAL", "1.5"),
    "123456789012.345BD": ("DECIMAL", "123456789012.345"),
    "12345678901234567890123456789012345678BD": (
        "INTEGER",
        "12345678901234567890123456789012345678",
    ),
    "true": ("BOOLEAN", "true"),
    "'a text'": ("VARCHAR", "a text"),
    "repeat('é', 200)": ("VARCHAR", "é" * 200),
    "X'00FF'": ("BINARY", "00FF"),
    "DATE '2026-11-29'": ("DATE", "2026-11-29"),
    "DATE '-0044-03-15'": ("DATE", "-0044-03-15"),
    "TIMESTAMP_NTZ '2026-11-29 01:02:03.456789'": ("TIMESTAMP_NTZ", "2026-11-29 01:02:03.456"),
    "TIMESTAMP '1969-12-31 23:59:59.999999 UTC'": (
        "TIMESTAMP_LTZ",
        "1969-12-31 23:59:59.999 +0000",
    ),
    "to_variant_object(array(1, 2, 3))": ("ARRAY", "[1,2,3]"),
    "to_variant_object(named_struct('b', 1, 'a', DATE '2026-01-01'))": (
        "OBJECT",
        '{"a":"2026-01-01","b":1}',
    ),
    "to_variant_object(map('k', 1.5D))": ("OBJECT", '{"k":1.500000000000000e+00}'),
}
"""A value of Spark: its type in SQL, and its text."""


def test_every_type_of_a_variant_that_spark_writes_is_read(engines: Engines) -> None:
    name = f"{NAMESPACE}.spark_types"
    engines.spark(f"CREATE TABLE documented.{name} (id INT, v VARIANT) {V3}")
    selects = " UNION ALL ".join(
        f"SELECT {at}, CAST({text} AS VARIANT)" for at, text in enumerate(SPARK_TYPES)
    )
    engines.spark(f"INSERT INTO documented.{name} {selects}")
    text = f"select typeof(v), v::varchar from {name} order by id"
    assert dict(zip(SPARK_TYPES, engines.sql(text), strict=True)) == SPARK_TYPES


SQL_TYPES = {
    # A value of SQL: its type and text in Spark, its type and text in DuckDB.
    "to_variant(7)": ("BIGINT", "7", "INT8", "7"),
    "to_variant(70000)": ("BIGINT", "70000", "INT32", "70000"),
    "to_variant(1.5)": ("DECIMAL(2,1)", "1.5", "DECIMAL(2, 1)", "1.5"),
    "to_variant(12345678901234567890123.5)": (
        "DECIMAL(24,1)", "12345678901234567890123.5", "DECIMAL(38, 1)", "12345678901234567890123.5",
    ),
    "to_variant(1.5::float)": ("DOUBLE", "1.5", "DOUBLE", "1.5"),
    "to_variant(true)": ("BOOLEAN", "true", "BOOL_TRUE", "true"),
    "to_variant('é')": ("STRING", '"é"', "VARCHAR", "é"),
    "to_variant(repeat('x', 100))": ("STRING", f'"{"x" * 100}"', "VARCHAR", "x" * 100),
    "to_variant('2026-01-02'::date)": ("DATE", '"2026-01-02"', "DATE", "2026-01-02"),
    "to_variant('2026-01-02 03:04:05.678901'::timestamp_ntz)": (
        "TIMESTAMP_NTZ", '"2026-01-02 03:04:05.678901"',
        "TIMESTAMP_MICROS", "2026-01-02 03:04:05.678901",
    ),
    "to_variant('2026-01-02 03:04:05.678901 +0000'::timestamp_ltz)": (
        "TIMESTAMP", '"2026-01-02 03:04:05.678901+00:00"',
        "TIMESTAMP_MICROS_TZ", "2026-01-02 03:04:05.678901+00",
    ),
    "to_variant(to_binary('00AB', 'hex'))": ("BINARY", '"AKs="', "BLOB", "\\x00\\xAB"),
    "parse_json('null')": ("VOID", "null", "VARIANT_NULL", None),
    "parse_json('[1, null, {\"b\": 2, \"a\": []}]')": (
        "ARRAY<VARIANT>", '[1,null,{"a":[],"b":2}]', "ARRAY(3)", "[1, NULL, {'a': [], 'b': 2}]",
    ),
}  # fmt: skip


def test_every_type_of_a_variant_that_sql_writes_is_read_by_spark_and_duckdb(
    engines: Engines,
) -> None:
    name = f"{NAMESPACE}.sql_types"
    create = "create iceberg table sql_types (id int, v variant) iceberg_version = 3"
    engines.sql(create, schema=NAMESPACE)
    for number, text in enumerate(SQL_TYPES):
        engines.sql(f"insert into sql_types select {number}, {text}", schema=NAMESPACE)
    by_spark = engines.spark(
        f"SELECT schema_of_variant(v), to_json(v) FROM documented.{name} ORDER BY id"
    )
    engines.duckdb("SET TimeZone = 'UTC'")
    by_duckdb = engines.duckdb(f"SELECT variant_typeof(v), v::VARCHAR FROM lake.{name} ORDER BY id")
    read = [(*one, *other) for one, other in zip(by_spark, by_duckdb, strict=True)]
    assert dict(zip(SQL_TYPES, read, strict=True)) == SQL_TYPES
    # Of a TIME Spark 4.1 has no variant.
    engines.sql("insert into sql_types select 100, to_variant('01:02:03'::time)", schema=NAMESPACE)
    assert engines.duckdb(f"SELECT v::TIME::VARCHAR FROM lake.{name} WHERE id = 100") == [
        ("01:02:03",)
    ]
    engines.spark(f"REFRESH TABLE documented.{name}")
    with pytest.raises(Exception, match="UNKNOWN_PRIMITIVE_TYPE_IN_VARIANT"):
        engines.spark(f"SELECT to_json(v) FROM documented.{name} WHERE id = 100")


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
