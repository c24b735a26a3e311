"""Random statements that change tables leave the rows that DuckDB has after them.

`random_changes` says what is drawn. PyIceberg reads the tables in the end.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit import changing, local_sql

FIRST_SEED = int(os.environ.get("BOATHOUSE_SQL_SEED", "0"))
STEPS = 50


def check(folder: Path, seeds: range, steps: int) -> changing.Tally:
    tally = changing.Tally()
    for seed in seeds:

        async def work(local: local_sql.LocalSql, seed: int = seed) -> None:
            await changing.check(local, seed, steps, tally, folder / f"{seed}.out")

        local_sql.run_local(folder / str(seed), work)
    print(f"{tally.steps} statements, {tally.rows} rows, {sum(tally.refused.values())} refused")
    for text, count in tally.refused.most_common(20):
        print(f"  {count:6} {text}")
    assert sum(tally.refused.values()) < tally.steps / 3
    return tally


@pytest.mark.further(
    "tests/sql/test_changes_oracle.py::test_generated_changes_leave_the_rows_that_duckdb_leaves"
)
def test_random_changes_leave_the_rows_that_duckdb_has(tmp_path: Path) -> None:
    tally = check(tmp_path, range(4), 30)
    assert tally.steps == 120


@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("start", range(0, 400, 100))
def test_thousands_of_random_changes_leave_the_rows_that_duckdb_has(
    tmp_path: Path, start: int
) -> None:
    first = FIRST_SEED + 4 + start
    check(tmp_path, range(first, first + 100), STEPS)


def test_a_row_that_duckdb_lacks_is_found(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        run = changing.Run(local, 0, changing.Tally())
        await run.run(5)
        table = run.tables["t0"]
        required = "".join(
            f", {each.type.literals[0][0]}" if each.is_required else ", null"
            for each in table.columns
        )
        await local.rows(f"insert into t0 ({table.names()}) select 900{required}")
        with pytest.raises(changing.Difference, match="900"):
            await run.run_more(1)

    local_sql.run_local(tmp_path, work)
