"""Outer joins of constants, in order, as DuckDB has them: rows that a test writes into a query."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import duckdb
import pytest

from tests.kit import local_sql, sql_text

KEYED = "a as (select 3 x, 1 k union all select 2, 1 union all select 1, 1)"
PLAIN = "a as (select 3 x union all select 2 union all select 1)"
OTHER = "b as (select 2 y, 1 k union all select 1, 1)"

QUERIES = (
    f"with {PLAIN}, b as (select x from a where x > 2) select x from a left join b using (x)"
    " order by x",
    f"with {PLAIN}, b as (select 2 x) select a.x, b.x from a left join b on a.x = b.x order by 1",
    f"with {PLAIN}, b as (select 2 x) select a.x, row_number() over (order by a.x desc)"
    " from a left join b on a.x = b.x order by 1",
    f"with {PLAIN}, b as (select 2 x) select a.x from b right join a on a.x = b.x order by 1"
    " limit 2",
    f"with {KEYED}, {OTHER} select x, y from a left join b on a.k = b.k and y = 2 order by 2, 1",
    f"with {KEYED}, {OTHER} select x, y from b left join a on a.k = b.k and x = 2 order by 2",
    f"with {KEYED}, {OTHER} select x, y from b full join a on x = y order by 1, 2",
    f"with {KEYED}, {OTHER} select x, sum(y) from a left join b on x = y group by x order by 1",
)


@pytest.mark.parametrize("text", QUERIES)
def test_rows_are_in_the_order_that_is_asked_for(text: str) -> None:
    plain = text.replace("order by 1, 2", "order by 1 nulls last, 2 nulls last")
    assert sql_text.answer(text).rows == duckdb.sql(plain).fetchall()


def test_a_child_answers_and_explains_such_a_query(tmp_path: Path) -> None:
    async def work() -> None:
        async with local_sql.opened(tmp_path) as local:
            assert await local.rows(QUERIES[0]) == [(1,), (2,), (3,)]
            assert await local.rows(f"explain {QUERIES[0]}")
            await local.run(f"create table t as {QUERIES[0]}")
            assert await local.one("select count(*) from t") == 3

    asyncio.run(work())


def test_each_order_of_the_constants_has_the_same_rows() -> None:
    for order in itertools.permutations((1, 2, 3)):
        union = " union all ".join(f"select {number} x" for number in order)
        text = f"with a as ({union}), b as (select 2 x) select a.x from a left join b using (x)"
        assert sql_text.answer(f"{text} order by 1").rows == [(1,), (2,), (3,)]
        assert sql_text.answer(f"{text} order by 1 desc").rows == [(3,), (2,), (1,)]
