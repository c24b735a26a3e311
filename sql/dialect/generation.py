"""rule: functions that generate data: SEQ, RANDOM, UNIFORM, RANDSTR, NORMAL, ZIPF.

The last four are functions of their last argument, the source of their randomness: the same for
the same, and another in each row for RANDOM(). RANDOM with a seed is a function of the seed and of
the row's number, so it is the same each time.
"""

from __future__ import annotations

from sql import outcomes
from sql.dialect import arithmetic, casts, sqltypes
from sql.dialect.builders import FunctionCall, function
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

DIGITS = {8: 3, 16: 5, 32: 10}
"""The precision of SEQ1, SEQ2 and SEQ4, by their width in bits."""


def sequence(call: FunctionCall) -> Expr:
    """SEQ1, SEQ2, SEQ4, SEQ8: the number of a row, from 0, of so many bytes."""
    width = 8 * int(call.name[-1])
    is_signed = bool(call.nodes) and call.whole(0) == 1
    if call.nodes and call.whole(0) not in (0, 1):
        raise call.invalid()
    number = call.sequence()
    if width == 64:
        return number
    values, digits = 1 << width, DIGITS[width]
    if not is_signed:
        wrapped = code.infix(number, "%", values)
        return exprs.derived(wrapped, sqltypes.integer(digits, 0, values - 1), [number])
    half = values // 2
    wrapped = code.infix(code.infix(code.infix(number, "+", half), "%", values), "-", half)
    return exprs.derived(wrapped, sqltypes.integer(digits, -half, half - 1), [number])


def random(call: FunctionCall) -> Expr:
    """RANDOM: a number of 64 bits. With a seed, a function of the seed and of the row's number."""
    if call.nodes:
        seed = call.whole(0)
        if not sqltypes.INT64_LOW <= seed <= sqltypes.INT64_HIGH:
            raise call.invalid()
        number = call.sequence()
        computed = code.kernel("_random_of", code.exactly(seed, sqltypes.integer()), number)
        return exprs.derived(computed, sqltypes.integer(), [number])
    # The engine's number has 53 random bits: two halves of 32 make all 64.
    half = code.call("floor", code.infix(code.call("random"), "*", exprs.real(2.0**32)))
    high = code.exactly(code.infix(half, "-", exprs.real(2.0**31)), sqltypes.integer())
    low = code.exactly(half, sqltypes.integer())
    bits = code.infix(code.infix(high, "*", 1 << 32), "+", low)
    return Expr(code=bits, type=sqltypes.integer(), nullable=False, is_volatile=True)


def _source(call: FunctionCall, index: int) -> code.Part:
    number = arithmetic.round_half_away(call.arg(index))
    return casts.as_arrow(number, sqltypes.integer())


def _uniform(call: FunctionCall) -> Expr:
    low, high = (arithmetic.as_number(call.arg(index)) for index in range(2))
    source = call.arg(2)
    if "real" in (low.type.name, high.type.name) or low.type.scale or high.type.scale:
        ends = [casts.cast(end, sqltypes.REAL) for end in (low, high)]
        computed = code.kernel("_uniform_real", *ends, _source(call, 2))
        return exprs.derived(computed, sqltypes.REAL, [*ends, source])
    whole = [casts.as_arrow(end, sqltypes.integer()) for end in (low, high)]
    computed = code.kernel("_uniform", *whole, _source(call, 2))
    return exprs.derived(computed, sqltypes.integer(), [low, high, source])


def _normal(call: FunctionCall) -> Expr:
    ends = [casts.cast(arithmetic.as_number(call.arg(index)), sqltypes.REAL) for index in range(2)]
    computed = code.kernel("_normal", *ends, _source(call, 2))
    return exprs.derived(computed, sqltypes.REAL, [*ends, call.arg(2)])


def _zipf(call: FunctionCall) -> Expr:
    """ZIPF: a number from 1 to n; the probability of k is in proportion to 1 / k**s."""
    exponent = casts.cast(arithmetic.as_number(call.arg(0)), sqltypes.REAL)
    count = arithmetic.round_half_away(call.arg(1))
    whole = casts.as_arrow(count, sqltypes.integer())
    exact = casts.as_arrow(exponent, sqltypes.REAL)
    computed = code.kernel("_zipf", exact, whole, _source(call, 2))
    return exprs.derived(computed, sqltypes.integer(), [exponent, count, call.arg(2)])


def _randstr(call: FunctionCall) -> Expr:
    length = arithmetic.round_half_away(call.arg(0))
    if isinstance(length.literal, int) and not 0 <= length.literal <= outcomes.TEXT_LENGTH_MAX:
        raise call.invalid()
    whole = casts.as_arrow(length, sqltypes.integer())
    computed = code.kernel("_randstr", whole, _source(call, 1))
    return exprs.derived(computed, sqltypes.TEXT, [length, call.arg(1)])


GENERATION_FUNCTIONS = (
    *(function(f"SEQ{width}", "[constant]", "integer", sequence) for width in (1, 2, 4, 8)),
    function("UNIFORM", "number number whole", "number", _uniform),
    function("ZIPF", "real whole whole", "integer", _zipf),
    function("NORMAL", "number number whole", "real", _normal),
    function("RANDSTR", "whole whole", "text", _randstr),
)
