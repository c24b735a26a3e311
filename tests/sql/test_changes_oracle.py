"""Generated DELETE, UPDATE and MERGE change the rows that DuckDB changes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.kit import changed_rows, datafiles, lakes, local_sql

pytestmark = pytest.mark.campaign

STATEMENTS = 16

TABLES = (
    "create table t ({columns})",
    "create table t ({columns}) cluster by (a, id)",
    "create table t ({columns}) partition by (k)",
    "create table t ({columns}) partition by (bucket(3, id), month(d))",
)


MARKING = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}


def long(*values: int) -> Any:
    """A case of `make test-long`; in `make test-all` each of TABLES has one."""
    return pytest.param(*values, marks=pytest.mark.long)


def further(*values: int) -> Any:
    """A case of `make test-all`; in `make test` each of TABLES has one in one of the tests."""
    return pytest.param(*values, marks=pytest.mark.further)


@pytest.mark.smoke
@pytest.mark.parametrize(
    "seed", [0, further(1), further(2), 3, *(long(seed) for seed in range(4, 40))]
)
def test_generated_changes_leave_the_rows_that_duckdb_leaves(tmp_path: Path, seed: int) -> None:
    check_generated(tmp_path, seed)


@pytest.mark.parametrize(
    ("seed", "format_version"),
    [
        further(0, 2),
        (1, 3),
        (2, 2),
        further(3, 3),
        *(long(seed, 3 - seed % 2) for seed in range(4)),
        *(long(seed, 2 + seed // 4 % 2) for seed in range(4, 36)),
    ],
)
def test_generated_changes_merge_on_read_leave_the_rows_that_duckdb_leaves(
    tmp_path: Path, seed: int, format_version: int
) -> None:
    check_generated(tmp_path, seed, format_version=format_version)


def check_generated(tmp_path: Path, seed: int, *, format_version: int | None = None) -> None:
    """Run statements on both engines. format_version: of a table that is merged on read."""
    rng = random.Random(seed)

    async def work(local: local_sql.LocalSql) -> None:
        oracle = duckdb.connect()
        create = TABLES[seed % len(TABLES)].format(columns=changed_rows.TABLES["t"])
        await local.run(create)
        if format_version is not None:
            await local.lake.tables.commit(
                local.lake.ident("ns.t"),
                [],
                [
                    {"action": "upgrade-format-version", "format-version": format_version},
                    {"action": "set-properties", "updates": MARKING},
                ],
                by=lakes.BY,
            )
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
        if format_version is not None:
            summaries = [loaded.metadata.snapshot(each) for each in loaded.metadata.snapshot_ids]
            added = "added-dvs" if format_version == 3 else "added-position-delete-files"
            assert any(added in (each or {})["summary"] for each in summaries)
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        read = datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out")
        assert sorted((tuple(row.values()) for row in read), key=repr) == sorted(theirs, key=repr)

    local_sql.run_local(tmp_path, work)
