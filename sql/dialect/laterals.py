"""rule: LATERAL over a query, which sees the columns of the tables to its left.

A query of FROM and WHERE alone is a join: its tables are joined where its WHERE holds, and its
select list is computed beside the columns to the left. A query that groups, orders or limits has
other rows for each row to its left, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sql import errors
from sql.dialect import columns, scopes
from sql.dialect.scopes import FromItem, QueryScope, ScopeColumn
from sql.plan import code, emit, relations, sharing, substitution
from sql.plan.expressions import Expr

CLAUSES = frozenset({"expressions", "from_", "joins", "where"})


@dataclass(frozen=True, kw_only=True, slots=True)
class LateralQuery:
    """The bound parts of a query after LATERAL."""

    source: relations.Rel
    items: Sequence[tuple[str, Expr]]
    where: Expr | None


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
        if value and name not in CLAUSES and value is not inner:
            raise errors.unsupported(f"LATERAL with {name.rstrip('_').upper()}")
    where = inner.args.get("where")
    if where is not None and where.find(exp.Query, exp.Exists) is not None:
        raise errors.unsupported("LATERAL with a query in WHERE")
    return inner


def bind(
    join: exp.Join, side: str, scope: QueryScope, inner: QueryScope, parts: LateralQuery
) -> tuple[relations.Rel, list[code.Part]]:
    """Return the relation to join and the conditions; the scope gets the query's columns."""
    for _, value in parts.items:
        if value.aggregate or value.window or value.is_volatile:
            raise errors.unsupported("LATERAL with an aggregate, window or volatile function")
    _check_source(parts.source, scope)
    own = sharing.aliases_of(parts.source)
    if side == "LEFT" and not all(_is_of(value, own) for _, value in parts.items):
        # Where no row matches, it would be no NULL.
        raise errors.unsupported("LEFT JOIN LATERAL with anything but columns of its tables")
    alias = join.this.args.get("alias")
    path = () if alias is None or not alias.this else (columns.ident(alias.this),)
    listed = [] if alias is None else [columns.ident(each) for each in alias.columns]
    if listed and len(listed) != len(parts.items):
        raise errors.unsupported("column list of another length than its query")
    names = [each.folded for each in listed] or [name for name, _ in parts.items]
    shown = [
        ScopeColumn(name=name, bound=value)
        for name, (_, value) in zip(names, parts.items, strict=True)
    ]
    scopes.check_alias(path, scope.sources)
    scope.sources.append(FromItem(path=path, columns=shown, rows=inner.rows))
    source = parts.source
    if isinstance(source, relations.OneRow):
        one_row = relations.Project(source=source, items=relations.items([("one", code.part(1))]))
        source = relations.Named(query=one_row, alias=scope.binder.alias("lateral"))
    elif isinstance(source, relations.Join):
        source = relations.Enclosed(source=source)
    return source, [] if parts.where is None else [scope.binder.written(parts.where)]


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
