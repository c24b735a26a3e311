"""ASOF JOIN, compared with the closest rows that plain Python finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sql import errors
from tests.kit import local_sql

COMPARISONS: dict[str, tuple[Callable[[int, int], bool], Callable[[list[int]], int]]] = {
    ">=": (lambda at, other: at >= other, max),
    ">": (lambda at, other: at > other, max),
    "<=": (lambda at, other: at <= other, min),
    "<": (lambda at, other: at < other, min),
}


def test_each_row_stands_beside_the_closest_row_of_its_key(tmp_path: Path) -> None:
    draw = random.Random(7)
    # No two rows of the right table have the same key and moment, so that one is the closest.
    keys = ["a", "b", None]
    left = [(number, draw.choice(keys), draw.choice([None, *range(30)])) for number in range(60)]
    right = sorted({(draw.choice(["a", "b"]), draw.randrange(30)) for _ in range(25)})

    def closest(comparison: str, key: str | None, at: int | None, *, by_key: bool) -> int | None:
        holds, choose = COMPARISONS[comparison]
        candidates = [
            moment
            for other, moment in right
            if at is not None and holds(at, moment) and (other == key or not by_key)
        ]
        return choose(candidates) if candidates else None

    def literal(value: object) -> str:
        return "null" if value is None else repr(value)

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table l (id int, k varchar, at int)")
        await local.run("create table r (k varchar, at int, v number(10,2), n int, d variant)")
        rows = ", ".join(f"({', '.join(map(literal, row))})" for row in left)
        await local.run(f"insert into l values {rows}")
        for part in (right[::2], right[1::2]):  # two files
            rows = ", ".join(f"('{key}', {at}, {at}.5, null)" for key, at in part)
            await local.run(f"insert into r (k, at, v, n) values {rows}")
        await local.run("insert into r (k, at, v) values (null, 3, 1), ('a', null, 1)")
        for comparison in COMPARISONS:
            text = f"""
                select l.id, r.at, r.v - 0.5, r.n from l
                asof join r match_condition (l.at {comparison} r.at) on l.k = r.k order by l.id
            """
            expected = [closest(comparison, key, at, by_key=True) for _, key, at in left]
            answers = await local.rows(text)
            assert [row[:2] for row in answers] == list(enumerate(expected)), comparison
            assert all(row[2:] == (row[1], None) for row in answers)
        text = "select id, r.at from l asof join r match_condition (l.at >= r.at) order by id"
        await local.run("create or replace table r as select * from r where k is not null")
        every = [closest(">=", key, at, by_key=False) for _, key, at in left]
        assert await local.rows(text) == list(enumerate(every))
        # A condition on the closest row excludes no file of the rows that could be it.
        text = """
            select id, k, r.at from l asof join r match_condition (l.at >= r.at) using (k)
            where r.at < 10 and l.at is not null order by id
        """
        assert await local.rows(text) == [
            (number, key, moment)
            for number, key, at in left
            if (moment := closest(">=", key, at, by_key=True)) is not None and moment < 10
        ]
        text = """
            select count(*), count(x.at), count(y.at) from l
            asof join r x match_condition (l.at >= x.at) on l.k = x.k
            asof join r y match_condition (x.at > y.at) on y.k = x.k join l z on z.id = l.id
        """
        ((total, first, second),) = await local.rows(text)
        nearest = [closest(">=", key, at, by_key=True) for _, key, at in left]
        before = [
            closest(">", key, moment, by_key=True)
            for (_, key, _), moment in zip(left, nearest, strict=True)
        ]
        assert total == 60
        assert first == sum(moment is not None for moment in nearest)
        assert second == sum(moment is not None for moment in before)

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("join", "code"),
    [
        ("asof join t u match_condition (t.a >= u.a) on t.b > 1", "000002"),
        ("asof join t u on t.b = u.b", "000002"),
        ("join t u match_condition (t.a >= u.a) on t.b = u.b", "000002"),
        ("asof join t u match_condition (t.a = u.a) on t.b = u.b", "001003"),
        ("asof join t u match_condition (u.a >= t.a) on t.b = u.b", "000904"),
        ("asof join t u match_condition (t.a >= u.a) on t.b = t.a", "000904"),
    ],
)
def test_an_asof_join_of_another_form_is_refused(tmp_path: Path, join: str, code: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, b int, v variant)")
        with pytest.raises(errors.SqlError) as refusal:
            await local.run(f"select t.a from t {join}")
        assert refusal.value.code == code

    local_sql.run_local(tmp_path, work)
