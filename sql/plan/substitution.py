"""rule: a plan with other parts in the place of some of its own.

What does not change is the same object afterwards, and what a plan shares it shares still. Nothing
here recurses.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable
from typing import Any, Final

from sql.plan import code, relations
from sql.plan.expressions import Expr

NODES: Final = frozenset(
    {
        *typing.get_args(code.Code),
        *typing.get_args(relations.Rel),
        code.SortKey,
        code.Window,
        relations.Common,
        relations.GroupingSets,
        relations.ProjectItem,
        Expr,
    }
)
"""The sorts of values that a plan consists of."""

PARTS: Final = {
    node: tuple(
        field.name
        for field in dataclasses.fields(node)
        if field.init and field.name not in ("type", "literal", "origin", "terms")
    )
    for node in NODES
}
"""Of each sort, the fields in which other nodes can stand."""


def children(node: Any) -> list[Any]:
    """Return the nodes and tuples directly inside a node, or a tuple's members."""
    if type(node) is tuple:
        return [each for each in node if type(each) is tuple or type(each) in NODES]
    values = [getattr(node, name) for name in PARTS[type(node)]]
    return [each for each in values if type(each) is tuple or type(each) in NODES]


def nodes(plan: Iterable[Any], *, in_queries: bool = True) -> Iterable[Any]:
    """Yield the nodes of a plan once each. in_queries: those of queries in expressions too."""
    visited: set[int] = set()
    stack = list(plan)
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if type(node) is not tuple:
            yield node
        if in_queries or type(node) is not code.Subquery:
            stack += children(node)


def substituted(plan: Any, replace: Callable[[Any], Any]) -> Any:
    """Return plan with replace(node) for each of its nodes for which that is not None.

    An expression is volatile afterwards if one inside still is.
    """
    results: dict[int, Any] = {}
    stack: list[tuple[Any, bool]] = [(plan, False)]
    while stack:
        node, is_left = stack.pop()
        if id(node) in results:
            continue
        if not is_left:
            other = None if type(node) is tuple else replace(node)
            if other is not None:
                results[id(node)] = other
                continue
            stack.append((node, True))
            stack += [(child, False) for child in children(node)]
        elif type(node) is tuple:
            results[id(node)] = _rebuilt_tuple(node, results)
        else:
            results[id(node)] = _rebuilt(node, results)
    return results[id(plan)]


def _rebuilt_tuple(node: tuple[Any, ...], results: dict[int, Any]) -> tuple[Any, ...]:
    members = tuple(results.get(id(each), each) for each in node)
    is_same = all(ours is theirs for ours, theirs in zip(members, node, strict=True))
    return node if is_same else members


def _rebuilt(node: Any, results: dict[int, Any]) -> Any:
    changes = {}
    for name in PARTS[type(node)]:
        value = getattr(node, name)
        other = results.get(id(value), value)
        if other is not value:
            changes[name] = other
    if not changes:
        return node
    if type(node) is Expr:
        changes["is_volatile"] = any(
            type(each) is Expr and each.is_volatile
            for each in nodes([changes["code"]], in_queries=False)
        )
        changes["terms"] = None
    return dataclasses.replace(node, **changes)
