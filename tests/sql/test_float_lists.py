"""Conditions with several floats, of which 0.0 equals -0.0."""

from __future__ import annotations

from pathlib import Path

from tests.kit import local_sql

CASES = {
    "-g in (0, 5)": [1, 2],
    "-g not in (0, 5)": [3],
    "-g in (5, 1.5)": [],
    "z in (-g, 7, 8)": [1, 2],
    "z in (-g)": [1, 2],
    "-g in (z, 2)": [1, 2],
    "-g in (0, null)": [1, 2],
    "-g = 0 or -g = 5 or -g = 6 or -g = 7 or -g = 8": [1, 2],
    "-g <> 0 and -g <> 5 and -g <> 6 and -g <> 7 and -g <> 8": [3],
    "g in (0, 1.5)": [1, 2, 3],
    "negative in (0, 5)": [1, 2, 3],
    "negative in (-0.0::float, 5, 6, 7, 8)": [1, 2, 3],
    "negative = 0 or negative = 5 or negative = 6 or negative = 7 or negative = 8": [1, 2, 3],
    "not (negative = 0 or negative = 5 or negative = 6 or negative = 7 or negative = 8)": [],
    "z = -0e0 or z = 5 or z = 6 or z = 7 or z = 8": [1, 2, 3],
    "-g = 0::float or -g = 5 or -g = 6 or -g = 7 or -g = 8": [1, 2],
    "-g = round(-0.4::float) or -g = 5 or -g = 6 or -g = 7 or -g = 8": [1, 2],
    "negative in ('0', 5, 6, 7, 8)": [1, 2, 3],
    "negative = 0 and id = 2": [2],
}


def test_lists_hold_both_zeros(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, g float, z float, negative float)")
        await local.run("insert into t select column1, column2, 0, -column3 from values "
                        "(1, 0, 0::float), (2, 0, 0::float), (3, 1.5, 0::float)")  # fmt: skip
        for condition, ids in CASES.items():
            rows = await local.rows(f"select id from t where {condition} order by id")
            assert rows == [(each,) for each in ids], condition
            text = f"select id from (select id, {condition} as holds from t) where holds order by 1"
            assert await local.rows(text) == rows, condition

    local_sql.run_local(tmp_path, work)
