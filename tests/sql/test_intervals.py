"""Columns and values of the INTERVAL types."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql import decode, encode, errors, intervals, outcomes, rowtypes
from sql.dialect import sqltypes
from tests.kit import datafiles, local_sql

DAY = 86_400_000_000_000
"""Nanoseconds."""
MOST = DAY * 10**9 - 1


def as_nanos(days: int, clock: str) -> Decimal:
    """The nanoseconds of days and a time, counted apart from how they are read."""
    hours, minutes, seconds = clock.split(":")
    return days * DAY + (int(hours) * 60 + int(minutes)) * 60 * 10**9 + Decimal(seconds) * 10**9


@pytest.mark.parametrize(
    ("declared", "shown", "texts"),
    [
        (
            "interval year to month",
            "INTERVAL YEAR(9) TO MONTH",
            {
                "0-0": (0, "+0-00"),
                "1-2": (14, "+1-02"),
                "-1-3": (-15, "-1-03"),
                " +999999999-11 ": (11_999_999_999, "+999999999-11"),
                "-999999999-11": (-11_999_999_999, "-999999999-11"),
            },
        ),
        ("INTERVAL YEAR(2)", "INTERVAL YEAR(2)", {"-99": (-1188, "-99"), "0": (0, "+0")}),
        ("interval month", "INTERVAL MONTH(9)", {"999999999": (999_999_999, "+999999999")}),
        (
            "interval day(5) to second",
            "INTERVAL DAY(5) TO SECOND",
            {
                "0 0:0:0.0": (0, "+0 00:00:00.000000000"),
                "12 3:4:5.678": (as_nanos(12, "3:4:5.678"), "+12 03:04:05.678000000"),
                "-1 2:3:4.567": (-as_nanos(1, "2:3:4.567"), "-1 02:03:04.567000000"),
                "-99999 23:59:59.999999": (
                    -as_nanos(99_999, "23:59:59.999999"),
                    "-99999 23:59:59.999999000",
                ),
            },
        ),
        (
            "interval day to second(9)",
            "INTERVAL DAY(9) TO SECOND",
            {"999999999 23:59:59.999999999": (MOST, "+999999999 23:59:59.999999999")},
        ),
        (
            "interval hour to minute",
            "INTERVAL HOUR(9) TO MINUTE",
            {"-1:05": (-3900 * 10**9, "-1:05")},
        ),
        ("interval day to hour", "INTERVAL DAY(9) TO HOUR", {"1 23": (47 * 3600 * 10**9, "+1 23")}),
        ("interval day", "INTERVAL DAY(9)", {"-12": (-12 * DAY, "-12")}),
        (
            "interval minute to second",
            "INTERVAL MINUTE(9) TO SECOND",
            {"100:59.5": (6_059_500_000_000, "+100:59.500000000")},
        ),
        ("interval second", "INTERVAL SECOND(9)", {"75.25": (75_250_000_000, "+75.250000000")}),
    ],
)  # fmt: skip
def test_a_column_of_an_interval_keeps_texts_as_its_values(
    tmp_path: Path, declared: str, shown: str, texts: dict[str, tuple[Any, str]]
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create table t (i int, c {declared} not null)")
        values = ", ".join(f"({place}, '{text}')" for place, text in enumerate(texts))
        await local.rows(f"insert into t values {values}")
        assert await local.rows("select c, c::varchar from t order by i") == list(texts.values())
        assert await local.rows("select count(*) from t where c::varchar = c") == [(len(texts),)]
        await local.rows("create table s as select * from t")
        await local.rows("create table k like t")
        await local.rows("create view v as select c from t")
        for name in ("t", "s", "k", "v"):
            described = await local.rows(f"describe table {name}")
            assert described[-1][1] == shown, name
        ((ddl,),) = await local.rows("select get_ddl('table', 't')")
        assert shown in ddl
        await local.rows(ddl)
        assert (await local.rows("describe table t"))[1][1] == shown

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("interval year to month", "1-12"), ("interval year to month", "1"),
        ("interval year to month", "1--1"), ("interval year to month", "1234567890-0"),
        ("interval year(2)", "100"), ("interval month", "1-1"), ("interval month", "x"),
        ("interval day to second", "1 24:0:0"), ("interval day to second", "1 0:60:0"),
        ("interval day to second", "1 0:0:60"), ("interval day to second", "1 0:0"),
        ("interval day(5) to second", "100000 0:0:0"), ("interval day", "1 0"),
        ("interval day to second", "1 0:0:0.1234567891"), ("interval hour", "１"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_interval_of_the_type_is_refused(
    tmp_path: Path, declared: str, text: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create table t (c {declared})")
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"insert into t values ('{text}')")
        assert caught.value.code == "100035"
        assert text in caught.value.message
        assert await local.rows("select count(*) from t") == [(0,)]
        assert await local.rows(f"select try_cast('{text}' as {declared})") == [(None,)]

    local_sql.run_local(tmp_path, work)


def test_intervals_are_compared_grouped_changed_and_loaded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table t (i int, c interval year to month default '9-9',"
            " d interval day to second)"
        )
        await local.rows(
            "insert into t values (1, '1-2', '10 0:0:0'), (2, '-1-2', '9 23:59:59.999999999'),"
            " (3, null, null)"
        )
        await local.rows("insert into t (i, d) select 4, interval '1 2:3:4.5' day to second")
        await local_sql.put_file(local, "@%t", "a.csv", b"5,0-1,-0 0:0:0.1\n")
        await local.rows("copy into t from @%t")
        for condition, expected in (
            ("c > '0-1'", [1, 4]),
            ("c = interval '1-2' year to month", [1]),
            ("c in ('0-1', '-1-2')", [2, 5]),
            ("d < '10 0:0:0'", [2, 4, 5]),
            ("d is null", [3]),
            ("c::varchar like '+%'", [1, 4, 5]),
        ):
            rows = await local.rows(f"select i from t where {condition} order by i")
            assert rows == [(each,) for each in expected], condition
        assert await local.rows("select i from t order by d desc nulls last") == [
            (1,), (2,), (4,), (5,), (3,),
        ]  # fmt: skip
        assert await local.rows(
            "select max(c)::varchar, min(d)::varchar, count(distinct c),"
            " coalesce(min(c), '0-0') = c from t where i = 5 group by c"
        ) == [("+0-01", "-0 00:00:00.100000000", 1, True)]
        await local.rows("update t set c = '2-0' where d > '9 0:0:0' and i > 1")
        await local.rows(
            "merge into t using (select 3 as k, '0-3' as v) on i = k"
            " when matched then update set c = v"
        )
        assert await local.rows("select i, c from t order by i") == [
            (1, 14), (2, 24), (3, 3), (4, 117), (5, 1),
        ]  # fmt: skip
        # Other engines read the numbers.
        loaded = local.lake.load(local.lake.ident("ns.t"))
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        read = {
            row["i"]: (row["c"], row["d"])
            for row in datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out")
        }
        assert read[1] == (14, Decimal(10 * DAY))
        assert read[5] == (1, Decimal(-100_000_000))

    local_sql.run_local(tmp_path, work)


def test_intervals_move_dates_and_timestamps(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 31, 12, 0)  # noqa: DTZ001 - a TIMESTAMP_NTZ

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (c interval year to month, d interval day to second)")
        await local.rows("insert into t values ('-0-2', '1 2:3:4.000005')")
        step = datetime.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=5)
        assert await local.rows(
            "select '2024-01-31'::date + c, c + m, m - c, m - d, d + '2024-01-31'::date,"
            " '2024-01-31 12:00' + d, (m::timestamp_tz + d)::timestamp_ntz"
            " from t, (select '2024-01-31 12:00'::timestamp as m)"
        ) == [
            (
                datetime.date(2023, 11, 30),
                moment.replace(year=2023, month=11, day=30),
                moment.replace(month=3),
                moment - step,
                moment.replace(hour=0) + step,
                moment + step,
                moment + step,
            )
        ]
        for text, code in (
            ("select '2024-01-31'::timestamp + interval '0 0:0:0.0000001' day to second", "000002"),
            ("select c - '2024-01-31'::date from t", "001065"),
            ("select '12:00'::time + d from t", "001065"),
            ("select c + c from t", "001065"),
            ("select c + 1 from t", "001065"),
            ("select c * 2 from t", "001065"),
            ("select -c from t", "001065"),
            ("select sum(c) from t", "001065"),
            ("select c::int from t", "001065"),
            ("select 1::interval month from t", "001065"),
            ("select c::interval month from t", "001065"),
            ("select coalesce(c, '1'::interval month) from t", "001065"),
            ("select c = d from t", "001065"),
            ("select to_variant(c) from t", "000002"),
            ("select array_agg(d) from t", "000002"),
            ("select hash(c) from t", "000002"),
            ("select object_construct('a', c) from t", "000002"),
            ("set v = (select c from t)", "000002"),
            ("insert into t (c) values (interval '1 month')", "001065"),
            ("create table u (c interval year to day)", "000002"),
            ("create table u (c interval day to second(3))", "000002"),
            ("create table u (c interval year(0))", "000002"),
            ("create table u (c interval)", "000002"),
            ("alter table t alter column c type interval month", "002108"),
            ("alter table t alter column c type number(38,0)", "002108"),
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert caught.value.code == code, text

    local_sql.run_local(tmp_path, work)


@given(st.integers(-11_999_999_999, 11_999_999_999))
def test_months_and_their_text_are_inverse(months: int) -> None:
    text = intervals.months_text(months, 0)
    assert intervals.parse_months(text, 0, 9) == months


@given(st.integers(-MOST, MOST))
def test_nanoseconds_and_their_text_are_inverse(nanos: int) -> None:
    text = intervals.nanos_text(nanos, 0)
    assert intervals.parse_nanos(text, 0, 9) == nanos


@pytest.mark.parametrize(
    ("sql_type", "values", "wire"),
    [
        (sqltypes.interval("interval_year_month", 1, 9), [12, None, -24], pa.int64()),
        (sqltypes.interval("interval_day_time", 0, 5), [DAY, None, -1], pa.int64()),
        (sqltypes.interval("interval_day_time", 0, 9), [MOST, None, -MOST], pa.decimal128(38, 0)),
    ],
)
def test_intervals_travel_as_drivers_read_them(
    sql_type: sqltypes.SqlType, values: list[int | None], wire: pa.DataType
) -> None:
    column = sqltypes.column("C", sql_type)
    engine_type = decode.arrow_type(column, "UTC")
    array = pa.array(values, engine_type)
    assert encode.wire_array(column, [array]).type == wire
    entry = rowtypes.rowtype([column])[0]
    assert (entry["type"], entry["precision"], entry["scale"]) == (
        sql_type.name, sql_type.precision, sql_type.scale,
    )  # fmt: skip
    batch = pa.record_batch([array], names=["x"])
    cells = encode.json_rows([batch], [column])
    assert cells == [[None if value is None else str(value)] for value in values]
    assert encode.json_cells([(value,) for value in values], [column]) == cells
    # A stored result is read again.
    schema = pa.schema([pa.field("c0", engine_type)])
    again = decode.from_arrow(encode.arrow_stream([batch], [column]), [column], schema)
    assert again.column(0).combine_chunks().equals(array)
    text = encode.json_list(cells)
    assert decode.from_json(text, [column], schema).column(0).combine_chunks().equals(array)
    assert decode.sql_type(column) == sql_type
    assert isinstance(column, outcomes.Column)
