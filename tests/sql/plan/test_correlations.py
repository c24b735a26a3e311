"""Scalar subqueries that compare what they compute with rows around them."""

from __future__ import annotations

import pytest

from sql.plan import code, correlations, emit, relations

ROWS = relations.TableScan(relation="0:U", alias="u")
OWN, OTHER = code.ColumnUse(relation="u", name="a"), code.ColumnUse(relation="t", name="a")
UPPER_OWN, UPPER_OTHER = code.call("upper", OWN), code.call("upper", OTHER)
CONSTANT = code.part("x")


def counted(*conditions: code.Part) -> relations.Rel:
    rel = relations.RowFilter(source=ROWS, condition=code.joined(conditions, "AND"))
    items = relations.items([("n", code.call("count", code.ALL_COLUMNS))])
    return relations.Project(source=relations.Aggregate(source=rel), items=items)


@pytest.mark.parametrize(
    "conditions",
    [
        [code.infix(OWN, "=", UPPER_OTHER)],
        [code.infix(UPPER_OWN, "<", OTHER)],
        [code.infix(UPPER_OWN, "=", CONSTANT), code.infix(OTHER, "=", CONSTANT)],
        [code.infix(UPPER_OWN, "=", OWN)],
        [code.infix(code.call("concat", OWN, OTHER), "=", OTHER)],
        [code.infix(code.infix(UPPER_OWN, "=", OTHER), "OR", code.TRUE)],
    ],
)
def test_conditions_without_a_computed_side_stay_as_they_are(conditions: list[code.Part]) -> None:
    query = counted(*conditions)
    assert correlations.keyed(query, str) is query
    assert correlations.keyed(ROWS, str) is ROWS


@pytest.mark.parametrize("sides", [(UPPER_OWN, OTHER), (UPPER_OTHER, UPPER_OWN)])
def test_the_computed_side_of_an_equation_is_a_column_of_from(
    sides: tuple[code.Code, code.Code],
) -> None:
    query = counted(code.infix(OWN, ">", CONSTANT), code.infix(sides[0], "=", sides[1]))
    plan = correlations.keyed(query, str)
    assert isinstance(plan, relations.Project)
    assert isinstance(plan.source, relations.Aggregate)
    where = plan.source.source
    assert isinstance(where, relations.RowFilter)
    columns = ['"u"."key"' if side is UPPER_OWN else emit.text(side) for side in sides]
    condition = f"""(("u"."a" > 'x') AND ({columns[0]} = {columns[1]}))"""
    assert emit.text(where.condition) == condition
    assert emit.text(where.source) == '(SELECT *, upper("u"."a") AS "key" FROM "0:U" AS "u") AS "u"'
