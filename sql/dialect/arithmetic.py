"""rule: Snowflake's arithmetic in the engine's SQL: numbers, dates, moments, intervals.

Each function takes bound operands and returns one. Where the engine differs silently (division of
whole numbers, sums that wrap, products of more than 38 digits) the result is computed in a form
that is exact or fails.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import itertools
from collections.abc import Callable
from typing import Any

from sql import intervals, kernelforms, kernels
from sql.dialect import casts, sqltypes
from sql.plan import code, folding, substitution
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def as_number(operand: Expr) -> Expr:
    """Return operand as a number for arithmetic."""
    match operand.type.name:
        case "fixed" | "real":
            return operand
        case "null":
            return exprs.null(sqltypes.integer())
        case "text":
            if operand.literal is None:
                return exprs.null(sqltypes.integer())
            if operand.is_literal:
                return _number_literal(operand)
            return casts.cast(operand, sqltypes.number(sqltypes.PRECISION_MAX, 5))
        case "boolean":
            return casts.cast(operand, sqltypes.integer(1, 0, 1))
        case "variant":
            return casts.cast(operand, sqltypes.REAL)
    raise casts.mismatch(f"arithmetic on {sqltypes.shown(operand.type)}")


def _number_literal(operand: Expr) -> Expr:
    text = operand.literal.strip()
    if kernels.NUMBER.fullmatch(text):
        try:
            return exprs.number(decimal.Decimal(text))
        except ValueError:
            return exprs.real(float(text))
    return casts.cast(operand, sqltypes.number(sqltypes.PRECISION_MAX, 5))


def add(left: Expr, right: Expr, *, negative: bool = False) -> Expr:
    """Return left + right, or left - right; a date plus or minus days is a date."""
    sign = "-" if negative else "+"
    if right.type.name == "interval" or left.type.name == "interval":
        return _add_interval(left, right, sign)
    if intervals.NAMES & {left.type.name, right.type.name}:
        return _add_span(left, right, negative=negative)
    if left.type.name == "date" or right.type.name == "date":
        return _add_days(left, right, negative=negative)
    if left.type.is_temporal or right.type.is_temporal:
        raise casts.mismatch(f"({sqltypes.shown(left.type)} {sign} {sqltypes.shown(right.type)})")
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = casts.cast(left, sqltypes.REAL), casts.cast(right, sqltypes.REAL)
        return exprs.chained(left, sign, right, sqltypes.REAL)
    sql_type = sqltypes.added(left.type, right.type, negative=negative)
    if sql_type.is_integer:
        total = exprs.chained(casts.proven(left), sign, casts.proven(right), sql_type)
        return _known(
            total, left, right, lambda ours, theirs: ours - theirs if negative else ours + theirs
        )
    left, right = widened(left), widened(right)
    whole = max(left.type.precision - left.type.scale, right.type.precision - right.type.scale)
    if whole + sql_type.scale + 1 > sqltypes.PRECISION_MAX:
        return _add_at_twice_the_width(left, sign, right, sql_type)
    result = exprs.derived(code.infix(left, sign, right), sql_type, [left, right])
    return _settled(result, sql_type)


def _known(computed: Expr, left: Expr, right: Expr, compute: Callable[[int, int], int]) -> Expr:
    """Return a whole number with its value, where both operands are known: it prunes files.

    The engine computes it all the same, and the type's bounds leave it no room to differ.
    """
    ours, theirs = left.literal, right.literal
    if type(ours) is not int or type(theirs) is not int:
        return computed
    return dataclasses.replace(computed, literal=compute(ours, theirs))


def _add_at_twice_the_width(left: Expr, sign: str, right: Expr, sql_type: sqltypes.SqlType) -> Expr:
    """Return a sum that may have more than 38 digits; the cast to its type then fails.

    A chain of such terms stays flat, however long it is; the engine adds it in halves.
    """
    term = code.arrow(right, casts.double_width(right.type))
    if left.terms is not None:
        terms = exprs.extended(left.terms, left, sign, term)
    else:
        terms = code.infix(code.arrow(left, casts.double_width(left.type)), sign, term)
    terms = dataclasses.replace(terms, is_exact=True)
    exact = code.exactly(terms, sql_type, is_opaque=_has_deep_casts(left, right) or None)
    total = exprs.derived(exact, sql_type, [left, right])
    return dataclasses.replace(total, terms=terms)


def _add_days(left: Expr, right: Expr, *, negative: bool) -> Expr:
    if left.type.name == "date" and right.type.name == "date":
        if not negative:
            raise casts.mismatch("(DATE + DATE)")
        days = code.infix(code.arrow(left, "Int32"), "-", code.arrow(right, "Int32"))
        difference = code.arrow(days, "Int64")
        return exprs.derived(difference, sqltypes.integer(9, -(10**8), 10**8), [left, right])
    day, count = (left, right) if left.type.name == "date" else (right, left)
    if day is right and negative:
        raise casts.mismatch("(number - DATE)")
    if count.type.is_temporal:
        raise casts.mismatch(f"({sqltypes.shown(left.type)} + {sqltypes.shown(right.type)})")
    return add_units(day, as_number(count), "day", negative=negative)


def _add_interval(left: Expr, right: Expr, sign: str) -> Expr:
    moment, step = (right, left) if left.type.name == "interval" else (left, right)
    if step.type.name != "interval" or (sign == "-" and moment is right):
        raise casts.mismatch("INTERVAL arithmetic")
    if moment.type.name == "text":
        moment = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    if step.type.scale:
        moment = casts.with_all_digits(moment)
    if not moment.type.is_temporal:
        raise casts.mismatch(f"INTERVAL and {sqltypes.shown(moment.type)}")
    sql_type = moment.type
    if sql_type.name == "date" and step.type.scale:
        # An interval finer than a day makes a DATE a TIMESTAMP; its type says so by scale.
        moment, sql_type = casts.cast(moment, sqltypes.TIMESTAMP_NTZ), sqltypes.TIMESTAMP_NTZ
    if sql_type.name == "timestamp_tz":
        local = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
        moved = exprs.derived(code.infix(local, sign, step), local.type, [local])
        return casts.at_offset_of(moment, moved)
    return exprs.derived(code.infix(moment, sign, step), sql_type, [moment])


def _add_span(left: Expr, right: Expr, *, negative: bool) -> Expr:
    """Return a date or timestamp moved by a value of an INTERVAL type."""
    moment, span = (right, left) if left.type.name in intervals.NAMES else (left, right)
    if moment.type.name == "text":
        moment = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    if not moment.type.is_temporal or (negative and moment is right):
        raise casts.mismatch(f"{sqltypes.shown(left.type)} and {sqltypes.shown(right.type)}")
    if span.type.name == "interval_year_month":
        return add_units(moment, _as_count(span, span), "month", negative=negative)
    if moment.type.name == "date":
        moment = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    if casts.is_of_nanoseconds(moment):
        moment = casts.whole_microseconds(moment)
    micros = code.kernel("_interval_micros", casts.as_arrow(span, span.type))
    return add_units(moment, _as_count(micros, span), "microsecond", negative=negative)


def _as_count(counted: code.Part, span: Expr) -> Expr:
    """Return the engine's 64-bit integer of an interval as a NUMBER."""
    count = sqltypes.integer()
    return exprs.derived(code.exactly(counted, count), count, [span])


def add_units(moment: Expr, count: Expr, unit: str, *, negative: bool = False) -> Expr:
    """Return moment moved by count units (day, month, or microseconds); DATE stays DATE."""
    if unit in ("millisecond", "microsecond"):
        moment = casts.with_all_digits(moment)
    if moment.type.name == "timestamp_tz":
        local = add_units(
            casts.cast(moment, sqltypes.TIMESTAMP_NTZ), count, unit, negative=negative
        )
        return casts.at_offset_of(moment, local)
    if moment.type.name == "timestamp_ltz" and unit in ("day", "month"):
        folded = _moved_constant(moment, round_half_away(count), unit, negative=negative)
        if folded is not None:
            return folded
        # Days and months follow the calendar, with summer time; hours are fixed durations.
        local = add_units(
            casts.cast(moment, sqltypes.TIMESTAMP_NTZ), count, unit, negative=negative
        )
        return exprs.retyped(casts.cast(local, moment.type), moment.type)
    count = round_half_away(count)
    folded = _moved_constant(moment, count, unit, negative=negative)
    if folded is not None:
        return folded
    sign = "-" if negative else "+"
    steps = code.exactly(count, sqltypes.integer())
    moved: code.Code
    if unit == "month":
        if isinstance(count.literal, int) and abs(count.literal) <= MONTHS_MAX:
            moved = code.infix(moment, sign, code.interval(f"{count.literal} month"))
        else:
            moved = _months_later(
                moment, code.Prefix(word="-", operand=steps) if negative else steps
            )
    elif moment.type.name == "date" and not _is_short(count, unit):
        # The engine's sum of 64 bits would wrap.
        midnight = code.exactly(moment, sqltypes.TIMESTAMP_NTZ)
        counted = code.exactly(negate(count) if negative else count, sqltypes.integer())
        later = code.kernel(f"_later_{casts.MICROSECONDS[unit]}", midnight, counted)
        moved = code.exactly(later, sqltypes.DATE)
    elif moment.type.name == "date":
        assert unit == "day"
        days = code.infix(code.arrow(moment, "Int32"), sign, steps)
        moved = code.arrow(code.arrow(days, "Int32"), "Date32")
    elif not _is_short(count, unit):
        # It may leave the range of 64 bits, which the engine's arithmetic would wrap.
        counted = code.exactly(negate(count) if negative else count, sqltypes.integer())
        naive: code.Part = moment
        if moment.type.name == "timestamp_ltz":
            naive = code.arrow(moment, "Int64")
        later = code.kernel(
            f"_later_{casts.MICROSECONDS[unit]}",
            code.exactly(naive, sqltypes.TIMESTAMP_NTZ),
            counted,
        )
        moved = code.exactly(later, moment.type)
        if moment.type.name == "timestamp_ltz":
            moved = casts.at_instant(code.arrow(later, "Int64"), [moment]).code
    else:
        steps = code.exactly(casts.proven(count), sqltypes.integer())
        micros = code.infix(
            code.arrow(moment, "Int64"), sign, code.infix(steps, "*", casts.MICROSECONDS[unit])
        )
        moved = code.exactly(code.exactly(micros, sqltypes.TIMESTAMP_NTZ), moment.type)
        if moment.type.name == "timestamp_ltz":
            moved = casts.at_instant(micros, [moment]).code
    return exprs.derived(moved, moment.type, [moment, count])


def _moved_constant(moment: Expr, count: Expr, unit: str, *, negative: bool) -> Expr | None:
    """Return a known moment moved by a known count of units; None if the engine has to do it."""
    if not isinstance(moment.literal, datetime.date) or not isinstance(count.literal, int):
        return None
    if moment.type.scale > casts.MICROSECOND_DIGITS:
        return None
    later = folding.moved(moment.literal, -count.literal if negative else count.literal, unit)
    return None if later is None else _moment_constant(later)


def _moment_constant(value: datetime.date) -> Expr:
    return exprs.timestamp(value) if isinstance(value, datetime.datetime) else exprs.date(value)


def truncated_constant(moment: Expr, part: str, *, first_day: int) -> Expr | None:
    """Return a known moment cut to a part; None if the engine has to do it."""
    if (
        not isinstance(moment.literal, datetime.date)
        or moment.type.scale > casts.MICROSECOND_DIGITS
    ):
        return None
    cut = folding.truncated(moment.literal, part, first_day=first_day)
    return None if cut is None else _moment_constant(cut)


MONTHS_MAX = 12 * 10_000
"""Months of the calendar; the engine's intervals hold no number of more than 32 bits."""


def _is_short(count: Expr, unit: str) -> bool:
    """Say whether count units are so few that no moment moved by them leaves 64 bits."""
    most = max(abs(count.type.low), abs(count.type.high)) if count.type.is_integer else 10**38
    return most * casts.MICROSECONDS[unit] <= SHORT_MICROSECONDS


SHORT_MICROSECONDS = 10_000 * 366 * 86_400_000_000
"""Ten thousand years."""


def add_months(moment: Expr, count: Expr) -> Expr:
    """Return a DATE or TIMESTAMP_NTZ moved by months; the last day of a month stays a last day."""
    moved = _months_later(moment, code.exactly(count, sqltypes.integer()), suffix="_last")
    return exprs.derived(moved, moment.type, [moment, count])


def _months_later(moment: Expr, months: code.Part, suffix: str = "") -> code.Cast:
    sql_type = sqltypes.DATE if moment.type.name == "date" else sqltypes.TIMESTAMP_NTZ
    name = "date" if sql_type is sqltypes.DATE else "timestamp"
    moved = code.kernel(f"_add_months_{name}{suffix}", casts.as_arrow(moment, sql_type), months)
    return code.exactly(moved, moment.type)


def multiply(left: Expr, right: Expr) -> Expr:
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = casts.cast(left, sqltypes.REAL), casts.cast(right, sqltypes.REAL)
        return exprs.chained(left, "*", right, sqltypes.REAL)
    sql_type = sqltypes.multiplied(left.type, right.type)
    if sql_type.is_integer:
        product = exprs.chained(casts.proven(left), "*", casts.proven(right), sql_type)
        return _known(product, left, right, lambda ours, theirs: ours * theirs)
    left, right = widened(left), widened(right)
    engine_scale = left.type.scale + right.type.scale
    if left.type.precision + right.type.precision > sqltypes.PRECISION_MAX:
        # The exact product has more digits than a decimal of the engine's usual width.
        ours, theirs = (code.arrow(side, casts.double_width(side.type)) for side in (left, right))
        is_opaque = engine_scale > sql_type.scale or _has_deep_casts(left, right)
        exact: code.Code = code.exactly(
            code.infix(ours, "*", theirs), sql_type, is_opaque=is_opaque
        )
        if engine_scale == sql_type.scale and _may_stand_twice(left, right):
            exact = _within_digits(code.infix(left, "*", right), sql_type, exact)
        return exprs.derived(exact, sql_type, [left, right])
    product = exprs.derived(code.infix(left, "*", right), sql_type, [left, right])
    return _settled(product, sql_type, engine_scale=engine_scale)


REPEATED_NODES_MAX = 32
"""Nodes of operands whose product stands in the engine's text several times."""


def _may_stand_twice(*operands: Expr) -> bool:
    nodes = list(itertools.islice(substitution.nodes(operands), REPEATED_NODES_MAX + 1))
    return (
        len(nodes) <= REPEATED_NODES_MAX
        and not any(operand.is_volatile for operand in operands)
        and not any(type(node) is code.Subquery for node in nodes)
    )


CASTS_IN_CASTS_MAX = 8
CAST_NODES_MAX = 64
"""How many casts stand in each other in operands of twice the usual width, and in how many nodes
they are looked for. The engine's planner takes 1.7 times as long for each further one."""


def _has_deep_casts(*operands: Expr) -> bool:
    """Say whether so many casts stand in each other that the next one has to be opaque."""
    stack: list[tuple[code.Part, int]] = [(operand, 0) for operand in operands]
    for _ in range(CAST_NODES_MAX):
        if not stack:
            return False
        part, casts_around = stack.pop()
        match part:
            case Expr():
                stack.append((part.code, casts_around))
            case code.Cast(is_opaque=False):
                if casts_around + 1 >= CASTS_IN_CASTS_MAX:
                    return True
                stack.append((part.operand, casts_around + 1))
            case code.Infix():
                stack += [(operand, casts_around) for operand in part.operands]
            case code.Case():
                stack += [(each, casts_around) for when in part.whens for each in when]
                stack += [(each, casts_around) for each in (part.otherwise,) if each is not None]
    return True


def _within_digits(product: code.Code, sql_type: sqltypes.SqlType, exact: code.Code) -> code.Case:
    """Return a product as the engine computes it, and exact for one of more digits than sql_type.

    The engine fails at a product beyond 127 bits, and does not see that one within them has more
    than 38 digits. exact: the same product, in an expression that fails at such a one. It is
    computed for no other row: multiplied in twice the width, or compared by a cast, products take
    more CPU time. Figures are in decision 0095.
    """
    digits = (9,) * sql_type.precision
    low, high = (
        code.exactly(f"{decimal.Decimal((sign, digits, -sql_type.scale)):f}", sql_type)
        for sign in (1, 0)
    )
    is_beyond = code.infix(code.infix(product, "<", low), "OR", code.infix(product, ">", high))
    return code.case([(is_beyond, exact)], product)


def divide(left: Expr, right: Expr) -> Expr:
    """Return left / right: NUMBER by NUMBER is a NUMBER of more scale; nothing divides by 0."""
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = (
            casts.cast(left, sqltypes.REAL),
            checked_divisor(casts.cast(right, sqltypes.REAL)),
        )
        return exprs.derived(code.infix(left, "/", right), sqltypes.REAL, [left, right])
    return quotient(left, right, sqltypes.divided(left.type, right.type))


ENGINE_DIGITS_MAX = 76
"""Digits of the engine's decimals of twice the usual width."""


QUOTIENT_SCALE_STEP = 4
"""The engine gives so many digits more than the dividend has after the point, cut off."""


def quotient(left: Expr, right: Expr, sql_type: sqltypes.SqlType) -> Expr:
    """Return the quotient of two NUMBERs, rounded to the scale of sql_type."""
    # One digit more than wanted is enough to round.
    extended = max(left.type.scale, sql_type.scale - QUOTIENT_SCALE_STEP + 1)
    whole = left.type.precision - left.type.scale
    if left.type.is_integer:
        whole = min(whole, len(str(sqltypes.INT64_HIGH)))
    right = widened(right)
    dividend: code.Part
    divisor: code.Part
    # The engine moves the dividend's point that far before it divides.
    digits = whole + extended + QUOTIENT_SCALE_STEP + right.type.scale
    if digits <= sqltypes.PRECISION_MAX:
        dividend = casts.cast(left, sqltypes.number(sqltypes.PRECISION_MAX, extended))
        divided: code.Code = code.infix(dividend, "/", right)
    else:
        dividend = code.arrow(left, casts.double_width(sqltypes.number(whole + extended, extended)))
        divisor = code.arrow(right, casts.double_width(right.type))
        spare = extended + QUOTIENT_SCALE_STEP - 1 - sql_type.scale
        moved = min(max(digits - ENGINE_DIGITS_MAX, 0), right.type.scale, spare)
        if moved:
            # A divisor with its point further to the right, and the quotient moved back.
            shifted = sqltypes.number(right.type.precision, right.type.scale - moved)
            unit = code.arrow(10**moved, casts.double_width(sqltypes.number(moved + 1)))
            divisor = code.arrow(code.infix(divisor, "*", unit), casts.double_width(shifted))
            divided = code.infix(code.infix(dividend, "/", divisor), "*", unit)
        else:
            divided = code.infix(dividend, "/", divisor)
    rounded = code.call("round", divided, sql_type.scale)
    return exprs.derived(code.exactly(rounded, sql_type), sql_type, [left, right])


def checked_divisor(right: Expr) -> Expr:
    """Return a float divisor that fails on zero instead of giving infinity."""
    if isinstance(right.literal, int | float | decimal.Decimal) and right.literal != 0:
        return right
    checked = code.kernel("_nonzero", casts.as_arrow(right, sqltypes.REAL))
    return exprs.derived(checked, sqltypes.REAL, [right])


def remainder(left: Expr, right: Expr) -> Expr:
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = (
            casts.cast(left, sqltypes.REAL),
            checked_divisor(casts.cast(right, sqltypes.REAL)),
        )
        return exprs.derived(code.infix(left, "%", right), sqltypes.REAL, [left, right])
    sql_type = sqltypes.unified([left.type, right.type])
    assert sql_type is not None
    if not sql_type.is_integer:
        left, right = casts.cast(left, sql_type), casts.cast(right, sql_type)
    remainder = exprs.derived(code.infix(left, "%", right), sql_type, [left, right])
    return remainder if sql_type.is_integer else _settled(remainder, sql_type)


def negate(operand: Expr) -> Expr:
    operand = as_number(operand)
    if isinstance(operand.literal, int) and not isinstance(operand.literal, bool):
        return exprs.integer(-operand.literal)
    if isinstance(operand.literal, decimal.Decimal):
        # Python's own minus keeps 28 digits.
        return exprs.number(kernelforms.DIGITS.minus(operand.literal))
    if isinstance(operand.literal, float):
        return exprs.real(-operand.literal)
    if operand.type.name == "real":
        # A minus would give NaN a sign, and the engine orders that below all numbers.
        difference = code.infix(exprs.real(0.0), "-", operand)
        return exprs.derived(difference, sqltypes.REAL, [operand])
    sql_type = sqltypes.negated(operand.type)
    operand = casts.proven(operand) if sql_type.is_integer else widened(operand)
    return exprs.derived(code.Prefix(word="-", operand=operand), sql_type, [operand])


def round_half_away(operand: Expr) -> Expr:
    """Return a number as a whole one, as for function arguments that are integers."""
    operand = as_number(operand)
    if operand.type.is_integer:
        return operand
    return casts.cast(operand, sqltypes.number(sqltypes.PRECISION_MAX))


def widened(operand: Expr) -> Expr:
    """Return a NUMBER as a decimal, with each of its digits."""
    if not operand.type.is_integer:
        return operand
    operand = casts.proven(operand)
    digits = min(max(len(str(operand.type.low)) - 1, len(str(operand.type.high))), 19)
    sql_type = sqltypes.number(max(digits, 1))
    exact = exprs.derived(code.exactly(operand, sql_type), sql_type, [operand])
    return dataclasses.replace(exact, literal=operand.literal)


def _settled(result: Expr, sql_type: sqltypes.SqlType, engine_scale: int | None = None) -> Expr:
    """Return an arithmetic result in exactly its declared type."""
    if sql_type.is_integer:
        return result
    exact: code.Code = result.code
    if engine_scale is not None and engine_scale > sql_type.scale:
        exact = code.call("round", exact, sql_type.scale)
    return dataclasses.replace(result, code=code.exactly(exact, sql_type))


def added(operand: Expr, *, doubles: bool) -> Expr:
    """Return a NUMBER as SUM adds it, which takes any decimal: products in it are not cast.

    The engine's type of a product has one digit more than ours, which no product of such factors
    fills; to cast to ours it compares each value with its ends, which is slow. doubles: in decimals
    of twice the usual width, whose sum is exact. Otherwise the sum relies on the digits of what it
    adds. A file may have values of more digits than its columns declare, so a product is compared
    with the ends of its type, in less time than by a cast.
    """
    # SUM computes it of rows: elsewhere the same product may be a key of GROUP BY, by its text.
    if any(type(node) is code.Subquery for node in substitution.nodes([operand])):
        plain = operand
    else:
        plain = substitution.substituted(operand, _bare_factors)
    product = _bare(plain)
    if doubles:
        digits = operand.type.precision + (product is not plain)
        computed: code.Code = code.arrow(product, f"Decimal256({digits}, {operand.type.scale})")
    elif product is not plain and _may_stand_twice(operand):
        computed = _within_digits(product.code, operand.type, operand.code)
    elif plain is operand:
        return operand
    else:
        computed = plain.code
    return exprs.derived(computed, operand.type, [operand])


def _bare_factors(node: Any) -> Any:
    """Return a product whose factors are products that are not cast; None for what has none."""
    if type(node) is not code.Infix or node.operators != ("*",):
        return None
    operands = tuple(_bare(each) if type(each) is Expr else each for each in node.operands)
    is_same = all(ours is theirs for ours, theirs in zip(operands, node.operands, strict=True))
    return None if is_same else dataclasses.replace(node, operands=operands)


def _bare(operand: Expr) -> Expr:
    """Return a product of decimals as the engine computes it, anything else as it is."""
    settled = operand.code
    if type(settled) is not code.Cast or settled.lenient or settled.is_named:
        return operand
    product = settled.operand
    if type(product) is not code.Infix or product.operators != ("*",):
        return operand
    factors = [each for each in product.operands if type(each) is Expr and _is_decimal(each.type)]
    digits = sum(factor.type.precision for factor in factors)
    scale = sum(factor.type.scale for factor in factors)
    if len(factors) != 2 or (digits, scale) != (operand.type.precision, operand.type.scale):
        return operand
    # No deeper than the digits of a NUMBER: each factor has one at least.
    bare = dataclasses.replace(product, operands=tuple(map(_bare, factors)))
    return exprs.derived(bare, operand.type, [operand])


def _is_decimal(sql_type: sqltypes.SqlType) -> bool:
    return sql_type.name == "fixed" and not sql_type.is_integer
