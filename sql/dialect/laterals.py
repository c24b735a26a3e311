"""rule: LATERAL over a query, which sees the columns of the tables to its left.

A query of FROM and WHERE alone is a join: its tables are joined where its WHERE holds, and its
select list is computed beside the columns to the left.

A query that groups, orders or limits has other rows for each row to its left. It is computed once
for all of these, where only equality connects it with them: by the columns of its own that are
compared, which group its rows or part them into windows. Then the comparisons join it. A query that
aggregates without GROUP BY has one row for each row to its left, whose columns are scalar
subqueries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sql import errors, limits
from sql.dialect import columns, expressions, functions, scopes, unnesting
from sql.dialect.scopes import FromItem, QueryScope, ScopeColumn
from sql.plan import code, emit, gates, lookups, predicates, relations, sharing, substitution
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

ALIASES = "aliases"
"""Key of a SELECT's meta: trees that it may name, beside those of its select list."""

CLAUSES = frozenset({"expressions", "from_", "joins", "where"})
REDUCING = frozenset({"group", "distinct", "order", "limit", "offset"})


@dataclass(frozen=True, kw_only=True, slots=True)
class LateralQuery:
    """The bound parts of a query after LATERAL.

    is_reduced: it groups, orders or limits. skipped, count: of OFFSET and LIMIT.
    """

    source: relations.Rel
    items: Sequence[tuple[str, Expr]]
    where: Expr | None
    is_reduced: bool = False
    is_distinct: bool = False
    is_grouped: bool = False
    keys: tuple[code.Part | relations.GroupingSets, ...] = ()
    order: tuple[code.SortKey, ...] = ()
    skipped: int = 0
    count: int | None = None


def select(join: exp.Join, side: str, start: int) -> exp.Select:
    """Return the query of JOIN LATERAL. start: the first source of the scope to its left."""
    node = join.this
    inner = node.this.this if isinstance(node.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select):
        raise errors.unsupported("LATERAL of this form")
    if start or node.args.get("joins") or join.args.get("using") or join.args.get("method"):
        raise errors.unsupported("LATERAL in parentheses, with USING or NATURAL")
    if side not in ("", "LEFT"):
        raise errors.unsupported(f"{side} JOIN LATERAL")
    for name, value in (*inner.args.items(), *node.this.args.items()):
        if value and name not in CLAUSES | REDUCING and value is not inner:
            raise errors.unsupported(f"LATERAL with {name.rstrip('_').upper()}")
    where = inner.args.get("where")
    if where is not None and where.find(exp.Query, exp.Exists) is not None:
        raise errors.unsupported("LATERAL with a query in WHERE")
    if any(node.this.args.get(name) for name in REDUCING):
        raise errors.unsupported("LATERAL of this form")
    return inner


def is_one_row(inner: exp.Select) -> bool:
    """Whether a query aggregates all its rows: it has one row whatever its WHERE lets through."""
    if any(inner.args.get(name) for name in REDUCING):
        return False
    return any(
        isinstance(node, exp.Anonymous)
        and functions.is_aggregate(str(node.this))
        and not isinstance(node.parent, exp.Window)
        for item in inner.expressions
        for node in item.walk(prune=lambda part: isinstance(part, exp.Query))
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LateralItem:
    """A column of a query of one row. bound: as the query binds it; node: its tree."""

    name: str
    node: Any
    bound: Expr


@dataclass(frozen=True, kw_only=True, slots=True)
class OneRowQuery:
    """A query after LATERAL that aggregates without GROUP BY.

    source: its FROM. where: its conditions, as trees and bound.
    """

    tree: exp.Select
    source: relations.Rel
    items: Sequence[LateralItem]
    where: Sequence[tuple[Any, Expr]]

    @property
    def own(self) -> set[str]:
        """The aliases of its tables."""
        return sharing.aliases_of(self.source)

    @property
    def aliases(self) -> dict[str, Any]:
        """The trees of the columns by their aliases, which other columns may name."""
        named = [node for node in self.tree.expressions if isinstance(node, exp.Alias)]
        return {columns.ident(node.args["alias"]).folded: node.this for node in reversed(named)}


def one_row(
    join: exp.Join,
    side: str,
    scope: QueryScope,
    left: relations.Rel,
    query: OneRowQuery,
) -> relations.Rel:
    """Return left with the columns of a query of one row; the scope gets these columns."""
    on = join.args.get("on")
    if on is not None and not (isinstance(on, exp.Boolean) and on.this):
        raise errors.unsupported(f"{side} JOIN LATERAL of an aggregate with a condition".strip())
    parts = [*(item.bound for item in query.items), *(part for _, part in query.where)]
    if any(part.is_volatile or part.window for part in parts):
        raise errors.unsupported("LATERAL of an aggregate with a window or volatile function")
    _check_length(query)
    rows = [query.source, *(part for _, part in query.where)]
    computed_apart = [item for item in query.items if item.bound.aggregate]
    if len(computed_apart) > 1 and not gates.is_repeatable(rows, scope.common_rels):
        raise errors.unsupported("LATERAL of several aggregates of rows that may differ")
    values = [(item.name, _of_one_row(item, query, scope)) for item in query.items]
    binder = scope.binder
    alias = binder.alias("lateral")
    kept = unnesting.moved(scope, 0, alias)
    computed = [(f"v{number}", value) for number, (_, value) in enumerate(values)]
    listed = [(name, binder.written(value)) for name, value in (*kept, *computed)]
    shown = [
        (name, dataclasses.replace(value, code=code.ColumnUse(relation=alias, name=column)))
        for (name, value), (column, _) in zip(values, computed, strict=True)
    ]
    _add(join, shown, scope, rows=1)
    project = relations.Project(source=left, items=relations.items(listed))
    return relations.Named(query=project, alias=alias)


def _check_length(query: OneRowQuery) -> None:
    """Refuse columns that name each other so often that they are long: each is bound once more."""
    nodes = sum(1 for item in query.items for _ in _nodes(item.node))
    room = limits.LATERAL_TEXT_MAX + limits.GROWTH_MAX * nodes
    if sum(emit.length(item.bound) for item in query.items) > room:
        raise errors.unsupported("LATERAL whose columns repeat each other too often")


def _nodes(tree: Any) -> Iterable[Any]:
    """Return the nodes of a column's tree; a column of `*` is none."""
    return tree.walk() if isinstance(tree, exp.Expression) else ()


def _of_one_row(item: LateralItem, query: OneRowQuery, scope: QueryScope) -> Expr:
    """Return a column of a query of one row, for a row of the scope.

    The engine has no form for a condition on outer columns alone in a scalar subquery. Where one is
    not true, the value is that of no rows.
    """
    own = query.own
    has_query = any(type(node) is code.Subquery for node in substitution.nodes([item.bound]))
    if not item.bound.aggregate:
        if has_query:
            raise errors.unsupported("LATERAL of an aggregate beside a query")
        if not _reads_none(item.bound, own):
            raise errors.not_grouped(item.name)
        return item.bound
    outer = emit.relations_of(item.bound) - own
    if not has_query and gates.aggregates(item.bound, outer) is None:
        raise errors.unsupported("LATERAL of an aggregate of an outer column")
    select = query.tree.copy()
    select.set("expressions", [item.node.copy()])
    select.meta[ALIASES] = query.aliases
    select.set("where", None)
    outer_conditions = [part for _, part in query.where if _reads_none(part, own)]
    of_no_rows = select.copy().where(expressions.Unpruned(this=exp.false()))
    for node, part in query.where:
        if not _reads_none(part, own):
            select = select.where(node.copy(), copy=False)
    value = scope.scalar_query(select)
    if not outer_conditions:
        return value
    otherwise = scope.scalar_query(of_no_rows)
    computed = code.case([(code.joined(outer_conditions, "AND"), value)], otherwise)
    return exprs.derived(computed, value.type, [value, otherwise, *outer_conditions], nullable=True)


def bind(
    join: exp.Join, side: str, scope: QueryScope, inner: QueryScope, parts: LateralQuery
) -> tuple[relations.Rel, list[code.Part]]:
    """Return the relation to join and the conditions; the scope gets the query's columns."""
    if parts.is_reduced:
        return _reduced(join, scope, inner, parts)
    for _, value in parts.items:
        if value.aggregate or value.window or value.is_volatile:
            raise errors.unsupported("LATERAL with an aggregate, window or volatile function")
    _check_source(parts.source, scope)
    own = sharing.aliases_of(parts.source)
    if side == "LEFT" and not all(_is_of(value, own) for _, value in parts.items):
        # Where no row matches, it would be no NULL.
        raise errors.unsupported("LEFT JOIN LATERAL with anything but columns of its tables")
    _add(join, parts.items, scope, rows=inner.rows)
    source = parts.source
    if isinstance(source, relations.OneRow):
        one_row = relations.Project(source=source, items=relations.items([("one", code.part(1))]))
        source = relations.Named(query=one_row, alias=scope.binder.alias("lateral"))
    elif isinstance(source, relations.Join):
        source = relations.Enclosed(source=source)
    return source, [] if parts.where is None else [scope.binder.written(parts.where)]


def _add(
    join: exp.Join, items: Sequence[tuple[str, Expr]], scope: QueryScope, *, rows: int | None
) -> None:
    """Add the columns of a query to the scope, under the names that its alias gives them."""
    alias = join.this.args.get("alias")
    path = () if alias is None or not alias.this else (columns.ident(alias.this),)
    listed = [] if alias is None else [columns.ident(each) for each in alias.columns]
    if listed and len(listed) != len(items):
        raise errors.unsupported("column list of another length than its query")
    names = [each.folded for each in listed] or [name for name, _ in items]
    shown = [
        ScopeColumn(name=name, bound=value) for name, (_, value) in zip(names, items, strict=True)
    ]
    scopes.check_alias(path, scope.sources)
    scope.sources.append(FromItem(path=path, columns=shown, rows=rows))


def _reduced(
    join: exp.Join, scope: QueryScope, inner: QueryScope, parts: LateralQuery
) -> tuple[relations.Rel, list[code.Part]]:
    """Return a query that groups, orders or limits, once for all rows to its left."""
    own = sharing.aliases_of(parts.source)
    _check_source(parts.source, scope)
    values = [value for _, value in parts.items]
    if any(value.window or value.is_volatile for value in values):
        raise errors.unsupported("LATERAL with an aggregate, window or volatile function")
    if any(value.aggregate for value in values) and not parts.is_grouped:
        raise errors.unsupported("LATERAL with LIMIT of an aggregate")
    filters, outer_filters, pairs, others = _connected(parts.where, own)
    for value in (*values, *parts.keys, *(key.key for key in parts.order)):
        if not _reads_only(value, own):
            raise errors.unsupported("LATERAL with an outer column beside GROUP BY or LIMIT")
    binder = scope.binder
    rel = parts.source
    if others:
        condition = binder.written(code.joined(others, "AND"))
        looked_up = lookups.joined_with_values(condition, rel, own, scope.scans, binder.alias)
        if looked_up is None:
            raise errors.unsupported(
                "LATERAL with LIMIT or GROUP BY beside other than comparisons with one stored table"
            )
        rel, values_apart = looked_up
        pairs += values_apart
    alias = binder.alias("lateral")
    ours = tuple(_one_zero(mine) for mine, _ in pairs)
    if filters:
        rel = relations.RowFilter(source=rel, condition=binder.written(code.joined(filters, "AND")))
    if parts.is_grouped:
        rel = relations.Aggregate(source=rel, keys=(*parts.keys, *ours))
    listed: list[tuple[str, code.Part]] = [
        (f"v{number}", binder.written(value)) for number, value in enumerate(values)
    ]
    listed += [(f"k{number}", binder.written(key)) for number, key in enumerate(ours)]
    conditions: list[code.Part] = [
        code.infix(code.ColumnUse(relation=alias, name=f"k{number}"), "=", outer)
        for number, (_, outer) in enumerate(pairs)
    ]
    conditions += map(binder.written, outer_filters)
    if parts.skipped or parts.count is not None:
        if parts.is_grouped or parts.is_distinct:
            raise errors.unsupported("LATERAL with LIMIT beside GROUP BY or DISTINCT")
        window = code.Window(partition=ours, order=parts.order)
        number_of_row = code.FunctionUse(name="row_number", arguments=(), over=window)
        listed.append(("place", number_of_row))
        rel = relations.WindowRows(source=rel)
        place = code.ColumnUse(relation=alias, name="place")
        conditions.append(code.infix(place, ">", parts.skipped))
        if parts.count is not None:
            conditions.append(code.infix(place, "<=", parts.skipped + parts.count))
    query = relations.Project(
        source=rel, items=relations.items(listed), is_distinct=parts.is_distinct
    )
    shown = [
        (
            name,
            Expr(
                code=code.ColumnUse(relation=alias, name=f"v{number}"),
                type=value.type,
                nullable=value.nullable,
            ),
        )
        for number, (name, value) in enumerate(parts.items)
    ]
    _add(join, shown, scope, rows=inner.rows)
    return relations.Named(query=query, alias=alias), conditions or [code.TRUE]


def _connected(
    where: Expr | None, own: set[str]
) -> tuple[list[code.Part], list[code.Part], list[tuple[code.Part, code.Part]], list[code.Part]]:
    """Return the conditions on own columns and on outer ones, pairs that equality connects, and
    what is left.

    Of a pair the first part is the query's own.
    """
    filters: list[code.Part] = []
    outer_filters: list[code.Part] = []
    pairs: list[tuple[code.Part, code.Part]] = []
    others: list[code.Part] = []
    for part in () if where is None else predicates.conjuncts(where):
        if _reads_only(part, own):
            filters.append(part)
        elif _reads_none(part, own):
            outer_filters.append(part)
        else:
            pair = _equated(part, own)
            if pair is None:
                others.append(part)
            else:
                pairs.append(pair)
    return filters, outer_filters, pairs, others


def _equated(part: code.Part, own: set[str]) -> tuple[code.Part, code.Part] | None:
    """Return what a condition equates: own columns and outer ones; None for other conditions."""
    node = part
    while isinstance(node, Expr) or (isinstance(node, code.Infix) and not node.operators):
        node = node.code if isinstance(node, Expr) else node.operands[0]
    if not isinstance(node, code.Infix) or node.operators != ("=",):
        return None
    left, right = node.operands
    if not _reads_only(left, own):
        left, right = right, left
    if not _reads_only(left, own) or emit.relations_of(right) & own:
        return None
    return left, right


def _one_zero(key: code.Part) -> code.Part:
    """Return a key so that 0.0 and -0.0, which `=` equates, are in one group or partition."""
    if not isinstance(key, Expr) or key.type.name != "real":
        return key
    return code.infix(key, "+", code.arrow("0", "Float64"))


def _reads_none(part: Any, own: set[str]) -> bool:
    """Whether a part reads no column of a query's own tables, and no subquery."""
    return not any(
        type(node) is code.Subquery or (type(node) is code.ColumnUse and node.relation in own)
        for node in substitution.nodes([part])
    )


def _reads_only(part: Any, own: set[str]) -> bool:
    """Whether a part reads columns of a query's own tables alone, and no subquery."""
    return all(
        type(node) is not code.Subquery
        and (type(node) is not code.ColumnUse or node.relation in own)
        for node in substitution.nodes([part])
    )


def _check_source(source: relations.Rel, scope: QueryScope) -> None:
    """Raise SqlError if what is joined below WHERE names columns of the tables to the left."""
    outer: set[str] = set()
    for item in scope.sources:
        for column in item.columns:
            outer |= emit.relations_of(column.bound)
    for node in substitution.nodes([source]):
        if type(node) is code.ColumnUse and node.relation in outer:
            raise errors.unsupported("LATERAL with an outer column in FROM of its query")


def _is_of(value: Any, aliases: set[str]) -> bool:
    computed = value
    while isinstance(computed, Expr | code.Cast):
        computed = computed.code if isinstance(computed, Expr) else computed.operand
    return isinstance(computed, code.ColumnUse) and computed.relation in aliases
