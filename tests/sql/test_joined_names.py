"""Joined relations whose columns have one name, above other joins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit import local_sql

# The engine finds the bounds of g while it runs, and looked for them in the NULLs beside it.
OUTER = """
    select b.c
    from (select y.g as c from big x right join big y on x.m = y.m) a
    left join (select m as c from small limit 0) b on null::boolean
    right join small s on a.c = s.g
"""

CASES: dict[str, list[tuple[Any, ...]]] = {
    OUTER: [(None,)] * 45,
    """
    select greatest(datediff('week', a.d, b.e), charindex(',', a.s)) from small a
    left join big b on a.id = b.id where contains(b.s, '7')
    """: [(1,)],
    "select x.id, y.id, z.id from small x join small y on x.id = y.g join big z on z.id = y.id"
    " order by y.id, z.id limit 2": [(0, 0, 0), (1, 1, 1)],
    "select x.g, y.g from big x join small y using (id) order by y.g desc, id limit 1": [
        (3.0, 3.0)
    ],
    "select * from small x join small y on x.id = y.id join small z on z.id = y.id order by 1"
    " limit 1": [(0, 0.0, 100.0, *["x"], *[None] * 2, 0, 0.0, 100.0, "x", None, None,
                  0, 0.0, 100.0, "x", None, None)],
    "select id from (select x.id, y.id as other from small x join big y on x.id = y.m) where"
    " other > 6 order by id": [(7,), (8,)],
    "select x.id from small x join big y on x.id = y.m where exists"
    " (select 1 from big z where z.id = x.id and z.g = y.g and z.id > 6) order by 1": [(7,), (8,)],
    "select (select max(z.g) from big z where z.id = x.id) from small x join small y"
    " on x.id = y.id where y.id < 2 order by x.id": [(0.0,), (1.0,)],
}  # fmt: skip


def test_rows_are_those_of_the_columns_that_are_named(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for name, count, groups, least in (("big", 24, 5, 0), ("small", 9, 4, 100)):
            await local.run(
                f"create table {name} (id int, g float, m float, s varchar, d date, e date)"
            )
            rows = ", ".join(
                f"({i}, {i % groups}, {i + least}, 'x{i or ''}', {DAY}, {DAY} + 7)"
                if i == 7
                else f"({i}, {i % groups}, {i + least}, 'x{i or ''}', null, null)"
                for i in range(count)
            )
            await local.run(f"insert into {name} select * from values {rows}")
        for text, expected in CASES.items():
            assert await local.rows(text) == expected, text

    local_sql.run_local(tmp_path, work)


DAY = "'2024-01-01'::date"
