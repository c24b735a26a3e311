"""rule: a query tree, the tables it names and their shapes -> the engine's text.

First `references` says which tables a text names, so that they can be looked up; then `bind_query`
gives every name its meaning. Each place that names a table is a relation of its own, known to the
engine under a unique alias; every output column gets a unique name too, because the engine takes
no duplicates, and Snowflake's names stand beside. What the binder does not know is refused.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sql import errors, kernels, outcomes
from sql.dialect import bound as bounds
from sql.dialect import (
    columns,
    expressions,
    functions,
    grammar,
    names,
    predicates,
    rewrites,
    shapes,
    sqltypes,
)
from sql.dialect.bound import Bound

USE = "use"
"""Key of a table node's meta: which use of a table it is."""

USES_MAX = 500
TABLE_FUNCTIONS = frozenset({"RESULT_SCAN", "GENERATOR"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """A column of a query. name: as Snowflake reports it. unique: as the engine knows it."""

    name: str
    unique: str
    type: sqltypes.SqlType
    nullable: bool
    origin: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A bound query: engine text and its columns. rows: at most; is_correlated: it names columns
    of a query around it."""

    sql: str
    outputs: tuple[Output, ...]
    rows: int | None = None
    is_correlated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundQuery:
    """What a query became. filters: per table use, conditions that its rows must meet."""

    sql: str
    columns: tuple[outcomes.Column, ...]
    types: tuple[sqltypes.SqlType, ...]
    functions: tuple[str, ...]
    filters: Mapping[int, tuple[predicates.Condition, ...]]
    bind_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A name that can be looked up in a scope."""

    stored: str
    bound: Bound


@dataclass(kw_only=True, slots=True)
class Source:
    """One item of FROM; mutable, joins change it. path: how it is qualified, own name last."""

    path: tuple[names.Ident, ...]
    columns: list[Column]
    hidden: set[str] = field(default_factory=set)
    rows: int | None = None


def references(tree: Any, environment: shapes.Environment) -> tuple[shapes.TableUse, ...]:
    """Return the tables that tree names, and mark each place with its number.

    Names of common table expressions are none. Placeholders `?` are numbered too. Of environment
    only what AT and BEFORE may say is read: context, binds, variables.
    """
    found: list[shapes.TableUse] = []
    _number_placeholders(tree)
    _collect(tree, found, environment)
    if len(found) > USES_MAX:
        raise errors.unsupported(f"more than {USES_MAX} tables in one statement")
    return tuple(found)


def select_of(values: Sequence[Any]) -> Any:
    """Return the tree of a SELECT of these expressions."""
    return exp.Select(expressions=list(values))


def wants_bounds(tree: Any) -> bool:
    """Say whether knowing what whole numbers lie within could spare the query wider arithmetic."""
    for node in tree.walk():
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Neg):
            return True
        if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("SUM", "AVG"):
            return True
    return False


def bind_count(tree: Any) -> int:
    """Return how many values the text's placeholders want."""
    return len(
        {
            str(node.this) if node.this else f"?{node.meta.get('position')}"
            for node in tree.find_all(exp.Placeholder)
        }
    )


def _number_placeholders(tree: Any) -> None:
    places = [node for node in _in_text_order(tree) if isinstance(node, exp.Placeholder)]
    for position, node in enumerate((place for place in places if not place.this), start=1):
        node.meta["position"] = position


def _in_text_order(tree: Any) -> Iterable[Any]:
    # sqlglot keeps arguments in the order of the grammar but for a few; WITH comes before SELECT.
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        children = []
        arguments = list(node.args.items())
        arguments.sort(key=lambda item: ARGUMENT_ORDER.get(item[0], 5))
        for _, value in arguments:
            for child in value if isinstance(value, list) else (value,):
                children += [child] if isinstance(child, exp.Expression) else []
        stack.extend(reversed(children))


ARGUMENT_ORDER = {
    "with_": 0,
    "kind": 1,
    "hint": 1,
    "distinct": 2,
    "expressions": 3,
    "this": 3,
    "expression": 4,
    "from_": 5,
    "laterals": 6,
    "joins": 6,
    "where": 7,
    "group": 8,
    "having": 9,
    "qualify": 10,
    "order": 12,
    "limit": 13,
    "offset": 14,
}


def _collect(tree: Any, found: list[shapes.TableUse], environment: shapes.Environment) -> None:
    # Without recursion: a condition of a thousand terms is a tree as deep.
    stack: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, known = stack.pop()
        following: list[tuple[Any, frozenset[str]]] = []
        if isinstance(node, exp.Table):
            _collect_table(node, known, found, environment)
            stack += [(join, known) for join in reversed(node.args.get("joins") or ())]
            continue
        with_ = node.args.get("with_")
        if with_ is not None:
            for expression in with_.expressions:
                name = columns.ident(expression.args["alias"].this).folded
                inner = known | {name} if with_.args.get("recursive") else known
                following.append((expression.this, inner))
                known = known | {name}
        for key, value in node.args.items():
            if key != "with_":
                children = value if isinstance(value, list) else (value,)
                following += [
                    (child, known) for child in children if isinstance(child, exp.Expression)
                ]
        stack += reversed(following)


def _collect_table(
    node: exp.Table,
    known: frozenset[str],
    found: list[shapes.TableUse],
    environment: shapes.Environment,
) -> None:
    if isinstance(node.this, exp.Anonymous):
        inner = _table_function(node)
        if str(inner.this).upper() == "RESULT_SCAN":
            node.meta[USE] = len(found)
            found.append(
                shapes.TableUse(
                    index=len(found),
                    name=(),
                    function="RESULT_SCAN",
                    arguments=tuple(inner.expressions),
                )
            )
        return
    if not isinstance(node.this, exp.Identifier):
        raise errors.unsupported("table of this form")
    name = columns.table_name(node)
    if len(name) == 1 and name[0].folded in known:
        if node.args.get("when") is not None:
            raise errors.unsupported("AT or BEFORE on a common table expression")
        return
    if len(name) == 1 and not name[0].quoted and name[0].folded == "DUAL":
        return
    node.meta[USE] = len(found)
    found.append(shapes.TableUse(index=len(found), name=name, moment=moment_of(node, environment)))


def _table_function(node: exp.Table) -> exp.Anonymous:
    outer = node.this
    assert isinstance(outer, exp.Anonymous)
    if str(outer.this).upper() == "TABLE" and len(outer.expressions) == 1:
        inner = outer.expressions[0]
        if isinstance(inner, exp.Anonymous):
            return inner
    return outer


def moment_of(node: exp.Table, environment: shapes.Environment) -> shapes.Moment | None:
    """Return AT or BEFORE of a table node, its value worked out."""
    when = node.args.get("when")
    if when is None:
        return None
    kind = str(when.args["kind"]).lower()
    value = constant(when.expression, environment)
    before = str(when.this).upper() == "BEFORE"
    if kind == "timestamp":
        if isinstance(value.literal, str):
            value = rewrites.cast(value, sqltypes.TIMESTAMP_NTZ)
        found = value.literal
        if isinstance(found, datetime.date) and not isinstance(found, datetime.datetime):
            found = datetime.datetime.combine(found, datetime.time())
        if not isinstance(found, datetime.datetime):
            raise errors.unsupported("AT (TIMESTAMP => ...) that is no constant")
        if found.tzinfo is None:
            found = found.replace(tzinfo=environment.context.now.tzinfo)
        return shapes.Moment(kind=kind, value=found, before=before)
    if kind == "offset":
        if not isinstance(value.literal, int | decimal.Decimal):
            raise errors.unsupported("AT (OFFSET => ...) that is no constant number")
        moved = environment.context.now + datetime.timedelta(seconds=float(value.literal))
        return shapes.Moment(kind="timestamp", value=moved, before=before)
    if kind in ("version", "ref", "statement") and isinstance(value.literal, int | str):
        return shapes.Moment(kind=kind, value=value.literal, before=before)
    raise errors.unsupported(f"AT ({kind.upper()} => ...)")


def constant(node: Any, environment: shapes.Environment) -> Bound:
    """Return a constant expression worked out; literals, arithmetic, casts, DATEADD, now."""
    scope = QueryScope(binder=Binder(environment), parent=None)
    return _evaluate(node, scope)


def _evaluate(node: Any, scope: QueryScope) -> Bound:
    if isinstance(node, exp.Paren):
        return _evaluate(node.this, scope)
    if isinstance(node, exp.Cast):
        inner = _evaluate(node.this, scope)
        target = columns.data_type(node.to)
        if isinstance(inner.literal, datetime.datetime) and target.is_temporal:
            return inner
        return rewrites.cast(inner, target)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        left, right = _evaluate(node.this, scope), _evaluate(node.expression, scope)
        return _calculate(node, left.literal, right.literal)
    if isinstance(node, exp.Neg):
        return rewrites.negate(_evaluate(node.this, scope))
    if isinstance(node, exp.Anonymous) and str(node.this).upper() in MOVING:
        return _evaluate_dateadd(node, scope)
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        name = str(node.this).upper()
        if name in ("TO_TIMESTAMP", "TO_TIMESTAMP_NTZ", "TO_TIMESTAMP_LTZ"):
            inner = _evaluate(node.expressions[0], scope)
            return rewrites.cast(inner, sqltypes.TIMESTAMP_NTZ)
    return expressions.bind(node, scope)


MOVING = ("DATEADD", "TIMEADD", "TIMESTAMPADD")


def _calculate(node: Any, left: Any, right: Any) -> Bound:
    if not all(isinstance(side, int | decimal.Decimal) for side in (left, right)):
        raise errors.unsupported("constant of this form")
    first, second = decimal.Decimal(left), decimal.Decimal(right)
    match node:
        case exp.Add():
            return bounds.number(first + second)
        case exp.Sub():
            return bounds.number(first - second)
        case exp.Mul():
            return bounds.number(first * second)
    if second == 0:
        raise errors.division_by_zero()
    return bounds.number((first / second).quantize(decimal.Decimal("1e-6")))


def _evaluate_dateadd(node: exp.Anonymous, scope: QueryScope) -> Bound:
    from_node, count, moment = node.expressions
    part = from_node.name.lower()
    step = _evaluate(count, scope).literal
    start = _evaluate(moment, scope).literal
    seconds = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
    unit = part.removesuffix("s")
    if unit not in seconds or not isinstance(step, int) or not isinstance(start, datetime.datetime):
        raise errors.unsupported("constant DATEADD of this form")
    return bounds.timestamp(start + datetime.timedelta(seconds=step * seconds[unit]))


def bind_query(tree: Any, environment: shapes.Environment) -> BoundQuery:
    """Return tree bound; raises SqlError. The tree must have been through `references`."""
    binder = Binder(environment)
    try:
        text = binder.query(tree, None)
    except RecursionError:
        raise errors.unsupported("expression nested too deeply") from None
    return binder.finish(text, bind_count(tree))


def bind_into(
    tree: Any, environment: shapes.Environment, targets: Sequence[sqltypes.SqlType]
) -> BoundQuery:
    """Return tree bound, its columns as the targets' types, as INSERT converts them.

    VALUES are converted cell by cell. With array binds, VALUES is one row per bound row.
    """
    binder = Binder(environment)
    count = bind_count(tree)
    try:
        if isinstance(tree, exp.Values) and not environment.rows_relation:
            scope = QueryScope(binder=binder, parent=None)
            return binder.finish(binder.values(tree, scope, targets), count)
        if environment.rows_relation:
            tree = _row_query(tree)
        text = binder.query(tree, None)
        _check_width(len(text.outputs), len(targets))
        return binder.finish(binder.converted(text, targets), count)
    except RecursionError:
        raise errors.unsupported("expression nested too deeply") from None


def _row_query(tree: Any) -> exp.Select:
    rows = tree.expressions if isinstance(tree, exp.Values) else []
    if len(rows) != 1:
        raise errors.unsupported("array binds in anything but VALUES of one row")
    row = rows[0]
    return exp.Select(expressions=list(row.expressions if isinstance(row, exp.Tuple) else [row]))


def _check_width(found: int, wanted: int) -> None:
    if found != wanted:
        raise errors.SqlError(
            "002020",
            "21S01",
            "SQL compilation error:\nInsert value list does not match column list expecting "
            f"{wanted} but got {found}",
            phase="COMPILATION",
        )


class Binder:
    """One statement being bound: what its parts share."""

    def __init__(self, environment: shapes.Environment) -> None:
        self.environment = environment
        self.filters: dict[int, list[predicates.Condition]] = {}
        self._aliases = 0

    def alias(self, wanted: str) -> str:
        """Return a relation alias that is used nowhere else in the statement."""
        self._aliases += 1
        return f"{wanted}#{self._aliases}"

    def finish(self, text: Text, count: int) -> BoundQuery:
        return BoundQuery(
            sql=text.sql,
            columns=tuple(self._result_column(output) for output in text.outputs),
            types=tuple(output.type for output in text.outputs),
            functions=kernels.called(text.sql),
            filters={use: tuple(found) for use, found in self.filters.items()},
            bind_count=count,
        )

    def _result_column(self, output: Output) -> outcomes.Column:
        column = sqltypes.column(output.name, output.type, nullable=output.nullable)
        if output.origin is None:
            return column
        shape = self.environment.tables[output.origin[0]]
        database, schema, table = (names.shown(part) for part in shape.path)
        return dataclasses.replace(column, database=database, schema=schema, table=table)

    def converted(self, text: Text, targets: Sequence[sqltypes.SqlType]) -> Text:
        """Return text with each column as its target's type."""
        alias = names.quoted(self.alias("source"))
        items, outputs = [], []
        for output, target in zip(text.outputs, targets, strict=True):
            operand = Bound(
                sql=f"{alias}.{names.quoted(output.unique)}",
                type=output.type,
                nullable=output.nullable,
            )
            found = rewrites.implicit(operand, target)
            items.append(f"{found.sql} AS {names.quoted(output.unique)}")
            outputs.append(dataclasses.replace(output, type=found.type))
        sql = f"SELECT {', '.join(items)} FROM ({text.sql}) AS {alias}"
        return Text(sql=sql, outputs=tuple(outputs), rows=text.rows)

    def query(self, tree: Any, parent: QueryScope | None) -> Text:
        """Return any query bound, its own WITH included."""
        prefix = ""
        scope = QueryScope(binder=self, parent=parent)
        with_ = tree.args.get("with_")
        if with_ is not None:
            prefix = scope.add_common_tables(with_)
        text = self._body(tree, scope)
        return dataclasses.replace(
            text,
            sql=prefix + text.sql,
            is_correlated=text.is_correlated or scope.is_correlated,
        )

    def _body(self, tree: Any, scope: QueryScope) -> Text:
        match tree:
            case exp.Select():
                return SelectBinder(self, tree, scope).bind()
            case exp.SetOperation():
                return self._set_operation(tree, scope)
            case exp.Subquery():
                return self._subquery(tree, scope)
            case exp.Values():
                return self.values(tree, scope)
        raise errors.unsupported(expressions.construct_name(tree))

    def _subquery(self, tree: exp.Subquery, scope: QueryScope) -> Text:
        text = self.query(tree.this, scope)
        tail = self._tail(tree, text, scope)
        return dataclasses.replace(text, sql=f"({text.sql}){tail}" if tail else text.sql)

    def _set_operation(self, tree: exp.SetOperation, scope: QueryScope) -> Text:
        if tree.args.get("by_name") or tree.args.get("side") or tree.args.get("kind"):
            raise errors.unsupported(f"{type(tree).__name__.upper()} BY NAME")
        sides = [self.query(side, scope) for side in (tree.left, tree.right)]
        left, right = sides
        if len(left.outputs) != len(right.outputs):
            raise errors.SqlError(
                "001789",
                "42601",
                "SQL compilation error:\ninvalid number of result columns for set operator "
                f"input branches, expected {len(left.outputs)}, got {len(right.outputs)}",
                phase="COMPILATION",
            )
        targets = []
        for ours, theirs in zip(left.outputs, right.outputs, strict=True):
            kind = sqltypes.unified([ours.type, theirs.type])
            if kind is None:
                raise errors.SqlError(
                    "001790",
                    "42601",
                    "SQL compilation error:\ninconsistent data type for result columns for set "
                    f"operator input branches, expected {sqltypes.shown(ours.type)}, "
                    f"got {sqltypes.shown(theirs.type)}",
                    phase="COMPILATION",
                )
            targets.append(sqltypes.TEXT if kind.kind == "null" else kind)
        left, right = (self._branch(side, targets) for side in (left, right))
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(tree)]
        every = " ALL" if not tree.args.get("distinct") else ""
        outputs = tuple(
            dataclasses.replace(
                ours, type=kind, nullable=ours.nullable or theirs.nullable, origin=None
            )
            for ours, theirs, kind in zip(left.outputs, right.outputs, targets, strict=True)
        )
        rows = None if left.rows is None or right.rows is None else left.rows + right.rows
        text = Text(sql=f"({left.sql}) {word}{every} ({right.sql})", outputs=outputs, rows=rows)
        return dataclasses.replace(text, sql=text.sql + self._tail(tree, text, scope))

    def _branch(self, text: Text, targets: Sequence[sqltypes.SqlType]) -> Text:
        if all(
            sqltypes.same_in_engine(output.type, target)
            for output, target in zip(text.outputs, targets, strict=True)
        ):
            return text
        return self.converted(text, targets)

    def _tail(self, tree: Any, text: Text, scope: QueryScope) -> str:
        """Return ORDER BY, LIMIT and OFFSET of a query that is no SELECT of its own."""
        outputs = OutputScope(scope, text.outputs)
        return _order_by(tree, outputs) + self.limit(tree, scope)

    def limit(self, tree: Any, scope: QueryScope) -> str:
        found = ""
        limit, offset = tree.args.get("limit"), tree.args.get("offset")
        if isinstance(limit, exp.Fetch):
            if limit.args.get("limit_options") is not None and limit.args["limit_options"].args:
                refused = [
                    key
                    for key, value in limit.args["limit_options"].args.items()
                    if value and key != "rows"
                ]
                if refused:
                    raise errors.unsupported("FETCH of this form")
            count = limit.args.get("count")
            found += f" LIMIT {self._whole(count, scope) if count is not None else 1}"
        elif limit is not None:
            value = self._whole(limit.expression, scope)
            found += "" if value is None else f" LIMIT {value}"
        if offset is not None:
            value = self._whole(offset.expression, scope)
            found += "" if value is None else f" OFFSET {value}"
        return found

    def _whole(self, node: Any, scope: QueryScope) -> int | None:
        value = expressions.bind(node, scope)
        if isinstance(value.literal, str) and value.literal.isdecimal():
            return int(value.literal)  # drivers bind a LIMIT as text
        if value.literal is None:
            return None
        if not isinstance(value.literal, int) or value.literal < 0:
            raise errors.unsupported("LIMIT or OFFSET that is no whole number")
        return value.literal

    def values(
        self,
        tree: exp.Values,
        scope: QueryScope,
        targets: Sequence[sqltypes.SqlType] | None = None,
    ) -> Text:
        """Return VALUES as a query; its columns are COLUMN1, COLUMN2, ... as targets' types."""
        rows = [
            row.expressions if isinstance(row, exp.Tuple) else [row] for row in tree.expressions
        ]
        width = len(rows[0]) if rows else 0
        if targets is not None:
            for row in rows:
                _check_width(len(row), len(targets))
        if not width or any(len(row) != width for row in rows):
            raise errors.SqlError(
                "001788",
                "42601",
                "SQL compilation error:\nVALUES rows differ in their number of columns",
                phase="COMPILATION",
            )
        cells = [[expressions.bind(cell, scope) for cell in row] for row in rows]
        if targets is not None:
            cells = [
                [rewrites.implicit(cell, target) for cell, target in zip(row, targets, strict=True)]
                for row in cells
            ]
        kinds, unified_columns = [], []
        for index in range(width):
            column, kind = rewrites.unify([row[index] for row in cells], "VALUES")
            kinds.append(sqltypes.TEXT if kind.kind == "null" else kind)
            unified_columns.append(
                column if kind.kind != "null" else [bounds.null(sqltypes.TEXT) for _ in column]
            )
        # The first row fixes the engine's types; the others are coerced to it.
        listed = ", ".join(
            "("
            + ", ".join(
                _typed(column[number], kinds[index]) if number == 0 else column[number].sql
                for index, column in enumerate(unified_columns)
            )
            + ")"
            for number in range(len(rows))
        )
        alias = names.quoted(self.alias("VALUES"))
        outputs = tuple(
            Output(
                name=f"COLUMN{index + 1}",
                unique=f"COLUMN{index + 1}",
                type=kind,
                nullable=any(cell.nullable for cell in unified_columns[index]),
            )
            for index, kind in enumerate(kinds)
        )
        listed_names = ", ".join(names.quoted(output.unique) for output in outputs)
        sql = f"SELECT {listed_names} FROM (VALUES {listed}) AS {alias}({listed_names})"
        return Text(sql=sql, outputs=outputs, rows=len(rows))


def _typed(cell: Bound, kind: sqltypes.SqlType) -> str:
    return sqltypes.exactly(cell.sql, kind)


class QueryScope:
    """What names mean in one SELECT: its sources, its WITH, its select list; then its parent's."""

    def __init__(self, *, binder: Binder, parent: QueryScope | None) -> None:
        self.binder = binder
        self.parent = parent
        self.sources: list[Source] = []
        self.merged: dict[str, Bound] = {}
        self.common: dict[str, tuple[str, Text]] = {}
        self.aliases: dict[str, Any] = {}
        self.bound_aliases: dict[str, Bound] = {}
        self._binding: set[str] = set()
        self.is_filtering = False
        self.is_correlated = False

    @property
    def uses(self) -> set[int]:
        """The table uses whose rows this scope joins itself."""
        return {
            column.bound.origin[0]
            for source in self.sources
            for column in source.columns
            if column.bound.origin is not None
        }

    @property
    def environment(self) -> shapes.Environment:
        return self.binder.environment

    @property
    def rows(self) -> int | None:
        found = 1
        for source in self.sources:
            if source.rows is None:
                return None
            found *= max(source.rows, 1)
        return found

    @property
    def for_from(self) -> QueryScope:
        """The scope of a query in FROM: it sees WITH and what is outside, not its neighbours."""
        found = QueryScope(binder=self.binder, parent=self.parent)
        found.common = self.common
        return found

    # Names

    def column(self, node: exp.Column) -> Bound:
        """Return what a column's name means here; raises SqlError 000904 or 002026."""
        if not isinstance(node.this, exp.Identifier):
            raise errors.unsupported(expressions.construct_name(node.this))
        wanted = columns.ident(node.this)
        path = tuple(
            columns.ident(part)
            for part in (node.args.get("catalog"), node.args.get("db"), node.args.get("table"))
            if part
        )
        scope: QueryScope | None = self
        passed: list[QueryScope] = []
        while scope is not None:
            found = scope.local(wanted, path)
            if found is not None:
                for inner in passed:
                    inner.is_correlated = True
                return found
            passed.append(scope)
            scope = scope.parent
        raise errors.invalid_identifier(names.dotted((*path, wanted)))

    def local(self, wanted: names.Ident, path: tuple[names.Ident, ...]) -> Bound | None:
        """Return what a name means in this scope alone: a source's column, then an alias."""
        found = self.from_sources(wanted, path)
        if found is None and not path:
            found = self.from_aliases(wanted)
        return found

    def from_sources(self, wanted: names.Ident, path: tuple[names.Ident, ...]) -> Bound | None:
        if not path and wanted.folded in self.merged:
            return self.merged[wanted.folded]
        found = []
        for source in self.sources:
            if path and not _qualifies(path, source.path):
                continue
            matches = names.find(wanted, [column.stored for column in source.columns])
            found += [source.columns[index].bound for index in matches]
        if len(found) > 1:
            raise errors.ambiguous_column(names.dotted((*path, wanted)))
        return found[0] if found else None

    def from_aliases(self, wanted: names.Ident) -> Bound | None:
        name = wanted.folded
        if name in self.bound_aliases:
            return self.bound_aliases[name]
        if name not in self.aliases:
            return None
        if name in self._binding:
            return None
        self._binding.add(name)
        try:
            found = expressions.bind(self.aliases[name], self)
        finally:
            self._binding.discard(name)
        self.bound_aliases[name] = found
        return found

    def common_table(self, name: str) -> tuple[str, Text] | None:
        scope: QueryScope | None = self
        while scope is not None:
            if name in scope.common:
                return scope.common[name]
            scope = scope.parent
        return None

    # Queries inside expressions

    def scalar_query(self, node: Any) -> Bound:
        text = self.binder.query(_inner(node), self)
        if len(text.outputs) != 1:
            raise errors.unsupported("scalar subquery of more than one column")
        output = text.outputs[0]
        if text.is_correlated and text.rows != 1:
            raise errors.SqlError(
                "002031",
                "42601",
                "SQL compilation error:\nUnsupported subquery type cannot be evaluated",
                phase="COMPILATION",
            )
        return Bound(sql=f"({text.sql})", type=output.type, nullable=True)

    def exists(self, node: Any) -> Bound:
        inner = _inner(node.this)
        if not self.is_filtering and _counts_plainly(inner):
            # The engine knows EXISTS only in filters; a count says the same.
            counted = inner.copy()
            counted.set("expressions", [exp.Anonymous(this="COUNT", expressions=[exp.Star()])])
            counted.set("order", None)
            text = self.binder.query(counted, self)
            return Bound(sql=f"(({text.sql}) > 0)", type=sqltypes.BOOLEAN, nullable=False)
        text = self.binder.query(inner, self)
        if self.is_filtering:
            return Bound(sql=f"EXISTS ({text.sql})", type=sqltypes.BOOLEAN, nullable=False)
        alias = names.quoted(self.binder.alias("exists"))
        sql = f"((SELECT count(*) FROM ({text.sql}) AS {alias}) > 0)"
        return Bound(sql=sql, type=sqltypes.BOOLEAN, nullable=False)

    def in_query(self, operands: list[Bound], node: Any, *, negated: bool) -> Bound:
        if not self.is_filtering:
            raise errors.unsupported("IN (SELECT ...) outside a filter")
        text = self.binder.query(_inner(node), self)
        if len(text.outputs) != len(operands):
            raise errors.unsupported("IN (SELECT ...) of another number of columns")
        word = "NOT IN" if negated else "IN"
        if len(operands) > 1:
            return self._row_in_query(operands, text, negated=negated)
        output = text.outputs[0]
        kind = sqltypes.unified([operands[0].type, output.type])
        if kind is None or kind.kind == "null":
            raise errors.unsupported("IN (SELECT ...) of another type")
        operand = rewrites.implicit(operands[0], kind)
        if not sqltypes.same_in_engine(output.type, kind):
            text = self.binder.converted(text, [kind])
        sql = f"({operand.sql} {word} ({text.sql}))"
        return bounds.derived(sql, sqltypes.BOOLEAN, operands, nullable=True)

    def _row_in_query(self, operands: list[Bound], text: Text, *, negated: bool) -> Bound:
        alias = names.quoted(self.binder.alias("rows"))
        same = [
            rewrites.compare(
                operand,
                Bound(
                    sql=f"{alias}.{names.quoted(output.unique)}",
                    type=output.type,
                    nullable=output.nullable,
                ),
                "=",
            ).sql
            for operand, output in zip(operands, text.outputs, strict=True)
        ]
        nullable = [part.nullable for part in operands] + [part.nullable for part in text.outputs]
        if negated and any(nullable):
            raise errors.unsupported("NOT IN of rows that may hold NULL")
        sql = f"EXISTS (SELECT 1 FROM ({text.sql}) AS {alias} WHERE {' AND '.join(same)})"
        sql = f"(NOT {sql})" if negated else sql
        return bounds.derived(sql, sqltypes.BOOLEAN, operands)

    # WITH

    def add_common_tables(self, with_: exp.With) -> str:
        recursive = bool(with_.args.get("recursive"))
        parts, is_recursive = [], False
        for node in with_.expressions:
            alias = node.args["alias"]
            name = columns.ident(alias.this).folded
            listed = [columns.ident(column) for column in alias.args.get("columns") or ()]
            unique = self.binder.alias(name)
            if recursive and _names_itself(node.this, name):
                is_recursive = True
                text = self._recursive(node.this, name, unique, listed)
            else:
                text = _renamed(self.binder.query(node.this, self), listed)
            self.common[name] = (unique, text)
            renamed = ", ".join(names.quoted(output.unique) for output in text.outputs)
            parts.append(f"{names.quoted(unique)}({renamed}) AS ({text.sql})")
        return f"WITH {'RECURSIVE ' if is_recursive else ''}{', '.join(parts)} "

    def _recursive(self, tree: Any, name: str, unique: str, listed: list[names.Ident]) -> Text:
        if not isinstance(tree, exp.Union) or tree.args.get("distinct"):
            raise errors.unsupported("recursive WITH without UNION ALL")
        anchor = _renamed(self.binder.query(tree.left, self), listed)
        # Types of the anchor hold for all rows; numbers may grow, so they are widened first.
        outputs = tuple(
            dataclasses.replace(output, type=_grown(output.type), nullable=True, origin=None)
            for output in anchor.outputs
        )
        kinds = [output.type for output in outputs]
        anchor = self.binder.converted(anchor, kinds)
        self.common[name] = (unique, Text(sql="", outputs=outputs))
        step = self.binder.converted(
            _renamed(self.binder.query(tree.right, self), list(_plain_idents(outputs))), kinds
        )
        return Text(sql=f"{anchor.sql} UNION ALL {step.sql}", outputs=outputs)


def _plain_idents(outputs: Sequence[Output]) -> Iterable[names.Ident]:
    return (names.Ident(text=output.name, quoted=True) for output in outputs)


def _grown(kind: sqltypes.SqlType) -> sqltypes.SqlType:
    if kind.is_integer:
        return sqltypes.integer(sqltypes.PRECISION_MAX)
    if kind.kind == "text":
        return sqltypes.TEXT
    return sqltypes.TEXT if kind.kind == "null" else kind


def _names_itself(tree: Any, name: str) -> bool:
    return any(
        isinstance(table.this, exp.Identifier)
        and not table.args.get("db")
        and columns.ident(table.this).folded == name
        for table in tree.find_all(exp.Table)
    )


def _renamed(text: Text, listed: list[names.Ident]) -> Text:
    if not listed:
        return text
    if len(listed) != len(text.outputs):
        raise errors.unsupported("column list of another length than its query")
    outputs = tuple(
        dataclasses.replace(output, name=ident.folded)
        for output, ident in zip(text.outputs, listed, strict=True)
    )
    return dataclasses.replace(text, outputs=outputs)


def _inner(node: Any) -> Any:
    while isinstance(node, exp.Subquery) and not (
        node.args.get("order") or node.args.get("limit") or node.args.get("offset")
    ):
        node = node.this
    return node


def _counts_plainly(node: Any) -> bool:
    """Whether a SELECT has as many rows as its FROM and WHERE let through."""
    reducing = ("group", "having", "qualify", "distinct", "limit", "offset")
    if not isinstance(node, exp.Select) or any(node.args.get(name) for name in reducing):
        return False
    return not any(
        isinstance(call, exp.Anonymous) and functions.is_aggregate(str(call.this))
        for item in node.expressions
        for call in item.find_all(exp.Anonymous)
    )


def _qualifies(path: tuple[names.Ident, ...], source: tuple[names.Ident, ...]) -> bool:
    if len(path) > len(source):
        return False
    return all(
        names.find(wanted, [actual.text if actual.quoted else actual.folded])
        for wanted, actual in zip(reversed(path), reversed(source), strict=False)
    )


class OutputScope(QueryScope):
    """The scope of a set operation's ORDER BY: its own columns, nothing else."""

    def __init__(self, around: QueryScope, outputs: Sequence[Output]) -> None:
        super().__init__(binder=around.binder, parent=around)
        self.outputs = list(outputs)
        self.sources = [
            Source(
                path=(),
                columns=[
                    Column(
                        stored=output.name,
                        bound=Bound(
                            sql=names.quoted(output.unique),
                            type=output.type,
                            nullable=output.nullable,
                        ),
                    )
                    for output in outputs
                ],
            )
        ]


def _order_by(tree: Any, scope: OutputScope) -> str:
    order = tree.args.get("order")
    if order is None:
        return ""
    items = []
    for item in order.expressions:
        place = _ordinal(item.this, len(scope.outputs))
        if place is not None:
            items.append(f"{place}{expressions.direction(item)}")
        else:
            items.append(f"{expressions.bind(item.this, scope).sql}{expressions.direction(item)}")
    return f" ORDER BY {', '.join(items)}"


def _ordinal(node: Any, count: int) -> int | None:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        return None
    place = int(node.name)
    if not 1 <= place <= count:
        raise errors.SqlError(
            "002027",
            "42601",
            f"SQL compilation error:\n[{place}] ORDER BY or GROUP BY position out of range",
            phase="COMPILATION",
        )
    return place


class SelectBinder:
    """One SELECT on its way: FROM, select list, WHERE, GROUP BY, HAVING, QUALIFY, ORDER BY."""

    def __init__(self, binder: Binder, tree: exp.Select, scope: QueryScope) -> None:
        self._binder = binder
        self._tree = tree
        self._scope = scope
        self._outer_join = False
        self._uses: dict[str, int] = {}

    def bind(self) -> Text:
        self._refuse_unknown_clauses()
        from_sql = self._from()
        items = self._select_list()
        where = self._where()
        bound_items = [(name, self._bound_item(node)) for name, node in items]
        having = self._condition("having")
        qualify = self._condition("qualify")
        grouped = self._group_by([item for _, item in bound_items])
        outputs, listed = self._outputs(bound_items)
        order = self._order([item for _, item in bound_items], outputs)
        distinct = self._distinct()
        sql = f"SELECT {distinct}{', '.join(listed)}"
        sql += from_sql
        sql += f" WHERE {where.sql}" if where is not None else ""
        sql += grouped
        sql += f" HAVING {having.sql}" if having is not None else ""
        sql += f" QUALIFY {qualify.sql}" if qualify is not None else ""
        sql += order
        sql += self._binder.limit(self._tree, self._scope)
        is_aggregate = bool(grouped) or any(item.aggregate for _, item in bound_items)
        rows = 1 if is_aggregate and not grouped else self._scope.rows
        return Text(sql=sql, outputs=tuple(outputs), rows=rows)

    def _refuse_unknown_clauses(self) -> None:
        for name, value in self._tree.args.items():
            if value and name not in CLAUSES:
                raise errors.unsupported(name.rstrip("_").upper())

    def _distinct(self) -> str:
        distinct = self._tree.args.get("distinct")
        if distinct is None or distinct is False:
            return ""
        if distinct.args.get("on") is not None:
            raise errors.unsupported("DISTINCT ON")
        return "DISTINCT "

    # FROM

    def _from(self) -> str:
        from_ = self._tree.args.get("from_")
        joins = self._tree.args.get("joins") or []
        if self._tree.args.get("laterals"):
            raise errors.unsupported("LATERAL")
        if from_ is None:
            relation = self._binder.environment.rows_relation
            return f" FROM {names.quoted(relation)}" if relation else ""
        sql = self._joined(from_.this)
        for join in joins:
            sql = self._join(sql, join)
        return f" FROM {sql}" if sql else ""

    def _joined(self, node: Any) -> str:
        """Return one item of FROM, with the joins that hang on it."""
        sql = self._source(node)
        for join in node.args.get("joins") or ():
            sql = self._join(sql, join)
        return sql

    def _join(self, left: str, join: exp.Join) -> str:
        side, kind, method = (
            str(join.args.get(name) or "").upper() for name in ("side", "kind", "method")
        )
        if kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
            raise errors.unsupported(f"{method} {side} {kind} JOIN".strip())
        if join.args.get("match_condition") is not None or join.args.get("global_"):
            raise errors.unsupported("ASOF JOIN")
        before = len(self._scope.sources)
        right = self._joined(join.this)
        conditions = []
        shared = self._shared(join, before, natural=method == "NATURAL")
        if shared:
            conditions += self._merge(shared, before, side)
        on = join.args.get("on")
        if on is not None:
            conditions.append(self._filter(on).sql)
        if side in ("LEFT", "RIGHT", "FULL"):
            self._outer_join = True
            self._make_nullable(side, before)
            if not conditions:
                raise errors.unsupported(f"{side} JOIN without a condition")
            return f"{left} {side} JOIN {right} ON {' AND '.join(conditions)}"
        if not conditions:
            return f"{left} CROSS JOIN {right}"
        return f"{left} INNER JOIN {right} ON {' AND '.join(conditions)}"

    def _shared(self, join: exp.Join, before: int, *, natural: bool) -> list[names.Ident]:
        if natural:
            left = {
                names.shown(column.stored)
                for source in self._scope.sources[:before]
                for column in source.columns
            }
            return [
                names.Ident(text=names.shown(column.stored), quoted=True)
                for source in self._scope.sources[before:]
                for column in source.columns
                if names.shown(column.stored) in left
            ]
        return [columns.ident(item) for item in join.args.get("using") or ()]

    def _merge(self, shared: list[names.Ident], before: int, side: str) -> list[str]:
        conditions = []
        for ident in shared:
            ours = self._side_column(ident, slice(None, before), allow_merged=True)
            theirs = self._side_column(ident, slice(before, None), allow_merged=False)
            conditions.append(rewrites.compare(ours, theirs, "=").sql)
            if side == "RIGHT":
                kept = theirs
            elif side == "FULL":
                kept = rewrites.coalesce([ours, theirs])
            else:
                kept = ours
            self._scope.merged[ident.folded] = kept
            for source in self._scope.sources[before:]:
                source.hidden.add(names.shown(self._stored(source, ident) or ""))
            if side == "RIGHT":
                continue
        return conditions

    def _side_column(self, ident: names.Ident, part: slice, *, allow_merged: bool) -> Bound:
        if allow_merged and ident.folded in self._scope.merged:
            return self._scope.merged[ident.folded]
        found = []
        for source in self._scope.sources[part]:
            stored = [column.stored for column in source.columns]
            found += [source.columns[index].bound for index in names.find(ident, stored)]
        if len(found) > 1:
            raise errors.ambiguous_column(ident.folded)
        if not found:
            raise errors.invalid_identifier(ident.folded)
        return found[0]

    @staticmethod
    def _stored(source: Source, ident: names.Ident) -> str | None:
        matches = names.find(ident, [column.stored for column in source.columns])
        return source.columns[matches[0]].stored if matches else None

    def _make_nullable(self, side: str, before: int) -> None:
        sources = self._scope.sources
        touched = {"LEFT": sources[before:], "RIGHT": sources[:before], "FULL": sources}[side]
        for source in touched:
            source.columns = [
                dataclasses.replace(column, bound=dataclasses.replace(column.bound, nullable=True))
                for column in source.columns
            ]

    def _source(self, node: Any) -> str:
        match node:
            case exp.Table():
                return self._table(node)
            case exp.Subquery():
                if isinstance(node.this, exp.Table):
                    return self._parenthesised(node)
                return self._derived(node, self._binder.query(_bare(node), self._scope.for_from))
            case exp.Values():
                text = self._binder.values(node, self._scope.for_from)
                return self._derived(node, text)
            case exp.Lateral():
                raise errors.unsupported("LATERAL")
        raise errors.unsupported(f"FROM {expressions.construct_name(node)}")

    def _parenthesised(self, node: exp.Subquery) -> str:
        if node.args.get("alias") is not None:
            raise errors.unsupported("alias of joined tables")
        inner = node.this
        return f"({self._joined(inner)})"

    def _derived(self, node: Any, text: Text) -> str:
        _refuse_table_clauses(node, {"this", "alias", "expressions", "joins"})
        alias = node.args.get("alias")
        ident = columns.ident(alias.this) if alias is not None and alias.this else None
        listed = (
            [columns.ident(item) for item in (alias.args.get("columns") or ())]
            if (alias is not None)
            else []
        )
        text = _renamed(text, listed)
        unique = names.quoted(self._binder.alias(ident.folded if ident else "query"))
        self._add_source((ident,) if ident else (), unique, text)
        return f"({text.sql}) AS {unique}"

    def _add_source(self, path: tuple[names.Ident, ...], unique: str, text: Text) -> None:
        found = [
            Column(
                stored=output.name,
                bound=Bound(
                    sql=f"{unique}.{names.quoted(output.unique)}",
                    type=output.type,
                    nullable=output.nullable,
                    origin=None,
                ),
            )
            for output in text.outputs
        ]
        self._check_alias(path)
        self._scope.sources.append(Source(path=path, columns=found, rows=text.rows))

    def _check_alias(self, path: tuple[names.Ident, ...]) -> None:
        if path and any(
            source.path
            and source.path[-1].folded == path[-1].folded
            and len(source.path) == 1
            and len(path) == 1
            for source in self._scope.sources
        ):
            raise errors.SqlError(
                "002028",
                "42601",
                f"SQL compilation error:\nduplicate alias '{path[-1].folded}'",
                phase="COMPILATION",
            )

    def _table(self, node: exp.Table) -> str:
        _refuse_table_clauses(node, {"this", "db", "catalog", "alias", "when", "joins"})
        alias = node.args.get("alias")
        alias_ident = columns.ident(alias.this) if alias is not None and alias.this else None
        listed = (
            [columns.ident(item) for item in (alias.args.get("columns") or ())]
            if (alias is not None)
            else []
        )
        if USE in node.meta:
            return self._stored_table(node, node.meta[USE], alias_ident, listed)
        if isinstance(node.this, exp.Anonymous):
            raise errors.unsupported(f"table function {_table_function(node).this!s}".upper())
        name = columns.ident(node.this)
        found = self._scope.common_table(name.folded)
        if found is None:
            return self._dual(alias_ident)
        unique_name, text = found
        text = _renamed(text, listed)
        unique = names.quoted(self._binder.alias((alias_ident or name).folded))
        self._add_source((alias_ident or name,), unique, text)
        return f"{names.quoted(unique_name)} AS {unique}"

    def _dual(self, alias: names.Ident | None) -> str:
        unique = names.quoted(self._binder.alias("DUAL"))
        path = (alias or names.Ident(text="DUAL"),)
        self._scope.sources.append(Source(path=path, columns=[], rows=1))
        return f'(SELECT 1 AS "DUMMY") AS {unique}'

    def _stored_table(
        self,
        node: exp.Table,
        use: int,
        alias: names.Ident | None,
        listed: list[names.Ident],
    ) -> str:
        shape = self._binder.environment.tables[use]
        unique = names.quoted(self._binder.alias(alias.folded if alias else shape.path[2]))
        stored = [column.name for column in shape.columns]
        if listed:
            if len(listed) != len(stored):
                raise errors.unsupported("column list of another length than its table")
            stored = [ident.folded for ident in listed]
        found = [
            Column(
                stored=name,
                bound=Bound(
                    sql=f"{unique}.{names.quoted(column.name)}",
                    type=column.type,
                    nullable=column.nullable,
                    origin=(use, index),
                ),
            )
            for index, (name, column) in enumerate(zip(stored, shape.columns, strict=True))
        ]
        path = (
            (alias,)
            if alias is not None
            else tuple(names.Ident(text=part, quoted=True) for part in shape.path)
        )
        self._check_alias(path)
        self._scope.sources.append(Source(path=path, columns=found, rows=shape.rows))
        return f"{names.quoted(shape.relation)} AS {unique}"

    # The select list

    def _select_list(self) -> list[tuple[str, Any]]:
        """Return (name, tree or Bound) of each item, stars spread out; fill in the aliases."""
        found: list[tuple[str, Any]] = []
        for node in self._tree.expressions:
            star = (
                node
                if isinstance(node, exp.Star)
                else (
                    node.this
                    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
                    else None
                )
            )
            if star is not None:
                found += self._star(node, star)
                continue
            if isinstance(node, exp.Alias):
                name = columns.ident(node.args["alias"]).folded
                self._scope.aliases.setdefault(name, node.this)
                found.append((name, node.this))
                continue
            found.append((self._own_name(node), node))
        return found

    def _own_name(self, node: Any) -> str:
        plain = node.unnest() if isinstance(node, exp.Paren) else node
        if isinstance(plain, exp.Column) and isinstance(plain.this, exp.Identifier):
            bound = self._scope.local(
                columns.ident(plain.this),
                tuple(
                    columns.ident(part)
                    for part in (
                        plain.args.get("catalog"),
                        plain.args.get("db"),
                        plain.args.get("table"),
                    )
                    if part
                ),
            )
            if bound is not None and bound.origin is not None:
                use, index = bound.origin
                column = self._binder.environment.tables[use].columns[index]
                ident = columns.ident(plain.this)
                if names.find(ident, [column.name]):
                    return names.shown(column.name)
            return columns.ident(plain.this).folded
        text = node.meta.get(grammar.TEXT) or node.sql("snowflake")
        return str(text).upper() if not _has_quotes(text) else _upper_outside_quotes(str(text))

    def _star(self, node: Any, star: exp.Star) -> list[tuple[str, Any]]:
        if star.args.get("ilike") is not None:
            raise errors.unsupported("* ILIKE")
        sources = self._scope.sources
        qualified = isinstance(node, exp.Column)
        if qualified:
            path = tuple(
                columns.ident(part)
                for part in (
                    node.args.get("catalog"),
                    node.args.get("db"),
                    node.args.get("table"),
                )
                if part
            )
            sources = [source for source in sources if _qualifies(path, source.path)]
            if not sources:
                raise errors.invalid_identifier(names.dotted(path))
        spread = []
        for source in sources:
            for column in source.columns:
                name = names.shown(column.stored)
                if not qualified and name in source.hidden:
                    continue
                bound = column.bound
                if not qualified and name in self._scope.merged:
                    bound = self._scope.merged[name]
                spread.append((name, bound))
        if not spread:
            raise errors.unsupported("SELECT * without a table")
        return self._changed_star(star, spread)

    def _changed_star(
        self, star: exp.Star, spread: list[tuple[str, Bound]]
    ) -> list[tuple[str, Any]]:
        excluded = [columns.ident(item) for item in _listed(star.args.get("except_"))]
        replaced = {
            columns.ident(item.args["alias"]).folded: item.this
            for item in star.args.get("replace") or ()
        }
        renamed = {
            columns.ident(item.this).folded: columns.ident(item.args["alias"]).folded
            for item in star.args.get("rename") or ()
        }
        known = [name for name, _ in spread]
        for ident in excluded:
            if not names.find(ident, known):
                raise errors.invalid_identifier(ident.folded)
        gone = {index for ident in excluded for index in names.find(ident, known)}
        for name in (*replaced, *renamed):
            if name not in known:
                raise errors.invalid_identifier(name)
        return [
            (renamed.get(name, name), replaced.get(name, bound))
            for index, (name, bound) in enumerate(spread)
            if index not in gone
        ]

    def _bound_item(self, node: Any) -> Bound:
        if isinstance(node, Bound):
            return node
        return expressions.bind(node, self._scope)

    def _outputs(self, items: list[tuple[str, Bound]]) -> tuple[list[Output], list[str]]:
        outputs, listed, taken = [], [], set()
        for name, item in items:
            if item.type.kind == "interval":
                raise errors.unsupported("INTERVAL as a result")
            unique, number = name or "column", 1
            while unique in taken:
                number += 1
                unique = f"{name}#{number}"
            taken.add(unique)
            kind = item.type
            sql = item.sql
            if kind.kind == "null":
                kind, sql = sqltypes.TEXT, bounds.null(sqltypes.TEXT).sql
            outputs.append(
                Output(
                    name=name,
                    unique=unique,
                    type=kind,
                    nullable=item.nullable,
                    origin=item.origin,
                )
            )
            listed.append(f"{sql} AS {names.quoted(unique)}")
        return outputs, listed

    # Clauses

    def _where(self) -> Bound | None:
        where = self._tree.args.get("where")
        if where is None:
            return None
        parts = []
        for node in _conjuncts(where.this):
            part = self._filter(node)
            if part.aggregate or part.window:
                raise errors.SqlError(
                    "002035",
                    "42601",
                    "SQL compilation error:\nInvalid aggregate or window function in WHERE clause",
                    phase="COMPILATION",
                )
            parts.append(part)
            self._note_filter(node)
        sql = " AND ".join(part.sql for part in parts)
        return bounds.derived(f"({sql})", sqltypes.BOOLEAN, parts)

    def _note_filter(self, node: Any) -> None:
        own = self._scope.uses
        for use, condition in predicates.conditions(
            node, self._scope, null_rejecting=self._outer_join
        ):
            # A name of an outer query filters no rows there.
            if use in own:
                self._binder.filters.setdefault(use, []).append(condition)

    def _condition(self, clause: str) -> Bound | None:
        node = self._tree.args.get(clause)
        if node is None:
            return None
        return self._filter(node.this)

    def _filter(self, node: Any) -> Bound:
        self._scope.is_filtering = True
        try:
            return rewrites.as_boolean(expressions.bind(node, self._scope))
        finally:
            self._scope.is_filtering = False

    def _group_by(self, items: list[Bound]) -> str:
        group = self._tree.args.get("group")
        if group is None:
            return ""
        for name in ("totals",):
            if group.args.get(name):
                raise errors.unsupported(f"GROUP BY {name.upper()}")
        if group.args.get("all"):
            keys = [
                item.sql for item in items if not (item.aggregate or item.window or item.is_literal)
            ]
            return f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
        nodes = list(group.expressions)
        for name in ("rollup", "cube", "grouping_sets"):
            nodes += group.args.get(name) or ()
        parts = [part for node in nodes if (part := self._group_part(node, items)) is not None]
        if not parts:
            # Only constants: one group, if there is a row at all.
            return " GROUP BY arrow_cast(NULL, 'Int64')" if group.expressions else ""
        return f" GROUP BY {', '.join(parts)}"

    def _group_part(self, node: Any, items: list[Bound]) -> str | None:
        word = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}.get(type(node))
        if word is not None:
            keys = [self._group_key(item, items) for item in node.expressions]
            return f"{word} ({', '.join(key for key in keys if key)})"
        if isinstance(node, exp.GroupingSets):
            sets = [self._grouping_set(item, items) for item in node.expressions]
            return f"GROUPING SETS ({', '.join(sets)})"
        return self._group_key(node, items)

    def _grouping_set(self, node: Any, items: list[Bound]) -> str:
        inner = (
            node.expressions
            if isinstance(node, exp.Tuple)
            else [node.unnest() if isinstance(node, exp.Paren) else node]
        )
        keys = [self._group_key(item, items) for item in inner]
        return f"({', '.join(key for key in keys if key)})"

    def _group_key(self, node: Any, items: list[Bound]) -> str | None:
        place = _ordinal(node, len(items))
        found = items[place - 1] if place is not None else expressions.bind(node, self._scope)
        if found.aggregate or found.window:
            raise errors.SqlError(
                "002036",
                "42601",
                "SQL compilation error:\nInvalid aggregate function in GROUP BY clause",
                phase="COMPILATION",
            )
        return None if found.is_literal else found.sql

    def _order(self, items: list[Bound], outputs: list[Output]) -> str:
        order = self._tree.args.get("order")
        if order is None:
            return ""
        written = []
        for item in order.expressions:
            place = self._order_place(item.this, items, outputs)
            if place is not None:
                written.append(f"{place}{expressions.direction(item)}")
                continue
            key = expressions.bind(item.this, self._scope)
            if not key.is_literal:
                written.append(f"{key.sql}{expressions.direction(item)}")
        return f" ORDER BY {', '.join(written)}" if written else ""

    def _order_place(self, node: Any, items: list[Bound], outputs: list[Output]) -> int | None:
        place = _ordinal(node, len(outputs))
        if place is not None:
            return place
        if (
            isinstance(node, exp.Column)
            and not node.args.get("table")
            and isinstance(node.this, exp.Identifier)
        ):
            matches = names.find(columns.ident(node.this), [output.name for output in outputs])
            if matches:
                return matches[0] + 1
        bound = expressions.bind(node, self._scope)
        return next((index + 1 for index, item in enumerate(items) if item.sql == bound.sql), None)


CLAUSES = {
    "with_",
    "expressions",
    "distinct",
    "from_",
    "joins",
    "laterals",
    "where",
    "group",
    "having",
    "qualify",
    "order",
    "limit",
    "offset",
}


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _bare(node: exp.Subquery) -> Any:
    """Return what is inside a FROM item's parentheses."""
    return node.this


def _refuse_table_clauses(node: Any, known: set[str]) -> None:
    for name, value in node.args.items():
        if value and name not in known:
            word = {"sample": "SAMPLE", "pivots": "PIVOT or UNPIVOT"}.get(
                name, name.rstrip("_").upper()
            )
            raise errors.unsupported(word)


def _conjuncts(node: Any) -> list[Any]:
    found, stack = [], [node]
    while stack:
        item = stack.pop()
        if isinstance(item, exp.And):
            stack += [item.expression, item.this]
        elif isinstance(item, exp.Paren):
            stack.append(item.this)
        else:
            found.append(item)
    return found


def _has_quotes(text: str) -> bool:
    return "'" in text or '"' in text


def _upper_outside_quotes(text: str) -> str:
    found, quote = [], ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
            found.append(char)
        else:
            quote = char if char in "'\"" else ""
            found.append(char.upper())
    return "".join(found)
