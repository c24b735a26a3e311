"""Stored results that queries read again: RESULT_SCAN, and `$1` in a flow of statements."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sql import errors, limits, outcomes, results, shelves, show
from tests.kit import local_sql

EVERY_TYPE = """
    select 1 as n, 12345678901234567890123456789012345678 as big, -1.50 as money, 2.5e0 as real,
      'x''y' as "text", true as flag, '1969-12-31'::date as day, '01:02:03.000004'::time as at,
      '1969-12-31 23:59:59.000001'::timestamp_ntz as ntz,
      '1900-07-01 12:00:00.5 +00:00'::timestamp_ltz as ltz, x'00ff' as bytes,
      {'b': [1, null, 1.5], 'a': 'x'} as obj, array_construct(null, 1) as arr, null as nothing
    union all
    select null, null, null, null, null, null, null, null, null, null, null, null, null, 'z'
"""


async def kept(local: local_sql.LocalSql, text: str, *, chunks: int = 1) -> str:
    """Run a statement, keep its result as a client gets it, and return its id."""
    outcome = await local.run(text)
    await local.results.keep(local.last_id, outcome, chunks=chunks)
    return local.last_id


def test_a_result_scan_returns_every_type_as_the_query_did(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("alter session set timezone = 'America/New_York'")
        expected = await local.rows(f"{EVERY_TYPE} order by n")
        for chunks in (1, 2, 3):
            query_id = await kept(local, f"{EVERY_TYPE} order by n", chunks=chunks)
            scan = f"table(result_scan('{query_id}'))"
            assert await local.rows(f"select * from {scan} order by n") == expected
        outcome = await local.run(f"select * from {scan}", describe_only=True)
        assert [(column.name, column.type) for column in outcome.columns][:5] == [
            ("N", "fixed"),
            ("BIG", "fixed"),
            ("MONEY", "fixed"),
            ("REAL", "real"),
            ("text", "text"),
        ]
        text = f"""
            select n + 1, big - 1, money * 2, "text" || '!', dateadd(day, 1, day), obj:b[2]::float,
              arr[1]::int, hour(ltz) from {scan} where n is not null
        """
        assert await local.rows(text) == [
            (
                2,
                Decimal("12345678901234567890123456789012345677"),
                Decimal("-3.00"),
                "x'y!",
                datetime.date(1970, 1, 1),
                1.5,
                1,
                7,
            )
        ]

    local_sql.run_local(tmp_path, work)


def test_the_results_of_show_and_describe_are_relations(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t1 (a int, b varchar)")
        await local.run("create table t2 (a int)")
        await kept(local, "show tables")
        scan = "table(result_scan(last_query_id()))"
        text = f'select "name", "rows" + 1 from {scan} where "name" like \'%2\''
        assert await local.rows(text) == [("T2", 1)]
        show_id = await kept(local, "show tables")
        text = f"""
            select s."name", t.table_name from table(result_scan('{show_id}')) s
            join information_schema.tables t on t.table_name = s."name"
            where s."created_on" = t.created order by 1
        """
        assert await local.rows(text) == [("T1", "T1"), ("T2", "T2")]
        described = await kept(local, "describe table t1")
        text = 'select "name", "type" from table(result_scan({})) order by "name" desc'
        assert await local.rows(text.format(f"'{described}'")) == [
            ("B", "VARCHAR(16777216)"),
            ("A", "NUMBER(38,0)"),
        ]
        await kept(local, "insert into t1 values (1, 'x')")
        assert await local.rows(f'select "number of rows inserted" + 1 from {scan}') == [(2,)]
        # Two columns of one name can be listed, and are ambiguous by their name.
        twice = await kept(local, "select 1 as a, 2 as a")
        scan = f"table(result_scan('{twice}'))"
        assert await local.rows(f"select * from {scan}") == [(1, 2)]
        assert await local.rows(f"select $2, count(*) from {scan} group by 1") == [(2, 1)]
        with pytest.raises(errors.SqlError) as refusal:
            await local.run(f"select a from {scan}")
        assert refusal.value.code == "002028"

    local_sql.run_local(tmp_path, work)


def test_describe_result_has_the_columns_of_a_stored_result(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a number(10, 2) not null, b varchar(5), c timestamp(3))")
        query_id = await kept(local, "select a, a / 3 as q, b, c, true as yes, 1.5e0 f from t")
        expected = [
            ("A", "NUMBER(10,2)", "COLUMN", "N"),
            ("Q", "NUMBER(16,8)", "COLUMN", "N"),
            ("B", "VARCHAR(5)", "COLUMN", "Y"),
            ("C", "TIMESTAMP_NTZ(3)", "COLUMN", "Y"),
            ("YES", "BOOLEAN", "COLUMN", "N"),
            ("F", "FLOAT", "COLUMN", "N"),
        ]
        by_id = await local.run(f"describe result '{query_id}'")
        assert [column.name for column in by_id.columns] == list(show.DESCRIBE_COLUMNS)
        await kept(local, "select 1")
        for text in (
            "desc result last_query_id(-3)",
            "desc result last_query_id(2)",
            f"desc result '{query_id}'",
        ):
            assert [row[:4] for row in await local.rows(text)] == expected
        await kept(local, "select 7")
        ((name, *_),) = await local.rows("describe result last_query_id()")
        assert name == "7"
        await kept(local, "show tables")
        names = [row[0] for row in await local.rows("describe result last_query_id()")]
        assert names[:2] == ["created_on", "name"]
        for text in ("describe result 'x'", "describe result last_query_id(99)"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            assert caught.value.code == "000709"

    local_sql.run_local(tmp_path, work)


def test_a_result_that_is_not_stored_is_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        async def refusal(text: str) -> str:
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            return caught.value.code

        unknown = uuid.uuid4()
        assert await refusal(f"select a from table(result_scan('{unknown}'))") == "000709"
        assert await refusal("select a from table(result_scan(1))") == "000002"
        assert await refusal("select a from table(result_scan())") == "000002"
        assert await refusal("select * from $1") == "000002"
        outcome = outcomes.Outcome(
            columns=(outcomes.Column(name="a", type="text"),), rows=[], statement_type_id=0
        )
        await local.results.keep("large", outcome)
        size = limits.SCANNED_RESULT_BYTES_MAX + 1
        local.results.kept["large"] = results.StoredResult(
            columns=outcome.columns,
            format="json",
            inline=b"[]",
            chunks=(shelves.ShelvedBytes(b"", size),),
        )
        assert await refusal("select * from table(result_scan('large'))") == "000625"
        local.results.kept["half"] = results.StoredResult(
            columns=outcome.columns,
            format="json",
            inline=b"[]",
            chunks=(shelves.ShelvedBytes(b"", limits.SCANNED_RESULT_BYTES_MAX // 2 + 1),),
        )
        half = "table(result_scan('half'))"
        assert await local.one(f"select count(*) from {half}") == 0
        assert await refusal(f"select 1 from {half} x, {half} y") == "000625"

    local_sql.run_local(tmp_path, work)


def test_a_number_in_from_is_the_result_of_a_statement_before_in_the_flow(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        first = await kept(local, "select 1 as a union all select 2")
        second = await kept(local, "select 10 as b")
        flow: dict[str, Any] = {"flow_ids": (first, second)}
        text = "select sum(y.a), max(x.$1), max(x.b) from $1 as x, $2 as y"
        assert await local.rows(text, **flow) == [(3, 10, 10)]
        with pytest.raises(errors.SqlError) as refusal:
            await local.run("select * from $3", **flow)
        assert refusal.value.code == "000002"

    local_sql.run_local(tmp_path, work)
