"""DELETE, UPDATE and MERGE of tables whose properties choose merge-on-read."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from catalog import manifests, scans
from sql import marks, sessions
from tests.kit import datafiles, lakes, local_sql

VERSIONS = pytest.mark.parametrize("format_version", [2, 3])


async def create(local: local_sql.LocalSql, format_version: int, *modes: str) -> None:
    await local.run("create table t (id int, v varchar)")
    await mark(local, format_version, *modes)
    await local.run("insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")


async def mark(local: local_sql.LocalSql, format_version: int, *modes: str) -> None:
    await local.lake.tables.commit(
        local.lake.ident("ns.t"),
        [],
        [
            {"action": "upgrade-format-version", "format-version": format_version},
            {
                "action": "set-properties",
                "updates": {f"write.{mode}.mode": "merge-on-read" for mode in modes},
            },
        ],
        by=lakes.BY,
    )


async def tasks(local: local_sql.LocalSql) -> list[scans.FileTask]:
    plan = await local.scans.plan(local.reader("ns.t"))
    return sorted(plan.tasks, key=lambda task: -task.data_file.record_count)


def by_others(local: local_sql.LocalSql, folder: Path) -> list[list[tuple[Any, ...]]]:
    """Return the rows that PyIceberg reads, and DuckDB for format version 2.

    DuckDB finds vectors only at their S3 location: `tests/contract` has it read them.
    """
    loaded = local.lake.load(local.lake.ident("ns.t"))
    readers = [datafiles.rows_by_pyiceberg]
    if loaded.metadata.format_version == 2:
        readers.append(datafiles.rows_by_duckdb)
    metadata_file = datafiles.bench(local.lake).export(loaded, folder)
    return [
        sorted((row["id"], row["v"]) for row in read(metadata_file, folder)) for read in readers
    ]


@VERSIONS
def test_changes_leave_the_data_file_and_mark_its_rows_for_every_reader(
    tmp_path: Path, format_version: int
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, format_version, "delete", "update", "merge")
        ((before),) = await tasks(local)
        for text, answer, rows in (
            ("delete from t where id = 2", (1,), [(1, "a"), (3, "c"), (4, "d")]),
            ("update t set v = 'z' where id = 4", (1, 0), [(1, "a"), (3, "c"), (4, "z")]),
            (
                "merge into t using (select 1 as id union all select 9) as s on t.id = s.id"
                " when matched then update set v = 'm' when not matched then insert"
                " values (s.id, 'new')",
                (1, 1),
                [(1, "m"), (3, "c"), (4, "z"), (9, "new")],
            ),
        ):
            assert await local.rows(text) == [answer], text
            assert await local.rows("select * from t order by id") == rows
            folder = tmp_path / text.split(maxsplit=1)[0]
            assert all(each == rows for each in by_others(local, folder)), text
        task = (await tasks(local))[0]
        assert task.data_file.file_path == before.data_file.file_path
        forms = [(each.file_format, each.record_count) for each in task.deletes]
        assert forms == ([("PUFFIN", 3)] if format_version == 3 else [("PARQUET", 1)] * 3)
        head = local.lake.load(local.lake.ident("ns.t")).metadata.current_snapshot()
        assert head is not None
        assert head["summary"]["total-position-deletes"] == "3"

    local_sql.run_local(tmp_path, work)


@VERSIONS
def test_a_query_with_a_repeated_expression_leaves_marked_rows_out(
    tmp_path: Path, format_version: int
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, format_version, "delete", "update")
        await local.run("delete from t where id = 2")
        for condition, ids in (
            ("upper(v) = 'A' or upper(v) = 'B'", [1]),
            ("id + 1 < 4 or id + 1 > 4 and upper(v) <> lower(upper(v))", [1, 4]),
        ):
            text = f"select id from t where {condition} order by id"
            assert await local.rows(text) == [(each,) for each in ids]
            joined = f"select count(*) from t join t as u on u.id + 1 = t.id + 1 where {condition}"
            assert await local.one(joined.replace("(v)", "(t.v)").replace(" id", " t.id")) == len(
                ids
            )
        await local.run("update t set v = upper(v) || upper(v) where id + 1 = 2 or id + 1 = 5")
        rows = [(1, "AA"), (3, "c"), (4, "DD")]
        assert await local.rows("select * from t order by id") == rows

    local_sql.run_local(tmp_path, work)


@VERSIONS
def test_each_statement_follows_its_own_property(tmp_path: Path, format_version: int) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, format_version, "update")
        await local.run("delete from t where id = 2")
        (task,) = await tasks(local)
        assert (task.data_file.record_count, list(task.deletes)) == (3, [])
        await local.run("update t set v = 'y' where id = 3")
        first, second = await tasks(local)
        assert [each.record_count for each in first.deletes] == [1]
        assert second.data_file.record_count == 1
        await local.run("delete from t where id in (1, 4)")  # what is left of the file is rewritten
        assert await local.rows("select * from t") == [(3, "y")]

    local_sql.run_local(tmp_path, work)


@VERSIONS
def test_a_file_that_is_replaced_meanwhile_has_the_change_run_again(
    tmp_path: Path, format_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, format_version, "delete", "update")
        session = sessions.Session(id=2, principal=lakes.ROOT, database="lake", schema="ns")
        other = dataclasses.replace(local, session=session)
        keep, runs = local.transactions.keep, []

        async def race(*arguments: Any) -> None:
            runs.append(arguments)
            if arguments[0].session is local.session and len(runs) == 1:
                await other.run("insert overwrite into t select id, v || '!' from t")
            await keep(*arguments)

        monkeypatch.setattr(local.transactions, "keep", race)
        await local.run("delete from t where id = 2")
        assert len(runs) == 2
        assert await local.rows("select * from t order by id") == [(1, "a!"), (3, "c!"), (4, "d!")]

    local_sql.run_local(tmp_path, work)


@VERSIONS
def test_a_transaction_marks_rows_of_one_file_twice(tmp_path: Path, format_version: int) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, format_version, "delete", "update")
        for end, rows in (
            ("rollback", [(1, "a"), (2, "b"), (3, "c"), (4, "d")]),
            ("commit", [(2, "b"), (3, "x")]),
        ):
            await local.run("begin")
            await local.run("delete from t where id = 1")
            await local.run("update t set v = 'x' where id = 3")
            await local.run("delete from t where id = 4")
            assert await local.rows("select * from t order by id") == [(2, "b"), (3, "x")]
            await local.run(end)
            assert await local.rows("select * from t order by id") == rows
        assert all(each == rows for each in by_others(local, tmp_path / "out"))

    local_sql.run_local(tmp_path, work)


def test_a_version_3_table_with_older_position_deletes_is_rewritten(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, 2, "delete")
        await local.run("delete from t where id = 1")
        await local.lake.tables.commit(
            local.lake.ident("ns.t"),
            [],
            [{"action": "upgrade-format-version", "format-version": 3}],
            by=lakes.BY,
        )
        await local.run("delete from t where id = 2")
        (task,) = await tasks(local)
        assert (task.data_file.record_count, list(task.deletes)) == (2, [])
        assert await local.rows("select id from t order by id") == [(3,), (4,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("modes", [(), ("delete", "update")])
def test_a_file_that_a_change_has_read_is_read_with_row_ids_after_an_upgrade(
    tmp_path: Path, modes: tuple[str, ...]
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, 2, *modes)
        await local.run("insert into t values (5, 'e'), (6, 'f')")
        await local.run("delete from t where id = 1")
        await local.run("update t set v = 'y' where id > 6")
        await local.lake.tables.commit(
            local.lake.ident("ns.t"),
            [],
            [{"action": "upgrade-format-version", "format-version": 3}],
            by=lakes.BY,
        )
        await local.run("delete from t where id in (2, 5)")
        await local.run("update t set v = 'z' where id in (3, 6)")
        rows = [(3, "z"), (4, "d"), (6, "z")]
        assert await local.rows("select * from t order by id") == rows
        assert by_others(local, tmp_path / "out") == [rows]

    local_sql.run_local(tmp_path, work)


@VERSIONS
def test_the_extremes_of_several_columns_are_found_beside_a_file_of_nulls(
    tmp_path: Path, format_version: int
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, n number(20, 2))")
        await mark(local, format_version, "delete")
        await local.run("insert into t values (1, 2.5), (2, 3), (3, 9)")
        await local.run("delete from t where id = 3")
        await local.run("insert into t (id) values (7)")
        for where in ("", " where id < 100"):
            rows = await local.rows(f"select max(n), max(id) from t{where}")
            assert rows == [(3, 7)], where
            rows = await local.rows(f"select min(n), max(n), min(-id) from t{where}")
            assert rows == [(Decimal("2.5"), 3, -7)], where

    local_sql.run_local(tmp_path, work)


def test_more_rows_than_the_bound_are_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, 2, "delete")
        monkeypatch.setattr(marks, "ROWS_MAX", 1)
        await local.run("delete from t where id < 3")
        (task,) = await tasks(local)
        assert task.data_file.content == manifests.Content.DATA
        assert (task.data_file.record_count, list(task.deletes)) == (2, [])

    local_sql.run_local(tmp_path, work)


@VERSIONS
def test_rows_of_a_partition_that_equals_nothing_are_deleted_for_every_reader(
    tmp_path: Path, format_version: int
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, v varchar, p double) partition by (p)")
        await mark(local, format_version, "delete")
        await local.run("insert into t select column1, 'v', 'NaN' from values (1), (2), (3)")
        for number in (1, 2):
            await local.run(f"delete from t where id = {number}")
            rows = await local.rows("select id, v from t order by id")
            assert rows == [(each, "v") for each in range(number + 1, 4)]
            assert all(each == rows for each in by_others(local, tmp_path / str(number)))

    local_sql.run_local(tmp_path, work)


def test_more_bytes_of_vectors_than_the_bound_are_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, 3, "delete")
        await local.run("insert into t values (5, 'e'), (6, 'f'), (7, 'g')")
        await local.run("delete from t where id in (1, 5)")
        vectors = [file for task in await tasks(local) for file in task.deletes]
        sizes = [file.content_size_in_bytes or 0 for file in vectors]
        assert len(sizes) == 2
        monkeypatch.setattr(marks, "VECTORS_BYTES_MAX", sum(sizes) - 1)
        await local.run("delete from t where id = 2")
        assert sum(len(list(task.deletes)) for task in await tasks(local)) == 2
        await local.run("delete from t where id in (3, 6)")  # takes over both
        assert not any(task.deletes for task in await tasks(local))
        assert await local.rows("select id from t order by id") == [(4,), (7,)]

    local_sql.run_local(tmp_path, work)
