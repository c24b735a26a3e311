"""ORDER BY the MIN or MAX of a window whose first rows see no value."""

from __future__ import annotations

from pathlib import Path

from tests.kit import local_sql

BEFORE = "over (order by a rows between 3 preceding and 1 preceding)"


def test_rows_are_in_the_order_of_extremes_that_are_null_at_first(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1), (2), (3)")
        text = f"select a, max(a) {BEFORE} as m from t order by"
        assert await local.rows(f"{text} m") == [(2, 1), (3, 2), (1, None)]
        assert await local.rows(f"{text} m nulls first") == [(1, None), (2, 1), (3, 2)]
        assert await local.rows(f"{text} m nulls last limit 1") == [(2, 1)]
        assert await local.rows(f"select m from ({text} a) order by m") == [(1,), (2,), (None,)]
        falling = "over (order by a desc rows between unbounded preceding and 1 preceding)"
        rows = await local.rows(
            f"select a, min(a) {falling} as m from t order by m desc nulls last"
        )
        assert rows == [(2, 3), (1, 2), (3, None)]
        ranked = f"select a, row_number() over (order by m) from ({text} a) order by 2"
        assert await local.rows(ranked) == [(2, 1), (3, 2), (1, 3)]

    local_sql.run_local(tmp_path, work)
