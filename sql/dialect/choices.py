"""rule: CASE, NULLIF, COALESCE, GREATEST and LEAST in the engine's SQL.

An operand that is compared with several values is written once where the engine's form for that
compares as Snowflake does: `CASE x WHEN v` and `nullif(x, v)`, for operands of one type. BETWEEN,
GREATEST, LEAST and DIV0 repeat a short operand, because the engine knows best what it can compute
itself; a long one is written once, as an argument of a kernel. Calls that are nested in each other
then grow with their number. Elsewhere each comparison writes its operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql import errors, limits
from sql.dialect import arithmetic, casts, comparisons, sqltypes
from sql.plan import code, emit
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def coalesce(operands: Sequence[Expr]) -> Expr:
    parts, sql_type = casts.unify(operands, "COALESCE")
    nullable = all(part.nullable for part in parts)
    return exprs.derived(code.call("coalesce", *parts), sql_type, parts, nullable=nullable)


def case(
    whens: Sequence[tuple[Expr, Expr]], otherwise: Expr | None, *, operand: Expr | None = None
) -> Expr:
    """Return CASE WHEN ... THEN ... ELSE ... END over conditions that are booleans already.

    operand: what the conditions, then values of its own type, are compared with.
    """
    results = [result for _, result in whens] + ([otherwise] if otherwise is not None else [])
    parts, sql_type = casts.unify(results, "CASE")
    conditions = [condition for condition, _ in whens]
    nullable = otherwise is None or any(part.nullable for part in parts)
    if operand is None and sql_type.name == "boolean" and not _are_plain(conditions[1:] + parts):
        # The engine makes AND and OR of CASE with conditions and truth values, and those compute
        # results of rows that do not choose them: a division by zero in one would fail.
        operand = exprs.boolean(True)
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


def _are_plain(parts: Sequence[Expr]) -> bool:
    """Return whether parts are constants and stored columns, whose computation cannot fail."""
    return all(part.is_literal or part.origin is not None for part in parts)


def switch(
    operand: Expr, whens: Sequence[tuple[Expr, Expr]], otherwise: Expr | None, *, with_null: bool
) -> Expr:
    """Return the result of the first value that operand equals. with_null: NULL equals NULL."""
    # A value that is not NULL equals no NULL, so that the engine's `=` decides.
    is_plain = not with_null or not any(value.nullable for value, _ in whens)
    alike = _of_one_type([operand, *(value for value, _ in whens)]) if is_plain else None
    if alike is not None:
        results = (result for _, result in whens)
        return case(list(zip(alike[1:], results, strict=True)), otherwise, operand=alike[0])
    operator = "IS NOT DISTINCT FROM" if with_null else "="
    tests = [(comparisons.compare(operand, value, operator), result) for value, result in whens]
    return case(tests, otherwise)


def nullif(left: Expr, right: Expr) -> Expr:
    """Return left, or NULL where it equals right."""
    alike = _of_one_type([left, right])
    if alike is not None:
        chosen = code.exactly(code.call("nullif", *alike), left.type)
        return exprs.derived(chosen, left.type, [left, right], nullable=True)
    same = comparisons.compare(left, right, "=")
    sql_type = sqltypes.TEXT if left.type.name == "null" else left.type
    return case([(same, exprs.null(sql_type))], left)


def _of_one_type(operands: Sequence[Expr]) -> list[Expr] | None:
    """Return operands in one type, which the engine compares as they are; None if there is none.

    A volatile operand stays in comparisons, which bind it.
    """
    if any(operand.is_volatile for operand in operands):
        return None
    types = [operand.type for operand in operands]
    if all(each.is_integer for each in types) or all(each.name == "text" for each in types):
        return list(operands)
    common = _common_decimal(operands)
    return None if common is None else [casts.in_type(each, common) for each in operands]


def _common_decimal(operands: Sequence[Expr]) -> sqltypes.SqlType | None:
    """Return the decimal type that holds each digit of NUMBERs; None if there is none."""
    if any(operand.type.name != "fixed" for operand in operands):
        return None
    scale = max(operand.type.scale for operand in operands)
    whole = max(comparisons.whole_digits(operand.type) for operand in operands)
    if whole + scale > sqltypes.PRECISION_MAX:
        return None
    return sqltypes.number(max(whole + scale, 1), scale)


def _is_long(*operands: Expr) -> bool:
    return any(emit.length(operand) > limits.REPEATED_TEXT_MAX for operand in operands)


def _kernel_type(sql_type: sqltypes.SqlType) -> str | None:
    """Return how kernels of choices name a type; None for one that they do not take."""
    if sql_type.name == "fixed":
        if sql_type.is_integer:
            return "int"
        return f"fixed_{sql_type.precision}_{sql_type.scale}"
    if sql_type.name == "timestamp_ntz":
        return None if sql_type.scale > casts.MICROSECOND_DIGITS else "timestamp"
    return sql_type.name if sql_type.name in ("real", "text", "boolean", "date", "time") else None


def between(operand: Expr, low: Expr, high: Expr) -> Expr:
    """Return whether operand lies between two bounds, both included."""
    if _is_long(operand):
        parts = _comparable_thrice(operand, low, high)
        name = None if parts is None else _kernel_type(parts[0].type)
        if parts is not None and name is not None:
            exact = [casts.as_arrow(part, parts[0].type) for part in parts]
            lies = code.kernel(f"_between_{name}", *exact)
            return exprs.derived(lies, sqltypes.BOOLEAN, [operand, low, high])
    above = comparisons.compare(operand, low, ">=")
    below = comparisons.compare(operand, high, "<=")
    return exprs.derived(code.infix(above, "AND", below), sqltypes.BOOLEAN, [above, below])


def _comparable_thrice(operand: Expr, low: Expr, high: Expr) -> list[Expr] | None:
    """Return three operands in the one type in which they are compared; None for several types."""
    ours, least = comparisons.comparable(operand, low)
    also_ours, most = comparisons.comparable(operand, high)
    sides = [ours, least, also_ours, most]
    common = _common_decimal(sides)
    if common is not None:
        if all(side.type.is_integer for side in sides):
            return [ours, least, most]
        return [casts.in_type(side, common) for side in (ours, least, most)]
    first = ours.type
    if first.name == "fixed" or not all(
        sqltypes.same_in_engine(side.type, first) for side in sides
    ):
        return None
    return [ours, least, most]


def extreme(operands: Sequence[Expr], name: str) -> Expr:
    """Return GREATEST or LEAST: NULL if an operand is."""
    parts, sql_type = casts.unify(operands, name.upper())
    if sql_type.is_variant or sql_type.is_nested:
        # The engine would compare the texts of values.
        raise errors.unsupported(f"{name.upper()} of {sqltypes.shown(sql_type)}")
    chosen: code.Code = code.call(name, *parts)
    nullable = [part for part in parts if part.nullable]
    type_name = _kernel_type(sql_type) if nullable and _is_long(*nullable) else None
    if type_name is not None:
        exact = [casts.as_arrow(part, sql_type) for part in parts]
        chosen = code.kernel(f"_{name}_of_{len(parts)}_{type_name}", *exact)
    elif nullable:
        any_null = code.joined([code.is_null(part) for part in nullable], "OR")
        chosen = code.case([(any_null, code.NULL)], chosen)
    return exprs.derived(chosen, sql_type, parts)


def quotient_or_zero(dividend: Expr, divisor: Expr, *, of_null: bool) -> Expr:
    """Return a quotient that is zero where the divisor is zero, or NULL if of_null."""
    dividend, divisor = arithmetic.as_number(dividend), arithmetic.as_number(divisor)
    # The divisor is not zero when it divides: a CASE alone does not prevent the division.
    safe = exprs.derived(code.call("nullif", divisor, 0), divisor.type, [divisor], nullable=True)
    quotient = arithmetic.divide(dividend, safe)
    parts = [dividend, divisor]
    if _is_long(divisor):
        word = "_div0null" if of_null else "_div0"
        if quotient.type.name == "real":
            exact = [casts.cast(part, sqltypes.REAL) for part in parts]
            name = f"{word}_real"
        else:
            exact = [arithmetic.widened(part) for part in parts]
            name = "_".join([word, str(quotient.type.scale), *map(_digits, exact)])
        computed = code.kernel(name, *(casts.as_arrow(part, part.type) for part in exact))
        return exprs.derived(code.exactly(computed, quotient.type), quotient.type, parts)
    zero = casts.cast(exprs.integer(0), quotient.type)
    is_zero = code.infix(divisor, "=", 0)
    if of_null:
        is_zero = code.infix(is_zero, "OR", code.is_null(divisor))
    return exprs.derived(code.case([(is_zero, zero)], quotient), quotient.type, parts)


def _digits(number: Expr) -> str:
    return f"{number.type.precision}_{number.type.scale}"
