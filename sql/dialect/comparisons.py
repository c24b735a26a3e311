"""rule: Snowflake's comparisons, patterns and CONCAT in the engine's SQL.

Each function takes bound operands and returns one. Where the engine differs silently (types that
are compared, NULL in CONCAT, backslash in LIKE, unanchored regular expressions) the difference is
made explicit; a construct that cannot be expressed is refused.
"""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Sequence

from sql import errors, moment_kernels
from sql.dialect import arithmetic, casts, formats, sqltypes
from sql.plan import code, emit, evaluation
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"}


def as_boolean(operand: Expr) -> Expr:
    if operand.type.name in ("boolean", "null"):
        return operand
    return casts.cast(operand, sqltypes.BOOLEAN)


def compare(left: Expr, right: Expr, operator: str) -> Expr:
    """Return a comparison; both sides become one type first."""
    assert operator in COMPARISONS
    left, right, operator = _without_fine_bound(left, right, operator)
    left, right = comparable(left, right)
    if left.type.name == "real" and operator in ("=", "<>"):
        for side, other in ((left, right), (right, left)):
            if operator == "=" and side.origin is not None and evaluation.value_of(other) == 0:
                return _is_zero(side)
        left, right = _beside_constant(left, right), _beside_constant(right, left)
    nullable = None if operator in ("=", "<>", "<", "<=", ">", ">=") else False
    return exprs.derived(
        code.infix(left, operator, right), sqltypes.BOOLEAN, [left, right], nullable=nullable
    )


def _is_zero(column: Expr) -> Expr:
    """Return whether a stored float is zero, by bounds, of which the engine makes no list."""
    ends = [
        code.infix(column, ">=", exprs.real(-0.0)),
        code.infix(column, "<=", exprs.real(0.0)),
    ]
    return exprs.derived(code.joined(ends, "AND"), sqltypes.BOOLEAN, [column])


def _beside_constant(side: Expr, other: Expr) -> Expr:
    """Return a float so that it is no -0.0 if it is compared with a constant that may be zero.

    The engine makes a list of several comparisons with constants, and its lists tell them apart.
    """
    value = evaluation.value_of(other)
    is_other = value if value is not exprs.UNKNOWN else emit.relations_of(other)
    return side if is_other else casts.as_key(side)


def _without_fine_bound(left: Expr, right: Expr, operator: str) -> tuple[Expr, Expr, str]:
    """Return a comparison of a moment with a text of nanoseconds as one of microseconds.

    No moment lies between the text and the microsecond before it, so that `t < text` is `t <= cut`.
    """
    for moment, bound in ((left, right), (right, left)):
        operators = BELOW_FINE if bound is right else ABOVE_FINE
        text = _fine_literal(bound) if operator in operators else None
        if (
            text is None
            or moment.type.name not in casts.CLOCKS
            or moment.type.scale > casts.MICROSECOND_DIGITS
        ):
            continue
        cut = casts.read_by(exprs.text(moment_kernels.cut_text(text)), bound.type.inputs)
        if bound.type.name != "text":
            cut = casts.cast(cut, bound.type)
        operator = operators[operator]
        return (left, cut, operator) if bound is right else (cut, right, operator)
    return left, right, operator


BELOW_FINE = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}


ABOVE_FINE = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}


def _fine_literal(operand: Expr) -> str | None:
    """Return a text literal, or one cast to a moment, if it has digits below a microsecond."""
    used = _uncast(operand)
    if isinstance(used, code.FunctionUse) and used.is_kernel and used.name in READERS_OF_TEXT:
        used = _uncast(used.arguments[0])
    if not isinstance(used, code.StringLiteral) or not moment_kernels.has_fine_digits(used.value):
        return None
    return used.value


def _uncast(used: code.Part) -> code.Part:
    while isinstance(used, code.Cast | Expr):
        used = used.operand if isinstance(used, code.Cast) else used.code
    return used


READERS_OF_TEXT = frozenset({"_to_timestamp", "_to_time", "_to_instant"})


def comparable(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Return both operands in types that the engine compares as Snowflake does."""
    type_names = {left.type.name, right.type.name}
    if type_names == {"fixed", "real"}:
        return _real_side(left), _real_side(right)
    if type_names == {"fixed"}:
        return _exact_sides(left, right)
    if type_names <= sqltypes.SEMISTRUCTURED:
        if left.type.is_nested or right.type.is_nested:
            _check_same_structure(left.type, right.type)
        return casts.as_variant_order(left), casts.as_variant_order(right)
    if "timestamp_tz" in type_names and "null" not in type_names and "variant" not in type_names:
        # Instants are compared, whatever their offsets are.
        sides = [casts.cast(side, sqltypes.TIMESTAMP_LTZ) for side in (left, right)]
        return sides[0], sides[1]
    if len(type_names) == 1 or "null" in type_names:
        return left, right
    if "variant" in type_names:
        return _comparable_with_variant(left, right)
    if type_names == {"text", "fixed"}:
        return comparable(_number_side(left), _number_side(right))
    (left, right), _ = casts.unify([left, right], "comparison")
    return left, right


def _check_same_structure(left: sqltypes.SqlType, right: sqltypes.SqlType) -> None:
    """Raise SqlError if a structured value is compared with one of another type."""
    is_read = left.structure is not None and right.structure is not None
    if not is_read or sqltypes.unified([left, right]) is None:
        raise casts.mismatch(f"comparison of {sqltypes.shown(left)} and {sqltypes.shown(right)}")


def _comparable_with_variant(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Return both operands in the type of the one that is no VARIANT."""
    other = (right if left.type.name == "variant" else left).type
    target = other
    if other.name == "fixed":
        scale = max(other.scale, VARIANT_SCALE)
        target = sqltypes.number(sqltypes.PRECISION_MAX, scale)
    sides = [
        casts.cast(side, target) if side.type.name == "variant" else side for side in (left, right)
    ]
    return comparable(sides[0], sides[1])


VARIANT_SCALE = 12
"""Digits after the point of a number in a VARIANT when it is compared with a NUMBER."""


def _exact_sides(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Return both NUMBERs so that the type which the engine compares them in holds every digit."""
    scale = max(left.type.scale, right.type.scale)
    whole = max(whole_digits(left.type), whole_digits(right.type))
    if whole + scale <= sqltypes.PRECISION_MAX:
        return left, right
    double = f"Decimal256({whole + scale}, {scale})"
    sides = [
        dataclasses.replace(side, code=code.arrow(side, double), origin=None)
        for side in (left, right)
    ]
    return sides[0], sides[1]


def whole_digits(sql_type: sqltypes.SqlType) -> int:
    """Return the digits before the point that a NUMBER of this type can have."""
    if sql_type.is_integer:
        if sql_type.is_claimed:
            return len(str(sqltypes.INT64_HIGH))
        return len(str(max(abs(sql_type.low), abs(sql_type.high))))
    return sql_type.precision - sql_type.scale


def _real_side(operand: Expr) -> Expr:
    # By default the engine makes decimals of both: 1e-16 would be 0, and 1e300 an error.
    if isinstance(operand.literal, int | decimal.Decimal):
        return exprs.real(float(operand.literal))
    return casts.cast(operand, sqltypes.REAL)


def _number_side(operand: Expr) -> Expr:
    return arithmetic.as_number(operand) if operand.type.name == "text" else operand


def like(
    value: Expr,
    pattern: Expr,
    *,
    escape: str | None = None,
    ignore_case: bool = False,
    forms: formats.Forms = formats.DEFAULT,
) -> Expr:
    """Return value LIKE pattern: a backslash is itself unless ESCAPE names it."""
    value = casts.cast(value, sqltypes.TEXT, forms=forms)
    pattern = casts.cast(pattern, sqltypes.TEXT, forms=forms)
    if isinstance(pattern.literal, str):
        wanted: code.Code = code.StringLiteral(value=_backslashed(pattern.literal, escape))
    elif escape is None:
        wanted = code.call("replace", pattern, "\\", "\\\\")
    else:
        raise errors.unsupported("LIKE ... ESCAPE with a pattern that is no constant")
    operator = "ILIKE" if ignore_case else "LIKE"
    return exprs.derived(code.infix(value, operator, wanted), sqltypes.BOOLEAN, [value, pattern])


def _backslashed(pattern: str, escape: str | None) -> str:
    pieces, index = [], 0
    while index < len(pattern):
        char = pattern[index]
        if char == escape and index + 1 < len(pattern):
            index += 1
            pieces.append(f"\\{pattern[index]}" if pattern[index] in "%_\\" else pattern[index])
        else:
            pieces.append("\\\\" if char == "\\" else char)
        index += 1
    return "".join(pieces)


def regexp_like(value: Expr, pattern: Expr, parameters: str = "c") -> Expr:
    """Return whether the pattern matches the whole of value."""
    value, pattern = casts.cast(value, sqltypes.TEXT), casts.cast(pattern, sqltypes.TEXT)
    flags = regexp_flags(parameters)
    if isinstance(pattern.literal, str):
        anchored: code.Code = code.StringLiteral(value=f"{flags}^(?:{pattern.literal})$")
    else:
        anchored = code.infix(f"{flags}^(?:", "||", pattern, "||", ")$")
    return exprs.derived(code.infix(value, "~", anchored), sqltypes.BOOLEAN, [value, pattern])


def regexp_flags(parameters: str) -> str:
    """Return Snowflake's parameters as an inline flag group; the last of c and i wins."""
    flags = set()
    for letter in parameters:
        match letter:
            case "c":
                flags.discard("i")
            case "i" | "s" | "m":
                flags.add(letter)
            case "e":
                pass
            case _:
                raise errors.unsupported(f"regular expression parameter '{letter}'")
    return f"(?{''.join(sorted(flags))})" if flags else ""


def concat(operands: Sequence[Expr], forms: formats.Forms = formats.DEFAULT) -> Expr:
    """Return the operands joined: NULL if one is."""
    parts = [casts.cast(operand, sqltypes.TEXT, forms=forms) for operand in operands]
    joined = exprs.derived(code.joined(parts, "||"), sqltypes.TEXT, parts)
    texts = [part.literal for part in parts]
    if not all(isinstance(text, str) for text in texts):
        return joined
    return dataclasses.replace(joined, literal="".join(texts))
