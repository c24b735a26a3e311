"""rule: binds one expression tree, node by node.

A node without an entry in a table here is refused by its name; none is passed through. The scope
argument resolves names and binds queries inside an expression, so that this module contains none.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from sqlglot import exp

from sql import errors, limits
from sql.dialect import (
    aggregates,
    arithmetic,
    builders,
    casts,
    choices,
    columns,
    comparisons,
    functions,
    lambdas,
    moments,
    octets,
    semistructured,
    shapes,
    sqltypes,
)
from sql.plan import code, emit
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

BOUND = "bound"
"""Key of a Bound node's meta: its expression."""


class Bound(exp.Expression):
    """An expression that is bound already, in the tree of another scope."""

    arg_types: ClassVar[dict[str, bool]] = {}


class Unpruned(exp.Expression):
    """A condition that is no reason to exclude files of a table, which is read elsewhere too."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class NameResolver(Protocol):
    """Resolves names for an expression."""

    lacks_keys: bool
    """Any expression may be NULL: it may be a key that rows of ROLLUP and its like lack."""

    @property
    def environment(self) -> shapes.Environment: ...

    @property
    def rows(self) -> int | None:
        """The most rows that an aggregate in this scope can see."""

    def column(self, node: exp.Column) -> Expr: ...

    def outer(self, bound: Expr) -> Expr: ...

    def spread(self, node: Any) -> list[tuple[str, Expr]]: ...

    def sequence(self) -> Expr: ...

    def scalar_query(self, node: exp.Expression) -> Expr: ...

    def exists(self, node: exp.Expression) -> Expr: ...

    def in_query(
        self, operand: list[Expr], node: exp.Expression, *, negated: bool, only_true: bool
    ) -> Expr: ...


def bind(node: Any, scope: NameResolver) -> Expr:
    """Return node bound in scope; raises SqlError."""
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise errors.unsupported(construct_name(node))
    bound = read_by_session(handler(node, scope), scope.environment.context)
    if scope.lacks_keys and not bound.nullable and not bound.is_literal:
        bound = dataclasses.replace(bound, nullable=True)
    if emit.length(bound) > limits.EXPANDED_MAX:
        _check_growth(node, bound)
    return bound


def read_by_session(bound: Expr, context: shapes.Context) -> Expr:
    """Return an expression so that, if it is a text, the session's models read dates in it."""
    if context.inputs is None or bound.type.name != "text" or bound.type.inputs is not None:
        return bound
    return casts.read_by(bound, context.inputs)


def _check_growth(node: Any, bound: Expr) -> None:
    """Refuse text that is long because operands are repeated in it many times."""
    room = limits.EXPANDED_MAX
    has_query = False
    for part in node.walk(prune=lambda part: isinstance(part, exp.Query)):
        is_constant = isinstance(part, exp.Literal | exp.HexString | exp.RawString)
        room += limits.GROWTH_MAX + (len(part.name) if is_constant else 0)
        if room >= bound.length:
            return
        has_query = has_query or isinstance(part, exp.Query)
    # The text of a query grows with its tables' columns; it counts once.
    if has_query and room + emit.subqueries_length(bound) >= bound.length:
        return
    raise errors.unsupported("expression nested so deep that it repeats its operands too often")


def construct_name(node: Any) -> str:
    """Return a construct's name in a refusal: JSONExtract -> JSON EXTRACT."""
    name = type(node).__name__
    return CONSTRUCTS.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper()


CONSTRUCTS: Mapping[str, str] = {
    "AtTimeZone": "AT TIME ZONE",
    "Collate": "COLLATE",
}
"""Names in refusals of constructs for which sqlglot's own names are unknown to users."""


# Constants


def literal(node: exp.Literal) -> Expr:
    if node.is_string:
        return exprs.text(node.name)
    text = node.name
    try:
        if "e" in text.lower():
            return exprs.real(float(text))
        return exprs.number(decimal.Decimal(text))
    except (ValueError, decimal.InvalidOperation):
        return exprs.real(float(text))


def _null(node: exp.Null, scope: NameResolver) -> Expr:
    return exprs.null()


def _array(node: exp.Array, scope: NameResolver) -> Expr:
    return semistructured.array([bind(item, scope) for item in node.expressions])


def _object(node: exp.Struct, scope: NameResolver) -> Expr:
    pairs: list[Expr] = []
    for item in node.expressions:
        if not isinstance(item, exp.PropertyEQ):
            raise errors.unsupported("OBJECT constant of this form")
        pairs += (exprs.text(item.this.name), bind(item.expression, scope))
    return semistructured.object_of(pairs, keeps_null=True)


def _path(node: exp.JSONExtract, scope: NameResolver) -> Expr:
    """v:a.b[0]"""
    steps: list[str | int] = []
    parts = node.expression.expressions if isinstance(node.expression, exp.JSONPath) else [None]
    for part in parts:
        match part:
            case exp.JSONPathRoot():
                continue
            case exp.JSONPathKey() | exp.JSONPathSubscript() if isinstance(part.this, str | int):
                steps.append(part.this)
            case _:
                raise errors.unsupported("path of this form")
    if not steps or len(steps) > limits.VARIANT_DEPTH_MAX:
        raise errors.unsupported("path of this form")
    return semistructured.step_into(bind(node.this, scope), *steps)


def _bracket(node: exp.Bracket, scope: NameResolver) -> Expr:
    """v['a'], v[0]"""
    value = bind(node.this, scope)
    for index in node.expressions:
        value = semistructured.element(value, bind(index, scope))
    return value


def _dot(node: exp.Dot, scope: NameResolver) -> Expr:
    """A member of what a call or an element is: GET(v, 0).a, v[0].a"""
    if not isinstance(node.expression, exp.Identifier):
        raise errors.unsupported("path of this form")
    return semistructured.step_into(bind(node.this, scope), node.expression.name)


def _placeholder(node: exp.Placeholder, scope: NameResolver) -> Expr:
    binds = scope.environment.binds
    name = str(node.this) if node.this else str(node.meta.get("position", ""))
    if binds is None:
        return exprs.null(sqltypes.TEXT)
    if name not in binds:
        raise errors.bad_binding(name, "is not set")
    value: Expr = binds[name]
    return value


def _parameter(node: exp.Parameter, scope: NameResolver) -> Expr:
    name = node.this.name
    if name.isdecimal():
        return scope.column(exp.Column(this=node))
    value = scope.environment.variables.get(name.upper())
    if value is None:
        raise errors.SqlError(
            "002211",
            "02000",
            f"SQL compilation error:\nSession variable '${name.upper()}' does not exist",
            phase="COMPILATION",
        )
    result: Expr = value
    return result


def _interval(node: exp.Interval, scope: NameResolver) -> Expr:
    unit = node.args.get("unit")
    value = node.this
    if not isinstance(value, exp.Literal):
        raise errors.unsupported("INTERVAL that is no constant")
    if isinstance(unit, exp.IntervalSpan):
        target = sqltypes.interval_of(f"INTERVAL {unit.this.name} TO {unit.expression.name}")
        if target is None:
            raise errors.unsupported(f"INTERVAL of {unit.this.name} TO {unit.expression.name}")
        return casts.cast(exprs.text(value.name), target)
    text = f"{value.name} {unit.name if unit is not None else ''}".strip()
    parts = INTERVAL_PART.findall(text)
    if not parts or INTERVAL_PART.sub("", text).replace(",", "").strip():
        raise errors.unsupported(f"INTERVAL '{text}'")
    months = days = micros = 0
    for number, word in parts:
        part = moments.part_of(word or "second")
        count = int(number)
        match part:
            case "year" | "quarter" | "month":
                months += count * {"year": 12, "quarter": 3, "month": 1}[part]
            case "week" | "day":
                days += count * {"week": 7, "day": 1}[part]
            case _ if part in casts.MICROSECONDS:
                micros += count * casts.MICROSECONDS[part]
            case _:
                raise errors.unsupported(f"INTERVAL of {part}")
    step = f"{months} months {days} days {micros // 10**6} seconds {micros % 10**6} microseconds"
    sql_type = sqltypes.SqlType(name="interval", scale=1 if micros else 0)
    return Expr(code=code.interval(step), type=sql_type, nullable=False)


INTERVAL_PART = re.compile(r"([+-]?\d+)\s*([A-Za-z]*)")


# Operators


def _chain(node: Any, node_type: Any, terms_max: int) -> list[Any]:
    """Return the operands of a left-deep chain, in order, without recursion."""
    terms: list[Any] = []
    while isinstance(node, node_type):
        terms.append(node.args["expression"])
        node = node.this
    terms.append(node)
    terms.reverse()
    if len(terms) > terms_max:
        raise errors.unsupported(f"more than {terms_max} terms in a row")
    return terms


def _connective(word: str, node_type: type, terms_max: int) -> Callable[[Any, NameResolver], Expr]:
    def handler(node: Any, scope: NameResolver) -> Expr:
        parts = [
            comparisons.as_boolean(bind(part, scope)) for part in _chain(node, node_type, terms_max)
        ]
        return exprs.derived(code.joined(_apart(parts, word), word), sqltypes.BOOLEAN, parts)

    return handler


def _apart(parts: list[Expr], word: str) -> list[code.Part]:
    """Return the operands of AND or OR, with lists of values for one operand kept apart.

    The engine makes one list of two, and FALSE of `a IN (1) AND a IN (2)`, TRUE of
    `a NOT IN (1) OR a NOT IN (2)`, also where a is NULL. It looks into no CASE.
    """
    separated: list[code.Part] = []
    listed: set[str] = set()
    for part in parts:
        operand = _operand_of_list(part.code, word)
        operand_text = "" if operand is None else emit.text(operand)
        if operand_text and operand_text in listed:
            whens = ((code.TRUE, code.TRUE), (code.FALSE, code.FALSE))
            separated.append(code.case(whens, operand=part))
        else:
            separated.append(part)
        listed.add(operand_text)
    return separated


def _operand_of_list(item: code.Code, word: str) -> code.Part | None:
    """Return what a part of AND or OR compares with a list, or with values one by one."""
    if isinstance(item, code.Among):
        return None if isinstance(item.members[0], code.Subquery) else item.operand
    operator, connective = ("=", "OR") if word == "AND" else ("<>", "AND")
    if isinstance(item, code.Infix) and set(item.operators) == {connective}:
        first = item.operands[0]
        first = first.code if isinstance(first, Expr) else first
        if isinstance(first, code.Infix) and first.operators == (operator,):
            return first.operands[0]
    return None


def _not(node: exp.Not, scope: NameResolver) -> Expr:
    inner = node.this
    while isinstance(inner, exp.Not) and isinstance(inner.this, exp.Not):
        inner = inner.this.this
    if isinstance(inner, exp.In):
        return _in(inner, scope, negated=True)
    operand = comparisons.as_boolean(bind(inner, scope))
    return exprs.derived(code.not_(operand), sqltypes.BOOLEAN, [operand])


def _comparison(operator: str) -> Callable[[Any, NameResolver], Expr]:
    def handler(node: Any, scope: NameResolver) -> Expr:
        left, right = node.this, node.expression
        if isinstance(right, exp.Anonymous) and str(right.this).upper() == "ALL":
            right = exp.All(this=exp.Tuple(expressions=right.expressions))
        if isinstance(right, exp.Any | exp.All) or isinstance(left, exp.Any | exp.All):
            return _quantified(node, left, right, operator, scope)
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            return _row_comparison(left, right, operator, scope)
        return comparisons.compare(bind(left, scope), bind(right, scope), operator)

    return handler


def _quantified(node: Any, left: Any, right: Any, operator: str, scope: NameResolver) -> Expr:
    """= ANY (query) is IN, <> ALL (query) is NOT IN, as sqlglot also spells those.

    Another comparison with ALL is false where its opposite holds for ANY.
    """
    if isinstance(left, exp.Any | exp.All) or operator not in OPPOSITES:
        raise errors.unsupported(f"{operator} {construct_name(right)}")
    is_query = isinstance(getattr(right, "this", None), exp.Query | exp.Subquery)
    of_all = isinstance(right, exp.All)
    if is_query and operator == ("<>" if of_all else "="):
        operands = left.expressions if isinstance(left, exp.Tuple) else [left]
        bound_operands = [bind(operand, scope) for operand in operands]
        return scope.in_query(
            bound_operands, right.this, negated=of_all, only_true=_only_true_counts(node, of_all)
        )
    if isinstance(left, exp.Tuple):
        raise errors.unsupported(f"{operator} {construct_name(right)} of rows")
    operand = bind(left, scope)
    if not is_query:
        return _among(operand, right, operator, scope)
    compared = OPPOSITES[operator] if of_all else operator
    casts.check_stable(operand)
    some = _some_of_query(operand, right.this, compared, scope)
    return exprs.derived(code.not_(some), sqltypes.BOOLEAN, [some]) if of_all else some


OPPOSITES: Mapping[str, str] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _among(operand: Expr, right: Any, operator: str, scope: NameResolver) -> Expr:
    """Return the comparison with one or all of the values of a list."""
    values = right.this
    nodes = values.expressions if isinstance(values, exp.Tuple) else [values.unnest()]
    if len(nodes) > limits.JOINED_MAX:
        raise errors.list_too_long(len(nodes), limits.JOINED_MAX)
    parts = [comparisons.compare(operand, bind(node, scope), operator) for node in nodes]
    word = "AND" if isinstance(right, exp.All) else "OR"
    return exprs.derived(code.joined(parts, word), sqltypes.BOOLEAN, parts)


def _some_of_query(operand: Expr, query: Any, operator: str, scope: NameResolver) -> Expr:
    """Return whether a comparison holds for a row of a query: for its least or greatest value.

    It is false for no rows; else NULL where it does not hold, but a NULL is compared.
    """
    column = exp.Column(this=exp.Parameter(this=exp.Var(this="1")))

    def aggregate(name: str, of: Any) -> Expr:
        call = exp.Anonymous(this=name, expressions=[of])
        source = exp.Subquery(this=query)
        value = scope.scalar_query(exp.Select(expressions=[call], from_=exp.From(this=source)))
        casts.check_stable(value)
        return value

    ends = {"<": ["MAX"], "<=": ["MAX"], ">": ["MIN"], ">=": ["MIN"]}.get(operator, ["MIN", "MAX"])
    values = [aggregate(name, column) for name in ends]
    compared_type, own_type = values[0].type, operand.type
    if {compared_type.name, own_type.name} - {"null", "fixed", "real"} and not (
        compared_type.name == own_type.name or (compared_type.is_temporal and own_type.is_temporal)
    ):
        raise errors.unsupported(f"{operator} ANY or ALL of a query of another type")
    tests = [comparisons.compare(operand, value, operator) for value in values]
    counted = aggregate("COUNT", exp.Star())
    present = aggregate("COUNT", column)
    unknown = code.joined([code.is_null(operand), code.infix(present, "<", counted)], "OR")
    computed = code.case(
        [
            (code.infix(counted, "=", 0), code.FALSE),
            (code.joined(tests, "OR"), code.TRUE),
            (unknown, code.exactly(code.NULL, sqltypes.BOOLEAN)),
        ],
        code.FALSE,
    )
    return exprs.derived(computed, sqltypes.BOOLEAN, [operand, *values], nullable=True)


def _row_comparison(left: exp.Tuple, right: exp.Tuple, operator: str, scope: NameResolver) -> Expr:
    if operator not in ("=", "<>") or len(left.expressions) != len(right.expressions):
        raise errors.unsupported("comparison of rows")
    parts = [
        comparisons.compare(bind(ours, scope), bind(theirs, scope), operator)
        for ours, theirs in zip(left.expressions, right.expressions, strict=True)
    ]
    word = "AND" if operator == "=" else "OR"
    return exprs.derived(code.joined(parts, word), sqltypes.BOOLEAN, parts)


def _arithmetic(node: Any, scope: NameResolver) -> Expr:
    """Return a chain of operators of one precedence, from its left end on, without recursion."""
    node_types = SUMS if isinstance(node, SUMS) else PRODUCTS
    operators = []
    first = node
    while isinstance(first, node_types):
        operators.append(ARITHMETIC[type(first)])
        first = first.this
    start, *rest = _chain(node, node_types, limits.TERMS_MAX)
    if operators[-1] is arithmetic.remainder and _is_digest(start):
        combined = _digest_remainder(start, bind(rest[0], scope), scope)
        operators.pop()
        rest = rest[1:]
    else:
        combined = bind(start, scope)
    for combine, part in zip(reversed(operators), rest, strict=True):
        combined = combine(combined, bind(part, scope))
    return combined


DIGEST_DIGITS: Final = 32
"""Hexadecimal digits of a text of MD5. The number that they are may have 39 decimal digits."""


def _is_digest(node: Any) -> bool:
    """Return whether a node is TO_NUMBER of a text of 32 hexadecimal digits."""
    node = node.unnest()
    parts = node.expressions if isinstance(node, exp.Anonymous) else []
    return (
        len(parts) == 2
        and str(node.this).upper() in ("TO_NUMBER", "TO_NUMERIC", "TO_DECIMAL")
        and isinstance(parts[1], exp.Literal)
        and parts[1].is_string
        and str(parts[1].this).upper() == "X" * DIGEST_DIGITS
    )


def _digest_remainder(node: Any, divisor: Expr, scope: NameResolver) -> Expr:
    """Return the remainder of a number of 32 hexadecimal digits.

    Divided by a FLOAT, the number may have more than 38 decimal digits: it is made a FLOAT at once.
    """
    dividend = bind(node, scope)  # checks the call
    if divisor.type.name == "real":
        text = bind(node.unnest().expressions[0], scope)
        if text.type.name == "text":
            name = f"_real_of_text_{('X' * DIGEST_DIGITS).encode().hex()}"
            number = code.kernel(name, casts.as_arrow(text, sqltypes.TEXT))
            dividend = exprs.derived(number, sqltypes.REAL, [text])
    return arithmetic.remainder(dividend, divisor)


def _subtract(left: Expr, right: Expr) -> Expr:
    return arithmetic.add(left, right, negative=True)


SUMS = (exp.Add, exp.Sub)
PRODUCTS = (exp.Mul, exp.Div, exp.Mod)
ARITHMETIC: Mapping[type, Callable[[Expr, Expr], Expr]] = {
    exp.Add: arithmetic.add,
    exp.Sub: _subtract,
    exp.Mul: arithmetic.multiply,
    exp.Div: arithmetic.divide,
    exp.Mod: arithmetic.remainder,
}


def _negate(node: exp.Neg, scope: NameResolver) -> Expr:
    return arithmetic.negate(bind(node.this, scope))


def _paren(node: exp.Paren, scope: NameResolver) -> Expr:
    return bind(node.this, scope)


def _concat(node: exp.DPipe, scope: NameResolver) -> Expr:
    parts = [bind(part, scope) for part in _chain(node, exp.DPipe, limits.JOINED_MAX)]
    if all(part.type.name == "binary" for part in parts):
        return octets.joined(parts)
    return comparisons.concat(parts, scope.environment.context.forms)


def _between(node: exp.Between, scope: NameResolver) -> Expr:
    if node.args.get("symmetric"):
        raise errors.unsupported("BETWEEN SYMMETRIC")
    low, high = bind(node.args["low"], scope), bind(node.args["high"], scope)
    return choices.between(bind(node.this, scope), low, high)


def _in(node: exp.In, scope: NameResolver, *, negated: bool = False) -> Expr:
    if node.args.get("unnest") or node.args.get("field"):
        raise errors.unsupported("IN of this form")
    left = node.this
    operands = (
        [bind(part, scope) for part in left.expressions]
        if isinstance(left, exp.Tuple)
        else [bind(left, scope)]
    )
    query = node.args.get("query")
    if query is None and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query):
        query = node.expressions[0]
    if query is not None:
        only_true = _only_true_counts(node.parent if negated else node, negated)
        return scope.in_query(operands, query, negated=negated, only_true=only_true)
    if len(operands) > 1 and len(node.expressions) <= limits.LIST_MEMBERS_MAX:
        return _row_in(operands, node.expressions, scope, negated=negated)
    if len(node.expressions) > limits.LIST_MEMBERS_MAX:
        raise errors.list_too_long(len(node.expressions), limits.LIST_MEMBERS_MAX)
    members = [bind(member, scope) for member in node.expressions]
    # Of lists that AND joins, the engine takes the common members, and for NOT IN those of one that
    # the other has not, by their texts: right for constants that are not NULL. Of a CASE in a list,
    # it takes the first result for a constant.
    listed = [member for member in members if member.is_literal and member.literal is not None]
    pairs = [comparisons.comparable(operands[0], member) for member in listed]
    if operands[0].type.name == "null" or not _are_alike([pair[0] for pair in pairs]):
        listed, pairs = [], []
    ids = {id(member) for member in listed}
    compared = [
        comparisons.compare(operands[0], member, "=") for member in members if id(member) not in ids
    ]
    conditions: list[Expr] = []
    if pairs:
        conditions.append(_in_list(pairs, negated=negated))
    if compared:
        any_of = _any_of(compared, negated=negated)
        conditions.append(exprs.derived(any_of, sqltypes.BOOLEAN, compared))
    if len(conditions) == 1:
        return conditions[0]
    joined = code.joined(conditions, "AND" if negated else "OR")
    return exprs.derived(joined, sqltypes.BOOLEAN, conditions)


def _in_list(pairs: list[tuple[Expr, Expr]], *, negated: bool) -> Expr:
    """Return IN of a list of constants. pairs: the operand and a member, in a common type."""
    is_plain = all(member.is_literal and member.literal for _, member in pairs)
    if pairs[0][0].type.name == "real" and not is_plain:
        # The engine's lists tell -0.0 from 0.0.
        pairs = [(casts.as_key(one), casts.as_key(other)) for one, other in pairs]
    operand, members = pairs[0][0], tuple(member for _, member in pairs)
    among = code.Among(operand=operand, members=members, negated=negated)
    return exprs.derived(among, sqltypes.BOOLEAN, [operand, *members])


def _only_true_counts(node: Any, negated: bool) -> bool:
    """Whether an IN, if it stands in a filter, may be false where it is NULL.

    So is one that AND alone, or no NOT IN with OR, connects with the rest of the filter.
    """
    connectives = (exp.Paren, exp.And) if negated else (exp.Paren, exp.And, exp.Or)
    parent = node.parent
    while isinstance(parent, connectives):
        parent = parent.parent
    return parent is None or isinstance(parent, exp.Where | exp.Having | exp.Qualify | exp.Join)


def _are_alike(operands: list[Expr]) -> bool:
    """Say whether all of these are computed alike."""
    different = {id(operand.code): operand for operand in operands}.values()
    return len(different) < 2 or len({emit.text(operand) for operand in different}) == 1


def _any_of(conditions: list[Expr], *, negated: bool) -> code.Code:
    any_of = code.joined(conditions, "OR")
    return code.not_(any_of) if negated else any_of


def _row_in(
    operands: list[Expr], members: list[Any], scope: NameResolver, *, negated: bool
) -> Expr:
    rows = []
    for member in members:
        if not isinstance(member, exp.Tuple) or len(member.expressions) != len(operands):
            raise errors.unsupported("IN of rows of another width")
        same = [
            comparisons.compare(ours, bind(theirs, scope), "=")
            for ours, theirs in zip(operands, member.expressions, strict=True)
        ]
        rows.append(exprs.derived(code.joined(same, "AND"), sqltypes.BOOLEAN, same))
    return exprs.derived(_any_of(rows, negated=negated), sqltypes.BOOLEAN, rows)


def _is(node: exp.Is, scope: NameResolver) -> Expr:
    operand, right = bind(node.this, scope), node.expression
    if isinstance(right, exp.Null):
        return exprs.derived(code.is_null(operand), sqltypes.BOOLEAN, [operand], nullable=False)
    if isinstance(right, exp.Not) and isinstance(right.this, exp.Null):
        return exprs.derived(code.is_not_null(operand), sqltypes.BOOLEAN, [operand], nullable=False)
    if isinstance(right, exp.Boolean):
        truth = comparisons.as_boolean(operand)
        test = code.Postfix(operand=truth, words="IS TRUE" if right.this else "IS FALSE")
        return exprs.derived(test, sqltypes.BOOLEAN, [operand], nullable=False)
    raise errors.unsupported(f"IS {construct_name(right)}")


def _like(node: Any, scope: NameResolver, *, escape: str | None = None) -> Expr:
    ignore_case = isinstance(node, exp.ILike)
    value, pattern = bind(node.this, scope), node.expression
    if isinstance(pattern, exp.Any | exp.All):
        return _like_many(value, pattern, scope, escape=escape, ignore_case=ignore_case)
    return comparisons.like(
        value,
        bind(pattern, scope),
        escape=escape,
        ignore_case=ignore_case,
        forms=scope.environment.context.forms,
    )


def _like_many(
    value: Expr, patterns: Any, scope: NameResolver, *, escape: str | None, ignore_case: bool
) -> Expr:
    inner = patterns.this
    listed = inner.expressions if isinstance(inner, exp.Tuple) else [inner.unnest()]
    parts = [
        comparisons.like(
            value,
            bind(item, scope),
            escape=escape,
            ignore_case=ignore_case,
            forms=scope.environment.context.forms,
        )
        for item in listed
    ]
    word = "OR" if isinstance(patterns, exp.Any) else "AND"
    return exprs.derived(code.joined(parts, word), sqltypes.BOOLEAN, parts)


def _escape(node: exp.Escape, scope: NameResolver) -> Expr:
    character = bind(node.expression, scope).literal
    if not isinstance(character, str) or len(character) != 1:
        raise errors.unsupported("ESCAPE that is no single character")
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise errors.unsupported("ESCAPE of this form")
    return _like(node.this, scope, escape=character)


def _regexp(node: exp.RegexpLike, scope: NameResolver) -> Expr:
    return comparisons.regexp_like(bind(node.this, scope), bind(node.expression, scope))


def _case(node: exp.Case, scope: NameResolver) -> Expr:
    whens = [
        (bind(branch.this, scope), bind(branch.args["true"], scope)) for branch in node.args["ifs"]
    ]
    default = node.args.get("default")
    otherwise = None if default is None else bind(default, scope)
    if node.this is not None:
        return choices.switch(bind(node.this, scope), whens, otherwise, with_null=False)
    tests = [(comparisons.as_boolean(condition), result) for condition, result in whens]
    return choices.case(tests, otherwise)


def _cast(node: Any, scope: NameResolver, *, lenient: bool = False) -> Expr:
    if node.args.get("format") is not None:
        raise errors.unsupported("CAST ... FORMAT")
    context = scope.environment.context
    target = columns.cast_type(node.to, timestamp=context.timestamp_mapping)
    operand = node.this
    value = bind(operand, scope)
    digits = columns.fraction_digits(node.to) if target.name in casts.CLOCKS else None
    if digits is not None:
        return casts.cast_to_digits(value, target, digits, lenient=lenient)
    if casts.is_of_nanoseconds(value) and target.name == "timestamp_ntz":
        return value
    if target.name in casts.CLOCKS and not builders.has_bind(operand):
        casts.check_whole_epoch(value)
    converted = casts.cast(value, target, lenient=lenient, forms=context.forms)
    if target.name == "text" and converted.type.name == "text":
        # The length is the one that the cast names, however short its value is known to be.
        converted = exprs.retyped(
            converted, dataclasses.replace(converted.type, length=target.length)
        )
    return casts.with_all_digits(converted)


def _try_cast(node: exp.TryCast, scope: NameResolver) -> Expr:
    return _cast(node, scope, lenient=True)


def _extract(node: exp.Extract, scope: NameResolver) -> Expr:
    part, weeks = moments.part_of(node.this.name), scope.environment.context.weeks
    return moments.extract(part, bind(node.expression, scope), weeks)


def _position(node: exp.StrPosition, scope: NameResolver) -> Expr:
    nodes = [node.args["substr"], node.this]
    if node.args.get("position") is not None:
        nodes.append(node.args["position"])
    return functions.build(_call("POSITION", nodes, scope))


# Calls


def _call(name: str, nodes: list[Any], scope: NameResolver, **more: Any) -> builders.FunctionCall:
    return builders.FunctionCall(
        name=name,
        nodes=tuple(nodes),
        bind=_binding_once(scope),
        columns=scope.spread,
        sequence=scope.sequence,
        context=scope.environment.context,
        rows=scope.rows,
        body=lambda node, types: lambdas.body(node, types, scope, bind),
        **more,
    )


def _binding_once(scope: NameResolver) -> Callable[[Any], Expr]:
    """Return what binds the argument trees of one call in scope, each of them once.

    A builder may ask for an argument several times. If each of these bound it anew, nested calls
    would take time exponential in their depth.
    """
    bound: dict[int, Expr] = {}

    def bind_once(node: Any) -> Expr:
        expression = bound.get(id(node))
        if expression is None:
            expression = bound[id(node)] = bind(node, scope)
        return expression

    return bind_once


def _anonymous(node: exp.Anonymous, scope: NameResolver, **more: Any) -> Expr:
    name = node.this if isinstance(node.this, str) else node.this.name
    nodes = list(node.expressions)
    if len(nodes) == 1 and isinstance(nodes[0], exp.Order):
        nodes, more = [nodes[0].this], {**more, **_ordering(nodes[0], scope)}
    if nodes and isinstance(nodes[0], exp.Distinct):
        if nodes[0].args.get("on") is not None:
            raise errors.unsupported("DISTINCT ON")
        more["distinct"] = True
        nodes = [*nodes[0].expressions, *nodes[1:]]
    if any(isinstance(argument, exp.Kwarg) for argument in nodes):
        nodes, more = _placed(name.upper(), nodes), {**more, "has_keywords": True}
    return functions.build(_call(name.upper(), nodes, scope, **more))


def _placed(name: str, nodes: list[Any]) -> list[Any]:
    """Return arguments by their places; NULL stands for one that is left out between others."""
    keywords = functions.keywords(name)
    placed: dict[int, Any] = {}
    for place, node in enumerate(nodes):
        at, value = place, node
        if isinstance(node, exp.Kwarg):
            word = str(node.this.name).lower()
            if not word or word not in keywords:
                raise errors.unsupported(f"{name} with the named argument {word.upper()}")
            at, value = keywords.index(word), node.expression
        if at in placed:
            raise errors.unsupported(f"{name} with an argument given twice")
        placed[at] = value
    return [placed.get(place, exp.Null()) for place in range(max(placed) + 1)]


def _special(name: str) -> Callable[[Any, NameResolver], Expr]:
    def handler(node: Any, scope: NameResolver) -> Expr:
        nodes = [node.this] if node.this is not None else []
        return functions.build(_call(name, nodes, scope))

    return handler


def _ordering(node: exp.Order, scope: NameResolver) -> dict[str, Any]:
    parts = [bind(item.this, scope) for item in node.expressions]
    keys = tuple(
        code.SortKey(key=sort_key(part), direction=direction(item))
        for part, item in zip(parts, node.expressions, strict=True)
    )
    return {"order": keys, "order_parts": tuple(parts)}


def sort_key(value: Expr) -> Expr:
    """Return that by which the engine orders values as Snowflake does."""
    return casts.as_variant_order(value) if value.type.is_variant else casts.as_instant(value)


def direction(node: exp.Ordered) -> str:
    """Return ASC or DESC with Snowflake's place of NULLs: last when ascending, first when not."""
    if node.args.get("with_fill") is not None:
        raise errors.unsupported("ORDER BY ... WITH FILL")
    descending = bool(node.args.get("desc"))
    nulls_first = node.args.get("nulls_first")
    first = descending if nulls_first is None else bool(nulls_first)
    return f"{' DESC' if descending else ' ASC'} NULLS {'FIRST' if first else 'LAST'}"


def _within_group(node: exp.WithinGroup, scope: NameResolver, **more: Any) -> Expr:
    if not isinstance(node.this, exp.Anonymous):
        raise errors.unsupported("WITHIN GROUP of this form")
    return _anonymous(node.this, scope, **more, **_ordering(node.expression, scope))


def _column(node: exp.Column, scope: NameResolver) -> Expr:
    position = node.meta.get(NUMBER)
    if position is None:
        return scope.column(node)
    environment = scope.environment
    index, is_per_row = position
    first, step = environment.numbers[index] if environment.numbers else (0, 0)
    if not is_per_row and not environment.rows_relation:
        return exprs.integer(first)
    row = code.FunctionUse(name="row_number", arguments=(), over=code.Window())
    rank = code.Cast(operand=row, target="BIGINT", is_named=True)
    offset = code.infix(code.infix(rank, "-", 1), "*", step)
    return Expr(
        code=code.infix(first, "+", offset),
        type=sqltypes.integer(19),
        nullable=False,
        window=True,
    )


NUMBER = "number"
"""Key of a column node's meta that is a sequence's NEXTVAL: its index, and whether each row of a
table takes a number."""


def _window(node: exp.Window, scope: NameResolver) -> Expr:
    inner, ignore_nulls = node.this, False
    if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
        inner, ignore_nulls = inner.this, isinstance(inner, exp.IgnoreNulls)
    call = inner.this if isinstance(inner, exp.WithinGroup) else inner
    if not isinstance(call, exp.Anonymous):
        raise errors.unsupported(f"OVER after {construct_name(call)}")
    if node.args.get("alias") is not None:
        raise errors.unsupported("a named window")
    name = str(call.this).upper()
    partition = [casts.as_key(bind(item, scope)) for item in node.args.get("partition_by") or ()]
    order = node.args.get("order")
    ordering: dict[str, Any] = {"order": (), "order_parts": ()}
    if order is not None:
        ordering = _ordering(order, scope)
    spec = node.args.get("spec")
    frame = ""
    if spec is not None:
        frame = _frame(spec, ordering["order_parts"], scope)
    elif ordering["order"] and name in aggregates.WHOLE_PARTITION:
        frame = aggregates.WHOLE_FRAME
    more = {
        "over": code.Window(partition=tuple(partition), order=ordering["order"], frame=frame),
        "over_parts": (*partition, *ordering["order_parts"]),
        "ignore_nulls": ignore_nulls,
    }
    if isinstance(inner, exp.WithinGroup):
        bound = _within_group(inner, scope, **more)
    else:
        bound = _anonymous(call, scope, **more)
    return bound


def _frame(spec: exp.WindowSpec, keys: Sequence[Expr], scope: NameResolver) -> str:
    if spec.args.get("exclude") is not None:
        raise errors.unsupported("EXCLUDE in a window frame")
    unit = str(spec.args.get("kind") or "ROWS").upper()
    ends = [
        (spec.args.get("start"), spec.args.get("start_side")),
        (spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side")),
    ]
    if any(isinstance(place, exp.Interval) for place, _ in ends):
        of_moments = len(keys) == 1 and keys[0].type.name in FRAMED_BY_INTERVALS
        if unit != "RANGE" or not of_moments:
            raise errors.unsupported("a frame of an INTERVAL but RANGE over one DATE or TIMESTAMP")
    elif (
        unit == "RANGE"
        and any(place not in PLAIN_ENDS for place, _ in ends)
        and not all(key.type.name in ("fixed", "real") for key in keys)
    ):
        raise errors.unsupported("a RANGE frame of a number over other than a number")
    start, end = (_frame_end(place, side, scope) for place, side in ends)
    first, last = (
        _distance(text, side) for text, (_, side) in zip((start, end), ends, strict=True)
    )
    if first > last:
        raise errors.unsupported("a window frame that ends before it begins")
    return f"{unit} BETWEEN {start} AND {end}"


def _distance(end: str, side: Any) -> float:
    """Return how far an end of a frame lies behind the current row; less than 0 before it."""
    if end == "CURRENT ROW":
        return 0.0
    parts = [int(number) for number in re.findall(r"-?\d+", end)]
    if any(part < 0 for part in parts):
        raise errors.unsupported("a window frame of a negative INTERVAL")
    if not parts:
        distance = math.inf
    elif len(parts) == 1:
        distance = float(parts[0])
    else:
        months, days, seconds, micros = parts
        distance = months * MONTH_SECONDS + days * DAY_SECONDS + seconds + micros / 10**6
    return -distance if str(side).upper() == "PRECEDING" else distance


DAY_SECONDS = 86_400
MONTH_SECONDS = 30 * DAY_SECONDS
PLAIN_ENDS = ("UNBOUNDED", "CURRENT ROW")
FRAMED_BY_INTERVALS = frozenset({"date", "timestamp_ntz", "timestamp_ltz"})


def _frame_end(place: Any, side: Any, scope: NameResolver) -> str:
    if isinstance(place, exp.Interval):
        step = bind(place, scope).code
        assert isinstance(step, code.Token)
        return f"{step.text} {side}"
    if isinstance(place, exp.Expression):
        if not isinstance(place, exp.Literal) or not place.name.isdecimal():
            raise errors.unsupported("window frame that is no constant")
        place = place.name
    if place not in PLAIN_ENDS and not str(place).isdecimal():
        raise errors.unsupported("window frame of this form")
    return f"{place} {side}" if side else str(place)


def _if(node: exp.If, scope: NameResolver) -> Expr:
    otherwise = node.args.get("false")
    return choices.case(
        [(comparisons.as_boolean(bind(node.this, scope)), bind(node.args["true"], scope))],
        None if otherwise is None else bind(otherwise, scope),
    )


def _hex(node: exp.HexString, scope: NameResolver) -> Expr:
    text = str(node.this)
    try:
        return exprs.binary(bytes.fromhex(text))
    except ValueError:
        raise errors.unsupported(f"binary literal x'{text}'") from None


def binding_literal(logical: str | None, value: Any) -> Expr:
    """Return a bind's value as a literal of its type."""
    if value is None:
        return exprs.null(sqltypes.TEXT if logical in (None, "text") else BIND_TYPES[logical])
    match logical:
        case "fixed":
            try:
                return exprs.number(decimal.Decimal(value))
            except ValueError as error:
                raise errors.number_out_of_range(f"{value:f}") from error
        case "real":
            return exprs.real(value)
        case "boolean":
            return exprs.boolean(value)
        case "date":
            return exprs.date(value)
        case "binary":
            return exprs.binary(value)
        case "time":
            midnight = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a time has no zone
            moment = midnight + datetime.timedelta(microseconds=value // 1000)
            return exprs.time(moment.time())
        case "timestamp_ntz" | "timestamp_ltz" | "timestamp_tz":
            return _instant_literal(logical, value)
    return exprs.text(str(value))


def _instant_literal(logical: str, value: Any) -> Expr:
    nanos = value if isinstance(value, int) else value.nanos
    try:
        naive = datetime.datetime(1970, 1, 1) + datetime.timedelta(  # noqa: DTZ001 - made aware below
            microseconds=nanos // 1000
        )
    except OverflowError:
        raise errors.bad_binding("value", "is outside the years 1 to 9999") from None
    if logical == "timestamp_ntz":
        return exprs.timestamp(naive)
    if logical == "timestamp_tz":
        try:
            local = naive + datetime.timedelta(minutes=value.offset_minutes)
        except OverflowError:
            raise errors.bad_binding("value", "is outside the years 1 to 9999") from None
        return casts.zoned_constant(local, value.offset_minutes, is_bind=True)
    return exprs.timestamp(naive.replace(tzinfo=datetime.UTC))


BIND_TYPES: Mapping[str, sqltypes.SqlType] = {
    "fixed": sqltypes.integer(),
    "real": sqltypes.REAL,
    "boolean": sqltypes.BOOLEAN,
    "date": sqltypes.DATE,
    "time": sqltypes.TIME,
    "binary": sqltypes.BINARY,
    "timestamp_ntz": sqltypes.TIMESTAMP_NTZ,
    "timestamp_ltz": sqltypes.TIMESTAMP_LTZ,
    "timestamp_tz": sqltypes.TIMESTAMP_TZ,
    "variant": sqltypes.TEXT,
    "object": sqltypes.TEXT,
    "array": sqltypes.TEXT,
}

HANDLERS: Mapping[type, Callable[[Any, NameResolver], Expr]] = {
    Bound: lambda node, scope: scope.outer(node.meta[BOUND]),
    Unpruned: lambda node, scope: bind(node.this, scope),
    exp.Literal: lambda node, scope: literal(node),
    exp.RawString: lambda node, scope: exprs.text(str(node.this)),
    exp.HexString: _hex,
    exp.Boolean: lambda node, scope: exprs.boolean(bool(node.this)),
    exp.Null: _null,
    exp.Placeholder: _placeholder,
    exp.Parameter: _parameter,
    exp.Interval: _interval,
    exp.Column: lambda node, scope: _column(node, scope),
    exp.Paren: _paren,
    exp.And: _connective("AND", exp.And, limits.TERMS_MAX),
    exp.Or: _connective("OR", exp.Or, limits.JOINED_MAX),
    exp.Not: _not,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.NullSafeEQ: _comparison("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _comparison("IS DISTINCT FROM"),
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    exp.Neg: _negate,
    exp.DPipe: _concat,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.RegexpLike: _regexp,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _try_cast,
    exp.Extract: _extract,
    exp.StrPosition: _position,
    exp.Anonymous: _anonymous,
    exp.Array: _array,
    exp.Struct: _object,
    exp.JSONExtract: _path,
    exp.Bracket: _bracket,
    exp.Dot: _dot,
    exp.WithinGroup: _within_group,
    exp.Window: _window,
    exp.Subquery: lambda node, scope: scope.scalar_query(node),
    exp.Select: lambda node, scope: scope.scalar_query(node),
    exp.Exists: lambda node, scope: scope.exists(node),
    exp.CurrentDate: _special("CURRENT_DATE"),
    exp.CurrentTime: _special("CURRENT_TIME"),
    exp.Localtime: _special("LOCALTIME"),
    exp.CurrentTimestamp: _special("CURRENT_TIMESTAMP"),
    exp.CurrentUser: _special("CURRENT_USER"),
    exp.CurrentRole: _special("CURRENT_ROLE"),
}
