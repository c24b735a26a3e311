"""PIVOT and UNPIVOT as Snowflake documents them."""

from __future__ import annotations

from typing import Any

import pytest

from sql import errors
from tests.kit import sql_text

SALES = (
    "(select column1 as id, column2 as amount, column3 as q from values "
    "(1, 10, 'a'), (1, 5, 'b'), (1, 1, 'a'), (2, 7, 'a'), (2, null, 'b'))"
)
MONTHS = (
    "(select column1 as id, column2 as jan, column3 as feb from values (1, 5, 6), (2, null, 8))"
)


def rows(text: str) -> list[tuple[Any, ...]]:
    return sql_text.answer(text).rows


def test_pivot_aggregates_once_for_each_value() -> None:
    answer = sql_text.answer(f"select * from {SALES} pivot(sum(amount) for q in ('a', 'b'))")
    assert answer.names == ["ID", "'a'", "'b'"]
    assert sorted(answer.rows) == [(1, 11, 5), (2, 7, None)]


def test_pivot_names_its_columns_by_aliases() -> None:
    pivoted = f"{SALES} pivot(count(amount) for q in ('a' as first, 'b', 'c'))"
    listed = sql_text.answer(f"select * from {pivoted} as p (i, x, y, z) order by i")
    assert (listed.names, listed.rows) == (["I", "X", "Y", "Z"], [(1, 2, 1, 0), (2, 1, 0, 0)])
    assert rows(f"select p.first, \"'b'\" from {pivoted} as p order by p.id") == [(2, 1), (1, 0)]


def test_pivot_with_a_default_has_no_null() -> None:
    pivoted = f"{SALES} pivot(max(amount) for q in ('b', 'c') default on null (0))"
    assert rows(f"select * from {pivoted} order by id") == [(1, 5, 0), (2, 0, 0)]


def test_unpivot_has_a_row_for_each_column_that_is_not_null() -> None:
    unpivoted = f"{MONTHS} unpivot(sales for month in (jan, feb as second))"
    answer = sql_text.answer(f"select * from {unpivoted} order by id, month")
    assert answer.names == ["ID", "MONTH", "SALES"]
    assert answer.rows == [(1, "JAN", 5), (1, "SECOND", 6), (2, "SECOND", 8)]


def test_unpivot_include_nulls_has_all_of_them() -> None:
    unpivoted = f"{MONTHS} unpivot include nulls (sales for month in (jan, feb)) as u"
    assert len(rows(f"select u.sales from {unpivoted}")) == 4


def test_pivot_of_a_joined_table_stands_before_its_condition() -> None:
    pivoted = f"{SALES} pivot(sum(amount) for q in ('a', 'b')) p"
    joined = rows(f"select b.jan, p.* from {MONTHS} b join {pivoted} on b.id = p.id order by p.id")
    assert joined == [(5, 1, 11, 5), (None, 2, 7, None)]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (f"select * from {SALES} pivot(sum(amount) for q in (any))", "000002", "ANY"),
        (f"select * from {SALES} pivot(sum(amount) for q in (select 'a'))", "000002", "SELECT"),
        (f"select * from {SALES} pivot(sum(id), max(id) for q in ('a'))", "000002", "aggregate"),
        (f"select * from {SALES} pivot(sum(nosuch) for q in ('a'))", "000904", "NOSUCH"),
        (f"select * from {MONTHS} unpivot(s for m in (jan, nosuch))", "000904", "NOSUCH"),
        (
            f"select * from {SALES} a join {SALES} b on a.id = b.id pivot(max(q) for q in ('a'))",
            "000002",
            "after the condition of a join",
        ),
        (
            f"select * from {SALES} a join {MONTHS} b using (id) unpivot(s for m in (jan))",
            "000002",
            "after the condition of a join",
        ),
        (
            "select * from table(flatten([1, 2])) f pivot(max(value) for index in (0, 1))",
            "000002",
            "PIVOT or UNPIVOT of FLATTEN",
        ),
        (
            f"select * from {SALES} a join table(flatten([1])) f unpivot(s for m in (value))",
            "000002",
            "PIVOT or UNPIVOT of FLATTEN",
        ),
    ],
)
def test_another_form_is_refused(text: str, code: str, words: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text)
    assert caught.value.code == code
    assert words in caught.value.message
