"""rule: a bound expression: text in the engine's SQL, its Snowflake type, and its properties.

`sql` is always an operand: a name, a literal, a call or a parenthesis, so that expressions can be
combined without regard to precedence. Rewrites take and return Bounds; nothing else does.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sql.dialect import sqltypes


class NotConstant:
    """The literal of an expression that is not constant: one object in every process."""

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = NotConstant()


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """One expression. literal: its value, when it is a constant. origin: (table use, column).

    chain: "sum" or "product" when sql is a parenthesis that one more term of that kind may open.
    terms: of a sum that is added at twice the width, its text before the cast to its type.
    is_volatile: each occurrence of sql in the engine's text has a value of its own.
    """

    sql: str
    type: sqltypes.SqlType
    nullable: bool = True
    aggregate: bool = False
    window: bool = False
    literal: Any = UNKNOWN
    origin: tuple[int, int] | None = None
    chain: str = ""
    terms: str = ""
    is_volatile: bool = False

    @property
    def is_literal(self) -> bool:
        return self.literal is not UNKNOWN


def derived(
    sql: str, sql_type: sqltypes.SqlType, parts: Iterable[Bound], *, nullable: bool | None = None
) -> Bound:
    """Return an expression over parts; nullable None: it is nullable if any part is."""
    operands = tuple(parts)
    return Bound(
        sql=sql,
        type=sql_type,
        nullable=any(part.nullable for part in operands) if nullable is None else nullable,
        aggregate=any(part.aggregate for part in operands),
        window=any(part.window for part in operands),
        is_volatile=any(part.is_volatile for part in operands),
    )


def chained(left: Bound, operator: str, right: Bound, sql_type: sqltypes.SqlType) -> Bound:
    """Return left operator right; a chain of them stays flat, however long it is."""
    chain = "product" if operator == "*" else "sum"
    first = left.sql[1:-1] if left.chain == chain else left.sql
    chained = derived(f"({first} {operator} {right.sql})", sql_type, [left, right])
    return dataclasses.replace(chained, chain=chain)


FLAT_MAX = 32


def joined(parts: Sequence[str], word: str) -> str:
    """Return parts joined by an associative operator, deep by the logarithm of their number."""
    if len(parts) > FLAT_MAX:
        middle = len(parts) // 2
        parts = [joined(parts[:middle], word), joined(parts[middle:], word)]
    return f"({f' {word} '.join(parts)})"


def retyped(bound: Bound, sql_type: sqltypes.SqlType) -> Bound:
    """Return the same expression under another type with the same representation."""
    return dataclasses.replace(bound, type=sql_type)


def quoted_text(text: str) -> str:
    """Return text as a string literal of the engine's SQL, which has no backslash escapes."""
    return "'" + text.replace("'", "''") + "'"


def text(value: str) -> Bound:
    return Bound(
        sql=quoted_text(value), type=sqltypes.text(len(value)), nullable=False, literal=value
    )


def null(sql_type: sqltypes.SqlType = sqltypes.NULL) -> Bound:
    if sql_type.name == "null":
        return Bound(sql="NULL", type=sql_type, literal=None)
    return Bound(sql=sqltypes.exactly("NULL", sql_type), type=sql_type, literal=None)


def boolean(value: bool) -> Bound:
    return Bound(
        sql="TRUE" if value else "FALSE", type=sqltypes.BOOLEAN, nullable=False, literal=value
    )


def integer(value: int) -> Bound:
    """Return a whole number: 64 bits if it fits, else a decimal. Raises ValueError past 38."""
    digits = max(len(str(abs(value))), 1)
    if digits > sqltypes.PRECISION_MAX:
        raise ValueError("more than 38 digits")
    if sqltypes.INT64_LOW < value <= sqltypes.INT64_HIGH:
        sql = str(value) if value >= 0 else f"({value})"
        sql_type = sqltypes.integer(digits, value, value)
    else:
        sql_type = sqltypes.number(digits)
        sql = sqltypes.exactly(f"'{value}'", sql_type)
    return Bound(sql=sql, type=sql_type, nullable=False, literal=value)


def number(value: decimal.Decimal) -> Bound:
    """Return a decimal with its own precision and scale; raises ValueError past 38 digits."""
    exponent = int(value.as_tuple().exponent)
    if exponent >= 0:
        return integer(int(value))
    digits = max(len(value.as_tuple().digits), -exponent + (value.adjusted() >= 0))
    if digits > sqltypes.PRECISION_MAX or -exponent > 37:
        raise ValueError("more than 38 digits")
    sql_type = sqltypes.number(max(digits, -exponent), -exponent)
    return Bound(
        sql=sqltypes.exactly(f"'{value:f}'", sql_type),
        type=sql_type,
        nullable=False,
        literal=value,
    )


def real(value: float) -> Bound:
    spelled = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
    return Bound(
        sql=sqltypes.exactly(f"'{spelled}'", sqltypes.REAL),
        type=sqltypes.REAL,
        nullable=False,
        literal=value,
    )


def date(value: datetime.date) -> Bound:
    return Bound(
        sql=sqltypes.exactly(f"'{value.isoformat()}'", sqltypes.DATE),
        type=sqltypes.DATE,
        nullable=False,
        literal=value,
    )


def time(value: datetime.time) -> Bound:
    return Bound(
        sql=sqltypes.exactly(f"'{value.isoformat()}'", sqltypes.TIME),
        type=sqltypes.TIME,
        nullable=False,
        literal=value,
    )


def timestamp(value: datetime.datetime) -> Bound:
    """Return TIMESTAMP_LTZ for an aware value, else TIMESTAMP_NTZ."""
    if value.tzinfo is not None:
        sql_type = sqltypes.TIMESTAMP_LTZ
        spelled = value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"
    else:
        sql_type = sqltypes.TIMESTAMP_NTZ
        spelled = value.isoformat()
    return Bound(
        sql=sqltypes.exactly(f"'{spelled}'", sql_type),
        type=sql_type,
        nullable=False,
        literal=value,
    )


def binary(value: bytes) -> Bound:
    return Bound(
        sql=f"X'{value.hex()}'",
        type=sqltypes.SqlType(name="binary", length=len(value) or 1),
        nullable=False,
        literal=value,
    )
