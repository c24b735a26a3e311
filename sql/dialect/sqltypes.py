"""rule: Snowflake's types in the binder, and the arithmetic on them.

A NUMBER of scale 0 is computed as a 64-bit integer as long as its bounds prove that no operation
overflows, else as a 128-bit decimal (`wide`). The engine's 64-bit arithmetic wraps silently, so
every integer expression has bounds: exact for literals and for columns whose files have bounds,
otherwise the type's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sql import outcomes

Kind: TypeAlias = outcomes.LogicalType | Literal["null", "interval"]

INT64_LOW, INT64_HIGH = -(1 << 63), (1 << 63) - 1
INT32_LOW, INT32_HIGH = -(1 << 31), (1 << 31) - 1
PRECISION_MAX = 38
DIVISION_SCALE_STEP = 6
DIVISION_SCALE_MAX = 12
MULTIPLY_SCALE_MAX = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlType:
    """A type. precision, scale: of fixed; scale also of times. length: of text and binary.

    wide: a fixed value is held as a 128-bit decimal. low, high: bounds of a fixed value of scale 0
    that is not wide.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    length: int | None = None
    wide: bool = False
    low: int = INT64_LOW
    high: int = INT64_HIGH

    @property
    def is_integer(self) -> bool:
        """Whether values are stored as 64-bit integers."""
        return self.kind == "fixed" and not self.wide

    @property
    def is_temporal(self) -> bool:
        return self.kind in ("date", "timestamp_ntz", "timestamp_ltz", "timestamp_tz")


NULL = SqlType(kind="null")
TEXT = SqlType(kind="text")
BOOLEAN = SqlType(kind="boolean")
REAL = SqlType(kind="real")
DATE = SqlType(kind="date")
TIME = SqlType(kind="time", scale=6)
TIMESTAMP_NTZ = SqlType(kind="timestamp_ntz", scale=6)
TIMESTAMP_LTZ = SqlType(kind="timestamp_ltz", scale=6)
BINARY = SqlType(kind="binary")


def number(precision: int, scale: int = 0) -> SqlType:
    """Return a NUMBER held as a decimal."""
    return SqlType(kind="fixed", precision=precision, scale=scale, wide=True)


def integer(precision: int = 19, low: int = INT64_LOW, high: int = INT64_HIGH) -> SqlType:
    """Return a NUMBER of scale 0 held as a 64-bit integer with these bounds."""
    assert low >= INT64_LOW
    assert high <= INT64_HIGH
    return SqlType(kind="fixed", precision=precision, low=low, high=high)


def text(length: int | None) -> SqlType:
    """Return VARCHAR(length)."""
    return SqlType(kind="text", length=length)


def arrow_name(kind: SqlType) -> str:
    """Return the type's name for the engine's arrow_cast."""
    unit = "Nanosecond" if kind.scale > 6 else "Microsecond"
    match kind.kind:
        case "fixed":
            return f"Decimal128({kind.precision}, {kind.scale})" if kind.wide else "Int64"
        case "real":
            return "Float64"
        case "text":
            return "Utf8"
        case "boolean":
            return "Boolean"
        case "date":
            return "Date32"
        case "time":
            return f"Time64({unit})"
        case "timestamp_ntz":
            return f"Timestamp({unit}, None)"
        case "binary":
            return "Binary"
    raise AssertionError(f"{kind.kind} has no Arrow name")


def exactly(sql: str, kind: SqlType, *, lenient: bool = False) -> str:
    """Return sql cast to exactly the engine's type of kind.

    A function does it, not CAST: the engine names an expression without its casts, and then takes
    sum(x) and sum(CAST(x AS ...)) for one name.
    """
    if kind.kind == "timestamp_ltz":
        # In the session's zone, which only the engine knows by this name.
        return f"{'TRY_CAST' if lenient else 'CAST'}({sql} AS TIMESTAMP(6) WITH TIME ZONE)"
    return f"{'arrow_try_cast' if lenient else 'arrow_cast'}({sql}, '{arrow_name(kind)}')"


def shown(kind: SqlType) -> str:
    """Return the type as in DESCRIBE and messages."""
    match kind.kind:
        case "fixed":
            return f"NUMBER({kind.precision},{kind.scale})"
        case "real":
            return "FLOAT"
        case "text":
            return f"VARCHAR({kind.length or outcomes.TEXT_LENGTH_MAX})"
        case "binary":
            return f"BINARY({kind.length or outcomes.BINARY_LENGTH_MAX})"
        case "time" | "timestamp_ntz" | "timestamp_ltz" | "timestamp_tz":
            return f"{kind.kind.upper()}({kind.scale})"
    return kind.kind.upper()


# Arithmetic


def added(left: SqlType, right: SqlType, *, negative: bool = False) -> SqlType:
    """Return the type of left + right (or left - right) for two fixed types."""
    if left.is_integer and right.is_integer:
        low, high = (
            (left.low - right.high, left.high - right.low)
            if negative
            else (left.low + right.low, left.high + right.high)
        )
        digits = min(max(left.precision, right.precision) + 1, PRECISION_MAX)
        return _bounded(digits, low, high)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return number(min(whole + scale + 1, PRECISION_MAX), scale)


def multiplied(left: SqlType, right: SqlType) -> SqlType:
    """Return the type of left * right for two fixed types."""
    if left.is_integer and right.is_integer:
        ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        digits = min(left.precision + right.precision, PRECISION_MAX)
        return _bounded(digits, min(ends), max(ends))
    scale = min(left.scale + right.scale, max(left.scale, right.scale, MULTIPLY_SCALE_MAX))
    whole = left.precision - left.scale + right.precision - right.scale
    return number(min(whole + scale, PRECISION_MAX), scale)


def divided_scale(dividend: SqlType) -> int:
    """Return the scale of dividend / anything."""
    scale = dividend.scale
    return max(scale, min(scale + DIVISION_SCALE_STEP, DIVISION_SCALE_MAX))


def _bounded(digits: int, low: int, high: int) -> SqlType:
    if low < INT64_LOW or high > INT64_HIGH:
        return number(digits)
    return integer(digits, low, high)


def negated(kind: SqlType) -> SqlType:
    """Return the type of -x for a fixed type."""
    if kind.is_integer:
        return _bounded(kind.precision, -kind.high, -kind.low)
    return kind


def unified(kinds: list[SqlType]) -> SqlType | None:
    """Return the common type of kinds in one column, or None if there is none."""
    unified = NULL
    for kind in kinds:
        pair = _unified_pair(unified, kind)
        if pair is None:
            return None
        unified = pair
    return unified


def _unified_pair(left: SqlType, right: SqlType) -> SqlType | None:
    if left.kind == "null" or right.kind == "null":
        return right if left.kind == "null" else left
    if left.kind == right.kind:
        return _same_kind(left, right)
    pair = {left.kind, right.kind}
    if pair == {"fixed", "real"}:
        return REAL
    if "text" in pair:
        # Snowflake converts the text to the other type, and fails on invalid text.
        other = left if right.kind == "text" else right
        if other.kind in ("variant", "object", "array", "interval"):
            return None
        return number(PRECISION_MAX, max(other.scale, 5)) if other.kind == "fixed" else other
    if pair <= {"date", "timestamp_ntz", "timestamp_ltz"}:
        return TIMESTAMP_LTZ if "timestamp_ltz" in pair else TIMESTAMP_NTZ
    if pair == {"boolean", "fixed"}:
        return BOOLEAN
    return None


def _same_kind(left: SqlType, right: SqlType) -> SqlType:
    match left.kind:
        case "fixed":
            if left.is_integer and right.is_integer:
                return integer(
                    max(left.precision, right.precision),
                    min(left.low, right.low),
                    max(left.high, right.high),
                )
            scale = max(left.scale, right.scale)
            whole = max(left.precision - left.scale, right.precision - right.scale)
            return number(min(whole + scale, PRECISION_MAX), scale)
        case "text" | "binary":
            lengths = (left.length, right.length)
            known_lengths = [length for length in lengths if length is not None]
            return dataclasses.replace(
                left, length=max(known_lengths) if len(known_lengths) == 2 else None
            )
    return left if left.scale >= right.scale else right


def same_in_engine(left: SqlType, right: SqlType) -> bool:
    """Return whether values of both have the same representation, so that no cast is needed."""
    if left.kind != right.kind:
        return False
    if left.kind == "fixed":
        if left.is_integer or right.is_integer:
            return left.is_integer and right.is_integer
        return (left.precision, left.scale) == (right.precision, right.scale)
    if left.kind in ("time", "timestamp_ntz", "timestamp_ltz"):
        return left.scale == right.scale
    return True


def column(name: str, kind: SqlType, *, nullable: bool = True) -> outcomes.Column:
    """Return the result column of this type."""
    if kind.kind == "null":
        kind = TEXT
    assert kind.kind != "interval"
    assert kind.kind != "null"
    return outcomes.Column(
        name=name,
        type=kind.kind,
        nullable=nullable,
        precision=kind.precision if kind.kind == "fixed" else None,
        scale=kind.scale if kind.kind in SCALED else None,
        length=kind.length,
    )


SCALED = ("fixed", "time", "timestamp_ntz", "timestamp_ltz", "timestamp_tz")
