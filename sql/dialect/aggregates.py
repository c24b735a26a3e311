"""rule: aggregate and window functions.

A SUM of whole numbers stays in 64 bits only if the bounds of the summand and of the number of rows
prove that it cannot overflow, because the engine wraps silently.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping

from sqlglot import exp

from sql import errors
from sql.dialect import bound as bounds
from sql.dialect import builders, rewrites, sqltypes
from sql.dialect.bound import Bound
from sql.dialect.builders import FunctionCall

ROWS_MAX = 1 << 40
"""More rows than any query here can add up in a day."""

COUNT = sqltypes.integer(18, 0, ROWS_MAX)


def _operand(call: FunctionCall, operand: Bound) -> str:
    order = f" ORDER BY {call.order}" if call.order else ""
    return f"{'DISTINCT ' if call.distinct else ''}{operand.sql}{order}"


def count(call: FunctionCall) -> Bound:
    """COUNT(*), COUNT(x, ...), COUNT(DISTINCT x)."""
    if len(call.nodes) == 1 and getattr(call.nodes[0], "is_star", False):
        if not isinstance(call.nodes[0], exp.Star):
            raise call.refuse("a table's *")
        if call.distinct:
            raise call.refuse("DISTINCT *")
        return _count("*", call, [])
    operands = call.args
    if len(operands) == 1:
        return _count(f"{'DISTINCT ' if call.distinct else ''}{operands[0].sql}", call, operands)
    present = " AND ".join(f"({rewrites.shared(operand).sql} IS NOT NULL)" for operand in operands)
    if not call.distinct:
        return _count(f"CASE WHEN {present} THEN 1 END", call, operands)
    row = ", ".join(operand.sql for operand in operands)
    return _count(f"DISTINCT CASE WHEN {present} THEN struct({row}) END", call, operands)


def _count(inside: str, call: FunctionCall, parts: list[Bound]) -> Bound:
    return call.aggregated(f"count({inside}){call.over}", COUNT, parts, nullable=False)


def count_if(call: FunctionCall) -> Bound:
    condition = rewrites.as_boolean(call.arg(0))
    return _count(f"CASE WHEN {condition.sql} THEN 1 END", call, [condition])


def _summed(operand: Bound) -> Bound:
    """Return an operand of SUM or AVG as a number: text as a FLOAT, as Snowflake takes it there."""
    if operand.type.name == "text":
        return rewrites.cast(operand, sqltypes.REAL)
    return rewrites.as_number(operand)


def total(call: FunctionCall) -> Bound:
    """SUM."""
    operand = _summed(call.arg(0))
    sql_type = operand.type
    if sql_type.name == "real":
        sql = f"sum({_operand(call, operand)}){call.over}"
        return call.aggregated(sql, sqltypes.REAL, [operand])
    if sql_type.is_integer:
        rows = min(call.rows or ROWS_MAX, ROWS_MAX)
        low, high = min(sql_type.low * rows, 0), max(sql_type.high * rows, 0)
        if low >= sqltypes.INT64_LOW and high <= sqltypes.INT64_HIGH:
            sql = f"sum({_operand(call, operand)}){call.over}"
            whole = sqltypes.integer(sqltypes.PRECISION_MAX, low, high)
            return call.aggregated(sql, whole, [operand])
        digits = min(max(len(str(sql_type.low)) - 1, len(str(sql_type.high))), 19)
        operand = rewrites.cast(operand, sqltypes.number(digits))
        if operand.type.is_integer:
            wide = sqltypes.number(digits)
            operand = bounds.derived(sqltypes.exactly(operand.sql, wide), wide, [operand])
    result = sqltypes.number(sqltypes.PRECISION_MAX, sql_type.scale)
    rows = min(call.rows or ROWS_MAX, ROWS_MAX)
    if operand.type.precision + len(str(rows)) > sqltypes.PRECISION_MAX:
        # The engine's sum of such decimals wraps; one of twice the width is exact.
        exact = f"arrow_cast({operand.sql}, '{rewrites.double_width(operand.type)}')"
        operand = bounds.derived(exact, operand.type, [operand])
    sql = sqltypes.exactly(f"sum({_operand(call, operand)}){call.over}", result)
    return call.aggregated(sql, result, [operand])


def average(call: FunctionCall) -> Bound:
    """AVG: of a NUMBER, a NUMBER with six more decimals (three with OVER): SUM divided by COUNT."""
    operand = _summed(call.arg(0))
    if operand.type.name == "real":
        sql = f"avg({_operand(call, operand)}){call.over}"
        return call.aggregated(sql, sqltypes.REAL, [operand])
    added = total(call)
    counted = count(call)
    scale = sqltypes.divided_scale(operand.type)
    if call.over:
        scale = max(min(operand.type.scale + 3, sqltypes.DIVISION_SCALE_MAX), operand.type.scale)
    dividend = sqltypes.number(sqltypes.PRECISION_MAX, max(operand.type.scale, scale - 3))
    result = sqltypes.number(sqltypes.PRECISION_MAX, scale)
    dividend_sql = sqltypes.exactly(added.sql, dividend)
    divisor_sql = sqltypes.exactly(f"nullif({counted.sql}, 0)", sqltypes.number(19))
    sql = sqltypes.exactly(f"round({dividend_sql} / {divisor_sql}, {scale})", result)
    return call.aggregated(sql, result, [operand])


def same_type(engine_name: str) -> builders.Builder:
    """Return the builder of an aggregate whose result is one of its values."""

    def build(call: FunctionCall) -> Bound:
        operand = call.arg(0)
        if operand.type.name == "null":
            operand = bounds.null(sqltypes.TEXT)
        sql = f"{engine_name}({_operand(call, operand)}){call.over}"
        return call.aggregated(sql, operand.type, [operand])

    return build


def any_value(call: FunctionCall) -> Bound:
    name = "first_value" if call.over else "any_value"
    return same_type(name)(call)


def real_of(engine_name: str) -> builders.Builder:
    """Return the builder of a statistic over floats."""

    def build(call: FunctionCall) -> Bound:
        operands = [rewrites.cast(rewrites.as_number(item), sqltypes.REAL) for item in call.args]
        listed = ", ".join(operand.sql for operand in operands)
        prefix = "DISTINCT " if call.distinct else ""
        sql = f"{engine_name}({prefix}{listed}){call.over}"
        return call.aggregated(sql, sqltypes.REAL, operands)

    return build


def median(call: FunctionCall) -> Bound:
    operand = rewrites.as_number(call.arg(0))
    real = rewrites.cast(operand, sqltypes.REAL)
    sql = f"median({real.sql}){call.over}"
    if operand.type.name == "real":
        return call.aggregated(sql, sqltypes.REAL, [operand])
    result = sqltypes.number(sqltypes.PRECISION_MAX, min(operand.type.scale + 3, 37))
    return call.aggregated(sqltypes.exactly(sql, result), result, [operand])


def percentile_cont(call: FunctionCall) -> Bound:
    fraction = call.constant(0)
    if not call.order_parts:
        raise call.refuse("no WITHIN GROUP")
    operand = call.order_parts[0]
    sql = f"percentile_cont({float(fraction)!r}) WITHIN GROUP (ORDER BY {call.order}){call.over}"
    return call.aggregated(sql, sqltypes.REAL, [operand])


def listagg(call: FunctionCall) -> Bound:
    operand = call.text(0)
    delimiter = call.constant(1, "")
    order = f" ORDER BY {call.order}" if call.order else ""
    prefix = "DISTINCT " if call.distinct else ""
    inside = f"{prefix}{operand.sql}, {bounds.quoted_text(str(delimiter))}{order}"
    sql = f"coalesce({sqltypes.exactly(f'string_agg({inside}){call.over}', sqltypes.TEXT)}, '')"
    return call.aggregated(sql, sqltypes.TEXT, [operand, *call.order_parts], nullable=False)


def boolean_of(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Bound:
        operand = rewrites.as_boolean(call.arg(0))
        return call.aggregated(
            f"{engine_name}({operand.sql}){call.over}", sqltypes.BOOLEAN, [operand]
        )

    return build


def boolxor_agg(call: FunctionCall) -> Bound:
    operand = rewrites.shared(rewrites.as_boolean(call.arg(0)))
    present = f"count({operand.sql}){call.over}"
    true = f"count(CASE WHEN {operand.sql} THEN 1 END){call.over}"
    sql = f"(CASE WHEN {present} > 0 THEN {true} = 1 END)"
    return call.aggregated(sql, sqltypes.BOOLEAN, [operand])


def bits_of(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Bound:
        operand = rewrites.round_half_away(call.arg(0))
        if not operand.type.is_integer:
            raise call.refuse(f"an operand of type {sqltypes.shown(operand.type)}")
        return call.aggregated(
            f"{engine_name}({operand.sql}){call.over}", sqltypes.integer(), [operand]
        )

    return build


def approx_count_distinct(call: FunctionCall) -> Bound:
    operand = call.arg(0)
    if operand.type.name in ("real", "boolean"):
        operand = rewrites.cast(operand, sqltypes.TEXT)
    sql = sqltypes.exactly(f"approx_distinct({operand.sql}){call.over}", COUNT)
    return call.aggregated(sql, COUNT, [operand], nullable=False)


def approx_percentile(call: FunctionCall) -> Bound:
    operand = rewrites.cast(rewrites.as_number(call.arg(0)), sqltypes.REAL)
    fraction = call.constant(1)
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | decimal.Decimal):
        raise call.invalid()
    if not 0 <= fraction <= 1:
        raise errors.number_out_of_range(str(fraction))
    sql = f"approx_percentile_cont({operand.sql}, {float(fraction)!r}){call.over}"
    return call.aggregated(sql, sqltypes.REAL, [operand])


def best_by(direction: str) -> builders.Builder:
    """MAX_BY and MIN_BY: the first argument where the second is greatest or least."""

    def build(call: FunctionCall) -> Bound:
        value, key = call.arg(0), rewrites.shared(call.arg(1))
        if call.over:
            raise call.refuse("OVER")
        present = f"CASE WHEN {key.sql} IS NOT NULL THEN {value.sql} END"
        sql = f"first_value({present} ORDER BY {key.sql} {direction} NULLS LAST)"
        return call.aggregated(sql, value.type, [value, key])

    return build


def grouping(call: FunctionCall) -> Bound:
    if call.over or call.distinct:
        raise call.refuse("OVER or DISTINCT")
    operand = call.arg(0)
    sql = sqltypes.exactly(f"grouping({operand.sql})", COUNT)
    return call.aggregated(sql, sqltypes.integer(1, 0, 1), [operand], nullable=False)


# Window functions


def _ranked(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Bound:
        if not call.over:
            raise call.refuse("no OVER")
        sql = f"CAST({engine_name}(){call.over} AS BIGINT)"
        return call.aggregated(sql, COUNT, call.over_parts, nullable=False)

    return build


def _relative(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Bound:
        if not call.over:
            raise call.refuse("no OVER")
        return call.aggregated(
            f"{engine_name}(){call.over}", sqltypes.REAL, call.over_parts, nullable=False
        )

    return build


def ntile(call: FunctionCall) -> Bound:
    if not call.over:
        raise call.refuse("no OVER")
    buckets = call.whole(0)
    if buckets < 1:
        raise errors.number_out_of_range(str(buckets))
    sql = sqltypes.exactly(f"ntile({buckets}){call.over}", COUNT)
    return call.aggregated(sql, COUNT, call.over_parts, nullable=False)


def _offset(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Bound:
        if not call.over:
            raise call.refuse("no OVER")
        value = call.arg(0)
        arguments = [value.sql]
        if len(call.nodes) > 1:
            arguments.append(str(call.whole(1)))
        if len(call.nodes) > 2:
            (value, default), sql_type = rewrites.unify([value, call.arg(2)], call.name)
            arguments = [value.sql, arguments[1], default.sql]
            value = bounds.retyped(value, sql_type)
        nulls = " IGNORE NULLS" if call.ignore_nulls else ""
        if nulls and len(arguments) > 1:
            ahead = int(arguments[1]) if engine_name == "lead" else -int(arguments[1])
            if ahead > 1:
                # The engine handles NULLs wrongly if it looks further ahead than one row.
                raise call.refuse("IGNORE NULLS more than one row ahead")
        sql = f"{engine_name}({', '.join(arguments)}){nulls}{call.over}"
        return call.aggregated(sql, value.type, [value])

    return build


def _value(engine_name: str) -> builders.Builder:
    def build(call: FunctionCall) -> Bound:
        if not call.over:
            raise call.refuse("no OVER")
        value = call.arg(0)
        arguments = [value.sql]
        if len(call.nodes) > 1:
            arguments.append(str(call.whole(1)))
        nulls = " IGNORE NULLS" if call.ignore_nulls else ""
        sql = f"{engine_name}({', '.join(arguments)}){nulls}{call.over}"
        return call.aggregated(sql, value.type, [value])

    return build


def ratio_to_report(call: FunctionCall) -> Bound:
    if not call.over:
        raise call.refuse("no OVER")
    value = rewrites.as_number(call.arg(0))
    share = rewrites.divide(value, total(call))
    return call.aggregated(share.sql, share.type, [value])


FUNCTIONS: Mapping[str, builders.Function] = {
    "COUNT": builders.aggregate(1, 16, count),
    "COUNT_IF": builders.aggregate(1, None, count_if),
    "SUM": builders.aggregate(1, None, total),
    "AVG": builders.aggregate(1, None, average),
    "MIN": builders.aggregate(1, None, same_type("min")),
    "MAX": builders.aggregate(1, None, same_type("max")),
    "ANY_VALUE": builders.aggregate(1, None, any_value),
    "MEDIAN": builders.aggregate(1, None, median),
    "PERCENTILE_CONT": builders.aggregate(1, None, percentile_cont),
    "STDDEV": builders.aggregate(1, None, real_of("stddev_samp")),
    "STDDEV_SAMP": builders.aggregate(1, None, real_of("stddev_samp")),
    "STDDEV_POP": builders.aggregate(1, None, real_of("stddev_pop")),
    "VARIANCE": builders.aggregate(1, None, real_of("var_samp")),
    "VARIANCE_SAMP": builders.aggregate(1, None, real_of("var_samp")),
    "VARIANCE_POP": builders.aggregate(1, None, real_of("var_pop")),
    "VAR_SAMP": builders.aggregate(1, None, real_of("var_samp")),
    "VAR_POP": builders.aggregate(1, None, real_of("var_pop")),
    "CORR": builders.aggregate(2, None, real_of("corr")),
    "COVAR_POP": builders.aggregate(2, None, real_of("covar_pop")),
    "COVAR_SAMP": builders.aggregate(2, None, real_of("covar_samp")),
    "REGR_AVGX": builders.aggregate(2, None, real_of("regr_avgx")),
    "REGR_AVGY": builders.aggregate(2, None, real_of("regr_avgy")),
    "REGR_COUNT": builders.aggregate(2, None, real_of("regr_count")),
    "REGR_INTERCEPT": builders.aggregate(2, None, real_of("regr_intercept")),
    "REGR_R2": builders.aggregate(2, None, real_of("regr_r2")),
    "REGR_SLOPE": builders.aggregate(2, None, real_of("regr_slope")),
    "REGR_SXX": builders.aggregate(2, None, real_of("regr_sxx")),
    "REGR_SXY": builders.aggregate(2, None, real_of("regr_sxy")),
    "REGR_SYY": builders.aggregate(2, None, real_of("regr_syy")),
    "LISTAGG": builders.aggregate(1, 2, listagg),
    "STRING_AGG": builders.aggregate(1, 2, listagg),
    "BOOLAND_AGG": builders.aggregate(1, None, boolean_of("bool_and")),
    "BOOLOR_AGG": builders.aggregate(1, None, boolean_of("bool_or")),
    "BOOLXOR_AGG": builders.aggregate(1, None, boolxor_agg),
    "BITAND_AGG": builders.aggregate(1, None, bits_of("bit_and")),
    "BITOR_AGG": builders.aggregate(1, None, bits_of("bit_or")),
    "BITXOR_AGG": builders.aggregate(1, None, bits_of("bit_xor")),
    "APPROX_COUNT_DISTINCT": builders.aggregate(1, None, approx_count_distinct),
    "HLL": builders.aggregate(1, None, approx_count_distinct),
    "APPROX_PERCENTILE": builders.aggregate(2, None, approx_percentile),
    "MAX_BY": builders.aggregate(2, None, best_by("DESC")),
    "MIN_BY": builders.aggregate(2, None, best_by("ASC")),
    "GROUPING": builders.aggregate(1, None, grouping),
    "ROW_NUMBER": builders.window(0, None, _ranked("row_number")),
    "RANK": builders.window(0, None, _ranked("rank")),
    "DENSE_RANK": builders.window(0, None, _ranked("dense_rank")),
    "PERCENT_RANK": builders.window(0, None, _relative("percent_rank")),
    "CUME_DIST": builders.window(0, None, _relative("cume_dist")),
    "NTILE": builders.window(1, None, ntile),
    "LAG": builders.window(1, 3, _offset("lag")),
    "LEAD": builders.window(1, 3, _offset("lead")),
    "FIRST_VALUE": builders.window(1, None, _value("first_value")),
    "LAST_VALUE": builders.window(1, None, _value("last_value")),
    "NTH_VALUE": builders.window(2, None, _value("nth_value")),
    "RATIO_TO_REPORT": builders.window(1, None, ratio_to_report),
}

WHOLE_PARTITION = frozenset({"FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"})
"""Their frame, when none is given, is the whole partition, not up to the current row."""
