"""Texts with years of five digits, which Python's datetimes do not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sql import errors, moment_kernels
from tests.kit import local_sql

DAYS_TO_10000 = 2_932_897
"""From 1970-01-01 to 10000-01-01: what follows 9999-12-31, which Python has."""
DAY = 86_400_000_000


async def micros(local: local_sql.LocalSql, moment: str) -> list[Any]:
    """The microseconds since 1970 of a moment, counted apart from how it is read."""
    return await local.rows(f"select datediff(microsecond, '1970-01-01'::timestamp, {moment})")


def test_a_text_with_a_year_of_five_digits_is_a_date_or_a_timestamp(tmp_path: Path) -> None:
    clock = 45_296 * 1_000_000 + 987_654

    async def work(local: local_sql.LocalSql) -> None:
        assert await local.rows(
            "select datediff(day, '1970-01-01'::date, c::date), c::date::varchar,"
            " c::timestamp_ntz::varchar from (select column1 as c from values"
            " ('10000-01-01'), ('9999-12-31'), (null), (' 20240-02-29 '), ('99999-12-31 00:00'))"
        ) == [
            (DAYS_TO_10000, "10000-01-01", "10000-01-01 00:00:00.000"),
            (DAYS_TO_10000 - 1, "9999-12-31", "9999-12-31 00:00:00.000"),
            (None, None, None),
            # 20240 and 2024 differ by 18,216 years: 45 cycles of 146,097 days and 216 years,
            # which have 52 leap years.
            (19_782 + 45 * 146_097 + 216 * 365 + 52, "20240-02-29", "20240-02-29 00:00:00.000"),
            (
                DAYS_TO_10000 - 1 + 225 * 146_097,
                "99999-12-31",
                "99999-12-31 00:00:00.000",
            ),
        ]
        moment = "'10000-01-01 12:34:56.987654'"
        expected = DAYS_TO_10000 * DAY + clock
        for text in (
            f"{moment}::timestamp_ntz",
            f"to_timestamp({moment})",
            f"try_to_timestamp({moment})",
            f"{moment}::timestamp_ntz(6)",
            "parse_json('\"10000-01-01T12:34:56.987654\"')::timestamp_ntz",
            "(select '10000-01-01 14:34:56.987654 +02:00'::timestamp_ltz)::timestamp_ntz",
            "convert_timezone('UTC', '10000-01-01 05:34:56.987654 -07:00'::timestamp_tz)"
            "::timestamp_ntz",
        ):
            assert await micros(local, text) == [(expected,)], text

    local_sql.run_local(tmp_path, work)


def test_zones_have_no_summer_time_in_far_years(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("alter session set timezone = 'America/Los_Angeles'")
        assert await local.rows(
            "select c::timestamp_ltz::varchar, c::timestamp_tz::varchar,"
            " convert_timezone('UTC', c::timestamp_ltz)::varchar"
            " from (select column1 as c from values ('19999-09-30 12:34:56'),"
            " ('19999-12-30 12:34:56'), ('19999-12-30 12:34:56 +05:30'))"
        ) == [
            (
                "19999-09-30 12:34:56.000 -0800",
                "19999-09-30 12:34:56.000 -0800",
                "19999-09-30 20:34:56.000 +0000",
            ),
            (
                "19999-12-30 12:34:56.000 -0800",
                "19999-12-30 12:34:56.000 -0800",
                "19999-12-30 20:34:56.000 +0000",
            ),
            (
                "19999-12-29 23:04:56.000 -0800",
                "19999-12-30 12:34:56.000 +0530",
                "19999-12-30 07:04:56.000 +0000",
            ),
        ]

    local_sql.run_local(tmp_path, work)


def test_far_years_are_written_compared_and_shown(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, d date, m timestamp, z timestamp_ltz)")
        await local.rows(
            "insert into t values (1, '9999-12-31', '9999-12-31 23:59:59', '9999-12-31 23:59:59'),"
            " (2, '10000-01-01', '10000-01-01 00:00:00.5', '10000-01-01')"
        )
        await local.rows("update t set a = 3, d = dateadd(day, 1, d) where m > '10000-01-01'")
        shown = "select a, d::varchar, m::varchar, z::varchar, to_char(d, '+YYYY') from t"
        row = (3, "10000-01-02", "10000-01-01 00:00:00.500", "10000-01-01 00:00:00.000 +0000")
        assert await local.rows(f"{shown} where d > '10000-01-01' and z >= '10000-01-01'") == [
            (*row, "+10000")
        ]
        assert await local.rows(f"{shown} where m < '10000-01-01 00:00:00.5'") == [
            (1, "9999-12-31", "9999-12-31 23:59:59.000", "9999-12-31 23:59:59.000 +0000", "+9999")
        ]
        assert await local.rows("select max(d)::varchar, year(max(m)) from t") == [
            ("10000-01-02", 10_000)
        ]
        assert await local.rows("select year(m) * 900000000000000 from t where a = 3") == [
            (9_000_000_000_000_000_000,)
        ]
        assert await local.rows("select year(m) * 9000000000000000 from t where a = 3") == [
            (90_000_000_000_000_000_000,)
        ]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("select '10000-13-01'::date", "100040"),
        ("select '10001-02-29'::timestamp", "100035"),
        ("select '010000-01-01'::date", "100040"),
        ("select '100000-01-01'::date", "100040"),
        ("select '10000-01-01 00:00:00.000000001'::timestamp", "000002"),
        ("select add_months('10000-01-05'::date, 1)", "100039"),
        ("select months_between('10000-01-01'::date, '9999-01-01'::date)", "100039"),
        ("select time_slice('10000-01-01'::timestamp, 1, 'month')", "100039"),
    ],
)
def test_what_is_no_moment_or_is_not_computed_is_refused(
    tmp_path: Path, text: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(text)
        assert caught.value.code == code

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "select * from t at (timestamp => '10000-01-01 00:00:00')",
        "select * from t at (timestamp => '10000-01-01'::timestamp_ntz)",
        "select * from t before (timestamp => '10000-01-01 00:00:00 +00:00'::timestamp_tz)",
        "select * from t before (timestamp => to_timestamp_ltz('10000-01-01'))",
        "set x = '10000-01-01'::date",
        "set x = '10000-01-01'::timestamp_ntz",
        "set x = '10000-01-01'::timestamp_ltz",
        "select * from (select a, d from t) pivot (sum(a) for d in (any))",
    ],
)
def test_places_that_take_no_year_after_9999_refuse_it_by_name(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, d date)")
        await local.run("insert into t values (1, '10000-01-01')")
        with pytest.raises(errors.SqlError, match="year after 9999") as caught:
            await local.rows(text)
        assert caught.value.code == "000002"

    local_sql.run_local(tmp_path, work)


def test_kernels_read_far_and_near_years_together() -> None:
    kernel = moment_kernels.FAMILIES[0][1](moment_kernels.FAMILIES[0][0].fullmatch("_try_to_date"))
    days = kernel.function(pa.array(["10000-01-01", "1970-01-02", "10000-00-01", None, "x"]))
    assert days.cast(pa.int32()).to_pylist() == [DAYS_TO_10000, 1, None, None, None]
