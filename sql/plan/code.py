"""rule: what the engine computes, as a tree: names, literals, calls, operators, casts, CASE.

A part of code is another piece of code or an expression (`sql.plan.expressions`), whose own code
stands in its place. Code has no text: only `sql.plan.emit` writes the engine's SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sql.dialect import sqltypes

if TYPE_CHECKING:
    from sql.plan import expressions, relations


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A literal of the engine as it is written: a number, TRUE, NULL, an interval."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StringLiteral:
    """A string literal."""

    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnUse:
    """A column. relation: the alias of its relation; "" for a column of the whole query."""

    relation: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionUse:
    """A call. is_kernel: of a function of `sql.kernels`, else of one of the engine's own.

    The rest is for aggregate and window functions. order: of the aggregated rows; within: the order
    of WITHIN GROUP.
    """

    name: str
    arguments: tuple[Part, ...]
    is_kernel: bool = False
    is_distinct: bool = False
    order: tuple[SortKey, ...] = ()
    within: tuple[SortKey, ...] = ()
    ignores_nulls: bool = False
    over: Window | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SortKey:
    """One key of an order. direction: as the engine writes it, NULLS FIRST or LAST included."""

    key: Part
    direction: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """What stands after OVER. frame: as the engine writes it; "" for its default."""

    partition: tuple[Part, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cast:
    """A cast. target: an Arrow type by its name; if is_named, a type of the engine's SQL.

    lenient: NULL for a value that cannot be cast. is_opaque: the engine's planner must not look
    into it, because it makes different values equal, or because many casts stand in each other.
    """

    operand: Part
    target: str
    lenient: bool = False
    is_named: bool = False
    is_opaque: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Infix:
    """Operands with operators between them, computed from left to right.

    is_exact: a sum whose order does not matter, because no part of it loses a digit.
    """

    operands: tuple[Part, ...]
    operators: tuple[str, ...]
    is_exact: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """An operator before its operand: NOT, -, EXISTS."""

    word: str
    operand: Part


@dataclass(frozen=True, kw_only=True, slots=True)
class Postfix:
    """A test after its operand: IS NULL and its like."""

    operand: Part
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Among:
    """IN or NOT IN. members: expressions, or one Subquery."""

    operand: Part
    members: tuple[Part, ...]
    negated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """CASE. operand: what the conditions are compared with, if it has one."""

    whens: tuple[tuple[Part, Part], ...]
    otherwise: Part | None = None
    operand: Part | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """An operand; the query fails where a whole number is outside these bounds, both included.

    tested: the number; None for the operand itself. target: the operand's Arrow type.
    """

    operand: Part
    low: int
    high: int
    tested: Part | None = None
    target: str = "Int64"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subquery:
    """A query inside an expression."""

    query: relations.Rel


Code: TypeAlias = (
    Token
    | StringLiteral
    | ColumnUse
    | FunctionUse
    | Cast
    | Infix
    | Prefix
    | Postfix
    | Among
    | Case
    | Checked
    | Subquery
)
Part: TypeAlias = "Code | expressions.Expr"
Argument: TypeAlias = "Part | str | int"
"""A part, or the value of a string or number literal."""

NULL = Token(text="NULL")
ALL_COLUMNS = Token(text="*")
TRUE = Token(text="TRUE")
FALSE = Token(text="FALSE")


def part(argument: Argument) -> Part:
    """Return an argument as a part."""
    if isinstance(argument, str):
        return StringLiteral(value=argument)
    if isinstance(argument, int):
        return Token(text=str(argument) if argument >= 0 else f"({argument})")
    return argument


def call(name: str, *arguments: Argument) -> FunctionUse:
    """Return a call of a function of the engine."""
    return FunctionUse(name=name, arguments=tuple(map(part, arguments)))


def kernel(name: str, *arguments: Argument) -> FunctionUse:
    """Return a call of a function of `sql.kernels`."""
    return FunctionUse(name=name, arguments=tuple(map(part, arguments)), is_kernel=True)


def infix(first: Argument, *rest: Argument) -> Infix:
    """Return operands and operators in turn: infix(a, "+", b, "-", c)."""
    words = rest[::2]
    return Infix(
        operands=(part(first), *map(part, rest[1::2])),
        operators=tuple(word for word in words if isinstance(word, str)),
    )


FLAT_MAX = 32


def joined(parts: Sequence[Part], word: str) -> Infix:
    """Return parts joined by an associative operator, deep by the logarithm of their number."""
    if len(parts) > FLAT_MAX:
        middle = len(parts) // 2
        parts = [joined(parts[:middle], word), joined(parts[middle:], word)]
    return Infix(operands=tuple(parts), operators=(word,) * (len(parts) - 1))


def case(
    whens: Iterable[tuple[Argument, Argument]],
    otherwise: Argument | None = None,
    *,
    operand: Part | None = None,
) -> Case:
    return Case(
        whens=tuple((part(condition), part(result)) for condition, result in whens),
        otherwise=None if otherwise is None else part(otherwise),
        operand=operand,
    )


def not_(operand: Part) -> Code:
    """Return what is true where operand is false.

    A pattern is negated by its own operator: under NOT, the engine loses it as a key of ROLLUP.
    """
    inner = getattr(operand, "code", operand)
    if type(inner) is Infix and inner.operators in (("LIKE",), ("ILIKE",)):
        return Infix(operands=inner.operands, operators=(f"NOT {inner.operators[0]}",))
    return Prefix(word="NOT", operand=operand)


def is_null(operand: Part) -> Postfix:
    return Postfix(operand=operand, words="IS NULL")


def is_not_null(operand: Part) -> Postfix:
    return Postfix(operand=operand, words="IS NOT NULL")


def arrow(operand: Argument, target: str) -> Cast:
    """Return operand cast to the Arrow type of that name.

    A function does it, not CAST: the engine names an expression without its casts, and then takes
    sum(x) and sum(CAST(x AS ...)) for one name.
    """
    return Cast(operand=part(operand), target=target)


def exactly(
    operand: Argument,
    sql_type: sqltypes.SqlType,
    *,
    lenient: bool = False,
    is_opaque: bool | None = None,
) -> Cast:
    """Return operand cast to exactly the engine's type of sql_type.

    is_opaque None: if the operand is an expression, whether its digits may be cut off.
    """
    if sql_type.name == "timestamp_ltz":
        # In the session's zone, which only the engine knows by this name.
        return Cast(
            operand=part(operand),
            target="TIMESTAMP(6) WITH TIME ZONE",
            lenient=lenient,
            is_named=True,
        )
    operand = part(operand)
    if is_opaque is None:
        source: sqltypes.SqlType | None = getattr(operand, "type", None)
        is_opaque = source is not None and _loses_digits(source, sql_type)
    return Cast(
        operand=operand,
        target=sqltypes.arrow_name(sql_type),
        lenient=lenient,
        is_opaque=is_opaque,
    )


def _loses_digits(source: sqltypes.SqlType, target: sqltypes.SqlType) -> bool:
    return source.name == target.name == "fixed" and source.scale > target.scale


def interval(text: str) -> Token:
    """Return an interval constant; text: numbers and units alone."""
    return Token(text=f"INTERVAL '{text}'")
