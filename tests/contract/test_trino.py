"""Trino against the running server, by its documented catalog properties alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import lake_client
from tests.kit import server as server_kit
from tests.kit.trino import Trino

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]


def test_trino_writes_changes_and_reads_a_partitioned_table(
    trino: Trino, server: server_kit.Running
) -> None:
    sql = trino.sql
    sql("CREATE SCHEMA lake.trino_sql")
    table = "lake.trino_sql.events"
    sql(
        f"CREATE TABLE {table} (id bigint, kind varchar, day date) "
        "WITH (partitioning = ARRAY['day'])"
    )
    sql(f"INSERT INTO {table} VALUES (1, 'a', DATE '2026-01-01'), (2, 'b', DATE '2026-01-02')")
    sql(f"UPDATE {table} SET kind = 'A' WHERE id = 1")
    sql(
        f"MERGE INTO {table} t USING (VALUES (2, 'B'), (3, 'c')) AS s(id, kind) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET kind = s.kind "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.kind, DATE '2026-01-03')"
    )
    sql(f"DELETE FROM {table} WHERE id = 3")
    expected = [(1, "A"), (2, "B")]
    assert sql(f"SELECT id, kind FROM {table} ORDER BY id") == expected
    sql(f"ALTER TABLE {table} EXECUTE optimize")
    assert sql(f"SELECT id, kind FROM {table} ORDER BY id") == expected
    ((snapshots,),) = sql('SELECT count(*) FROM lake.trino_sql."events$snapshots"')
    assert snapshots >= 5
    assert _read_by_pyiceberg(server, "trino_sql.events") == expected
    sql(f"DROP TABLE {table}")
    assert sql("SHOW TABLES FROM lake.trino_sql") == []
    sql("DROP SCHEMA lake.trino_sql")


def test_trino_makes_tables_of_queries_views_and_reads_earlier_states(
    trino: Trino, server: server_kit.Running
) -> None:
    sql = trino.sql
    sql("CREATE SCHEMA lake.trino_views")
    table = "lake.trino_views.numbers"
    sql(f"CREATE TABLE {table} AS SELECT x AS id, 'first' AS word FROM UNNEST(sequence(1, 3)) t(x)")
    ((first,),) = sql('SELECT max(snapshot_id) FROM lake.trino_views."numbers$snapshots"')
    sql(f"ALTER TABLE {table} ADD COLUMN note varchar")
    sql(f"INSERT INTO {table} VALUES (4, 'later', 'new')")
    assert sql(f"SELECT sum(id), count(note) FROM {table}") == [(10, 1)]
    assert sql(f"SELECT sum(id) FROM {table} FOR VERSION AS OF {first}") == [(6,)]
    sql(f"CREATE VIEW lake.trino_views.large AS SELECT id, word FROM {table} WHERE id > 2")
    expected = [(3, "first"), (4, "later")]
    assert sql("SELECT id, word FROM lake.trino_views.large ORDER BY id") == expected
    sql(f"CREATE OR REPLACE VIEW lake.trino_views.large AS SELECT id FROM {table} WHERE id > 3")
    assert sql("SELECT id FROM lake.trino_views.large") == [(4,)]
    assert sorted(sql("SHOW TABLES FROM lake.trino_views")) == [("large",), ("numbers",)]
    sql("ALTER VIEW lake.trino_views.large RENAME TO lake.trino_views.largest")
    sql("DROP VIEW lake.trino_views.largest")
    sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 7 AS id, 'again' AS word, 'x' AS kind")
    assert sql(f"SELECT id, word FROM {table}") == [(7, "again")]
    sql(f"ALTER TABLE {table} RENAME TO lake.trino_views.renamed")
    assert _read_by_pyiceberg(server, "trino_views.renamed") == [(7, "x")]
    sql("DROP SCHEMA lake.trino_views CASCADE")
    assert ("trino_views",) not in sql("SHOW SCHEMAS FROM lake")


def _read_by_pyiceberg(server: server_kit.Running, table: str) -> list[tuple[Any, ...]]:
    loaded = lake_client.catalog(server).load_table(table)
    rows = loaded.scan(selected_fields=("id", "kind")).to_arrow().to_pylist()
    return sorted((row["id"], row["kind"]) for row in rows)
