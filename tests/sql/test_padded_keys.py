"""ORDER BY, GROUP BY and windows over columns that are filled with NULL.

An outer join fills them, or ROLLUP, CUBE and GROUPING SETS. Each is constant in the other rows, by
a literal or a condition.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import local_sql

MARKED = "t left join (select id, true as m from u) u on t.id = u.id"
FIVES = "t left join u on t.id = u.id and u.k = 5"
MARKED_IN_FULL = "t full join (select id, true as m from u) u on t.id = u.id"
MANY = "big t left join (select id, true as m from big where id % 2 = 0) u on t.id = u.id"
BIG_ROWS, BIG_GROUPS = 60_000, 5001


class Tables:
    """Tables of some rows, for questions of tests that are no coroutines."""

    def __init__(self, runner: asyncio.Runner, local: local_sql.LocalSql) -> None:
        self._runner = runner
        self._local = local

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return self._runner.run(self._local.rows(text))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    opened = local_sql.opened_inline(tmp_path_factory.mktemp("padded"))
    with asyncio.Runner() as runner:
        local = runner.run(opened.__aenter__())
        for text in (
            "create table t (id int, k int)",
            "insert into t values (1, 5), (2, 5), (3, 7), (4, 5), (5, 8), (6, 5)",
            "create table u (id int, k int)",
            "insert into u values (1, 5), (3, 7), (6, 5)",
            "create table s (a int not null)",
            "insert into s values (4), (5)",
            "create table big as "
            f"select seq4() as id from table(generator(rowcount => {BIG_ROWS}))",
        ):
            runner.run(local.run(text))
        yield Tables(runner, local)
        runner.run(opened.__aexit__(None, None, None))


MATCHED_FIRST = [1, 3, 6, 2, 4, 5]
FIVES_FIRST = [1, 6, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (f"select t.id from {MARKED} order by m, t.id", MATCHED_FIRST),
        (f"select t.id, m from {MARKED} order by 2, 1", MATCHED_FIRST),
        (f"select t.id, m as marked from {MARKED} order by marked, t.id", MATCHED_FIRST),
        (f"select t.id from {MARKED} order by m desc, t.id desc", [5, 4, 2, 6, 3, 1]),
        (f"select t.id from {MARKED} order by m, t.id limit 4", MATCHED_FIRST[:4]),
        (f"select t.id from {MARKED} order by not m, t.id", MATCHED_FIRST),
        (f"select id from (select t.id, m from {MARKED}) order by m, id", MATCHED_FIRST),
        (f"with w as (select t.id, m from {MARKED}) select id from w order by m, id",
         MATCHED_FIRST),
        (f"with w(a, b) as (select t.id, m from {MARKED}) select a from w order by b, a",
         MATCHED_FIRST),
        ("select t.id from (select id, true as m from u) u right join t on t.id = u.id"
         " order by m, t.id", MATCHED_FIRST),
        (f"select t.id from {MARKED_IN_FULL} order by m, t.id", MATCHED_FIRST),
        (f"select t.id, m from {MARKED} union all select t.id, m from {MARKED} where t.id > 3"
         " order by 2, 1", [1, 3, 6, 6, 2, 4, 4, 5, 5]),
        (f"select t.id from {FIVES} order by u.k, t.id", FIVES_FIRST),
        ("select t.id from t left join (select id, k from u where k = 5) u on t.id = u.id"
         " order by u.k, t.id", FIVES_FIRST),
        ("select t.id from t left join u on t.id = u.id and t.k = u.k where t.k = 5"
         " order by u.k, t.id", [1, 6, 2, 4]),
        (f"select t.id from {MARKED} qualify row_number() over (order by m, t.id) <= 4"
         " order by row_number() over (order by m, t.id)", MATCHED_FIRST[:4]),
        (f"select any_value(id) from (select t.id, rank() over (order by m, t.id) r from {MARKED})"
         " group by r order by r", MATCHED_FIRST),
    ],
)  # fmt: skip
def test_rows_are_in_the_order_of_padded_columns(tables: Tables, text: str, ids: list[int]) -> None:
    assert [row[0] for row in tables.rows(text)] == ids


ONE_AND_ALL = [(5, 4), (None, 4)]
FIFTHS = "from t where k = 5 group by"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (f"select k, count(*) {FIFTHS} rollup (k) order by k", ONE_AND_ALL),
        (f"select k, count(*) {FIFTHS} cube (k) order by k desc", ONE_AND_ALL[::-1]),
        (f"select k, count(*) {FIFTHS} rollup (k) having count(*) > 1 order by 1", ONE_AND_ALL),
        ("select c, count(*) from (select 5 c from t where k = 5) group by rollup (c) order by c",
         ONE_AND_ALL),
        (f"select * from (select k, count(*) {FIFTHS} rollup (k)) order by k", ONE_AND_ALL),
        (f"with w as (select k, count(*) n {FIFTHS} rollup (k)) select k, n from w order by k",
         ONE_AND_ALL),
        (f"select k, row_number() over (order by k) {FIFTHS} rollup (k) order by 2",
         [(5, 1), (None, 2)]),
        (f"select distinct k, 1 {FIFTHS} grouping sets ((k), (id)) order by k",
         [(5, 1), (None, 1)]),
        (f"select k = 5 as c, grouping(k = 5) {FIFTHS} rollup (k = 5) order by c",
         [(True, 0), (None, 1)]),
    ],
)  # fmt: skip
def test_rows_of_fewer_keys_stand_where_null_does(
    tables: Tables, text: str, rows: list[tuple[Any, ...]]
) -> None:
    assert tables.rows(text) == rows


def test_groups_of_cube_without_an_aggregate_are_answered_below_a_union(
    tables: Tables,
) -> None:
    counted = "(select (select count(k) from t) as n, max(null::int) as m from t order by m, n)"
    text = (
        "select distinct null::int as a, null::date as b from t union "
        f"select null::int, '2000-02-29'::date from {counted} group by cube (floor(n))"
    )
    leap_day = datetime.date(2000, 2, 29)
    assert sorted(tables.rows(text), key=str) == [(None, None), (None, leap_day)]


SEVENS = "from (select id, 7 as c from t) group by"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (f"select greatest(c, 3) {SEVENS} rollup (c) order by c", [(7,), (None,)]),
        (f"select greatest(c + 1, 3) {SEVENS} cube (c + 1) order by c + 1", [(8,), (None,)]),
        (f"select greatest(c is null, false) {SEVENS} rollup (c is null) order by 1",
         [(False,), (None,)]),
        (f"select least(c, id) {SEVENS} grouping sets ((c), (id)) order by c, id",
         [(None,)] * 7),
        (f"select decode(null::int, c, 'no key', 'key') {SEVENS} rollup (c) order by c",
         [("key",), ("no key",)]),
        (f"select greatest(c, 3) from (select c {SEVENS} rollup (c)) order by c", [(7,), (None,)]),
        (f"select count(*) from t where 9 not in (select c {SEVENS} rollup (c))", [(0,)]),
        (f"select (select greatest(x.c, 3)) from (select c {SEVENS} rollup (c)) x order by x.c",
         [(7,), (None,)]),
        ("select greatest(a, 3) from s group by rollup (a) order by a", [(4,), (5,), (None,)]),
        ("select * from s group by rollup (a) order by a", [(4,), (5,), (None,)]),
        ("select greatest(a, 3) from s join s s2 using (a) group by rollup (a) order by a",
         [(4,), (5,), (None,)]),
    ],
)  # fmt: skip
def test_a_key_that_a_row_lacks_is_null_in_expressions(
    tables: Tables, text: str, rows: list[tuple[Any, ...]]
) -> None:
    assert tables.rows(text) == rows


@pytest.mark.parametrize(
    "text",
    [
        "select t.id, u.id from t join u on t.id = u.id group by {}(t.id, u.id) order by 1, 2",
        "select p, q from (select id p, id q from u) group by {}(p, q) order by 1, 2",
        "select p, q from (select id p, id q from u) group by {}(p, q) order by p, q limit 4",
    ],
)
def test_equal_columns_are_apart_in_rows_of_fewer_keys(tables: Tables, text: str) -> None:
    ordered = [(1, 1), (1, None), (3, 3), (3, None), (6, 6), (6, None)]
    for word, rest in (
        ("rollup", [(None, None)]),
        ("cube", [(None, 1), (None, 3), (None, 6), (None, None)]),
    ):
        rows = [*ordered, *rest][: 4 if "limit" in text else None]
        assert tables.rows(text.format(word)) == rows


@pytest.mark.parametrize(
    "groups",
    [
        f"select m, t.id % {BIG_GROUPS} g, count(*) n from {MANY} group by 1, 2",
        f"select distinct m, t.id % {BIG_GROUPS} g from {MANY}",
        f"select m, g from (select m, t.id % {BIG_GROUPS} g from {MANY}) group by all",
        f"select m, t.id % {BIG_GROUPS} g from {MANY} union "
        f"select m, t.id % {BIG_GROUPS} from {MANY}",
        f"select m, t.id % {BIG_GROUPS} g from {MANY} "
        "qualify row_number() over (partition by m, g order by t.id) = 1",
    ],
)
def test_each_group_of_padded_columns_stands_once(tables: Tables, groups: str) -> None:
    expected = len({(i % 2, i % BIG_GROUPS) for i in range(BIG_ROWS)})
    assert tables.rows(f"select count(*) from ({groups})") == [(expected,)]


def test_ranks_by_a_padded_column_are_those_of_its_values(tables: Tables) -> None:
    ranks: dict[Any, Any] = dict(
        tables.rows(
            f"select r, count(*) from (select rank() over (order by m) r from {MANY}) group by r"
        )
    )
    assert ranks == {1: BIG_ROWS // 2, BIG_ROWS // 2 + 1: BIG_ROWS // 2}


def test_a_count_of_distinct_padded_values_beside_a_key(tables: Tables) -> None:
    rows = tables.rows(
        f"select t.k, count(distinct m), count(u.m) from {MARKED} group by t.k order by t.k"
    )
    assert rows == [(5, 1, 2), (7, 1, 1), (8, 0, 0)]


def test_a_correlated_query_beside_padded_keys(tables: Tables) -> None:
    rows = tables.rows(
        f"select u.k, count(*), (select max(k) from t w where w.k = u.k) from {FIVES} "
        "group by u.k having count(*) > 1 order by u.k"
    )
    assert rows == [(5, 2, 5), (None, 4, None)]
