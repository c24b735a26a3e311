"""What BI tools and drivers send when they connect and browse: every statement has an answer."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from sql import errors
from tests.kit import local_sql

STATEMENTS = (
    # JDBC's DatabaseMetaData, as DBeaver and Flyway call it
    "show /* JDBC:DatabaseMetaData.getCatalogs() */ databases in account",
    "show /* JDBC:DatabaseMetaData.getSchemas() */ schemas in account",
    "show /* JDBC:DatabaseMetaData.getTables() */ objects in account",
    "show /* JDBC:DatabaseMetaData.getTables() */ tables in account",
    "show /* JDBC:DatabaseMetaData.getTables() */ views in account",
    "show /* JDBC:DatabaseMetaData.getColumns() */ columns in account",
    "show /* JDBC:DatabaseMetaData.getPrimaryKeys() */ primary keys in account",
    'show /* JDBC:DatabaseMetaData.getPrimaryKeys() */ primary keys in table "LAKE"."NS"."T"',
    "show /* JDBC:DatabaseMetaData.getForeignKeys() */ imported keys in account",
    'show /* JDBC:DatabaseMetaData.getForeignKeys() */ exported keys in table "LAKE"."NS"."T"',
    "show /* JDBC:DatabaseMetaData.getFunctions() */ functions in account",
    "show /* JDBC:DatabaseMetaData.getProcedures() */ procedures in account",
    # Tableau, Metabase, Superset and dbt
    "show terse databases",
    "show terse schemas in database lake limit 10000",
    "show objects in lake.ns limit 10000",
    "show user functions in lake.ns",
    "show schemas in database lake",
    "show tables like '%' in schema lake.ns",
    "show views in database lake",
    "show sequences in account",
    "show stages in account",
    "show file formats in account",
    "show warehouses",
    "show parameters like 'query_tag' in session",
    "show roles",
    "show users",
    "show grants",
    "show grants to role public",
    "show grants on table lake.ns.t",
    "show transactions",
    "describe table lake.ns.t",
    "select current_role(), current_available_roles(), current_user(), current_warehouse()",
    "select current_database(), current_schema(), current_version()",
    "select get_ddl('table', 'lake.ns.t')",
    "select table_name from lake.information_schema.tables where table_schema = 'NS'",
    "select column_name, data_type, ordinal_position from lake.information_schema.columns",
    "select schema_name from lake.information_schema.schemata",
    "select * from lake.information_schema.views",
    "select * from lake.information_schema.referential_constraints",
    # Objects that other warehouses have: listings without rows
    "show materialized views in schema lake.ns",
    "show external tables in database lake",
    "show dynamic tables in account",
    "show streams",
    "show tasks in schema lake.ns",
    "show pipes like '%' in account",
    # Superset's engine spec: names, time grains and literals
    "select database_name from information_schema.databases",
    "select current_session()",
    "select dateadd(minute, floor(date_part(minute, m) / 5) * 5, date_trunc('hour', m))"
    " from moments",
    "select date_trunc('quarter', m) as __timestamp, count(*) as \"COUNT(*)\" from moments"
    " where m >= to_timestamp('2024-01-01T00:00:00.000000') group by date_trunc('quarter', m)"
    ' order by "COUNT(*)" desc limit 10000',
    "select dateadd(s, 1700000000, '1970-01-01'), cast('2024-01-02T03:04:05.123456' as datetime)",
    "select * from (select id from t) as virtual_table limit 1001",
)


@pytest.fixture(scope="module")
def local(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[asyncio.Runner, local_sql.LocalSql]]:
    with asyncio.Runner() as runner:
        manager = local_sql.opened_inline(tmp_path_factory.mktemp("bi"))
        opened = runner.run(manager.__aenter__())
        runner.run(opened.run("create table t (id int primary key, name varchar)"))
        runner.run(opened.run("create table moments (m timestamp)"))
        runner.run(opened.run("create view v as select name from t"))
        yield runner, opened
        runner.run(manager.__aexit__(None, None, None))


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_of_a_tools_connection_is_answered(
    local: tuple[asyncio.Runner, local_sql.LocalSql], text: str
) -> None:
    runner, opened = local
    outcome = runner.run(opened.run(text))
    rows = runner.run(local_sql.rows_of(outcome))
    assert all(len(row) == len(outcome.columns) for row in rows)


ESCAPED = {
    "select {d '2024-01-01'}, {t '10:11:12'}, { TS '2024-01-01 00:00:00.5' }": (
        datetime.date(2024, 1, 1),
        datetime.time(10, 11, 12),
        datetime.datetime(2024, 1, 1, 0, 0, 0, 500_000),  # noqa: DTZ001 - TIMESTAMP_NTZ
    ),
    "select {fn concat({fn upper('a')}, 'b')} || 'c'": ("Abc",),
    "select { fn convert(count(*), SQL_DOUBLE) }, {fn convert(1, SQL_VARCHAR)}": (1.0, "1"),
    "select count(*) from moments where m < {ts '2024-01-01 00:00:00'}": (0,),
    "select {'d': {'ts': 1}}:d:ts::int": (1,),
    "select {fn length('abc')": "001003",
    "select {fn }": "001003",
    "select {d '2024-01-01'": "001003",
    "select {d 'x'}": "100040",
    "select {fn convert(1, SQL_GUID)}": "000002",
}


@pytest.mark.parametrize("text", ESCAPED)
def test_odbcs_escapes_are_what_they_stand_for(
    local: tuple[asyncio.Runner, local_sql.LocalSql], text: str
) -> None:
    runner, opened = local
    try:
        answer: Any = runner.run(opened.rows(text))[0]
    except errors.SqlError as error:
        answer = error.code
    assert answer == ESCAPED[text]


def test_odbcs_literals_have_odbcs_format_whatever_the_sessions_is(
    local: tuple[asyncio.Runner, local_sql.LocalSql],
) -> None:
    runner, opened = local
    runner.run(
        opened.run(
            "alter session set date_input_format = 'YYYY-DD-MM', time_input_format = 'MI:HH24',"
            " timestamp_input_format = 'YYYY-DD-MM HH24:MI:SS'"
        )
    )
    try:
        text = "select {d '2024-06-01'}, {t '10:11:12'}, {ts '2024-06-01 00:00:00'}::date"
        june = datetime.date(2024, 6, 1)
        assert runner.run(opened.rows(text)) == [(june, datetime.time(10, 11, 12), june)]
        runner.run(opened.run("create table dated (a date default {d '2024-06-01'}, b date)"))
        runner.run(opened.run("insert into dated (b) values ({d '2024-06-01'})"))
        assert runner.run(opened.rows("select a, b from dated")) == [(june, june)]
    finally:
        runner.run(
            opened.run(
                "alter session unset date_input_format, time_input_format, timestamp_input_format"
            )
        )


def test_a_sum_over_rows_that_a_join_repeats_counts_each_key_once(
    local: tuple[asyncio.Runner, local_sql.LocalSql],
) -> None:
    """Looker adds a number made of the key's digest to each value, and subtracts it again."""
    runner, opened = local
    digest = f"(to_number(md5(k), '{'X' * 32}') % 1.0e27)::numeric(38, 0)"
    value = "cast(floor(coalesce(v, 0) * (1000000 * 1.0)) as decimal(38, 0))"
    total = (
        f"cast(sum(distinct {value} + {digest}) - sum(distinct {digest}) as double precision)"
        " / cast((1000000 * 1.0) as double precision)"
    )
    rows = ", ".join(f"({key}, {key}.25)" for key in range(40))
    text = f"select {total} from (values {rows}) t(k, v), table(generator(rowcount => 3))"
    assert runner.run(opened.one(text)) == sum(key + 0.25 for key in range(40))
    beyond = f"select to_number('{'f' * 32}', '{'X' * 32}') % 1e38"
    assert runner.run(opened.one(beyond)) == float(2**128) % 1e38
