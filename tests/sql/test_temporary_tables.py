"""Temporary tables: what the session does with them, and what others see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from catalog import errors as catalog_errors
from sql import errors, sessions
from storage import batch
from storage import names as storage_names
from tests.kit import lakes, local_sql


async def code_of(local: local_sql.LocalSql, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.code


async def message_of(local: local_sql.LocalSql, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.message.replace("SQL compilation error:\n", "")


@contextmanager
def another_session(
    local: local_sql.LocalSql, principal: Any = local_sql.ROOT
) -> Iterator[sessions.Session]:
    """Run statements in a second session meanwhile."""
    own = local.session
    local.session = sessions.Session(id=2, principal=principal, database="lake", schema="ns")
    try:
        yield local.session
    finally:
        local.session = own


def objects_of(local: local_sql.LocalSql) -> int:
    with local.lake.storage.index.view() as view:
        return sum(1 for _ in view.scan(batch.Store.OBJECTS, b""))


@pytest.mark.parametrize(
    "words", ["temp", "temporary", "volatile", "local temp", "global temporary", "local volatile"]
)
def test_create_temporary_table_takes_each_spelling(tmp_path: Path, words: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        assert await local.rows(f"create {words} table t (a int, b varchar)") == [
            ("Table T successfully created.",)
        ]
        await local.run("insert into t values (1, 'x'), (2, 'y')")
        assert await local.rows("select b from t order by a") == [("x",), ("y",)]
        assert not local.lake.tables.exists(local.lake.ident("ns.t"))

    local_sql.run_local(tmp_path, work)


def test_create_transient_table_makes_a_table_that_every_session_sees(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create transient table t (a int)")
        with another_session(local):
            assert await local.one("select count(*) from t") == 0

    local_sql.run_local(tmp_path, work)


def test_temporary_table_hides_the_lasting_one_until_it_is_dropped(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t as select 1 a")
        await local.run("create temp table t as select a + 10 a from t")
        assert await local.one("select a from t") == 11
        assert await local.one("select lake.ns.t.a from lake.ns.t") == 11
        await local.run("update t set a = a + 1")
        await local.run("alter table t add column b int")
        assert [row[0] for row in await local.rows("describe table t")] == ["A", "B"]
        with another_session(local):
            assert await local.rows("select * from t") == [(1,)]
        assert await local.rows("drop table t") == [("T successfully dropped.",)]
        assert await local.rows("select * from t") == [(1,)]
        await local.run("drop table t")
        assert await code_of(local, "select * from t") == "002003"

    local_sql.run_local(tmp_path, work)


def test_create_of_a_lasting_table_under_a_temporary_one_stays_hidden(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t as select 'temporary' a")
        await local.run("create table t as select 'lasting' a")
        assert await local.one("select a from t") == "temporary"
        await local.run("create or replace table t as select 'replaced' a")
        assert await local.one("select a from t") == "temporary"
        await local.run("drop table t")
        assert await local.one("select a from t") == "replaced"

    local_sql.run_local(tmp_path, work)


def test_temporary_table_takes_every_change_of_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t (id int autoincrement, a int default 7, b varchar)")
        await local.run("insert into t (b) values ('x'), ('y')")
        await local.run("insert into t (id, a, b) select id + 10, a, b from t")
        await local.run("update t set b = 'z' where id = 1")
        await local.run("delete from t where id = 12")
        await local.run(
            "merge into t using (select 2 id union all select 99) s on t.id = s.id "
            "when matched then update set a = 0 when not matched then insert (id, a) values (99, 1)"
        )
        assert await local.rows("select id, a, b from t order by id") == [
            (1, 7, "z"),
            (2, 0, "y"),
            (11, 7, "x"),
            (99, 1, None),
        ]
        await local.run("insert overwrite into t (id, a) select 5, 5")
        assert await local.rows("select id from t") == [(5,)]
        await local.run("truncate table t")
        assert await local.one("select count(*) from t") == 0
        await local.run("insert all into t (id) values (n) select 3 n")
        assert await local.one("select id from t") == 3

    local_sql.run_local(tmp_path, work)


def test_transaction_changes_temporary_and_lasting_tables_together(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t (a int)")
        await local.run("create table lasting (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        await local.run("insert into lasting select a + 1 from t")
        assert await local.one("select count(*) from t") == 1
        await local.run("rollback")
        assert await local.one("select count(*) from t") == 0
        assert await local.one("select count(*) from lasting") == 0
        await local.run("begin")
        await local.run("insert into t values (1)")
        await local.run("insert into lasting select a + 1 from t")
        await local.run("commit")
        assert await local.rows("select t.a, l.a from t, lasting l") == [(1, 2)]
        await local.run("insert all into t values (n) into lasting values (n) select 8 n")
        assert await local.rows("select t.a, l.a from t join lasting l on t.a = l.a") == [(8, 8)]

    local_sql.run_local(tmp_path, work)


def test_an_insert_whose_temporary_table_has_changed_runs_again_for_both_tables(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t (a int)")
        await local.run("create table lasting (a int)")
        await local.run("insert into lasting values (1)")
        keep, patched = local.transactions.keep, pytest.MonkeyPatch()

        async def keep_after_a_change(*arguments: Any) -> None:
            patched.undo()
            await local.run("alter table t add column b int")
            await keep(*arguments)

        patched.setattr(local.transactions, "keep", keep_after_a_change)
        both = "insert all into t (a) values (n) into lasting values (n) select 8 n"
        await local.run(both)
        assert await local.rows("select a from lasting order by a") == [(1,), (8,)]
        assert await local.rows("select a, b from t") == [(8, None)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("begins", [True, False])
def test_a_temporary_table_that_changes_at_the_last_moment_fails_commit_and_reruns_an_insert(
    tmp_path: Path, begins: bool
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t (a int)")
        await local.run("create table lasting (a int)")
        await local.run("insert into lasting values (1)")
        both = "insert all into t (a) values (n) into lasting values (n) select 8 n"
        if begins:
            await local.run("begin")
            await local.run(both)
        commit_many, patched = local.lake.tables.commit_many, pytest.MonkeyPatch()

        async def commit_many_before_a_change(*arguments: Any, **options: Any) -> Any:
            patched.undo()
            await local.run("alter table t add column b int")
            return await commit_many(*arguments, **options)

        # A race: another request of the session.
        patched.setattr(local.lake.tables, "commit_many", commit_many_before_a_change)
        if begins:
            assert await code_of(local, "commit") == "000625"
            assert await local.rows("select a from lasting") == [(1,)]
            assert await local.one("select count(*) from t") == 0
            return
        await local.run(both)
        assert await local.rows("select a from lasting order by a") == [(1,), (8,)]
        assert await local.rows("select a, b from t") == [(8, None)]

    local_sql.run_local(tmp_path, work)


def test_drop_of_a_schema_drops_the_temporary_tables_in_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for again in ("drop schema s", "create or replace schema s"):
            await local.run("create schema if not exists s")
            objects = objects_of(local)
            await local.run("create temp table lake.s.t as select 1 a")
            await local.run(again)
            await local.run("create schema if not exists s")
            assert await code_of(local, "select a from lake.s.t") == "002003"
            assert objects_of(local) == objects

    local_sql.run_local(tmp_path, work)


def test_drop_table_if_exists_twice_at_once_answers_both(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t (a int)")
        drop = "drop table if exists t"
        answers = await asyncio.gather(local.rows(drop), local.rows(drop))
        assert sorted(answers) == [
            [("Drop statement executed successfully (T already dropped).",)],
            [("T successfully dropped.",)],
        ]

    local_sql.run_local(tmp_path, work)


def test_get_ddl_of_a_temporary_table_is_not_that_of_the_lasting_one(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (lasting int)")
        await local.run("create temp table t (a int)")
        text = "create or replace TEMPORARY TABLE T (\n\tA NUMBER(38,0)\n);"
        assert await local.one("select get_ddl('table', 't')") == text
        with another_session(local):
            text = "create or replace TABLE T (\n\tLASTING NUMBER(38,0)\n);"
            assert await local.one("select get_ddl('table', 't')") == text

    local_sql.run_local(tmp_path, work)


def test_cancelled_first_create_leaves_no_bucket_without_a_session(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for turns in range(16):
            with another_session(local) as session:
                creating = asyncio.create_task(local.run("create temp table t (a int)"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                creating.cancel()
                await asyncio.wait((creating,))
                if session.temporary_bucket is not None:
                    local.temporary.end(session.temporary_bucket)
        await local.temporary.stop()
        assert [info.name for info in local.lake.storage.buckets.list(hidden=True)] == ["lake"]

    local_sql.run_local(tmp_path, work)


def test_replaced_temporary_tables_keep_no_files_of_those_before(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table source as select 0 a")
        for text in (
            "create or replace temp table t as select 1 a",
            "create or replace temp table t as select a + 1 a from t",
            "create or replace temp table t clone source",
            "create or replace temp table t like source",
            "create or replace temp table t (a int, b int references t (a))",
        ):
            await local.run(text)
            await local.run(text)
            objects = objects_of(local)
            await local.run(text)
            assert objects_of(local) == objects, text
        assert [row[1] for row in await local.rows("show tables")] == ["SOURCE", "T"]
        assert await local.one("select count(*) from t") == 0

    local_sql.run_local(tmp_path, work)


def test_replacing_a_temporary_table_fails_and_keeps_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t as select 1 a")
        objects = objects_of(local)
        assert await code_of(local, "create or replace temp table t as select 1 / 0 a") == "100051"
        assert await local.rows("select a from t") == [(1,)]
        assert objects_of(local) == objects

    local_sql.run_local(tmp_path, work)


def test_create_temporary_table_over_an_existing_one_of_the_session(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t as select 1 a")
        assert await code_of(local, "create temp table t (b int)") == "002002"
        assert await local.rows("create temp table if not exists t (b int)") == [
            ("T already exists, statement succeeded.",)
        ]
        await local.run("create or replace temp table t as select a + 1 b from t")
        assert await local.rows("select b from t") == [(2,)]
        assert await code_of(local, "create temp view t as select 1 a") == "002002"
        await local.run("create temp view v as select b from t")
        assert await local.one("select b from v") == 2
        assert await code_of(local, "create temp table v (b int)") == "002002"

    local_sql.run_local(tmp_path, work)


def test_views_of_the_catalog_do_not_read_temporary_tables(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t as select 'lasting' a")
        await local.run("create view v as select a from t")
        await local.run("create temp table t as select 'temporary' a")
        assert await local.one("select a from v") == "lasting"
        message = await message_of(local, "create view w as select a from t")
        assert message == "Unsupported feature 'a view of a temporary table'."
        await local.run("create temp view w as select a from t")
        assert await local.one("select a from w") == "temporary"

    local_sql.run_local(tmp_path, work)


def test_listings_show_temporary_tables_to_their_session_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table lasting (a int)")
        await local.run("create temp table t (a int, b varchar)")
        shown = await local.rows("show tables")
        assert [(row[1], row[2], row[3], row[4]) for row in shown] == [
            ("LASTING", "LAKE", "NS", "TABLE"),
            ("T", "LAKE", "NS", "TEMPORARY"),
        ]
        query = (
            "select table_schema, table_name, table_type, is_temporary"
            " from information_schema.tables order by table_name"
        )
        assert await local.rows(query) == [
            ("NS", "LASTING", "BASE TABLE", "NO"),
            ("NS", "T", "LOCAL TEMPORARY", "YES"),
        ]
        assert [row[2] for row in await local.rows("show columns in table t")] == ["A", "B"]
        assert [row[1] for row in await local.rows("show databases")] == ["LAKE"]
        with another_session(local):
            assert [row[1] for row in await local.rows("show tables")] == ["LASTING"]
            assert len(await local.rows(query)) == 1
            assert await code_of(local, "select * from t") == "002003"
            assert await code_of(local, "drop table t") == "002003"

    local_sql.run_local(tmp_path, work)


def test_temporary_table_needs_the_right_to_see_its_schema_alone(tmp_path: Path) -> None:
    reads = {
        "Effect": "Allow",
        "Action": ["s3tables:GetNamespace", "s3tables:GetTableBucket"],
        "Resource": "*",
    }

    async def work(local: local_sql.LocalSql) -> None:
        with another_session(local, local_sql.user("reader", [reads])):
            assert await code_of(local, "create table t (a int)") == "003001"
            await local.run("create temp table t (a int, b int)")
            await local.run("insert into t values (1, 2)")
            await local.run("delete from t where a = 0")
            await local.run("update t set b = 3")
            await local.run("alter table t rename to t2")
            await local.run("begin")
            await local.run("insert into t2 values (4, 5)")
            await local.run("commit")
            assert await local.rows("select * from t2 order by a") == [(1, 3), (4, 5)]
            assert [row[1] for row in await local.rows("show tables")] == ["T2"]
            await local.run("drop table t2")
        with another_session(local, local_sql.user("stranger", [])):
            assert await code_of(local, "create temp table lake.ns.t (a int)") == "002003"

    local_sql.run_local(tmp_path, work)


def test_alter_of_a_temporary_table_keeps_it_temporary(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table lasting (a int)")
        await local.run("create temp table t as select 1 a")
        await local.run("create temp table u as select 2 a")
        await local.run("alter table t swap with u")
        assert await local.one("select a from t") == 2
        assert await code_of(local, "alter table t swap with lasting") == "000002"
        await local.run("alter table t rename to lasting")
        assert await local.one("select a from lasting") == 2
        with another_session(local):
            assert await local.one("select count(*) from lasting") == 0
        await local.run("alter table lasting alter column a set not null")
        assert await code_of(local, "insert into lasting values (null)") == "100072"

    local_sql.run_local(tmp_path, work)


def test_drop_of_a_temporary_table_frees_its_files(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        before = objects_of(local)
        await local.run("create temp table t as select 1 a")
        await local.run("insert into t values (2)")
        assert objects_of(local) > before
        await local.run("drop table t")
        assert objects_of(local) == before
        assert await code_of(local, "undrop table t") == "002003"

    local_sql.run_local(tmp_path, work)


def test_end_of_the_session_deletes_its_temporary_tables(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t as select 1 a")
        bucket = local.session.temporary_bucket
        assert bucket is not None
        local.temporary.end(bucket)
        await local.temporary.stop()
        assert local.lake.storage.buckets.list(hidden=True) == local.lake.storage.buckets.list()
        with pytest.raises(catalog_errors.NoSuchWarehouse):
            local.lake.store.place(bucket)

    local_sql.run_local(tmp_path, work)


def test_session_that_is_closed_meanwhile_gets_no_temporary_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        local.session.is_closed = True
        with pytest.raises(errors.SessionFault):
            await local.run("create temp table t (a int)")
        assert not any(
            storage_names.is_hidden(info.name)
            for info in local.lake.storage.buckets.list(hidden=True)
        )

    local_sql.run_local(tmp_path, work)


def test_start_after_a_crash_frees_every_temporary_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table lasting as select 1 a")
        before = objects_of(local)
        await local.run("create temp table t as select 1 a")
        assert objects_of(local) > before

    local_sql.run_local(tmp_path, work)
    with lakes.opened(tmp_path) as lake:
        assert all(
            not storage_names.is_hidden(info.name)
            for info in lake.storage.buckets.list(hidden=True)
        )
        with lake.storage.index.view() as view:
            keys = [key for key, _ in view.scan(batch.Store.OBJECTS, b"")]
            assert len({key[:4] for key in keys}) == 1
        assert lake.tables.exists(lake.ident("ns.lasting"))


def test_results_of_a_temporary_table_and_time_travel(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create temp table t as select 1 a")
        first = local.last_id
        await local.run("insert into t values (2)")
        assert await local.one(f"select count(*) from t at (statement => '{first}')") == 1
        outcome = await local.run("select a from t order by a")
        await local.results.keep(local.last_id, outcome)
        assert await local.rows("select * from table(result_scan(last_query_id()))") == [
            (1,),
            (2,),
        ]
        await local.run("create table copied as select * from t")
        assert await local.one("select count(*) from copied") == 2

    local_sql.run_local(tmp_path, work)
