"""rule: conditions on stored columns that a bound condition implies, for pruning files.

They are read from the plan: from the expressions that the engine gets, in their types. A condition
is only a hint: what cannot be expressed is left out, and the engine filters again. Conditions come
from comparisons of a column of the SELECT's own tables with a constant, once both sides have one
type. AND, OR and NOT of such comparisons are conditions too: NOT is moved into the comparisons, an
OR is a condition on a table if each of its parts is.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sql import limits
from sql.plan import code, evaluation
from sql.plan.expressions import UNKNOWN, Expr

Operator = Literal["=", "<", "<=", ">", ">=", "in", "is null", "starts with"]

COMPARISONS: Final[Mapping[str, tuple[Operator, Operator]]] = {
    "=": ("=", "="),
    "<>": ("=", "="),
    "<": ("<", ">"),
    "<=": ("<=", ">="),
    ">": (">", "<"),
    ">=": (">=", "<="),
}
"""Of an operator, that of the column on its left and that of the column on its right.

`<>` is a negated `=`.
"""

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


def implied_by(
    condition: Expr, *, null_rejecting: bool, zone: datetime.tzinfo | None
) -> Iterable[tuple[int, Filter]]:
    """Yield (table use, condition) pairs that a bound condition implies.

    null_rejecting: an outer join is near, so only what no NULL passes may be used: files that an
    IS NULL would drop could hold the very rows whose match keeps an outer row away. zone: the
    session's.
    """
    for part in conjuncts(condition):
        reader = _Reader(null_rejecting=null_rejecting, zone=zone)
        for use, parts in reader.implied(part, negated=False, depth=0).items():
            for each in parts:
                yield use, each


def conjuncts(condition: code.Part) -> list[code.Part]:
    """Return the operands of the ANDs at the top of a condition, from left to right."""
    return _operands(condition, "AND")


class _Reader:
    """Reads one conjunct. It reads at most so many comparisons."""

    def __init__(self, *, null_rejecting: bool, zone: datetime.tzinfo | None) -> None:
        self._null_rejecting = null_rejecting
        self._zone = zone
        self._terms_left = limits.PRUNING_TERMS_MAX

    def implied(self, part: code.Part, *, negated: bool, depth: int) -> _Implied:
        """Return what holds for rows for which part is true; if negated, for which it is false."""
        node = _bare(part)
        while isinstance(node, code.Prefix) and node.word == "NOT":
            node, negated = _bare(node.operand), not negated
        if isinstance(node, code.Infix) and set(node.operators) in ({"AND"}, {"OR"}):
            if depth >= limits.PRUNING_DEPTH_MAX:
                return {}
            is_or = (node.operators[0] == "OR") is not negated
            parts = _operands(node, node.operators[0])
            return self._connected(parts, negated=negated, is_or=is_or, depth=depth + 1)
        self._terms_left -= 1
        if self._terms_left < 0:
            return {}
        leaf = self._leaf(node, negated=negated)
        return {} if leaf is None else {leaf[0]: [leaf[1]]}

    def _connected(
        self, nodes: Sequence[code.Part], *, negated: bool, is_or: bool, depth: int
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

    def _leaf(self, node: code.Code, *, negated: bool) -> tuple[int, Filter] | None:
        match node:
            case code.Infix(operands=(left, right), operators=(word,)) if word in COMPARISONS:
                negated = negated is not (word == "<>")
                return self._comparison(left, COMPARISONS[word], right, negated=negated)
            case code.Infix(operands=(value, pattern), operators=("LIKE" | "NOT LIKE" as word,)):
                return _pattern(value, pattern, negated=negated is not (word == "NOT LIKE"))
            case code.Among():
                return self._membership(node, negated=negated is not node.negated)
            case code.Postfix(operand=operand, words="IS NULL" | "IS NOT NULL" as words):
                return self._null_test(operand, negated=negated is not (words == "IS NOT NULL"))
            case code.FunctionUse(name="starts_with", arguments=(value, prefix)):
                return _starts_with(value, prefix, negated=negated)
        return None

    def _comparison(
        self,
        left: code.Part,
        pair: tuple[Operator, Operator],
        right: code.Part,
        *,
        negated: bool,
    ) -> tuple[int, Filter] | None:
        for side, other, operator in ((left, right, pair[0]), (right, left, pair[1])):
            moment = _moment_of_day(side)
            if moment is not None:
                return self._day(moment, operator, other, negated=negated)
            column = _column(side)
            if column is not None:
                literal = _constant(column, other)
                if literal is None:
                    return None
                return _origin(column, operator, literal, negated=negated)
            naive = _moment_of_instant(side)
            if naive is not None:
                return None if negated else self._local(naive, operator, other)
        return None

    def _local(
        self, column: Expr, operator: Operator, instant: code.Part
    ) -> tuple[int, Filter] | None:
        """Return what a comparison of a TIMESTAMP_NTZ with an instant says of the column.

        Clocks may be set back or forward around it, by a day at most, and the column may have been
        cast to a date, which takes up to a day from it.
        """
        literal = _literal(instant)
        if not isinstance(literal, datetime.datetime) or literal.tzinfo is None:
            return None
        try:
            local = literal.astimezone(self._zone).replace(tzinfo=None)
            low, high = local - 2 * DAY, local + 2 * DAY
        except OverflowError:
            return None
        bounds: list[tuple[Operator, Any]] = []
        if operator in ("=", ">", ">="):
            bounds.append((">=", low))
        if operator in ("=", "<", "<="):
            bounds.append(("<=", high))
        return _bounded(column, bounds, negated=False)

    def _day(
        self, moment: Expr, operator: Operator, other: code.Part, *, negated: bool
    ) -> tuple[int, Filter] | None:
        """Return what a comparison of a timestamp's day with a date says of the timestamp."""
        day = _literal(other)
        if type(day) is not datetime.date:
            return None
        is_instant = moment.type.name == "timestamp_ltz"
        try:
            first = datetime.datetime.combine(day, datetime.time())
            end = first + DAY
            if is_instant:
                if negated:
                    return None
                # Clocks may show midnight twice or never; a day more on both sides is enough.
                first = (first - DAY).replace(tzinfo=self._zone)
                end = (end + DAY).replace(tzinfo=self._zone)
        except OverflowError:
            return None
        bounds: Sequence[tuple[Operator, datetime.datetime]]
        if operator == "=":
            if negated:
                return None
            bounds = ((">=", first), ("<", end))
        elif is_instant and operator in ("<", ">"):
            bounds = ((operator, end if operator == "<" else first),)
        else:
            bounds = (DAY_BOUNDS[operator](first, end),)
        return _bounded(moment, bounds, negated=negated)

    def _membership(self, node: code.Among, *, negated: bool) -> tuple[int, Filter] | None:
        moment = _moment_of_day(node.operand)
        if moment is not None:
            return self._days(moment, node.members, negated=negated)
        column = _column(node.operand)
        if column is None or column.origin is None:
            return None
        members = [_constant(column, member) for member in node.members]
        if any(member is None for member in members):
            return None
        use, index = column.origin
        return use, ColumnPredicate(
            column=index, operator="in", values=tuple(members), negated=negated
        )

    def _days(
        self, moment: Expr, members: Sequence[code.Part], *, negated: bool
    ) -> tuple[int, Filter] | None:
        """Return what a list of days says of a timestamp whose day is one of them."""
        if negated or moment.origin is None or len(members) > self._terms_left:
            return None
        self._terms_left -= len(members)
        parts: list[Filter] = []
        for member in members:
            day = self._day(moment, "=", member, negated=False)
            if day is None:
                return None
            parts.append(day[1])
        return moment.origin[0], AnyOf(parts=tuple(parts))

    def _null_test(self, operand: code.Part, *, negated: bool) -> tuple[int, Filter] | None:
        column = _column(operand)
        if column is None or column.origin is None or (self._null_rejecting and not negated):
            return None
        use, index = column.origin
        return use, ColumnPredicate(column=index, operator="is null", negated=negated)


def _pattern(
    value: code.Part, pattern: code.Part, *, negated: bool
) -> tuple[int, ColumnPredicate] | None:
    """Return what a pattern of the engine says of a text up to its first wildcard."""
    column, written = _column(value), _literal(pattern)
    if column is None or column.type.name != "text" or not isinstance(written, str):
        return None
    prefix, rest = _split_pattern(written)
    # A text that a longer pattern does not match may start with its prefix all the same.
    if rest and (not prefix or (negated and rest != "%")):
        return None
    return _origin(column, "starts with" if rest else "=", prefix, negated=negated)


def _split_pattern(pattern: str) -> tuple[str, str]:
    """Return the text before a pattern's first wildcard, and the rest; `\\` takes what follows."""
    prefix: list[str] = []
    characters = enumerate(pattern)
    for at, character in characters:
        if character in WILDCARDS:
            return "".join(prefix), pattern[at:]
        prefix.append(next(characters, (at, character))[1] if character == "\\" else character)
    return "".join(prefix), ""


def _starts_with(
    value: code.Part, prefix: code.Part, *, negated: bool
) -> tuple[int, ColumnPredicate] | None:
    column, text = _column(value), _literal(prefix)
    if column is None or column.type.name != "text" or not isinstance(text, str) or not text:
        return None
    return _origin(column, "starts with", text, negated=negated)


def _origin(
    column: Expr, operator: Operator, value: Any, *, negated: bool
) -> tuple[int, ColumnPredicate] | None:
    if column.origin is None:
        return None
    use, index = column.origin
    return use, ColumnPredicate(column=index, operator=operator, values=(value,), negated=negated)


def _bounded(
    column: Expr, bounds: Iterable[tuple[Operator, Any]], *, negated: bool
) -> tuple[int, Filter] | None:
    if column.origin is None:
        return None
    use, index = column.origin
    return use, _all_of(
        [
            ColumnPredicate(column=index, operator=operator, values=(value,), negated=negated)
            for operator, value in bounds
        ]
    )


# What expressions are


def _column(part: code.Part) -> Expr | None:
    """Return the stored column whose values an operand has."""
    if not isinstance(part, Expr):
        return None
    if part.origin is not None:
        return part
    # A NUMBER beside one with which it has more than 38 digits.
    if isinstance(part.code, code.Cast) and part.code.target.startswith("Decimal256"):
        return _column(part.code.operand)
    return _zoned_column(part) if part.type.name == "timestamp_ltz" else None


def _zoned_column(part: Expr) -> Expr | None:
    """Return the column of TIMESTAMP_TZ whose instant an operand is: a table stores instants."""
    node = _uncast(part)
    if not isinstance(node, code.FunctionUse) or node.name != "_zoned_instant":
        return None
    inner: code.Part | None = node.arguments[0]
    while isinstance(inner, Expr | code.Cast):
        if isinstance(inner, Expr) and inner.origin is not None:
            return inner if inner.type.name == "timestamp_tz" else None
        inner = inner.code if isinstance(inner, Expr) else inner.operand
    return None


def _moment_of_day(part: code.Part) -> Expr | None:
    """Return the timestamp column whose day an operand is: `at::date`, `to_date(at)`."""
    if not isinstance(part, Expr) or part.type.name != "date" or part.origin is not None:
        return None
    if not isinstance(part.code, code.Cast) or part.code.lenient:
        return None
    inner, type_name = part.code.operand, "timestamp_ntz"
    if isinstance(inner, code.FunctionUse) and inner.name == "to_local_time":
        inner, type_name = inner.arguments[0], "timestamp_ltz"
    column = _column(inner)
    return column if column is not None and column.type.name == type_name else None


def _moment_of_instant(part: code.Part) -> Expr | None:
    """Return the TIMESTAMP_NTZ column that an operand is as an instant of the session's zone."""
    node = _uncast(part)
    if not isinstance(node, code.FunctionUse) or node.name != "_local_instant":
        return None
    inner: code.Part | None = node.arguments[0]
    while isinstance(inner, Expr | code.Cast):
        column = _column(inner)
        if column is not None:
            return column if column.type.name == "timestamp_ntz" else None
        inner = inner.code if isinstance(inner, Expr) else inner.operand
    return None


def _uncast(part: code.Part) -> code.Code:
    node = _bare(part)
    while isinstance(node, code.Cast):
        node = _bare(node.operand)
    return node


def _literal(part: code.Part) -> Any:
    """Return the value of a constant; None for NULL and for what is no constant."""
    value = evaluation.value_of(part)
    return None if value is UNKNOWN else value


def _constant(column: Expr, part: code.Part) -> Any:
    """Return the value of a constant if it is one of the column's type, or None."""
    literal = _literal(part)
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
        case "timestamp_ltz" | "timestamp_tz" if (
            isinstance(literal, datetime.datetime) and literal.tzinfo is not None
        ):
            return literal
    return None


def _bare(part: code.Part) -> code.Code:
    """Return the code of an expression; that of the only operand of a list, and of `_is_same`."""
    while True:
        match part:
            case Expr():
                part = part.code
            case code.Infix(operands=(only,)):
                part = only
            case code.Case(operand=only) if only is not None and _is_same(part):
                part = only
            case _:
                return part


def _is_same(case: code.Case) -> bool:
    """Whether a CASE gives what its operand is: the binder keeps lists apart by it."""
    return case.otherwise is None and case.whens == (
        (code.TRUE, code.TRUE),
        (code.FALSE, code.FALSE),
    )


def _operands(part: code.Part, word: str) -> list[code.Part]:
    """Return the operands that one connective joins, from left to right, without recursion."""
    operands: list[code.Part] = []
    stack: list[code.Part] = [part]
    while stack:
        item = stack.pop()
        node = _bare(item)
        if isinstance(node, code.Infix) and set(node.operators) == {word}:
            stack += reversed(node.operands)
        else:
            operands.append(item)
    return operands


def _all_of(parts: Sequence[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else AllOf(parts=tuple(parts))


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
