"""PIVOT over values that a query gives: IN (ANY) and IN (SELECT ...)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sql import errors
from tests.kit import local_sql

S = "(select id, amount, q from s)"


def test_a_pivot_over_any_has_a_column_for_each_value(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        async def answer(text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
            described = await local.run(text, describe_only=True)
            return [column.name for column in described.columns], await local.rows(text)

        await local.run("create table s (id int, amount int, q varchar, d date, n number(5,2))")
        await local.run(
            "insert into s values (1, 10, 'a', '2020-01-01', 1.5), (1, 5, 'b', '2020-01-02', -2), "
            "(1, 1, 'a', '2020-01-01', 1.5), (2, 7, 'it''s', '2020-01-02', null), "
            "(3, 1, null, null, null)"
        )
        assert await answer(f"select * from {S} pivot(sum(amount) for q in (any)) order by id") == (
            ["ID", "'a'", "'b'", "'it's'"],
            [(1, 11, 5, None), (2, None, None, 7), (3, None, None, None)],
        )
        text = f"select * from {S} pivot(sum(amount) for q in (any order by q desc)) order by id"
        assert (await answer(text))[0] == ["ID", "'it's'", "'b'", "'a'"]
        text = "select * from (select amount, n from s) pivot(sum(amount) for n in (any))"
        assert await answer(text) == (["-2.00", "1.50"], [(5, 11)])
        text = "select * from (select amount, d from s) pivot(count(amount) for d in (any))"
        assert await answer(text) == (["'2020-01-01'", "'2020-01-02'"], [(2, 2)])
        # A WITH around it, two of them, and one of a query with another table.
        text = f"""
            with x as (select * from {S} where q is not null),
              y as (select * from x pivot(count(amount) for q in (any order by q)))
            select y."'a'", z."'b'" from y
            join (select * from x pivot(max(amount) for q in (select 'b'))) z on z.id = y.id
            order by y.id
        """
        assert await local.rows(text) == [(2, 5), (0, None)]
        text = f"select * from {S} pivot(sum(amount) for q in (select q from s where amount > 6))"
        assert sorted((await answer(text))[0]) == ["'a'", "'it's'", "ID"]
        text = f"select * from {S} pivot(sum(amount) for q in (select q from s where false))"
        assert sorted(await local.rows(text)) == [(1,), (2,), (3,)]
        await local.run("insert into s (id, amount, q) values (4, 9, 'new')")
        assert "'new'" in (await answer(f"select * from {S} pivot(sum(amount) for q in (any))"))[0]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"select * from {S} pivot(sum(amount) for q in (select id, q from s))", "000002"),
        (f"select * from {S} pivot(sum(amount) for q in (select current_timestamp))", "000002"),
        (f"select * from {S} pivot(sum(amount) for q in (select no from s))", "000904"),
        (
            f"insert into s (id) select id from {S} pivot(sum(amount) for q in (any))",
            "000002",
        ),
        (
            "select * from (select seq4() id, 1 amount from table(generator(rowcount => 5000))) "
            "pivot(sum(amount) for id in (any))",
            "000625",
        ),
    ],
)
def test_a_pivot_over_other_values_is_refused(tmp_path: Path, text: str, code: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s (id int, amount int, q varchar)")
        with pytest.raises(errors.SqlError) as refusal:
            await local.run(text)
        assert refusal.value.code == code

    local_sql.run_local(tmp_path, work)
