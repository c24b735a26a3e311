"""Conditions on constant columns of queries that have a row for no rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.kit import sql_text

TABLES = {"t": pa.table({"a": pa.array([1, 2, 1])}), "e": pa.table({"a": pa.array([], pa.int64())})}

ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "select c from (select 'x' c from t having count(*) >= 0) where c = 'y'": [],
    "select c from (select 'x' c from t having count(*) >= 0) where c = 'x'": [("x",)],
    "select c, n from (select 'x' c, count(*) n from e) where c = 'y'": [],
    "select c, n from (select 'x' c, count(*) n from e) where c = 'x'": [("x", 0)],
    "select c, n from (select 'x' c, count(*) n from e) where c is null": [],
    "select n from (select null c, count(*) n from e) where c is null": [(0,)],
    "select c from (select 'x' c from t group by rollup (a)) where c = 'y'": [],
    "select n from (select 1 c, count(*) n from t group by cube (a)) where c = 1 order by n": [
        (1,),
        (2,),
        (3,),
    ],
    "with q as (select 1 c, sum(a) s from t) select s from q where c = 2": [],
    "with q as (select 1 c, sum(a) s from t) select s from q where c = 1": [(4,)],
    "select s from (select 1 c, sum(a) s from t union all select 2, 0 from e having true)"
    " where c > 2": [],
    "select s from (select 1 c, sum(a) s from t order by s limit 1) where c = 2": [],
    "select c from (select nvl('x', to_varchar(sum(a))) c from t) where c = 'y'": [],
    "select n from (select nvl('x', to_varchar(a)) c, count(*) n from t group by cube (a))"
    " where c = 'y'": [],
    "select c from (select iff(true, 1, sum(a)) c from e) where c > 1": [],
    "select n from (select count(*) n, sum(a) is null or true c from t) where not c": [],
}


@pytest.mark.parametrize("text", ANSWERS)
def test_a_condition_on_a_constant_removes_the_row_that_stands_for_no_rows(text: str) -> None:
    assert sql_text.answer(text, TABLES).rows == ANSWERS[text]


def test_a_query_that_has_no_row_for_no_rows_or_none_around_it_has_no_limit() -> None:
    bound, _ = sql_text.bind("select c from (select 'x' c, a from t group by a)", TABLES)
    assert "LIMIT" not in bound.sql
    bound, _ = sql_text.bind("select 'x' c, count(*) from t", TABLES)
    assert "LIMIT" not in bound.sql


def test_having_without_aggregates_is_of_the_group_of_all_rows() -> None:
    assert sql_text.answer("select 2, 'x' from t having true", TABLES).rows == [(2, "x")]
    assert sql_text.answer("select 2 from e having 1 < 2", TABLES).rows == [(2,)]
    for condition in (
        "1 > 2",
        "null",
        "1 = null",
        "(select count(*) from t) = 0",
        "array_size(parse_json('[1]')) = 2",
        "count(*) > 0 and array_size(parse_json('[1]')) = 2",
    ):
        for item in ("2", "count(*)"):
            text = f"select {item} from t having {condition}"
            assert sql_text.answer(text, TABLES).rows == [], text
    one_set = "select count(*) from t group by grouping sets (()) having "
    assert sql_text.answer(one_set + "array_size(parse_json('[1]')) = 2", TABLES).rows == []
    rollup = "select a, count(*) from t group by rollup (a) having array_size(parse_json('[1]')) = "
    assert sql_text.answer(rollup + "2", TABLES).rows == []
    assert len(sql_text.answer(rollup + "1", TABLES).rows) == 3


def test_a_condition_chooses_the_branch_of_a_set_operation_that_has_a_row_for_no_rows() -> None:
    rows = "select 'rows' k, a n from t"
    total = "select 'total', sum(a) from t"
    for union in (f"{rows} union all {total}", f"{rows} union all (select 'total', 4 limit 1)"):
        chosen = sql_text.answer(f"select * from ({union}) where k = 'total'", TABLES).rows
        assert chosen == [("total", 4)], union
    union = f"{total} union all {rows}"
    total_first = union.replace("'total', sum(a)", "'total' k, sum(a) n")
    assert sql_text.answer(f"select n from ({total_first}) where k = 'total'", TABLES).rows == [
        (4,)
    ]
    assert len(sql_text.answer(f"select n from ({total_first}) where k = 'rows'", TABLES).rows) == 3
