"""Lower-case names of columns that are declared in double quotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors, tabletypes
from tests.kit import local_sql


async def names_of(local: local_sql.LocalSql, query: str) -> list[str]:
    outcome = await local.run(query)
    if outcome.batches is not None:
        assert [batch async for batch in outcome.batches]
    return [column.name for column in outcome.columns]


async def described(local: local_sql.LocalSql, name: str) -> list[str]:
    return [row[0] for row in await local.rows(f"describe table {name}")]


def test_a_quoted_lower_case_name_is_shown_as_it_was_declared(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows('create table t ("id" int, name varchar, "NAME2" int, "mIx" int)')
        await local.rows("insert into t values (1, 'a', 2, 3)")
        await local.rows("insert into t (id, \"name\") values (2, 'b')")
        shown = ["id", "NAME", "NAME2", "mIx"]
        queries = ("select * from t", "select t.* from t", "select * from (select * from t)")
        for query in queries:
            assert await names_of(local, query) == shown, query
        for name in ("id", '"id"', '"ID"'):
            assert await names_of(local, f"select {name} from t") == ["id"]
            assert await local.rows(f"select name from t where {name} = 2") == [("b",)]
        assert await names_of(local, 'select id as id, "id" as x from t') == ["ID", "X"]
        assert await described(local, "t") == shown
        rows = await local.rows("show columns in table t")
        assert [row[2] for row in rows] == shown
        assert await local.rows(
            "select column_name from information_schema.columns where table_name = 'T'"
            " order by ordinal_position"
        ) == [(name,) for name in shown]
        ((ddl,),) = await local.rows("select get_ddl('table', 't')")
        assert '"id" NUMBER' in ddl
        assert "\tNAME VARCHAR" in ddl
        await local.rows(ddl)
        assert await described(local, "t") == shown

    local_sql.run_local(tmp_path, work)


def test_copies_and_views_show_the_names_of_their_source(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (name varchar, \"id\" int) as select 'a', 1")
        for text in (
            "create table k like t",
            "create table c clone t",
            "create table s as select * from t",
            "create view v as select * from t",
            "create temporary view w as select * from t",
            "create view x (name, \"id\") as select 'a', 1",
        ):
            await local.rows(text)
        for name in ("t", "k", "c", "s", "v", "w", "x"):
            assert await described(local, name) == ["NAME", "id"], name
            if name != "k":  # which has no rows
                query = f"select id, b.* from {name} as b"
                assert await names_of(local, query) == ["id", "NAME", "id"], name
        ((ddl,),) = await local.rows("select get_ddl('view', 'x')")
        await local.rows(ddl)
        assert await described(local, "x") == ["NAME", "id"]
        await local.rows("create or replace table t (name varchar, id int)")
        assert await described(local, "t") == ["NAME", "ID"]
        await local.rows('create or replace table t as select 1 as id, 2 as "x", 3 as "Y"')
        assert await described(local, "t") == ["ID", "x", "Y"]

    local_sql.run_local(tmp_path, work)


def test_alter_table_keeps_and_changes_how_a_name_is_shown(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows('create table t ("a" int, b int)')
        await local.rows('alter table t add column "c" int, d int')
        assert await described(local, "t") == ["a", "B", "c", "D"]
        await local.rows("alter table t rename column a to e")
        await local.rows('alter table t rename column b to "f"')
        assert await described(local, "t") == ["E", "f", "c", "D"]
        await local.rows("insert into t values (1, 2, 3, 4)")
        for name, shown in (('"d"', "d"), ("d", "D")):  # stored alike
            await local.rows(f"alter table t rename column d to {name}")
            assert await names_of(local, "select * from t") == ["E", "f", "c", shown]
        await local.rows('alter table t drop column "c", f')
        assert await described(local, "t") == ["E", "D"]
        loaded = local.lake.load(local.lake.ident("ns.t"))
        assert tabletypes.QUOTED not in loaded.metadata.properties
        for text in ('alter table t add column "e" int', 'create table u ("a" int, A int)'):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert caught.value.code in ("001430", "002025"), text

    local_sql.run_local(tmp_path, work)


def test_statements_find_quoted_columns_as_before(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows('create table t ("id" int autoincrement, "v" varchar default \'x\')')
        await local.rows("insert into t (v) values ('a'), (default)")
        await local_sql.put_file(local, "@%t", "a.csv", b"7,c\n")
        await local.rows('copy into t ("id", "v") from @%t')
        await local.rows("update t set v = upper(v) where id = 1")
        await local.rows(
            "merge into t using (select 9 as k) on id = k"
            " when not matched then insert (id) values (k)"
        )
        await local.rows('delete from t where "id" = 2')
        assert await local.rows("select id, v from t order by id") == [
            (1, "A"),
            (7, "c"),
            (9, "x"),
        ]
        assert await names_of(local, "select l.id, r.* from t l join t r using (id)") == [
            "id",
            "id",
            "v",
        ]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("text", ["", "x", "{}", "[null]", '["y"]', '"1"'])
def test_a_damaged_property_shows_names_in_upper_case(text: str) -> None:
    quoted = tabletypes.quoted_ids({tabletypes.QUOTED: text})
    assert quoted <= {1}
    assert tabletypes.quoted_ids({tabletypes.QUOTED: "[1,3]"}) == {1, 3}
