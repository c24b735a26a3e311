"""Generated DELETE, UPDATE and MERGE change the rows that DuckDB changes."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from tests.kit import changed_rows, datafiles, local_sql

STATEMENTS = 16

TABLES = (
    "create table t ({columns})",
    "create table t ({columns}) cluster by (a, id)",
    "create table t ({columns}) partition by (k)",
    "create table t ({columns}) partition by (bucket(3, id), month(d))",
)


@pytest.mark.parametrize("seed", range(8))
def test_generated_changes_leave_the_rows_that_duckdb_leaves(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async def work(local: local_sql.LocalSql) -> None:
        oracle = duckdb.connect()
        create = TABLES[seed % len(TABLES)].format(columns=changed_rows.TABLES["t"])
        await local.run(create)
        await local.run(f"create table s ({changed_rows.TABLES['s']})")
        for table, columns in changed_rows.TABLES.items():
            oracle.execute(f"create table {table} ({columns})")
        first = 0
        texts = [changed_rows.rows(rng, "s", 10, 30)]
        for _ in range(STATEMENTS):
            if rng.random() < 0.4:
                texts.append(changed_rows.rows(rng, "t", first, 12))
                first += 12
            texts.append(changed_rows.statement(rng))
        for text in texts:
            answer = await local.rows(text)
            (expected,) = oracle.execute(text).fetchall()
            ours = await local.rows("select id, k, a, b, d from t")
            theirs = oracle.execute("select id, k, a, b, d from t").fetchall()
            assert sorted(ours, key=repr) == sorted(theirs, key=repr), text
            counted = sum(answer[0]) - (answer[0][1] if text.startswith("update") else 0)
            assert counted == expected[0], text
        loaded = local.lake.load(local.lake.ident("ns.t"))
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        read = datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out")
        assert sorted((tuple(row.values()) for row in read), key=repr) == sorted(theirs, key=repr)

    local_sql.run_local(tmp_path, work)
