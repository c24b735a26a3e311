"""rule: the tables that a text names, and at which moment, before the text is bound.

Every reference to a table is marked with a number, by which the binder finds the table that was
looked up for it. AT and BEFORE may contain constants and arithmetic on them, because the moment
must be known before the table is read.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from sql import errors, limits, moment_kernels
from sql.dialect import (
    arithmetic,
    casts,
    columns,
    expressions,
    formats,
    functions,
    grammar,
    histories,
    reading,
    scopes,
    shapes,
    sqltypes,
)
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

USE = "use"
"""Key of a table node's meta: which use of a table it is."""

TARGET = "target"
"""Key of a table node's meta: whether the statement changes it."""


class Constants:
    """A scope without tables: only constants are allowed in it."""

    def __init__(self, environment: shapes.Environment) -> None:
        self.environment = environment
        self.rows: int | None = 1
        self.lacks_keys = False

    def column(self, node: exp.Column) -> Expr:
        raise errors.invalid_identifier(node.name.upper())

    def outer(self, bound: Expr) -> Expr:
        raise errors.unsupported("a query in AT or BEFORE")

    def spread(self, node: Any) -> list[tuple[str, Expr]]:
        raise errors.unsupported("* in AT or BEFORE")

    def sequence(self) -> Expr:
        raise errors.unsupported("a sequence in AT or BEFORE")

    def scalar_query(self, node: Any) -> Expr:
        raise errors.unsupported("a query in AT or BEFORE")

    def exists(self, node: Any) -> Expr:
        raise errors.unsupported("a query in AT or BEFORE")

    def in_query(self, operands: list[Expr], node: Any, *, negated: bool, only_true: bool) -> Expr:
        raise errors.unsupported("a query in AT or BEFORE")


def references(
    tree: Any, environment: shapes.Environment, *, first: int = 0
) -> tuple[shapes.TableUse, ...]:
    """Return the tables that tree names, and mark each place with its number, from first on.

    Names of common table expressions are none. Placeholders `?` are numbered too. Of environment
    only what AT and BEFORE may say is read: context, binds, variables.
    """
    uses = _Uses(first)
    number_placeholders(tree)
    histories.put_queries(tree, environment)
    _spell_names(tree, environment)
    _collect(tree, uses, environment)
    if first + len(uses.listed) > limits.USES_MAX:
        raise errors.unsupported(f"more than {limits.USES_MAX} tables in one statement")
    return tuple(uses.listed)


class _Uses:
    """The table uses of a tree while they are collected. Mutable."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.listed: list[shapes.TableUse] = []

    def add(self, node: exp.Table, **fields: Any) -> None:
        """Mark a node with the next number, and add the use of that number."""
        index = self._first + len(self.listed)
        node.meta[USE] = index
        self.listed.append(shapes.TableUse(index=index, **fields))


def sequence_uses(tree: Any) -> tuple[shapes.SequenceUse, ...]:
    """Return the sequences whose NEXTVAL tree takes, and mark each place with its number.

    Raises SqlError where it stands elsewhere than in the select list of the whole query, or in
    VALUES.
    """
    uses: list[shapes.SequenceUse] = []
    places = [
        node
        for node in tree.find_all(exp.Column)
        if node.name.upper() == "NEXTVAL" and node.args.get("table") is not None
    ]
    if not places:
        return ()
    relations = {table.alias_or_name.upper() for table in tree.find_all(exp.Table)}
    relations |= {alias.name.upper() for alias in tree.find_all(exp.TableAlias)}
    for node in _in_text_order(tree):
        if isinstance(node, exp.Column) and node.name.upper() == "NEXTVAL" and node.table:
            if node.table.upper() in relations:
                continue  # a column of that name
            is_per_row = _is_per_row(tree, node)
            node.meta[expressions.NUMBER] = (len(uses), is_per_row)
            name = tuple(columns.ident(part) for part in node.parts[:-1])
            uses.append(shapes.SequenceUse(name=name, is_per_row=is_per_row))
            if len(uses) > limits.NUMBERS_MAX:
                raise errors.unsupported(f"more than {limits.NUMBERS_MAX} uses of NEXTVAL")
    return tuple(uses)


def _is_per_row(tree: Any, node: exp.Column) -> bool:
    """Return whether each row of a table takes a number. Raises SqlError for another place."""
    part: Any = node
    while part.parent is not tree and part.parent is not None:
        part = part.parent
        if isinstance(part, exp.Query | exp.AggFunc | exp.Window):
            raise errors.unsupported("NEXTVAL in this place")
        if isinstance(part, exp.Anonymous) and str(part.this).upper() in AGGREGATES:
            raise errors.unsupported("NEXTVAL in an aggregate")
    if isinstance(tree, exp.Values):
        return False
    if not isinstance(tree, exp.Select) or part.arg_key != "expressions":
        raise errors.unsupported("NEXTVAL in this place")
    clauses = ("distinct", "group", "having", "qualify", "limit", "offset", "where", "order")
    if not tree.args.get("from_"):
        if any(tree.args.get(name) for name in clauses):
            raise errors.unsupported("NEXTVAL beside clauses without FROM")
        return False
    for name in ("distinct", "group", "having", "qualify", "limit", "offset"):
        if tree.args.get(name):
            raise errors.unsupported(f"NEXTVAL beside {name.upper()}")
    called = {str(each.this).upper() for each in tree.find_all(exp.Anonymous)}
    if tree.find(exp.TableSample) is not None or called & VOLATILE:
        raise errors.unsupported("NEXTVAL in a query whose rows vary")
    return True


VOLATILE = frozenset(name for name, each in functions.FUNCTIONS.items() if each.is_volatile)
AGGREGATES = frozenset(
    name
    for name, each in functions.FUNCTIONS.items()
    if each.function_type in ("aggregate", "window")
)


def wants_bounds(tree: Any) -> bool:
    """Return whether bounds of whole numbers could spare the query wider arithmetic."""
    for node in tree.walk():
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Neg):
            return True
        if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("SUM", "AVG"):
            return True
    return False


def bind_count(tree: Any) -> int:
    """Return the number of values for the text's placeholders."""
    return len(
        {
            str(node.this) if node.this else f"?{node.meta.get('position')}"
            for node in tree.find_all(exp.Placeholder)
        }
    )


def number_placeholders(tree: Any) -> None:
    """Number the placeholders `?` of a tree in the order of the text, unless they have numbers."""
    places = [node for node in _in_text_order(tree) if isinstance(node, exp.Placeholder)]
    for position, node in enumerate((place for place in places if not place.this), start=1):
        node.meta.setdefault("position", position)


def _in_text_order(tree: Any) -> Iterable[Any]:
    # sqlglot keeps arguments in the order of the grammar but for a few; WITH comes before SELECT.
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        children = []
        arguments = list(node.args.items())
        arguments.sort(key=_place_in_text)
        for _, value in arguments:
            for child in value if isinstance(value, list) else (value,):
                children += [child] if isinstance(child, exp.Expression) else []
        stack.extend(reversed(children))


def _place_in_text(argument: tuple[str, Any]) -> tuple[int, int]:
    """Return the rank of an argument, a name and its value, among those of its expression."""
    name, value = argument
    if isinstance(value, exp.Limit) and grammar.TOP in value.meta:
        return ARGUMENT_ORDER["distinct"], 0
    place = 0
    if isinstance(value, exp.Limit | exp.Fetch | exp.Offset):
        place = value.meta.get(grammar.PLACE, 0)
    return ARGUMENT_ORDER.get(name, 5), place


ARGUMENT_ORDER = {
    "with_": 0,
    "kind": 1,
    "hint": 1,
    "distinct": 2,
    "substr": 2,  # of POSITION, whose text is `this`
    "expressions": 3,
    "this": 3,
    "expression": 4,
    "from_": 5,
    "laterals": 6,
    "joins": 6,
    "where": 7,
    "connect": 7,
    "start": 7,
    "group": 8,
    "having": 9,
    "qualify": 10,
    "order": 12,
    "limit": 13,
    "offset": 13,
}


def _collect(tree: Any, uses: _Uses, environment: shapes.Environment) -> None:
    # Without recursion: a condition of a thousand terms is a tree of that depth.
    stack: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, common_names = stack.pop()
        following: list[tuple[Any, frozenset[str]]] = []
        if isinstance(node, exp.Into):
            raise errors.unsupported("SELECT ... INTO")
        if isinstance(node, exp.Table):
            _collect_table(node, common_names, uses, environment)
            stack += [(join, common_names) for join in reversed(node.args.get("joins") or ())]
            stack += [
                (member, common_names)
                for pivot in node.args.get("pivots") or ()
                for field in pivot.args.get("fields") or ()
                for member in field.expressions
                if isinstance(member, exp.Query)
            ]
            if isinstance(node.this, exp.Anonymous) and USE not in node.meta:
                stack.append((node.this, common_names))  # a table function of a query
            continue
        with_ = node.args.get("with_")
        if with_ is not None:
            for expression in with_.expressions:
                name = columns.ident(expression.args["alias"].this).folded
                following += _parts_of_common(expression.this, name, with_, common_names)
                common_names = common_names | {name}
        for key, value in node.args.items():
            if key != "with_":
                children = value if isinstance(value, list) else (value,)
                following += [
                    (child, common_names) for child in children if isinstance(child, exp.Expression)
                ]
        stack += reversed(following)


def _parts_of_common(
    query: Any, name: str, with_: exp.With, common_names: frozenset[str]
) -> list[tuple[Any, frozenset[str]]]:
    """Return a common table expression's query, or its branches, each with the names it may use.

    The word RECURSIVE may be absent: then the last branch of UNION ALL alone may name itself.
    """
    if with_.args.get("recursive"):
        return [(query, common_names | {name})]
    if not scopes.repeats(query, name):
        return [(query, common_names)]
    inner = query.args.get("with_")
    if inner is not None:
        raise errors.unsupported("recursive WITH inside another WITH")
    rest = [query.args[key] for key in ("order", "limit", "offset") if query.args.get(key)]
    return [
        (query.left, common_names),
        (query.right, common_names | {name}),
        *((node, common_names) for node in rest),
    ]


def _spell_names(tree: Any, environment: shapes.Environment) -> None:
    """Put the name that IDENTIFIER or TABLE spells in its place: tables, and IDENTIFIER columns."""
    for node in list(tree.find_all(exp.Anonymous)):
        if len(node.expressions) != 1 or not _spells_a_name(node):
            continue
        spelled = constant(node.expressions[0], environment).literal
        if not isinstance(spelled, str):
            raise errors.unsupported(f"{node.this.upper()} of what is no constant text")
        parts = [
            exp.Identifier(this=ident.text, quoted=ident.quoted)
            for ident in reading.spelled_name(spelled)
        ]
        if isinstance(node.parent, exp.Table):
            for key, part in zip(("this", "db", "catalog"), reversed(parts), strict=False):
                node.parent.set(key, part)
        else:
            keys = ("this", "table", "db", "catalog")
            node.replace(exp.Column(**dict(zip(keys, reversed(parts), strict=False))))


def _spells_a_name(node: exp.Anonymous) -> bool:
    """Whether a call is IDENTIFIER, or TABLE of a text in FROM and not of a function."""
    function = str(node.this).upper()
    of_text = isinstance(node.expressions[0], exp.Literal | exp.Parameter | exp.Placeholder)
    is_table = function == "TABLE" and isinstance(node.parent, exp.Table) and of_text
    return function == "IDENTIFIER" or is_table


def _collect_table(
    node: exp.Table,
    common_names: frozenset[str],
    uses: _Uses,
    environment: shapes.Environment,
) -> None:
    if isinstance(node.this, exp.Anonymous):
        inner = table_function(node)
        if str(inner.this).upper() == "RESULT_SCAN":
            _use_result(node, _result_id(inner, environment), uses)
        return
    if isinstance(node.this, exp.Parameter) and node.this.name.isdecimal():
        flow, number = environment.context.flow_ids, int(node.this.name)
        if not 1 <= number <= len(flow):
            raise errors.unsupported(f"${number} in FROM without so many statements before it")
        _use_result(node, flow[-number], uses)
        return
    if not isinstance(node.this, exp.Identifier):
        raise errors.unsupported("table of this form")
    name = columns.table_name(node)
    if len(name) == 1 and name[0].folded in common_names:
        if node.args.get("when") is not None:
            raise errors.unsupported("AT or BEFORE on a common table expression")
        return
    if len(name) == 1 and not name[0].quoted and name[0].folded == "DUAL":
        return
    uses.add(
        node,
        name=name,
        moment=moment_of(node, environment),
        is_target=bool(node.meta.get(TARGET)),
    )


def _use_result(node: exp.Table, query_id: str, uses: _Uses) -> None:
    if node.args.get("when") is not None:
        raise errors.unsupported("AT or BEFORE on a result")
    uses.add(node, name=(), result_id=query_id)


def _result_id(call: exp.Anonymous, environment: shapes.Environment) -> str:
    values = [constant(argument, environment).literal for argument in call.expressions]
    if len(values) != 1 or not isinstance(values[0], str):
        raise errors.unsupported("RESULT_SCAN of what is no query id")
    return values[0]


def table_function(node: exp.Table) -> exp.Anonymous:
    outer = node.this
    assert isinstance(outer, exp.Anonymous)
    if str(outer.this).upper() == "TABLE" and len(outer.expressions) == 1:
        inner = outer.expressions[0]
        if isinstance(inner, exp.Dot):  # a function of INFORMATION_SCHEMA
            inner = inner.expression
        if isinstance(inner, exp.Anonymous):
            return inner
    return outer


def moment_of(node: exp.Table, environment: shapes.Environment) -> shapes.Moment | None:
    """Return AT or BEFORE of a table node, with its value; a TIMESTAMP_NTZ is in UTC there."""
    when = node.args.get("when")
    if when is None:
        return None
    parameter = str(when.args["kind"]).lower()
    value = constant(when.expression, environment)
    before = str(when.this).upper() == "BEFORE"
    if parameter == "timestamp":
        if isinstance(value.literal, str):
            value = _read_moment(value.literal, sqltypes.TIMESTAMP_NTZ, environment)
        literal = value.literal
        if isinstance(literal, datetime.date) and not isinstance(literal, datetime.datetime):
            literal = datetime.datetime.combine(literal, datetime.time())
        if not isinstance(literal, datetime.datetime):
            raise errors.unsupported("AT (TIMESTAMP => ...) that is no constant")
        if literal.tzinfo is None:
            literal = literal.replace(tzinfo=datetime.UTC)
        return shapes.Moment(parameter=parameter, value=literal, before=before)
    if parameter == "offset":
        if not isinstance(value.literal, int | decimal.Decimal):
            raise errors.unsupported("AT (OFFSET => ...) that is no constant number")
        try:
            moved = environment.context.now + datetime.timedelta(seconds=float(value.literal))
        except OverflowError:
            raise errors.number_out_of_range(str(value.literal)) from None
        return shapes.Moment(parameter="timestamp", value=moved, before=before)
    if parameter in ("version", "ref", "statement") and isinstance(value.literal, int | str):
        return shapes.Moment(parameter=parameter, value=value.literal, before=before)
    raise errors.unsupported(f"AT ({parameter.upper()} => ...)")


def constant(node: Any, environment: shapes.Environment) -> Expr:
    """Return the value of a constant expression: literals, arithmetic, casts, DATEADD, now."""
    return _evaluate(node, Constants(environment))


def _evaluate(node: Any, scope: Constants) -> Expr:
    if isinstance(node, exp.Paren):
        return _evaluate(node.this, scope)
    if isinstance(node, exp.Cast):
        inner = _evaluate(node.this, scope)
        target = columns.data_type(node.to)
        return _converted(inner, target, scope)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        left, right = _evaluate(node.this, scope), _evaluate(node.expression, scope)
        return _calculate(node, left.literal, right.literal)
    if isinstance(node, exp.Neg):
        return arithmetic.negate(_evaluate(node.this, scope))
    if isinstance(node, exp.Anonymous) and str(node.this).upper() in MOVING:
        return _evaluate_dateadd(node, scope)
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        named = CONVERSIONS.get(str(node.this).upper())
        if named is not None:
            return _converted(_evaluate(node.expressions[0], scope), named, scope)
    return expressions.bind(node, scope)


MOVING = ("DATEADD", "TIMEADD", "TIMESTAMPADD")

CONVERSIONS = {
    "TO_TIMESTAMP": sqltypes.TIMESTAMP_NTZ,
    "TO_TIMESTAMP_NTZ": sqltypes.TIMESTAMP_NTZ,
    "TO_TIMESTAMP_LTZ": sqltypes.TIMESTAMP_LTZ,
    "TO_TIMESTAMP_TZ": sqltypes.TIMESTAMP_TZ,
}


def _converted(constant: Expr, target: sqltypes.SqlType, scope: Constants) -> Expr:
    """Return a constant as target; a moment stays what it is."""
    if isinstance(constant.literal, datetime.datetime) and target.is_temporal:
        return constant
    if isinstance(constant.literal, str) and target.name.startswith("timestamp_"):
        return _read_moment(constant.literal, target, scope.environment)
    return casts.cast(constant, target)


def _read_moment(text: str, target: sqltypes.SqlType, environment: shapes.Environment) -> Expr:
    """Return a text as a TIMESTAMP; one with a zone is in the session's if the text has none.

    Digits below a microsecond are dropped: commits are told apart by milliseconds.
    """
    inputs = environment.context.inputs
    model = None if inputs is None else inputs.model(target.name)
    try:
        if inputs is None or model is None:
            moment = moment_kernels.parse_moment(moment_kernels.cut_text(text))
        else:
            pattern = formats.strptime_pattern(model)
            century = inputs.century_start if "%y" in pattern else None
            read = moment_kernels.reader(pattern, "moment", century_start=century, cuts=True)
            moment = read(text)
    except ValueError:
        raise errors.bad_timestamp(text[:100]) from None
    except moment_kernels.FarYear:
        raise errors.unsupported("AT (TIMESTAMP => ...) with a year after 9999") from None
    if target.name == "timestamp_ntz":
        return exprs.timestamp(moment.replace(tzinfo=None))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=environment.context.zone)
    return exprs.timestamp(moment)


def _calculate(node: Any, left: Any, right: Any) -> Expr:
    if not all(isinstance(side, int | decimal.Decimal) for side in (left, right)):
        raise errors.unsupported("constant of this form")
    first, second = decimal.Decimal(left), decimal.Decimal(right)
    match node:
        case exp.Add():
            return exprs.number(first + second)
        case exp.Sub():
            return exprs.number(first - second)
        case exp.Mul():
            return exprs.number(first * second)
    if second == 0:
        raise errors.division_by_zero()
    return exprs.number((first / second).quantize(decimal.Decimal("1e-6")))


def _evaluate_dateadd(node: exp.Anonymous, scope: Constants) -> Expr:
    from_node, count, moment = node.expressions
    part = from_node.name.lower()
    step = _evaluate(count, scope).literal
    start = _evaluate(moment, scope).literal
    seconds = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
    unit = part.removesuffix("s")
    if unit not in seconds or not isinstance(step, int) or not isinstance(start, datetime.datetime):
        raise errors.unsupported("constant DATEADD of this form")
    return exprs.timestamp(start + datetime.timedelta(seconds=step * seconds[unit]))
