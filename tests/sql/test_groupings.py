"""GROUP BY with ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors
from tests.kit import local_sql

CASES = {
    # keys that are conditions
    "select column1 > 1, count(*) from values (1),(2),(3) group by rollup(column1 > 1)"
    " order by 1": [
        (False, 1), (True, 2), (None, 3),
    ],
    "select column1 like 'a%', count(*) from values ('a'),('b') group by cube(column1 like 'a%')"
    " order by 1": [(False, 1), (True, 1), (None, 2)],
    "select column1 > 1, count(*) from values (1),(2) group by grouping sets (column1 > 1, ())"
    " order by 1": [(False, 1), (True, 1), (None, 2)],
    # keys that are repeated: each set is there as often as the words say
    "select column1, count(*) from values (1),(2) group by rollup(column1, column1) order by 1": [
        (1, 1), (1, 1), (2, 1), (2, 1), (None, 2),
    ],
    "select column1, column1 c, count(*) from values (1),(2) group by cube(column1, c)"
    " order by 1": [
        *[(1, 1, 1)] * 3, *[(2, 2, 1)] * 3, (None, None, 2),
    ],
    "select column1, count(*) from values (1),(2) group by grouping sets ((column1, column1), ())"
    " order by 1": [(1, 1), (2, 1), (None, 2)],
    # constants are no keys, but count as elements
    "select column1, count(*) from values (1),(2) group by rollup(column1, 'x') order by 1": [
        (1, 1), (1, 1), (2, 1), (2, 1), (None, 2),
    ],
    "select count(*) from values (1),(2) group by cube('x')": [(2,), (2,)],
    # several keys are one element
    "select column1, column2, column3, count(*) from values (1,1,1),(2,1,1)"
    " group by rollup((column1, column2), column3) order by 1, 2, 3": [
        (1, 1, 1, 1), (1, 1, None, 1), (2, 1, 1, 1), (2, 1, None, 1), (None, None, None, 2),
    ],
    # no key: one group, also of no rows
    "select count(*) from values (1),(2) group by ()": [(2,)],
    "select 7 from values (1),(2) group by (), ()": [(7,)],
    "select count(*), max(column1) from values (1) where column1 > 1 group by ()": [(0, None)],
    "select column1, count(*) from values (1),(2) group by (), column1 order by 1": [
        (1, 1), (2, 1),
    ],
}  # fmt: skip


def test_groups_are_those_of_every_set(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text, expected in CASES.items():
            assert await local.rows(text) == expected, text

    local_sql.run_local(tmp_path, work)


def test_sets_that_are_written_out_are_bounded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        keys = ", ".join(["column1"] * 13)
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"select count(*) from values (1) group by cube({keys})")
        assert caught.value.code == "000002"
        rows = await local.rows(f"select count(*) from values (1) group by rollup({keys})")
        assert rows == [(1,)] * 14

    local_sql.run_local(tmp_path, work)
