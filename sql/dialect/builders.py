"""rule: what a row of the table of functions declares, and the call that is bound by it.

A row declares a function's names, the coercions of its parameters, its result, its volatility, and
its lowering: a function of the engine, a kernel, or a builder that expands the call into code. A
builder gets bound arguments from a FunctionCall. Some arguments are words, not values (DATEADD's
first), so each is bound only when the builder requests it.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlglot import exp

from sql import errors
from sql.dialect import arithmetic, casts, comparisons, shapes, sqltypes
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def has_bind(node: Any) -> bool:
    """Return whether a value of a request stands in a tree: drivers send the digits of a clock."""
    return node.find(exp.Placeholder) is not None


def is_star(node: Any) -> bool:
    """Return whether a node is `*` or `t.*`; sqlglot says it of a SELECT of these too."""
    return isinstance(node, exp.Star | exp.Column) and node.is_star


def _joined_literal(node: Any) -> Any:
    """Return literal texts that are joined by || as one, and other trees as such."""
    if not isinstance(node, exp.DPipe):
        return node
    parts = list(node.flatten())
    if not all(isinstance(part, exp.Literal) and part.is_string for part in parts):
        return node
    return exp.Literal.string("".join(part.name for part in parts))


def _no_lambda(node: Any, types: Sequence[sqltypes.SqlType]) -> Any:
    raise errors.unsupported("a lambda here")


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionCall:
    """One call of a function while it is bound.

    name: upper case. nodes: argument trees. bind: tree -> Expr in the call's scope.

    over: what stands after OVER. order: WITHIN GROUP's or the call's own ORDER BY. rows: the most
    rows that an aggregate can see, when known. columns: `*` -> the names and columns that it is.
    sequence: the number of the row of a GENERATOR. has_keywords: some arguments are given by name.
    body: a lambda's tree and its parameters' types -> its expression (`sql.dialect.lambdas.Body`).
    """

    name: str
    nodes: tuple[Any, ...]
    bind: Callable[[Any], Expr]
    columns: Callable[[Any], list[tuple[str, Expr]]]
    sequence: Callable[[], Expr]
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
    has_keywords: bool = False
    body: Callable[[Any, Sequence[sqltypes.SqlType]], Any] = _no_lambda

    @property
    def args(self) -> list[Expr]:
        return [self.bind(node) for node in self.nodes]

    def option(self, index: int, default: Any) -> Any:
        """Return a constant that may be absent or left out between others."""
        if index >= len(self.nodes) or isinstance(self.nodes[index], exp.Null):
            return default
        return self.constant(index)

    def several(self, index: int) -> list[Expr]:
        """Return an argument that may be a list in parentheses or a star as its parts."""
        node = self.nodes[index]
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        if is_star(inner):
            return [column for _, column in self.columns(inner)]
        if isinstance(inner, exp.Tuple):
            return [self.bind(item) for item in inner.expressions]
        return [self.arg(index)]

    def spread(self) -> list[Expr]:
        """Return the arguments, and for `*` the names and values of the columns in turn."""
        if len(self.nodes) != 1 or not is_star(self.nodes[0]):
            return self.args
        spread: list[Expr] = []
        for name, column in self.columns(self.nodes[0]):
            spread += (exprs.text(name), column)
        return spread

    def arg(self, index: int) -> Expr:
        return self.bind(self.nodes[index])

    def text(self, index: int) -> Expr:
        """Return an argument as text, dates and times in the session's form."""
        argument = self.arg(index)
        if argument.type.name == "binary":
            # Snowflake's functions accept bytes and return bytes; the engine's accept only text.
            raise self.refuse("a BINARY argument")
        return casts.cast(argument, sqltypes.TEXT, forms=self.context.forms)

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
        argument = self.bind(_joined_literal(self.nodes[index]))
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
            is_volatile=any(part.is_volatile for part in (*parts, *_parts_of(self.over))),
        )


def _parts_of(window: code.Window | None) -> list[Expr]:
    if window is None:
        return []
    parts = [*window.partition, *(key.key for key in window.order)]
    return [part for part in parts if isinstance(part, Expr)]


def _nested(detail: str) -> errors.SqlError:
    return errors.SqlError(
        "002036", "42601", f"SQL compilation error:\n{detail}", phase="COMPILATION"
    )


Builder: TypeAlias = Callable[[FunctionCall], Expr]


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineFunction:
    """A lowering: the engine's function of that name over the coerced arguments."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelFunction:
    """A lowering: the kernel of that name over the coerced arguments, in exact Arrow types.

    gives_null: also if no argument is NULL.
    """

    name: str
    gives_null: bool = False


Lowering: TypeAlias = "EngineFunction | KernelFunction | Builder"


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """A row: an allowed function. names: its name, then its aliases.

    required, optional: the coercion of each parameter (`COERCIONS`, WORDS). result: of `RESULTS`,
    or as its first argument, or of no type of its own. keywords: names by which its parameters may
    be given, in order; "" for one without. Unless a builder does otherwise, the result
    is NULL if an argument is.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    result: str
    lowering: Lowering
    function_type: str
    is_volatile: bool
    keywords: tuple[str, ...] = ()

    @property
    def low(self) -> int:
        return len(self.required)

    @property
    def high(self) -> int:
        return len(self.required) + len(self.optional)

    def build(self, call: FunctionCall) -> Expr:
        """Return the call bound; raises SqlError."""
        lowering = self.lowering
        if not isinstance(lowering, EngineFunction | KernelFunction):
            return lowering(call)
        coercions = (*self.required, *self.optional)[: len(call.nodes)]
        arguments = [COERCIONS[name](call, index) for index, name in enumerate(coercions)]
        computed: code.Code = code.call(lowering.name, *arguments)
        if isinstance(lowering, KernelFunction):
            exact = (
                casts.as_arrow(argument, ARGUMENT_TYPES[name])
                for argument, name in zip(arguments, coercions, strict=True)
            )
            computed = code.kernel(lowering.name, *exact)
        nullable = True if isinstance(lowering, KernelFunction) and lowering.gives_null else None
        if self.result == "integer":
            return small_integer(computed, arguments, nullable=nullable)
        return exprs.derived(computed, RESULTS[self.result], arguments, nullable=nullable)


def function(
    names: str,
    parameters: str,
    result: str,
    lowering: Lowering,
    *,
    function_type: str = "scalar",
    is_volatile: bool = False,
    keywords: str = "",
) -> Function:
    """Return the row of a function.

    names: separated by spaces. parameters: coercions separated by spaces; `[text]` may be absent,
    and so may each of the nine of `[any]*9`. keywords: separated by spaces, `-` for "".
    """
    required, optional = [], []
    for word in parameters.split():
        if word.startswith("["):
            name, _, count = word[1:].partition("]")
            optional += [name] * int(count.removeprefix("*") or 1)
        else:
            required.append(word)
    return Function(
        names=tuple(names.split()),
        required=tuple(required),
        optional=tuple(optional),
        result=result,
        lowering=lowering,
        function_type=function_type,
        is_volatile=is_volatile,
        keywords=tuple(word.strip("-") for word in keywords.split()),
    )


def aggregate(names: str, parameters: str, result: str, build: Builder) -> Function:
    return function(names, parameters, result, build, function_type="aggregate")


def window(names: str, parameters: str, result: str, build: Builder) -> Function:
    return function(names, parameters, result, build, function_type="window")


def engine(name: str) -> EngineFunction:
    return EngineFunction(name=name)


def kernel(name: str) -> KernelFunction:
    return KernelFunction(name=name)


def of_values(name: str) -> KernelFunction:
    """Return the lowering to a kernel over VARIANTs, which may hold nothing that it takes."""
    return KernelFunction(name=name, gives_null=True)


def _of_semistructured(call: FunctionCall, index: int, target: sqltypes.SqlType) -> Expr:
    """Return an argument as an ARRAY or OBJECT; a VARIANT that holds none is NULL there."""
    argument = call.arg(index)
    if argument.type.name == "null":
        return exprs.null(target)
    if argument.type.structure is not None and argument.type.name == target.name:
        return casts.cast(argument, target)
    if not argument.type.is_variant or argument.type.name not in ("variant", target.name):
        raise call.invalid()
    return exprs.retyped(argument, target)


COERCIONS: Mapping[str, Callable[[FunctionCall, int], Expr]] = {
    "any": lambda call, index: call.arg(index),
    "text": lambda call, index: call.text(index),
    "number": lambda call, index: arithmetic.as_number(call.arg(index)),
    "real": lambda call, index: casts.cast(arithmetic.as_number(call.arg(index)), sqltypes.REAL),
    "whole": lambda call, index: arithmetic.round_half_away(call.arg(index)),
    "boolean": lambda call, index: comparisons.as_boolean(call.arg(index)),
    "variant": lambda call, index: casts.to_variant(call.arg(index)),
    "array": lambda call, index: _of_semistructured(call, index, sqltypes.ARRAY),
    "object": lambda call, index: _of_semistructured(call, index, sqltypes.OBJECT),
}
"""How an argument becomes its parameter's type."""

ARGUMENT_TYPES: Mapping[str, sqltypes.SqlType] = {
    "text": sqltypes.TEXT,
    "real": sqltypes.REAL,
    "whole": sqltypes.integer(),
    "boolean": sqltypes.BOOLEAN,
    "variant": sqltypes.TEXT,
    "array": sqltypes.TEXT,
    "object": sqltypes.TEXT,
}
"""The type in which a kernel gets an argument of that coercion."""

RESULTS: Mapping[str, sqltypes.SqlType] = {
    "text": sqltypes.TEXT,
    "real": sqltypes.REAL,
    "boolean": sqltypes.BOOLEAN,
    "integer": sqltypes.integer(),
    "date": sqltypes.DATE,
    "time": sqltypes.TIME,
    "timestamp_ntz": sqltypes.TIMESTAMP_NTZ,
    "timestamp_ltz": sqltypes.TIMESTAMP_LTZ,
    "timestamp_tz": sqltypes.TIMESTAMP_TZ,
    "binary": sqltypes.BINARY,
    "variant": sqltypes.VARIANT,
    "array": sqltypes.ARRAY,
    "object": sqltypes.OBJECT,
}

SHOWN: Mapping[str, str] = {
    "any": "ANY",
    "text": "VARCHAR",
    "number": "NUMBER",
    "real": "FLOAT",
    "whole": "NUMBER",
    "integer": "NUMBER",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "timestamp_ltz": "TIMESTAMP_LTZ",
    "timestamp_tz": "TIMESTAMP_TZ",
    "binary": "BINARY",
    "variant": "VARIANT",
    "array": "ARRAY",
    "object": "OBJECT",
    "map": "MAP",
    "moment": "TIMESTAMP",
    "word": "VARCHAR",
    "constant": "CONSTANT",
    "lambda": "LAMBDA",
}
"""Parameters and results as SHOW FUNCTIONS names them. moment: a date or a time of any type. word:
a bare word or a string. constant: known when the statement is bound. lambda: `x -> expression`."""


def text_result(computed: code.Code, parts: Sequence[Expr]) -> Expr:
    return exprs.derived(computed, sqltypes.TEXT, parts)


def real_result(computed: code.Code, parts: Sequence[Expr]) -> Expr:
    return exprs.derived(computed, sqltypes.REAL, parts)


def small_integer(
    computed: code.Code,
    parts: Sequence[Expr],
    low: int = 0,
    high: int = 1 << 31,
    *,
    nullable: bool | None = None,
) -> Expr:
    """Return an engine's int32 or uint64 result as a 64-bit integer with bounds."""
    sql_type = sqltypes.integer(max(len(str(low)), len(str(high))), low, high)
    return exprs.derived(code.exactly(computed, sql_type), sql_type, parts, nullable=nullable)
