"""rule: aggregate and window functions.

A SUM of whole numbers stays in 64 bits only if the bounds of the summand and of the number of rows
prove that it cannot overflow, because the engine wraps silently. Both may be what a writer claims
of a table; the engine checks a claim that the proof needs.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
from typing import Final

from sqlglot import exp

from sql import errors, variants
from sql.dialect import arithmetic, builders, casts, comparisons, sqltypes
from sql.dialect.builders import FunctionCall, aggregate, window
from sql.plan import code, emit
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

ROWS_MAX = 1 << 40
"""More rows than any query here can add up in a day."""

COUNT = sqltypes.integer(18, 0, ROWS_MAX)

TEXT: Final = sqltypes.TEXT

SUM_DIGITS: Final = 12
"""How many digits more a SUM of NUMBERs has than a summand."""


def _aggregate(call: FunctionCall, name: str, *operands: code.Argument) -> code.FunctionUse:
    """Return the engine's aggregate as it is called: with its DISTINCT, its order and its OVER."""
    return code.FunctionUse(
        name=name,
        arguments=tuple(map(code.part, operands)),
        is_distinct=call.distinct,
        order=call.order,
        over=call.over,
    )


WHOLE_FRAME: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def _ordered(call: FunctionCall, operand: Expr) -> FunctionCall:
    """Return the call of an aggregate that keeps its order, as the engine takes it.

    With DISTINCT the order is that of the values. The order of a window's rows stands in OVER.
    """
    if not call.order:
        return call
    if call.distinct and (
        len(call.order) > 1 or emit.text(call.order_parts[0]) != emit.text(operand)
    ):
        raise call.refuse("DISTINCT and another order")
    if not call.over:
        return call
    if call.over.order:
        raise call.refuse("WITHIN GROUP and ORDER BY in OVER")
    over = dataclasses.replace(call.over, order=call.order, frame=WHOLE_FRAME)
    return dataclasses.replace(call, order=(), over=over)


def _over(
    call: FunctionCall, name: str, *operands: code.Argument, ignores_nulls: bool = False
) -> code.FunctionUse:
    """Return a function of the engine over the call's window."""
    return code.FunctionUse(
        name=name,
        arguments=tuple(map(code.part, operands)),
        ignores_nulls=ignores_nulls,
        over=call.over,
    )


def count(call: FunctionCall) -> Expr:
    """COUNT(*), COUNT(x, ...), COUNT(DISTINCT x)."""
    if len(call.nodes) == 1 and builders.is_star(call.nodes[0]):
        if call.distinct:
            raise call.refuse("DISTINCT *")
        if isinstance(call.nodes[0], exp.Star):
            return _count(call, code.Token(text="*"), [])
        operands = call.several(0)  # of t.*: the rows without a NULL
    else:
        operands = call.args
    if len(operands) == 1:
        return _count(call, operands[0], operands)
    present = code.joined([code.is_not_null(operand) for operand in operands], "AND")
    row = code.call("struct", *map(casts.as_key, operands)) if call.distinct else 1
    return _count(call, code.case([(present, row)]), operands)


def _count(call: FunctionCall, counted: code.Part, parts: list[Expr]) -> Expr:
    if isinstance(counted, Expr) and counted.type.name == "variant":
        counted = code.call("nullif", counted, variants.NULL_TEXT)
    if isinstance(counted, Expr) and call.distinct:
        counted = casts.with_one_zero(casts.as_instant(counted))
    number = code.FunctionUse(
        name="count", arguments=(counted,), is_distinct=call.distinct, over=call.over
    )
    return call.aggregated(number, COUNT, parts, nullable=False)


def count_if(call: FunctionCall) -> Expr:
    """COUNT_IF: of the type that a SUM of ones has."""
    condition = comparisons.as_boolean(call.arg(0))
    counted = _count(call, code.case([(condition, 1)]), [condition])
    precision = 1 + SUM_DIGITS
    return dataclasses.replace(counted, type=dataclasses.replace(counted.type, precision=precision))


def _summed(operand: Expr) -> Expr:
    """Return the operand of an aggregate as a number: text as a FLOAT, with all its digits."""
    if operand.type.name == "text":
        return casts.cast(operand, sqltypes.REAL)
    return arithmetic.as_number(operand)


def total(call: FunctionCall) -> Expr:
    """SUM."""
    operand = _summed(call.arg(0))
    sql_type = operand.type
    if sql_type.name == "real":
        return call.aggregated(_aggregate(call, "sum", operand), sqltypes.REAL, [operand])
    rows = min(call.rows or ROWS_MAX, ROWS_MAX)
    declared = min(sql_type.precision + SUM_DIGITS, sqltypes.PRECISION_MAX)
    if sql_type.is_integer:
        operand = casts.proven(operand)
        widest = max(abs(sql_type.low), abs(sql_type.high))
        if widest * rows <= sqltypes.INT64_HIGH:
            low, high = min(sql_type.low * rows, 0), max(sql_type.high * rows, 0)
            whole = sqltypes.integer(declared, low, high)
            sum_of: code.Code = _aggregate(call, "sum", operand)
            if widest * ROWS_MAX > sqltypes.INT64_HIGH:
                sum_of = _of_at_most(call, rows, sum_of, whole)
            return call.aggregated(sum_of, whole, [operand])
        digits = min(max(len(str(sql_type.low)) - 1, len(str(sql_type.high))), 19)
        operand = casts.cast(operand, sqltypes.number(digits))
        if operand.type.is_integer:
            wide = sqltypes.number(digits)
            operand = exprs.derived(code.exactly(operand, wide), wide, [operand])
    result = sqltypes.number(declared, sql_type.scale)
    precision = operand.type.precision
    # The engine's sum of decimals wraps; one of twice the width is exact.
    doubles = precision + len(str(rows)) > sqltypes.PRECISION_MAX
    if not call.over:
        operand = arithmetic.added(operand, doubles=doubles)
    elif doubles:
        exact = code.arrow(operand, casts.double_width(operand.type))
        operand = exprs.derived(exact, operand.type, [operand])
    added: code.Code = code.exactly(_aggregate(call, "sum", operand), result)
    if not doubles and precision + len(str(ROWS_MAX)) > sqltypes.PRECISION_MAX:
        added = _of_at_most(call, rows, added, result)
    return call.aggregated(added, result, [operand])


def _of_at_most(
    call: FunctionCall, rows: int, computed: code.Part, sql_type: sqltypes.SqlType
) -> code.Checked:
    """Return what is computed of a group; the query fails if the group has more rows."""
    counted = code.FunctionUse(name="count", arguments=(code.ALL_COLUMNS,), over=call.over)
    return code.Checked(
        operand=computed,
        tested=code.exactly(counted, COUNT),
        low=0,
        high=rows,
        target=sqltypes.arrow_name(sql_type),
    )


def average(call: FunctionCall) -> Expr:
    """AVG: of a NUMBER, a NUMBER with six more decimals (three with OVER): SUM divided by COUNT."""
    operand = _summed(call.arg(0))
    if operand.type.name == "real":
        return call.aggregated(_aggregate(call, "avg", operand), sqltypes.REAL, [operand])
    added = total(call)
    scale = sqltypes.divided_scale(operand.type)
    if call.over:
        scale = max(min(operand.type.scale + 3, sqltypes.DIVISION_SCALE_MAX), operand.type.scale)
    digits = added.type.precision - added.type.scale + scale
    result = sqltypes.number(min(digits, sqltypes.PRECISION_MAX), scale)
    counted = exprs.derived(
        code.exactly(code.call("nullif", count(call), 0), sqltypes.number(19)),
        sqltypes.number(19),
        [operand],
    )
    mean = arithmetic.quotient(added, counted, result)
    return call.aggregated(mean.code, result, [operand])


def same_type(engine_name: str) -> builders.Builder:
    """Return the builder of an aggregate whose result is one of its values."""

    def build(call: FunctionCall) -> Expr:
        operand = call.arg(0)
        if operand.type.name == "null":
            operand = exprs.null(sqltypes.TEXT)
        return call.aggregated(_aggregate(call, engine_name, operand), operand.type, [operand])

    return build


def _extreme(direction: str) -> builders.Builder:
    """MIN and MAX. direction: in which the wanted value comes first."""
    name = "min" if direction == "ASC" else "max"
    plain = same_type(name)

    def build(call: FunctionCall) -> Expr:
        operand = call.arg(0)
        if operand.type.name == "real" and not call.over:
            return _extreme_of_reals(call, name)
        if not operand.type.is_variant and not operand.type.is_nested:
            return plain(call)
        if call.over:
            raise call.refuse(f"OVER and {sqltypes.shown(operand.type)}")
        first = code.FunctionUse(
            name="first_value",
            arguments=(operand,),
            order=(
                code.SortKey(
                    key=casts.as_variant_order(operand), direction=f" {direction} NULLS LAST"
                ),
            ),
        )
        return call.aggregated(first, operand.type, [operand])

    return build


def _extreme_of_reals(call: FunctionCall, name: str) -> Expr:
    """MIN and MAX of floats, of which NaN is the greatest.

    The engine compares the floats of a group so that a NaN stays or is passed over by its place
    among the rows, and starts from the least or greatest finite float, which stays where a group
    has infinities alone. So it gets the others, and each of these is asked for by itself.
    """
    operand = call.arg(0)
    is_nan = code.call("isnan", operand)
    last = exprs.real(-math.inf if name == "max" else math.inf)
    is_last = code.infix(operand, "=", last)
    others = code.joined([code.not_(is_nan), code.not_(is_last)], "AND")
    extreme = _aggregate(call, name, code.case([(others, operand)]))
    some_nan = (_aggregate(call, "bool_or", is_nan), exprs.real(math.nan))
    some_last = (_aggregate(call, "bool_or", is_last), last)
    if name == "max":
        number = code.call("coalesce", extreme, code.case([some_last]))
        chosen: code.Code = code.case([some_nan], number)
    else:
        chosen = code.call("coalesce", extreme, code.case([some_last, some_nan]))
    return call.aggregated(chosen, operand.type, [operand])


def _collected(call: FunctionCall, values: Expr) -> code.Code:
    """Return the text of the array of a group's values, without NULLs, in the call's order."""
    collected = code.FunctionUse(
        name="array_agg",
        arguments=(values,),
        is_distinct=call.distinct,
        order=() if call.distinct else call.order,
        over=call.over,
    )
    listed = code.call("coalesce", code.call("array_to_string", collected, ","), "")
    return code.infix("[", "||", listed, "||", "]")


def array_agg(call: FunctionCall) -> Expr:
    operand = call.arg(0)
    values = casts.to_variant(operand)
    call = _ordered(call, operand)
    array = _collected(call, values)
    parts = [values, *call.order_parts]
    if call.distinct and call.order:
        ascending, nulls_first = code.TRUE, code.FALSE
        if " DESC" in call.order[0].direction:
            ascending, nulls_first = code.FALSE, code.TRUE
        array = code.kernel("_v_array_sort", code.arrow(array, "Utf8"), ascending, nulls_first)
    else:
        array = code.kernel("_v_bounded", code.arrow(array, "Utf8"))
    return call.aggregated(array, sqltypes.ARRAY, parts, nullable=False)


def array_unique_agg(call: FunctionCall) -> Expr:
    """ARRAY_UNIQUE_AGG: the different values of a group."""
    _refuse_window_order(call)
    return array_agg(dataclasses.replace(call, distinct=True))


def array_union_agg(call: FunctionCall) -> Expr:
    """ARRAY_UNION_AGG: the values of a group's arrays, as often as in the array with most of it."""
    if call.distinct or call.order:
        raise call.refuse("DISTINCT or an ordering")
    _refuse_window_order(call)
    arrays = casts.to_variant(builders.COERCIONS["array"](call, 0))
    union = code.kernel("_v_array_union", code.arrow(_collected(call, arrays), "Utf8"))
    return call.aggregated(union, sqltypes.ARRAY, [arrays], nullable=False)


def regr_value(index: int) -> builders.Builder:
    """REGR_VALX and REGR_VALY: one of two numbers, or NULL if the other one is NULL."""

    def build(call: FunctionCall) -> Expr:
        pair = [casts.cast(_summed(item), sqltypes.REAL) for item in call.args]
        value = code.case([(code.is_not_null(pair[1 - index]), pair[index])])
        return exprs.derived(value, sqltypes.REAL, pair, nullable=True)

    return build


def object_agg(call: FunctionCall) -> Expr:
    if call.distinct or call.order:
        raise call.refuse("DISTINCT or an ordering")
    name, value = casts.to_variant(call.text(0)), casts.to_variant(call.arg(1))
    pair = exprs.derived(code.infix(name, "||", ",", "||", value), sqltypes.TEXT, [name, value])
    members = code.kernel("_v_object", code.arrow(_collected(call, pair), "Utf8"))
    return call.aggregated(members, sqltypes.OBJECT, [name, value], nullable=False)


def mode(call: FunctionCall) -> Expr:
    """MODE: the most frequent value; of several such, the least."""
    _refuse_distinct(call)
    operand = call.arg(0)
    values = casts.to_variant(operand)
    most_frequent = code.kernel("_v_array_mode", code.arrow(_collected(call, values), "Utf8"))
    frequent = call.aggregated(most_frequent, sqltypes.VARIANT, [values])
    if operand.type.name in ("null", "variant"):
        return frequent
    if operand.type.structure is not None:
        return exprs.retyped(frequent, sqltypes.VARIANT)
    return casts.cast(frequent, operand.type)


def any_value(call: FunctionCall) -> Expr:
    name = "first_value" if call.over else "any_value"
    return same_type(name)(call)


def real_of(engine_name: str) -> builders.Builder:
    """Return the builder of a statistic over floats, or over pairs of them.

    The engine ignores DISTINCT in statistics of pairs, and has none of one column with it.
    """

    def build(call: FunctionCall) -> Expr:
        if call.distinct and engine_name in SPREADS:
            return _spread_of_distinct(call, engine_name)
        _refuse_distinct(call)
        operands = [casts.cast(_summed(item), sqltypes.REAL) for item in call.args]
        return call.aggregated(_over(call, engine_name, *operands), sqltypes.REAL, operands)

    return build


def variance_of(engine_name: str) -> builders.Builder:
    """Return the builder of VARIANCE or VAR_POP: of a NUMBER, a NUMBER of 38 digits.

    Its scale is that of a quotient of a product of two such NUMBERs.
    """
    of_reals = real_of(engine_name)
    is_sample = engine_name == "var_samp"

    def build(call: FunctionCall) -> Expr:
        operand = _summed(call.arg(0))
        if operand.type.name == "real":
            return of_reals(call)
        square = sqltypes.multiplied(operand.type, operand.type)
        scale = sqltypes.divided_scale(square)
        result = sqltypes.number(sqltypes.PRECISION_MAX, scale)
        values = arithmetic.widened(operand)
        precision, point = values.type.precision, values.type.scale
        extended = max(2 * point, scale - arithmetic.QUOTIENT_SCALE_STEP + 1)
        digits = 2 * precision + 2 * len(str(ROWS_MAX)) + extended - 2 * point
        if call.distinct or digits + arithmetic.QUOTIENT_SCALE_STEP > arithmetic.ENGINE_DIGITS_MAX:
            spread = of_reals(call)
            return exprs.derived(code.exactly(spread, result), result, [spread])
        exact = code.arrow(values, casts.double_width(values.type))
        added = _aggregate(call, "sum", exact)
        squares = _aggregate(call, "sum", code.infix(exact, "*", exact))
        rows = _of_double_width(_over(call, "count", values))
        above = code.infix(code.infix(squares, "*", rows), "-", code.infix(added, "*", added))
        others = code.infix(rows, "-", _of_double_width(1)) if is_sample else rows
        below = code.infix(rows, "*", others)
        divided = code.infix(
            code.arrow(above, casts.double_width(sqltypes.number(digits, extended))),
            "/",
            code.call("nullif", below, _of_double_width(0)),
        )
        rounded = code.exactly(code.call("round", divided, scale), result)
        return call.aggregated(rounded, result, [operand])

    return build


def _of_double_width(whole: code.Argument) -> code.Cast:
    """Return a whole number of 64 bits for arithmetic with decimals of double width.

    Beside one of the usual width the engine gives both operands the larger scale first.
    """
    return code.arrow(whole, casts.double_width(sqltypes.number(19)))


SPREADS: Final = frozenset({"stddev_samp", "stddev_pop", "var_samp", "var_pop"})


def _spread_of_distinct(call: FunctionCall, engine_name: str) -> Expr:
    """STDDEV and VARIANCE of different values: of the array of these, by a kernel."""
    real = casts.cast(_summed(call.arg(0)), sqltypes.REAL)
    values = casts.to_variant(real)
    array = code.arrow(_collected(call, values), "Utf8")
    lost = code.arrow(1 if engine_name.endswith("_samp") else 0, "Int64")
    variance = call.aggregated(
        code.kernel("_v_array_variance", array, lost), sqltypes.VARIANT, [values]
    )
    spread = casts.cast(variance, sqltypes.REAL)
    if engine_name.startswith("var"):
        return spread
    return exprs.derived(code.call("sqrt", spread), sqltypes.REAL, [spread])


def _refuse_distinct(call: FunctionCall) -> None:
    if call.distinct:
        raise call.refuse("DISTINCT")


def median(call: FunctionCall) -> Expr:
    _refuse_distinct(call)
    operand = _summed(call.arg(0))
    if operand.type.name == "real":
        middle = code.FunctionUse(name="median", arguments=(operand,), over=call.over)
        return call.aggregated(middle, sqltypes.REAL, [operand])
    scale = min(operand.type.scale + 3, 37)
    digits = operand.type.precision + 3
    result = sqltypes.number(min(digits, sqltypes.PRECISION_MAX), scale)
    # Twice the width: the engine adds the two values in the middle in their own type.
    longer = sqltypes.number(digits, scale)
    is_short = digits < sqltypes.PRECISION_MAX or operand.type.is_integer
    width = sqltypes.arrow_name(result) if is_short else casts.double_width(longer)
    values = code.arrow(operand, width)
    middle = code.FunctionUse(name="median", arguments=(values,), over=call.over)
    return call.aggregated(code.exactly(middle, result), result, [operand])


def _interpolated(operand: Expr) -> sqltypes.SqlType:
    """Return the type of a value between two of a NUMBER: three more digits, after the point."""
    return sqltypes.number(
        min(operand.type.precision + 3, sqltypes.PRECISION_MAX), min(operand.type.scale + 3, 37)
    )


def _fraction_of(call: FunctionCall) -> decimal.Decimal:
    """Return the first argument, a number from 0 to 1 or its text; raises SqlError."""
    value = call.constant(0)
    try:
        fraction = decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        raise call.invalid() from None
    if not fraction.is_finite() or not 0 <= fraction <= 1:
        raise call.invalid()
    return fraction


def percentile_cont(call: FunctionCall) -> Expr:
    _refuse_distinct(call)
    if not call.order_parts:
        raise call.refuse("no WITHIN GROUP")
    fraction = _fraction_of(call)
    operand = call.order_parts[0]
    if len(call.order_parts) > 1:
        raise call.invalid()
    if operand.type.name not in ("fixed", "real", "null"):
        raise call.refuse(f"an order by {sqltypes.shown(operand.type)}")
    if operand.type.name == "fixed" and _is_short(fraction):
        return _exact_percentile(call, operand, fraction)
    real = casts.cast(operand, sqltypes.REAL)
    percentile: code.Case | code.FunctionUse
    if call.over or fraction % ENGINES_FRACTION:
        percentile = _percentile_of_floats(call, real, float(fraction))
    else:
        percentile = code.FunctionUse(
            name="percentile_cont",
            arguments=(code.Token(text=repr(float(fraction))),),
            within=(code.SortKey(key=real, direction=call.order[0].direction),),
        )
    return call.aggregated(percentile, sqltypes.REAL, [operand])


def _exact_percentile(call: FunctionCall, operand: Expr, fraction: decimal.Decimal) -> Expr:
    """Return PERCENTILE_CONT of a NUMBER, with all its digits.

    Of values x(0) to x(n), n * fraction is a whole number and a rest in parts of `below`; so the
    value is x(whole) * (below - rest) + x(whole + 1) * rest, divided by below.
    """
    above, below = fraction.as_integer_ratio()
    values = _sorted(call, operand)
    last = code.infix(code.arrow(_over(call, "count", operand), "Int64"), "-", 1)
    place = code.infix(last, "*", above)
    rest = code.infix(place, "%", below)
    first = code.infix(code.infix(place, "/", below), "+", 1)
    lower = code.call("array_element", values, first)
    upper = code.call("array_element", values, code.infix(first, "+", 1))
    width = casts.double_width(operand.type)

    def share(value: code.Part, parts: code.Part) -> code.Code:
        return code.infix(code.arrow(value, width), "*", _of_double_width(parts))

    between = code.infix(share(lower, code.infix(below, "-", rest)), "+", share(upper, rest))
    divided = code.infix(between, "/", _of_double_width(below))
    result = _interpolated(operand)
    rounded = code.exactly(code.call("round", divided, result.scale), result)
    # Without a rest there may be no next value.
    chosen = code.case([(code.infix(rest, "=", 0), code.exactly(lower, result))], rounded)
    return call.aggregated(chosen, result, [operand])


def _percentile_of_floats(call: FunctionCall, real: Expr, fraction: float) -> code.Case:
    """Return PERCENTILE_CONT over a window, or of a fraction that the engine would round.

    Over windows the engine has no ordered aggregate.
    """
    values = _sorted(call, real)
    last = code.infix(code.exactly(_over(call, "count", real), sqltypes.REAL), "-", 1)
    place = code.infix(code.Token(text=repr(fraction)), "*", last)
    below = code.call("floor", place)
    lower, upper = (
        code.call(
            "array_element", values, code.infix(code.arrow(code.call(name, place), "Int64"), "+", 1)
        )
        for name in ("floor", "ceil")
    )
    share = code.infix(place, "-", below)
    between = code.infix(lower, "+", code.infix(code.infix(upper, "-", lower), "*", share))
    return code.case([(code.infix(lower, "=", upper), lower)], between)


def _sorted(call: FunctionCall, operand: Expr) -> code.Part:
    """Return the values of a group or window as an array in the call's order, NULLs last.

    Sorted here: the engine refuses aggregates of several orders in one query.
    """
    direction = "DESC" if "DESC" in call.order[0].direction else "ASC"
    return code.call("array_sort", _over(call, "array_agg", operand), direction, "NULLS LAST")


def percentile_disc(call: FunctionCall) -> Expr:
    """PERCENTILE_DISC: the first value in order whose share of the values reaches the fraction."""
    if not call.order_parts:
        raise call.refuse("no WITHIN GROUP")
    _refuse_distinct(call)
    fraction = _fraction_of(call)
    if not _is_short(fraction):
        raise call.invalid()
    if len(call.order_parts) > 1:
        raise call.invalid()
    operand = call.order_parts[0]
    if operand.type.name in sqltypes.SEMISTRUCTURED:
        raise call.refuse(f"an order by {sqltypes.shown(operand.type)}")
    above, below = fraction.as_integer_ratio()
    count = code.arrow(_over(call, "count", operand), "Int64")
    nth = code.infix(code.infix(count, "*", above, "+", below - 1), "/", below)
    value = code.call("array_element", _sorted(call, operand), code.call("greatest", nth, 1))
    return call.aggregated(value, operand.type, [operand])


ENGINES_FRACTION: Final = decimal.Decimal("1e-6")
"""The engine's PERCENTILE_CONT rounds the place between two values to a multiple of this."""
FRACTION_DIGITS_MAX: Final = 9
"""A fraction is computed in whole numbers if its denominator, in lowest terms, is at most 10 to the
power of this."""


def _is_short(fraction: decimal.Decimal) -> bool:
    return fraction.as_integer_ratio()[1] <= 10**FRACTION_DIGITS_MAX


def listagg(call: FunctionCall) -> Expr:
    operand = call.text(0)
    delimiter = call.constant(1, "")
    call = _ordered(call, operand)
    joined = code.exactly(_aggregate(call, "string_agg", operand, str(delimiter)), sqltypes.TEXT)
    listed = code.call("coalesce", joined, "")
    return call.aggregated(listed, sqltypes.TEXT, [operand, *call.order_parts], nullable=False)


def boolean_of(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Expr:
        operand = comparisons.as_boolean(call.arg(0))
        return call.aggregated(_over(call, engine_name, operand), sqltypes.BOOLEAN, [operand])

    return build


def boolxor_agg(call: FunctionCall) -> Expr:
    operand = comparisons.as_boolean(call.arg(0))
    present = code.infix(_over(call, "count", operand), ">", 0)
    one = code.infix(_aggregate(call, "count", code.case([(operand, 1)])), "=", 1)
    return call.aggregated(code.case([(present, one)]), sqltypes.BOOLEAN, [operand])


def bits_of(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Expr:
        if engine_name == "bit_xor":  # the engine ignores DISTINCT in groups
            _refuse_distinct(call)
        operand = arithmetic.round_half_away(call.arg(0))
        if not operand.type.is_integer:
            raise call.refuse(f"an operand of type {sqltypes.shown(operand.type)}")
        return call.aggregated(_over(call, engine_name, operand), sqltypes.integer(), [operand])

    return build


def approx_count_distinct(call: FunctionCall) -> Expr:
    operand = casts.as_instant(call.arg(0))
    if operand.type.name in ("real", "boolean"):
        operand = casts.cast(operand, sqltypes.TEXT)
    estimate = code.exactly(_over(call, "approx_distinct", operand), COUNT)
    return call.aggregated(estimate, COUNT, [operand], nullable=False)


def approx_percentile(call: FunctionCall) -> Expr:
    _refuse_distinct(call)
    operand = casts.cast(_summed(call.arg(0)), sqltypes.REAL)
    fraction = call.constant(1)
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | decimal.Decimal):
        raise call.invalid()
    if not 0 <= fraction <= 1:
        raise errors.number_out_of_range(str(fraction))
    place = code.Token(text=repr(float(fraction)))
    estimate = _over(call, "approx_percentile_cont", operand, place)
    return call.aggregated(estimate, sqltypes.REAL, [operand])


def best_by(direction: str) -> builders.Builder:
    """MAX_BY and MIN_BY: the first argument where the second is greatest or least."""

    def build(call: FunctionCall) -> Expr:
        value, key = call.arg(0), call.arg(1)
        if call.over:
            raise call.refuse("OVER")
        order = casts.as_variant_order(key) if key.type.is_variant else key
        if len(call.nodes) > 2:
            return _bests(call, value, key, code.SortKey(key=order, direction=direction))
        best = code.FunctionUse(
            name="first_value",
            arguments=(code.case([(code.is_not_null(key), value)]),),
            order=(code.SortKey(key=order, direction=f" {direction} NULLS LAST"),),
        )
        return call.aggregated(best, value.type, [value, key])

    return build


def _bests(call: FunctionCall, value: Expr, key: Expr, sort: code.SortKey) -> Expr:
    """Return the ARRAY of the values of so many rows, the best first; a NULL key is in none."""
    count = call.whole(2)
    if not 1 <= count <= BESTS_MAX:
        raise call.invalid()
    values = casts.to_variant(value)
    element = code.call("coalesce", values, variants.UNDEFINED_TEXT)
    collected = code.FunctionUse(
        name="array_agg",
        arguments=(code.case([(code.is_not_null(key), element)]),),
        order=(dataclasses.replace(sort, direction=f" {sort.direction} NULLS LAST"),),
    )
    some = code.call("array_slice", collected, 1, count)
    listed = code.call("coalesce", code.call("array_to_string", some, ","), "")
    array = code.infix("[", "||", listed, "||", "]")
    bounded = code.kernel("_v_bounded", code.arrow(array, "Utf8"))
    return call.aggregated(bounded, sqltypes.ARRAY, [values, key], nullable=False)


BESTS_MAX: Final = 1_000


def moment_of(name: str) -> builders.Builder:
    """SKEW and KURTOSIS: of the group's values, by a kernel."""

    def build(call: FunctionCall) -> Expr:
        _refuse_distinct(call)
        _refuse_window_order(call)
        operand = _summed(call.arg(0))
        real = casts.cast(operand, sqltypes.REAL)
        values = code.arrow(_over(call, "array_agg", real), "List(Float64)")
        computed = code.kernel(f"_{name}", values)
        if name == "skew" or operand.type.name == "real":
            return call.aggregated(computed, sqltypes.REAL, [real])
        result = sqltypes.number(sqltypes.PRECISION_MAX, sqltypes.DIVISION_SCALE_MAX)
        return call.aggregated(code.exactly(computed, result), result, [real])

    return build


def _refuse_window_order(call: FunctionCall) -> None:
    """Refuse an order in OVER, as Snowflake does where a function has no running form."""
    if call.over and call.over.order:
        raise call.refuse("ORDER BY in OVER")


def approx_top_k(call: FunctionCall) -> Expr:
    """APPROX_TOP_K: counted exactly, whatever the number of counters."""
    _refuse_distinct(call)
    _refuse_window_order(call)
    values = casts.to_variant(call.arg(0))
    most, counters = call.whole(1, 1), call.whole(2, TOP_MAX)
    if not (1 <= most <= TOP_MAX and most <= counters <= TOP_MAX):
        raise call.invalid()
    listed = code.arrow(_over(call, "array_agg", values), "List(Utf8)")
    top = code.kernel("_v_bounded", code.kernel(f"_most_frequent_{most}", listed))
    return call.aggregated(top, sqltypes.ARRAY, [values], nullable=False)


TOP_MAX: Final = 100_000


def grouping(call: FunctionCall) -> Expr:
    if call.over or call.distinct:
        raise call.refuse("OVER or DISTINCT")
    operands = call.args
    flags = code.exactly(code.call("grouping", *operands), COUNT)
    bits = sqltypes.integer(10, 0, (1 << len(operands)) - 1)
    return call.aggregated(flags, bits, operands, nullable=False)


# Window functions


def _ranked(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Expr:
        if not call.over:
            raise call.refuse("no OVER")
        rank = code.Cast(operand=_over(call, engine_name), target="BIGINT", is_named=True)
        return call.aggregated(rank, COUNT, call.over_parts, nullable=False)

    return build


def _relative(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Expr:
        if not call.over:
            raise call.refuse("no OVER")
        return call.aggregated(
            _over(call, engine_name), sqltypes.REAL, call.over_parts, nullable=False
        )

    return build


def ntile(call: FunctionCall) -> Expr:
    if not call.over:
        raise call.refuse("no OVER")
    buckets = call.whole(0)
    if buckets < 1:
        raise errors.number_out_of_range(str(buckets))
    bucket = code.exactly(_over(call, "ntile", buckets), COUNT)
    return call.aggregated(bucket, COUNT, call.over_parts, nullable=False)


def _offset(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Expr:
        if not call.over:
            raise call.refuse("no OVER")
        value = call.arg(0)
        arguments: list[code.Argument] = [value]
        steps = call.whole(1) if len(call.nodes) > 1 else 1
        if len(call.nodes) > 1:
            arguments.append(code.Token(text=str(steps)))
        if len(call.nodes) > 2:
            (value, default), sql_type = casts.unify([value, call.arg(2)], call.name)
            arguments = [value, arguments[1], default]
            value = exprs.retyped(value, sql_type)
        if call.ignore_nulls and (steps if engine_name == "lead" else -steps) > 1:
            # The engine handles NULLs wrongly if it looks further ahead than one row.
            raise call.refuse("IGNORE NULLS more than one row ahead")
        moved = _over(call, engine_name, *arguments, ignores_nulls=call.ignore_nulls)
        return call.aggregated(moved, value.type, [value])

    return build


def _value(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Expr:
        if not call.over:
            raise call.refuse("no OVER")
        value = call.arg(0)
        place = call.whole(1) if len(call.nodes) > 1 else None
        if place is not None and place < 1:  # the engine has no row at 0, and says so by NULLs
            raise errors.number_out_of_range(str(place))
        places = [] if place is None else [code.Token(text=str(place))]
        chosen = _over(call, engine_name, value, *places, ignores_nulls=call.ignore_nulls)
        return call.aggregated(chosen, value.type, [value])

    return build


def ratio_to_report(call: FunctionCall) -> Expr:
    if not call.over:
        raise call.refuse("no OVER")
    value = _summed(call.arg(0))
    share = arithmetic.divide(value, total(call))
    return call.aggregated(share.code, share.type, [value])


def conditional_true_event(call: FunctionCall) -> Expr:
    """The number of rows so far for which the condition holds."""
    if call.over is None or not call.over.order:
        raise call.refuse("no OVER (... ORDER BY ...)")
    condition = comparisons.as_boolean(call.arg(0))
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    number = code.FunctionUse(
        name="count",
        arguments=(code.case([(condition, 1)]),),
        over=dataclasses.replace(call.over, frame=frame),
    )
    return call.aggregated(number, COUNT, [condition], nullable=False)


def conditional_change_event(call: FunctionCall) -> Expr:
    """The number of rows so far whose value is another one than that of the row before."""
    if call.over is None or not call.over.order:
        raise call.refuse("no OVER (... ORDER BY ...)")
    if call.over.frame:
        raise call.refuse("a window frame")
    value = casts.as_instant(call.arg(0))
    sql_type = value.type
    if sql_type.name == "timestamp_ltz":
        exact, sql_type = code.arrow(value, "Int64"), sqltypes.integer()
    elif sql_type.name in sqltypes.SEMISTRUCTURED:
        exact, sql_type = code.exactly(casts.as_variant_order(value), TEXT), TEXT
    else:
        sql_type = TEXT if sql_type.name == "null" else sql_type
        exact = code.exactly(value, sql_type)
    name = f"_changes_{sqltypes.arrow_name(sql_type).encode().hex()}"
    number = dataclasses.replace(code.kernel(name, exact), over=call.over)
    return call.aggregated(number, COUNT, [value], nullable=False)


AGGREGATES = (
    aggregate("COUNT", "any [any]*15", "integer", count),
    aggregate("COUNT_IF", "boolean", "integer", count_if),
    aggregate("SUM", "number", "number", total),
    aggregate("AVG", "number", "number", average),
    aggregate("MIN", "any", "any", _extreme("ASC")),
    aggregate("MAX", "any", "any", _extreme("DESC")),
    aggregate("MODE", "any", "any", mode),
    aggregate("ARRAY_AGG ARRAYAGG", "any", "array", array_agg),
    aggregate("ARRAY_UNIQUE_AGG", "any", "array", array_unique_agg),
    aggregate("ARRAY_UNION_AGG", "array", "array", array_union_agg),
    aggregate("OBJECT_AGG OBJECTAGG", "text any", "object", object_agg),
    aggregate("ANY_VALUE", "any", "any", any_value),
    aggregate("MEDIAN", "number", "number", median),
    aggregate("PERCENTILE_CONT", "constant", "number", percentile_cont),
    aggregate("PERCENTILE_DISC", "constant", "any", percentile_disc),
    aggregate("STDDEV STDDEV_SAMP", "real", "real", real_of("stddev_samp")),
    aggregate("STDDEV_POP", "real", "real", real_of("stddev_pop")),
    aggregate("VARIANCE VARIANCE_SAMP VAR_SAMP", "number", "number", variance_of("var_samp")),
    aggregate("VARIANCE_POP VAR_POP", "number", "number", variance_of("var_pop")),
    *(
        aggregate(name.upper(), "real real", "real", real_of(name))
        for name in ("corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count")
    ),
    *(
        aggregate(name.upper(), "real real", "real", real_of(name))
        for name in ("regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy")
    ),
    aggregate("LISTAGG STRING_AGG", "text [constant]", "text", listagg),
    aggregate("BOOLAND_AGG", "boolean", "boolean", boolean_of("bool_and")),
    aggregate("BOOLOR_AGG", "boolean", "boolean", boolean_of("bool_or")),
    aggregate("BOOLXOR_AGG", "boolean", "boolean", boolxor_agg),
    aggregate(
        "BITAND_AGG BITANDAGG BIT_AND_AGG BIT_ANDAGG", "whole", "integer", bits_of("bit_and")
    ),
    aggregate("BITOR_AGG BITORAGG BIT_OR_AGG BIT_ORAGG", "whole", "integer", bits_of("bit_or")),
    aggregate(
        "BITXOR_AGG BITXORAGG BIT_XOR_AGG BIT_XORAGG", "whole", "integer", bits_of("bit_xor")
    ),
    aggregate("APPROX_COUNT_DISTINCT HLL", "any", "integer", approx_count_distinct),
    aggregate("APPROX_PERCENTILE", "real constant", "real", approx_percentile),
    aggregate("APPROX_TOP_K", "any [constant]*2", "array", approx_top_k),
    aggregate("KURTOSIS", "number", "number", moment_of("kurtosis")),
    aggregate("SKEW", "number", "real", moment_of("skew")),
    aggregate("MAX_BY", "any any [constant]", "any", best_by("DESC")),
    aggregate("MIN_BY", "any any [constant]", "any", best_by("ASC")),
    aggregate("GROUPING GROUPING_ID", "any [any]*30", "integer", grouping),
)

WINDOWS = (
    window("ROW_NUMBER", "", "integer", _ranked("row_number")),
    window("RANK", "", "integer", _ranked("rank")),
    window("DENSE_RANK", "", "integer", _ranked("dense_rank")),
    window("PERCENT_RANK", "", "real", _relative("percent_rank")),
    window("CUME_DIST", "", "real", _relative("cume_dist")),
    window("NTILE", "constant", "integer", ntile),
    window("LAG", "any [constant] [any]", "any", _offset("lag")),
    window("LEAD", "any [constant] [any]", "any", _offset("lead")),
    window("FIRST_VALUE", "any", "any", _value("first_value")),
    window("LAST_VALUE", "any", "any", _value("last_value")),
    window("NTH_VALUE", "any constant", "any", _value("nth_value")),
    window("CONDITIONAL_TRUE_EVENT", "boolean", "integer", conditional_true_event),
    window("CONDITIONAL_CHANGE_EVENT", "any", "integer", conditional_change_event),
    window("RATIO_TO_REPORT", "number", "number", ratio_to_report),
)

WHOLE_PARTITION = frozenset({"FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"})
"""Their frame, when none is given, is the whole partition, not up to the current row."""
