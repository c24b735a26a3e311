"""Sequences: each number is given once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sql import errors
from tests.kit import lakes, local_sql


async def code_of(local: local_sql.LocalSql, text: str, **more: Any) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text, **more)
    return caught.value.code


def test_each_use_of_nextval_in_each_row_has_a_number_of_its_own(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        created = "create sequence s start with 10 increment by 5 comment = 'c'"
        assert await local.rows(created) == [("Sequence S successfully created.",)]
        assert await local.rows("select s.nextval") == [(10,)]
        assert await local.rows("select s.nextval, s.nextval + 1, lake.ns.s.nextval") == [
            (15, 21, 25)
        ]
        await local.rows("create table t (id int default s.nextval, n int)")
        await local.rows("insert into t (n) values (1), (2)")
        await local.rows("insert into t select s.nextval, column1 from values (7), (8)")
        await local.rows("insert into t values (s.nextval, 100), (s.nextval, 101)")
        await local.rows("insert into t (n) select n + 1000 from t where n > 100")
        assert await local.rows("select * from t order by id") == [
            (30, 1), (35, 2), (40, 7), (45, 8), (50, 100), (55, 101), (60, 1101),
        ]  # fmt: skip
        await local.rows("create table u as select s.nextval as id, n from t where n < 3")
        assert await local.rows("select id from u order by id") == [(65,), (70,)]
        shown = await local.rows("show sequences")
        assert [row[:5] for row in shown] == [("S", "LAKE", "NS", 75, 5)]
        assert await local.rows("describe sequence s") == shown
        assert await code_of(local, "describe sequence nope") == "002003"
        outcome = await local.run("select s.nextval", describe_only=True)
        assert [column.name for column in outcome.columns] == ["NEXTVAL"]
        assert await local.rows("select x.nextval from (select 1 as nextval) x") == [(1,)]
        assert await local.one("select s.nextval") == 75

    local_sql.run_local(tmp_path, work)


def test_statements_at_once_never_get_the_same_number(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create sequence s")
        await local.rows("create table t (n int)")
        taken = await asyncio.gather(*(local.one("select s.nextval") for _ in range(10)))
        assert sorted(taken) == list(range(1, 11))
        await asyncio.gather(
            *(local.rows("insert into t values (s.nextval), (s.nextval)") for _ in range(5))
        )
        rows = await local.rows("select n from t order by n")
        assert rows == [(number,) for number in range(11, 21)]

    async def restarted(local: local_sql.LocalSql) -> None:
        assert await local.one("select s.nextval") == 21

    local_sql.run_local(tmp_path, work)
    local_sql.run_local(tmp_path, restarted)


def test_sequences_are_changed_and_dropped(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        query_id = "11111111-1111-5111-8111-111111111111"
        for _ in range(2):
            done = await local.rows("create sequence s", query_id=query_id)
            assert done == [("Sequence S successfully created.",)]
        assert await code_of(local, "create sequence s") == "002002"
        exists = [("S already exists, statement succeeded.",)]
        assert await local.rows("create sequence if not exists s") == exists
        await local.one("select s.nextval")
        await local.rows("create or replace sequence s start 100 increment -1")
        assert await local.rows("select s.nextval, s.nextval") == [(100, 99)]
        await local.rows("alter sequence s set increment 10")
        assert await local.rows("select s.nextval, s.nextval") == [(98, 108)]
        await local.rows("alter sequence s rename to s2")
        await local.rows("comment on sequence s2 is 'said'")
        assert [row[7] for row in await local.rows("show sequences like 'S%'")] == ["said"]
        await local.rows("create table t (id int default s2.nextval, n int)")
        assert await local.rows("drop sequence s2") == [("S2 successfully dropped.",)]
        assert await code_of(local, "insert into t (n) values (1)") == "002003"
        for text in ("drop sequence s2", "select s2.nextval", "alter sequence s2 rename to x"):
            assert await code_of(local, text) == "002003"
        already = [("Drop statement executed successfully (S2 already dropped).",)]
        assert await local.rows("drop sequence if exists s2") == already
        assert await code_of(local, "create sequence s increment 0") == "002084"
        await local.rows("create sequence big start 1 increment 999999999999999999")
        for _ in range(9):
            await local.one("select big.nextval")
        assert await code_of(local, "select big.nextval") == "000625"

    local_sql.run_local(tmp_path, work)


ELSEWHERE = (
    "select max(s.nextval) from t",
    "select n from t where n = s.nextval",
    "select distinct s.nextval from t",
    "select s.nextval from t group by n",
    "select s.nextval from t qualify row_number() over (order by n) = 1",
    "select s.nextval from t limit 1",
    "select (select s.nextval) from t",
    "select s.nextval from t union all select 1",
    "select s.nextval from t sample (10)",
    "select random(), s.nextval from t",
    "select s.nextval from t order by s.nextval",
    "with c as (select s.nextval as a) select a from c",
    "update t set n = s.nextval",
    "explain update t set n = s.nextval",
    "update t set n = 0 where n = s.nextval",
    "delete from t where n = s.nextval",
    "merge into t using (select 1 x) q on n = x when matched then update set n = s.nextval",
    "merge into t using (select 1 x) q on n = x when not matched then insert values (s.nextval)",
    "merge into t using (select s.nextval x) q on n = x when matched then delete",
    "insert all into t into t select s.nextval from t",
    "create view w as select s.nextval as a",
    "set x = (select s.nextval)",
)


def test_nextval_elsewhere_is_refused_and_takes_no_number(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create sequence s")
        await local.rows("create table t (n int)")
        await local.rows("insert into t values (7)")
        for text in ELSEWHERE:
            assert await code_of(local, text) == "000002", text
        assert await local.rows("select n from t") == [(7,)]
        assert await local.one("select s.nextval") == 1

    local_sql.run_local(tmp_path, work)


def allow(*actions: str, table: str = "*") -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": [f"s3tables:{action}" for action in actions],
        "Resource": "*",
        "Condition": {"StringLike": {"s3tables:tableName": table}},
    }


LISTING = {"Effect": "Allow", "Action": "s3tables:ListTables", "Resource": "*"}


def test_rights_on_a_sequence_are_those_on_a_table_of_its_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create sequence s comment = 'c'")
        texts = ("select s.nextval", "drop sequence s", "alter sequence s set increment 2")
        local.session.principal = local_sql.user("stranger", [])
        for text in texts:
            assert await code_of(local, text) == "002003"
        assert await code_of(local, "create sequence x") == "003001"
        local.session.principal = local_sql.user("lister", [LISTING])
        for text in (*texts, "create table d (n int default s.nextval)"):
            assert await code_of(local, text) == "003001"
        (row,) = await local.rows("describe sequence s")
        assert (row[0], row[3], row[4], row[7]) == ("S", None, None, "")
        local.session.principal = local_sql.user("writer", [allow("PutTableData")])
        assert await local.one("select s.nextval") == 1
        local.session.principal = lakes.ROOT
        assert await local.one("select s.nextval") == 2

    local_sql.run_local(tmp_path, work)


def test_replacing_and_renaming_a_sequence_need_the_rights_of_both_effects(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create sequence s")
        await local.rows('create sequence "Mixed"')
        assert await local.one("select s.nextval") == 1
        local.session.principal = local_sql.user("maker", [LISTING, allow("CreateTable")])
        assert await code_of(local, "create or replace sequence s") == "003001"
        await local.rows("create sequence free")
        changes = allow("UpdateTableMetadataLocation", "PutTableData", "DeleteTable", table="s")
        lower = allow("UpdateTableMetadataLocation", "PutTableData", "DeleteTable", table="mixed")
        local.session.principal = local_sql.user("changer", [LISTING, changes, lower])
        assert await code_of(local, "alter sequence s rename to t") == "003001"
        # The policy allows another name, which no sequence has.
        for text in ("alter sequence mixed set increment 5", "drop sequence mixed"):
            assert await code_of(local, text) == "002003"
        for text in ('drop sequence "Mixed"', "select mixed.nextval"):
            assert await code_of(local, text) == "003001"
        assert await local.one("select s.nextval") == 2
        local.session.principal = lakes.ROOT
        assert await local.one('select "Mixed".nextval') == 1

    local_sql.run_local(tmp_path, work)


def test_comments_are_stored_where_other_clients_read_them(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (n int)")
        done = [("Statement executed successfully.",)]
        assert await local.rows("comment on table t is 'of t'") == done
        assert await local.rows("comment on column lake.ns.t.n is $$of n$$") == done
        assert await local.rows("comment on schema ns is 'of ns'") == done
        metadata = local.lake.load(local.lake.ident("ns.t")).metadata
        assert metadata.properties["comment"] == "of t"
        assert metadata.current_schema()["fields"][0]["doc"] == "of n"
        stored = local.lake.namespaces.load("lake", ("ns",))
        assert stored.properties["comment"] == "of ns"
        assert await local.rows("alter schema ns unset comment") == done
        assert "comment" not in local.lake.namespaces.load("lake", ("ns",)).properties
        assert await local.rows("comment if exists on table nope is 'x'") == done
        assert await code_of(local, "comment on table nope is 'x'") == "002003"

    local_sql.run_local(tmp_path, work)
