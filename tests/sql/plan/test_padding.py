"""Columns that outer joins fill with NULL, as keys of a sort, of groups and of DISTINCT."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from sql.plan import code, emit, padding, relations
from tests.kit import sql_text

TABLES = {
    "l": pa.table({"k": pa.array([1, 2, 3], pa.int64())}),
    "r": pa.table({"k": pa.array([1, 2], pa.int64()), "v": pa.array([7, 7], pa.int64())}),
}
LEFT = relations.TableScan(relation="0:L", alias="l")
RIGHT = relations.TableScan(relation="1:R", alias="r")
V = code.ColumnUse(relation="r", name="v")
ON = code.infix(code.ColumnUse(relation="l", name="k"), "=", code.ColumnUse(relation="r", name="k"))
ASCENDING = " ASC NULLS LAST"


def hidden(query: relations.Rel) -> str:
    numbers = itertools.count(1)
    return emit.text(padding.hidden(query, lambda name: f"{name}#{next(numbers)}"))


def selected(side: str, *, is_distinct: bool = False) -> relations.Rel:
    join = relations.Join(left=LEFT, right=RIGHT, side=side, conditions=(ON,))
    return relations.Project(
        source=join, items=relations.items([("V", V)]), is_distinct=is_distinct
    )


def test_without_an_outer_join_a_query_stays_as_it_is() -> None:
    query = relations.Sort(
        source=selected("INNER"), keys=(code.SortKey(key=V, direction=ASCENDING),)
    )
    assert padding.hidden(query, str) is query


def test_without_keys_a_padded_column_stays_as_it_is() -> None:
    assert "random()" not in hidden(selected("LEFT"))


@pytest.mark.parametrize("side", ["LEFT", "FULL"])
def test_a_padded_key_is_computed_below_the_sort(side: str) -> None:
    query = relations.Sort(source=selected(side), keys=(code.SortKey(key=V, direction=ASCENDING),))
    text = hidden(query)
    assert 'CASE WHEN (random() >= 0) THEN "r"."v" END' in text
    assert text.index("random()") < text.index("ORDER BY")


CONSTANT = "(select k, 7 as v from r) r"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("select v from l left join {r} on l.k = r.k order by v", [(7,), (7,), (None,)]),
        ("select v from l left join {r} on l.k = r.k order by v desc", [(None,), (7,), (7,)]),
        ("select v, count(*) from l left join {r} on l.k = r.k group by v order by 2",
         [(None, 1), (7, 2)]),
        ("select distinct v from l left join {r} on l.k = r.k order by v", [(7,), (None,)]),
        ("select v from l left join {r} on l.k = r.k union select 7 order by v", [(7,), (None,)]),
        ("select v, l.k from l full join {r} on l.k = r.k and l.k < 2 order by v nulls first, l.k",
         [(None, 2), (None, 3), (7, 1), (7, None)]),
        ("with w as (select v from l left join {r} on l.k = r.k) select v, count(*) from w"
         " group by v order by v", [(7, 2), (None, 1)]),
        ("select row_number() over (order by v), v from l left join {r} on l.k = r.k order by 1",
         [(1, 7), (2, 7), (3, None)]),
    ],
)  # fmt: skip
def test_rows_of_outer_joins_are_sorted_and_grouped_with_their_nulls(
    text: str, rows: list[tuple[object, ...]]
) -> None:
    assert sql_text.answer(text.format(r=CONSTANT), TABLES).rows == rows
