"""Conditions on values of which a cast cuts digits, or the day of a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit import local_sql

PRICES = "1 0.40\n2 0.50\n3 1.49\n4 1.50\n5 2.49\n6 -0.50\n7 -0.49"
"""Rounded half away from zero: 0, 1, 1, 2, 2, -1, 0."""

CASES: dict[str, list[Any]] = {
    "p::int = 1": [2, 3],
    "p::number(10, 0) = 1.00": [2, 3],
    "1 = p::int": [2, 3],
    "p::int in (0, 2)": [1, 4, 5, 7],
    "p::int not in (0, 2)": [2, 3, 6],
    "p::int > 0": [2, 3, 4, 5],
    "p::int <= 0": [1, 6, 7],
    "p::int <> 1": [1, 4, 5, 6, 7],
    "p::int between 1 and 1": [2, 3],
    "p::int is not distinct from 2": [4, 5],
    "p::number(10, 1) = 1.5": [3, 4],
    "p::number(10, 1)::number(20, 4) = 0.5": [2],
    "try_cast(p::varchar as int) = 2": [4, 5],
    "p::int::number(20, 3) = -1": [6],
    "(p * 1.0000000000)::int = 2": [4, 5],
    "big * big = 0.012345678765": [5],
    "at::time = '09:30:00'": [1, 3],
    "at::time in ('09:30:00', '23:59:59.999999')": [1, 3, 5],
    "at::time < '09:00:00'": [2],
    "at::time >= '09:30:00'": [1, 3, 4, 5],
    "at::time between '00:00:00' and '09:30:00'": [1, 2, 3],
    "to_time(at) = '08:00:00'": [2],
    "at::timestamp_ltz::time = '08:00:00'": [2],
    "at::timestamp_tz::time = '08:00:00'": [2],
    "at::date = '2024-03-01'": [1, 2],
    "at::date < '2024-03-01'": [5],
}
MOMENTS = [
    "2024-03-01 09:30:00",
    "2024-03-01 08:00:00",
    "2024-03-02 09:30:00",
    "2024-03-02 10:00:00",
    "1969-12-31 23:59:59.999999",
]


@pytest.mark.parametrize("is_inner", [False, True], ids=["plain", "of a query"])
def test_conditions_hold_for_the_values_that_casts_give(tmp_path: Path, is_inner: bool) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, p number(12, 2), big number(30, 8), at timestamp)")
        for line, at in zip(PRICES.split("\n"), [*MOMENTS, "null", "null"], strict=True):
            number, price = line.split()
            moment = at if at == "null" else f"'{at}'"
            big = "0.11111111" if number == "5" else "0.5"
            await local.run(f"insert into t select {number}, {price}, {big}, {moment}")
        for condition, ids in CASES.items():
            text = f"select id from t where {condition} order by id"
            if is_inner:
                text = f"select id from (select id, {condition} as holds from t) "
                text += "where holds order by id"
            assert await local.rows(text) == [(each,) for each in ids], condition

    local_sql.run_local(tmp_path, work)
