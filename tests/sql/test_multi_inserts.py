"""Multi-table INSERT: which rows go where, and that all of them are one commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sql import errors, limits, outcomes
from tests.kit import local_sql


async def prepared(local: local_sql.LocalSql) -> None:
    await local.run("create table s (n int, name varchar)")
    await local.run("insert into s values (1, 'a'), (5, 'b'), (10, 'c'), (null, 'd')")
    await local.run("create table t (n int, name varchar)")
    await local.run("create table u (n int, extra varchar)")


async def rows_of(local: local_sql.LocalSql, table: str) -> list[tuple[Any, ...]]:
    return await local.rows(f"select * from {table} order by 1 nulls last, 2 nulls last")


async def code_of(local: local_sql.LocalSql, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.code


def test_insert_all_puts_every_row_into_every_clause_in_one_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        commits = len(local.lake.log())
        outcome = await local.run(
            "insert all into t into t (n) values (n * 100) into u values (n, default)"
            " into u (extra, n) values (name || '!', null) select * from s where n > 4"
        )
        assert outcome.rows == ((4, 4),)
        assert [column.name for column in outcome.columns] == [
            "number of rows inserted into T",
            "number of rows inserted into U",
        ]
        assert outcome.statement_type_id == outcomes.StatementType.MULTI_TABLE_INSERT
        assert outcome.stats == outcomes.Stats(rows_inserted=8)
        assert len(local.lake.log()) == commits + 1
        assert await rows_of(local, "t") == [(5, "b"), (10, "c"), (500, None), (1000, None)]
        assert await rows_of(local, "u") == [(5, None), (10, None), (None, "b!"), (None, "c!")]

    local_sql.run_local(tmp_path, work)


def test_conditional_inserts_choose_by_when_and_else(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        clauses = (
            "when n > 7 then into t when n > 3 then into t (n) values (n + 1000)"
            " into u (n) values (n) else into u values (n, name)"
        )
        assert await local.rows(f"insert first {clauses} select n, name from s") == [(2, 3)]
        assert await rows_of(local, "t") == [(10, "c"), (1005, None)]
        assert await rows_of(local, "u") == [(1, "a"), (5, None), (None, "d")]

        assert await local.rows(f"insert overwrite all {clauses} select n, name from s") == [(3, 4)]
        assert await rows_of(local, "t") == [(10, "c"), (1005, None), (1010, None)]
        assert await rows_of(local, "u") == [(1, "a"), (5, None), (10, None), (None, "d")]

    local_sql.run_local(tmp_path, work)


def test_the_query_of_a_multi_table_insert_runs_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (v varchar)")
        await local.run("create table u (v varchar)")
        await local.run("insert all into t into u select uuid_string() v from (values (1), (2)) x")
        assert await rows_of_one(local, "t") == await rows_of_one(local, "u")

    async def rows_of_one(local: local_sql.LocalSql, table: str) -> list[tuple[Any, ...]]:
        return await local.rows(f"select v from {table} order by v")

    local_sql.run_local(tmp_path, work)


def test_a_multi_table_insert_in_a_transaction_is_rolled_back_whole(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        await local.run("begin")
        await local.run("insert all into t into u select n, name from s")
        assert await local.rows("select count(*) from t join u on t.n = u.n") == [(3,)]
        await local.run("insert all into t into t select n, name from t")
        assert await local.rows("select count(*) from t") == [(12,)]
        await local.run("rollback")
        assert await rows_of(local, "t") == await rows_of(local, "u") == []

    local_sql.run_local(tmp_path, work)


def test_a_multi_table_insert_that_fails_in_one_clause_changes_no_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        await local.run("create table r (n int not null)")
        failing = "insert all into t into r (n) values (n) select n, name from s"
        assert await code_of(local, failing) == "100072"
        assert await rows_of(local, "t") == []
        assert not local.lake.storage.objects.list("lake", prefix="ns/t/data/").objects

    local_sql.run_local(tmp_path, work)


def test_a_repeated_multi_table_insert_gives_the_first_answer(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        text = "insert all into t into u select n, name from s"
        first = await local.run(text, query_id="q")
        again = await local.run(text, query_id="q")
        assert first.rows == again.rows == ((4, 4),)
        assert await local.rows("select count(*) from t") == [(4,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("insert all into t select n from s", "002020"),
        ("insert all into t (n) values (1, 2) select n from s", "002020"),
        ("insert all into t (n) values (x) select n from s", "000904"),
        ("insert all into nosuch select n from s", "002003"),
        ("insert first into t select n, name from s", "000002"),
        ("insert all when random() > 0 then into t select n, name from s", "000002"),
        ("insert all into t (n) values ((select 1)) select n from s", "000002"),
        ("insert all into t (n) values (sum(n)) select n from s", "000002"),
    ],
)
def test_a_wrong_clause_is_refused(tmp_path: Path, text: str, code: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        assert await code_of(local, text) == code

    local_sql.run_local(tmp_path, work)


def test_the_rows_of_the_query_have_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        monkeypatch.setattr(limits, "INTO_SOURCE_BYTES_MAX", 8)
        assert await code_of(local, "insert all into t select n, name from s") == "000625"
        assert await rows_of(local, "t") == []

    local_sql.run_local(tmp_path, work)
