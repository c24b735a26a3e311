"""Texts that are joined in several orders in one SELECT, and the rows that this gives."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sql.plan import code, emit, orderings, relations
from tests.kit import sql_text

TABLE = pa.table({"g": [1, 1, 1, 2], "a": ["x", "z", "y", "q"], "n": [3, 1, 2, 9]})
ROWS = relations.TableScan(relation="0:T", alias="t")
A, N = (code.ColumnUse(relation="t", name=name) for name in ("a", "n"))


def joined(
    key: code.Part, direction: str = " ASC NULLS LAST", *, distinct: bool = False
) -> code.Code:
    return code.FunctionUse(
        name="string_agg",
        arguments=(A, code.part(",")),
        is_distinct=distinct,
        order=(code.SortKey(key=key, direction=direction),),
    )


def select(*values: code.Code) -> relations.Rel:
    items = relations.items((f"c{number}", value) for number, value in enumerate(values))
    return relations.Project(source=relations.Aggregate(source=ROWS), items=items)


@pytest.mark.parametrize("values", [[joined(N)], [joined(N), joined(N)], [code.call("max", A)]])
def test_one_order_stays_as_it_is(values: list[code.Code]) -> None:
    query = select(*values)
    assert orderings.reconciled(query) is query


def test_the_first_order_by_its_text_stays_and_another_is_collected() -> None:
    changed = emit.text(orderings.reconciled(select(joined(A), joined(N))))
    assert changed.count("string_agg(") == 1
    assert """string_agg("t"."a", ',' ORDER BY "t"."a" ASC NULLS LAST)""" in changed
    assert """array_to_string(array_agg("t"."a" ORDER BY "t"."n" ASC NULLS LAST), ',')""" in changed


def test_distinct_texts_of_another_order_are_sorted_as_a_list() -> None:
    changed = emit.text(
        orderings.reconciled(select(joined(A), joined(A, " DESC NULLS FIRST", distinct=True)))
    )
    listed = """array_sort(array_distinct(array_agg("t"."a")), 'DESC')"""
    assert f"array_to_string({listed}, ',')" in changed


@pytest.mark.parametrize(
    ("calls", "row"),
    [
        ("listagg(a) within group (order by n), listagg(a) within group (order by a)",
         ("zyx", "xyz")),
        ("listagg(a) within group (order by n desc), listagg(a) within group (order by n)",
         ("xyz", "zyx")),
        ("listagg(distinct a) within group (order by a desc), listagg(a, '-') within group"
         " (order by n), listagg(a) within group (order by a)", ("zyx", "z-y-x", "xyz")),
    ],
)  # fmt: skip
def test_each_text_has_its_own_order(calls: str, row: tuple[str, ...]) -> None:
    answer = sql_text.answer(f"select {calls} from t where g = 1", {"t": TABLE})
    assert answer.rows == [row]
