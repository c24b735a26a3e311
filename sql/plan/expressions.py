"""rule: typed expressions, and the constants among them.

An expression has Snowflake's type and properties, and the code that computes it in the engine.
Rewrites take and return expressions; no other value stands for one.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sql.dialect import sqltypes
from sql.plan import code
from sql.plan.code import Code, Infix


class NotConstant:
    """The literal of an expression that is not constant: one object in every process."""

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = NotConstant()


@dataclass(frozen=True, kw_only=True, slots=True)
class Expr:
    """One expression. literal: its value, when it is a constant. origin: (table use, column).

    aggregate, window: whether such a function stands in it. terms: of a sum that is added at twice
    the width, that sum before the cast to its type. is_volatile: each occurrence in the engine's
    text has a value of its own. length: of its text, once `sql.plan.emit` has measured it.
    """

    code: Code
    type: sqltypes.SqlType
    nullable: bool = True
    aggregate: bool = False
    window: bool = False
    literal: Any = UNKNOWN
    origin: tuple[int, int] | None = None
    terms: Infix | None = None
    is_volatile: bool = False
    length: int = dataclasses.field(default=0, init=False, repr=False, compare=False)

    @property
    def is_literal(self) -> bool:
        return self.literal is not UNKNOWN

    def keep_length(self, length: int) -> None:
        """Keep what measuring found, which is the same each time."""
        object.__setattr__(self, "length", length)


def derived(
    computed: code.Code,
    sql_type: sqltypes.SqlType,
    parts: Iterable[Expr],
    *,
    nullable: bool | None = None,
) -> Expr:
    """Return an expression over parts; nullable None: it is nullable if any part is."""
    any_nullable = aggregate = window = is_volatile = False
    for part in parts:
        any_nullable = any_nullable or part.nullable
        aggregate = aggregate or part.aggregate
        window = window or part.window
        is_volatile = is_volatile or part.is_volatile
    return Expr(
        code=computed,
        type=sql_type,
        nullable=any_nullable if nullable is None else nullable,
        aggregate=aggregate,
        window=window,
        is_volatile=is_volatile,
    )


SUM, PRODUCT = frozenset("+-"), frozenset("*")


def chained(left: Expr, operator: str, right: Expr, sql_type: sqltypes.SqlType) -> Expr:
    """Return left operator right; a chain of them stays flat, however long it is."""
    # A volatile call stays whole, so that each use of it is known to be the same.
    chain = left if left.is_volatile else left.code
    return derived(extended(chain, left, operator, right), sql_type, [left, right])


def extended(chain: code.Part, first: code.Part, operator: str, operand: code.Part) -> code.Infix:
    """Return chain with one more operand, if it is of such operators; else first and operand."""
    operators = PRODUCT if operator in PRODUCT else SUM
    if isinstance(chain, code.Infix) and operators.issuperset(chain.operators):
        return code.Infix(
            operands=(*chain.operands, operand), operators=(*chain.operators, operator)
        )
    return code.infix(first, operator, operand)


def retyped(bound: Expr, sql_type: sqltypes.SqlType) -> Expr:
    """Return the same expression under another type with the same representation."""
    return dataclasses.replace(bound, type=sql_type)


def text(value: str) -> Expr:
    return Expr(
        code=code.StringLiteral(value=value),
        type=sqltypes.text(len(value)),
        nullable=False,
        literal=value,
    )


def null(sql_type: sqltypes.SqlType = sqltypes.NULL) -> Expr:
    if sql_type.name == "null" or sql_type.is_nested:
        return Expr(code=code.NULL, type=sql_type, literal=None)
    return Expr(code=code.exactly(code.NULL, sql_type), type=sql_type, literal=None)


def boolean(value: bool) -> Expr:
    return Expr(
        code=code.TRUE if value else code.FALSE,
        type=sqltypes.BOOLEAN,
        nullable=False,
        literal=value,
    )


def integer(value: int) -> Expr:
    """Return a whole number: 64 bits if it fits, else a decimal. Raises ValueError past 38."""
    digits = max(len(str(abs(value))), 1)
    if digits > sqltypes.PRECISION_MAX:
        raise ValueError("more than 38 digits")
    if sqltypes.INT64_LOW < value <= sqltypes.INT64_HIGH:
        sql_type = sqltypes.integer(digits, value, value)
        computed: Code = code.Token(text=str(value) if value >= 0 else f"({value})")
    else:
        sql_type = sqltypes.number(digits)
        computed = code.exactly(str(value), sql_type)
    return Expr(code=computed, type=sql_type, nullable=False, literal=value)


def number(value: decimal.Decimal) -> Expr:
    """Return a decimal with its own precision and scale; raises ValueError past 38 digits."""
    exponent = int(value.as_tuple().exponent)
    if exponent >= 0:
        return integer(int(value))
    digits = max(len(value.as_tuple().digits), -exponent + (value.adjusted() >= 0))
    if digits > sqltypes.PRECISION_MAX or -exponent > 37:
        raise ValueError("more than 38 digits")
    sql_type = sqltypes.number(max(digits, -exponent), -exponent)
    return Expr(
        code=code.exactly(f"{value:f}", sql_type),
        type=sql_type,
        nullable=False,
        literal=value,
    )


def real(value: float) -> Expr:
    spelled = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
    return Expr(
        code=code.exactly(spelled, sqltypes.REAL),
        type=sqltypes.REAL,
        nullable=False,
        literal=value,
    )


def date(value: datetime.date) -> Expr:
    return Expr(
        code=code.exactly(value.isoformat(), sqltypes.DATE),
        type=sqltypes.DATE,
        nullable=False,
        literal=value,
    )


def time(value: datetime.time) -> Expr:
    return Expr(
        code=code.exactly(value.isoformat(), sqltypes.TIME),
        type=sqltypes.TIME,
        nullable=False,
        literal=value,
    )


def timestamp(value: datetime.datetime) -> Expr:
    """Return TIMESTAMP_LTZ for an aware value, else TIMESTAMP_NTZ."""
    if value.tzinfo is not None:
        sql_type = sqltypes.TIMESTAMP_LTZ
        spelled = value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"
    else:
        sql_type = sqltypes.TIMESTAMP_NTZ
        spelled = value.isoformat()
    return Expr(
        code=code.exactly(spelled, sql_type),
        type=sql_type,
        nullable=False,
        literal=value,
    )


def moment(value: datetime.date | datetime.time) -> Expr:
    """Return a DATE, a TIME or a TIMESTAMP, whichever Python's value is."""
    if isinstance(value, datetime.datetime):
        return timestamp(value)
    return date(value) if isinstance(value, datetime.date) else time(value)


def binary(value: bytes) -> Expr:
    return Expr(
        code=code.Token(text=f"X'{value.hex()}'"),
        type=sqltypes.SqlType(name="binary", length=len(value) or 1),
        nullable=False,
        literal=value,
    )
