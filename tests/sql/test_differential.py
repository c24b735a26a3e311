"""Random typed queries give DuckDB's answers.

`typed_queries.FORMS` says why a text for DuckDB differs, and its docstring what is not compared.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sql.dialect import functions
from tests.kit import differential, local_sql, typed_queries

pytestmark = pytest.mark.campaign

FIRST_SEED = int(os.environ.get("BOATHOUSE_SQL_SEED", "0"))
SHORT = 250
SHORT_MARKED = 40
"""Queries in `make test`; a query costs 60 ms. A hundred thousand are in `make test-long`."""

DIFFERENCES_MAX = 5
"""A run stops there: each difference costs as much as hundreds of queries."""


def tally_of(
    folder: Path, seeds: range, *, marked_version: int | None = None
) -> differential.Tally:
    async def work(local: local_sql.LocalSql) -> differential.Tally:
        comparison = differential.Comparison(local)
        await comparison.create_tables(marked_version=marked_version)
        tally = differential.Tally()
        for seed in seeds:
            await comparison.run(seed, tally)
            if len(tally.differences) >= DIFFERENCES_MAX:
                break
        return tally

    return local_sql.run_local(folder, work)


def short_seeds(format_version: int) -> range:
    """Return the seeds of `make test` for tables with delete files."""
    first = SHORT * format_version
    return range(first, first + SHORT_MARKED)


def check(tally: differential.Tally) -> None:
    print(
        f"{tally.queries} queries: {tally.answered} equal, {tally.rows} rows, "
        f"{sum(tally.refused.values())} refused, {sum(tally.failed.values())} failed in both"
    )
    for text, count in (*tally.refused.most_common(20), *tally.failed.most_common(20)):
        print(f"  {count:6} {text}")
    assert not tally.differences, "\n\n".join(tally.differences)
    assert sum(tally.refused.values()) < tally.queries / 3
    assert sum(tally.failed.values()) < tally.queries / 100


@pytest.mark.timeout(600)
def test_random_queries_give_duckdbs_answers(tmp_path: Path) -> None:
    check(tally_of(tmp_path, range(SHORT)))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("format_version", [2, 3])
def test_random_queries_of_tables_with_delete_files_give_duckdbs_answers(
    tmp_path: Path, format_version: int
) -> None:
    check(tally_of(tmp_path, short_seeds(format_version), marked_version=format_version))


@pytest.mark.long
@pytest.mark.timeout(10_000)
def test_a_hundred_thousand_random_queries_give_duckdbs_answers(tmp_path: Path) -> None:
    check(tally_of(tmp_path, range(FIRST_SEED + SHORT, FIRST_SEED + SHORT + 100_000)))


@pytest.mark.long
@pytest.mark.timeout(1_000)
@pytest.mark.parametrize("format_version", [2, 3])
def test_thousands_of_random_queries_of_tables_with_delete_files_give_duckdbs_answers(
    tmp_path: Path, format_version: int
) -> None:
    first = FIRST_SEED + short_seeds(format_version).stop
    seeds = range(first, first + 2_000)
    check(tally_of(tmp_path, seeds, marked_version=format_version))


@pytest.mark.smoke
def test_the_generator_calls_functions_of_the_dialects_table_alone() -> None:
    operators = {"CAST", "NUMBER"}
    called = {
        name.upper()
        for form in typed_queries.FORMS
        for name in typed_queries.CALL.findall(form.ours)
    }
    assert called - operators <= set(functions.FUNCTIONS)


def test_a_planted_difference_is_found_and_shrunk(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> differential.Tally:
        comparison = differential.Comparison(local)
        await comparison.create_tables()
        row = "99, 4242, 0.0, '', '2024-01-01'"
        await local.run(f"insert into t0 (id, n, r, y, z) values ({row})")
        tally = differential.Tally()
        for seed in range(100):
            await comparison.run(seed, tally)
            if tally.differences:
                break
        return tally

    (text,) = local_sql.run_local(tmp_path, work).differences
    ours = text.split("Boathouse: ")[1].split("\n")[0]
    assert " t0 " in ours
    assert len(ours) < 300
