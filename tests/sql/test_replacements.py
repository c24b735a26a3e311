"""CREATE OR REPLACE TABLE of a table that exists: one commit, its history kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sql import errors, replacements
from tests.kit import local_sql

REPLACING = ("create or replace table t (x int)", "create or replace table t as select 1 as x")


async def code_of(local: local_sql.LocalSql, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.code


async def build(local: local_sql.LocalSql) -> str:
    """Create a table with rows; return the query id of its INSERT."""
    await local.run("create table t (a int not null, b varchar(5)) comment = 'old'")
    await local.run("insert into t values (1, 'x'), (2, 'y')")
    return local.last_id


def test_or_replace_is_one_commit_that_keeps_the_table_and_its_history(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        inserted = await build(local)
        ident = local.lake.ident("ns.t")
        before, commits = local.lake.load(ident), len(local.lake.log())
        (answer,) = await local.rows("create or replace table t (b number(5,1), c date)")
        replaced = local.last_id
        assert answer == ("Table T successfully created.",)
        assert len(local.lake.log()) == commits + 1
        after = local.lake.load(ident)
        assert after.metadata.table_uuid == before.metadata.table_uuid
        assert after.pointer.object_uuid == before.pointer.object_uuid
        assert after.metadata.location == before.metadata.location
        # The new columns are others than those before, also where a name is the same.
        assert [field["id"] for field in after.metadata.current_schema()["fields"]] == [3, 4]
        assert "comment" not in after.metadata.properties
        assert await local.rows("select * from t") == []
        assert await local.rows(f"select * from t at (statement => '{inserted}')") == [
            (1, "x"),
            (2, "y"),
        ]
        assert await local.rows(f"select a from t before (statement => '{replaced}')") == [
            (1,),
            (2,),
        ]
        described = await local.rows("describe table t")
        assert [row[:2] for row in described] == [("B", "NUMBER(5,1)"), ("C", "DATE")]

    local_sql.run_local(tmp_path, work)


def test_or_replace_as_select_may_read_the_table_that_it_replaces(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        commits = len(local.lake.log())
        outcome = await local.run("create or replace table t as select a + 1 as a, b from t")
        assert outcome.stats is not None
        assert outcome.stats.rows_inserted == 2
        assert len(local.lake.log()) == commits + 1
        assert await local.rows("select a, b from t order by a") == [(2, "x"), (3, "y")]
        await local.run("create or replace table t as select 1 as one where false")
        assert await local.rows("select * from t") == []
        await local.run("create or replace table new as select 1 as one")
        assert await local.rows("select * from new") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_or_replace_takes_partitions_keys_and_clustering_of_the_new_definition(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int primary key, d date) partition by (month(d))")
        await local.run("insert into t values (1, '2024-01-02')")
        await local.run(
            "create or replace table t (x varchar, n int autoincrement, d date, primary key (x)) "
            "partition by (day(d)) cluster by (x)"
        )
        await local.run("insert into t (x, d) values ('b', '2024-02-03'), ('a', '2024-02-03')")
        assert await local.rows("select x, d::varchar from t order by x") == [
            ("a", "2024-02-03"),
            ("b", "2024-02-03"),
        ]
        keys = await local.rows("show primary keys in table t")
        assert [row[4] for row in keys] == ["X"]
        await local.run("create or replace table t (d date)")
        metadata = local.lake.load(local.lake.ident("ns.t")).metadata
        assert metadata.default_spec()["fields"] == []
        assert metadata.default_sort_order()["fields"] == []
        assert await local.rows("show primary keys in table t") == []

    local_sql.run_local(tmp_path, work)


def test_a_replacement_that_fails_changes_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        log = local.lake.log()
        assert await code_of(local, "create or replace table t as select 1 / 0 as x") == "100051"
        assert await code_of(local, "create or replace table t (a int, A int)") == "002025"
        assert await code_of(local, "create or replace table t as select * from missing") == (
            "002003"
        )
        assert local.lake.log() == log
        assert len(await local.rows("select * from t")) == 2

    local_sql.run_local(tmp_path, work)


def test_replacing_needs_the_right_to_change_the_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        log = local.lake.log()
        allowed = [
            {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"},
            {
                "Effect": "Deny",
                "Action": "s3tables:UpdateTableMetadataLocation",
                "Resource": local_sql.table_arn(local, "ns.t"),
            },
        ]
        local.session.principal = local_sql.user("eve", allowed)
        for text in (
            "create or replace table t (x int)",
            "create or replace table t as select 1 x",
        ):
            assert await code_of(local, text) == "003001"
        assert local.lake.log() == log

    local_sql.run_local(tmp_path, work)


def test_a_repeated_replacement_answers_as_the_first(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        for text in (
            "create or replace table t (x int)",
            "create or replace table t as select 1 x",
        ):
            first = await local.run(text)
            query_id, log = local.last_id, local.lake.log()
            again = await local.run(text, query_id=query_id)
            assert again.rows == first.rows
            assert local.lake.log() == log

    local_sql.run_local(tmp_path, work)


def test_a_replaced_table_may_load_again_what_it_had_loaded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        ident = local.lake.ident("ns.t")
        await local.appends.commit_files(
            ident,
            (),
            operation="append",
            summary={"boathouse.loads": '[{"source": "s3://b/one.csv", "etag": "x"}]'},
            principal=local.session.principal,
        )
        assert len(local.lake.tables.taken(ident).loads) == 1
        await local.run("create or replace table t (a int)")
        assert local.lake.tables.taken(ident).loads == ()

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("definition", ["(a int)", "as select 1 as a"])
def test_replacements_at_once_all_succeed(tmp_path: Path, definition: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        done = [("Table T successfully created.",)]
        for _ in range(2):  # on a new name, then on a table that exists
            answers = await asyncio.gather(
                *(local.rows(f"create or replace table t {definition}") for _ in range(4))
            )
            assert answers == [done] * 4
        assert await local.rows("select * from t") == ([] if "int" in definition else [(1,)])

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("definition", ["(a int)", "as select 1 as a"])
def test_a_replacement_beside_a_drop_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, definition: str
) -> None:
    plan = replacements.Replacements.plan

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (b int)")

        async def drop_before_plan(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(replacements.Replacements, "plan", plan)
            await local.rows("drop table t")
            return await plan(*arguments, **named)

        monkeypatch.setattr(replacements.Replacements, "plan", drop_before_plan)
        done = [("Table T successfully created.",)]
        assert await local.rows(f"create or replace table t {definition}") == done
        assert [row[0] for row in await local.rows("describe table t")] == ["A"]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("create table if not exists t (a int)", "Table T successfully created."),
        ("create table if not exists t as select 1 as a", "Table T successfully created."),
        ("create schema if not exists t", "Schema T successfully created."),
        ("create view if not exists t as select 1 as a", "View T successfully created."),
    ],
)
def test_if_not_exists_at_once_creates_one_and_fails_for_none(
    tmp_path: Path, text: str, first: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        answers = await asyncio.gather(*(local.one(text) for _ in range(4)))
        assert answers.count(first) == 1
        assert answers.count("T already exists, statement succeeded.") == 3

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("object_type", ["table", "view", "schema"])
def test_if_exists_at_once_drops_one_and_fails_for_none(tmp_path: Path, object_type: str) -> None:
    definitions = {"table": "t (a int)", "view": "t as select 1 as a", "schema": "t"}

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create {object_type} {definitions[object_type]}")
        answers = await asyncio.gather(
            *(local.one(f"drop {object_type} if exists t") for _ in range(4))
        )
        assert answers.count("T successfully dropped.") == 1
        assert answers.count("Drop statement executed successfully (T already dropped).") == 3

    local_sql.run_local(tmp_path, work)
