"""rule: functions of text as functions of BINARY, whose characters are bytes.

The engine's functions take text alone, so a part of some bytes is the part of their hexadecimal
digits, two for each byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql.dialect import casts, sqltypes
from sql.dialect.builders import FunctionCall
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def takes(call: FunctionCall, *indexes: int) -> bool:
    """Whether one of these arguments is BINARY; raises SqlError if another one is neither that
    nor NULL."""
    names = [call.arg(index).type.name for index in indexes if index < len(call.nodes)]
    if "binary" not in names:
        return False
    if not {"binary", "null"}.issuperset(names):
        raise call.refuse("BINARY beside another type")
    return True


def digits(value: Expr) -> code.Code:
    """Return the hexadecimal digits of bytes."""
    return code.call("encode", casts.as_arrow(value, sqltypes.BINARY), "hex")


def of_digits(text: code.Part, parts: Sequence[Expr]) -> Expr:
    """Return the bytes of hexadecimal digits."""
    decoded = code.exactly(code.call("decode", text, "hex"), sqltypes.BINARY)
    return exprs.derived(decoded, sqltypes.BINARY, parts)


def joined(operands: Sequence[Expr]) -> Expr:
    """Return bytes end to end."""
    return of_digits(code.joined([digits(operand) for operand in operands], "||"), operands)


def part(value: Expr, start: Expr, length: Sequence[Expr]) -> Expr:
    """Return the bytes of value from start, so many of them if length has a number.

    start: from 1, -1 for the last byte; 0 is 1.
    """
    count = code.infix(code.call("character_length", digits(value)), "/", 2)
    place = code.kernel(
        "_place", *(code.exactly(each, sqltypes.integer()) for each in (start, count))
    )
    first = code.infix(code.infix(place, "*", 2), "-", 1)
    counted = [_doubled(each) for each in length]
    return of_digits(code.call("substr", digits(value), first, *counted), [value, start, *length])


def end(name: str, value: Expr, count: Expr) -> Expr:
    """Return LEFT or RIGHT of bytes."""
    return of_digits(code.call(name, digits(value), _doubled(count)), [value, count])


def padded(name: str, value: Expr, count: Expr, fill: Expr) -> Expr:
    """Return LPAD or RPAD of bytes."""
    return of_digits(
        code.call(name, digits(value), _doubled(count), digits(fill)), [value, count, fill]
    )


def position(needle: Expr, value: Expr, start: int) -> Expr:
    """Return where bytes stand in others, from start on, counted from 1; 0 for nowhere."""
    bytes_ = [casts.as_arrow(each, sqltypes.BINARY) for each in (needle, value)]
    sql_type = sqltypes.integer(19, 0, 1 << 31)
    return exprs.derived(code.kernel("_place_of_bytes", *bytes_, start), sql_type, [needle, value])


def _doubled(count: Expr) -> code.Infix:
    return code.infix(code.exactly(count, sqltypes.integer()), "*", 2)
