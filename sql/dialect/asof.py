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
from sql.dialect import expressions, names, rewrites, sqltypes
from sql.dialect.scopes import FromItem, QueryScope, ScopeColumn
from sql.plan import code
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
    texts: tuple[str, str],
    start: int,
    before: int,
) -> str:
    """Return the text of the join; the scope's names become those of its columns.

    pairs: `keys`, and those of USING. texts: of the left and of the right relation.
    """
    binder = scope.binder
    union, matched, joined = (binder.alias(word) for word in ("asof", "matched", "joined"))
    ours, theirs = [], []
    for left_key, right_key in pairs:
        left, right = rewrites.comparable(left_key, right_key)
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

    def selected(items: Sequence[tuple[str, str]], source: str, where: str = "") -> str:
        listed = ", ".join(f"{text} AS {names.quoted(name)}" for name, text in items)
        return f"SELECT {listed} FROM {source}{where}"

    first = [(name, binder.text(value)) for name, value in left_items]
    first += [(name, binder.text(key)) for name, key in zip(key_names, ours, strict=True)]
    first += [("is_left", "TRUE"), *_nulls(right_items, scope)]
    second = _nulls(left_items, scope)
    second += [(name, binder.text(key)) for name, key in zip(key_names, theirs, strict=True)]
    second += [("is_left", "FALSE")]
    second += [(name, binder.text(value)) for name, value in right_items]
    present = " AND ".join(f"{binder.text(key)} IS NOT NULL" for key in theirs)
    rows = (
        f"{selected(first, texts[0])} UNION ALL {selected(second, texts[1], f' WHERE {present}')}"
    )
    order, ties = ORDERS[type(match.unnest())]
    partition = ", ".join(f'"{name}"' for name in key_names[1:])
    window = (
        f"{f'PARTITION BY {partition} ' if partition else ''}"
        f'ORDER BY "k0" {order} NULLS FIRST, "is_left" {ties} '
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )
    # A row is one value, so that the closest one counts even where it holds a NULL.
    fields = "".join(f", '{name}', {names.quoted(name)}" for name, _ in right_items)
    row = f"CASE WHEN \"is_left\" THEN NULL ELSE named_struct('row', 1{fields}) END"
    latest = f'last_value({row}) IGNORE NULLS OVER ({window}) AS "found"'
    through = [(name, names.quoted(name)) for name, _ in left_items]
    beside = f"SELECT *, {latest} FROM ({rows}) AS {names.quoted(union)}"
    closest = code.ColumnUse(relation=matched, name="found")
    through += [
        (name, binder.text(code.call("get_field", closest, name))) for name, _ in right_items
    ]
    text = selected(through or [("none", "1")], f"({beside}) AS {names.quoted(matched)}")
    return f'({text} WHERE "is_left") AS {names.quoted(joined)}'


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
            ScopeColumn(name=column.name, bound=_kept(column.bound, prefix, items, relation))
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


def _nulls(items: Items, scope: QueryScope) -> list[tuple[str, str]]:
    """Return NULLs of the items' types, which the engine does not find by itself in UNION ALL."""
    return [
        (name, "NULL" if value.type.is_nested else scope.binder.text(_null_of(value)))
        for name, value in items
    ]


def _null_of(value: Expr) -> Expr:
    return exprs.null(sqltypes.TEXT if value.type.is_variant else value.type)


def _kept(bound: Expr, prefix: str, items: Items, relation: str) -> Expr:
    """Return a column of the relation for an expression, and note it among the items."""
    name = f"{prefix}{len(items)}"
    raw = rewrites.unread(bound)
    items.append((name, raw))
    column = code.ColumnUse(relation=relation, name=name)
    exact = code.exactly(column, bound.type) if bound.type.is_integer else column
    moved = dataclasses.replace(bound, code=exact)
    return rewrites.read_variant(moved) if raw is not bound else moved
