"""rule: binds a query tree, with the shapes of its tables, to a plan, and writes its text.

`references` listed the tables of a text, and they were looked up; here every name is resolved. Each
reference to a table is a separate relation, with a unique alias in the engine. A construct that the
binder does not support is refused: no part of a tree reaches the engine unchecked.
"""

from __future__ import annotations

import dataclasses
import decimal
import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from sql import errors, kernelforms, kernels, limits, outcomes
from sql.dialect import (
    bound_rows,
    casts,
    changes,
    expressions,
    names,
    references,
    scopes,
    selects,
    shapes,
    sqltypes,
)
from sql.dialect.scopes import Output, OutputScope, PlannedQuery, QueryScope
from sql.plan import (
    code,
    drawings,
    emit,
    emit_spark,
    instants,
    naming,
    padding,
    predicates,
    relations,
    sharing,
    substitution,
)
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

NO_VIEWS: Final[Mapping[int, Any]] = types.MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A WITH expression whose rows are computed once, before the query that reads them.

    name: of the relation that the query reads. columns: the names of its columns, in the order of
    those of sql. Its text may read the drawings before it.
    """

    name: str
    columns: tuple[str, ...]
    sql: str
    functions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundQuery:
    """A bound query. filters: per table use, conditions that its rows must meet.

    unnamed: columns that are called by their expression's text alone. constants: the values of the
    one row, where the whole query is a SELECT of constants. counted: the table use whose rows each
    column counts, where the query is no more than that. row_count: of VALUES. wait_seconds: the
    longest TIMELIMIT of a GENERATOR, for which the query lasts. is_aggregate: most rows that it
    reads are grouped (`relations.groups_most`). generated_rows: of its GENERATORs. drawings: WITH
    expressions with RANDOM() and its like that it reads more than once, in order. spark: where it
    is wanted, the text in Spark's language. spark_refusal: the parts of the error that names what
    Spark cannot express instead.
    """

    sql: str
    columns: tuple[outcomes.Column, ...]
    types: tuple[sqltypes.SqlType, ...]
    functions: tuple[str, ...]
    filters: Mapping[int, tuple[predicates.Filter, ...]]
    bind_count: int
    unnamed: tuple[str, ...] = ()
    constants: tuple[Any, ...] | None = None
    counted: int | None = None
    row_count: int | None = None
    pivot: int | None = None
    wait_seconds: int = 0
    generated_rows: int = 0
    is_aggregate: bool = False
    drawings: tuple[Drawing, ...] = ()
    spark: str = ""
    spark_refusal: tuple[Any, ...] = ()

    @property
    def variants(self) -> tuple[int, ...]:
        """The indexes of the columns that hold VARIANTs as the engine has them."""
        return tuple(index for index, each in enumerate(self.types) if each.is_variant)


def bind_query(
    tree: Any,
    environment: shapes.Environment,
    views: Mapping[int, Any] = NO_VIEWS,
) -> BoundQuery:
    """Return tree bound; raises SqlError. The tree must have been through `references`.

    views: the trees of the views among the tables, by table use; they too.
    """

    def bind(binder: Binder) -> BoundQuery:
        try:
            query = binder.query(tree, None)
        except RecursionError:
            raise errors.unsupported("expression nested too deeply") from None
        except scopes.PivotWanted as wanted:
            bound = binder.finish(wanted.query, references.bind_count(tree))
            return dataclasses.replace(bound, pivot=wanted.number)
        bound = binder.finish(query, references.bind_count(tree))
        if not isinstance(tree, exp.Select):
            return bound
        return dataclasses.replace(bound, constants=query.constants, counted=query.counted)

    return _drawing(environment, views, bind)


def _drawing(
    environment: shapes.Environment,
    views: Mapping[int, Any],
    bind: Callable[[Binder], BoundQuery],
) -> BoundQuery:
    """Return what bind makes with a binder, which draws the WITH expressions that need it.

    Only as a query is bound it is known that a volatile WITH expression is computed more than once.
    It is bound anew then, with the rows of this one as a relation of its own.
    """
    drawn: frozenset[str] = frozenset()
    while True:
        binder = Binder(environment, views, drawn)
        try:
            return bind(binder)
        except errors.RepeatedVolatile:
            if not binder.repeated - drawn:
                raise
            drawn |= binder.repeated


def check_stable(condition: Any, tree: Any, environment: shapes.Environment) -> None:
    """Raise SqlError if a condition of tree, a SELECT, is volatile: it is computed repeatedly."""
    binder = Binder(environment, NO_VIEWS)
    chosen = tree.copy()
    chosen.set("where", None)
    chosen.set("expressions", [exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.true())])])
    binder.query(chosen, None)
    if binder.volatile_parts:
        raise errors.repeated_volatile()


def bind_into(
    tree: Any,
    environment: shapes.Environment,
    targets: Sequence[sqltypes.SqlType],
    views: Mapping[int, Any] = NO_VIEWS,
) -> BoundQuery:
    """Return tree bound, its columns converted to the targets' types like by INSERT.

    VALUES are converted cell by cell. With array binds, the query gives rows for each bound row
    (`bound_rows`). views: as for `bind_query`.
    """
    return _drawing(environment, views, lambda binder: _bound_into(binder, tree, targets))


def _bound_into(binder: Binder, tree: Any, targets: Sequence[sqltypes.SqlType]) -> BoundQuery:
    environment = binder.environment
    count = references.bind_count(tree)
    plain = [sqltypes.unpacked(target) for target in targets]
    try:
        if isinstance(tree, exp.Values) and not environment.rows_relation:
            scope = QueryScope(binder=binder, parent=None)
            rows = binder.values(tree, scope, plain)
            bound = binder.finish(binder.stored(rows, targets), count)
            return dataclasses.replace(bound, row_count=len(tree.expressions))
        if environment.rows_relation:
            tree = bound_rows.over_rows(tree)
        query = binder.query(tree, None)
        _check_width(len(query.outputs), len(targets))
        converted = binder.converted(query, plain, inserts=True)
        return binder.finish(binder.stored(converted, targets), count)
    except RecursionError:
        raise errors.unsupported("expression nested too deeply") from None


def bind_changes(
    tree: Any,
    environment: shapes.Environment,
    targets: Sequence[sqltypes.SqlType],
    views: Mapping[int, Any] = NO_VIEWS,
) -> BoundQuery:
    """Return the tree of a change bound; its values are converted as by INSERT.

    targets: the types of the assigned columns, in the order of the tree's values. views: as for
    `bind_query`.
    """
    if environment.rows_relation:
        raise errors.unsupported("array binds in another statement than INSERT")
    target = next(
        (table for table in environment.tables if _is_numbered(table)),
        None,
    )

    def source_columns(select: Any) -> list[str]:
        outputs = Binder(environment, views).query(select, None).outputs
        return [output.name for output in outputs]

    def bind(binder: Binder) -> BoundQuery:
        query = binder.query(tree, None)
        types = [*(output.type for output in query.outputs[:CHANGE_COLUMNS]), *targets]
        converted = binder.converted(query, [*map(sqltypes.unpacked, types)], inserts=True)
        return binder.finish(binder.stored(converted, types), references.bind_count(tree))

    try:
        if target is not None:
            own = [column.name for column in target.columns if column.name != shapes.ROW]
            tree = changes.with_columns_by_name(tree, own, source_columns)
        return _drawing(environment, views, bind)
    except RecursionError:
        raise errors.unsupported("expression nested too deeply") from None


def _is_numbered(table: shapes.TableShape) -> bool:
    """Return whether a table is the one that a statement changes."""
    return any(column.name == shapes.ROW for column in table.columns)


CHANGE_COLUMNS: Final = 2
"""The columns of a change's tree before its values: the row's number and the clause's."""


def _check_width(width: int, wanted: int) -> None:
    if width != wanted:
        raise errors.column_count_differs(wanted, width)


PIVOTED_TYPES = frozenset({"text", "fixed", "boolean", "date"})


class Binder:
    """One statement while it is bound: the state that its parts share."""

    def __init__(
        self,
        environment: shapes.Environment,
        views: Mapping[int, Any],
        drawn: frozenset[str] = frozenset(),
    ) -> None:
        self.environment = environment
        self.drawn = drawn
        self.repeated: set[str] = set()
        """The volatile WITH expressions that a refusal is about, or that are read so far."""
        self._drawings: list[relations.Common] = []
        self._views = views
        self.filters: dict[int, list[predicates.Filter]] = {}
        self.relations = 0
        self.volatile_parts = 0
        self.wait_seconds = 0
        self.generated_rows = 0
        self._columns = 0
        self._aliases = 0
        self._volatile_uses: dict[str, exp.Table] = {}
        self._pivots = 0

    def written(self, part: code.Part) -> code.Part:
        """Return a part of a relation; note whether it is volatile."""
        self.volatile_parts += emit.is_volatile(part)
        return part

    def use_volatile(self, name: str, node: exp.Table) -> None:
        """Note that a volatile common table expression is read at a node.

        Raises SqlError if it is read at another one too: the engine computes it for each of them,
        and its rows would differ.
        """
        if self._volatile_uses.setdefault(name, node) is not node:
            self.repeated = {name}
            raise errors.repeated_volatile()
        self.repeated.add(name)
        self.volatile_parts += 1

    def draw(self, common: relations.Common, visible: Sequence[relations.Common]) -> str:
        """Take a WITH expression out of the query, to be computed before it; return its relation.

        visible: the WITH expressions that it may read. Raises SqlError if it reads what only the
        query around it has.
        """
        tables = {table.relation for table in self.environment.tables}
        tables |= {each.name for each in self._drawings} | {self.environment.rows_relation}
        try:
            alone = drawings.alone(common, visible, tables)
        except drawings.NotAlone:
            raise errors.repeated_volatile() from None
        # The engine reads a name such as A#1, but not one with a colon, without regard to case.
        relation = f"with:{common.name}"
        self._drawings.append(dataclasses.replace(alone, name=relation))
        return relation

    def is_view(self, use: int) -> bool:
        """Return whether a table use refers to a view."""
        return use in self._views

    def view(self, use: int) -> PlannedQuery | None:
        """Return the query of the view that a table use refers to, bound; None for a table.

        Its columns have the view's stored names. The view sees no name, bind or variable of the
        statement. Raises SqlError for a query that no longer gives the columns of the view.
        """
        if use not in self._views:
            return None
        shape = self.environment.tables[use]
        shown = ".".join(names.shown(part) for part in shape.path)
        outer = self.environment
        self.environment = dataclasses.replace(outer, binds={}, variables={}, rows_relation="")
        try:
            query = self.query(self._views[use], QueryScope(binder=self, parent=None))
        except errors.SqlError as error:
            raise error.within_view(shown) from None
        finally:
            self.environment = outer
        if len(query.outputs) != len(shape.columns):
            raise errors.view_of_other_columns(shown, len(shape.columns), len(query.outputs))
        outputs = []
        for output, column in zip(query.outputs, shape.columns, strict=True):
            if column.type.name != output.type.name and not output.is_null:
                raise errors.view_column_differs(shown, column.shown)
            outputs.append(
                dataclasses.replace(
                    output,
                    name=column.name,
                    is_quoted=column.is_quoted,
                    is_named=True,
                    type=column.type if output.is_null else output.type,
                )
            )
        return dataclasses.replace(query, outputs=tuple(outputs), constants=None, counted=None)

    def pivot_values(self, tree: Any, scope: QueryScope) -> tuple[Any, ...]:
        """Return the values of a PIVOT that its query gives; raises PivotWanted for unknown ones.

        PIVOTs are numbered in the order in which they are bound, which is the same each time.
        """
        pivots = self.environment.pivots
        if pivots is None:
            raise errors.unsupported("PIVOT ... IN (ANY) or IN (SELECT ...) in this statement")
        number = self._pivots
        self._pivots += 1
        relations_read, volatile_parts = self.relations, self.volatile_parts
        query = self.query(tree, scope)
        if self.volatile_parts > volatile_parts:
            raise errors.repeated_volatile()  # the values would be those of other rows
        if number in pivots:
            self.relations = relations_read
            return pivots[number]
        if len(query.outputs) != 1 or query.outputs[0].type.name not in PIVOTED_TYPES:
            raise errors.unsupported("PIVOT ... IN (SELECT ...) of these columns")
        if query.is_correlated:
            raise errors.subquery_unsupported()
        raise scopes.PivotWanted(number, scope.alone(query))

    def alias(self, wanted: str) -> str:
        """Return a relation alias that is used nowhere else in the statement."""
        self._aliases += 1
        return f"{wanted}#{self._aliases}"

    def add_relations(self, count: int) -> None:
        """Count the relations that the engine will read; raises SqlError beyond the bound."""
        self.relations += count
        if self.relations > limits.RELATIONS_MAX:
            raise errors.too_complex(
                f"it reads more than {limits.RELATIONS_MAX} relations once every WITH expression "
                "stands where it is named"
            )

    def add_columns(self, count: int) -> None:
        """Count columns of tables, subqueries and results; raises SqlError beyond the bound."""
        self._columns += count
        if self._columns > limits.COLUMNS_MAX:
            raise errors.too_complex(
                f"more than {limits.COLUMNS_MAX} columns in its parts together"
            )
        if self._columns > self.environment.columns_max:
            raise shapes.ManyColumns

    def finish(self, query: PlannedQuery, count: int) -> BoundQuery:
        called: set[str] = set()
        spark, spark_refusal = self._spark(query) if self.environment.emits_spark else ("", ())
        rel = naming.distinct(padding.hidden(query.rel, self.alias))
        return BoundQuery(
            sql=emit.text(rel, called),
            columns=tuple(self._result_column(output) for output in query.outputs),
            types=tuple(output.type for output in query.outputs),
            functions=tuple(sorted(called)),
            filters={use: tuple(conditions) for use, conditions in self.filters.items()},
            bind_count=count,
            unnamed=tuple(output.name for output in query.outputs if not output.is_named),
            wait_seconds=self.wait_seconds,
            generated_rows=self.generated_rows,
            is_aggregate=relations.groups_most(
                query.rel, {table.relation: table.rows for table in self.environment.tables}
            ),
            drawings=tuple(map(self._drawing, self._drawings)),
            spark=spark,
            spark_refusal=spark_refusal,
        )

    def _drawing(self, common: relations.Common) -> Drawing:
        called: set[str] = set()
        rel = naming.distinct(padding.hidden(common.query, self.alias))
        return Drawing(
            name=common.name,
            columns=common.columns,
            sql=emit.text(rel, called),
            functions=tuple(sorted(called)),
        )

    def _spark(self, query: PlannedQuery) -> tuple[str, tuple[Any, ...]]:
        """Return a query's text in Spark's language, or the parts of the refusal."""
        if self.volatile_parts:
            return "", errors.unsupported("RANDOM or UUID_STRING in Spark SQL").parts
        try:
            return emit_spark.text(query.rel), ()
        except errors.SqlError as refusal:
            return "", refusal.parts

    def _result_column(self, output: Output) -> outcomes.Column:
        column = sqltypes.column(output.name, output.type, nullable=output.nullable)
        if output.origin is None:
            return column
        shape = self.environment.tables[output.origin[0]]
        database, schema, table = (names.shown(part) for part in shape.path)
        return dataclasses.replace(column, database=database, schema=schema, table=table)

    def stored(self, query: PlannedQuery, targets: Sequence[sqltypes.SqlType]) -> PlannedQuery:
        """Return a query with its VARIANTs as a table stores them: as JSON, or packed.

        targets: the types of the table's columns.
        """
        if not any(output.type.is_variant for output in query.outputs):
            return query
        alias = self.alias("stored")
        items = []
        for output, target in zip(query.outputs, targets, strict=True):
            value: code.Part = code.ColumnUse(relation=alias, name=output.unique)
            if output.type.is_variant:
                name = "_v_packed" if target.is_packed else "_v_stored"
                value = code.kernel(name, code.exactly(value, sqltypes.TEXT))
            items.append(relations.ProjectItem(name=output.unique, value=value))
        named = relations.Named(query=query.rel, alias=alias)
        return dataclasses.replace(query, rel=relations.Project(source=named, items=tuple(items)))

    def converted(
        self,
        query: PlannedQuery,
        targets: Sequence[sqltypes.SqlType],
        *,
        inserts: bool = False,
    ) -> PlannedQuery:
        """Return a query with each column as its target's type. inserts: as INSERT converts it."""
        alias = self.alias("source")
        items, outputs = [], []
        for output, target in zip(query.outputs, targets, strict=True):
            operand = Expr(
                code=code.ColumnUse(relation=alias, name=output.unique),
                type=output.type,
                nullable=output.nullable,
            )
            operand = expressions.read_by_session(operand, self.environment.context)
            if output.is_null:
                converted = exprs.null(target)
            elif inserts:
                converted = self._inserted(operand, target)
            else:
                converted = casts.implicit(operand, target, self.environment.context.forms)
            items.append(relations.ProjectItem(name=output.unique, value=converted))
            outputs.append(dataclasses.replace(output, type=converted.type))
        named = relations.Named(query=query.rel, alias=alias)
        rel = relations.Project(source=named, items=tuple(items))
        return PlannedQuery(rel=rel, outputs=tuple(outputs), rows=query.rows)

    def _inserted(self, value: Expr, target: sqltypes.SqlType) -> Expr:
        """Return a value as INSERT converts it to a column's type.

        Raises SqlError for a value that is no VARIANT for a column that is: Snowflake makes none
        of a text by itself.
        """
        if target.is_variant and value.type.name not in ("null", *sqltypes.SEMISTRUCTURED):
            raise errors.SqlError(
                "002023",
                "22000",
                "SQL compilation error:\nExpression type does not match column data type, "
                f"expecting {sqltypes.shown(target)} but got {sqltypes.shown(value.type)}",
                phase="COMPILATION",
            )
        if target.name in casts.CLOCKS and target.scale <= casts.MICROSECOND_DIGITS:
            stored = sqltypes.at_microseconds(target)
            if sqltypes.names_digits(target):
                return casts.cast_to_digits(value, stored, target.scale)
            if casts.is_of_nanoseconds(value):
                value = casts.whole_microseconds(value)
            target = stored
        return casts.implicit(value, target, self.environment.context.forms)

    def query(self, tree: Any, parent: QueryScope | None) -> PlannedQuery:
        """Return any query bound, its own WITH included."""
        scope = QueryScope(binder=self, parent=parent)
        with_ = tree.args.get("with_")
        common = () if with_ is None else scope.add_common_tables(with_)
        query = self._body(tree, scope)
        return dataclasses.replace(
            query,
            rel=relations.with_common(common, query.rel),
            is_correlated=query.is_correlated or scope.is_correlated,
        )

    def _body(self, tree: Any, scope: QueryScope) -> PlannedQuery:
        match tree:
            case exp.Select():
                return selects.SelectBinder(self, tree, scope).bind()
            case exp.SetOperation():
                return self._set_operation(tree, scope)
            case exp.Subquery():
                return self._subquery(tree, scope)
            case exp.Values():
                query = self.values(tree, scope)
                rel = self._ordered(tree, query.rel, query.outputs, scope)
                return dataclasses.replace(query, rel=rel)
        raise errors.unsupported(expressions.construct_name(tree))

    def _subquery(self, tree: exp.Subquery, scope: QueryScope) -> PlannedQuery:
        query = self.query(tree.this, scope)
        enclosed = relations.Enclosed(source=query.rel)
        rel = self._ordered(tree, enclosed, query.outputs, scope)
        return query if rel is enclosed else dataclasses.replace(query, rel=rel)

    def _set_operation(self, tree: exp.SetOperation, scope: QueryScope) -> PlannedQuery:
        sides = [self.query(side, scope) for side in _branches(tree)]
        if tree.args.get("by_name"):
            sides = self._by_name(sides)
        first = sides[0]
        for side in sides[1:]:
            _check_branch_width(len(first.outputs), len(side.outputs))
        targets = []
        for column in zip(*(side.outputs for side in sides), strict=True):
            sql_type = sqltypes.NULL
            for output in column:
                unified = sqltypes.unified(
                    [sql_type, sqltypes.NULL if output.is_null else output.type]
                )
                if unified is None:
                    raise _branch_mismatch(sql_type, output.type)
                sql_type = unified
            targets.append(sqltypes.TEXT if sql_type.name == "null" else sql_type)
        outputs = tuple(
            dataclasses.replace(
                column[0],
                type=sql_type,
                nullable=any(output.nullable for output in column),
                origin=None,
                is_null=all(output.is_null for output in column),
            )
            for sql_type, *column in zip(targets, *(side.outputs for side in sides), strict=True)
        )
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(tree)]
        if not tree.args.get("distinct"):
            word += " ALL"
            if word != "UNION ALL":  # the engine's leave or remove every copy of a row
                raise errors.unsupported(word)
        converted = [self._branch(side, targets) for side in sides]
        if word != "UNION ALL" and any(map(sqltypes.holds_floats, targets)):
            converted = [self.with_one_zero(side) for side in converted]
        branches = [
            converted[0].rel,
            *(self._branch_named(side, outputs) for side in converted[1:]),
        ]
        row_counts = [side.rows for side in sides if side.rows is not None]
        rows = sum(row_counts) if len(row_counts) == len(sides) else None
        if word in ("UNION", "EXCEPT", "INTERSECT") and any(
            sql_type.name == "timestamp_tz" for sql_type in targets
        ):
            named = [(side.rel, [each.unique for each in side.outputs]) for side in converted]
            columns_of = [(output.unique, output.type) for output in outputs]
            combined = instants.combined(word, named, columns_of, self.alias)
        else:
            combined = relations.set_operation(word, branches)
        rel = self._ordered(tree, combined, outputs, scope)
        return PlannedQuery(rel=rel, outputs=outputs, rows=rows)

    def with_one_zero(self, query: PlannedQuery) -> PlannedQuery:
        """Return a query with 0.0 for -0.0 inside its structured values."""
        alias = self.alias("branch")
        items = []
        for output in query.outputs:
            use = code.ColumnUse(relation=alias, name=output.unique)
            column = Expr(code=use, type=output.type, nullable=output.nullable)
            value = casts.with_one_zero(column)
            items.append(relations.ProjectItem(name=output.unique, value=value))
        named = relations.Named(query=query.rel, alias=alias)
        rel = relations.Project(source=named, items=tuple(items))
        return dataclasses.replace(query, rel=rel)

    def _by_name(self, sides: Sequence[PlannedQuery]) -> list[PlannedQuery]:
        """Return the branches of UNION BY NAME with the columns of all of them, in one order.

        A column that a branch does not have is NULL in its rows. Raises SqlError for two columns of
        one name in a branch.
        """
        listed = list(dict.fromkeys(output.name for side in sides for output in side.outputs))
        self.add_columns(len(listed) * len(sides))
        absent = Output(name="", unique="", type=sqltypes.TEXT, nullable=True, is_null=True)
        named = []
        for side in sides:
            own = {output.name: output for output in side.outputs}
            if len(own) != len(side.outputs):
                raise errors.unsupported("UNION BY NAME of two columns of one name")
            alias = self.alias("branch")
            items, outputs = [], []
            for name in listed:
                output = own.get(name)
                value = exprs.null(sqltypes.TEXT)
                if output is not None:
                    value = Expr(
                        code=code.ColumnUse(relation=alias, name=output.unique),
                        type=output.type,
                        nullable=output.nullable,
                    )
                items.append(relations.ProjectItem(name=name, value=value))
                outputs.append(dataclasses.replace(output or absent, name=name, unique=name))
            source = relations.Named(query=side.rel, alias=alias)
            rel = relations.Project(source=source, items=tuple(items))
            named.append(PlannedQuery(rel=rel, outputs=tuple(outputs), rows=side.rows))
        return named

    def _branch_named(self, query: PlannedQuery, outputs: Sequence[Output]) -> relations.Rel:
        """Return a branch whose columns have a set operation's names, if it ends with LIMIT.

        The engine leaves out branches without rows. The names of the one that is left become those
        of the set operation unless it can rename the columns, which it does not above a LIMIT.
        """
        names_differ = [each.unique for each in query.outputs] != [each.unique for each in outputs]
        if not (names_differ and relations.is_limited(query.rel)):
            return query.rel
        alias = self.alias("branch")
        items = relations.items(
            (output.unique, code.ColumnUse(relation=alias, name=own.unique))
            for output, own in zip(outputs, query.outputs, strict=True)
        )
        return relations.Project(source=relations.Named(query=query.rel, alias=alias), items=items)

    def _branch(self, query: PlannedQuery, targets: Sequence[sqltypes.SqlType]) -> PlannedQuery:
        if all(
            sqltypes.same_in_engine(output.type, target)
            for output, target in zip(query.outputs, targets, strict=True)
        ):
            return query
        return self.converted(query, targets)

    def _ordered(
        self, tree: Any, rel: relations.Rel, outputs: Sequence[Output], scope: QueryScope
    ) -> relations.Rel:
        """Return rel with ORDER BY, LIMIT and OFFSET of a query that is not a SELECT."""
        keys = scopes.order_by(tree, OutputScope(scope, outputs))
        return self.limited(tree, relations.Sort(source=rel, keys=keys) if keys else rel, scope)

    def limited(self, tree: Any, rel: relations.Rel, scope: QueryScope) -> relations.Rel:
        """Return rel with LIMIT, FETCH and OFFSET of a query."""
        count, skipped = None, None
        limit, offset = tree.args.get("limit"), tree.args.get("offset")
        if any(part is not None and part.expressions for part in (limit, offset)):
            raise errors.unsupported("LIMIT ... BY")
        if isinstance(limit, exp.Fetch):
            if limit.args.get("limit_options") is not None and limit.args["limit_options"].args:
                refused = [
                    key
                    for key, value in limit.args["limit_options"].args.items()
                    if value and key != "rows"
                ]
                if refused:
                    raise errors.unsupported("FETCH of this form")
            wanted = limit.args.get("count")
            count = self._whole(wanted, scope) if wanted is not None else 1
        elif limit is not None:
            options = limit.args.get("limit_options")
            if options is not None and any(options.args.values()):
                raise errors.unsupported("TOP of this form")
            count = self._whole(limit.expression, scope)
        if offset is not None:
            skipped = self._whole(offset.expression, scope)
        if count is None and skipped is None:
            return rel
        return relations.Limit(source=rel, count=count, offset=skipped)

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
    ) -> PlannedQuery:
        """Return VALUES as a query; its columns are COLUMN1, COLUMN2, ... as targets' types."""
        rows = [
            row.expressions if isinstance(row, exp.Tuple) else [row] for row in tree.expressions
        ]
        width = len(rows[0]) if rows else 0
        if len(rows) > limits.LIST_MEMBERS_MAX:
            raise errors.list_too_long(len(rows), limits.LIST_MEMBERS_MAX)
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
        for cell in itertools.chain.from_iterable(cells):
            selects.check_plain(cell, "VALUES")
        if targets is None:
            cells = [
                [_trimmed(node, cell) for node, cell in zip(row, bound, strict=True)]
                for row, bound in zip(rows, cells, strict=True)
            ]
        else:
            _check_mixed(cells, targets)
            cells = [
                [self._inserted(cell, target) for cell, target in zip(row, targets, strict=True)]
                for row in cells
            ]
        sql_types, unified_columns = [], []
        for index in range(width):
            column, sql_type = casts.unify([row[index] for row in cells], "VALUES")
            if sql_type.name == "interval":
                raise errors.unsupported("INTERVAL as a result")
            sql_types.append(sqltypes.TEXT if sql_type.name == "null" else sql_type)
            unified_columns.append(
                column if sql_type.name != "null" else [exprs.null(sqltypes.TEXT) for _ in column]
            )
        outputs = tuple(
            Output(
                name=f"COLUMN{index + 1}",
                unique=f"COLUMN{index + 1}",
                type=sql_type,
                nullable=any(cell.nullable for cell in unified_columns[index]),
            )
            for index, sql_type in enumerate(sql_types)
        )
        column_names = tuple(output.unique for output in outputs)
        cells_of_rows = list(zip(*unified_columns, strict=True))
        if any(map(_wants_query, itertools.chain.from_iterable(cells_of_rows))):
            rel = self._row_queries(cells_of_rows, sql_types, column_names)
        else:
            # The first row fixes the engine's types; the others are coerced to it.
            first = tuple(map(_exactly, cells_of_rows[0], sql_types))
            values = relations.Values(
                rows=(first, *cells_of_rows[1:]), alias=self.alias("VALUES"), columns=column_names
            )
            rel = relations.Project(source=values, items=relations.columns(column_names))
        return PlannedQuery(rel=rel, outputs=outputs, rows=len(rows))

    def _row_queries(
        self,
        rows: Sequence[Sequence[Expr]],
        sql_types: Sequence[sqltypes.SqlType],
        column_names: Sequence[str],
    ) -> relations.Rel:
        """Return VALUES as a query for each row: the engine computes no query inside VALUES."""
        if len(rows) > limits.TERMS_MAX:
            raise errors.unsupported(f"more than {limits.TERMS_MAX} rows of VALUES with queries")
        queries: list[relations.Rel] = []
        for row in rows:
            values = map(_exactly, row, sql_types)
            items = relations.items(zip(column_names, values, strict=True))
            query = relations.Project(source=relations.OneRow(), items=items)
            queries.append(sharing.bound_once(query, self.alias))
        self.volatile_parts += any(cell.is_volatile for row in rows for cell in row)
        return queries[0] if len(queries) == 1 else relations.set_operation("UNION ALL", queries)


def _exactly(value: Expr, sql_type: sqltypes.SqlType) -> code.Part:
    """Return a cell of VALUES in the engine's type; a structured one is NULL or has it already."""
    return value if sql_type.is_nested else code.exactly(value, sql_type)


def _wants_query(cell: Expr) -> bool:
    """Whether a cell of VALUES holds a query, or will: for a call that it uses more than once."""
    if cell.is_literal:
        return False
    return cell.is_volatile or any(
        type(node) is code.Subquery for node in substitution.nodes([cell], in_queries=False)
    )


def _branches(tree: exp.SetOperation) -> list[Any]:
    """Return the branches of a chain of one UNION after the other, in order, without recursion."""
    branches: list[Any] = []
    node: Any = tree
    while True:
        by_name = node.args.get("by_name") and not isinstance(node, exp.Union)
        if by_name or node.args.get("side") or node.args.get("kind") or node.args.get("on"):
            raise errors.unsupported(f"{type(node).__name__.upper()} BY NAME")
        branches.append(node.right)
        node = node.left
        if not (isinstance(tree, exp.Union) and _continues(tree, node)):
            break
    if len(branches) >= limits.TERMS_MAX:
        raise errors.unsupported(f"more than {limits.TERMS_MAX} branches in a row")
    return [node, *reversed(branches)]


def _continues(tree: exp.Union, node: Any) -> bool:
    clauses = ("with_", "order", "limit", "offset")
    return (
        isinstance(node, exp.Union)
        and bool(node.args.get("distinct")) == bool(tree.args.get("distinct"))
        and bool(node.args.get("by_name")) == bool(tree.args.get("by_name"))
        and not any(node.args.get(name) for name in clauses)
    )


def _check_branch_width(expected: int, actual: int) -> None:
    if expected != actual:
        raise errors.SqlError(
            "001789",
            "42601",
            "SQL compilation error:\ninvalid number of result columns for set operator "
            f"input branches, expected {expected}, got {actual}",
            phase="COMPILATION",
        )


def _branch_mismatch(expected: sqltypes.SqlType, actual: sqltypes.SqlType) -> errors.SqlError:
    return errors.SqlError(
        "001790",
        "42601",
        "SQL compilation error:\ninconsistent data type for result columns for set "
        f"operator input branches, expected {sqltypes.shown(expected)}, "
        f"got {sqltypes.shown(actual)}",
        phase="COMPILATION",
    )


def _trimmed(node: Any, cell: Expr) -> Expr:
    """Return a number written in VALUES without the zeros at its end, as Snowflake types it."""
    plain = node.this if isinstance(node, exp.Neg) else node
    if isinstance(plain, exp.Literal) and isinstance(cell.literal, decimal.Decimal):
        return exprs.number(cell.literal.normalize(kernelforms.DIGITS))
    return cell


def _check_mixed(cells: Sequence[Sequence[Expr]], targets: Sequence[sqltypes.SqlType]) -> None:
    """Refuse a column of VALUES with numbers and texts that are not numbers."""
    for index, target in enumerate(targets):
        column = [row[index] for row in cells]
        if target.name != "text" or all(cell.type.name != "fixed" for cell in column):
            continue
        for cell in column:
            if cell.type.name == "text" and isinstance(cell.literal, str):
                try:
                    kernels.parse_fixed(cell.literal, sqltypes.PRECISION_MAX, 0)
                except ValueError:
                    raise errors.bad_number(cell.literal) from None
