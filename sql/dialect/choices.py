"""rule: CASE, NULLIF, COALESCE, GREATEST and LEAST in the engine's SQL.

An operand that is compared with several values is written once where the engine's form for that
compares as Snowflake does: `CASE x WHEN v` and `nullif(x, v)`, for operands of one type. Calls that
are nested in each other then grow with their number. Elsewhere each comparison writes its operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql import errors
from sql.dialect import rewrites, sqltypes
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def coalesce(operands: Sequence[Expr]) -> Expr:
    parts, sql_type = rewrites.unify(operands, "COALESCE")
    nullable = all(part.nullable for part in parts)
    return exprs.derived(code.call("coalesce", *parts), sql_type, parts, nullable=nullable)


def case(
    whens: Sequence[tuple[Expr, Expr]], otherwise: Expr | None, *, operand: Expr | None = None
) -> Expr:
    """Return CASE WHEN ... THEN ... ELSE ... END over conditions that are booleans already.

    operand: what the conditions, then values of its own type, are compared with.
    """
    results = [result for _, result in whens] + ([otherwise] if otherwise is not None else [])
    parts, sql_type = rewrites.unify(results, "CASE")
    conditions = [condition for condition, _ in whens]
    nullable = otherwise is None or any(part.nullable for part in parts)
    return exprs.derived(
        code.case(
            zip(conditions, parts[: len(whens)], strict=True),
            None if otherwise is None else parts[-1],
            operand=operand,
        ),
        sql_type,
        [*([] if operand is None else [operand]), *conditions, *parts],
        nullable=nullable,
    )


def switch(
    operand: Expr, whens: Sequence[tuple[Expr, Expr]], otherwise: Expr | None, *, with_null: bool
) -> Expr:
    """Return the result of the first value that operand equals. with_null: NULL equals NULL."""
    # A value that is not NULL equals no NULL, so that the engine's `=` decides.
    is_plain = not with_null or not any(value.nullable for value, _ in whens)
    if is_plain and all(_compares_alike(operand, value) for value, _ in whens):
        return case(whens, otherwise, operand=operand)
    operator = "IS NOT DISTINCT FROM" if with_null else "="
    tests = [(rewrites.compare(operand, value, operator), result) for value, result in whens]
    return case(tests, otherwise)


def nullif(left: Expr, right: Expr) -> Expr:
    """Return left, or NULL where it equals right."""
    if _compares_alike(left, right):
        chosen = code.exactly(code.call("nullif", left, right), left.type)
        return exprs.derived(chosen, left.type, [left, right], nullable=True)
    same = rewrites.compare(left, right, "=")
    sql_type = sqltypes.TEXT if left.type.name == "null" else left.type
    return case([(same, exprs.null(sql_type))], left)


def _compares_alike(left: Expr, right: Expr) -> bool:
    """Say whether the engine compares both as they are, and changes neither's type for that.

    It would give decimals another scale. A volatile operand stays in comparisons, which bind it.
    """
    if left.is_volatile or right.is_volatile:
        return False
    types = (left.type, right.type)
    return all(each.is_integer for each in types) or all(each.name == "text" for each in types)


def extreme(operands: Sequence[Expr], name: str) -> Expr:
    """Return GREATEST or LEAST: NULL if an operand is."""
    parts, sql_type = rewrites.unify(operands, name.upper())
    if sql_type.is_variant:
        # The engine would compare the texts of values.
        raise errors.unsupported(f"{name.upper()} of {sqltypes.shown(sql_type)}")
    chosen: code.Code = code.call(name, *parts)
    nullable = [part for part in parts if part.nullable]
    if nullable:
        any_null = code.joined([code.is_null(part) for part in nullable], "OR")
        chosen = code.case([(any_null, code.NULL)], chosen)
    return exprs.derived(chosen, sql_type, parts)
