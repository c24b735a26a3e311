"""Local times of zones after 2037, where Arrow's tables of most zones end."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sql import errors, zones
from tests.kit import local_sql

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def micros(text: str) -> int:
    return (datetime.datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // MICROSECOND


# Summer time of the United States is from the second Sunday of March to the first of November, of
# the European Union from the last Sunday of March to the last of October.
LOCAL_AND_UTC = [
    ("America/Los_Angeles", "2050-07-01 12:00:00", "2050-07-01 19:00:00"),
    ("America/Los_Angeles", "2050-03-13 01:59:59", "2050-03-13 09:59:59"),
    ("America/Los_Angeles", "2050-03-13 03:00:00", "2050-03-13 10:00:00"),
    ("America/Los_Angeles", "2099-12-31 12:00:00", "2099-12-31 20:00:00"),
    ("Europe/Berlin", "2038-03-28 01:59:59.999999", "2038-03-28 00:59:59.999999"),
    ("Europe/Berlin", "2038-03-28 03:00:00", "2038-03-28 01:00:00"),
    ("Europe/Berlin", "2098-10-26 02:59:59", "2098-10-26 00:59:59"),
    ("Australia/Sydney", "2060-01-15 00:00:00", "2060-01-14 13:00:00"),
    ("Asia/Kolkata", "2060-06-15 00:00:00", "2060-06-14 18:30:00"),
    ("America/Los_Angeles", "2036-07-01 12:00:00", "2036-07-01 19:00:00"),
    ("America/Los_Angeles", "1950-01-01 12:00:00", "1950-01-01 20:00:00"),
]


@pytest.mark.parametrize(("zone", "local", "utc"), LOCAL_AND_UTC)
def test_local_times_and_instants_follow_the_rule_of_the_zone(
    zone: str, local: str, utc: str
) -> None:
    shown = zones.local_of(pa.array([micros(utc), None], pa.int64()), zone)
    assert shown.cast(pa.int64()).to_pylist() == [micros(local), None]
    instants = zones.instants_of(pa.array([micros(local), None], pa.timestamp("us")), zone)
    assert instants.cast(pa.int64()).to_pylist() == [micros(utc), None]


def test_repeated_and_skipped_hours_after_2037_are_read_as_those_before() -> None:
    def instant(local: str) -> list[Any]:
        array = pa.array([micros(local)], pa.timestamp("us"))
        return list(zones.instants_of(array, "Europe/Berlin").cast(pa.int64()).to_pylist())

    for repeated, skipped in (("2036-10-26", "2036-03-30"), ("2050-10-30", "2050-03-27")):
        assert instant(f"{repeated} 02:30:00") == [micros(f"{repeated} 00:30:00")]
        assert instant(f"{skipped} 02:30:00") == [micros(f"{skipped} 01:30:00")]


def test_early_and_late_values_of_one_array_are_each_computed() -> None:
    texts = ["2000-07-01 00:00:00", "2050-07-01 00:00:00", "2150-07-01 00:00:00"]
    array = pa.array([*map(micros, texts), None, micros(texts[1])], pa.int64())
    shown = zones.local_of(array, "Europe/Berlin").cast(pa.int64()).to_pylist()
    hours = [None if each is None else (each - micros(texts[0])) // 3_600_000_000 for each in shown]
    assert [None if hour is None else hour % 24 for hour in hours] == [2, 2, 1, None, 2]


def test_a_zone_that_is_an_offset_has_no_rule() -> None:
    shown = zones.local_of(pa.array([micros("2050-07-01 00:00:00")], pa.int64()), "+07:00")
    assert shown.cast(pa.int64()).to_pylist() == [micros("2050-07-01 07:00:00")]


@pytest.mark.parametrize(
    "zone", ["America/New_York", "Europe/London", "Australia/Sydney", "Asia/Tokyo", "Africa/Cairo"]
)
def test_texts_and_parts_of_instants_agree_in_every_year(tmp_path: Path, zone: str) -> None:
    """The engine computes the parts, kernels the texts and what texts mean."""
    moments = [
        datetime.datetime(year, month, 15, 12, 30, tzinfo=UTC)
        for year in range(2030, 2125, 5)
        for month in (1, 4, 7, 10)
    ]
    rows = ", ".join(f"('{moment:%Y-%m-%d %H:%M:%S} +00:00')" for moment in moments)

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"alter session set timezone = '{zone}'")
        read = await local.rows(
            "select c::timestamp_ntz::varchar, left(c::varchar, 23), to_char(c, 'TZH:TZM'),"
            " c::varchar::timestamp_ltz = c, c::timestamp_ntz::timestamp_ltz = c"
            f" from (select column1::timestamp_ltz as c from values {rows})"
        )
        for moment, (naive, text, offset, same, again) in zip(moments, read, strict=True):
            assert (naive, same, again) == (text, True, True), moment
            if moment.year < 2100:
                shown = moment.astimezone(zoneinfo.ZoneInfo(zone))
                assert naive == f"{shown:%Y-%m-%d %H:%M:%S}.000"
                assert offset.replace(":", "") == f"{shown:%z}"

    local_sql.run_local(tmp_path, work)


def test_an_instant_stays_where_the_offset_of_a_zone_has_seconds(tmp_path: Path) -> None:
    """Local mean time was 9:18:59 after UTC in Tokyo and 4:56:02 before it in New York. Offsets
    have whole minutes, so the local time that is shown is another one."""

    async def work(local: local_sql.LocalSql) -> None:
        for zone, shown in (
            ("Asia/Tokyo", "1849-12-31 23:59:01.123 +0918"),
            ("America/New_York", "1850-01-01 00:00:02.123 -0456"),
        ):
            await local.rows(f"alter session set timezone = '{zone}'")
            for spelled in (
                "c::timestamp_tz",
                "c::timestamp_ltz::timestamp_tz",
                "c::timestamp_ntz::timestamp_tz",
                "to_variant(c::timestamp_ltz)::timestamp_tz",
                "to_variant(c::timestamp_ntz)::timestamp_tz",
                "to_variant(c)::timestamp_tz",
                "object_construct('a', c::timestamp_ltz):a::timestamp_tz(6)",
            ):
                query = (
                    f"select z::varchar, z::timestamp_ltz = c::timestamp_ltz"
                    f" from (select column1 as c, {spelled} as z"
                    f" from values ('1850-01-01 00:00:00.123456'))"
                )
                assert await local.rows(query) == [(shown, True)], (zone, spelled)

    local_sql.run_local(tmp_path, work)


def test_a_local_time_in_the_first_hours_of_year_1_may_lie_in_year_0_of_utc(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        first, year_0 = "0001-01-01 00:00:00.000 +0000", "0001-01-01 00:00:00.000 +1400"
        await local.rows("create table t (z timestamp_tz)")
        await local.rows(f"insert into t values ('{first}'), ('{year_0}')")
        for condition, rows in (
            (f"z = '{first}'", [first]),
            (f"z = '{year_0}'", [year_0]),
            (f"z > '{year_0}'", [first]),
            (f"z in ('{year_0}', '2024-01-01')", [year_0]),
        ):
            query = f"select z::varchar from t where {condition}"
            assert await local.rows(query) == [(row,) for row in rows], condition

    local_sql.run_local(tmp_path, work)


def test_a_variant_becomes_a_timestamp_tz_with_all_its_digits(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        shown = "to_char({}, 'YYYY-MM-DD HH24:MI:SS.FF6 TZH:TZM')"
        for value, text in (
            (
                "to_variant('2024-01-02 03:04:05.123456'::timestamp_ntz)::timestamp_tz",
                "2024-01-02 03:04:05.123456 +00:00",
            ),
            (
                "parse_json('\"2024-01-02 03:04:05.123456789 +03:00\"')::timestamp_tz(5)",
                "2024-01-02 03:04:05.123450 +03:00",
            ),
            ("parse_json('1700000000')::timestamp_tz", "2023-11-14 22:13:20.000000 +00:00"),
            ("parse_json('null')::timestamp_tz", None),
        ):
            assert await local.one(f"select {shown.format(value)}") == text, value
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select parse_json('true')::timestamp_tz")
        refused = 'Failed to cast variant value "true" to TIMESTAMP_TZ'
        assert (caught.value.code, caught.value.message) == ("100071", refused)

    local_sql.run_local(tmp_path, work)
