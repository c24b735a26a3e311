"""LATERAL over a query: its rows for each row to its left."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sql import errors
from tests.kit import sql_text

TABLES = {
    "t": pa.table(
        {
            "id": pa.array([1, 2, 3, None]),
            "v": pa.array(["a", "b", "c", "d"]),
            "z": pa.array([0.0, -0.0, 1.5, None]),
        }
    ),
    "w": pa.table(
        {
            "tid": pa.array([1, 1, 2, 9, None]),
            "n": pa.array([10, 20, 30, 40, 50]),
            "id": pa.array([7, 8, 9, 10, 11]),
            "q": pa.array([0.0, -0.0, 1.5, None, -0.0]),
        }
    ),
}

QUERIES = {
    "comma": "select * from t, lateral (select * from w where w.tid = t.id) as x",
    "inner": "select v, n from t inner join lateral (select n from w where tid = t.id) x on true",
    "cross": "select v, x.n from t cross join lateral (select n from w where tid < t.id) x",
    "computed": "select v, x.p from t, lateral (select n + t.id as p from w where tid = t.id) x",
    "alias": "select v, m from t, lateral (select n from w where tid = t.id) as x(m) where m > 10",
    "own name first": "select t.id, x.id from t, lateral (select id from w where id > t.id + 8) x",
    "no FROM": "select v, x.p, x.q from t, lateral (select t.id + 1 as p, upper(v) as q) x",
    "no FROM, WHERE": "select v, x.p from t, lateral (select t.id + 1 as p where t.id > 1) x",
    "two": "select v, x.n, y.n as m from t, lateral (select n from w where tid = t.id) x,"
    " lateral (select n from w where w.n > x.n) y",
    "joined": "select v, x.n from t, lateral (select w.n from w join w as o on o.tid = w.tid"
    " where w.tid = t.id) x",
    "LEFT": "select v, x.n from t left join lateral (select n from w where tid = t.id) x on true",
    "LEFT, none": "select v, x.n from t left join lateral (select n from w where tid = t.id"
    " and n < 0) x on true",
    "LEFT, ON": "select v, x.n from t left join lateral (select n from w where tid = t.id) x"
    " on x.n > 10",
    "LEFT, WHERE": "select v, x.n from t left join lateral (select n from w where tid = t.id) x"
    " on true where x.n is null",
    "grouped": "select v, sum(x.n), count(*) from t"
    " left join lateral (select n from w where tid = t.id) x on true group by v",
    "nested": "select v, x.n from t, lateral (select y.n from w, lateral (select n from w as o"
    " where o.n > w.n) y where w.tid = t.id) x",
    "WITH": "with c as (select * from w) select v, x.n from t,"
    " lateral (select n from c where tid = t.id) x",
    "aggregate": "select v, m, c from t, lateral (select max(n) m, count(*) c from w"
    " where tid = t.id) x",
    "aggregate, LEFT": "select v, x.m from t left join lateral (select sum(n) + 1 as m from w"
    " where tid = t.id and n > 10) x on true where coalesce(x.m, 0) < 30",
    "aggregate, twice": "select x.s, y.c from t, lateral (select max(n) s from w"
    " where tid = t.id) x, lateral (select count(*) c from w where n = x.s) y",
    "aggregate, grouped above": "select x.c, count(*) from t, lateral (select count(*) c from w"
    " where tid = t.id) x group by x.c",
    "aggregate, outer condition": "select v, c from t, lateral (select count(*) c from w"
    " where t.id = 1) x",
    "aggregate, outer conditions": "select v, c, m from t left join lateral (select count(*) c,"
    " coalesce(max(n), -1) m from w where tid = t.id and v in ('a', 'd') and t.z < 1) x on true",
    "aggregate, outer condition first": "select v, c from t, lateral (select count(*) c from w"
    " where 1 = t.id and tid = 1) x",
    "aggregate beside an outer column": "select v, c, d, 5 from t, lateral (select max(n) c,"
    " t.id as d, 7 as e from w where tid = t.id) x",
    "aggregate and an outer column": "select v, m, w from t, lateral (select max(n) + t.id as m,"
    " t.v || count(*) as w from w where tid = t.id) x",
    "aggregate, named by another column": "select v, m, p, q from t, lateral (select max(n) m,"
    " count(*) c, m + 1 as p, p * 2 - c as q from w where tid = t.id) x",
    "aggregate, compared by <": "select v, m from t, lateral (select max(n) m from w"
    " where tid < t.id) x",
    "LIMIT": "select v, n from t, lateral (select n from w where tid = t.id"
    " order by n desc limit 1) x",
    "LIMIT, LEFT": "select v, x.n from t left join lateral (select n, tid from w where w.tid = t.id"
    " and n > 10 order by n limit 1) x on true",
    "LIMIT, LEFT, ON": "select v, x.n from t left join lateral (select n from w"
    " where tid = t.id order by n limit 1) x on x.n > 10",
    "LIMIT and OFFSET": "select v, n from t, lateral (select n from w where t.id = tid"
    " order by 1 limit 5 offset 1) x",
    "LIMIT of no equality": "select v, n from t, lateral (select n from w order by n limit 2) x",
    "LIMIT, expressions": "select v, p from t, lateral (select n * 2 as p from w"
    " where tid + 1 = t.id + 1 order by p desc nulls last limit 1) x",
    "GROUP BY": "select v, k, c from t, lateral (select n > 15 as k, count(*) as c from w"
    " where tid = t.id group by 1) x",
    "GROUP BY, LEFT": "select v, x.c from t left join lateral (select tid, sum(n) c from w"
    " where tid = t.id group by tid) x on true",
    "GROUP BY, outer condition": "select v, c, n from t,"
    " lateral (select count(*) c, n from w where t.id = 1 group by n) x",
    "LIMIT, outer condition": "select v, x.n from t left join lateral (select n from w"
    " where t.id = 2 and v = 'b' order by n limit 1) x on true",
    "LIMIT of both zeros": "select v, n from t, lateral (select n from w where q = t.z"
    " order by n limit 1) x",
    "GROUP BY of both zeros": "select v, c from t, lateral (select count(*) c from w"
    " where q = t.z group by tid is null) x",
    "DISTINCT": "select v, k from t, lateral (select distinct tid as k from w where tid = t.id) x",
    "LIMIT, compared by <": "select v, n from t, lateral (select n from w where tid <= t.id"
    " order by n desc limit 1) x",
    "LIMIT, compared by < and =": "select v, x.n from t left join lateral (select n from w"
    " where tid = t.id and n - 9 > t.id and w.id <> 8 order by n limit 1) x on true",
    "LIMIT, compared twice": "select v, n from t, lateral (select w.n from w join w as o"
    " on o.n = w.n where w.tid < t.id and w.id + t.id > 9 and t.id <> 2"
    " order by w.n limit 2 offset 1) x",
    "LIMIT, joined to the left": "select v, o.n as m, x.n from t join w as o on o.tid = t.id,"
    " lateral (select n from w where w.n > o.n order by n limit 1) x",
    "GROUP BY, compared by <": "select v, k, c from t, lateral (select n > 15 as k, count(*) c"
    " from w where tid <= t.id group by 1) x",
    "GROUP BY, compared by <, LEFT": "select v, x.c from t left join lateral (select tid, sum(n) c"
    " from w where t.id > tid group by tid) x on true",
    "DISTINCT, compared by <": "select v, k from t, lateral (select distinct tid as k from w"
    " where tid <= t.id) x",
    "derived": "select v, x.n from t, lateral (select n from (select n, tid from w) s"
    " where s.tid = t.id) x",
}


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_a_lateral_query_has_the_rows_of_duckdb(text: str) -> None:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)
        expected = connection.execute(text).fetchall()
    assert sorted(sql_text.answer(text, TABLES).rows, key=repr) == sorted(expected, key=repr)


REFUSED = [
    ("select * from t, lateral (select n from w where q < t.z limit 1) x", "one stored table"),
    ("select * from t, lateral (select n from w where n + t.id > 5 limit 1) x", "one stored"),
    ("select * from t, lateral (select n from w where n / t.id > t.id limit 1) x", "one stored"),
    (
        "select * from t, w as o, lateral (select n from w where n > o.n + t.id limit 1) x",
        "one stored table",
    ),
    (
        "select * from (select id from t limit 2) s,"
        " lateral (select n from w where tid < s.id limit 1) x",
        "one stored table",
    ),
    ("select * from t, lateral (select n + t.id from w limit 1) x", "an outer column beside"),
    ("select * from t, lateral (select n from w order by n - t.id limit 1) x", "an outer column"),
    ("select * from t, lateral (select n from w group by n limit 1) x", "LIMIT beside GROUP BY"),
    ("select * from t, lateral (select n from w group by n having n > 1) x", "HAVING"),
    ("select * from t left join lateral (select max(n) m from w) x on x.m > 1", "a condition"),
    ("select * from t, lateral (select n from w where n in (select 1)) x", "a query in WHERE"),
    ("select * from t, lateral (select max(n + t.id) m from w) x", "of an outer column"),
    ("select * from t, lateral (select max(t.id) m from w) x", "of an outer column"),
    ("select * from t, lateral (select max(random()) m from w) x", "or volatile function"),
    ("select * from t, lateral (select max(n) m from w where random() > 5) x", "or volatile"),
    (
        "select * from t, lateral (select max(r) m, min(r) n from (select random() r from w)) x",
        "of rows that may differ",
    ),
    ("select * from t, lateral (select max(n) m, min(n) k from w sample (50)) x", "may differ"),
    (
        "with c as (select n from w limit 1)"
        " select * from t, lateral (select max(n) m, min(n) k from c) x",
        "may differ",
    ),
    (
        "select * from t, lateral (select count(*) c0, "
        + ", ".join(f"c{place} + c{place} c{place + 1}" for place in range(12))
        + " from w where tid = t.id) x",
        "repeat each other",
    ),
    ("select * from t, lateral (select max(n), max(n) over () from w) x", "a window or"),
    ("select * from t, lateral (select max(n) m, (select 5) k from w) x", "beside a query"),
    ("select * from t, lateral (select max(n) m from w group by ()) x", "GROUPING SETS"),
    ("select * from t, lateral (select uuid_string() u from w) x", "volatile"),
    ("select * from t right join lateral (select n from w) x on true", "RIGHT JOIN LATERAL"),
    ("select * from t left join lateral (select 1 as c from w) x on true", "LEFT JOIN LATERAL"),
    ("select * from t, lateral (select o.n from w join w as o on o.tid = t.id) x", "in FROM of"),
    ("select * from t, lateral (select n from (select n from w where tid = t.id)) x", "in FROM of"),
    ("select * from t full join w on t.id = n, lateral (select n from w) x", "FULL JOIN"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_a_lateral_query_that_is_no_join_is_refused(text: str, words: Any) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text, TABLES)
    assert caught.value.code == "000002"
    assert words in caught.value.message


@pytest.mark.parametrize("items", ["max(n) m, tid", "max(n) m, *"])
def test_a_lateral_aggregate_has_no_other_column_of_its_tables(items: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(f"select * from t, lateral (select {items} from w where t.id = 1) x", TABLES)
    assert caught.value.code == "000979"


def test_a_lateral_query_does_not_see_tables_to_its_right() -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind("select * from t, lateral (select z.n as m from w) x, w as z", TABLES)
    assert caught.value.code == "000904"
