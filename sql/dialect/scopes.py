"""rule: resolves the names of one SELECT: its sources, its WITH, its select list, outer queries.

A scope looks a column up in its own sources first, then among the aliases of its select list, then
in the outer query. The binder of the statement binds the queries inside expressions.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from sqlglot import exp

from sql import errors
from sql.dialect import (
    builders,
    casts,
    columns,
    comparisons,
    expressions,
    functions,
    hints,
    names,
    shapes,
    sqltypes,
)
from sql.plan import code, correlations, emit, gates, lookups, relations, row_numbers
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """A column of a query. name: as Snowflake reports it. unique: its name in the engine.

    is_named: it is a column or has an alias; else its name is only its expression's text.
    is_null: it is NULL in every row, and has its type only for want of another.
    is_quoted: of a view, the stored name is shown as it is.
    """

    name: str
    unique: str
    type: sqltypes.SqlType
    nullable: bool
    origin: tuple[int, int] | None = None
    is_named: bool = True
    is_null: bool = False
    is_quoted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedQuery:
    """A bound query: its plan and its columns. rows: at most.

    is_correlated: it names columns of a query around it. is_transparent: a condition on its columns
    could as well stand in its own WHERE, so that it prunes the files of the tables inside.
    constants: the one row's values, where all of them are known. counted: the table use whose rows
    each column counts, where that is all the query does. relations: of a common table expression,
    how many relations the engine reads for it wherever it is named. is_volatile: of a common table
    expression, its rows are others each time that the engine computes it.
    """

    rel: relations.Rel
    outputs: tuple[Output, ...]
    rows: int | None = None
    is_correlated: bool = False
    is_transparent: bool = False
    constants: tuple[Any, ...] | None = None
    counted: int | None = None
    relations: int = 1
    is_volatile: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeColumn:
    """A name that can be looked up in a scope. name: as its table stores it, or as it is shown.

    unread: its Iceberg type, if SQL does not read the values (`readable`). is_quoted: a stored name
    is shown as it is.
    """

    name: str
    bound: Expr
    unread: str = ""
    is_quoted: bool = False


def readable(name: str, column: ScopeColumn) -> Expr:
    """Return the value of a column of that name; raises SqlError if SQL does not read it."""
    if column.unread:
        raise errors.unread_column(name, column.unread)
    return column.bound


@dataclass(kw_only=True, slots=True)
class FromItem:
    """One item of FROM; mutable, joins change it. path: how it is qualified, own name last.

    sequence: the number of the row, of a GENERATOR. is_stored: the names of the columns are those
    of a stored table or view; else they are those that Snowflake reports.
    """

    path: tuple[names.Ident, ...]
    columns: list[ScopeColumn]
    hidden: set[str] = field(default_factory=set)
    rows: int | None = None
    sequence: Expr | None = None
    is_stored: bool = False

    def find(self, ident: names.Ident, *, exactly: bool = False) -> list[ScopeColumn]:
        """Return the columns to which a name refers. exactly: of a query's, none in other case."""
        own = [column.name for column in self.columns]
        if self.is_stored:
            places = names.find(ident, own)
        else:
            places = names.find_shown(ident, own)
            if exactly:
                places = [place for place in places if own[place] == ident.folded]
        return [self.columns[place] for place in places]

    def make_nullable(self) -> None:
        self.columns = [
            dataclasses.replace(column, bound=dataclasses.replace(column.bound, nullable=True))
            for column in self.columns
        ]

    def shown(self, column: ScopeColumn) -> str:
        """Return the name that results report for one of the columns."""
        is_folded = self.is_stored and not column.is_quoted
        return names.shown(column.name) if is_folded else column.name


def uses_of(sources: Iterable[FromItem]) -> set[int]:
    """Return the table uses to which the columns of items of FROM belong."""
    return {
        column.bound.origin[0]
        for source in sources
        for column in source.columns
        if column.bound.origin is not None
    }


def _hint(wanted: names.Ident, path: tuple[names.Ident, ...], visited: Iterable[QueryScope]) -> str:
    """Return what may have been meant by a name that no scope has; "" if that is unclear."""
    sources = [source for scope in visited for source in scope.sources]
    columns_near = [
        source.shown(column)
        for source in sources
        if not path or qualifies(path, source.path)
        for column in source.columns
        if column.name != shapes.ROW
    ]
    meant = hints.near(wanted.folded, columns_near)
    if meant is not None:
        shown = meant if names.PLAIN_UPPER.fullmatch(meant) else names.quoted(meant)
        return f"did you mean {shown}?"
    return "a text stands in single quotes" if wanted.quoted and not path else ""


class PivotWanted(Exception):
    """A PIVOT needs the values that a query gives, before the statement can be bound."""

    def __init__(self, number: int, query: PlannedQuery) -> None:
        super().__init__(number)
        self.number = number
        self.query = query


Common: TypeAlias = relations.Common


class NameBinder(Protocol):
    """The binder's methods that a scope uses."""

    @property
    def environment(self) -> shapes.Environment: ...

    relations: int
    volatile_parts: int  # so far
    wait_seconds: int
    generated_rows: int

    @property
    def drawn(self) -> frozenset[str]:
        """The WITH expressions that are computed before the query."""

    def draw(self, common: Common, visible: Sequence[Common]) -> str: ...

    def is_view(self, use: int) -> bool: ...

    def view(self, use: int) -> PlannedQuery | None: ...

    def alias(self, wanted: str) -> str: ...

    def written(self, part: code.Part) -> code.Part: ...

    def add_relations(self, count: int) -> None: ...

    def add_columns(self, count: int) -> None: ...

    def query(self, tree: Any, parent: QueryScope | None) -> PlannedQuery: ...

    def with_one_zero(self, query: PlannedQuery) -> PlannedQuery: ...

    def converted(
        self, query: PlannedQuery, targets: Sequence[sqltypes.SqlType]
    ) -> PlannedQuery: ...


class QueryScope:
    """The names of one SELECT: its sources, its WITH, its select list; then its parent's."""

    def __init__(self, *, binder: NameBinder, parent: QueryScope | None) -> None:
        self.binder = binder
        self.parent = parent
        self.sources: list[FromItem] = []
        self.merged: dict[str, Expr] = {}
        self.common: dict[str, tuple[str, PlannedQuery]] = {}
        self.common_queries: list[relations.Common] = []
        self.aliases: dict[str, Any] = {}
        self.bound_aliases: dict[str, Expr] = {}
        self._binding: set[str] = set()
        self.is_filtering = False
        self.is_grouping = False
        self.lacks_keys = False
        self.is_correlated = False
        self.has_full_join = False
        self.numbered_rows = ""
        """The alias of the rows that an aggregate numbers (`sql.plan.row_numbers`)."""
        self.scans: dict[str, relations.TableScan] = {}
        """Stored tables of FROM that have their columns' own names, by alias."""

    @property
    def uses(self) -> set[int]:
        """The table uses whose rows this scope joins itself."""
        return uses_of(self.sources)

    @property
    def environment(self) -> shapes.Environment:
        return self.binder.environment

    @property
    def rows(self) -> int | None:
        """An upper bound of the number of rows of FROM; None if there is none."""
        row_count = 1
        for source in self.sources:
            if source.rows is None:
                return None
            # A FULL JOIN has the rows of both sides that match none: at most l * r + l + r.
            row_count *= source.rows + 1 if self.has_full_join else max(source.rows, 1)
        return row_count

    @property
    def for_from(self) -> QueryScope:
        """The scope of a query in FROM: it sees WITH and outer names, not its neighbours."""
        child = QueryScope(binder=self.binder, parent=self.parent)
        child.common, child.common_queries = self.common, self.common_queries
        return child

    def lack_keys(self) -> None:
        """Take each value for one that may be NULL, as keys are in rows of ROLLUP and its like."""
        self.lacks_keys = True
        for source in self.sources:
            source.make_nullable()
        self.merged = {
            name: dataclasses.replace(bound, nullable=True) for name, bound in self.merged.items()
        }

    # Names

    def column(self, node: exp.Column) -> Expr:
        """Return the column to which a name resolves; raises SqlError 000904 or 002028."""
        if isinstance(node.this, exp.Parameter) and node.this.name.isdecimal():
            return self._numbered(int(node.this.name), node.args.get("table"))
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
            column = scope.local(wanted, path)
            if column is not None:
                for inner in passed:
                    inner.is_correlated = True
                return column
            passed.append(scope)
            scope = scope.parent
        raise errors.invalid_identifier(
            names.dotted((*path, wanted)), **hints.place(node), hint=_hint(wanted, path, passed)
        )

    def outer(self, bound: Expr) -> Expr:
        """Return an expression that the scope around this one has bound."""
        if emit.relations_of(bound):
            self.is_correlated = True
        return bound

    def _numbered(self, number: int, table: Any) -> Expr:
        """Return the column of FROM with that number from 1: `$1`, or `t.$1`."""
        path = () if table is None else (columns.ident(table),)
        sources = [source for source in self.sources if qualifies(path, source.path)]
        if len(sources) > 1:
            raise errors.ambiguous_column(f"${number}")
        if not sources or not 1 <= number <= len(sources[0].columns):
            raise errors.invalid_identifier(f"${number}")
        column = sources[0].columns[number - 1]
        return readable(sources[0].shown(column), column)

    def local(self, wanted: names.Ident, path: tuple[names.Ident, ...]) -> Expr | None:
        """Return the column of a name in this scope alone: a source's column, then an alias."""
        column = self.from_sources(wanted, path)
        if column is None and not path:
            column = self.from_aliases(wanted)
        return column

    def from_sources(self, wanted: names.Ident, path: tuple[names.Ident, ...]) -> Expr | None:
        """Return the column of FROM that a name refers to, None if there is none."""
        if not path and wanted.folded in self.merged:
            return self.merged[wanted.folded]
        place = self.place(wanted, path)
        return None if place is None else readable(place[0].shown(place[1]), place[1])

    def place(
        self, wanted: names.Ident, path: tuple[names.Ident, ...]
    ) -> tuple[FromItem, ScopeColumn] | None:
        """Return the source and the column of a name; raises SqlError if several have it."""
        sources = [each for each in self.sources if not path or qualifies(path, each.path)]
        for exactly in (True, False):
            places = [
                (source, column)
                for source in sources
                for column in source.find(wanted, exactly=exactly)
            ]
            if len(places) > 1:
                raise errors.ambiguous_column(names.dotted((*path, wanted)))
            if places:
                return places[0]
        return None

    def from_aliases(self, wanted: names.Ident) -> Expr | None:
        """Return the expression of SELECT with this alias, None if there is none."""
        name = wanted.folded
        if name in self.bound_aliases:
            return self.bound_aliases[name]
        if name not in self.aliases:
            return None
        if name in self._binding:
            return None
        self._binding.add(name)
        try:
            bound = expressions.bind(self.aliases[name], self)
        finally:
            self._binding.discard(name)
        self.bound_aliases[name] = bound
        return bound

    def star(self, node: Any, star: exp.Star) -> list[tuple[str, Any]]:
        """Return the names and columns of `*` or `t.*`; a replaced column is a tree."""
        sources = self.sources
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
            sources = [source for source in sources if qualifies(path, source.path)]
            if not sources:
                raise errors.invalid_identifier(names.dotted(path))
        spread = []
        hidden = star.args.get("hidden") or ()  # columns that a rule has added to FROM
        for source in sources:
            for column in source.columns:
                name = source.shown(column)
                if column.name == shapes.ROW or name in hidden:
                    continue
                if not qualified and name in source.hidden:
                    continue
                if not qualified and name in self.merged:
                    column = dataclasses.replace(column, bound=self.merged[name], unread="")
                spread.append((name, column))
        if not spread:
            raise errors.unsupported("SELECT * without a table")
        return self._changed_star(star, spread)

    def _changed_star(
        self, star: exp.Star, spread: list[tuple[str, ScopeColumn]]
    ) -> list[tuple[str, Any]]:
        like = star.args.get("ilike")
        if like is not None:
            if not isinstance(like, exp.Literal) or not like.is_string:
                raise errors.unsupported("* ILIKE of this form")
            pattern = _like_pattern(like.name)
            spread = [(name, column) for name, column in spread if pattern.fullmatch(name)]
            if not spread:
                raise errors.empty_select_list()
        excluded = [columns.ident(item) for item in _listed(star.args.get("except_"))]
        replaced = {
            columns.ident(item.args["alias"]).folded: item.this
            for item in _aliases(star, "replace")
        }
        renamed = {
            columns.ident(item.this).folded: columns.ident(item.args["alias"]).folded
            for item in _aliases(star, "rename")
        }
        column_names = [name for name, _ in spread]
        for ident in excluded:
            if not names.find_shown(ident, column_names):
                raise errors.invalid_identifier(ident.folded)
        gone = {index for ident in excluded for index in names.find_shown(ident, column_names)}
        for name in (*replaced, *renamed):
            if name not in column_names:
                raise errors.invalid_identifier(name)
        return [
            (
                renamed.get(name, name),
                replaced[name] if name in replaced else readable(name, column),
            )
            for index, (name, column) in enumerate(spread)
            if index not in gone
        ]

    def spread(self, node: Any) -> list[tuple[str, Expr]]:
        """Return the names and columns of `*` as arguments of a function."""
        star = node if isinstance(node, exp.Star) else node.this
        return [
            (name, item if isinstance(item, Expr) else expressions.bind(item, self))
            for name, item in self.star(node, star)
        ]

    def sequence(self) -> Expr:
        """Return the number of the row from 0: of the one GENERATOR in FROM, or of the SELECT."""
        if not self.sources:
            return exprs.integer(0)
        numbers = [source.sequence for source in self.sources if source.sequence is not None]
        if len(numbers) == 1:
            return numbers[0]
        rows = sqltypes.integer(19, 0, sqltypes.INT64_HIGH)
        if self.numbered_rows:
            column = code.ColumnUse(relation=self.numbered_rows, name=row_numbers.NUMBER)
            return Expr(code=column, type=rows, nullable=False)
        return Expr(code=row_number(), type=rows, nullable=False, window=True)

    def alone(self, query: PlannedQuery) -> PlannedQuery:
        """Return a query of this scope as a statement of its own, with the WITH that it needs."""
        common: list[relations.Common] = []
        scope: QueryScope | None = self
        while scope is not None:
            common = [*scope.common_queries, *common]
            scope = scope.parent
        if not common:
            return query
        if isinstance(query.rel, relations.With):
            raise errors.unsupported("WITH inside PIVOT ... IN (SELECT ...)")
        return dataclasses.replace(query, rel=relations.With(common=tuple(common), query=query.rel))

    @property
    def common_rels(self) -> dict[str, relations.Rel]:
        """The queries of WITH, of this scope and those around it, by the names of their scans."""
        rels: dict[str, relations.Rel] = {}
        scope: QueryScope | None = self
        while scope is not None:
            rels |= {each.name: each.query for each in scope.common_queries}
            scope = scope.parent
        return rels

    def common_table(self, name: str) -> tuple[str, PlannedQuery] | None:
        """Return a query of WITH, of this scope or one around it."""
        scope: QueryScope | None = self
        while scope is not None:
            if name in scope.common:
                return scope.common[name]
            scope = scope.parent
        return None

    # Queries inside expressions

    def scalar_query(self, node: Any) -> Expr:
        """Return the expression of a subquery of one column and at most one row."""
        volatile_parts = self.binder.volatile_parts
        query = self.binder.query(_inner(node), self)
        if len(query.outputs) != 1:
            raise errors.unsupported("scalar subquery of more than one column")
        output = query.outputs[0]
        if query.is_correlated and query.rows != 1:
            raise errors.subquery_unsupported()
        return Expr(
            code=self._of_one_row(query),
            type=output.type,
            nullable=True,
            is_volatile=self.binder.volatile_parts > volatile_parts,
        )

    def _of_one_row(self, query: PlannedQuery) -> code.Code:
        """Return the code of a query of one column and at most one row."""
        if not query.is_correlated:
            return self._joined(self._or_null(query))
        common, rel = relations.without_common(query.rel)
        return self._computed(rel, common)

    def _computed(self, rel: relations.Rel, common: tuple[relations.Common, ...]) -> code.Code:
        """Return the code of a correlated scalar subquery that has a WITH of these queries."""

        def subquery(part: relations.Rel) -> code.Code:
            return self._correlated(part, common)

        commons = self.common_rels | {each.name: each.query for each in common}
        value = gates.computed(rel, self._aliases, commons, subquery)
        return gates.completed(value, common) if common else value

    def _or_null(self, query: PlannedQuery) -> relations.Rel:
        """Return a query of one column with a row of NULL where it may have none.

        The engine takes the value for one that is never NULL if the query's column is.
        """
        if relations.has_row(query.rel):
            return query.rel
        (output,) = query.outputs
        alias = self.binder.alias("scalar")
        one = relations.Project(
            source=relations.OneRow(), items=relations.items([("one", code.part(1))])
        )
        joined = relations.Join(
            left=relations.Named(query=one, alias=self.binder.alias("one")),
            right=relations.Named(query=query.rel, alias=alias),
            side="LEFT",
            conditions=(code.TRUE,),
        )
        column = code.ColumnUse(relation=alias, name=output.unique)
        return relations.Project(source=joined, items=relations.items([(output.unique, column)]))

    def _correlated(self, rel: relations.Rel, common: tuple[relations.Common, ...]) -> code.Code:
        """Return a query as the engine joins it: it reads outer columns in comparisons alone."""
        rel = correlations.keyed(rel, self.binder.alias)
        looked_up = None if common else lookups.looked_up(rel, self.scans, self.binder.alias)
        return looked_up or self._joined(relations.with_common(common, gates.unfolded(rel)))

    def _joined(self, rel: relations.Rel) -> code.Code:
        """Return a query as the engine takes it in an expression."""
        if relations.starts_enclosed(rel):  # the engine parses "((" as the start of an expression
            named = relations.Named(query=rel, alias=self.binder.alias("scalar"))
            rel = relations.Project(source=named, keeps_all=True)
        return code.Subquery(query=rel)

    @property
    def _aliases(self) -> set[str]:
        """The relations whose columns a query inside this one can read."""
        aliases: set[str] = set()
        scope: QueryScope | None = self
        while scope is not None:
            for source in scope.sources:
                for column in source.columns:
                    aliases |= emit.relations_of(column.bound)
            scope = scope.parent
        return aliases

    def exists(self, node: Any) -> Expr:
        """Return the expression of EXISTS: a filter of the engine, elsewhere a count."""
        inner = _unlimited(_inner(node.this))
        if not self.is_filtering and _counts_plainly(inner):
            # The engine supports EXISTS only in filters; a count is equivalent.
            counted = inner.copy()
            counted.set("expressions", [exp.Anonymous(this="COUNT", expressions=[exp.Star()])])
            counted.set("order", None)
            some = code.infix(self._of_one_row(self.binder.query(counted, self)), ">", 0)
            return Expr(code=some, type=sqltypes.BOOLEAN, nullable=False)
        query = self.binder.query(inner, self)
        rel = query.rel
        if query.is_correlated:
            common, rel = relations.without_common(rel)
            # The engine forgets OFFSET, and the row that grouping sets have of no rows.
            if (
                relations.has_offset(rel)
                or relations.has_grouping_sets(rel)
                or not correlations.windows_are_apart(rel)
            ):
                raise errors.subquery_unsupported()
            group = gates.one_group(rel)
            if group is not None:
                return self._existing_group(group, common)
            rel = rel.source if isinstance(rel, relations.Sort) else rel
            rel = relations.with_common(common, rel)
        if self.is_filtering:
            exists = code.Prefix(word="EXISTS", operand=code.Subquery(query=rel))
            return Expr(code=exists, type=sqltypes.BOOLEAN, nullable=False)
        named = relations.Named(query=rel, alias=self.binder.alias("exists"))
        row_count = relations.ProjectItem(value=code.call("count", code.ALL_COLUMNS))
        counting = relations.Project(source=relations.Aggregate(source=named), items=(row_count,))
        some = code.infix(code.Subquery(query=counting), ">", 0)
        return Expr(code=some, type=sqltypes.BOOLEAN, nullable=False)

    def _existing_group(self, group: gates.OneGroup, common: tuple[relations.Common, ...]) -> Expr:
        """Return EXISTS of a query that aggregates all rows: only its HAVING can leave no row."""
        some: code.Code = code.TRUE
        if group.having is not None:
            value = self._computed(group.project(code.part(1)), common)
            some = code.not_(code.is_null(value))
        return Expr(code=some, type=sqltypes.BOOLEAN, nullable=False)

    def in_query(self, operands: list[Expr], node: Any, *, negated: bool, only_true: bool) -> Expr:
        """Return IN or NOT IN. only_true: in a filter, false may stand for NULL."""
        volatile_parts = self.binder.volatile_parts
        query = self.binder.query(_inner(node), self)
        if len(query.outputs) != len(operands):
            raise errors.unsupported("IN (SELECT ...) of another number of columns")
        if len(operands) > 1:
            return self._row_in_query(operands, query, negated=negated, only_true=only_true)
        output = query.outputs[0]
        sql_type = sqltypes.unified([operands[0].type, output.type])
        if sql_type is None or sql_type.name == "null":
            raise errors.unsupported("IN (SELECT ...) of another type")
        if sql_type.name == "timestamp_tz":  # instants are compared, whatever their offsets are
            sql_type = sqltypes.TIMESTAMP_LTZ
        operand = casts.implicit(operands[0], sql_type)
        if query.is_correlated or not self._is_exact(operand, output, negated, only_true):
            if self.binder.volatile_parts > volatile_parts:
                raise errors.repeated_volatile()
            if operand.aggregate or operand.window:
                raise errors.subquery_unsupported()
            casts.check_stable(operand)
            inner = _inner(node)
            if query.is_correlated and _has_one_row(inner):
                compared = comparisons.compare(
                    operand, self.scalar_query(inner), "<>" if negated else "="
                )
                return exprs.derived(compared.code, sqltypes.BOOLEAN, [operand], nullable=True)
            if query.is_correlated and self.is_filtering and only_true and _counts_plainly(inner):
                return self._existing_in_query(operand, inner, query, negated=negated)
            return self._counted_in_query(operand, inner, query, negated=negated)
        if not sqltypes.same_in_engine(output.type, sql_type):
            query = self.binder.converted(query, [sql_type])
        if sqltypes.holds_floats(sql_type):
            operand, query = casts.with_one_zero(operand), self.binder.with_one_zero(query)
        among = code.Among(
            operand=operand, members=(code.Subquery(query=query.rel),), negated=negated
        )
        return exprs.derived(among, sqltypes.BOOLEAN, operands, nullable=True)

    def _is_exact(self, operand: Expr, output: Output, negated: bool, only_true: bool) -> bool:
        """Whether the engine's own IN has the answer: it is never NULL, and is a join of the rows.

        In another place than `only_true` it is false for NULL; NOT IN of what is no column is true.
        """
        if not self.is_filtering:
            return False
        if not (operand.nullable or output.nullable):
            return True
        if operand.aggregate or operand.window:
            return only_true
        if not (only_true and negated):
            return only_true
        own = [emit.relations_of(source.columns[0].bound) for source in self.sources]
        return not emit.relations_of(operand).isdisjoint(set().union(*own))

    def _existing_in_query(
        self, operand: Expr, node: Any, query: PlannedQuery, *, negated: bool
    ) -> Expr:
        """Return IN (query), or false for NULL, by whether an equal row exists.

        NOT IN is true if no row is equal, and none may be: each NULL on either side may.
        """
        node, member = _member(node)
        value = expressions.Bound()
        value.meta[expressions.BOUND] = operand
        condition: Any = exp.EQ(this=member, expression=value)
        for side, nullable in ((member, query.outputs[0].nullable), (value, operand.nullable)):
            if negated and nullable:
                unknown = exp.Is(this=side.copy(), expression=exp.Null())
                condition = exp.Paren(this=exp.Or(this=condition, expression=unknown))
        rows = node.where(expressions.Unpruned(this=condition))
        rows.set("expressions", [exp.Literal.number(1)])
        rows.set("order", None)
        subquery = code.Subquery(query=self.binder.query(rows, self).rel)
        exists = code.Prefix(word="EXISTS", operand=subquery)
        computed = code.not_(exists) if negated else exists
        return exprs.derived(computed, sqltypes.BOOLEAN, [operand], nullable=False)

    def _counted_in_query(
        self, operand: Expr, node: Any, query: PlannedQuery, *, negated: bool
    ) -> Expr:
        """Return IN (query) by counts of rows: those that are equal, those that are NULL, and all.

        The engine takes IN in filters alone, and of a query that reads no column of an outer one.
        """
        if query.is_correlated and not _counts_plainly(node):
            raise errors.subquery_unsupported()
        node, member = _member(node)

        def count(*conditions: Any) -> Expr:
            counted = node.copy()
            counted.set("expressions", [exp.Anonymous(this="COUNT", expressions=[exp.Star()])])
            counted.set("order", None)
            for condition in conditions:
                counted = counted.where(expressions.Unpruned(this=condition), copy=False)
            return self.scalar_query(counted)

        value = expressions.Bound()
        value.meta[expressions.BOUND] = operand
        matching = count(exp.EQ(this=member.copy(), expression=value))
        is_null = code.exactly(code.NULL, sqltypes.BOOLEAN)
        whens: list[tuple[code.Argument, code.Argument]] = [
            (code.infix(matching, ">", 0), code.FALSE if negated else code.TRUE)
        ]
        if operand.nullable:
            some = code.infix(code.infix(count(), ">", 0), "AND", code.is_null(operand))
            whens.append((some, is_null))
        if query.outputs[0].nullable:
            unknown = count(exp.Is(this=member.copy(), expression=exp.Null()))
            whens.append((code.infix(unknown, ">", 0), is_null))
        computed = code.case(whens, code.TRUE if negated else code.FALSE)
        return exprs.derived(computed, sqltypes.BOOLEAN, [operand], nullable=True)

    def _row_in_query(
        self, operands: list[Expr], query: PlannedQuery, *, negated: bool, only_true: bool
    ) -> Expr:
        alias = self.binder.alias("rows")
        same = [
            comparisons.compare(
                operand,
                Expr(
                    code=code.ColumnUse(relation=alias, name=output.unique),
                    type=output.type,
                    nullable=output.nullable,
                ),
                "=",
            )
            for operand, output in zip(operands, query.outputs, strict=True)
        ]
        nullable = [part.nullable for part in operands] + [part.nullable for part in query.outputs]
        if any(nullable) and (negated or not only_true):
            raise errors.unsupported("IN of rows that may hold NULL, in NOT IN or in an expression")
        rows = relations.RowFilter(
            source=relations.Named(query=query.rel, alias=alias),
            condition=self.binder.written(code.joined(same, "AND")),
        )
        of_equal_rows = relations.Project(
            source=rows, items=(relations.ProjectItem(value=code.part(1)),)
        )
        exists = code.Prefix(word="EXISTS", operand=code.Subquery(query=of_equal_rows))
        return exprs.derived(code.not_(exists) if negated else exists, sqltypes.BOOLEAN, operands)

    # WITH

    def add_common_tables(self, with_: exp.With) -> tuple[relations.Common, ...]:
        """Return the WITH expressions of a query, which the scope can name from now on."""
        if with_.args.get("search") is not None:
            raise errors.unsupported("WITH ... SEARCH or CYCLE")
        recursive = bool(with_.args.get("recursive"))
        uses = _uses_of_names(with_.parent)
        start = len(self.common_queries)
        for node in with_.expressions:
            alias = node.args["alias"]
            name = columns.ident(alias.this).folded
            listed = [columns.ident(column) for column in alias.args.get("columns") or ()]
            unique = self.binder.alias(name)
            before, volatile_parts = self.binder.relations, self.binder.volatile_parts
            if _names_itself(node.this, name) if recursive else repeats(node.this, name):
                query = self._recursive(node.this, name, unique, listed)
            else:
                query = renamed(self.binder.query(node.this, self), listed)
            query = dataclasses.replace(
                query,
                is_transparent=query.is_transparent and uses[name] == 1,
                relations=max(1, self.binder.relations - before),
                is_volatile=self.binder.volatile_parts > volatile_parts,
            )
            column_names = tuple(output.unique for output in query.outputs)
            common = relations.Common(name=unique, columns=column_names, query=query.rel)
            if unique in self.binder.drawn:
                if query.is_correlated:
                    raise errors.repeated_volatile()
                unique = self.binder.draw(common, self._visible_queries())
                query = dataclasses.replace(query, relations=1, is_volatile=False)
            else:
                self.binder.relations = before  # counted where the name is used, each time
                self.common_queries.append(common)
            self.common[name] = (unique, query)
        return tuple(self.common_queries[start:])

    def _visible_queries(self) -> list[relations.Common]:
        """Return the WITH expressions that a query here may read, the outer ones first."""
        listed: list[relations.Common] = []
        scope: QueryScope | None = self
        while scope is not None:
            listed[:0] = scope.common_queries
            scope = scope.parent
        return listed

    def _recursive(
        self, tree: Any, name: str, unique: str, listed: list[names.Ident]
    ) -> PlannedQuery:
        if not isinstance(tree, exp.Union) or tree.args.get("distinct"):
            raise errors.unsupported("recursive WITH without UNION ALL")
        if tree.args.get("by_name"):
            raise errors.unsupported("recursive WITH of UNION ALL BY NAME")
        anchor = renamed(self.binder.query(tree.left, self), listed)
        # Types of the anchor hold for all rows; numbers may grow, so they are widened first.
        outputs = tuple(
            dataclasses.replace(output, type=_grown(output.type), nullable=True, origin=None)
            for output in anchor.outputs
        )
        sql_types = [output.type for output in outputs]
        is_correlated = anchor.is_correlated
        anchor = self.binder.converted(anchor, sql_types)
        self.common[name] = (unique, dataclasses.replace(anchor, outputs=outputs, rows=None))
        below = self.binder.query(tree.right, self)
        if is_correlated or below.is_correlated:
            raise errors.unsupported(CORRELATED_RECURSION)
        step = self.binder.converted(renamed(below, list(_plain_idents(outputs))), sql_types)
        rel = relations.Recursive(anchor=anchor.rel, step=step.rel)
        return PlannedQuery(rel=rel, outputs=outputs)


CORRELATED_RECURSION: Final = (
    "CONNECT BY or a recursive WITH that reads columns of a query around it"
)


def row_number() -> code.Code:
    """Return the number of a row from 0, as the engine comes to it."""
    row = code.FunctionUse(name="row_number", arguments=(), over=code.Window())
    return code.infix(code.exactly(row, sqltypes.integer()), "-", 1)


def _plain_idents(outputs: Sequence[Output]) -> Iterable[names.Ident]:
    return (names.Ident(text=output.name, quoted=True) for output in outputs)


def _grown(sql_type: sqltypes.SqlType) -> sqltypes.SqlType:
    if sql_type.is_integer:
        return sqltypes.integer(sqltypes.PRECISION_MAX)
    if sql_type.name == "text":
        return sqltypes.TEXT
    return sqltypes.TEXT if sql_type.name == "null" else sql_type


def _uses_of_names(tree: Any) -> Counter[str]:
    """Return the number of references to each name as a table, by folded name."""
    return Counter(
        columns.ident(table.this).folded
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not table.args.get("db")
    )


def repeats(query: Any, name: str) -> bool:
    """Whether a common table expression reads itself in the last branch of its UNION ALL alone."""
    return (
        isinstance(query, exp.Union)
        and not query.args.get("distinct")
        and _names_itself(query.right, name)
        and not _names_itself(query.left, name)
    )


def _names_itself(tree: Any, name: str) -> bool:
    return any(_is_table_named(table, name) for table in tree.find_all(exp.Table))


def _is_table_named(table: exp.Table, name: str) -> bool:
    return (
        isinstance(table.this, exp.Identifier)
        and not table.args.get("db")
        and columns.ident(table.this).folded == name
    )


def renamed(query: PlannedQuery, listed: list[names.Ident]) -> PlannedQuery:
    """Return a query whose columns have the listed names; without a list, the query itself."""
    if not listed:
        return query
    if len(listed) != len(query.outputs):
        raise errors.unsupported("column list of another length than its query")
    outputs = tuple(
        dataclasses.replace(output, name=ident.folded)
        for output, ident in zip(query.outputs, listed, strict=True)
    )
    return dataclasses.replace(query, outputs=outputs)


def _inner(node: Any) -> Any:
    while isinstance(node, exp.Subquery) and not (
        node.args.get("order") or node.args.get("limit") or node.args.get("offset")
    ):
        node = node.this
    return node


def _unlimited(node: Any) -> Any:
    """Return a SELECT without a LIMIT that lets one row through at least, to ask for any row."""
    limit = node.args.get("limit")
    if not isinstance(node, exp.Select) or not isinstance(limit, exp.Limit):
        return node
    count = limit.expression
    if node.args.get("offset") or not isinstance(count, exp.Literal) or not count.is_int:
        return node
    if int(count.name) < 1 or any(limit.args[name] for name in limit.args.keys() - {"expression"}):
        return node
    query = node.copy()
    query.set("limit", None)
    return query


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


def _has_one_row(node: Any) -> bool:
    """Whether a SELECT has one row whatever its FROM has: it aggregates without GROUP BY."""
    reducing = ("group", "having", "qualify", "limit", "offset")
    if not isinstance(node, exp.Select) or any(node.args.get(name) for name in reducing):
        return False
    return not (node.args.get("distinct") or _counts_plainly(node))


def _member(node: Any) -> tuple[Any, Any]:
    """Return a SELECT, and what stands in its WHERE for its one column.

    It is the query itself if it counts plainly, and another one's rows as a table.
    """
    if _counts_plainly(node):
        (item,) = node.expressions
        member = item.this if isinstance(item, exp.Alias) else item
        if not builders.is_star(member):
            return node, member
    rows = exp.Select(from_=exp.From(this=exp.Subquery(this=node)))
    return rows, exp.Column(this=exp.Parameter(this=exp.Var(this="1")))


def _aliases(star: exp.Star, word: str) -> list[exp.Alias]:
    """Return what stands after REPLACE or RENAME of a star: expressions with names."""
    items = star.args.get(word) or []
    if not all(isinstance(item, exp.Alias) for item in items):
        raise errors.unsupported(f"* {word.upper()} without AS")
    return items


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _like_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of LIKE for names, in which letters of both cases are the same."""
    parts = ({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in text)
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)


def check_alias(path: tuple[names.Ident, ...], sources: Sequence[FromItem]) -> None:
    """Raise SqlError if one of these sources has the same name already."""
    folded = [ident.folded for ident in path]
    if path and any([ident.folded for ident in source.path] == folded for source in sources):
        raise errors.SqlError(
            "002027",
            "42601",
            f"SQL compilation error:\nduplicate alias '{path[-1].folded}'",
            phase="COMPILATION",
        )


def qualifies(path: tuple[names.Ident, ...], source: tuple[names.Ident, ...]) -> bool:
    """Return whether path, the parts before a column's name, names the relation source."""
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
            FromItem(
                path=(),
                columns=[
                    ScopeColumn(
                        name=output.name,
                        bound=Expr(
                            code=code.ColumnUse(relation="", name=output.unique),
                            type=output.type,
                            nullable=output.nullable,
                        ),
                    )
                    for output in outputs
                ],
            )
        ]


def order_by(tree: Any, scope: OutputScope) -> tuple[code.SortKey, ...]:
    """Return the keys of ORDER BY of a query that is not a SELECT."""
    order = tree.args.get("order")
    if order is None:
        return ()
    keys: list[code.SortKey] = []
    for item in order.expressions:
        direction = expressions.direction(item)
        if is_all(order, scope.outputs):
            places = range(1, len(scope.outputs) + 1)
            keys += [_ordered(place, scope, direction) for place in places]
            continue
        place = ordinal(item.this, len(scope.outputs))
        if place is not None:
            keys.append(_ordered(place, scope, direction))
        else:
            key = expressions.sort_key(expressions.bind(item.this, scope))
            keys.append(code.SortKey(key=scope.binder.written(key), direction=direction))
    return tuple(keys)


def _ordered(place: int, scope: OutputScope, direction: str) -> code.SortKey:
    """Return the key of ORDER BY that is the output at a place from 1."""
    column = scope.sources[0].columns[place - 1].bound
    key = expressions.sort_key(column)
    return code.SortKey(key=code.part(place) if key is column else key, direction=direction)


def is_all(order: exp.Order, outputs: Sequence[Output]) -> bool:
    """Say whether an ORDER BY is ORDER BY ALL: by each output in turn, but for a column ALL."""
    if len(order.expressions) != 1:
        return False
    node = order.expressions[0].this
    return (
        isinstance(node, exp.Column)
        and not node.args.get("table")
        and isinstance(node.this, exp.Identifier)
        and not node.this.args.get("quoted")
        and node.name.upper() == "ALL"
        and all(output.name != "ALL" for output in outputs)
    )


def ordinal(node: Any, count: int) -> int | None:
    """Return the position that an item of ORDER BY or GROUP BY is, None if it is an expression."""
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
