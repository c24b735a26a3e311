"""SEQ4 and RANDOM(seed) inside aggregates: numbers of the rows that are grouped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sql import errors
from tests.kit import sql_text

TABLES = {"t": pa.table({"a": pa.array([1, 2, 3, 4, 5]), "b": pa.array(["x", "x", "y", "y", "z"])})}

ROWS: dict[str, list[tuple[Any, ...]]] = {
    "select min(seq4()), max(seq8()), count(*), count(distinct seq2()) from t": [(0, 4, 5, 5)],
    "select min(seq4()), max(seq4()) from t where a > 2": [(0, 2)],
    "select b, max(seq4()) - min(seq4()) from t group by b order by b": [
        ("x", 1), ("y", 1), ("z", 0),
    ],
    "select x.b, count(distinct seq4()), max(y.a) from t x join t y using (a) group by x.b"
    " having max(seq4()) >= 0 order by max(y.a)": [("x", 2, 2), ("y", 2, 4), ("z", 1, 5)],
    "select b, sum(seq4()) >= 0, (select count(*) from t z where z.b = t.b) from t group by b"
    " order by 1": [("x", True, 2), ("y", True, 2), ("z", True, 1)],
    "select seq4() % 2, count(*), count(distinct seq4()) from t group by 1 order by 1": [
        (0, 3, 3), (1, 2, 2),
    ],
    "select sum(max(seq4())) over () from t": [(4,)],
    "select max(seq4()), count(*) from t x, t y": [(24, 25)],
    "select max(seq4()) from t where a > 9": [(None,)],
    "select max(seq4()) from table(generator(rowcount => 7))": [(6,)],
    "select min(random(3)) = (select min(r) from (select random(3) as r from t)) from t": [(True,)],
    "select count(distinct uniform(1, 1000000, random(3))) from t": [(5,)],
}  # fmt: skip


@pytest.mark.parametrize("text", ROWS)
def test_an_aggregate_sees_a_number_of_each_row(text: str) -> None:
    assert sql_text.answer(text, TABLES).rows == ROWS[text]


@pytest.mark.parametrize(
    "text", ["select max(seq4()) over () from t", "select a from t where max(seq4()) > 1"]
)
def test_a_window_function_and_where_see_none(text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text, TABLES)
    assert caught.value.code == "002036"
