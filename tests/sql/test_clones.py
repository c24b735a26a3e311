"""CREATE TABLE ... LIKE and CLONE: the new table's definition, its rows, and whose files it has."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog import namespaces
from sql import clones, errors, places, schema_clones
from storage import index
from tests.kit import lakes, local_sql, sweeps, waits


async def code_of(local: local_sql.LocalSql, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.code


def blobs_of(local: local_sql.LocalSql, dotted: str) -> set[str]:
    """Return the blobs of a table's data files."""
    objects, prefix = local.lake.storage.objects, f"{dotted.replace('.', '/')}/data/"
    keys = [info.key for info in objects.list("lake", prefix=prefix).objects]
    return {segment.blob for key in keys for segment in objects.head("lake", key).body.segments}


async def build(local: local_sql.LocalSql) -> None:
    await local.run(
        "create table s (id int autoincrement start 5 increment 2, name varchar(5) not null,"
        " price number(10,2) default 1.5, at date default current_date(), primary key (id))"
        " cluster by (name) comment = 'of s'"
    )
    await local.run("insert into s (name, price) values ('a', 2), ('b', 3)")
    await local.run("insert into s (name) values ('c')")


DESCRIBED = [
    ("ID", "NUMBER(38,0)", "N", "Y"),
    ("NAME", "VARCHAR(5)", "N", "N"),
    ("PRICE", "NUMBER(10,2)", "Y", "N"),
    ("AT", "DATE", "Y", "N"),
]


async def described(local: local_sql.LocalSql, name: str) -> list[tuple[Any, ...]]:
    return [(row[0], row[1], row[3], row[5]) for row in await local.rows(f"describe table {name}")]


def test_create_table_like_takes_columns_keys_and_defaults_and_no_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("alter table s drop column at")
        assert await local.rows("create table t like s") == [("Table T successfully created.",)]
        assert await described(local, "t") == DESCRIBED[:3]
        assert await local.one("select count(*) from t") == 0
        await local.run("insert into t (name) values ('x')")
        assert await local.rows("select id, name, price from t") == [(5, "x", pytest.approx(1.5))]
        assert await code_of(local, "insert into t (name) values ('too long')") == "100078"
        assert await code_of(local, "create table t like s") == "002002"
        assert await local.rows("create table if not exists t like s") == [
            ("T already exists, statement succeeded.",)
        ]
        await local.run("create or replace table t like s")
        assert await local.one("select count(*) from t") == 0

    local_sql.run_local(tmp_path, work)


def test_clone_has_the_rows_and_shares_the_bytes(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create table t clone s")
        assert await described(local, "t") == DESCRIBED
        assert await local.rows("select id, name from t order by id") == [
            (5, "a"),
            (7, "b"),
            (9, "c"),
        ]
        assert blobs_of(local, "ns.t") == blobs_of(local, "ns.s") != set()
        await local.run("insert into t (name) values ('d')")
        assert await local.one("select id from t where name = 'd'") == 11
        await local.run("update t set name = 'z' where id = 5")
        await local.run("delete from s where id = 7")
        assert await local.rows("select name from t order by id") == [
            ("z",),
            ("b",),
            ("c",),
            ("d",),
        ]
        assert await local.rows("select name from s order by id") == [("a",), ("c",)]
        shown = await local.rows("show tables like 'T'")
        assert [(row[5], row[6]) for row in shown] == [("of s", "LINEAR(NAME)")]

    local_sql.run_local(tmp_path, work)


def test_clone_at_a_time_before_has_the_rows_and_columns_of_then(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        first = local.last_id
        await local.run("alter table s add column more int")
        await local.run("update s set more = 1, name = 'n'")
        await local.run(f"create table t clone s before (statement => '{first}')")
        assert await local.rows("select name from t order by id") == [("a",), ("b",)]
        assert await described(local, "t") == DESCRIBED
        await local.run("alter table t add column other int")
        assert await local.rows("select distinct other from t") == [(None,)]

    local_sql.run_local(tmp_path, work)


def test_column_added_to_a_clone_never_reads_a_column_that_the_source_dropped(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s as select 1 a, 2 b")
        await local.run("alter table s drop column b")
        await local.run("create table t clone s")
        assert blobs_of(local, "ns.t") == blobs_of(local, "ns.s")
        await local.run("alter table t add column c int")
        assert await local.rows("select a, c from t") == [(1, None)]

    local_sql.run_local(tmp_path, work)


def test_clone_of_a_partitioned_and_of_an_empty_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table s (a int, b varchar) partition by (b)")
        await local.run("create table empty clone s")
        assert await local.one("select count(*) from empty") == 0
        await local.run("insert into s values (1, 'x'), (2, 'y')")
        await local.run("create table t clone s")
        assert blobs_of(local, "ns.t") == blobs_of(local, "ns.s")
        await local.run("insert into t values (3, 'x')")
        assert await local.rows("select a from t where b = 'x' order by a") == [(1,), (3,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("version", [2, 3])
def test_clone_of_a_table_with_deleted_rows_has_the_others(tmp_path: Path, version: int) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s (a int not null, b varchar(3))")
        await local.run(f"alter table s set iceberg_version = {version}")
        ident = local.lake.ident("ns.s")
        merging = {"write.delete.mode": "merge-on-read"}
        await local.lake.tables.commit(
            ident, [], [{"action": "set-properties", "updates": merging}], by=lakes.BY
        )
        await local.run("insert into s values (1, 'x'), (2, 'y'), (3, 'z')")
        await local.run("delete from s where a = 2")
        await local.run("create table t clone s")
        assert await local.rows("select a, b from t order by a") == [(1, "x"), (3, "z")]
        assert await code_of(local, "insert into t values (null, 'x')") == "100072"

    local_sql.run_local(tmp_path, work)


def test_create_or_replace_clone_replaces_a_table_in_one_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create table t (other int)")
        assert await code_of(local, "create table t clone s") == "002002"
        await local.run("create or replace table t clone s copy grants")
        assert await described(local, "t") == DESCRIBED
        assert await local.rows("select id, name from t order by id") == [
            (5, "a"),
            (7, "b"),
            (9, "c"),
        ]
        await local.run("insert into t (name) values ('d')")
        assert await local.one("select id from t where name = 'd'") == 11

    local_sql.run_local(tmp_path, work)


def test_clone_of_and_into_temporary_tables(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create temp table t clone s")
        assert await local.one("select count(*) from t") == 3
        await local.run("create temp table u clone t")
        await local.run("create table v like t")
        assert await code_of(local, "create table w clone t") == "000002"
        await local.run("drop table t")
        assert await local.one("select count(*) from u") == 3
        assert await described(local, "v") == DESCRIBED

    local_sql.run_local(tmp_path, work)


def test_clone_of_what_is_no_table_is_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v as select id from s")
        assert await code_of(local, "create table t clone v") == "002203"
        assert await code_of(local, "create table t like v") == "002203"
        assert await code_of(local, "create table t clone missing") == "002003"
        for text in (
            "create table t clone s where id = 1",
            "create table t clone s, s",
            "create table t like s x",
            "create table t clone (select 1)",
            "create table t clone",
            "create table t like s union select 1",
        ):
            assert await code_of(local, text) == "001003", text

    local_sql.run_local(tmp_path, work)


def test_two_clones_into_one_table_without_metadata_share_no_file(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s as select 1 a")
        await local.lake.tables.create_empty(local.lake.ident("ns.c"), by=lakes.BY)
        answers = await asyncio.gather(
            *(local.run("create table c clone s") for _ in range(2)), return_exceptions=True
        )
        assert sum(isinstance(each, Exception) for each in answers) == 1
        assert await local.rows("select a from c") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_clone_needs_the_right_to_read_its_source(tmp_path: Path) -> None:
    creates = {
        "Effect": "Allow",
        "Action": ["s3tables:CreateTable", "s3tables:PutTableData", "s3tables:ListTables"],
        "Resource": "*",
    }

    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        local.session.principal = local_sql.user("writer", [creates])
        assert await code_of(local, "create table t clone s") == "003001"
        assert await code_of(local, "create table t like s") == "003001"

    local_sql.run_local(tmp_path, work)


def test_repeated_request_of_a_clone_is_executed_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        for copies in ("clone", "like"):
            text, query_id = f"create table {copies}d {copies} s", str(uuid.uuid4())
            first = await local.rows(text, query_id=query_id)
            await local.run("insert into s (name) values ('d')")
            assert await local.rows(text, query_id=query_id) == first
        assert await local.one("select count(*) from cloned") == 3

    local_sql.run_local(tmp_path, work)


async def build_schema(local: local_sql.LocalSql) -> None:
    await build(local)
    await local.run("create sequence q start 7")
    await local.run("create table numbered (n int default q.nextval, a varchar)")
    await local.run("create table child (id int, foreign key (id) references s (id))")
    await local.run("create view v as select name from s")
    await local.run("create view w as select name from lake.ns.s")
    await local.run("alter schema ns set comment = 'of ns'")


async def names_in(local: local_sql.LocalSql, schema: str) -> list[tuple[str, str]]:
    shown = await local.rows(f"show objects in schema {schema}")
    return sorted((row[1], row[4]) for row in shown)


OBJECTS = [
    ("CHILD", "TABLE"),
    ("NUMBERED", "TABLE"),
    ("S", "TABLE"),
    ("V", "VIEW"),
    ("W", "VIEW"),
]


def test_schema_clone_has_tables_views_and_sequences_and_shares_the_bytes(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build_schema(local)
        before = len(local.lake.log())
        assert await local.rows("create schema dev clone ns") == [
            ("Schema DEV successfully created.",)
        ]
        assert len(local.lake.log()) == before + 1
        assert await names_in(local, "dev") == OBJECTS
        assert await local.one("select current_schema()") == "DEV"
        assert await described(local, "dev.s") == DESCRIBED
        assert blobs_of(local, "dev.s") == blobs_of(local, "ns.s") != set()
        (shown,) = await local.rows("show schemas like 'dev'")
        assert "of ns" in shown

        await local.run("delete from ns.s where id = 5")
        await local.run("insert into dev.s (name) values ('d')")
        assert await local.rows("select id, name from dev.s order by id") == [
            (5, "a"),
            (7, "b"),
            (9, "c"),
            (11, "d"),
        ]
        # A view's own schema is the clone's; what its text names in full stays.
        assert await local.one("select count(*) from dev.v") == 4
        assert await local.one("select count(*) from dev.w") == 2
        # The clone's tables take the numbers of the clone's sequence.
        await local.run("insert into dev.numbered (a) values ('x'), ('y')")
        assert await local.rows("select n from dev.numbered order by n") == [(7,), (8,)]
        assert await local.one("select ns.q.nextval") == 7
        keys = await local.rows("show imported keys in table dev.child")
        assert [(row[2], row[3]) for row in keys] == [("DEV", "S")]

    local_sql.run_local(tmp_path, work)


def test_schema_clone_of_a_schema_that_exists_is_refused_unless_it_replaces_it(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build_schema(local)
        await local.run("create schema dev")
        await local.run("create table dev.s as select 99 other")
        await local.run("create table dev.v as select 1 a")
        await local.run("create view dev.child as select 1 a")
        await local.run("create table dev.mine as select 1 a")
        assert await code_of(local, "create schema dev clone ns") == "002002"
        assert await local.rows("create schema if not exists dev clone ns") == [
            ("DEV already exists, statement succeeded.",)
        ]
        before = len(local.lake.log())
        await local.run("create or replace schema dev clone ns comment = 'fresh'")
        assert len(local.lake.log()) == before + 1
        assert await names_in(local, "dev") == OBJECTS
        assert await local.one("select count(*) from dev.s") == 3
        assert await local.one("select count(*) from dev.v") == 3
        # What was replaced is kept, as by DROP SCHEMA.
        await local.run("undrop table dev.mine")
        local.lake.clock.now_ms += 1000
        await local.run("drop table dev.s")
        await local.run("undrop table dev.s")
        assert await local.one("select count(*) from dev.s") == 3
        await local.run("create or replace schema ns clone ns")
        assert await local.one("select count(*) from ns.s") == 3
        assert local.lake.broken_chain() is None

    local_sql.run_local(tmp_path, work)


def test_schema_clone_at_a_time_has_the_tables_and_rows_of_then(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s as select 1 a")
        local.lake.clock.now_ms += 60_000
        await local.run("insert into s values (2)")
        second = local.last_id
        local.lake.clock.now_ms += 60_000
        await local.run("create table late as select 1 a")
        await local.run("set since = -90")
        await local.run("create schema d1 clone ns at (offset => $since)")
        assert await names_in(local, "d1") == [("S", "TABLE")]
        assert await local.rows("select a from d1.s") == [(1,)]
        for word, rows in (("at", 2), ("before", 1)):
            await local.run(
                f"create or replace schema d2 clone ns {word} (statement => '{second}')"
            )
            assert await names_in(local, "d2") == [("S", "TABLE")]
            assert await local.one("select count(*) from d2.s") == rows
        unknown = f"create schema d3 clone ns at (statement => '{uuid.uuid4()}')"
        assert await code_of(local, unknown) == "000707"
        assert await code_of(local, "create schema d3 clone ns at (version => 5)") == "000002"
        assert await code_of(local, "create schema d3 clone ns at (offset => 'x'") == "001003"
        assert await code_of(local, "create schema d3 clone nothing") == "002003"
        assert await code_of(local, "create schema d3 clone information_schema") == "000002"
        assert "d3" not in {idents[-1] for idents in local.lake.namespaces.list("lake")}

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("version", [2, 3])
def test_schema_clone_writes_rows_anew_where_files_cannot_be_shared(
    tmp_path: Path, version: int
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s (a int not null, b varchar(3), t timestamp_ltz)")
        await local.run(f"alter table s set iceberg_version = {version}")
        merging = {"write.delete.mode": "merge-on-read"}
        await local.lake.tables.commit(
            local.lake.ident("ns.s"),
            [],
            [{"action": "set-properties", "updates": merging}],
            by=lakes.BY,
        )
        await local.run("insert into s (a, b) values (1, 'x'), (2, 'y'), (3, 'z')")
        await local.run("delete from s where a = 2")
        await local.run("create schema dev clone ns")
        assert await local.rows("select a, b from dev.s order by a") == [(1, "x"), (3, "z")]
        assert await code_of(local, "insert into dev.s (b) values ('x')") == "100072"

    local_sql.run_local(tmp_path, work)


def test_schema_clone_needs_every_right_on_what_it_reads_and_creates(tmp_path: Path) -> None:
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}

    async def work(local: local_sql.LocalSql) -> None:
        await build_schema(local)
        await local.run("create schema dev")
        await local.run("create table dev.old as select 1 a")
        owner, keys = local.session.principal, set(keys_of(local))
        for action, replaced in (
            ("s3tables:GetTableData", ""),
            ("s3tables:ListTables", ""),
            ("s3tables:CreateTable", ""),
            ("s3tables:PutTableData", ""),
            ("s3tables:CreateNamespace", ""),
            ("s3tables:DeleteNamespace", "or replace "),
            ("s3tables:DeleteTable", "or replace "),
        ):
            denied = {"Effect": "Deny", "Action": action, "Resource": "*"}
            local.session.principal = local_sql.user("analyst", [everything, denied])
            name = "dev" if replaced else "d"
            text = f"create {replaced}schema {name} clone ns"
            assert await code_of(local, text) == "003001", action
        local.session.principal = owner
        assert await names_in(local, "dev") == [("OLD", "TABLE")]
        assert await code_of(local, "use schema d") == "002003"
        assert set(keys_of(local)) == keys

    local_sql.run_local(tmp_path, work)


def keys_of(local: local_sql.LocalSql) -> list[str]:
    return [info.key for info in local.lake.storage.objects.list("lake").objects]


def test_schema_clone_that_fails_leaves_no_file(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.lake.tables.create_empty(local.lake.ident("ns.z"), by=lakes.BY)
        keys = set(keys_of(local))
        assert await code_of(local, "create schema dev clone ns") == "002003"
        assert set(keys_of(local)) == keys
        assert ("dev",) not in local.lake.namespaces.list("lake")
        assert await code_of(local, "create database pond clone lake") == "002003"
        assert [row[1] for row in await local.rows("show databases")] == ["LAKE"]

    local_sql.run_local(tmp_path, work)


def test_repeated_request_of_a_schema_clone_is_executed_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        for text in (
            "create schema dev clone ns",
            "create or replace schema dev clone ns",
            "create database pond clone lake",
        ):
            query_id = str(uuid.uuid4())
            first = await local.rows(text, query_id=query_id)
            commits = len(local.lake.log())
            assert await local.rows(text, query_id=query_id) == first
            assert len(local.lake.log()) == commits
            await local.run("use lake.ns")

    local_sql.run_local(tmp_path, work)


def test_database_clone_has_all_schemas(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build_schema(local)
        await local.run("create schema other")
        await local.run("create view other.x as select count(*) n from ns.s")
        assert await local.rows("create database pond clone lake comment = 'copy'") == [
            ("Database POND successfully created.",)
        ]
        assert len(local.lake.log("pond")) == 1
        assert await names_in(local, "pond.ns") == OBJECTS
        await local.run("insert into pond.ns.s (name) values ('d')")
        assert await local.one("select count(*) from pond.ns.v") == 4
        assert await local.one("select n from pond.other.x") == 4
        assert await local.one("select count(*) from lake.ns.s") == 3
        await local.run("drop database pond cascade")
        assert await local.one("select count(*) from lake.ns.s") == 3
        assert await code_of(local, "create database lake clone lake") == "002002"
        assert await code_of(local, "create database pond clone nothing") == "002003"

    local_sql.run_local(tmp_path, work)


def test_database_clone_never_replaces_a_database_that_exists(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s as select 1 a")
        await local.run("create database pond comment = 'mine'")
        await local.lake.tables.create_empty(local.lake.ident("ns.z"), by=lakes.BY)
        assert await code_of(local, "create or replace database pond clone lake") == "000002"
        (shown,) = await local.rows("show databases like 'pond'")
        assert "mine" in shown
        # The existing database is looked for before the source.
        for source in ("lake", "nothing"):
            text = f"create database if not exists pond clone {source}"
            assert await local.rows(text) == [("POND already exists, statement succeeded.",)]
        await local.run("drop database pond")
        await local.lake.tables.drop(local.lake.ident("ns.z"), by=lakes.BY)
        await local.run("create or replace database pond clone lake")
        assert await local.one("select a from pond.ns.s") == 1

    local_sql.run_local(tmp_path, work)


def test_current_schema_after_a_database_clone_is_one_that_it_has(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database bare")
        await local.run("drop schema bare.public")
        await local.run("create database full")
        for text, schema in (
            ("create database one clone lake", None),
            ("create database two clone bare", None),
            ("create database three clone full", "PUBLIC"),
        ):
            query_id = str(uuid.uuid4())
            for _ in range(2):
                await local.run("use lake.ns")
                await local.run(text, query_id=query_id)
                assert await local.one("select current_schema()") == schema, text

    local_sql.run_local(tmp_path, work)


def test_database_clone_has_at_most_as_much_as_one_commit_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        monkeypatch.setattr(namespaces, "TABLES_DROPPED_MAX", 4)
        await local.run("create table s as select 1 a")
        await local.run("create schema other")
        await local.run("create view other.v as select 1 a")
        await local.run("create database pond clone lake")
        await local.run("create view lake.other.w as select 1 a")
        assert await code_of(local, "create database pool clone lake") == "000625"
        await local.run("create schema lake.dev clone lake.other")
        assert [row[1] for row in await local.rows("show databases")] == ["LAKE", "POND"]

    local_sql.run_local(tmp_path, work)


def test_cancelled_clone_leaves_no_file_and_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table a as select 1 a")
        await local.run("create table b as select 1 a")
        keys, share = all_keys(local), clones.Clones.share
        for text in ("create schema dev clone ns", "create database pond clone lake"):
            second = asyncio.Event()

            async def shared(
                self: Any, source: Any, *arguments: Any, reached: Any = second, **more: Any
            ) -> Any:
                if source.loaded.ident.name == "b":
                    reached.set()
                    await asyncio.Event().wait()
                return await share(self, source, *arguments, **more)

            with monkeypatch.context() as patched:
                patched.setattr(clones.Clones, "share", shared)
                running = asyncio.create_task(local.run(text))
                await asyncio.wait_for(second.wait(), waits.WAIT_SECONDS)
                assert all_keys(local) > keys
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
            assert all_keys(local) == keys
            assert [row[1] for row in await local.rows("show databases")] == ["LAKE"]
            assert ("dev",) not in local.lake.namespaces.list("lake")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.parametrize(
    ("text", "drop"),
    [
        ("create schema dev clone ns", "drop schema dev cascade"),
        ("create database pond clone lake", "drop database pond cascade"),
    ],
)
def test_clone_cancelled_at_any_write_of_the_index_is_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, drop: str, cancels: int
) -> None:
    submit = index.Index._submit
    cancelled_at, seen = 0, 0
    running: asyncio.Task[Any] | None = None

    def submitted(self: Any, *arguments: Any, **more: Any) -> asyncio.Future[Any]:
        nonlocal seen
        future = submit(self, *arguments, **more)
        if running is not None:
            seen += 1
            if cancelled_at <= seen < cancelled_at + cancels:
                running.cancel()
        return future

    async def work(local: local_sql.LocalSql) -> None:
        nonlocal cancelled_at, seen, running
        await local.run("create table a as select 1 a")
        await local.run("create sequence s")
        await local.run("create view v as select a from a")
        keys, outcomes = all_keys(local), set()
        while True:
            cancelled_at, seen = cancelled_at + 1, 0
            running = asyncio.create_task(local.run(text))
            try:
                await running
                is_cancelled = False
            except asyncio.CancelledError:
                is_cancelled = True
            running = None
            if seen < cancelled_at:
                break
            outcomes.add(is_cancelled)
            databases = [row[1] for row in await local.rows("show databases")]
            exists = "POND" in databases or ("dev",) in local.lake.namespaces.list("lake")
            assert exists is not is_cancelled, (cancelled_at, databases)
            if exists:
                await local.run(drop)
                await local.run("use schema lake.ns")
            else:
                assert all_keys(local) == keys, cancelled_at
        assert outcomes == {False, True}

    with monkeypatch.context() as patched:
        patched.setattr(index.Index, "_submit", submitted)
        local_sql.run_local(tmp_path, work)


def all_keys(local: local_sql.LocalSql) -> set[str]:
    """Return the keys of the objects in all buckets."""
    storage = local.lake.storage
    return {
        info.key
        for bucket in storage.buckets.list()
        for info in storage.objects.list(bucket.name).objects
    }


def test_view_without_a_database_reads_the_one_of_its_source_after_a_clone(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        text = {"type": "sql", "sql": "select a from s", "dialect": "snowflake"}
        await local.run("create schema other")
        await local.run("create table other.s as select 1 a")
        await local.lake.views.create(
            local.lake.ident("ns.v"),
            schema={
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}],
            },
            view_version={
                **lakes.VIEW_VERSION,
                "default-namespace": ["other"],
                "representations": [text],
            },
            by=lakes.BY,
        )
        await local.run("create database pond")
        await local.run("create schema other")
        await local.run("create table other.s as select 2 a")
        await local.run("create schema pond.dev clone lake.ns")
        assert await local.one("select a from pond.dev.v") == 1
        await local.run("create database pool clone lake")
        await local.run("update pool.other.s set a = 3")
        assert await local.one("select a from pool.ns.v") == 3

    local_sql.run_local(tmp_path, work)


def test_schema_clone_of_a_schema_with_nested_ones_is_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s as select 1 a")
        await local.lake.namespaces.create("lake", ("ns", "deep"), by=lakes.BY)
        assert await code_of(local, "create schema dev clone ns") == "000002"
        assert ("dev",) not in local.lake.namespaces.list("lake")
        await local.run("create database pond clone lake")
        assert local.lake.namespaces.exists("pond", ("ns", "deep"))

    local_sql.run_local(tmp_path, work)


def test_schema_clone_checks_rights_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        monkeypatch.setattr(schema_clones, "CHECKED_AT_ONCE", 2)
        for number in range(5):
            await local.run(f"create table t{number} as select 1 a")
        catalog = places.CatalogView
        check_table, waiting, turns = catalog.check_table, [0], list[int]()

        def counted(self: Any, *arguments: Any, **more: Any) -> None:
            turns.append(waiting[0])
            check_table(self, *arguments, **more)

        async def wait() -> None:
            while True:
                waiting[0] += 1
                await asyncio.sleep(0)

        monkeypatch.setattr(catalog, "check_table", counted)
        waiter = asyncio.create_task(wait())
        await local.run("create schema dev clone ns")
        waiter.cancel()
        assert len(turns) >= 5
        assert turns[0] == turns[1] < turns[2] == turns[3] < turns[4]

    local_sql.run_local(tmp_path, work)


STEPS = st.lists(
    st.sampled_from(
        ["insert s", "update s", "clone", "drop s", "drop clone", "insert clone", "sweep"]
    ),
    min_size=4,
    max_size=12,
)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_purges_of_source_and_clone_never_touch_the_files_of_the_other(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        rows: dict[str, list[int]] = {}

        async def drop(name: str) -> None:
            if rows.pop(name, None) is not None:
                await local.lake.tables.drop(local.lake.ident(f"ns.{name}"), purge=True, by="t")

        await local.run("create table s as select 0 a")
        rows["s"] = [0]
        for number, step in enumerate([*steps, "sweep"], start=1):
            verb, _, name = step.partition(" ")
            name = "t" if name == "clone" else name
            if verb == "insert" and name in rows:
                await local.run(f"insert into {name} values ({number})")
                rows[name].append(number)
            elif verb == "update" and name in rows:
                await local.run(f"update {name} set a = a + 100")
                rows[name] = [each + 100 for each in rows[name]]
            elif verb == "clone" and "s" in rows and "t" not in rows:
                await local.run("create table t clone s")
                rows["t"] = list(rows["s"])
            elif verb == "drop":
                await drop(name)
            elif verb == "sweep":
                for _ in range(2):
                    (report,) = await sweeps.sweep_of(local.lake).sweep(["lake"])
                    assert report.state == "done", report.error
                    sweeps.pass_days(local.lake, 40)
            for table, values in rows.items():
                listed = await local.rows(f"select a from {table} order by a")
                assert listed == [(each,) for each in sorted(values)]

    local_sql.run_local(tmp_path_factory.mktemp("clones"), work)


def test_clone_of_many_files_is_made_in_steps(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table s (a int) partition by (a)")
        await local.run("insert into s select seq4() from table(generator(rowcount => 150))")
        await local.run("create table t clone s")
        assert await local.one("select count(distinct a) from t") == 150
        assert len(blobs_of(local, "ns.t") | blobs_of(local, "ns.s")) <= 150

    local_sql.run_local(tmp_path, work)
