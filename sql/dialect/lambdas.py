"""rule: FILTER, TRANSFORM and REDUCE: functions that call a lambda for each element of an ARRAY.

The lambda's expression becomes text of the engine over a table of its own, with one row for each
element: the parameters are columns of it, and so are the columns of the query that the expression
uses. A kernel gets that text in its name, and these columns as arguments (`sql.lambda_kernels`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from sql import errors, intervals, kernelforms, lambda_kernels, limits
from sql.dialect import builders, casts, columns, comparisons, names, shapes, sqltypes
from sql.dialect.builders import FunctionCall, function
from sql.plan import code, emit
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter of a lambda: its name, and what the expression reads for it."""

    name: names.Ident
    value: Expr


class LambdaScope:
    """The scope of a lambda's expression: its parameters, then what surrounds the lambda.

    captured: the columns from outside that the expression uses, in their order.
    """

    def __init__(self, outer: Any, parameters: Sequence[Parameter]) -> None:
        self.environment: shapes.Environment = outer.environment
        self.lacks_keys = False
        self.rows: int | None = None
        self.depth: int = getattr(outer, "depth", 0) + 1
        self.captured: list[Expr] = []
        self._outer = outer
        self._parameters = parameters
        self._places: dict[str, Expr] = {}

    def column(self, node: exp.Column) -> Expr:
        """Return a parameter, or a column from outside as a column of the lambda's own table."""
        if isinstance(node.this, exp.Identifier) and not node.args.get("table"):
            wanted = columns.ident(node.this)
            for parameter in self._parameters:
                if parameter.name.folded == wanted.folded:
                    return parameter.value
        outside: Expr = self._outer.column(node)
        if outside.is_literal:
            return outside
        key = emit.text(outside)
        if key not in self._places:
            place = code.ColumnUse(relation="", name=f"c{len(self.captured)}")
            self._places[key] = Expr(code=place, type=_held(outside.type))
            self.captured.append(outside)
        return self._places[key]

    def spread(self, node: Any) -> list[tuple[str, Expr]]:
        raise errors.unsupported("* in a lambda")

    def sequence(self) -> Expr:
        raise errors.unsupported("a sequence in a lambda")

    def scalar_query(self, node: Any) -> Expr:
        raise errors.unsupported("a query in a lambda")

    def exists(self, node: Any) -> Expr:
        raise errors.unsupported("a query in a lambda")

    def in_query(self, operands: list[Expr], node: Any, *, negated: bool, only_true: bool) -> Expr:
        raise errors.unsupported("a query in a lambda")


DEPTH_MAX: Final = 4
"""Lambdas in each other: each doubles the text of those inside it."""


def _held(sql_type: sqltypes.SqlType) -> sqltypes.SqlType:
    """Return the type in which the lambda's table holds a value: a NUMBER as a decimal."""
    if sql_type.name == "null":
        return sqltypes.TEXT
    if sql_type.name == "fixed":
        return sqltypes.number(sqltypes.PRECISION_MAX, sql_type.scale)
    if sql_type.name == "text":
        return sqltypes.TEXT
    if sql_type.is_nested or sql_type.name in ("timestamp_tz", "interval", *intervals.NAMES):
        raise errors.unsupported(f"{sqltypes.shown(sql_type)} in a lambda")
    return sql_type


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """A lambda's expression, bound, and the columns from outside that it uses."""

    value: Expr
    captured: tuple[Expr, ...]


def body(
    node: exp.Lambda,
    types: Sequence[sqltypes.SqlType],
    outer: Any,
    bind: Callable[[Any, Any], Expr],
) -> Body:
    """Return a lambda's expression over parameters of these types; raises SqlError.

    A parameter that names a type of its own is cast to it, before the expression.
    """
    if len(node.expressions) != len(types):
        raise errors.unsupported(
            f"a lambda of {len(node.expressions)} parameters instead of {len(types)}"
        )
    parameters = []
    for place, (written, sql_type) in enumerate(zip(node.expressions, types, strict=True)):
        value = Expr(code=code.ColumnUse(relation="", name=f"p{place}"), type=sql_type)
        name = written
        if isinstance(written, exp.Cast):
            name = written.this
            value = cast_to_declared(value, written, outer.environment.context)
        name = name.this if isinstance(name, exp.Column) else name
        parameters.append(Parameter(name=columns.ident(name), value=value))
    scope = LambdaScope(outer, parameters)
    if scope.depth > DEPTH_MAX:
        raise errors.unsupported(f"more than {DEPTH_MAX} lambdas in each other")
    value = bind(node.this.copy(), scope)
    if value.aggregate or value.window:
        raise errors.unsupported("an aggregate or window function in a lambda")
    if value.is_volatile:
        raise errors.unsupported("RANDOM or UUID_STRING in a lambda")
    return Body(value=value, captured=tuple(scope.captured))


def cast_to_declared(value: Expr, written: exp.Cast, context: shapes.Context) -> Expr:
    """Return a value as the type that a lambda declares for a parameter, as CAST converts it."""
    mapping = context.timestamp_mapping
    target = columns.data_type(written.to, timestamp=mapping)
    _held(target)
    digits = columns.fraction_digits(written.to) if target.name in casts.CLOCKS else None
    if digits is not None:
        return casts.cast_to_digits(value, target, digits)
    return casts.cast(value, target, forms=context.forms)


def _of_lambda(call: FunctionCall, index: int) -> exp.Lambda:
    node = call.nodes[index]
    if not isinstance(node, exp.Lambda):
        raise call.invalid()
    return node


def _each(form: str) -> builders.Builder:
    """FILTER and TRANSFORM."""

    def build(call: FunctionCall) -> Expr:
        array = builders.COERCIONS["array"](call, 0)
        computed = call.body(_of_lambda(call, 1), [sqltypes.VARIANT])
        if form == "filter":
            result: code.Part = code.exactly(
                comparisons.as_boolean(computed.value), sqltypes.BOOLEAN
            )
        else:
            result = code.exactly(casts.to_variant(computed.value), sqltypes.TEXT)
        return _called(form, result, [array], computed, sqltypes.ARRAY)

    return build


def _reduce(call: FunctionCall) -> Expr:
    """REDUCE: the accumulator has the type that its first value and the lambda's result share."""
    array, start = builders.COERCIONS["array"](call, 0), call.arg(1)
    node = _of_lambda(call, 2)
    declared = node.expressions[0] if node.expressions else None
    if isinstance(declared, exp.Cast):
        start = cast_to_declared(start, declared, call.context)
    sql_type = _held(start.type)
    for _ in range(ROUNDS_MAX):
        computed = call.body(node, [sql_type, sqltypes.VARIANT])
        shared = sqltypes.unified([sql_type, computed.value.type])
        if shared is None:
            raise casts.mismatch(
                f"REDUCE of ({sqltypes.shown(sql_type)}, {sqltypes.shown(computed.value.type)})"
            )
        shared = _held(shared)
        if sqltypes.same_in_engine(shared, sql_type):
            result = code.exactly(casts.cast(computed.value, sql_type), sql_type)
            initial = casts.cast(start, sql_type)
            return _called("reduce", result, [array, initial], computed, sql_type)
        sql_type = shared
    raise call.refuse("an accumulator whose type grows")


ROUNDS_MAX: Final = 4


def _called(
    form: str,
    result: code.Part,
    arguments: Sequence[Expr],
    computed: Body,
    sql_type: sqltypes.SqlType,
) -> Expr:
    """Return the call of a lambda's kernel."""
    parts = [*arguments, *computed.captured]
    held = [sqltypes.TEXT, *(_held(part.type) for part in parts[1:])]
    called: set[str] = set()
    text = emit.text(result, called)
    if len(text) > limits.EXPANDED_MAX:
        raise errors.unsupported("a lambda of so many operations")
    name = lambda_kernels.name(
        form,
        lambda_kernels.Lambda(
            text=text,
            functions=tuple(sorted(called)),
            arguments=tuple(map(_type_name, held)),
            result=_type_name(sql_type),
        ),
    )
    exact = [
        casts.as_arrow(casts.cast(part, target) if target.name == "fixed" else part, target)
        for part, target in zip(parts, held, strict=True)
    ]
    return exprs.derived(code.kernel(name, *exact), sql_type, parts, nullable=True)


def _type_name(sql_type: sqltypes.SqlType) -> str:
    if sql_type.name == "timestamp_ltz":
        return kernelforms.INSTANT
    return sqltypes.arrow_name(sql_type)


LAMBDA_FUNCTIONS = (
    function("FILTER", "array lambda", "array", _each("filter")),
    function("TRANSFORM", "array lambda", "array", _each("transform")),
    function("REDUCE", "array any lambda", "any", _reduce),
)
