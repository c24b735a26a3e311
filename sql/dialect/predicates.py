"""rule: conditions of WHERE on stored columns, for pruning files.

A condition is only a hint: a condition that cannot be expressed is left out, and the engine filters
again. Conditions come from conjuncts of one SELECT on columns of its own tables that are compared
with constants of the column's own type. AND, OR and NOT of such comparisons are conditions too: NOT
is moved into the comparisons, an OR is a condition on a table if each of its parts is.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlglot import exp

from sql import limits
from sql.dialect import expressions, rewrites
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

Operator = Literal["=", "<", "<=", ">", ">=", "in", "is null", "starts with"]

OPERATORS: dict[type, tuple[Operator, Operator]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("=", "="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}


QUERIES = (exp.Query, exp.Tuple, exp.Any, exp.All)

WILDCARDS: Final = "%_"


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnPredicate:
    """column: its index in the table's shape. values: Python values of the column's type.

    negated: the rows are those for which the comparison is false, which no NULL is but for a
    negated "is null".
    """

    column: int
    operator: Operator
    values: tuple[Any, ...] = ()
    negated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Filter, ...]


Filter: TypeAlias = ColumnPredicate | AllOf | AnyOf

_Implied: TypeAlias = dict[int, list[Filter]]
"""By table use: what each of its rows meets if an expression is true."""


def conditions(node: Any, scope: Any, *, null_rejecting: bool) -> list[tuple[int, Filter]]:
    """Return (table use, condition) pairs that a conjunct implies; none if it is not simple.

    null_rejecting: an outer join is near, so only what no NULL passes may be used: files that an
    IS NULL would drop could hold the very rows whose match keeps an outer row away.
    """
    reader = _Reader(scope, null_rejecting=null_rejecting)
    implied = reader.implied(node, negated=False, depth=0)
    return [(use, part) for use, parts in implied.items() for part in parts]


class _Reader:
    """Reads one conjunct. terms: how many comparisons it may still read."""

    def __init__(self, scope: Any, *, null_rejecting: bool) -> None:
        self._scope = scope
        self._null_rejecting = null_rejecting
        self._terms_left = limits.PRUNING_TERMS_MAX

    def implied(self, node: Any, *, negated: bool, depth: int) -> _Implied:
        """Return what holds for rows for which node is true; if negated, for which it is false."""
        while isinstance(node, exp.Paren | exp.Not):
            negated = negated is not isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low = exp.GTE(this=node.this, expression=node.args["low"])
            high = exp.LTE(this=node.this, expression=node.args["high"])
            return self._connected([low, high], negated=negated, is_or=negated, depth=depth)
        if isinstance(node, exp.And | exp.Or):
            if depth >= limits.PRUNING_DEPTH_MAX:
                return {}
            is_or = isinstance(node, exp.Or) is not negated
            return self._connected(_operands(node), negated=negated, is_or=is_or, depth=depth + 1)
        self._terms_left -= 1
        if self._terms_left < 0:
            return {}
        leaf = self._leaf(node, negated=negated)
        return {} if leaf is None else {leaf[0]: [leaf[1]]}

    def _connected(
        self, nodes: Sequence[Any], *, negated: bool, is_or: bool, depth: int
    ) -> _Implied:
        if is_or and len(nodes) > self._terms_left:
            return {}
        parts: list[_Implied] = []
        for node in nodes:
            part = self.implied(node, negated=negated, depth=depth)
            if is_or and not part:
                return {}
            parts.append(part)
        uses = {use for part in parts for use in part}
        if not is_or:
            return {use: [each for part in parts for each in part.get(use, ())] for use in uses}
        return {
            use: [AnyOf(parts=tuple(_all_of(part[use]) for part in parts))]
            for use in uses
            if all(use in part for part in parts)
        }

    def _leaf(self, node: Any, *, negated: bool) -> tuple[int, Filter] | None:
        pair = OPERATORS.get(type(node))
        if pair is not None:
            return self._comparison(node, pair, negated is not isinstance(node, exp.NEQ))
        if isinstance(node, exp.In) and not node.args.get("query") and node.expressions:
            return self._membership(node, negated=negated)
        if isinstance(node, exp.Is):
            return self._null_test(node, negated=negated)
        if isinstance(node, exp.Like):
            return self._pattern(node, negated=negated)
        if isinstance(node, exp.Anonymous) and str(node.this).upper() == "STARTSWITH":
            return self._starts_with(node, negated=negated)
        return None

    def _comparison(
        self, node: Any, pair: tuple[Operator, Operator], negated: bool
    ) -> tuple[int, Filter] | None:
        if any(isinstance(side, QUERIES) for side in (node.this, node.expression)):
            return None
        left = expressions.bind(node.this, self._scope)
        right = expressions.bind(node.expression, self._scope)
        operator = pair[0]
        for side, other, of_day in (
            (node.this, right, operator),
            (node.expression, left, pair[1]),
        ):
            moment = self._moment_of_day(side)
            if moment is not None:
                return self._day(moment, of_day, other, negated=negated)
        if left.origin is None:
            left, right, operator = right, left, pair[1]
        if left.origin is None:
            return None
        use, index = left.origin
        literal = _constant(left, right)
        if literal is None:
            hint = None if negated else self._local(left, operator, right)
            return None if hint is None else (use, hint)
        return use, ColumnPredicate(
            column=index, operator=operator, values=(literal,), negated=negated
        )

    def _local(self, column: Expr, operator: Operator, instant: Expr) -> Filter | None:
        """Return what a comparison of a TIMESTAMP_NTZ with an instant says of the column.

        Clocks may be set back or forward around it; a day more on both sides is enough.
        """
        literal = instant.literal
        if column.type.name != "timestamp_ntz" or column.origin is None or not instant.is_literal:
            return None
        if not isinstance(literal, datetime.datetime) or literal.tzinfo is None:
            return None
        try:
            local = literal.astimezone(self._scope.environment.context.now.tzinfo)
            local = local.replace(tzinfo=None)
            low, high = local - DAY, local + DAY
        except OverflowError:
            return None
        _, index = column.origin
        parts: list[Filter] = []
        if operator in ("=", ">", ">="):
            parts.append(ColumnPredicate(column=index, operator=">=", values=(low,)))
        if operator in ("=", "<", "<="):
            parts.append(ColumnPredicate(column=index, operator="<=", values=(high,)))
        return _all_of(parts)

    def _moment_of_day(self, node: Any) -> Expr | None:
        """Return the timestamp column whose day an operand is: `at::date`, `to_date(at)`."""
        if isinstance(node, exp.Cast) and type(node) is exp.Cast:
            inner = node.this if node.to.this is exp.DataType.Type.DATE else None
        elif isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
            is_day = str(node.this).upper() in ("DATE", "TO_DATE")
            inner = node.expressions[0] if is_day else None
        else:
            inner = None
        if inner is None or isinstance(inner, QUERIES):
            return None
        column = expressions.bind(inner, self._scope)
        is_moment = column.type.name in ("timestamp_ntz", "timestamp_ltz")
        return column if is_moment and column.origin is not None else None

    def _day(
        self, moment: Expr, operator: Operator, right: Expr, *, negated: bool
    ) -> tuple[int, Filter] | None:
        """Return what a comparison of a timestamp's day with a date says of the timestamp."""
        day = _constant(exprs.date(EPOCH_DATE), right)
        if day is None or moment.origin is None:
            return None
        try:
            first = datetime.datetime.combine(day, datetime.time())
            end = first + DAY
            if moment.type.name == "timestamp_ltz":
                if negated:
                    return None
                # Clocks may show midnight twice or never; a day more on both sides is enough.
                zone = self._scope.environment.context.now.tzinfo
                first, end = ((each).replace(tzinfo=zone) for each in (first - DAY, end + DAY))
        except OverflowError:
            return None
        use, index = moment.origin
        if operator == "=":
            if negated:
                return None
            bounds: Sequence[tuple[Operator, datetime.datetime]] = ((">=", first), ("<", end))
        else:
            bounds = (DAY_BOUNDS[operator](first, end),)
        is_instant = moment.type.name == "timestamp_ltz"
        if is_instant and operator in ("<", ">"):
            bounds = ((operator, end if operator == "<" else first),)
        parts = [
            ColumnPredicate(column=index, operator=each, values=(value,), negated=negated)
            for each, value in bounds
        ]
        return use, _all_of(parts)

    def _membership(self, node: exp.In, *, negated: bool) -> tuple[int, Filter] | None:
        if any(isinstance(item, exp.Query | exp.Tuple) for item in (node.this, *node.expressions)):
            return None
        moment = self._moment_of_day(node.this)
        if moment is not None:
            return self._days(moment, node.expressions, negated=negated)
        column = expressions.bind(node.this, self._scope)
        members = [
            _constant(column, expressions.bind(item, self._scope)) for item in node.expressions
        ]
        if column.origin is None or any(member is None for member in members):
            return None
        use, index = column.origin
        return use, ColumnPredicate(
            column=index, operator="in", values=tuple(members), negated=negated
        )

    def _days(
        self, moment: Expr, members: Sequence[Any], *, negated: bool
    ) -> tuple[int, Filter] | None:
        """Return what a list of days says of a timestamp whose day is one of them."""
        if negated or moment.origin is None or len(members) > self._terms_left:
            return None
        self._terms_left -= len(members)
        parts: list[Filter] = []
        for member in members:
            day = self._day(moment, "=", expressions.bind(member, self._scope), negated=False)
            if day is None:
                return None
            parts.append(day[1])
        return moment.origin[0], AnyOf(parts=tuple(parts))

    def _null_test(self, node: exp.Is, *, negated: bool) -> tuple[int, ColumnPredicate] | None:
        column = expressions.bind(node.this, self._scope)
        if column.origin is None or not isinstance(node.expression, exp.Null):
            return None
        if self._null_rejecting and not negated:
            return None
        use, index = column.origin
        return use, ColumnPredicate(column=index, operator="is null", negated=negated)

    def _pattern(self, node: exp.Like, *, negated: bool) -> tuple[int, ColumnPredicate] | None:
        """Return what a pattern says of a text up to its first wildcard."""
        column, pattern = self._texts(node.this, node.expression)
        if column is None or pattern is None:
            return None
        size = next((at for at, each in enumerate(pattern) if each in WILDCARDS), len(pattern))
        prefix, rest = pattern[:size], pattern[size:]
        # A text that a longer pattern does not match may start with its prefix all the same.
        if rest and (not prefix or (negated and rest != "%")):
            return None
        operator: Operator = "starts with" if rest else "="
        use, index = column
        return use, ColumnPredicate(
            column=index, operator=operator, values=(prefix,), negated=negated
        )

    def _starts_with(
        self, node: exp.Anonymous, *, negated: bool
    ) -> tuple[int, ColumnPredicate] | None:
        if len(node.expressions) != 2:
            return None
        column, prefix = self._texts(*node.expressions)
        if column is None or not prefix:
            return None
        use, index = column
        return use, ColumnPredicate(
            column=index, operator="starts with", values=(prefix,), negated=negated
        )

    def _texts(self, left: Any, right: Any) -> tuple[tuple[int, int] | None, str | None]:
        """Return the text column that left is, and the text that right is; None for others."""
        if any(isinstance(side, QUERIES) for side in (left, right)):
            return None, None
        column = expressions.bind(left, self._scope)
        text = expressions.bind(right, self._scope).literal
        return (
            column.origin if column.type.name == "text" else None,
            text if isinstance(text, str) else None,
        )


EPOCH_DATE: Final = datetime.date(1970, 1, 1)
DAY: Final = datetime.timedelta(days=1)

DAY_BOUNDS: Final[
    Mapping[
        Operator,
        Callable[[datetime.datetime, datetime.datetime], tuple[Operator, datetime.datetime]],
    ]
] = {
    "<": lambda first, end: ("<", first),
    "<=": lambda first, end: ("<", end),
    ">": lambda first, end: (">=", end),
    ">=": lambda first, end: (">=", first),
}
"""What a comparison of a day says of the moment: of the day's first one, or of its end."""


def _operands(node: Any) -> list[Any]:
    """Return the operands of a chain of one connective, from left to right, without recursion."""
    operands, stack = [], [node]
    while stack:
        item = stack.pop()
        if type(item) is type(node):
            stack += [item.expression, item.this]
        else:
            operands.append(item)
    return operands


def _all_of(parts: Sequence[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else AllOf(parts=tuple(parts))


def _constant(column: Expr, value: Expr) -> Any:
    """Return value as a Python value of the column's type, or None."""
    if value.literal is None or not value.is_literal:
        return None
    converted = rewrites.comparable(column, value)[1]
    literal = converted.literal
    match column.type.name:
        case "fixed" if isinstance(literal, int | decimal.Decimal) and not isinstance(
            literal, bool
        ):
            return literal
        case "real" if isinstance(literal, int | float | decimal.Decimal):
            return float(literal)
        case "text" if isinstance(literal, str):
            return literal
        case "boolean" if isinstance(literal, bool):
            return literal
        case "date" if type(literal) is datetime.date:
            return literal
        case "timestamp_ntz" if isinstance(literal, datetime.datetime) and literal.tzinfo is None:
            return literal
        case "timestamp_ltz" if (
            isinstance(literal, datetime.datetime) and literal.tzinfo is not None
        ):
            return literal
    return None
