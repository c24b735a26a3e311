"""rule: a bound expression: text in the engine's SQL, its Snowflake type, and what is known of it.

`sql` is always an operand: a name, a literal, a call or a parenthesis, so that expressions are put
together without thinking of precedence. Rewrites take and give Bounds; nothing else does.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sql.dialect import types

Literal: TypeAlias = (
    int | decimal.Decimal | float | str | bool | bytes | datetime.date | datetime.time | None
)


class Unknown:
    """The literal of an expression that is none."""


UNKNOWN = Unknown()


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """One expression. literal: its value, when it is a constant. origin: (table use, column)."""

    sql: str
    type: types.SqlType
    nullable: bool = True
    aggregate: bool = False
    window: bool = False
    literal: Any = UNKNOWN
    origin: tuple[int, int] | None = None

    @property
    def is_literal(self) -> bool:
        return self.literal is not UNKNOWN


def derived(
    sql: str, kind: types.SqlType, parts: Iterable[Bound], *, nullable: bool | None = None
) -> Bound:
    """Return an expression over parts; nullable None means: when any part is."""
    found = tuple(parts)
    return Bound(
        sql=sql,
        type=kind,
        nullable=any(part.nullable for part in found) if nullable is None else nullable,
        aggregate=any(part.aggregate for part in found),
        window=any(part.window for part in found),
    )


def retyped(bound: Bound, kind: types.SqlType) -> Bound:
    """Return the same expression under another type that is held alike."""
    return dataclasses.replace(bound, type=kind)


def quoted_text(text: str) -> str:
    """Return text as a string literal of the engine's SQL, which knows no backslash escapes."""
    return "'" + text.replace("'", "''") + "'"


def text(value: str) -> Bound:
    return Bound(sql=quoted_text(value), type=types.text(len(value)), nullable=False, literal=value)


def null(kind: types.SqlType = types.NULL) -> Bound:
    if kind.kind == "null":
        return Bound(sql="NULL", type=kind, literal=None)
    return Bound(sql=types.exactly("NULL", kind), type=kind, literal=None)


def boolean(value: bool) -> Bound:
    return Bound(
        sql="TRUE" if value else "FALSE", type=types.BOOLEAN, nullable=False, literal=value
    )


def integer(value: int) -> Bound:
    """Return a whole number: 64 bits when it fits, else a decimal. Raises ValueError past 38."""
    digits = max(len(str(abs(value))), 1)
    if digits > types.PRECISION_MAX:
        raise ValueError("more than 38 digits")
    if types.INT64_LOW < value <= types.INT64_HIGH:
        sql = str(value) if value >= 0 else f"({value})"
        kind = types.integer(digits, value, value)
    else:
        kind = types.number(digits)
        sql = types.exactly(f"'{value}'", kind)
    return Bound(sql=sql, type=kind, nullable=False, literal=value)


def number(value: decimal.Decimal) -> Bound:
    """Return a decimal with its own precision and scale; raises ValueError past 38 digits."""
    exponent = int(value.as_tuple().exponent)
    if exponent >= 0:
        return integer(int(value))
    digits = max(len(value.as_tuple().digits), -exponent + (value.adjusted() >= 0))
    if digits > types.PRECISION_MAX or -exponent > 37:
        raise ValueError("more than 38 digits")
    kind = types.number(max(digits, -exponent), -exponent)
    return Bound(
        sql=types.exactly(f"'{value:f}'", kind),
        type=kind,
        nullable=False,
        literal=value,
    )


def real(value: float) -> Bound:
    spelled = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
    return Bound(
        sql=types.exactly(f"'{spelled}'", types.REAL),
        type=types.REAL,
        nullable=False,
        literal=value,
    )


def date(value: datetime.date) -> Bound:
    return Bound(
        sql=types.exactly(f"'{value.isoformat()}'", types.DATE),
        type=types.DATE,
        nullable=False,
        literal=value,
    )


def time(value: datetime.time) -> Bound:
    return Bound(
        sql=types.exactly(f"'{value.isoformat()}'", types.TIME),
        type=types.TIME,
        nullable=False,
        literal=value,
    )


def timestamp(value: datetime.datetime) -> Bound:
    """Return TIMESTAMP_LTZ for an aware value, else TIMESTAMP_NTZ."""
    if value.tzinfo is not None:
        kind = types.TIMESTAMP_LTZ
        spelled = value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"
    else:
        kind = types.TIMESTAMP_NTZ
        spelled = value.isoformat()
    return Bound(
        sql=types.exactly(f"'{spelled}'", kind),
        type=kind,
        nullable=False,
        literal=value,
    )


def binary(value: bytes) -> Bound:
    return Bound(
        sql=f"X'{value.hex()}'",
        type=types.SqlType(kind="binary", length=len(value) or 1),
        nullable=False,
        literal=value,
    )
