"""rule: binds one SELECT to the steps of its plan.

FROM comes first, because it makes the scope; then the select list, with stars expanded; then the
clauses, whose conditions on stored columns are kept for pruning. Every output gets a unique name,
because the engine refuses duplicates; Snowflake's names are kept beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from sqlglot import exp

from sql import errors, limits
from sql.dialect import (
    asof,
    casts,
    choices,
    columns,
    comparisons,
    expressions,
    functions,
    grammar,
    groupings,
    laterals,
    names,
    pivots,
    references,
    samples,
    scopes,
    shapes,
    sqltypes,
    structures,
    unnesting,
)
from sql.dialect.scopes import FromItem, Output, PlannedQuery, QueryScope, ScopeColumn
from sql.plan import (
    code,
    emit,
    instants,
    opaque,
    orderings,
    predicates,
    relations,
    row_numbers,
    sharing,
)
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


class StatementBinder(scopes.NameBinder, Protocol):
    """The binder's further methods that a SELECT uses."""

    @property
    def filters(self) -> dict[int, list[predicates.Filter]]: ...

    def values(
        self,
        tree: Any,
        scope: QueryScope,
        targets: Sequence[sqltypes.SqlType] | None = None,
    ) -> PlannedQuery: ...

    def limited(self, tree: Any, rel: relations.Rel, scope: QueryScope) -> relations.Rel: ...

    def use_volatile(self, name: str, node: exp.Table) -> None: ...

    def pivot_values(self, tree: Any, scope: QueryScope) -> tuple[Any, ...]: ...


class SelectBinder:
    """One SELECT: FROM, select list, WHERE, GROUP BY, HAVING, QUALIFY, ORDER BY."""

    def __init__(self, binder: StatementBinder, tree: exp.Select, scope: QueryScope) -> None:
        self._binder = binder
        self._tree = tree
        self._scope = scope
        self._outer_join = False
        self._has_full_join = False
        self._joins = 0
        self._unnamed: set[str] = set()

    def bind(self) -> PlannedQuery:
        if not self._tree.expressions:
            raise errors.empty_select_list()
        self._refuse_unknown_clauses()
        rel = self._from()
        if groupings.has_sets(self._tree.args.get("group")):
            self._scope.lack_keys()
        items = self._select_list()
        self._scope.aliases |= self._tree.meta.get(laterals.ALIASES, {})
        where = self._where()
        if self._numbers_grouped_rows():
            self._scope.numbered_rows = self._binder.alias("numbered")
        bound_items = [(name, self._bound_item(name, node)) for name, node in items]
        having = self._condition("having")
        if having is not None and having.window:
            raise _misplaced("window function in HAVING clause")
        qualify = self._condition("qualify")
        grouping = groupings.bind(
            self._tree.args.get("group"), [item for _, item in bound_items], self._scope
        )
        keys = grouping.parts
        outputs, listed = self._outputs(bound_items)
        order = self._order([item for _, item in bound_items], outputs)
        is_distinct = self._is_distinct()
        is_aggregate = bool(keys) or any(item.aggregate for _, item in bound_items)
        if having is not None and opaque.have_row_of_no_rows(keys):
            having = opaque.of_groups(having)
        has_window = any(item.window for _, item in bound_items)
        if qualify is not None and not qualify.window:
            if not has_window:
                raise _misplaced("QUALIFY: neither it nor the select list has a window function")
            qualify = _with_window(qualify)
        if where is not None:
            rel = relations.RowFilter(source=rel, condition=where)
        grouped_rows = rel
        if is_aggregate or having is not None:
            rel = relations.Aggregate(source=rel, keys=keys)
        if having is not None:
            rel = relations.RowFilter(source=rel, condition=having)
        if has_window or qualify is not None:
            rel = relations.WindowRows(source=rel)
        if qualify is not None:
            rel = relations.RowFilter(source=rel, condition=qualify)
        zoned = any(output.type.name == "timestamp_tz" for output in outputs)
        by_instants = is_distinct and zoned
        rel = relations.Project(source=rel, items=listed, is_distinct=is_distinct and not zoned)
        if by_instants:
            rel = instants.grouped(rel, self._binder.alias)
            if sharing.is_volatile(rel):
                rel = sharing.bound_once(rel, self._binder.alias)
            columns_of = [(output.unique, output.type) for output in outputs]
            rel = instants.distinct(rel, columns_of, self._binder.alias)
        if order:
            rel = relations.Sort(source=rel, keys=order)
        if self._scope.numbered_rows:
            if by_instants:
                raise errors.unsupported("SEQ4 in an aggregate beside DISTINCT of TIMESTAMP_TZ")
            alias = self._scope.numbered_rows
            rel = row_numbers.numbered(rel, grouped_rows, alias, scopes.row_number())
        if keys or is_distinct:
            rel = structures.with_one_zero(rel)
        if keys:
            rel = instants.grouped(rel, self._binder.alias)
        if is_aggregate or having is not None:
            rel = orderings.reconciled(rel)
        if sharing.is_volatile(rel):
            self._binder.volatile_parts += 1
            rel = sharing.bound_once(rel, self._binder.alias)
        rel = self._binder.limited(self._tree, rel, self._scope)
        if self._scope.parent is not None and not self._scope.is_correlated:
            rel = sharing.fenced(opaque.closed(rel), listed, self._binder.alias)
        rows = self._scope.rows
        if (is_aggregate or having is not None) and not keys:
            rows = 1
        elif rows is not None and grouping.sets > 1:
            rows = max(rows, 1) * grouping.sets  # one of no columns has a row of its own
        reduces = ("limit", "offset", "qualify")
        is_transparent = not (
            is_aggregate
            or self._outer_join
            or has_window
            or any(self._tree.args.get(name) for name in reduces)
        )
        return PlannedQuery(
            rel=rel,
            outputs=tuple(outputs),
            rows=rows,
            is_transparent=is_transparent,
            constants=self._constants([item for _, item in bound_items]),
            counted=self._counted(),
        )

    def _counted(self) -> int | None:
        """Return the stored table whose rows are counted, if the query only does that."""
        if {name for name, value in self._tree.args.items() if value} != {"expressions", "from_"}:
            return None
        table = self._tree.args["from_"].this
        use = table.meta.get(references.USE) if isinstance(table, exp.Table) else None
        if use is None or table.args.get("joins") or table.args.get("sample"):
            return None
        items = [
            node.this if isinstance(node, exp.Alias) else node for node in self._tree.expressions
        ]
        return int(use) if all(_counts_rows(item) for item in items) else None

    def _constants(self, items: list[Expr]) -> tuple[Any, ...] | None:
        clauses = [name for name, value in self._tree.args.items() if value]
        if clauses != ["expressions"] or self._binder.environment.rows_relation:
            return None
        if not all(item.is_literal for item in items):
            return None
        return tuple(item.literal for item in items)

    def _refuse_unknown_clauses(self) -> None:
        for name, value in self._tree.args.items():
            if value and name not in CLAUSES:
                raise errors.unsupported(CLAUSE_NAMES.get(name, name.rstrip("_").upper()))

    def _is_distinct(self) -> bool:
        distinct = self._tree.args.get("distinct")
        if distinct is None or distinct is False:
            return False
        if distinct.args.get("on") is not None:
            raise errors.unsupported("DISTINCT ON")
        return True

    # FROM

    def _from(self) -> relations.Rel:
        from_ = self._tree.args.get("from_")
        joins = self._tree.args.get("joins") or []
        if self._tree.args.get("laterals"):
            raise errors.unsupported("LATERAL")
        if from_ is None:
            relation = self._binder.environment.rows_relation
            return relations.TableScan(relation=relation) if relation else relations.OneRow()
        sample = self._tree.args.get("sample")
        if sample is not None:  # sqlglot's place for that of VALUES
            if joins or not isinstance(from_.this, exp.Values):
                raise errors.unsupported("SAMPLE of VALUES beside joins")
            from_.this.set("sample", sample)
        self._has_full_join = _has_full_join(joins) or _has_full_join(_joins_of(from_.this))
        rel = self._joined(from_.this)
        for join in joins:
            rel = self._join(rel, join, 0)
        return rel

    def _joined(self, node: Any) -> relations.Rel:
        """Return one item of FROM, with its joins."""
        start = len(self._scope.sources)
        rel = self._source(node)
        for join in node.args.get("joins") or ():
            rel = self._join(rel, join, start)
        return rel

    def _join(self, left: relations.Rel, join: exp.Join, start: int) -> relations.Rel:
        """Return left joined. start: the first source of the scope that is of left."""
        side, join_type, method = (
            str(join.args.get(name) or "").upper() for name in ("side", "kind", "method")
        )
        if join_type not in ("", "INNER", "CROSS", "OUTER") or method not in JOIN_METHODS:
            raise errors.unsupported(f"{method} {side} {join_type} JOIN".strip())
        match = join.args.get("match_condition")
        if (match is None) is (method == "ASOF") or join.args.get("global_"):
            raise errors.unsupported("MATCH_CONDITION without ASOF JOIN, or ASOF JOIN without it")
        if join.args.get("pivots"):
            raise errors.unsupported("PIVOT or UNPIVOT after the condition of a join")
        before = len(self._scope.sources)
        self._joins += 1
        if self._joins > limits.JOINS_MAX:
            raise errors.too_complex(f"more than {limits.JOINS_MAX} joins in one SELECT")
        function = unnesting.called(join.this)
        if function is not None:
            return self._unnest(left, join, function, side, start)
        conditions: list[code.Part] = []
        if isinstance(join.this, exp.Lateral):
            query = laterals.select(join, side, start)
            if laterals.is_one_row(query):
                return self._lateral_row(left, join, side, query)
            right, conditions = self._lateral(join, side, start)
        else:
            right = self._joined(join.this)
        if method == "ASOF":
            if side or join_type:
                raise errors.unsupported(f"ASOF {side} {join_type} JOIN")
            return self._asof(left, right, join, start, before)
        shared = self._shared(join, before, natural=method == "NATURAL")
        if shared:
            conditions += self._merge(shared, before, side)
        on = join.args.get("on")
        if on is not None:
            condition = self._filter(on)
            check_plain(condition, "an ON condition")
            conditions.append(self._binder.written(condition))
            if side == "LEFT" and isinstance(join.this, exp.Table) and not _joins_of(join.this):
                # The other rows of the joined table match none.
                joined = scopes.uses_of(self._scope.sources[before:])
                self._note_filters(condition, joined, null_rejecting=False)
        if side in ("LEFT", "RIGHT", "FULL"):
            self._outer_join = True
            self._scope.has_full_join |= side == "FULL"
            self._make_nullable(side, before)
            if not conditions:
                raise errors.unsupported(f"{side} JOIN without a condition")
            if side == "RIGHT":
                # Over a RIGHT JOIN, the engine applies a condition of WHERE on a left column to
                # the right column of the same name. Over a LEFT JOIN it does not.
                if isinstance(left, relations.Join):
                    left = relations.Enclosed(source=left)
                left, right, side = right, left, "LEFT"
        else:
            side = "INNER" if conditions else "CROSS"
        return relations.Join(left=left, right=right, side=side, conditions=tuple(conditions))

    def _asof(
        self,
        left: relations.Rel,
        right: relations.Rel,
        join: exp.Join,
        start: int,
        before: int,
    ) -> relations.Rel:
        match, on = join.args["match_condition"], join.args.get("on")
        conditions = [] if on is None else _conjuncts(on)
        pairs = asof.keys(match, conditions, self._scope, start, before)
        shared = self._shared(join, before, natural=False)
        for ident in shared:
            ours = self._side_column(ident, slice(start, before), allow_merged=start == 0)
            pairs.append((ours, self._side_column(ident, slice(before, None), allow_merged=False)))
        self._outer_join = True
        rel = asof.bind(match, pairs, self._scope, (left, right), start, before)
        for ident in shared:
            kept = self._side_column(ident, slice(start, before), allow_merged=start == 0)
            self._scope.merged[ident.folded] = kept
            for source in self._scope.sources[before:]:
                source.hidden.update(source.shown(column) for column in source.find(ident)[:1])
        return rel

    def _lateral(
        self, join: exp.Join, side: str, start: int
    ) -> tuple[relations.Rel, list[code.Part]]:
        scope = QueryScope(binder=self._binder, parent=self._scope)
        inner = SelectBinder(self._binder, laterals.select(join, side, start), scope)
        source = inner._from()
        items = [(name, inner._bound_item(name, node)) for name, node in inner._select_list()]
        parts = laterals.LateralQuery(source=source, items=items, where=inner._where())
        if any(inner._tree.args.get(name) for name in laterals.REDUCING):
            parts = inner._reduced(parts)
        if self._has_full_join or inner._has_full_join:
            raise errors.unsupported("LATERAL beside FULL JOIN")
        self._outer_join = self._outer_join or inner._outer_join
        return laterals.bind(join, side, self._scope, scope, parts)

    def _reduced(self, parts: laterals.LateralQuery) -> laterals.LateralQuery:
        """Return the parts of a query after LATERAL that groups, orders or limits."""
        items = [item for _, item in parts.items]
        group = self._tree.args.get("group")
        grouping = groupings.bind(group, items, self._scope)
        if grouping.sets > 1 or any(type(key) is relations.GroupingSets for key in grouping.parts):
            raise errors.unsupported("LATERAL with GROUPING SETS")
        outputs, _ = self._outputs(list(parts.items))
        order = tuple(
            dataclasses.replace(key, key=items[int(key.key.text) - 1])
            if type(key.key) is code.Token
            else key
            for key in self._order(items, outputs)
        )
        limited = self._binder.limited(self._tree, relations.OneRow(), self._scope)
        count, skipped = None, None
        if isinstance(limited, relations.Limit):
            count, skipped = limited.count, limited.offset
        return dataclasses.replace(
            parts,
            is_reduced=True,
            is_distinct=self._is_distinct(),
            is_grouped=group is not None,
            keys=grouping.parts,
            order=order,
            count=count,
            skipped=skipped or 0,
        )

    def _lateral_row(
        self, left: relations.Rel, join: exp.Join, side: str, query: exp.Select
    ) -> relations.Rel:
        """Return left with the columns of a query after LATERAL that has one row."""
        if self._has_full_join:
            raise errors.unsupported("LATERAL beside FULL JOIN")
        scope = QueryScope(binder=self._binder, parent=self._scope)
        inner = SelectBinder(self._binder, query, scope)
        before = self._binder.relations
        source = inner._from()
        items = [
            laterals.LateralItem(name=name, node=node, bound=inner._bound_item(name, node))
            for name, node in inner._select_list()
        ]
        clause = query.args.get("where")
        nodes = [] if clause is None else _conjuncts(clause.this)
        where = [(node, inner._filter(node)) for node in nodes]
        for _, part in where:
            check_plain(part, "WHERE clause")
        self._binder.relations = before  # counted where the columns are computed
        bound = laterals.OneRowQuery(tree=query, source=source, items=items, where=where)
        return laterals.one_row(join, side, self._scope, left, bound)

    def _unnest(
        self,
        left: relations.Rel,
        join: exp.Join,
        function: unnesting.TableFunction,
        side: str,
        start: int,
    ) -> relations.Rel:
        on = join.args.get("on")
        is_plain = on is None or (isinstance(on, exp.Boolean) and on.this)
        if side not in ("", "LEFT") or not is_plain or join.args.get("using"):
            raise errors.unsupported(f"{side} JOIN {function.name} with a condition".strip())
        if side == "LEFT":
            function = dataclasses.replace(function, is_outer=True)
        rel = unnesting.bind(function, self._scope, left, start)
        for inner in join.this.args.get("joins") or ():
            rel = self._join(rel, inner, start)
        return rel

    def _shared(self, join: exp.Join, before: int, *, natural: bool) -> list[names.Ident]:
        if natural:
            left = {
                source.shown(column)
                for source in self._scope.sources[:before]
                for column in source.columns
            }
            return [
                names.Ident(text=source.shown(column), quoted=True)
                for source in self._scope.sources[before:]
                for column in source.columns
                if source.shown(column) in left
            ]
        return [columns.ident(item) for item in join.args.get("using") or ()]

    def _merge(self, shared: list[names.Ident], before: int, side: str) -> list[code.Part]:
        conditions: list[code.Part] = []
        for ident in shared:
            ours = self._side_column(ident, slice(None, before), allow_merged=True)
            theirs = self._side_column(ident, slice(before, None), allow_merged=False)
            conditions.append(self._binder.written(comparisons.compare(ours, theirs, "=")))
            if side == "RIGHT":
                kept = theirs
            elif side == "FULL":
                kept = choices.coalesce([ours, theirs])
            else:
                kept = ours
            self._scope.merged[ident.folded] = kept
            for source in self._scope.sources[before:]:
                source.hidden.update(source.shown(column) for column in source.find(ident)[:1])
        return conditions

    def _side_column(self, ident: names.Ident, part: slice, *, allow_merged: bool) -> Expr:
        if allow_merged and ident.folded in self._scope.merged:
            return self._scope.merged[ident.folded]
        columns = []
        for source in self._scope.sources[part]:
            columns += [
                scopes.readable(source.shown(column), column) for column in source.find(ident)
            ]
        if len(columns) > 1:
            raise errors.ambiguous_column(ident.folded)
        if not columns:
            raise errors.invalid_identifier(ident.folded)
        return columns[0]

    def _make_nullable(self, side: str, before: int) -> None:
        sources = self._scope.sources
        touched = {"LEFT": sources[before:], "RIGHT": sources[:before], "FULL": sources}[side]
        for source in touched:
            source.make_nullable()

    def _source(self, node: Any) -> relations.Rel:
        function = unnesting.called(node)
        if function is not None:
            one_row = relations.OneRow()
            return unnesting.bind(function, self._scope, one_row, len(self._scope.sources))
        if node.args.get("pivots"):
            return self._pivoted(node)
        match node:
            case exp.Table():
                return self._table(node)
            case exp.Subquery():
                if _is_joined(node):
                    return self._parenthesised(node)
                return self._derived(node, self._binder.query(_bare(node), self._scope.for_from))
            case exp.Values():
                return self._derived(node, self._binder.values(node, self._scope.for_from))
            case exp.Lateral():
                raise errors.unsupported("LATERAL")
        raise errors.unsupported(f"FROM {expressions.construct_name(node)}")

    def _pivoted(self, node: Any) -> relations.Rel:
        if node.args.get("sample") is not None:
            raise errors.unsupported("SAMPLE beside PIVOT or UNPIVOT")
        bare = pivots.source(node)
        scope = self._scope.for_from
        outputs = self._binder.query(pivots.everything(bare), scope).outputs
        wanted = pivots.values_query(node, bare)
        values = None if wanted is None else self._binder.pivot_values(wanted, scope)
        derived = pivots.query(node, bare, [output.name for output in outputs], values)
        return self._derived(derived, self._binder.query(derived.this, scope))

    def _parenthesised(self, node: exp.Subquery) -> relations.Rel:
        if node.args.get("alias") is not None:
            raise errors.unsupported("alias of joined tables")
        if node.args.get("sample") is not None:
            raise errors.unsupported("SAMPLE of joined tables")
        return relations.Enclosed(source=self._joined(node.this))

    def _derived(self, node: Any, query: PlannedQuery) -> relations.Rel:
        _refuse_table_clauses(node, {"this", "alias", "expressions", "joins", "sample"})
        alias = node.args.get("alias")
        ident = columns.ident(alias.this) if alias is not None and alias.this else None
        listed = (
            [columns.ident(item) for item in (alias.args.get("columns") or ())]
            if (alias is not None)
            else []
        )
        query = scopes.renamed(query, listed)
        unique = self._binder.alias(ident.folded if ident else "query")
        self._add_source((ident,) if ident else (), unique, query)
        outputs = [output.unique for output in query.outputs]
        return self._aliased(node, relations.Named(query=query.rel, alias=unique), outputs)

    def _add_source(
        self,
        path: tuple[names.Ident, ...],
        unique: str,
        query: PlannedQuery,
        *,
        is_stored: bool = False,
    ) -> None:
        columns = [
            ScopeColumn(
                name=output.name,
                is_quoted=output.is_quoted,
                bound=Expr(
                    code=code.ColumnUse(
                        relation=unique, name=self._engine_name(unique, output.unique)
                    ),
                    type=output.type,
                    nullable=output.nullable,
                    origin=output.origin if query.is_transparent else None,
                ),
            )
            for output in query.outputs
        ]
        scopes.check_alias(path, self._scope.sources)
        self._scope.sources.append(
            FromItem(path=path, columns=columns, rows=query.rows, is_stored=is_stored)
        )

    def _table(self, node: exp.Table) -> relations.Rel:
        _refuse_table_clauses(node, {"this", "db", "catalog", "alias", "when", "joins", "sample"})
        alias = node.args.get("alias")
        alias_ident = columns.ident(alias.this) if alias is not None and alias.this else None
        listed = (
            [columns.ident(item) for item in (alias.args.get("columns") or ())]
            if (alias is not None)
            else []
        )
        if references.USE in node.meta:
            return self._stored_table(node, node.meta[references.USE], alias_ident, listed)
        if isinstance(node.this, exp.Anonymous):
            raise errors.unsupported(
                f"table function {references.table_function(node).this!s}".upper()
            )
        name = columns.ident(node.this)
        common_table = self._scope.common_table(name.folded)
        if common_table is None:
            return self._dual(node, alias_ident)
        unique_name, query = common_table
        if query.is_volatile:
            self._binder.use_volatile(unique_name, node)
        self._binder.add_relations(query.relations)
        query = scopes.renamed(query, listed)
        unique = self._binder.alias((alias_ident or name).folded)
        self._add_source((alias_ident or name,), unique, query)
        outputs = [output.unique for output in query.outputs]
        return self._aliased(node, relations.TableScan(relation=unique_name, alias=unique), outputs)

    def _aliased(
        self, node: Any, rel: relations.TableScan | relations.Named, columns: list[str]
    ) -> relations.Rel:
        """Return an item of FROM, its columns by their engine names.

        It is the last source of the scope; of node's SAMPLE are its rows.
        """
        alias = rel.alias
        item: relations.Rel = rel
        if self._has_full_join and columns:
            renamed = relations.items(
                (self._engine_name(alias, name), code.ColumnUse(relation="", name=name))
                for name in columns
            )
            item = relations.Named(query=relations.Project(source=item, items=renamed), alias=alias)
        sample = node.args.get("sample")
        if sample is None:
            return item
        source, use = self._scope.sources[-1], node.meta.get(references.USE)
        is_stored = use is not None and not self._binder.is_view(use)
        return samples.bind(sample, source, self._scope, item, alias, is_stored=is_stored)

    def _engine_name(self, unique: str, name: str) -> str:
        """Return a column's name in the engine's text.

        Of a FULL JOIN that WHERE makes a RIGHT JOIN, the engine takes columns of one name for the
        same column when it pushes a condition below the join; so beside one no name stands twice.
        """
        return f"{unique}.{name}" if self._has_full_join else name

    def _dual(self, node: exp.Table, alias: names.Ident | None) -> relations.Rel:
        unique = self._binder.alias("DUAL")
        path = (alias or names.Ident(text="DUAL"),)
        self._scope.sources.append(FromItem(path=path, columns=[], rows=1))
        items = relations.items([("DUMMY", code.part(1))])
        one_row = relations.Project(source=relations.OneRow(), items=items)
        return self._aliased(node, relations.Named(query=one_row, alias=unique), [])

    def _stored_table(
        self,
        node: exp.Table,
        use: int,
        alias: names.Ident | None,
        listed: list[names.Ident],
    ) -> relations.Rel:
        shape = self._binder.environment.tables[use]
        view = self._binder.view(use)
        if view is not None:
            return self._view(node, shape, view, alias, listed)
        self._binder.add_relations(1)
        self._binder.add_columns(len(shape.columns))
        unique = self._binder.alias(alias.folded if alias else shape.path[2])
        stored = list(shape.shown) or [column.name for column in shape.columns]
        if listed:
            if len(listed) != len(stored):
                raise errors.unsupported("column list of another length than its table")
            stored = [ident.folded for ident in listed]
        columns = [
            ScopeColumn(
                name=name,
                bound=_stored_column(
                    shape,
                    Expr(
                        code=code.ColumnUse(
                            relation=unique, name=self._engine_name(unique, column.name)
                        ),
                        type=column.type,
                        nullable=column.nullable,
                        origin=None if shape.shown else (use, index),
                    ),
                ),
                unread=column.unread,
                is_quoted=column.is_quoted,
            )
            for index, (name, column) in enumerate(zip(stored, shape.columns, strict=True))
        ]
        path = _path_of(shape, alias)
        scopes.check_alias(path, self._scope.sources)
        self._scope.sources.append(
            FromItem(
                path=path, columns=columns, rows=shape.rows, is_stored=not (listed or shape.shown)
            )
        )
        stored_names = [column.name for column in shape.columns]
        scan = relations.TableScan(relation=shape.relation, alias=unique)
        if not self._has_full_join and node.args.get("sample") is None:
            self._scope.scans[unique] = scan
        return self._aliased(node, scan, stored_names)

    def _view(
        self,
        node: exp.Table,
        shape: shapes.TableShape,
        query: PlannedQuery,
        alias: names.Ident | None,
        listed: list[names.Ident],
    ) -> relations.Rel:
        query = scopes.renamed(query, listed)
        self._binder.add_columns(len(query.outputs))
        unique = self._binder.alias(alias.folded if alias else shape.path[2])
        self._add_source(_path_of(shape, alias), unique, query, is_stored=not listed)
        outputs = [output.unique for output in query.outputs]
        return self._aliased(node, relations.Named(query=query.rel, alias=unique), outputs)

    # The select list

    def _select_list(self) -> list[tuple[str, Any]]:
        """Return (name, tree or Expr) of each item, with stars expanded; fill in the aliases."""
        items: list[tuple[str, Any]] = []
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
                items += self._scope.star(node, star)
                continue
            if isinstance(node, exp.Alias):
                name = columns.ident(node.args["alias"]).folded
                self._scope.aliases.setdefault(name, node.this)
                items.append((name, node.this))
                continue
            items.append((self._own_name(node), node))
        return items

    def _own_name(self, node: Any) -> str:
        plain = node.unnest() if isinstance(node, exp.Paren) else node
        if isinstance(plain, exp.Column) and isinstance(plain.this, exp.Identifier):
            wanted = columns.ident(plain.this)
            parts = (plain.args.get(key) for key in ("catalog", "db", "table"))
            path = tuple(columns.ident(part) for part in parts if part)
            is_merged = not path and wanted.folded in self._scope.merged
            place = None if is_merged else self._scope.place(wanted, path)
            if place is not None:
                source, column = place
                return source.shown(column)
            return columns.ident(plain.this).folded
        text = str(node.meta.get(grammar.TEXT) or node.sql("snowflake"))
        name = _upper_outside_names(text) if _has_quotes(text) else text.upper()
        self._unnamed.add(name)
        return name

    def _bound_item(self, name: str, node: Any) -> Expr:
        """Return an item of the select list, which is the same as where its alias stands."""
        if isinstance(node, Expr):
            return node
        if self._scope.aliases.get(name) is not node:
            return expressions.bind(node, self._scope)
        if name not in self._scope.bound_aliases:
            self._scope.bound_aliases[name] = expressions.bind(node, self._scope)
        return self._scope.bound_aliases[name]

    def _outputs(
        self, items: list[tuple[str, Expr]]
    ) -> tuple[list[Output], tuple[relations.ProjectItem, ...]]:
        outputs, listed, taken = [], [], set()
        numbers: dict[str, int] = {}
        self._binder.add_columns(len(items))
        for name, item in items:
            if item.type.name == "interval":
                raise errors.unsupported("INTERVAL as a result")
            unique, number = name or "column", numbers.get(name, 1)
            while unique in taken:
                number += 1
                unique = f"{name}#{number}"
            numbers[name] = number
            taken.add(unique)
            sql_type = item.type
            value = item
            if sql_type.name == "null":
                sql_type, value = sqltypes.TEXT, exprs.null(sqltypes.TEXT)
            outputs.append(
                Output(
                    name=name,
                    unique=unique,
                    type=sql_type,
                    nullable=item.nullable,
                    origin=item.origin,
                    is_named=name not in self._unnamed,
                    is_null=item.type.name == "null",
                )
            )
            listed.append(relations.ProjectItem(name=unique, value=value))
        return outputs, tuple(listed)

    # Clauses

    def _numbers_grouped_rows(self) -> bool:
        """Return whether an aggregate of this SELECT, not of a query in it, numbers its rows."""
        waiting: list[tuple[Any, bool]] = []
        for name in ("expressions", "having", "qualify", "order"):
            value = self._tree.args.get(name)
            nodes = value if isinstance(value, list) else [value]
            waiting += [(node, False) for node in nodes if isinstance(node, exp.Expression)]
        while waiting:
            node, is_inside = waiting.pop()
            if isinstance(node, exp.Query):
                continue
            if is_inside and _numbers_rows(node):
                return True
            is_inside = is_inside or _aggregates(node)
            waiting += [(child, is_inside) for child in node.iter_expressions()]
        return False

    def _where(self) -> Expr | None:
        where = self._tree.args.get("where")
        if where is None:
            return None
        parts = []
        for node in _conjuncts(where.this):
            part = self._filter(node)
            check_plain(part, "WHERE clause")
            parts.append(part)
            if not isinstance(node, expressions.Unpruned):
                self._note_filters(part, self._scope.uses, null_rejecting=self._outer_join)
        if len(parts) > limits.TERMS_MAX:
            raise errors.unsupported(f"more than {limits.TERMS_MAX} conditions in WHERE")
        return exprs.derived(code.joined(parts, "AND"), sqltypes.BOOLEAN, parts)

    def _note_filters(self, condition: Expr, own: set[int], *, null_rejecting: bool) -> None:
        """Note what a condition says of the rows of own table uses, whose files it may exclude.

        A name of an outer query does not filter rows here.
        """
        zone = self._binder.environment.context.zone
        for use, implied in predicates.implied_by(
            condition, null_rejecting=null_rejecting, zone=zone
        ):
            if use in own:
                self._binder.filters.setdefault(use, []).append(implied)

    def _condition(self, clause: str) -> Expr | None:
        node = self._tree.args.get(clause)
        if node is None:
            return None
        return self._filter(node.this)

    def _filter(self, node: Any) -> Expr:
        self._scope.is_filtering = True
        try:
            return comparisons.as_boolean(expressions.bind(node, self._scope))
        finally:
            self._scope.is_filtering = False

    def _order(self, items: list[Expr], outputs: list[Output]) -> tuple[code.SortKey, ...]:
        order = self._tree.args.get("order")
        if order is None:
            return ()
        keys: list[code.SortKey] = []
        for item in order.expressions:
            direction = expressions.direction(item)
            if scopes.is_all(order, outputs):
                places = range(1, len(outputs) + 1)
                keys += [self._ordered(each, items, direction) for each in places]
                continue
            place = self._order_place(item.this, items, outputs)
            if place is not None:
                keys.append(self._ordered(place, items, direction))
                continue
            key = expressions.sort_key(expressions.bind(item.this, self._scope))
            if not key.is_literal:
                keys.append(code.SortKey(key=key, direction=direction))
        return tuple(keys)

    def _ordered(self, place: int, items: list[Expr], direction: str) -> code.SortKey:
        """Return the key of ORDER BY that is the output at a place from 1."""
        item = items[place - 1]
        # Over DISTINCT, the engine orders by columns of the result alone.
        is_zoned = item.type.name == "timestamp_tz" and not self._is_distinct()
        if item.type.is_variant or is_zoned:
            return code.SortKey(key=expressions.sort_key(item), direction=direction)
        return code.SortKey(key=code.part(place), direction=direction)

    def _order_place(self, node: Any, items: list[Expr], outputs: list[Output]) -> int | None:
        place = scopes.ordinal(node, len(outputs))
        if place is not None:
            return place
        if (
            isinstance(node, exp.Column)
            and not node.args.get("table")
            and isinstance(node.this, exp.Identifier)
        ):
            shown = [output.name for output in outputs]
            matches = names.find_shown(columns.ident(node.this), shown)
            if matches:
                return matches[0] + 1
        key = emit.text(expressions.bind(node, self._scope))
        return next((index + 1 for index, item in enumerate(items) if emit.text(item) == key), None)


def _numbers_rows(node: Any) -> bool:
    """Return whether a node calls a function of the row's number."""
    if not isinstance(node, exp.Anonymous):
        return False
    name = str(node.this).upper()
    return name in SEQUENCES or (name == "RANDOM" and bool(node.expressions))


def _aggregates(node: Any) -> bool:
    """Return whether a node calls an aggregate that is no window function."""
    is_over = isinstance(node.parent, exp.Window) and node.arg_key == "this"
    return isinstance(node, exp.Anonymous) and functions.is_aggregate(node.name) and not is_over


SEQUENCES = ("SEQ1", "SEQ2", "SEQ4", "SEQ8")

JOIN_METHODS = ("", "NATURAL", "ASOF")

CLAUSE_NAMES = {"locks": "SELECT ... FOR UPDATE", "match": "MATCH_RECOGNIZE"}
"""Names in refusals of clauses for which sqlglot's own names are unknown to users."""

CLAUSES = {
    "with_",
    "expressions",
    "distinct",
    "from_",
    "joins",
    "laterals",
    "sample",
    "where",
    "group",
    "having",
    "qualify",
    "order",
    "limit",
    "offset",
}


def _stored_column(shape: shapes.TableShape, column: Expr) -> Expr:
    """Return a column of a table as it is computed with; a result's VARIANT is read already."""
    if shape.shown:
        return column
    if column.type.is_packed:
        return dataclasses.replace(column, type=sqltypes.unpacked(column.type))
    if column.type.is_variant:
        return casts.read_variant(column)
    if column.type.name == "timestamp_ltz" and column.type.scale > casts.MICROSECOND_DIGITS:
        return casts.instant_of_nanoseconds(column)
    return column


def _counts_rows(node: Any) -> bool:
    if not isinstance(node, exp.Anonymous) or str(node.this).upper() != "COUNT":
        return False
    return len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Star | exp.Literal)


def check_plain(bound: Expr, place: str) -> None:
    """Raise SqlError for an aggregate or window function where none is allowed."""
    if bound.aggregate or bound.window:
        raise _misplaced(f"aggregate or window function in {place}")


def _with_window(condition: Expr) -> Expr:
    """Return a condition of QUALIFY that has a window, as the engine wants even beside others."""
    count = code.FunctionUse(name="count", arguments=(code.Token(text="*"),), over=code.Window())
    holds = code.joined([condition, code.infix(count, ">", 0)], "AND")
    return exprs.derived(holds, sqltypes.BOOLEAN, [condition])


def _misplaced(what: str) -> errors.SqlError:
    text = f"SQL compilation error:\nInvalid {what}"
    return errors.SqlError("002035", "42601", text, phase="COMPILATION")


def _is_joined(node: Any) -> bool:
    """Return whether an item of FROM is a table or a join in parentheses."""
    inner = node.this if isinstance(node, exp.Subquery) else None
    return isinstance(inner, exp.Table) or (
        isinstance(inner, exp.Subquery) and bool(inner.args.get("joins"))
    )


def _joins_of(node: Any) -> Sequence[exp.Join]:
    """Return the joins of an item of FROM, parenthesised ones among them."""
    joins = node.args.get("joins") or ()
    if _is_joined(node):
        return (*joins, *_joins_of(node.this))
    return tuple(joins)


def _has_full_join(joins: Sequence[exp.Join]) -> bool:
    return any(
        str(join.args.get("side") or "").upper() == "FULL" or _has_full_join(_joins_of(join.this))
        for join in joins
    )


def _bare(node: exp.Subquery) -> Any:
    """Return what is inside a FROM item's parentheses."""
    return node.this


def _path_of(shape: shapes.TableShape, alias: names.Ident | None) -> tuple[names.Ident, ...]:
    """Return how the columns of a table or view in FROM are qualified, its own name last."""
    if alias is not None:
        return (alias,)
    if shape.shown:
        return ()
    return tuple(names.Ident(text=part, quoted=True) for part in shape.path)


def _refuse_table_clauses(node: Any, allowed: set[str]) -> None:
    for name, value in node.args.items():
        if value and name not in allowed:
            word = {"pivots": "PIVOT or UNPIVOT"}.get(name, name.rstrip("_").upper())
            raise errors.unsupported(word)


def _conjuncts(node: Any) -> list[Any]:
    nodes, stack = [], [node]
    while stack:
        item = stack.pop()
        if isinstance(item, exp.And):
            stack += [item.expression, item.this]
        elif isinstance(item, exp.Paren):
            stack.append(item.this)
        else:
            nodes.append(item)
    return nodes


def _has_quotes(text: str) -> bool:
    return "'" in text or '"' in text


def _upper_outside_names(text: str) -> str:
    characters, quote = [], ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        # Snowflake writes the texts of a name in upper case too, and names in quotes as they are.
        characters.append(char if quote == '"' else char.upper())
    return "".join(characters)
