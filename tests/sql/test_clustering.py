"""Clustering keys that are expressions: Iceberg's transforms, in which INSERT sorts rows."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pytest

from sql import errors
from tests.kit import local_sql

COLUMNS = "n int, ts timestamp, l timestamp_ltz, d date, s varchar"
KEYS = {
    "to_date(ts)": ("day", "TO_DATE(TS)"),
    "date(ts)": ("day", "TO_DATE(TS)"),
    "l::date": ("day", "TO_DATE(L)"),
    "cast(d as date)": ("day", "TO_DATE(D)"),
    "date_trunc('day', ts)": ("day", "TO_DATE(TS)"),
    "date_trunc(month, d)": ("month", "DATE_TRUNC('MONTH', D)"),
    "date_trunc('hour', l)": ("hour", "DATE_TRUNC('HOUR', L)"),
    "year(ts)": ("year", "DATE_TRUNC('YEAR', TS)"),
    "substring(s, 1, 2)": ("truncate[2]", "SUBSTRING(S, 1, 2)"),
    'substr("s", 1, 12)': ("truncate[12]", "SUBSTRING(S, 1, 12)"),
    "left(s, 3)": ("truncate[3]", "SUBSTRING(S, 1, 3)"),
}


def sort_order(local: local_sql.LocalSql) -> list[str]:
    order = local.lake.load(local.lake.ident("ns.t")).metadata.default_sort_order()
    return [field["transform"] for field in order["fields"]]


def test_an_expression_is_a_transform_and_is_shown_again(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for key, (transform, shown) in KEYS.items():
            for words in ("cluster by", "cluster by linear"):
                await local.run(f"create or replace table t ({COLUMNS}) {words} ({key}, n)")
                assert sort_order(local) == [transform, "identity"]
                await local.run("alter table t drop clustering key")
                await local.run(f"alter table t {words} (n, {key})")
                assert sort_order(local) == ["identity", transform]
            text = str(await local.one("select get_ddl('table', 't')"))
            assert f"cluster by (N, {shown})" in text
            (row,) = await local.rows("show tables like 't'")
            assert f"LINEAR(N, {shown})" in row
            await local.run(text)
            assert sort_order(local) == ["identity", transform]

    local_sql.run_local(tmp_path, work)


def _moment(rng: random.Random) -> datetime.datetime | None:
    if rng.random() < 0.1:
        return None
    year = rng.choice((1, 1582, 1677, 1969, 1970, 2024, 2300, 9999))
    month, hour = rng.choice((1, 2, 12)), rng.choice((0, 11, 23))
    return datetime.datetime(  # noqa: DTZ001 - TIMESTAMP_NTZ
        year, month, rng.choice((1, 28)), hour, rng.randrange(60), rng.randrange(60), 1
    )


def _last(value: Any) -> tuple[bool, Any]:
    return value is None, value


ORDERS: dict[str, Any] = {
    "to_date(ts)": lambda ts, s: None if ts is None else ts.date(),
    "date_trunc('month', ts)": lambda ts, s: None if ts is None else (ts.year, ts.month),
    "date_trunc('hour', ts)": lambda ts, s: None if ts is None else (ts.date(), ts.hour),
    "year(ts)": lambda ts, s: None if ts is None else ts.year,
    "date_trunc('month', d)": lambda ts, s: None if ts is None else (ts.year, ts.month),
    "to_date(l)": lambda ts, s: None if ts is None else ts.date(),
    "substring(s, 1, 2)": lambda ts, s: s[:2],
}


@pytest.mark.parametrize("key", ORDERS)
def test_insert_sorts_by_the_expression_and_then_by_the_next_key(tmp_path: Path, key: str) -> None:
    rng = random.Random(5)
    texts = ("", "a", "aé日", "aéx", "ab", "日本", "日本語")
    rows = [(number, _moment(rng), rng.choice(texts)) for number in rng.sample(range(300), 300)]

    def cells(row: tuple[int, datetime.datetime | None, str]) -> str:
        number, moment, text = row
        shown = "null" if moment is None else f"'{moment.isoformat(sep=' ')}'"
        return f"({number}, {shown}, '{text}')"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("alter session set timezone = 'UTC'")
        await local.run(f"create table t ({COLUMNS}) cluster by ({key}, n)")
        listed = ", ".join(map(cells, rows))
        await local.run(
            "insert into t select column1, column2::timestamp, column2::timestamp::timestamp_ltz,"
            f" column2::timestamp::date, column3 from values {listed}"
        )
        ours = [number for (number,) in await local.rows("select n from t")]
        of_row = ORDERS[key]
        theirs = sorted(rows, key=lambda row: (_last(of_row(row[1], row[2])), row[0]))
        assert ours == [number for number, _, _ in theirs]

    local_sql.run_local(tmp_path, work)


REFUSED = (
    "to_date(n)",
    "substring(n, 1, 2)",
    "date_trunc('hour', d)",
    "date_trunc('week', ts)",
    "month(ts)",
    "substring(s, 2, 2)",
    "substring(s, 1, 0)",
    "left(s, n)",
    "upper(s)",
    "n + 1",
    "t.n",
    "to_date(ts, 'auto')",
    "cast(ts as varchar)",
)


def test_other_expressions_are_refused_by_name_and_change_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create table t ({COLUMNS}) cluster by (n)")
        for key in REFUSED:
            for text in (
                f"alter table t cluster by ({key})",
                f"create table u ({COLUMNS}) cluster by ({key})",
            ):
                with pytest.raises(errors.SqlError) as caught:
                    await local.run(text)
                assert (caught.value.code, "CLUSTER BY" in caught.value.message) == (
                    "000002",
                    True,
                ), text
        assert sort_order(local) == ["identity"]
        assert await local.rows("show tables like 'u'") == []

    local_sql.run_local(tmp_path, work)
