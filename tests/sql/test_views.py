"""Views: Iceberg views that SQL creates, reads, lists, changes and drops."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from catalog.metadata import views as view_rules
from sql import bindings, errors, limits, outcomes, sessions
from tests.kit import lakes, local_sql


async def code_of(local: local_sql.LocalSql, text: str, **more: Any) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text, **more)
    return caught.value.code


async def message_of(local: local_sql.LocalSql, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.message.replace("SQL compilation error:\n", "")


async def build(local: local_sql.LocalSql) -> None:
    await local.run("create table t (id int not null, name varchar(5), price number(10,2))")
    await local.run("insert into t values (1, 'a', 1.5), (2, 'b', 2.5), (3, null, 3.5)")


async def metadata_of(local: local_sql.LocalSql, dotted: str) -> view_rules.ViewMetadata:
    loaded = await local.lake.views.fetch(local.lake.ident(dotted))
    return view_rules.decode(loaded.data)


def test_create_view_stores_the_text_the_session_and_the_bound_columns(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        text = "select ID, price*2, name from T -- kept\nwhere id > 1"
        (answer,) = await local.rows(
            f"create view ns.v (\"Key\", twice comment 'doubled', name) comment = 'all' as {text} ;"
        )
        assert answer == ("View V successfully created.",)
        metadata = await metadata_of(local, "ns.v")
        version = metadata.current_version()
        assert version["representations"] == [{"type": "sql", "sql": text, "dialect": "snowflake"}]
        assert version["default-catalog"] == "lake"
        assert version["default-namespace"] == ["ns"]
        fields = metadata.current_schema()["fields"]
        assert [(field["name"], field["type"], field.get("doc")) for field in fields] == [
            ("Key", "long", None),
            ("twice", "decimal(11,2)", "doubled"),
            ("name", "string", None),
        ]
        assert metadata.properties["comment"] == "all"
        shown = await local.rows("describe view v")
        assert [(row[0], row[1], row[9]) for row in shown] == [
            ("Key", "NUMBER(38,0)", None),
            ("TWICE", "NUMBER(11,2)", "doubled"),
            ("NAME", "VARCHAR(5)", None),
        ]
        rows = await local.rows('select "Key", twice from v order by 1')
        assert [(key, str(twice)) for key, twice in rows] == [(2, "5.00"), (3, "7.00")]

    local_sql.run_local(tmp_path, work)


def test_names_in_a_view_lie_where_they_lay_when_it_was_created(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v as select max(id) as high from t")
        await local.run("create view lake.ns.w as with t as (select 9 as high) select * from t")
        await local.run("create schema other")
        await local.run("create table t (id int)")
        await local.run("insert into t values (77)")
        assert await local.rows("select * from ns.v") == [(3,)]
        # A common table expression of the query hides no table of the view, nor the reverse.
        assert await local.rows("with t as (select 5 as id) select v.high, t.id from ns.v, t") == [
            (3, 5)
        ]
        assert await local.rows("select w.high, t.id from ns.w join t on true") == [(9, 77)]
        # The view sees no column of the query around it.
        await local.run("create view bad as select 1 as a")
        assert await local.rows("select (select max(high) from ns.v) from t") == [(3,)]
        local.session.schema = None
        assert await local.rows("select high from lake.ns.v") == [(3,)]

    local_sql.run_local(tmp_path, work)


def test_binds_and_variables_behind_a_view_are_those_of_the_statement(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v as select max(id) as high from t")
        await local.run("set wanted = 3")
        binds = {
            str(number): bindings.Binding(type="fixed", values=(value,))
            for number, value in enumerate((4, 2), start=1)
        }
        text = "select high, ?, $wanted from v join t on true where t.id = ? and high = $wanted"
        assert await local.rows(text, bindings=binds) == [(3, 4, 3)]

    local_sql.run_local(tmp_path, work)


def test_views_of_views_join_group_and_insert_like_tables(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v as select id, price from t where id < 3")
        await local.run(
            "create view w (k, total) as select id, sum(price) from v group by id "
            "union all select 9, 0.5"
        )
        assert await local.rows("select count(*) from w") == [(3,)]
        rows = await local.rows("select w.k, t.name from w left join t on t.id = w.k order by 1")
        assert rows == [(1, "a"), (2, "b"), (9, None)]
        assert await local.rows("select w.total from ns.w where lake.ns.w.k = 9") != []
        await local.run("create table copied as select * from w")
        assert await local.rows("select count(*) from copied") == [(3,)]
        assert await local.rows("insert into t (id, price) select * from w") == [(3,)]
        assert await local.rows("select count(*) from v") == [(4,)]  # of two rows more
        assert await local.rows("select a.r = b.r from (select 1 as r) a, (select 1 as r) b") == [
            (True,)
        ]

    local_sql.run_local(tmp_path, work)


def test_a_volatile_view_is_computed_for_each_use(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create view v as select uuid_string() as u")
        ((first, second),) = await local.rows("select a.u, b.u from v a, v b")
        assert first != second

    local_sql.run_local(tmp_path, work)


def test_or_replace_and_if_not_exists_do_what_they_say(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v comment = 'one' as select id from t")
        first = await metadata_of(local, "ns.v")
        assert await code_of(local, "create view v as select 1 as a") == "002002"
        assert await local.rows("create view if not exists v as select 1 as a") == [
            ("V already exists, statement succeeded.",)
        ]
        assert await metadata_of(local, "ns.v") == first
        await local.run("create or replace secure view v as select name, id from t")
        second = await metadata_of(local, "ns.v")
        assert second.view_uuid == first.view_uuid
        assert [one["version-id"] for one in second.versions] == [1, 2]
        assert "comment" not in second.properties
        assert await local.rows("select * from v where id = 1") == [("a", 1)]
        (row,) = await local.rows("show views")
        assert row[1:2] + row[8:9] == ("V", "true")
        # A view and a table never replace each other.
        assert await message_of(local, "create or replace view t as select 1 as a") == (
            "Object 'LAKE.NS.T' already exists as TABLE"
        )
        assert await message_of(local, "create or replace table v (a int)") == (
            "Object 'LAKE.NS.V' already exists as VIEW"
        )
        assert await code_of(local, "create table v (a int)") == "002002"
        assert await code_of(local, "create or replace table v as select 1 as a") == "001998"

    local_sql.run_local(tmp_path, work)


def test_a_view_whose_tables_changed_is_refused_with_its_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v as select * from t")
        await local.run("create view w as select id, name from v")
        await local.run("drop table t")
        assert await message_of(local, "select * from w") == (
            "Failure during expansion of view 'LAKE.NS.W': "
            "Failure during expansion of view 'LAKE.NS.V': "
            "Object 'T' does not exist or not authorized."
        )
        await local.run("create table t (id int, name varchar)")
        assert await message_of(local, "select * from v") == (
            "View definition for 'LAKE.NS.V' declared 3 column(s), but view query produces "
            "2 column(s)."
        )
        await local.run("drop table t")
        await local.run("create table t (id varchar, name varchar, price number(10,2))")
        assert await message_of(local, "select id from v") == (
            "View columns mismatch with view definition for view 'LAKE.NS.V', at column 'ID'"
        )

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "create view v as select ? as a",
        "create view v as select $x as a",
        "create view v as select a from t at (offset => $x)",
        "create recursive view v as select 1 as a",
        "create materialized view v as select 1 as a",
        "create view v (a masking policy p) as select 1 as a",
        "create view v change_tracking = true as select 1 as a",
        "create view v as select * from table(result_scan('x'))",
        "alter view v set masking policy p",
    ],
)
def test_what_a_view_cannot_have_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("set x = 1")
        before = local.lake.log()
        assert await code_of(local, text) == "000002"
        assert local.lake.log() == before

    local_sql.run_local(tmp_path, work)


def test_a_view_needs_names_for_its_columns(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        assert await code_of(local, "create view v as select 1 + 1") == "002022"
        assert await code_of(local, "create view v (a) as select 1 as x, 2 as y") == "002022"
        assert await code_of(local, "create view v as select 1 as a, 2 as A") == "002025"
        assert await code_of(local, "create view v as insert into t values (1)") == "000002"
        assert await code_of(local, "create view v as select * from missing") == "002003"
        assert await local.rows("show views") == []

    local_sql.run_local(tmp_path, work)


def test_a_view_is_no_target_of_dml_and_no_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v as select id from t")
        before = local.lake.log()
        for text in ("insert into v values (1)", "drop table v", "drop table if exists v"):
            assert await message_of(local, text) == (
                "Object found is of type 'VIEW', not specified type 'TABLE'."
            )
        for text in ("drop view t", "drop view if exists t", "alter view t set comment = 'x'"):
            assert await message_of(local, text) == (
                "Object found is of type 'TABLE', not specified type 'VIEW'."
            )
        assert local.lake.log() == before

    local_sql.run_local(tmp_path, work)


def test_views_are_listed_altered_and_dropped(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v (k comment 'it''s') comment = 'c' as select id from t")
        (row,) = await local.rows("show views like 'V'")
        assert row[7] == "create or replace view V(\n\tK COMMENT 'it''s'\n) COMMENT='c'\n" + (
            " as select id from t"
        )
        outcome = await local.run("show terse views")
        assert [tuple(row[1:]) for row in outcome.rows or ()] == [("V", "VIEW", "LAKE", "NS")]
        objects = await local.rows("show objects in schema lake.ns")
        assert [(row[1], row[4], row[14]) for row in objects] == [
            ("T", "TABLE", "N"),
            ("V", "VIEW", "N"),
        ]
        assert [row[1] for row in await local.rows("show tables")] == ["T"]
        assert await local.rows(
            "select table_name, table_type from information_schema.tables order by 1"
        ) == [("T", "BASE TABLE"), ("V", "VIEW")]
        assert await local.rows(
            "select table_name, view_definition, is_secure, comment from information_schema.views"
        ) == [("V", "select id from t", "NO", "c")]
        assert await local.rows(
            "select column_name, data_type, comment from information_schema.columns "
            "where table_name = 'V'"
        ) == [("K", "NUMBER", "it's")]
        for text, comment in {
            "comment on column v.k is $$by COMMENT ON$$": "by COMMENT ON",
            "alter view v alter column k comment 'altered'": "altered",
            "alter view v modify k unset comment": None,
        }.items():
            await local.run(text)
            assert [row[9] for row in await local.rows("describe view v")] == [comment], text
            assert await local.rows("select max(k) from v") == [(3,)]
        assert await code_of(local, "alter view v alter column nope comment 'x'") == "000904"
        assert await code_of(local, "alter view v alter column k set not null") == "000002"
        assert await code_of(local, "comment on column nowhere.k is 'x'") == "002003"
        await local.run("alter view v set comment = 'd'")
        await local.run("alter view v set secure")
        (row,) = await local.rows("show views")
        assert (row[6], row[8]) == ("d", "true")
        await local.run("comment on view v is $$e$$")
        assert [row[6] for row in await local.rows("show views")] == ["e"]
        await local.run("alter view v unset comment")
        await local.run("alter view v unset secure")
        await local.run("alter view v rename to lake.ns.renamed")
        (row,) = await local.rows("show views")
        assert (row[1], row[6], row[8]) == ("RENAMED", "", "false")
        assert await local.rows("select max(k) from renamed") == [(3,)]
        assert await code_of(local, "alter view renamed rename to t") == "002002"
        assert await local.rows("drop view renamed") == [("RENAMED successfully dropped.",)]
        assert await code_of(local, "drop view renamed") == "002003"
        assert await local.rows("drop view if exists renamed") == [
            ("Drop statement executed successfully (RENAMED already dropped).",)
        ]

    local_sql.run_local(tmp_path, work)


def test_time_travel_on_a_view_applies_to_its_tables(tmp_path: Path) -> None:
    clock = lakes.Clock()

    async def work() -> None:
        async with local_sql.opened(tmp_path, clock=clock) as local:
            await build(local)
            await local.run("create view v as select id from t")
            await local.run("create view w as select count(*) as n from v")
            clock.now_ms += 10_000
            await local.run("insert into t (id) values (4)")
            second = local.last_id
            clock.now_ms += 10_000
            assert await local.rows("select n from w") == [(4,)]
            assert await local.rows("select n from w at (offset => -15)") == [(3,)]
            assert await local.rows(f"select n from w before (statement => '{second}')") == [(3,)]
            for form in ("version => 1", "ref => 'main'"):
                assert await code_of(local, f"select * from v at ({form})") == "000002"

    asyncio.run(work())


# Rights: a view gives none


def reader(local: local_sql.LocalSql, *dotted: str) -> None:
    """Have the session be of a user who may read these tables and views, and list none."""
    statements = []
    for name in dotted:
        ident = local.lake.ident(name)
        try:
            pointer = local.lake.tables.pointer(ident)
        except Exception:  # noqa: BLE001 - then it is a view
            pointer = local.lake.views.pointer(ident)
        arn = f"arn:aws:s3tables:us-east-1:{lakes.ACCOUNT}:bucket/lake/table/{pointer.object_uuid}"
        statements.append({"Effect": "Allow", "Action": "s3tables:*", "Resource": arn})
    local.session.principal = local_sql.user("eve", statements)


def test_a_view_is_no_way_around_the_rights_on_its_tables(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create secure view v as select id from t")
        await local.run("create view w as select id from v")
        reader(local, "ns.t")
        assert await local.rows("select count(*) from t") == [(3,)]
        assert await message_of(local, "select * from v") == (
            "Object 'V' does not exist or not authorized."
        )
        reader(local, "ns.v", "ns.w")
        for describe_only in (True, False):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows("select * from w", describe_only=describe_only)
            assert caught.value.code == "002037"
            assert "Object 'T' does not exist or not authorized." in caught.value.message
        for text in ("explain select * from v", "create view mine as select * from v"):
            with pytest.raises(errors.SqlError):
                await local.rows(text)
        reader(local, "ns.v", "ns.t")
        assert await local.rows("select count(*) from v") == [(3,)]
        assert await code_of(local, "create or replace view v as select 1 as a") == "003001"
        reader(local, "ns.t")
        for text in ("drop view v", "alter view v rename to x", "alter view v set comment = 'x'"):
            assert await code_of(local, text) == "002003"

    local_sql.run_local(tmp_path, work)


# Bounds


def test_a_view_never_refers_to_itself(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create view a as select 1 as x")
        await local.run("create view b as select x from a")
        await local.run("create view c as select x from b")
        assert "'LAKE.NS.A' refers to itself" in await message_of(
            local, "create or replace view a as select x from c"
        )
        # A name that only later means the view itself.
        await local.run("create schema s")
        await local.run("create table s.z (x int)")
        await local.run("create or replace view ns.a as select x from s.z")
        await local.run("drop table s.z")
        await local.run("create view s.y as select 1 as x")
        await local.run("alter view s.y rename to s.z")
        await local.run("create or replace view s.y as select x from ns.c")
        await local.run("drop view s.z")
        await local.run("alter view s.y rename to s.z")
        assert "refers to itself" in await message_of(local, "select * from ns.c")

    local_sql.run_local(tmp_path, work)


def test_a_chain_of_views_that_doubles_is_bounded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create view v0 as select 1 as x")
        code = ""
        for level in range(1, limits.VIEW_DEPTH_MAX):
            text = f"select l.x from v{level - 1} l join v{level - 1} r on l.x = r.x"
            try:
                await local.run(f"create view v{level} as {text}")
            except errors.SqlError as error:
                code = error.code
                break
        # Level n reads 2 ** n - 1 views and tables below it.
        assert (level, code) == (8, "000002")
        assert await local.rows("select count(*) from v7") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_views_nest_to_a_bound(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create view v0 as select 1 as x")
        for level in range(1, limits.VIEW_DEPTH_MAX + 1):
            await local.run(f"create view v{level} as select x from v{level - 1}")
        top = limits.VIEW_DEPTH_MAX
        assert await local.rows(f"select x from v{top - 1}") == [(1,)]
        assert "nest deeper" in await message_of(local, f"select x from v{top}")

    local_sql.run_local(tmp_path, work)


def test_views_that_are_too_long_together_are_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        padding = "x" * (limits.TEXT_LENGTH_MAX // 2)
        await local.run(f"create view v as select '{padding}' as a")
        assert await local.rows("select length(a) from v") == [(len(padding),)]
        message = await message_of(local, "select 1 from v l join v r on l.a = r.a")
        assert "views have more than" in message

    local_sql.run_local(tmp_path, work)


# Views of other engines


def test_a_view_of_another_dialect_is_refused_with_its_dialect(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.lake.views.create(
            local.lake.ident("ns.v"),
            schema=lakes.SCHEMA,
            view_version=lakes.VIEW_VERSION,
            by=lakes.BY,
        )
        message = await message_of(local, "select * from v")
        assert "'view LAKE.NS.V, whose query is of the dialect 'spark''" in message
        shown = await local.rows("describe view v")
        assert [row[0] for row in shown] == ["ID", "NAME"]
        assert [row[1] for row in await local.rows("show views")] == ["V"]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("insert into t values (1)", "000002"),
        ("select ? as id", "000002"),
        ("select $x as id", "000002"),
        ("not a query", "002037"),
        ("select 1 as id; select 2", "002037"),
    ],
)
def test_text_that_a_client_stored_is_bound_like_any_other(
    tmp_path: Path, sql: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        version = json.loads(json.dumps(lakes.VIEW_VERSION))
        version["representations"] = [{"type": "sql", "sql": sql, "dialect": "snowflake"}]
        version["default-namespace"] = ["ns"]
        schema = {
            "type": "struct",
            "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
        }
        await local.lake.views.create(
            local.lake.ident("ns.v"), schema=schema, view_version=version, by=lakes.BY
        )
        await local.run("create table t (id int)")
        await local.run("set x = 1")
        assert await code_of(local, "select * from v") == code

    local_sql.run_local(tmp_path, work)


# Repeated requests and others' changes


def test_a_repeated_create_view_answers_as_the_first(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        first = await local.run("create view v as select 1 as a")
        query_id = local.last_id
        again = await local.run("create view v as select 1 as a", query_id=query_id)
        assert again.rows == first.rows

    local_sql.run_local(tmp_path, work)


def test_describing_a_create_view_changes_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        before = local.lake.log()
        outcome = await local.run("create view v as select 1 as a", describe_only=True)
        assert outcome.statement_type_id == outcomes.StatementType.DDL
        assert local.lake.log() == before

    local_sql.run_local(tmp_path, work)


def test_a_view_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view v as select id as a, name as b from t")
        await local.run("create view w as select * from v")
        stop = asyncio.Event()

        async def replace() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                columns = "id as a, name as b" if number % 2 else "id + 0 as a, upper(name) as b"
                await local.run(f"create or replace view v as select {columns} from t")

        replacing = asyncio.create_task(replace())
        try:
            for _ in range(20):
                assert len(await local.rows("select a from w")) == 3
        finally:
            stop.set()
            await replacing

    local_sql.run_local(tmp_path, work)


# Temporary views


def test_a_temporary_view_is_of_its_session_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        log = local.lake.log()
        await local.run("create temporary view v (k) as select id from t")
        assert await code_of(local, "create temp view v as select 1 as a") == "002002"
        assert await local.rows("create temp view if not exists v as select 1 as a") == [
            ("V already exists, statement succeeded.",)
        ]
        await local.run("create or replace temporary view w as select max(k) as high from v")
        assert await local.rows("select high from w") == [(3,)]
        assert [row[:2] for row in await local.rows("describe table v")] == [("K", "NUMBER(38,0)")]
        await local.run("create or replace temp view v as select 9 as k")
        assert await local.rows("select high from ns.w") == [(9,)]
        assert local.lake.log() == log
        assert await local.rows("show views") == []
        assert await code_of(local, "create view kept as select * from v") == "000002"
        other = sessions.Session(id=2, principal=local.session.principal, database="lake")
        mine, local.session = local.session, other
        assert await code_of(local, "select * from ns.v") == "002003"
        local.session = mine
        assert await local.rows("drop view if exists v cascade") == [("V successfully dropped.",)]
        assert await code_of(local, "select * from v") == "002003"

    local_sql.run_local(tmp_path, work)


def test_a_temporary_view_hides_a_table_but_not_from_permanent_views(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        await local.run("create view kept as select count(*) as n from t")
        await local.run("create temporary view t as select 1 as one")
        assert await local.rows("select * from t") == [(1,)]
        assert await local.rows("select n from kept") == [(3,)]
        await local.run("drop view t")
        assert await local.rows("select count(*) from t") == [(3,)]

    local_sql.run_local(tmp_path, work)


def test_temporary_views_are_bounded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for number in range(limits.TEMPORARY_VIEWS_MAX):
            await local.run(f"create temp view v{number} as select 1 as a")
        assert "temporary views" in await message_of(local, "create temp view w as select 1 as a")
        await local.run("create or replace temp view v0 as select 2 as a")
        assert await local.rows("select a from v0") == [(2,)]

    local_sql.run_local(tmp_path, work)


def test_a_condition_on_a_view_sees_the_values_that_the_view_gives(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        generated = "select seq4() as id from table(generator(rowcount => 500))"
        await local.run(f"create table many as {generated}")
        await local.run("create view drawn as select id, random() as r from many")
        await local.run("create view counted as select 1 as one, count(*) as n from many")
        assert await local.rows("select distinct sign(r) from drawn where r > 0") == [(1,)]
        assert await local.rows("select * from counted where one = 2") == []

    local_sql.run_local(tmp_path, work)
