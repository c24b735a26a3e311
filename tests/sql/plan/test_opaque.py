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
}


@pytest.mark.parametrize("text", ANSWERS)
def test_a_condition_on_a_constant_removes_the_row_that_stands_for_no_rows(text: str) -> None:
    assert sql_text.answer(text, TABLES).rows == ANSWERS[text]


def test_a_constant_beside_keys_stays_a_constant() -> None:
    bound, _ = sql_text.bind("select c from (select 'x' c, a from t group by a)", TABLES)
    assert "max(" not in bound.sql
    bound, _ = sql_text.bind("select 'x' c, count(*) from t", TABLES)
    assert "max(" not in bound.sql
