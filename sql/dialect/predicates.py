"""rule: conditions of WHERE on one stored column, for pruning files.

A condition is only a hint: a condition that cannot be expressed is left out, and the engine filters
again. Conditions come from conjuncts of one SELECT on columns of its own tables that are compared
with constants of the column's own type.
"""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from typing import Any, Literal

from sqlglot import exp

from sql.dialect import expressions, rewrites
from sql.dialect.bound import Bound

Operator = Literal["=", "<", "<=", ">", ">=", "in", "is null", "is not null"]

OPERATORS: dict[type, tuple[Operator, Operator]] = {
    exp.EQ: ("=", "="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}


QUERIES = (exp.Query, exp.Tuple, exp.Any, exp.All)


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """column: its index in the table's shape. values: Python values of the column's type."""

    column: int
    operator: Operator
    values: tuple[Any, ...] = ()


def conditions(node: Any, scope: Any, *, null_rejecting: bool) -> list[tuple[int, Condition]]:
    """Return (table use, condition) pairs that a conjunct implies; none if it is not simple.

    null_rejecting: an outer join is near, so only what no NULL passes may be used: files that an
    IS NULL would drop could hold the very rows whose match keeps an outer row away.
    """
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        nodes: list[Any] = [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
    else:
        nodes = [node]
    conditions = [_condition(item, scope, null_rejecting=null_rejecting) for item in nodes]
    return [item for item in conditions if item is not None]


def _condition(node: Any, scope: Any, *, null_rejecting: bool) -> tuple[int, Condition] | None:
    pair = OPERATORS.get(type(node))
    if pair is not None:
        if any(isinstance(side, QUERIES) for side in (node.this, node.expression)):
            return None
        left, right = expressions.bind(node.this, scope), expressions.bind(node.expression, scope)
        if left.origin is not None:
            return _compared(left, right, pair[0])
        if right.origin is not None:
            return _compared(right, left, pair[1])
        return None
    if isinstance(node, exp.In) and not node.args.get("query") and node.expressions:
        if any(isinstance(item, exp.Query | exp.Tuple) for item in (node.this, *node.expressions)):
            return None
        column = expressions.bind(node.this, scope)
        members = [_constant(column, expressions.bind(item, scope)) for item in node.expressions]
        if column.origin is None or any(member is None for member in members):
            return None
        use, index = column.origin
        return use, Condition(column=index, operator="in", values=tuple(members))
    if isinstance(node, exp.Is):
        return _null_test(node, scope, null_rejecting=null_rejecting)
    return None


def _null_test(node: exp.Is, scope: Any, *, null_rejecting: bool) -> tuple[int, Condition] | None:
    column = expressions.bind(node.this, scope)
    if column.origin is None:
        return None
    use, index = column.origin
    if isinstance(node.expression, exp.Null) and not null_rejecting:
        return use, Condition(column=index, operator="is null")
    return None


def _compared(column: Bound, value: Bound, operator: Operator) -> tuple[int, Condition] | None:
    literal = _constant(column, value)
    if literal is None or column.origin is None:
        return None
    use, index = column.origin
    return use, Condition(column=index, operator=operator, values=(literal,))


def _constant(column: Bound, value: Bound) -> Any:
    """Return value as a Python value of the column's type, or None."""
    if value.literal is None or not value.is_literal:
        return None
    converted = rewrites.comparable(column, value)[1]
    literal = converted.literal
    match column.type.kind:
        case "fixed" if isinstance(literal, int | decimal.Decimal) and not isinstance(
            literal, bool
        ):
            return literal
        case "real" if isinstance(literal, int | float | decimal.Decimal):
            return float(literal)
        case "text" if isinstance(literal, str):
            return literal
        case "boolean" if isinstance(literal, bool):
            return literal
        case "date" if type(literal) is datetime.date:
            return literal
        case "timestamp_ntz" if isinstance(literal, datetime.datetime) and literal.tzinfo is None:
            return literal
        case "timestamp_ltz" if (
            isinstance(literal, datetime.datetime) and literal.tzinfo is not None
        ):
            return literal
    return None
