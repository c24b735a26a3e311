"""rule: BETWEEN, GREATEST, LEAST and DIV0 as kernels, for operands too long to be written twice.

The engine compares the same values in `sql.dialect.choices` where operands are short; NaN is above
all numbers and equals itself in both.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sql.kernelforms import DIGITS, Kernel, coded

TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "real": pa.float64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
}
TYPE = rf"({'|'.join(TYPES)}|fixed_\d+_\d+)"


def _type(name: str) -> pa.DataType:
    if name.startswith("fixed_"):
        precision, scale = map(int, name.split("_")[1:])
        return pa.decimal128(precision, scale)
    return TYPES[name]


def _between(match: re.Match[str]) -> Kernel:
    """Whether the first argument lies between the others; NULL as AND is."""
    arrow_type = _type(match.group(1))

    def at_least(above: Any, below: Any) -> Any:
        if pa.types.is_boolean(arrow_type):
            above, below = above.cast(pa.int8()), below.cast(pa.int8())
        holds = pc.greater_equal(above, below)
        return pc.or_(holds, pc.is_nan(above)) if pa.types.is_floating(arrow_type) else holds

    return Kernel(
        function=lambda value, low, high: pc.and_kleene(
            at_least(value, low), at_least(high, value)
        ),
        arguments=(arrow_type,) * 3,
        result=pa.bool_(),
    )


def _extreme(match: re.Match[str]) -> Kernel:
    """The greatest or least argument; NULL if one of them is."""
    arrow_type = _type(match.group(3))
    is_greatest = match.group(1) == "greatest"

    def chosen(left: Any, right: Any) -> Any:
        if pa.types.is_boolean(arrow_type):
            return pc.or_(left, right) if is_greatest else pc.and_(left, right)
        is_left = pc.greater_equal(left, right) if is_greatest else pc.less_equal(left, right)
        if pa.types.is_floating(arrow_type):
            is_left = pc.or_(is_left, pc.is_nan(left if is_greatest else right))
        # NULL where one of both is.
        return pc.if_else(is_left, left, right)

    def function(first: Any, *others: Any) -> Any:
        for other in others:
            first = chosen(first, other)
        return first

    return Kernel(
        function=function, arguments=(arrow_type,) * int(match.group(2)), result=arrow_type
    )


def _quotient_or_zero(match: re.Match[str]) -> Kernel:
    """A quotient that is zero where its divisor is zero; of DIV0NULL, also where it is NULL."""
    of_null = bool(match.group(1))
    scale, *digits = map(int, match.groups()[1:])
    result = pa.decimal128(PRECISION_MAX, scale)

    def divided(dividend: decimal.Decimal | None, divisor: decimal.Decimal | None) -> Any:
        if divisor == 0 or (of_null and divisor is None):
            return decimal.Decimal(0)
        if dividend is None or divisor is None:
            return None
        quotient = DIGITS.divide(dividend, divisor)
        # A zero has the exponent of its scale, which says nothing of its size.
        if quotient and quotient.adjusted() >= PRECISION_MAX - scale:
            raise coded("100039", str(quotient))
        return quotient.quantize(decimal.Decimal(1).scaleb(-scale), context=DIGITS)

    def function(dividends: Any, divisors: Any) -> Any:
        return pa.array(map(divided, dividends.to_pylist(), divisors.to_pylist()), result)

    return Kernel(
        function=function,
        arguments=(pa.decimal128(*digits[:2]), pa.decimal128(*digits[2:])),
        result=result,
        volatility="volatile",
    )


PRECISION_MAX = 38


def _real_quotient_or_zero(match: re.Match[str]) -> Kernel:
    of_null = bool(match.group(1))

    def function(dividends: Any, divisors: Any) -> Any:
        is_zero = pc.fill_null(pc.equal(divisors, pa.scalar(0.0)), of_null)
        quotients = pc.divide(dividends, pc.if_else(is_zero, 1.0, divisors))
        return pc.if_else(is_zero, 0.0, quotients)

    return Kernel(function=function, arguments=(pa.float64(),) * 2, result=pa.float64())


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile(f"_between_{TYPE}"), _between),
    (re.compile(rf"_(greatest|least)_of_(\d+)_{TYPE}"), _extreme),
    (re.compile(r"_div0(null)?_real"), _real_quotient_or_zero),
    (re.compile(r"_div0(null)?_(\d+)_(\d+)_(\d+)_(\d+)_(\d+)"), _quotient_or_zero),
)
