"""Kept readings of queries: a text that comes again is answered as if it were read again."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

from sql import compiler, errors, limits, readings, sessions
from sql.dialect import compilation, expressions, formats, shapes, sqltypes
from sql.plan import expressions as exprs
from tests.kit import local_sql, sql_text

COLUMNS = (
    ("a", sqltypes.integer(10)),
    ("s", sqltypes.TEXT),
    ("n", sqltypes.TIMESTAMP_NTZ),
    ("z", sqltypes.TIMESTAMP_LTZ),
    ("d", sqltypes.DATE),
    ("r", sqltypes.REAL),
)

TEXTS = [
    "select * from t",
    "select a + 1, a * a, -a from t where a > 3 and d < '2024-05-06'",
    "select sum(a), avg(a), count(*) from t group by s having sum(a) > 1 order by 1",
    "select * from t where n = '2024-05-06 07:08:09' or z >= '2024-05-06 07:08:09'",
    "select z::varchar, n::varchar, d::varchar, to_varchar(z), s || d from t",
    "select s::timestamp, s::date, try_to_date(s), to_timestamp(s), '05/06/24'::date from t",
    "select n::timestamp_ltz, z::timestamp_ntz, convert_timezone('UTC', z)::timestamp from t",
    "select date_trunc('week', d), dayofweek(d), weekofyear(d), last_day(d, 'week') from t",
    "select datediff('week', d, '2024-01-01'), next_day(d, 'mo'), previous_day(d, 'mo') from t",
    "select to_date('1/2/24', 'MM/DD/YY'), to_date(s, 'YY-MM-DD') from t",
    "select current_timestamp, current_date, current_time, localtimestamp, sysdate()",
    "select a from t where d = current_date",
    "select current_user, current_role, current_account, current_warehouse, current_region()",
    "select current_database, current_schema, current_schemas, current_version(), current_client()",
    "select current_session, current_transaction(), last_transaction(), current_ip_address()",
    "select last_query_id(), last_query_id(1)",
    "select get_ddl('table', 't')",
    "select current_available_roles()",
    "select * from table(result_scan(last_query_id()))",
    "select * from t at (offset => -60)",
    "select * from t at (timestamp => '2024-05-06 07:08:09'::timestamp)",
    "select * from $1",
    "select 1, 'x', null, true, 1.5, date '2024-05-06'",
    "select random(), uuid_string(), a from t",
    "with c as (select a, s from t) select * from c join c as e on c.a = e.a",
    "select * from (select s, a from t) pivot (sum(a) for s in ('x', 'y'))",
    "select * from table(generator(rowcount => 3))",
    "select a, row_number() over (partition by s order by d) from t qualify a > 1",
    "values (1, 'x'), (2, 'y')",
    "select nosuch from t",
    "select query_id from query_history",
    "select t.query_id from query_history t join query_history u on t.query_id = u.query_id",
]

OTHERS: list[dict[str, Any]] = [
    {"now": sql_text.NOW + datetime.timedelta(days=3, seconds=5)},
    {"now": sql_text.NOW + datetime.timedelta(minutes=1)},
    {"now": sql_text.NOW.astimezone(zoneinfo.ZoneInfo("Asia/Tokyo"))},
    {"now": sql_text.NOW.astimezone(zoneinfo.ZoneInfo("America/New_York"))},
    {"database": "other"},
    {"schema": "information_schema"},
    {"schema": None},
    {"warehouse": "OTHER"},
    {"role": "OTHER"},
    {"available_roles": ("ONE", "TWO")},
    {"ddl_texts": {("table", "t", False): "create or replace TABLE T (\n\tB NUMBER(38,0)\n);"}},
    {"user": "ALICE"},
    {"account": "OTHER"},
    {"ip_address": "127.0.0.2"},
    {"region": "EU"},
    {"session_id": 7},
    {"transaction": "1"},
    {"last_transaction": "2"},
    {"version": "9.9.9"},
    {"client": "Other 1.0"},
    {"query_ids": ("01a", "01b")},
    {"query_ids": ("01c", "01d")},
    {"flow_ids": ("01e",)},
    {"flow_ids": ("01f",)},
    {"timestamp_mapping": "TIMESTAMP_LTZ"},
    {"timestamp_mapping": "TIMESTAMP_TZ"},
    {"forms": dataclasses.replace(formats.DEFAULT, date="DD.MM.YYYY")},
    {"forms": dataclasses.replace(formats.DEFAULT, timestamp_ltz="HH24:MI")},
    {"inputs": formats.Inputs(date="MM/DD/YYYY", time="AUTO", timestamp="AUTO")},
    {"inputs": formats.Inputs(date="DD/MM/YYYY", time="AUTO", timestamp="AUTO")},
    {"weeks": shapes.Weeks(start=7)},
    {"weeks": shapes.Weeks(start=1, is_of_january=True)},
    {"century_start": 2024},
]


def environment(
    use: shapes.TableUse | None, columns: Any = COLUMNS, rows: int | None = 5, **changes: Any
) -> shapes.Environment:
    """Return a session's environment: the table T, if the text uses it, and a context."""
    context = sql_text.context(inputs=None)
    more = {name: changes.pop(name) for name in tuple(changes) if name in ENVIRONMENT}
    context = dataclasses.replace(context, **changes)
    if use is None:
        return shapes.Environment(context=context, **more)
    shape = shapes.TableShape(
        relation=f"{use.index}:T",
        path=("lake", "ns", "t"),
        columns=tuple(shapes.ShapeColumn(name=name, type=each) for name, each in columns),
        rows=rows,
    )
    tables = (shape,) * (use.index + 1)
    tables = tuple(
        dataclasses.replace(each, relation=f"{index}:T") for index, each in enumerate(tables)
    )
    return shapes.Environment(context=context, tables=tables, **more)


ENVIRONMENT = {each.name for each in dataclasses.fields(shapes.Environment)} - {"context"}


async def outcome(sql_compiler: compiler.Compiler, text: str, **changes: Any) -> Any:
    """Return what the steps of a statement give, or the parts of its error."""
    compiled = None
    try:
        compiled = await sql_compiler.compile(text, owner="root")
        empty = {name: changes[name] for name in changes if name not in ("columns", "rows")}
        needs = await compiled.needs(environment(None, **empty))
        last = needs.uses[-1] if needs.uses else None
        return needs, await compiled.bind_query(environment(last, **changes))
    except errors.SqlError as error:
        return error.parts
    finally:
        if compiled is not None:
            await compiled.close()


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_comes_again_is_read_as_by_a_compiler_that_has_read_nothing(text: str) -> None:
    async def work() -> None:
        warm = compiler.Compiler(children=0)
        for changes in ({}, *OTHERS, {}, *reversed(OTHERS), {}):
            expected = await outcome(compiler.Compiler(children=0), text, **changes)
            assert await outcome(warm, text, **changes) == expected, changes

    asyncio.run(work())


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": (*COLUMNS, ("b", sqltypes.TEXT))},
        {"columns": tuple(reversed(COLUMNS))},
        {"columns": (("a", sqltypes.integer(19, 0, 5, is_claimed=True)), *COLUMNS[1:])},
        {"columns": (("a", sqltypes.number(38)), *COLUMNS[1:])},
        {"columns": (("a", sqltypes.text(3)), *COLUMNS[1:])},
        {"rows": None},
        {"rows": 10**18},
        {"binds": None},
        {"binds": {"1": expressions.binding_literal("text", "x")}},
        {"binds": {"1": expressions.binding_literal("fixed", 7)}},
        {"variables": {"X": expressions.binding_literal("fixed", 7)}},
        {"variables": {"X": expressions.binding_literal("fixed", 8), "Y": exprs.text("y")}},
        {"variables": {"X": exprs.real(0.0)}},
        {"variables": {"X": exprs.real(-0.0)}},
        {"emits_spark": True},
    ],
)
def test_a_text_is_read_again_for_a_table_that_has_changed(changes: dict[str, Any]) -> None:
    others: list[dict[str, Any]] = [
        {"variables": {"X": exprs.real(0.0)}},
        {"variables": {"X": expressions.binding_literal("fixed", 7), "Y": exprs.text("y")}},
    ]

    async def work() -> None:
        warm = compiler.Compiler(children=0)
        texts = (
            "select * from t",
            "select sum(a), sum(a * a), max(a || s) from t",
            "select ?, a from t",
            "select $x from t",
            "select a from t where a > $x",
            "select getvariable('X'), getvariable('Y'), a from t",
        )
        for text in texts:
            for each in ({}, changes, {}, *others, changes):
                expected = await outcome(compiler.Compiler(children=0), text, **each)
                assert await outcome(warm, text, **each) == expected

    asyncio.run(work())


def test_a_query_is_read_once_and_a_change_of_its_table_or_session_reads_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    original = compilation.ParsedStatement.__init__

    def noting(self: Any, text: str) -> None:
        parsed.append(text)
        original(self, text)

    monkeypatch.setattr(compilation.ParsedStatement, "__init__", noting)

    async def work() -> None:
        warm = compiler.Compiler(children=0)
        text = "select a, s from t where z > '2024-01-01'"
        for changes in ({}, {}, {"session_id": 9, "query_ids": ("01a",)}, {"user": "ALICE"}):
            await outcome(warm, text, **changes)
        assert parsed == [text]
        await outcome(warm, text, now=sql_text.NOW.astimezone(zoneinfo.ZoneInfo("Asia/Tokyo")))
        assert parsed == [text] * 2
        await outcome(warm, text, rows=6)
        assert parsed == [text] * 3
        await outcome(warm, text)
        assert parsed == [text] * 3

        # Variables that it does not name, and a moment of the same day, change nothing.
        parsed.clear()
        text = "select a, $x, $y from t where d = current_date"
        later = sql_text.NOW + datetime.timedelta(seconds=5)
        x, y, z = exprs.text("x"), exprs.text("y"), exprs.text("z")
        await outcome(warm, text, variables={"X": x, "Y": y})
        await outcome(warm, text, variables={"X": x, "Y": y, "Z": z}, now=later)
        await outcome(warm, text, variables={"Y": y, "X": x})
        assert parsed == [text]
        await outcome(warm, text, variables={"X": x, "Y": z})
        assert parsed == [text] * 2
        tomorrow = sql_text.NOW + datetime.timedelta(days=1)
        await outcome(warm, text, variables={"X": x, "Y": y}, now=tomorrow)
        assert parsed == [text] * 3

    asyncio.run(work())


def test_kept_readings_stay_within_their_bytes_and_texts_used_last_are_kept() -> None:
    async def work() -> None:
        warm = compiler.Compiler(children=0)
        warm.readings = readings.Readings(bytes_max=200_000)
        often = "select a from t where s = 'often'"
        for number in range(300):
            await outcome(warm, often)
            await outcome(warm, f"select a, '{'x' * 900}' from t where a = {number}")
            assert warm.readings.size_bytes <= 200_000
        assert warm.readings.operation(often) is not None
        assert warm.readings.size_bytes > 100_000

    asyncio.run(work())


def test_members_of_nested_columns_count_as_columns_of_a_reading_do() -> None:
    async def work() -> None:
        warm = compiler.Compiler(children=0)
        members = {f"m{number}": sqltypes.integer(10) for number in range(1_000)}
        inside = sqltypes.structured("list", {"element": sqltypes.structured("struct", members)})
        await outcome(warm, "select a from t", columns=(*COLUMNS, ("nested", inside)))
        assert warm.readings.size_bytes > 1_000 * 200  # what each takes in memory

    asyncio.run(work())


def test_readings_of_one_text_for_many_states_of_its_table_are_bounded() -> None:
    async def work() -> None:
        warm = compiler.Compiler(children=0)
        sizes = []
        for rows in range(50):
            await outcome(warm, "select sum(a) from t", rows=rows)
            sizes.append(warm.readings.size_bytes)
        assert len(set(sizes[limits.READINGS_OF_STEP_MAX :])) <= 2  # as digits of rows are more

    asyncio.run(work())


# In a catalog


def test_equal_texts_see_what_ddl_and_dml_between_them_have_changed(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        text = "select * from t order by 1"
        await local.run("create table t (a int)")
        assert await local.rows(text) == []
        await local.run("insert into t values (1)")
        assert await local.rows(text) == [(1,)]
        await local.run("alter table t add column b varchar default 'x'")
        assert await local.rows(text) == [(1, "x")]
        await local.run("alter table t rename column b to c")
        assert await local.rows(text) == [(1, "x")]
        assert [each.name for each in (await local.run(text, describe_only=True)).columns] == [
            "A",
            "C",
        ]
        await local.run("alter table t rename to old")
        with pytest.raises(errors.SqlError) as missing:
            await local.rows(text)
        assert missing.value.code == errors.DOES_NOT_EXIST
        await local.run("create table t as select 'new' as n")
        assert await local.rows(text) == [("new",)]
        await local.run("create temporary table t (hidden int)")
        assert await local.rows(text) == []
        await local.run("drop table t")
        assert await local.rows(text) == [("new",)]
        await local.run("create or replace view t2 as select * from t")
        await local.run("drop table t")
        with pytest.raises(errors.SqlError):
            await local.rows("select * from t2")

    local_sql.run_local(tmp_path, work)


def test_equal_texts_see_a_view_that_has_changed_and_the_tables_below_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1), (2)")
        text = "select * from v join t on t.a = v.a order by 1"
        await local.run("create view v as select a from t where a > 1")
        for _ in range(2):
            assert await local.rows(text) == [(2, 2)]
        await local.run("create or replace view v as select a from t where a < 2")
        assert await local.rows(text) == [(1, 1)]
        await local.run("create or replace view inside as select a from t")
        await local.run("create or replace view v as select a, 'x' as x from inside")
        for _ in range(2):
            assert await local.rows(text) == [(1, "x", 1), (2, "x", 2)]
        await local.run("create or replace view inside as select max(a) as a from t")
        assert await local.rows(text) == [(2, "x", 2)]
        await local.run("insert into t values (3)")
        assert await local.rows(text) == [(3, "x", 3)]
        await local.run("alter table t rename column a to b")
        with pytest.raises(errors.SqlError):
            await local.rows(text)

    local_sql.run_local(tmp_path, work)


def test_equal_texts_mean_what_the_schema_the_parameters_and_the_variables_say(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s1")
        await local.run("create schema s2")
        for number in (1, 2):
            await local.run(f"create table s{number}.t (d date, n int)")
            await local.run(f"insert into s{number}.t values ('2024-01-0{number}', {number})")
        text = "select d::varchar, n from t"
        await local.run("use schema s1")
        assert await local.rows(text) == [("2024-01-01", 1)]
        await local.run("use schema s2")
        assert await local.rows(text) == [("2024-01-02", 2)]
        await local.run("alter session set date_output_format = 'DD/MM/YY'")
        assert await local.rows(text) == [("02/01/24", 2)]
        await local.run("alter session unset date_output_format")
        assert await local.rows(text) == [("2024-01-02", 2)]
        by_week = "select dayofweek(d) from t"
        assert await local.rows(by_week) == [(2,)]
        await local.run("alter session set week_start = 2")
        assert await local.rows(by_week) == [(1,)]
        moment = "select to_timestamp_ltz('2024-01-01 00:00:00')::timestamp_ltz = z from (select"
        moment += " '2024-01-01 00:00:00 +0000'::timestamp_ltz as z)"
        await local.run("alter session set timezone = 'UTC'")
        assert await local.rows(moment) == [(True,)]
        await local.run("alter session set timezone = 'Asia/Tokyo'")
        assert await local.rows(moment) == [(False,)]
        await local.run("set x = 1")
        assert await local.rows("select $x + n from t") == [(3,)]
        await local.run("set x = 10")
        assert await local.rows("select $x + n from t") == [(12,)]
        await local.run("unset x")
        with pytest.raises(errors.SqlError):
            await local.rows("select $x + n from t")

    local_sql.run_local(tmp_path, work)


def test_equal_texts_are_refused_to_who_may_not_read_and_after_a_right_is_gone(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        text = "select a from lake.ns.t"
        root = local.session
        allowed = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        denied = {"Effect": "Deny", "Action": "s3tables:GetTableData", "Resource": "*"}
        assert await local.rows(text) == [(1,)]
        local.session = sessions.Session(id=2, principal=local_sql.user("bob", []))
        with pytest.raises(errors.SqlError) as hidden:
            await local.rows(text)
        assert hidden.value.code in (errors.DOES_NOT_EXIST, "003001", "002003")
        local.session = sessions.Session(id=3, principal=local_sql.user("bob", [allowed]))
        assert await local.rows(text) == [(1,)]
        local.session = sessions.Session(id=4, principal=local_sql.user("bob", [allowed, denied]))
        with pytest.raises(errors.SqlError):
            await local.rows(text)
        local.session = root
        assert await local.rows(text) == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_functions_of_the_moment_and_of_the_session_are_computed_for_each_statement(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        text = "select current_timestamp()::timestamp_ntz, current_session(), last_query_id()"
        first = await local.rows(text)
        local.lake.clock.now_ms += 3_600_000
        second = await local.rows(text)
        assert second[0][0] - first[0][0] == datetime.timedelta(hours=1)
        local.session = sessions.Session(id=77, principal=local.session.principal)
        assert (await local.rows(text))[0][1] == "77"

    local_sql.run_local(tmp_path, work)
