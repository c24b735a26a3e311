"""Columns of TIME and TIMESTAMP with fewer digits of a second than six."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from sql import bindings, errors
from tests.kit import local_sql

MOMENT = "2024-02-29 12:34:56.987654"
OLD = "1969-12-31 23:59:59.987654"
EXPECTED = {
    0: ("2024-02-29 12:34:56", "1969-12-31 23:59:59", "12:34:56"),
    1: ("2024-02-29 12:34:56.900", "1969-12-31 23:59:59.900", "12:34:56.900"),
    3: ("2024-02-29 12:34:56.987", "1969-12-31 23:59:59.987", "12:34:56.987"),
    5: ("2024-02-29 12:34:56.987650", "1969-12-31 23:59:59.987650", "12:34:56.987650"),
    6: ("2024-02-29 12:34:56.987654", "1969-12-31 23:59:59.987654", "12:34:56.987654"),
}


def moments(digits: int) -> list[Any]:
    moment, old, clock = EXPECTED[digits]
    return [
        datetime.datetime.fromisoformat(moment),
        datetime.datetime.fromisoformat(old),
        datetime.time.fromisoformat(clock),
    ]


@pytest.mark.parametrize("digits", EXPECTED)
def test_every_write_cuts_the_digits_that_a_column_does_not_keep(
    tmp_path: Path, digits: int
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            f"create table t (a int, m timestamp_ntz({digits}), o timestamp({digits}),"
            f" c time({digits}), z timestamp_ltz({digits}) default '{MOMENT}321')"
        )
        values = f"'{MOMENT}321', '{OLD}321', '{MOMENT[11:]}321'"
        await local.run(f"insert into t (a, m, o, c) values (1, {values})")
        await local.run(
            f"insert into t (a, m, o, c) select 2, '{MOMENT}'::timestamp_ntz,"
            f" '{OLD}'::timestamp_ntz, '{MOMENT[11:]}'::time"
        )
        await local.run("insert into t (a) values (3), (4)")
        await local.run(
            f"update t set m = '{MOMENT}', o = dateadd(microsecond, 0, '{OLD}'::timestamp_ntz),"
            f" c = '{MOMENT[11:]}' where a = 3"
        )
        await local.run(
            f"merge into t using (select 4 as a, '{MOMENT}'::timestamp_ntz as m) s on t.a = s.a"
            f" when matched then update set m = s.m, o = '{OLD}', c = s.m::time"
            " when not matched then insert (a) values (1)"
        )
        row = f"5,{MOMENT}321,{OLD}321,{MOMENT[11:]}321\n"
        await local_sql.put_file(local, "@%t", "a.csv", row.encode())
        await local.rows("copy into t (a, m, o, c) from @%t")
        nanos = {
            "1": bindings.Binding(type="fixed", values=(6, 7), is_array=True),
            "2": bindings.Binding(
                type="timestamp_ntz", values=(1_709_210_096_987_654_321,) * 2, is_array=True
            ),
            "3": bindings.Binding(type="timestamp_ntz", values=(-12_345_679,) * 2, is_array=True),
            "4": bindings.Binding(type="time", values=(45_296_987_654_321,) * 2, is_array=True),
        }
        await local.run("insert into t (a, m, o, c) values (?, ?, ?, ?)", bindings=nanos)
        rows = await local.rows("select a, m, o, c, z::timestamp_ntz from t order by a")
        assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
        for row in rows:
            assert list(row[1:]) == [*moments(digits), moments(digits)[0]], row

    local_sql.run_local(tmp_path, work)


def test_binds_of_nanoseconds_are_cut_where_a_constant_is_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        nanos = {"1": bindings.Binding(type="fixed", values=(1_709_210_096_987_654_321,))}
        cut = moments(6)[0]
        for text in ("to_timestamp(?, 9)", "to_timestamp(?)", "?::timestamp_ntz"):
            assert await local.rows(f"select {text}", bindings=nanos) == [(cut,)]
            with pytest.raises(errors.SqlError, match="digits below a microsecond"):
                await local.rows(f"select {text.replace('?', str(nanos['1'].values[0]))}")
        parts = {"1": bindings.Binding(type="fixed", values=(987_654_321,))}
        text = "select time_from_parts(12, 34, 56, ?)"
        assert await local.rows(text, bindings=parts) == [(cut.time(),)]

    local_sql.run_local(tmp_path, work)


def test_copies_of_texts_refuse_digits_that_a_column_would_lose(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (m timestamp_ntz, c time)")
        await local_sql.put_file(local, "@%t", "a.csv", f"{MOMENT}321,{MOMENT[11:]}321\n".encode())
        for option in ("", " on_error = continue"):
            with pytest.raises(errors.SqlError, match="digits below a microsecond"):
                await local.rows(f"copy into t from @%t{option}")
        await local.run(
            "alter table t alter column m set data type timestamp_ntz(6),"
            " column c set data type time(6)"
        )
        await local.rows("copy into t from @%t")
        assert await local.rows("select * from t") == [(moments(6)[0], moments(6)[2])]

    local_sql.run_local(tmp_path, work)


def test_listings_and_copies_show_the_digits_that_a_column_keeps(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create table t (m timestamp_ntz(3), z timestamp_ltz(0), c time(1), n timestamp,"
            " nine timestamp_ntz(9))"
        )
        types = [
            "TIMESTAMP_NTZ(3)",
            "TIMESTAMP_LTZ(0)",
            "TIME(1)",
            "TIMESTAMP_NTZ(6)",
            "TIMESTAMP_NTZ(6)",
        ]
        await local.run("create table copied like t")
        await local.run("create table cloned clone t")
        await local.run("create or replace table replaced like t")
        for name in ("t", "copied", "cloned", "replaced"):
            assert [row[1] for row in await local.rows(f"describe table {name}")] == types
            await local.run(f"insert into {name} (m) values ('{MOMENT}')")
            assert await local.rows(f"select m from {name}") == [(moments(3)[0],)]
        assert await local.rows(
            "select datetime_precision from information_schema.columns"
            " where table_name = 'T' order by ordinal_position"
        ) == [(3,), (0,), (1,), (6,), (6,)]
        text = await local.one("select get_ddl('table', 't')")
        assert "M TIMESTAMP_NTZ(3)" in text
        await local.run("drop table t")
        await local.run(text)
        assert [row[1] for row in await local.rows("describe table t")] == types

    local_sql.run_local(tmp_path, work)


def test_digits_of_a_column_grow_and_do_not_shrink(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a timestamp_ntz(3))")
        await local.run("alter table t add column b time(2)")
        await local.run("alter table t alter column a set data type timestamp_ntz(5)")
        await local.run(f"insert into t values ('{MOMENT}', '{MOMENT[11:]}')")
        assert await local.rows("select * from t") == [
            (moments(5)[0], datetime.time(12, 34, 56, 980_000))
        ]
        described = [row[1] for row in await local.rows("describe table t")]
        assert described == ["TIMESTAMP_NTZ(5)", "TIME(2)"]
        with pytest.raises(errors.SqlError) as caught:
            await local.run("alter table t alter column a set data type timestamp_ntz(3)")
        assert caught.value.code == "002108"
        await local.run("alter table t alter column a set data type timestamp_ntz")
        assert next(row[1] for row in await local.rows("describe table t")) == "TIMESTAMP_NTZ(6)"

    local_sql.run_local(tmp_path, work)


def test_queries_compute_with_such_columns_as_with_any_other(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (m timestamp_ntz(3), d timestamp_ntz, c time(0))")
        await local.run(f"insert into t values ('{MOMENT}', '{MOMENT}', '{MOMENT[11:]}')")
        assert await local.rows(
            "select m < d, datediff(microsecond, m, d), coalesce(m, d) = m,"
            " m = '2024-02-29 12:34:56.987', c = '12:34:56'::time from t"
        ) == [(True, 654, True, True, True)]
        await local.run("create table u as select dateadd(microsecond, 4, m) as m from t")
        assert await local.rows("select m from u") == [
            (moments(3)[0] + datetime.timedelta(microseconds=4),)
        ]
        assert await local.rows("select count(*) from t join u on u.m > t.m") == [(1,)]

    local_sql.run_local(tmp_path, work)


async def scales(local: local_sql.LocalSql, text: str) -> list[int | None]:
    outcome = await local.run(text)
    if outcome.batches is not None:
        assert [batch async for batch in outcome.batches]
    return [column.scale for column in outcome.columns]


def test_results_have_the_digits_that_their_columns_keep(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create table t (m timestamp_ntz(3), z timestamp_ltz(0), c time(1), s timestamp)"
        )
        await local.run(f"insert into t values ('{MOMENT}', '{MOMENT}', '{MOMENT[11:]}', '{OLD}')")
        await local.run("create view v as select m, c from t")
        assert await scales(local, "select * from t") == [3, 0, 1, 6]
        assert await scales(local, "select * from v") == [3, 1]
        assert await scales(local, "with q as (select m, c from t) select * from q") == [3, 1]
        assert await scales(
            local, "select max(m), lag(c) over (order by m) from t group by m, c"
        ) == [
            3,
            1,
        ]
        assert await scales(
            local,
            "select coalesce(m, s), iff(true, m, m), nvl(m, m::timestamp_ntz(1)),"
            " date_trunc(day, m), coalesce(m, '2024-01-01 00:00:00.123456') from t",
        ) == [6, 3, 3, 3, 6]
        assert await scales(local, "select m from t union all select s from t") == [6]
        assert await scales(local, "select m from t union all select m from t") == [3]
        assert await scales(
            local,
            "select dateadd(day, 1, m), dateadd(microsecond, 1, m), m + interval '1 day',"
            " m + interval '1 millisecond', m::timestamp_ntz, m::timestamp_ntz(2),"
            " m::timestamp_ntz(5) from t",
        ) == [3, 6, 3, 6, 6, 2, 5]
        assert await scales(local, f"select '{MOMENT}'::timestamp(4), '{MOMENT}'::timestamp") == [
            4,
            6,
        ]
        await local.run("create table u as select m, c, s, m::timestamp_tz(2) as z from t")
        described = [row[1] for row in await local.rows("describe table u")]
        assert described == ["TIMESTAMP_NTZ(3)", "TIME(1)", "TIMESTAMP_NTZ(6)", "TIMESTAMP_TZ(2)"]

    local_sql.run_local(tmp_path, work)
