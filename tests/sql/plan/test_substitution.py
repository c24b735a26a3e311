"""Plans with other parts in the place of some of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

from sql.dialect import sqltypes
from sql.plan import code, expressions, relations, substitution

A, B = (code.ColumnUse(relation="t", name=name) for name in "ab")
CALL = expressions.Expr(code=code.call("uuid"), type=sqltypes.TEXT, is_volatile=True)
ROWS = relations.TableScan(relation="0:T", alias="t")


def renamed(node: Any) -> Any:
    return dataclasses.replace(node, name="c") if node is A else None


def test_a_part_is_replaced_wherever_it_stands_also_in_queries_of_expressions() -> None:
    inner = relations.RowFilter(source=ROWS, condition=code.infix(A, "=", B))
    query = relations.Project(
        source=relations.Aggregate(
            source=ROWS, keys=(relations.GroupingSets(word="CUBE", sets=((A, B),)),)
        ),
        items=relations.items([("x", code.Subquery(query=inner)), ("y", B)]),
    )
    other = substitution.substituted(query, renamed)
    assert {node.name for node in substitution.nodes([other]) if type(node) is code.ColumnUse} == {
        "b",
        "c",
    }
    assert other.source.source is ROWS
    assert other.items[1] is query.items[1]


def test_a_plan_without_the_part_stays_the_same_object() -> None:
    query = relations.Project(source=ROWS, items=relations.items([("y", B)]))
    assert substitution.substituted(query, renamed) is query


def test_what_a_plan_shares_it_shares_afterwards() -> None:
    shared = expressions.derived(code.call("upper", A), sqltypes.TEXT, [])
    both = substitution.substituted(code.infix(shared, "||", shared), renamed)
    assert both.operands[0] is both.operands[1] is not shared


def test_an_expression_is_volatile_as_long_as_a_part_of_it_is() -> None:
    column = expressions.Expr(code=B, type=sqltypes.TEXT)
    other = expressions.Expr(code=code.call("uuid"), type=sqltypes.TEXT, is_volatile=True)
    both = expressions.derived(code.infix(CALL, "||", other), sqltypes.TEXT, [CALL, other])

    def once(node: Any) -> Any:
        return column if node is CALL else None

    def twice(node: Any) -> Any:
        return column if node in (CALL, other) else None

    assert substitution.substituted(both, once).is_volatile
    assert not substitution.substituted(both, twice).is_volatile


def test_a_plan_of_any_depth_is_walked_without_recursion() -> None:
    part: code.Part = A
    for _ in range(20_000):
        part = code.not_(part)
    deepest = substitution.substituted(part, renamed)
    assert sum(1 for _ in substitution.nodes([deepest])) == 20_001
