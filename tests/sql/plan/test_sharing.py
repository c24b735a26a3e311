"""Volatile calls that a SELECT uses more than once: one value for each row of FROM."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sql import errors
from tests.kit import sql_text

TABLES = {
    "t": pa.table({"a": pa.array([1, 2, 3, 1]), "v": pa.array(["x", None, "y", "z"])}),
    "w": pa.table({"a": pa.array([1, 2]), "b": pa.array([10, 20])}),
}
ROWS = 4

SAME_VALUE = {
    "alias": "select uuid_string() as u, u = u from t",
    "alias of an alias": "select n, p - n = q - p from (select random() as n, n + 1 as p,"
    " p + 1 as q from t)",
    "alias in WHERE": "select uuid_string() as u, u >= '' from t where u = u",
    "join": "select uuid_string() as u, u = u and a = coalesce(w.a, a) from t left join w using (a)"
    " where u = u order by u",
    "right join": "select uuid_string() as u, u = u from w right join t on w.a = t.a and b = 20",
    "subquery": "select uuid_string() as u, u = u"
    " and (select count(*) from w where w.a = t.a) < 2 from t",
    "derived": "select u, u = u from (select uuid_string() as u from t)",
    "between": "select 1, random() between -9223372036854775807 and 9223372036854775807 from t",
    "NULLIF": "select nullif(random(), 1) as n, n is null or n <> 1 from t",
    "CASE": "select 1, case mod(random(), 2) when 0 then 0 when 1 then 1 when -1 then 1 end"
    " is not null from t",
    "DECODE": "select 1, decode(mod(abs(random()), 3), 0, true, 1, true, 2, true) from t",
    "GREATEST": "select random() as r, greatest(r, nullif(1, 2), r) >= r from t",
    "SIGN": "select random() as r, sign(r) * abs(r) = r from t",
    "IN": "select 1, mod(abs(random()), 2) in (0, '1') from t",
    "window": "select row_number() over (order by uuid_string()) as n, n = n from t",
    "QUALIFY": "select uuid_string() as u, u = u from t"
    " qualify row_number() over (partition by u order by u) = 1",
    "GROUP BY": "select uuid_string() as u, u = u and count(*) = 1 from t group by u",
    "GROUP BY ALL": "select uuid_string() as u, count(*) = 1 from t group by all",
    "DISTINCT": "select distinct uuid_string() as u, u = u from t",
    "GENERATOR": "select random() as r, r = r from table(generator(rowcount => 4))",
    "FLATTEN": "select uuid_string() as u, u = u"
    " from table(flatten(input => parse_json('[1, 2, 3, 4]')))",
}


@pytest.mark.parametrize("text", SAME_VALUE.values(), ids=SAME_VALUE)
def test_a_volatile_call_has_one_value_in_each_row(text: str) -> None:
    rows = sql_text.answer(text, TABLES).rows
    assert [same for _, same in rows] == [True] * ROWS


@pytest.mark.parametrize("name", ["alias", "join", "derived", "FLATTEN", "DISTINCT"])
def test_a_volatile_call_has_another_value_in_each_row(name: str) -> None:
    rows = sql_text.answer(SAME_VALUE[name], TABLES).rows
    assert len({value for value, _ in rows}) == ROWS


SIGNS = {
    "derived": "select sign(r) from (select id, random() as r from many where id > 1) where r > 0",
    "alone": "select sign(r) from (select random() as r from many) where r > 0",
    "alias": "select sign(r) from (select random() as r from many where r > 0)",
    "WITH": "with c as (select id, random() as r from many) select sign(r) from c where r > 0",
    "scalar": "select sign(r) from (select id, random() + 1 as r from many) where r > (select 0)",
    "group": "select sign(r) from (select id, random() as r from many group by id) where r > 0",
    "DISTINCT": "select sign(r) from (select distinct id, random() as r from many) where r > 0",
    "UNION": "select sign(r) from (select random() as r from many union select random())"
    " where r > 0",
    "join": "select sign(r) from many join (select id, random() as r from many where id > 1)"
    " using (id) where r > 0",
    "ORDER BY": "select sign(r) from (select id, random() as r from many order by id) where r > 0",
}


@pytest.mark.parametrize("text", SIGNS.values(), ids=SIGNS)
def test_a_condition_sees_the_value_of_a_volatile_column_that_is_returned(text: str) -> None:
    many = pa.table({"id": pa.array(range(500))})
    rows = sql_text.answer(text, {"many": many}).rows
    assert len(rows) > 1
    assert set(rows) == {(1,)}


def test_volatile_columns_keep_the_names_and_values_of_the_columns_beside_them() -> None:
    t = pa.table({"a.b": pa.array([1, 2]), 'q"z': pa.array([3, 4])})
    text = """select t."a.b", u."a.b", u."q""z", uuid_string() as x, x = x
        from t join t as u on t."a.b" = u."a.b" order by 1"""
    rows = sql_text.answer(text, {"t": t}).rows
    assert [(*row[:3], row[4]) for row in rows] == [(1, 1, 3, True), (2, 2, 4, True)]


def test_a_window_over_volatile_values_needs_no_other_column() -> None:
    text = "select count(*) over (partition by mod(random(), 1)) from t"
    assert sql_text.answer(text, TABLES).rows == [(ROWS,)] * ROWS


TWO_SUMS = {
    "alone": "select sum(random()) = sum(random()) from t",
    "of one GROUP BY": "select sum(random()) = sum(random()) from t where a = 1 group by a",
    "in HAVING": "select sum(random()) = 0 from t having sum(random()) <> sum(random())",
    "in expressions": "select sum(random() + 1) = sum(1 + random()) from t",
    "of texts": "select min(uuid_string()) = min(uuid_string()) from t",
    "of a join": "select max(random()) = max(random()) from t join w using (a)",
    "without FROM": "select sum(random()) = sum(random())",
}


@pytest.mark.parametrize("text", TWO_SUMS.values(), ids=TWO_SUMS)
def test_two_aggregates_of_volatile_calls_have_values_of_their_own(text: str) -> None:
    assert sql_text.answer(text, TABLES).rows == [(False,)]


def test_an_aggregate_of_a_volatile_call_stands_beside_a_call_for_each_group() -> None:
    text = "select a, sum(random()) <> sum(random()), uuid_string() from t group by a order by a"
    rows = sql_text.answer(text, TABLES).rows
    assert [row[:2] for row in rows] == [(1, True), (2, True), (3, True)]
    assert len({row[2] for row in rows}) == len(rows)


def test_two_calls_in_one_row_have_values_of_their_own() -> None:
    (row,) = sql_text.answer("select uuid_string() as u, uuid_string() as v, u = u, u = v").rows
    assert row[2:] == (True, False)


def test_a_cell_of_values_has_one_value_of_its_own() -> None:
    texts = "(nullif(uuid_string(), 'x'), sign(random())), (nullif(uuid_string(), 'x'), 0)"
    rows = sql_text.answer(f"select * from values {texts}").rows
    assert len({text for text, _ in rows}) == 2
    assert {abs(sign) for _, sign in rows} <= {0, 1}


def test_values_may_hold_queries() -> None:
    text = "select * from values ((select max(a) from t), 1), (2, (select 3)), (null, 1.5)"
    rows = sql_text.answer(f"{text} order by 1", TABLES).rows
    assert [(first, float(second)) for first, second in rows] == [(2, 3), (3, 1), (None, 1.5)]


def test_an_average_of_a_volatile_call_divides_the_sum_of_the_same_values() -> None:
    answer = sql_text.answer("select avg(mod(abs(random()), 1) + 5), count(*) from t", TABLES)
    assert answer.rows == [(5, ROWS)]


def test_a_call_that_is_used_once_stands_where_it_is_used() -> None:
    bound, _ = sql_text.bind("select uuid_string() as u from t order by u", TABLES)
    assert bound.sql == 'SELECT uuid() AS "U" FROM "0:t" AS "t#1" ORDER BY 1 ASC NULLS LAST'


@pytest.mark.parametrize(
    "text",
    [
        "select count(*), uuid_string() as u, u = u from t",
        "select a, uuid_string() as u, u = u from t group by a",
        "select a from t join w on uuid_string() between t.a and w.b",
        "select uuid_string() as u, u > any (select v from t) from t",
    ],
)
def test_a_call_without_a_row_of_from_is_refused_if_it_is_used_twice(text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text, TABLES)
    assert caught.value.code == "000002"
    assert "more than once" in caught.value.message
