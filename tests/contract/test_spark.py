"""Spark with Iceberg's runtime, told no more than the catalog's address, its name and a credential.

PyIceberg, DuckDB and SQL read back what Spark wrote.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import lake_client
from tests.kit import s3 as s3_kit
from tests.kit import server as server_kit

pytestmark = pytest.mark.spark


class Clients:
    """A Spark session with a catalog `documented`, and two other readers of the same server."""

    def __init__(self, running: server_kit.Running, session: Any) -> None:
        self.running = running
        self.session = session

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(statement).collect()]

    def pyiceberg(self, table: str) -> Any:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(
            "documented",
            type="rest",
            uri=self.running.iceberg,
            warehouse="lake",
            credential=f"{self.running.access_key}:{self.running.secret_key}",
            **{"oauth2-server-uri": f"{self.running.iceberg}/v1/oauth/tokens"},
        )
        return catalog.load_table(table)

    def read_by_pyiceberg(self, table: str) -> list[tuple[Any, ...]]:
        rows = self.pyiceberg(table).scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    @contextlib.contextmanager
    def duckdb(self) -> Iterator[Any]:
        import duckdb
        from duckdb_extensions import import_extension

        for extension in ("httpfs", "avro", "iceberg"):
            import_extension(extension)
        running = self.running
        with duckdb.connect() as connection:
            connection.execute("LOAD httpfs; LOAD iceberg;")
            connection.execute(
                f"CREATE SECRET boathouse (TYPE iceberg, CLIENT_ID '{running.access_key}', "
                f"CLIENT_SECRET '{running.secret_key}', "
                f"OAUTH2_SERVER_URI '{running.iceberg}/v1/oauth/tokens')"
            )
            connection.execute(
                f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{running.iceberg}', "
                "SECRET boathouse)"
            )
            yield connection

    def read_by_duckdb(self, table: str) -> list[tuple[Any, ...]]:
        with self.duckdb() as connection:
            rows: list[tuple[Any, ...]] = connection.execute(f"FROM lake.{table}").fetchall()
        return sorted(rows)

    def read_by_sql(self, table: str) -> list[tuple[Any, ...]]:
        with lake_client.session(self.running, table.partition(".")[0]) as session:
            return sorted(session.rows(f"select * from {table}"))


@pytest.fixture(scope="module")
def clients(server: server_kit.Running, spark: Any) -> Clients:
    prefix = "spark.sql.catalog.documented"
    documented = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": server.iceberg,
        f"{prefix}.warehouse": "lake",
        f"{prefix}.credential": f"{server.access_key}:{server.secret_key}",
    }
    for name, value in documented.items():
        spark.session.conf.set(name, value)
    return Clients(server, spark.session)


def test_spark_writes_and_changes_a_table_that_others_read(clients: Clients) -> None:
    sql = clients.sql
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
    for read in (clients.read_by_pyiceberg, clients.read_by_duckdb, clients.read_by_sql):
        rows = [(id_, event_type, score) for id_, event_type, _, score in read("spark_sql.events")]
        assert rows == expected, read.__name__


def test_spark_merge_on_read_and_v3_deletes_are_honoured_by_others(clients: Clients) -> None:
    sql = clients.sql
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
        assert clients.read_by_pyiceberg(f"spark_mor.v{version}") == expected
        assert clients.read_by_duckdb(f"spark_mor.v{version}") == expected
        assert clients.read_by_sql(f"spark_mor.v{version}") == expected
        with lake_client.session(clients.running, "spark_mor") as session:
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
        assert clients.read_by_pyiceberg(f"spark_mor.v{version}") == expected
        assert clients.read_by_duckdb(f"spark_mor.v{version}") == expected


def test_spark_ctas_replaces_renames_and_drops_with_purge(clients: Clients) -> None:
    from pyiceberg.exceptions import NoSuchTableError

    sql = clients.sql
    sql("CREATE NAMESPACE IF NOT EXISTS documented.spark_ctas")
    source, target = "documented.spark_ctas.made", "documented.spark_ctas.renamed"
    sql(f"CREATE TABLE {source} AS SELECT id, id * id AS square FROM range(4)")
    assert clients.read_by_duckdb("spark_ctas.made") == [(0, 0), (1, 1), (2, 4), (3, 9)]
    sql(f"CREATE OR REPLACE TABLE {source} AS SELECT id FROM range(2)")
    sql(f"ALTER TABLE {source} RENAME TO spark_ctas.renamed")
    assert clients.read_by_pyiceberg("spark_ctas.renamed") == [(0,), (1,)]
    location = clients.pyiceberg("spark_ctas.renamed").location()
    sql(f"DROP TABLE {target} PURGE")
    assert sql("SHOW TABLES IN documented.spark_ctas") == []
    assert sql("SHOW VIEWS IN documented.spark_ctas") == []
    with pytest.raises(NoSuchTableError):
        clients.pyiceberg("spark_ctas.renamed")
    assert _keys_below(clients.running, location) == []
    sql("DROP NAMESPACE documented.spark_ctas")
    assert ("spark_ctas",) not in sql("SHOW NAMESPACES IN documented")


def test_tables_of_s3tables_take_rows_of_spark_and_spark_makes_tables_of_s3tables(
    clients: Clients,
) -> None:
    import boto3

    running = clients.running
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
    clients.sql("INSERT INTO documented.spark_both.orders VALUES (1L, array('a', 'b'))")
    after = client.get_table(**where, name="orders")
    assert after["versionToken"] != created["versionToken"]
    assert clients.read_by_pyiceberg("spark_both.orders") == [(1, ["a", "b"])]

    clients.sql("CREATE TABLE documented.spark_both.made AS SELECT id FROM range(3)")
    described = client.get_table(**where, name="made")
    assert described["metadataLocation"] == clients.pyiceberg("spark_both.made").metadata_location
    location = client.get_table_metadata_location(**where, name="made")
    assert location["versionToken"] == described["versionToken"]


def test_every_writer_in_turn_leaves_rows_that_every_reader_sees(clients: Clients) -> None:
    import pyarrow as pa

    sql = clients.sql
    sql("CREATE NAMESPACE documented.shared")
    sql("CREATE TABLE documented.shared.t (id BIGINT, name STRING)")
    rows: dict[int, str] = {}

    def everyone_sees() -> None:
        expected = sorted(rows.items())
        sql("REFRESH TABLE documented.shared.t")  # a session keeps a loaded table for a while
        assert sorted(sql("SELECT id, name FROM documented.shared.t")) == expected
        for read in (clients.read_by_pyiceberg, clients.read_by_duckdb, clients.read_by_sql):
            assert read("shared.t") == expected, read.__name__

    def by_spark() -> None:
        sql("INSERT INTO documented.shared.t VALUES (1, 'spark'), (2, 'spark')")
        rows.update({1: "spark", 2: "spark"})

    def by_pyiceberg() -> None:
        added = {"id": [3, 4], "name": ["pyiceberg", "pyiceberg"]}
        clients.pyiceberg("shared.t").append(pa.table(added))
        rows.update({3: "pyiceberg", 4: "pyiceberg"})

    def by_duckdb() -> None:
        with clients.duckdb() as connection:
            connection.execute("INSERT INTO lake.shared.t VALUES (5, 'duckdb')")
            connection.execute("DELETE FROM lake.shared.t WHERE id = 1")
        rows.update({5: "duckdb"})
        del rows[1]

    def by_sql() -> None:
        with lake_client.session(clients.running, "shared") as session:
            session.rows("insert into t values (6, 'sql')")
        rows.update({6: "sql"})

    def by_sql_replacing() -> None:
        with lake_client.session(clients.running, "shared") as session:
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


def test_spark_maintains_registers_branches_and_tags_a_table(clients: Clients) -> None:
    sql = clients.sql
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
    for read in (clients.read_by_pyiceberg, clients.read_by_duckdb, clients.read_by_sql):
        assert read("upkeep.t") == expected, read.__name__

    # The location belongs to one table at a time, so the first one goes.
    location = clients.pyiceberg("upkeep.t").metadata_location
    sql(f"DROP TABLE {table}")
    sql(
        "CALL documented.system.register_table("
        f"table => 'documented.upkeep.again', metadata_file => '{location}')"
    )
    assert sorted(sql("SELECT * FROM documented.upkeep.again")) == expected


def test_spark_makes_views_changes_them_and_selects_from_them(clients: Clients) -> None:
    sql = clients.sql
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


def test_spark_lets_the_catalog_plan_its_scans(clients: Clients) -> None:
    sql, session = clients.sql, clients.session
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


def test_spark_writes_and_replaces_files_of_a_bucket_through_s3a(clients: Clients) -> None:
    """Hadoop's committer writes below `_temporary` and renames: copies and deletions by prefix."""
    s3 = s3_kit.client(clients.running)
    bucket = s3_kit.new_bucket(s3)
    place = f"s3a://{bucket}/events"
    rows = clients.session.range(300).selectExpr("id", "id % 3 AS part")
    rows.repartition(2).write.partitionBy("part").parquet(place)
    assert clients.session.read.parquet(place).where("part = 1").count() == 100
    rows.where("part < 2").coalesce(1).write.mode("overwrite").partitionBy("part").parquet(place)
    assert clients.session.read.parquet(place).count() == 200
    keys = [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert not any("_temporary" in key for key in keys)
    files = [key for key in keys if key.endswith(".parquet")]
    assert [key.split("/")[1] for key in files] == ["part=0", "part=1"]
