"""SUM of a column that COUNT(DISTINCT) and its like count beside it, in comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit import local_sql

CASES: dict[str, list[tuple[Any, ...]]] = {
    "select count(distinct a) from t having sum(a) > 3": [(2,)],
    "select count(distinct a) from t having sum(a) > 5": [],
    "select count(distinct a), sum(a) > 3 from t": [(2, True)],
    "select count(distinct a), iff(sum(a) = 5, 'five', 'other') from t": [(2, "five")],
    "select max(b), sum(distinct a) from t having sum(distinct a) < sum(a)": [(3, 3)],
    "select b, count(distinct a) from t group by b having sum(a) >= 2 order by b": [(2, 2), (3, 1)],
    "select b from t group by b having count(distinct a) = 1 and sum(a) between 1 and 2": [(3,)],
}


def test_sums_beside_distinct_aggregates_are_compared(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a number(5, 0), b int)")
        await local.run("insert into t values (1, 2), (2, 2), (2, 3)")
        for text, rows in CASES.items():
            assert await local.rows(text) == rows, text
        await local.run("create table u as select sum(a) > 4 as c, count(distinct a) as n from t")
        assert await local.rows("select c, n from u") == [(True, 2)]

    local_sql.run_local(tmp_path, work)
