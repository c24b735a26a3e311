"""rule: ASOF JOIN: each row of the left relation beside the closest row of the right one.

Both relations are put one below the other, in the order of what MATCH_CONDITION compares; the last
row of the right one that precedes a row of the left one is the closest. So the join takes the time
of one sort, and reads each relation once. A right row with a NULL in its keys is close to none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from sql import errors
from sql.dialect import casts, comparisons, expressions, sqltypes
from sql.dialect.scopes import FromItem, QueryScope
from sql.plan import code, relations
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

ORDERS = {
    exp.GTE: ("ASC", "ASC"),
    exp.GT: ("ASC", "DESC"),
    exp.LTE: ("DESC", "ASC"),
    exp.LT: ("DESC", "DESC"),
}
"""Comparison: the order of what is compared, and of the relations where that is equal."""


def keys(match: Any, on: Sequence[Any], scope: QueryScope, start: int, before: int) -> list[Any]:
    """Return the pairs of left and right keys: that of MATCH_CONDITION, then those of ON.

    The left relation's sources are those of the scope from start, the right one's from before.
    """
    match = match.unnest()
    if type(match) not in ORDERS:
        raise errors.unsupported("MATCH_CONDITION of this form")
    left, right = slice(start, before), slice(before, None)
    pairs = [(_within(scope, left, match.this), _within(scope, right, match.expression))]
    for node in on:
        if not isinstance(node, exp.EQ):
            raise errors.unsupported("ASOF JOIN with a condition that is no equality")
        try:
            pair = (_within(scope, left, node.this), _within(scope, right, node.expression))
        except errors.SqlError:
            pair = (_within(scope, left, node.expression), _within(scope, right, node.this))
        pairs.append(pair)
    return pairs


def _within(scope: QueryScope, part: slice, node: Any) -> Expr:
    """Return a node bound where only some of the scope's sources can be named."""
    sources = scope.sources
    scope.sources = sources[part]
    try:
        return expressions.bind(node, scope)
    finally:
        scope.sources = sources


def bind(
    match: Any,
    pairs: Sequence[tuple[Expr, Expr]],
    scope: QueryScope,
    sides: tuple[relations.Rel, relations.Rel],
    start: int,
    before: int,
) -> relations.Rel:
    """Return the join; the scope's names become those of its columns.

    pairs: `keys`, and those of USING. sides: the left and the right relation.
    """
    binder = scope.binder
    union, matched, joined = (binder.alias(word) for word in ("asof", "matched", "joined"))
    ours, theirs = [], []
    for left_key, right_key in pairs:
        left, right = comparisons.comparable(left_key, right_key)
        if left.type.is_variant or left.type.is_nested:
            raise errors.unsupported("ASOF JOIN by VARIANT")
        ours.append(left)
        theirs.append(right)
    left_items = _moved(scope, scope.sources[start:before], "c", joined, is_right=False)
    if start == 0:
        scope.merged = {
            name: _kept(bound, "c", left_items, joined) for name, bound in scope.merged.items()
        }
    right_items = _moved(scope, scope.sources[before:], "r", joined, is_right=True)
    key_names = [f"k{number}" for number in range(len(pairs))]

    first = [(name, binder.written(value)) for name, value in left_items]
    first += [(name, binder.written(key)) for name, key in zip(key_names, ours, strict=True)]
    first += [("is_left", code.TRUE), *_nulls(right_items)]
    second = _nulls(left_items)
    second += [(name, binder.written(key)) for name, key in zip(key_names, theirs, strict=True)]
    second += [("is_left", code.FALSE)]
    second += [(name, binder.written(value)) for name, value in right_items]
    present = code.joined([code.is_not_null(key) for key in theirs], "AND")
    rows = relations.set_operation(
        "UNION ALL",
        [
            relations.Project(source=sides[0], items=relations.items(first)),
            relations.Project(
                source=relations.RowFilter(source=sides[1], condition=present),
                items=relations.items(second),
            ),
        ],
    )
    order, ties = ORDERS[type(match.unnest())]
    is_left = _column("is_left")
    window = code.Window(
        partition=tuple(_column(name) for name in key_names[1:]),
        order=(
            code.SortKey(key=_column("k0"), direction=f" {order} NULLS FIRST"),
            code.SortKey(key=is_left, direction=f" {ties}"),
        ),
        frame="ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    )
    # A row is one value, so that the closest one counts even where it holds a NULL.
    fields: list[code.Argument] = ["row", 1]
    for name, _ in right_items:
        fields += (name, _column(name))
    row = code.case([(is_left, code.NULL)], code.call("named_struct", *fields))
    latest = code.FunctionUse(name="last_value", arguments=(row,), ignores_nulls=True, over=window)
    beside = relations.Project(
        source=relations.WindowRows(source=relations.Named(query=rows, alias=union)),
        items=relations.items([("closest", latest)]),
        keeps_all=True,
    )
    closest = code.ColumnUse(relation=matched, name="closest")
    through = [(name, code.call("get_field", closest, name)) for name, _ in right_items]
    left_columns = relations.columns(name for name, _ in left_items)
    query = relations.Project(
        source=relations.RowFilter(
            source=relations.Named(query=beside, alias=matched), condition=is_left
        ),
        items=(*left_columns, *relations.items(through))
        or relations.items([("none", code.part(1))]),
    )
    return relations.Named(query=query, alias=joined)


def _column(name: str) -> code.ColumnUse:
    return code.ColumnUse(relation="", name=name)


Items = list[tuple[str, Expr]]


def _moved(
    scope: QueryScope, sources: Sequence[FromItem], prefix: str, relation: str, *, is_right: bool
) -> Items:
    """Make the columns of sources those of a relation; return what each of them was.

    No condition on a right column may exclude files: the closest row could be in one.
    """
    items: Items = []
    for source in sources:
        if source.sequence is not None:
            raise errors.unsupported("ASOF JOIN beside GENERATOR")
        source.columns = [
            dataclasses.replace(column, bound=_kept(column.bound, prefix, items, relation))
            for column in source.columns
        ]
        if is_right:
            source.columns = [
                dataclasses.replace(
                    column, bound=dataclasses.replace(column.bound, nullable=True, origin=None)
                )
                for column in source.columns
            ]
    return items


def _nulls(items: Items) -> list[tuple[str, code.Part]]:
    """Return NULLs of the items' types, which the engine does not find by itself in UNION ALL."""
    return [(name, code.NULL if value.type.is_nested else _null_of(value)) for name, value in items]


def _null_of(value: Expr) -> Expr:
    return exprs.null(sqltypes.TEXT if value.type.is_variant else value.type)


def _kept(bound: Expr, prefix: str, items: Items, relation: str) -> Expr:
    """Return a column of the relation for an expression, and note it among the items."""
    name = f"{prefix}{len(items)}"
    raw = casts.unread(bound)
    items.append((name, raw))
    column = code.ColumnUse(relation=relation, name=name)
    exact = code.exactly(column, bound.type) if bound.type.is_integer else column
    moved = dataclasses.replace(bound, code=exact)
    return casts.read_variant(moved) if raw is not bound else moved
