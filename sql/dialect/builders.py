"""rule: builders of function calls, and the call that a builder binds.

A builder gets bound arguments from a FunctionCall. Some arguments are words, not values (DATEADD's
first), so each is bound only when the builder requests it.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlglot import exp

from sql import errors
from sql.dialect import rewrites, shapes, sqltypes
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionCall:
    """One call of a function while it is bound.

    name: upper case. nodes: argument trees. bind: tree -> Expr in the call's scope.

    over: what stands after OVER. order: WITHIN GROUP's or the call's own ORDER BY. rows: the most
    rows that an aggregate can see, when known.
    """

    name: str
    nodes: tuple[Any, ...]
    bind: Callable[[Any], Expr]
    context: shapes.Context
    over: code.Window | None = None
    over_parts: tuple[Expr, ...] = ()
    has_window_order: bool = False
    has_window_frame: bool = False
    distinct: bool = False
    order: tuple[code.SortKey, ...] = ()
    order_parts: tuple[Expr, ...] = ()
    ignore_nulls: bool = False
    rows: int | None = None

    @property
    def args(self) -> list[Expr]:
        return [self.bind(node) for node in self.nodes]

    def arg(self, index: int) -> Expr:
        return self.bind(self.nodes[index])

    def text(self, index: int) -> Expr:
        """Return an argument as text, dates and times in the session's form."""
        argument = self.arg(index)
        if argument.type.name == "binary":
            # Snowflake's functions accept bytes and return bytes; the engine's accept only text.
            raise self.refuse("a BINARY argument")
        return rewrites.cast(argument, sqltypes.TEXT, forms=self.context.forms)

    def texts(self) -> list[Expr]:
        return [self.text(index) for index in range(len(self.nodes))]

    def word(self, index: int) -> str:
        """Return an argument that is a bare word or a string, in lower case."""
        node = self.nodes[index]
        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.name).lower()
        if isinstance(node, exp.Column) and not node.args.get("table"):
            return str(node.name).lower()
        if isinstance(node, exp.Var | exp.Identifier):
            return str(node.name).lower()
        raise self.refuse(f"argument {index + 1} that is no word")

    def constant(self, index: int, default: Any = None) -> Any:
        """Return a literal argument's value; refuse anything else."""
        if index >= len(self.nodes):
            return default
        argument = self.arg(index)
        if argument.is_literal and argument.literal is None:
            raise self.refuse(f"NULL as argument {index + 1}")
        if not argument.is_literal:
            raise self.refuse(f"argument {index + 1} that is no constant")
        return argument.literal

    def whole(self, index: int, default: int = 0) -> int:
        """Return a constant argument as a whole number."""
        literal = self.constant(index, default)
        if isinstance(literal, decimal.Decimal) and literal == literal.to_integral_value():
            return int(literal)
        if isinstance(literal, bool) or not isinstance(literal, int):
            raise self.refuse(f"argument {index + 1} that is no whole number")
        return literal

    def refuse(self, what: str) -> errors.SqlError:
        return errors.unsupported(f"{self.name} with {what}")

    def invalid(self) -> errors.SqlError:
        """Return the error of arguments that the function does not accept."""
        return errors.SqlError(
            "001044",
            "42P13",
            f"SQL compilation error:\nInvalid argument types for function '{self.name}'",
            phase="COMPILATION",
        )

    def aggregated(
        self,
        computed: code.Code,
        sql_type: sqltypes.SqlType,
        parts: Sequence[Expr],
        *,
        nullable: bool = True,
    ) -> Expr:
        """Return the result of an aggregate, or of it as a window function."""
        if any(part.window for part in parts):
            raise _nested(f"a window function cannot stand inside {self.name}")
        if not self.over and any(part.aggregate for part in parts):
            raise _nested(f"an aggregate function cannot stand inside the aggregate {self.name}")
        return Expr(
            code=computed,
            type=sql_type,
            nullable=nullable,
            aggregate=not self.over or any(part.aggregate for part in parts),
            window=bool(self.over) or any(part.window for part in parts),
            is_volatile=any(part.is_volatile for part in parts),
        )


def _nested(detail: str) -> errors.SqlError:
    return errors.SqlError(
        "002036", "42601", f"SQL compilation error:\n{detail}", phase="COMPILATION"
    )


Builder: TypeAlias = Callable[[FunctionCall], Expr]


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """An allowed function: its number of arguments, its sort, its builder."""

    build: Builder
    low: int
    high: int
    function_type: str = "scalar"


def scalar(low: int, high: int | None, build: Builder) -> Function:
    return Function(build=build, low=low, high=low if high is None else high)


def aggregate(low: int, high: int | None, build: Builder) -> Function:
    return Function(
        build=build, low=low, high=low if high is None else high, function_type="aggregate"
    )


def window(low: int, high: int | None, build: Builder) -> Function:
    return Function(
        build=build, low=low, high=low if high is None else high, function_type="window"
    )


def text_result(computed: code.Code, parts: Sequence[Expr]) -> Expr:
    return exprs.derived(computed, sqltypes.TEXT, parts)


def real_result(computed: code.Code, parts: Sequence[Expr]) -> Expr:
    return exprs.derived(computed, sqltypes.REAL, parts)


def small_integer(
    computed: code.Code, parts: Sequence[Expr], low: int = 0, high: int = 1 << 31
) -> Expr:
    """Return an engine's int32 or uint64 result as a 64-bit integer with bounds."""
    sql_type = sqltypes.integer(max(len(str(low)), len(str(high))), low, high)
    return exprs.derived(code.exactly(computed, sql_type), sql_type, parts)
