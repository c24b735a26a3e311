"""Spark with Iceberg's runtime, told no more than the catalog's address, its name and a credential.

PyIceberg, DuckDB and SQL read back what Spark wrote.
"""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog.rest import credentials
from tests.kit import aws, lake_client, rest, waits
from tests.kit import s3 as s3_kit
from tests.kit import server as server_kit
from tests.kit.engines import Engines

pytestmark = pytest.mark.spark

OTHERS = ("pyiceberg", "duckdb", "sql")


@pytest.mark.smoke
def test_spark_writes_and_changes_a_table_that_others_read(engines: Engines) -> None:
    sql = engines.spark
    sql("CREATE NAMESPACE documented.spark_sql")
    assert ("spark_sql",) in sql("SHOW NAMESPACES IN documented")
    table = "documented.spark_sql.events"
    sql(f"CREATE TABLE {table} (id BIGINT, kind STRING, day DATE) PARTITIONED BY (day)")
    sql(f"INSERT INTO {table} VALUES (1, 'a', DATE'2026-01-01'), (2, 'b', DATE'2026-01-02')")
    ((first,),) = sql(f"SELECT snapshot_id FROM {table}.snapshots")

    sql(
        f"MERGE INTO {table} AS t USING (SELECT 2L AS id, 'B' AS kind UNION ALL SELECT 3L, 'c') "
        "AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.kind = s.kind "
        "WHEN NOT MATCHED THEN INSERT (id, kind, day) VALUES (s.id, s.kind, DATE'2026-01-03')"
    )
    sql(f"UPDATE {table} SET kind = upper(kind) WHERE id = 1")
    sql(f"DELETE FROM {table} WHERE id = 3")
    sql(f"ALTER TABLE {table} ADD COLUMN score DOUBLE")
    sql(f"INSERT INTO {table} VALUES (4, 'd', DATE'2026-01-04', 0.5)")

    expected = [(1, "A", None), (2, "B", None), (4, "d", 0.5)]
    assert sql(f"SELECT id, kind, score FROM {table} ORDER BY id") == expected
    assert sql(f"SELECT id, kind FROM {table} VERSION AS OF {first} ORDER BY id") == [
        (1, "a"), (2, "b"),
    ]  # fmt: skip
    assert [row[0] for row in sql(f"SELECT operation FROM {table}.snapshots")] == [
        "append", "overwrite", "overwrite", "delete", "append",
    ]  # fmt: skip
    columns = ("id", "kind", "score")
    assert engines.rows_by_reader(OTHERS, "spark_sql.events", columns) == dict.fromkeys(
        OTHERS, expected
    )


def test_spark_merge_on_read_and_v3_deletes_are_honoured_by_others(engines: Engines) -> None:
    sql = engines.spark
    sql("CREATE NAMESPACE IF NOT EXISTS documented.spark_mor")
    for version in (2, 3):
        table = f"documented.spark_mor.v{version}"
        sql(
            f"CREATE TABLE {table} (id BIGINT, name STRING) TBLPROPERTIES ("
            f"'format-version'='{version}', 'write.delete.mode'='merge-on-read', "
            "'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read')"
        )
        sql(f"INSERT INTO {table} SELECT id, concat('n', id) FROM range(10)")
        sql(f"DELETE FROM {table} WHERE id % 2 = 0")
        sql(f"UPDATE {table} SET name = 'nine' WHERE id = 9")
        expected = [(1, "n1"), (3, "n3"), (5, "n5"), (7, "n7"), (9, "nine")]
        assert sql(f"SELECT * FROM {table} ORDER BY id") == expected
        ((deletes,),) = sql(f"SELECT count(*) FROM {table}.delete_files")
        assert deletes > 0, "nothing was deleted by merge-on-read"
        name = f"spark_mor.v{version}"
        assert engines.rows_by_reader(OTHERS, name) == dict.fromkeys(OTHERS, expected)
        with lake_client.session(engines.running, "spark_mor") as session:
            session.rows(f"update v{version} set name = name || '!' where id in (4, 5)")
            row_ids = sql(f"SELECT id, _row_id FROM {table}") if version == 3 else []
            session.rows(f"delete from v{version} where name = 'n1'")
        sql(f"REFRESH TABLE {table}")
        if version == 3:
            assert len({row_id for _, row_id in row_ids}) == 5
            moved = sql(f"SELECT id, _row_id FROM {table}")
            assert sorted(moved) == sorted(row for row in row_ids if row[0] != 1)
        expected = [(3, "n3"), (5, "n5!"), (7, "n7"), (9, "nine")]
        assert sql(f"SELECT * FROM {table} ORDER BY id") == expected
        assert engines.rows_by_reader(OTHERS, name) == dict.fromkeys(OTHERS, expected)


MERGE = """
MERGE INTO {table} AS t USING (SELECT id, concat('s', id) AS name FROM range(7, 12)) AS s
ON t.id = s.id
WHEN MATCHED AND s.id = 7 THEN DELETE
WHEN MATCHED THEN UPDATE SET name = s.name
WHEN NOT MATCHED THEN INSERT *
WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE
"""
MERGED = [(number, f"n{number}") for number in range(1, 7)] + [
    (number, f"s{number}") for number in range(8, 12)
]


@pytest.mark.parametrize(
    ("version", "mode", "deletes"),
    [
        (2, "copy-on-write", []),
        (2, "merge-on-read", [("PARQUET", 4)]),
        (3, "merge-on-read", [("PUFFIN", 4)]),
    ],
)
def test_spark_merges_rows_that_others_read(
    engines: Engines, version: int, mode: str, deletes: list[tuple[str, int]]
) -> None:
    sql = engines.spark
    sql("CREATE NAMESPACE IF NOT EXISTS documented.spark_merge")
    name = f"spark_merge.v{version}_{mode.replace('-', '_')}"
    table = f"documented.{name}"
    sql(
        f"CREATE TABLE {table} TBLPROPERTIES ('format-version'='{version}', "
        f"'write.merge.mode'='{mode}') "
        "AS SELECT id, concat('n', id) AS name FROM range(0, 10, 1, 1)"
    )
    sql(MERGE.format(table=table))
    readers = ("spark", *OTHERS)
    assert engines.rows_by_reader(readers, name) == dict.fromkeys(readers, MERGED)
    assert sql(
        f"SELECT file_format, sum(record_count) FROM {table}.delete_files GROUP BY 1"
    ) == deletes  # fmt: skip
    if version == 3:
        # Row lineage: a kept and an updated row have their ids, new rows have new ones.
        columns = "id, _row_id, _last_updated_sequence_number"
        lineage = sorted(sql(f"SELECT {columns} FROM {table}"))
        assert lineage[:8] == [
            *((number, number, 1) for number in range(1, 7)), (8, 8, 2), (9, 9, 2),
        ]  # fmt: skip
        assert all(row_id >= 10 and sequence == 2 for _, row_id, sequence in lineage[8:])
        assert len({row_id for _, row_id, _ in lineage}) == len(MERGED)
        assert sorted(engines.duckdb(f"SELECT {columns} FROM lake.{name}")) == lineage


def test_spark_ctas_replaces_renames_and_drops_with_purge(engines: Engines) -> None:
    from pyiceberg.exceptions import NoSuchTableError

    sql = engines.spark
    sql("CREATE NAMESPACE IF NOT EXISTS documented.spark_ctas")
    source, target = "documented.spark_ctas.made", "documented.spark_ctas.renamed"
    sql(f"CREATE TABLE {source} AS SELECT id, id * id AS square FROM range(4)")
    assert engines.rows("duckdb", "spark_ctas.made") == [(0, 0), (1, 1), (2, 4), (3, 9)]
    sql(f"REPLACE TABLE {source} PARTITIONED BY (id) AS SELECT id, 'again' AS word FROM range(3)")
    expected = [(number, "again") for number in range(3)]
    assert engines.rows_by_reader(OTHERS, "spark_ctas.made") == dict.fromkeys(OTHERS, expected)
    assert sorted(sql(f"SELECT partition.id FROM {source}.files")) == [(0,), (1,), (2,)]
    with pytest.raises(Exception, match="cannot be found"):
        sql("REPLACE TABLE documented.spark_ctas.absent AS SELECT 1 AS one")
    sql(f"CREATE OR REPLACE TABLE {source} AS SELECT id FROM range(2)")
    sql(f"ALTER TABLE {source} RENAME TO spark_ctas.renamed")
    assert engines.rows("pyiceberg", "spark_ctas.renamed") == [(0,), (1,)]
    location = engines.catalog.load_table("spark_ctas.renamed").location()
    sql(f"DROP TABLE {target} PURGE")
    assert sql("SHOW TABLES IN documented.spark_ctas") == []
    assert sql("SHOW VIEWS IN documented.spark_ctas") == []
    with pytest.raises(NoSuchTableError):
        engines.catalog.load_table("spark_ctas.renamed")
    assert _keys_below(engines.running, location) == []
    sql("DROP NAMESPACE documented.spark_ctas")
    assert ("spark_ctas",) not in sql("SHOW NAMESPACES IN documented")


def test_tables_of_s3tables_take_rows_of_spark_and_spark_makes_tables_of_s3tables(
    engines: Engines,
) -> None:
    import boto3

    running = engines.running
    client = boto3.client(
        "s3tables",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
    )
    (arn,) = [
        bucket["arn"]
        for bucket in client.list_table_buckets(prefix="lake")["tableBuckets"]
        if bucket["name"] == "lake"
    ]
    client.create_namespace(tableBucketARN=arn, namespace=["spark_both"])
    where = {"tableBucketARN": arn, "namespace": "spark_both"}
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "tags", "required": False, "type": {
            "type": "list", "element-id": 3, "element": "string", "element-required": False,
        }},
    ]  # fmt: skip
    created = client.create_table(
        **where,
        name="orders",
        format="ICEBERG",
        metadata={"iceberg": {"schemaV2": {"type": "struct", "fields": fields}}},
    )
    engines.spark("INSERT INTO documented.spark_both.orders VALUES (1L, array('a', 'b'))")
    after = client.get_table(**where, name="orders")
    assert after["versionToken"] != created["versionToken"]
    assert engines.rows("pyiceberg", "spark_both.orders") == [(1, ["a", "b"])]

    engines.spark("CREATE TABLE documented.spark_both.made AS SELECT id FROM range(3)")
    described = client.get_table(**where, name="made")
    assert (
        described["metadataLocation"]
        == engines.catalog.load_table("spark_both.made").metadata_location
    )
    location = client.get_table_metadata_location(**where, name="made")
    assert location["versionToken"] == described["versionToken"]


def test_every_writer_in_turn_leaves_rows_that_every_reader_sees(engines: Engines) -> None:
    sql = engines.spark
    sql("CREATE NAMESPACE documented.shared")
    sql("CREATE TABLE documented.shared.t (id BIGINT, name STRING)")
    rows: dict[int, str] = {}

    def everyone_sees() -> None:
        expected = sorted(rows.items())
        sql("REFRESH TABLE documented.shared.t")  # a session keeps a loaded table for a while
        assert sorted(sql("SELECT id, name FROM documented.shared.t")) == expected
        assert engines.rows_by_reader(OTHERS, "shared.t") == dict.fromkeys(OTHERS, expected)

    def by_spark() -> None:
        sql("INSERT INTO documented.shared.t VALUES (1, 'spark'), (2, 'spark')")
        rows.update({1: "spark", 2: "spark"})

    def by_pyiceberg() -> None:
        added = {"id": [3, 4], "name": ["pyiceberg", "pyiceberg"]}
        engines.catalog.load_table("shared.t").append(pa.table(added))
        rows.update({3: "pyiceberg", 4: "pyiceberg"})

    def by_duckdb() -> None:
        engines.duckdb("INSERT INTO lake.shared.t VALUES (5, 'duckdb')")
        engines.duckdb("DELETE FROM lake.shared.t WHERE id = 1")
        rows.update({5: "duckdb"})
        del rows[1]

    def by_sql() -> None:
        with lake_client.session(engines.running, "shared") as session:
            session.rows("insert into t values (6, 'sql')")
        rows.update({6: "sql"})

    def by_sql_replacing() -> None:
        with lake_client.session(engines.running, "shared") as session:
            session.rows("create or replace table t as select id, name from t")
            session.rows("create view newest as select max(id) as id from t")
        assert ("newest",) in [row[1:2] for row in sql("SHOW VIEWS IN documented.shared")]

    def by_spark_again() -> None:
        sql("UPDATE documented.shared.t SET name = 'spark again' WHERE id IN (3, 5)")
        sql("DELETE FROM documented.shared.t WHERE id = 2")
        rows.update({3: "spark again", 5: "spark again"})
        del rows[2]

    for write in (by_spark, by_pyiceberg, by_duckdb, by_sql, by_sql_replacing, by_spark_again):
        write()
        everyone_sees()


ALTERATIONS = (
    "ADD COLUMNS (note STRING COMMENT 'a note' AFTER id, first INT FIRST)",
    "ADD COLUMN place.y DOUBLE",
    "RENAME COLUMN name TO label",
    "ALTER COLUMN id TYPE BIGINT",
    "ALTER COLUMN price TYPE DECIMAL(12,2)",
    "ALTER COLUMN ratio TYPE DOUBLE",
    "ALTER COLUMN label DROP NOT NULL",
    "ALTER COLUMN label COMMENT 'what it is called'",
    "ALTER COLUMN first AFTER note",
    "DROP COLUMN gone",
    "SET IDENTIFIER FIELDS id",
    "ADD PARTITION FIELD bucket(4, id) AS shard",
    "ADD PARTITION FIELD day",
    "REPLACE PARTITION FIELD day WITH month(day) AS month",
    "WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY label DESC NULLS LAST, id",
    "SET TBLPROPERTIES ('comment'='things', 'write.delete.mode'='merge-on-read')",
    "UNSET TBLPROPERTIES ('write.delete.mode')",
)
ALTERED_SCHEMA = """1: id: required long
9: note: optional string (a note)
10: first: optional int
2: label: optional string (what it is called)
3: price: optional decimal(12, 2)
4: ratio: optional double
6: place: optional struct<8: x: optional int, 11: y: optional double>
7: day: optional date"""


def test_spark_alters_a_table_in_every_way_that_iceberg_has(engines: Engines) -> None:
    sql = engines.spark
    sql("CREATE NAMESPACE IF NOT EXISTS documented.spark_alter")
    name = "spark_alter.t"
    table = f"documented.{name}"
    sql(
        f"CREATE TABLE {table} (id INT NOT NULL, name STRING NOT NULL, price DECIMAL(9,2), "
        "ratio FLOAT, gone STRING, place STRUCT<x: INT>, day DATE)"
    )
    sql(f"INSERT INTO {table} VALUES (1, 'a', 1.25, 0.5, 'x', named_struct('x', 7), "
        "DATE'2026-01-31')")  # fmt: skip
    for alteration in ALTERATIONS:
        sql(f"ALTER TABLE {table} {alteration}")
    sql(
        f"INSERT INTO {table} (id, label, price, ratio, place, day) VALUES (5000000000, NULL, "
        "1234567890.50, 1e300, named_struct('x', 8, 'y', 0.5), DATE'2026-02-01')"
    )

    columns = ("id", "first", "label", "ratio", "note")
    expected = [(1, None, "a", 0.5, None), (5_000_000_000, None, None, 1e300, None)]
    readers = ("spark", *OTHERS)
    assert engines.rows_by_reader(readers, name, columns) == dict.fromkeys(readers, expected)
    prices = [
        (Decimal("1.25"), {"x": 7, "y": None}),
        (Decimal("1234567890.50"), {"x": 8, "y": 0.5}),
    ]
    for reader in ("pyiceberg", "duckdb"):
        assert engines.rows(reader, name, ("price", "place")) == prices
    loaded = engines.catalog.load_table(name)
    fields = "\n".join(str(field) for field in loaded.schema().fields)
    assert fields == ALTERED_SCHEMA
    assert loaded.schema().identifier_field_names() == {"id"}
    assert [(field.name, str(field.transform)) for field in loaded.spec().fields] == [
        ("shard", "bucket[4]"), ("month", "month"),
    ]  # fmt: skip
    order = [(field.source_id, str(field.direction), str(field.null_order))
             for field in loaded.sort_order().fields]  # fmt: skip
    assert order == [(2, "DESC", "NULLS LAST"), (1, "ASC", "NULLS FIRST")]
    assert loaded.properties["comment"] == "things"
    assert loaded.properties["write.distribution-mode"] == "hash"
    assert "write.delete.mode" not in loaded.properties

    for alteration in (
        "DROP PARTITION FIELD shard", "DROP IDENTIFIER FIELDS id", "WRITE UNORDERED",
    ):  # fmt: skip
        sql(f"ALTER TABLE {table} {alteration}")
    loaded = engines.catalog.load_table(name)
    assert [field.name for field in loaded.spec().fields] == ["month"]
    assert loaded.schema().identifier_field_names() == set()
    assert loaded.sort_order().order_id == 0
    assert engines.rows_by_reader(readers, name, columns) == dict.fromkeys(readers, expected)


def test_spark_reads_a_table_as_of_a_time_a_version_a_branch_and_a_tag(engines: Engines) -> None:
    sql = engines.spark
    sql("CREATE NAMESPACE IF NOT EXISTS documented.spark_travel")
    table = "documented.spark_travel.t"
    sql(f"CREATE TABLE {table} (id BIGINT)")
    sql(f"INSERT INTO {table} VALUES (1)")
    engines.catalog.load_table("spark_travel.t").append(pa.table({"id": [2]}))
    engines.duckdb("INSERT INTO lake.spark_travel.t VALUES (3)")
    engines.sql("insert into t values (4)", schema="spark_travel")
    sql(f"REFRESH TABLE {table}")
    snapshots = sql(
        "SELECT snapshot_id, CAST(committed_at AS STRING) "
        f"FROM {table}.snapshots ORDER BY committed_at"
    )
    assert len(snapshots) == 4

    def ids(suffix: str) -> list[int]:
        return sorted(number for (number,) in sql(f"SELECT id FROM {table}{suffix}"))

    for number, (snapshot_id, committed_at) in enumerate(snapshots, 1):
        written = list(range(1, number + 1))
        assert ids(f" VERSION AS OF {snapshot_id}") == written
        assert ids(f" TIMESTAMP AS OF '{committed_at}'") == written
        assert ids(f" FOR SYSTEM_TIME AS OF '{committed_at}'") == written
        at = engines.duckdb(f"SELECT id FROM lake.spark_travel.t AT (VERSION => {snapshot_id})")
        assert sorted(at) == [(each,) for each in written]
        at = engines.sql(f"select id from t at(version => {snapshot_id})", schema="spark_travel")
        assert sorted(at) == [(each,) for each in written]
    with pytest.raises(Exception, match="Cannot find a snapshot older than"):
        ids(" TIMESTAMP AS OF '1999-01-01'")

    (first, _), (second, _), (third, _), (last, _) = snapshots
    sql(f"ALTER TABLE {table} CREATE TAG pinned AS OF VERSION {second} RETAIN 365 DAYS")
    sql(f"ALTER TABLE {table} CREATE BRANCH draft AS OF VERSION {first}")
    sql(f"INSERT INTO {table}.branch_draft VALUES (100)")
    for suffix in (" VERSION AS OF 'pinned'", ".tag_pinned"):
        assert ids(suffix) == [1, 2]
    for suffix in (" FOR VERSION AS OF 'draft'", ".branch_draft"):
        assert ids(suffix) == [1, 100]
    assert ids("") == [1, 2, 3, 4]
    by_pyiceberg = engines.catalog.load_table("spark_travel.t").scan().use_ref("draft").to_arrow()
    assert sorted(by_pyiceberg["id"].to_pylist()) == [1, 100]

    sql(f"ALTER TABLE {table} REPLACE TAG pinned AS OF VERSION {third}")
    assert ids(".tag_pinned") == [1, 2, 3]
    sql(f"CALL documented.system.rollback_to_snapshot('spark_travel.t', {second})")
    assert ids("") == [1, 2]
    rows = [(1,), (2,)]
    assert engines.rows_by_reader(OTHERS, "spark_travel.t") == dict.fromkeys(OTHERS, rows)
    sql(f"CALL documented.system.set_current_snapshot('spark_travel.t', {last})")
    assert ids("") == [1, 2, 3, 4]
    sql(f"ALTER TABLE {table} DROP BRANCH draft")
    sql(f"ALTER TABLE {table} DROP TAG pinned")
    assert {name for (name,) in sql(f"SELECT name FROM {table}.refs")} == {"main"}


def test_spark_maintains_registers_branches_and_tags_a_table(engines: Engines) -> None:
    sql = engines.spark
    sql("CREATE NAMESPACE IF NOT EXISTS documented.upkeep")
    table = "documented.upkeep.t"
    sql(f"CREATE TABLE {table} (id BIGINT)")
    for number in range(4):
        sql(f"INSERT INTO {table} VALUES ({number})")
    expected = [(number,) for number in range(4)]

    sql(f"ALTER TABLE {table} CREATE TAG kept")
    sql(f"ALTER TABLE {table} CREATE BRANCH draft")
    sql(f"INSERT INTO {table}.branch_draft VALUES (100)")
    assert sorted(sql(f"SELECT * FROM {table} VERSION AS OF 'draft'")) == [*expected, (100,)]
    assert {each[0] for each in sql(f"SELECT name FROM {table}.refs")} == {"main", "draft", "kept"}

    ((rewritten, *_),) = sql(
        f"CALL documented.system.rewrite_data_files(table => '{table}', "
        "options => map('min-input-files', '2'))"
    )
    assert rewritten == 4
    sql(f"CALL documented.system.rewrite_manifests(table => '{table}')")
    sql(
        f"CALL documented.system.expire_snapshots(table => '{table}', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    sql(f"CALL documented.system.remove_orphan_files(table => '{table}', prefix_listing => true)")
    assert sorted(sql(f"SELECT * FROM {table}")) == expected
    assert sorted(sql(f"SELECT * FROM {table} VERSION AS OF 'kept'")) == expected
    assert engines.rows_by_reader(OTHERS, "upkeep.t") == dict.fromkeys(OTHERS, expected)

    # The location belongs to one table at a time, so the first one goes.
    location = engines.catalog.load_table("upkeep.t").metadata_location
    sql(f"DROP TABLE {table}")
    sql(
        "CALL documented.system.register_table("
        f"table => 'documented.upkeep.again', metadata_file => '{location}')"
    )
    assert sorted(sql("SELECT * FROM documented.upkeep.again")) == expected


def test_spark_makes_views_changes_them_and_selects_from_them(engines: Engines) -> None:
    sql = engines.spark
    home = "documented.spark_views"
    sql(f"CREATE NAMESPACE IF NOT EXISTS {home}")
    sql(f"CREATE TABLE {home}.t AS SELECT id, id % 2 AS parity FROM range(6)")
    sql(
        f"CREATE VIEW {home}.odd (number COMMENT 'an odd one') COMMENT 'odd numbers' "
        f"TBLPROPERTIES ('owner-team'='lake') AS SELECT id FROM {home}.t WHERE parity = 1"
    )
    assert sql(f"SELECT number FROM {home}.odd ORDER BY number") == [(1,), (3,), (5,)]
    assert [row[1] for row in sql(f"SHOW VIEWS IN {home}")] == ["odd"]
    assert [row[1] for row in sql(f"SHOW TABLES IN {home}")] == ["t"]
    assert ("owner-team", "lake") in sql(f"SHOW TBLPROPERTIES {home}.odd")
    assert sql(f"DESCRIBE {home}.odd")[0] == ("number", "bigint", "an odd one")

    sql(f"ALTER VIEW {home}.odd SET TBLPROPERTIES ('a'='1')")
    sql(f"ALTER VIEW {home}.odd UNSET TBLPROPERTIES ('owner-team')")
    shown = dict(sql(f"SHOW TBLPROPERTIES {home}.odd"))
    assert (shown.get("a"), "owner-team" in shown) == ("1", False)

    sql(f"CREATE OR REPLACE VIEW {home}.odd AS SELECT id + 100 AS more FROM {home}.t WHERE id < 2")
    assert sql(f"SELECT more FROM {home}.odd ORDER BY more") == [(100,), (101,)]
    sql(f"INSERT INTO {home}.t VALUES (1, 1)")
    assert sql(f"SELECT count(*) FROM {home}.odd") == [(3,)]

    with pytest.raises(Exception, match=r"already exists|ALREADY_EXISTS"):
        sql(f"CREATE VIEW {home}.t AS SELECT 1 AS one")
    with pytest.raises(Exception, match=r"already exists|ALREADY_EXISTS"):
        sql(f"CREATE TABLE {home}.odd (id BIGINT)")
    sql(f"ALTER VIEW {home}.odd RENAME TO {home}.renamed")
    assert sql(f"SELECT count(*) FROM {home}.renamed") == [(3,)]
    assert [row[1] for row in sql(f"SHOW VIEWS IN {home}")] == ["renamed"]
    sql(f"DROP VIEW {home}.renamed")
    sql(f"DROP VIEW IF EXISTS {home}.renamed")
    assert sql(f"SHOW VIEWS IN {home}") == []
    sql(f"DROP TABLE {home}.t PURGE")
    sql(f"DROP NAMESPACE {home}")


def _keys_below(running: server_kit.Running, location: str) -> list[str]:
    import boto3

    s3 = boto3.client(
        "s3",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
    )
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")
    return [entry["Key"] for entry in listed.get("Contents", ())]


def test_spark_lets_the_catalog_plan_its_scans(engines: Engines) -> None:
    sql, session = engines.spark, engines.session
    prefix = "spark.sql.catalog.planned"
    for name in ("", ".type", ".uri", ".warehouse", ".credential"):
        session.conf.set(prefix + name, session.conf.get(f"spark.sql.catalog.documented{name}"))
    session.conf.set(f"{prefix}.scan-planning-mode", "server")
    sql("CREATE NAMESPACE documented.spark_plans")
    table = "spark_plans.events"
    sql(
        f"CREATE TABLE documented.{table} (id BIGINT, kind STRING, day DATE, at TIMESTAMP,"
        " price DECIMAL(9,2)) PARTITIONED BY (day, bucket(4, id), truncate(1, kind))"
        " TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    sql(
        f"INSERT INTO documented.{table} SELECT id, concat('k', id % 3), date_add(DATE'2026-01-01',"
        " CAST(id % 4 AS INT)), timestamp_seconds(id * 3600), CAST(id AS DECIMAL(9,2)) / 10"
        " FROM range(40)"
    )
    sql(f"INSERT INTO documented.{table} VALUES (40, NULL, NULL, NULL, NULL)")
    sql(f"DELETE FROM documented.{table} WHERE id IN (7, 8, 21)")
    for condition in (
        "true",
        "day = DATE'2026-01-02'",
        "day IS NULL OR id < 5",
        "kind LIKE 'k1%' AND price >= 1.50",
        "at < TIMESTAMP'1970-01-01 10:00:00' AND NOT id IN (1, 2)",
        "kind <> 'k2' AND day > DATE'2026-01-01'",
    ):
        planned, read = [
            sql(f"SELECT * FROM {catalog}.{table} WHERE {condition} ORDER BY id")
            for catalog in ("planned", "documented")
        ]
        assert planned == read, condition
        assert read
    assert sql(f"SELECT count(*) FROM planned.{table}") == [(38,)]


def test_a_loaded_table_is_read_with_newer_keys_once_those_of_its_load_have_ended(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "LIFETIME_SECONDS", 4)
    monkeypatch.setattr(credentials, "WINDOW_MS", 1_000)
    with aws.serving(tmp_path / "data", sql_workers=0) as server:
        for path, body in (
            ("namespaces", {"namespace": ["ns"]}),
            ("namespaces/ns/tables", {"name": "t", "schema": rest.SCHEMA}),
        ):
            created = aws.signed(server, aws.ROOT, "POST", f"/iceberg/v1/lake/{path}", body)
            assert created[0] == 200, created
        prefix = "spark.sql.catalog.ending"
        for name, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".uri": f"{server.url}/iceberg",
            ".warehouse": "lake",
            ".credential": f"{aws.ROOT.access_key}:{aws.ROOT.secret_key}",
        }.items():
            spark.session.conf.set(prefix + name, value)
        java, session = spark.jvm, spark.session._jsparkSession
        table = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, "ending.ns.t")
        metadata_file = table.operations().current().metadataFileLocation()
        assert table.io().newInputFile(metadata_file).getLength() > 0

        _, loaded = aws.signed(server, aws.ROOT, "GET", "/iceberg/v1/lake/namespaces/ns/tables/t")
        keys = aws.Keys(
            access_key=loaded["config"]["s3.access-key-id"],
            secret_key=loaded["config"]["s3.secret-access-key"],
            token=loaded["config"]["s3.session-token"],
        )
        client, key = server.client("s3", keys), metadata_file.removeprefix("s3://lake/")

        def are_ended() -> bool:
            try:
                client.head_object(Bucket="lake", Key=key)
            except client.exceptions.ClientError:
                return True
            return False

        deadline = time.monotonic() + waits.WAIT_SECONDS
        while not are_ended():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert table.io().newInputFile(metadata_file).getLength() > 0


@pytest.mark.smoke
def test_spark_writes_and_replaces_files_of_a_bucket_through_s3a(engines: Engines) -> None:
    """Hadoop's committer writes below `_temporary` and renames: copies and deletions by prefix."""
    s3 = s3_kit.client(engines.running)
    bucket = s3_kit.new_bucket(s3)
    place = f"s3a://{bucket}/events"
    rows = engines.session.range(300).selectExpr("id", "id % 3 AS part")
    rows.repartition(2).write.partitionBy("part").parquet(place)
    assert engines.session.read.parquet(place).where("part = 1").count() == 100
    rows.where("part < 2").coalesce(1).write.mode("overwrite").partitionBy("part").parquet(place)
    assert engines.session.read.parquet(place).count() == 200
    keys = [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert not any("_temporary" in key for key in keys)
    files = [key for key in keys if key.endswith(".parquet")]
    assert [key.split("/")[1] for key in files] == ["part=0", "part=1"]
