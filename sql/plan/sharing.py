"""rule: a volatile call that a SELECT uses more than once is computed once, for each row of FROM.

The engine computes `uuid()` wherever its text holds it. So the call becomes a column of a query in
FROM, and each use of it reads that column. A call that is computed for each group, after GROUP BY,
has no such place, and is refused if it is used more than once.

The engine also moves a condition on a column below the query that computes it, and writes the
column's expression into the condition: a volatile one would have another value there. It moves no
condition below the unnesting of a list, so a volatile column is the element of a list of one.

The engine computes aggregates of one text once: of `sum(random())` and another `sum(random())`. So
several calls in aggregates become columns, too, each of its own name.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from sql import errors
from sql.plan import code, relations, substitution
from sql.plan.expressions import Expr

Steps = (
    relations.Sort
    | relations.Project
    | relations.RowFilter
    | relations.Aggregate
    | relations.WindowRows
)
"""The steps of a SELECT above FROM."""


def bound_once(select: relations.Rel, new_alias: Callable[[str], str]) -> relations.Rel:
    """Return a SELECT in which no volatile call stands twice; raises SqlError where it cannot be.

    select: Sort or Project, and the steps below it.
    """
    steps, source = steps_of(select)
    uses = [use for step in steps for use in _uses(step)]
    shared = {key: call for key, call in uses if call is not None}
    counts = Counter(key for key, _ in uses)
    # A window over a query that reads no column has no rows in the engine, but for such a column.
    has_window = any(isinstance(step, relations.WindowRows) for step in steps)
    moves_all = has_window and not any(isinstance(step, relations.Aggregate) for step in steps)
    aggregated = _in_aggregates(steps, shared)
    if len(aggregated) == 1:
        aggregated = set()
    repeated = {
        key: call
        for key, call in shared.items()
        if moves_all or counts[key] > 1 or key in aggregated
    }
    if not repeated:
        return select
    _check_rowwise(steps, repeated)
    return _moved(select, steps, source, repeated, new_alias)


def fenced(
    query: relations.Rel,
    items: Iterable[relations.ProjectItem],
    new_alias: Callable[[str], str],
) -> relations.Rel:
    """Return a query with items whose volatile columns no condition around it computes again."""
    listed = list(items)
    if not any(_is_volatile(item.value) for item in listed):
        return query
    alias = new_alias("drawn")
    columns = [(item, code.ColumnUse(relation=alias, name=item.name)) for item in listed]
    return relations.Project(
        source=relations.Named(query=query, alias=alias),
        items=relations.items(
            (item.name, _kept(column) if _is_volatile(item.value) else column)
            for item, column in columns
        ),
    )


def _kept(value: code.Part) -> code.Part:
    """Return a value that the engine computes where it stands."""
    return code.call("unnest", code.call("make_array", value))


def is_volatile(select: relations.Rel) -> bool:
    """Say whether a SELECT's own expressions are volatile."""
    steps, _ = steps_of(select)
    stack: list[Any] = [part for step in steps for part in parts_of(step)]
    while stack:
        part = stack.pop()
        if _is_volatile(part):
            return True
        if type(part) is not Expr:
            stack += substitution.children(part)
    return False


def _is_volatile(node: Any) -> bool:
    return type(node) is Expr and node.is_volatile


def steps_of(select: relations.Rel) -> tuple[list[Steps], relations.Rel]:
    """Return the steps of a SELECT, the last one first, and what stands in FROM."""
    steps: list[Steps] = []
    while isinstance(select, Steps):
        steps.append(select)
        select = select.source
    return steps, select


def parts_of(step: Steps) -> tuple[Any, ...]:
    """Return the expressions of a step."""
    match step:
        case relations.Sort(keys=keys):
            return keys
        case relations.Project(items=items):
            return items
        case relations.RowFilter(condition=condition):
            return (condition,)
        case relations.Aggregate(keys=groups):
            return groups
        case relations.WindowRows():
            return ()


def _uses(step: Steps) -> Iterable[tuple[int, Expr]]:
    """Yield each use of a volatile call, by the identity of its code."""
    parts = parts_of(step)
    if not any(_is_volatile(node) for node in substitution.nodes(parts, in_queries=False)):
        return
    stack: list[Any] = list(parts)
    while stack:
        node = stack.pop()
        if _is_volatile(node) and _is_call(node):
            yield id(node.code), node
        elif type(node) is not code.Subquery:
            stack += substitution.children(node)


def _is_call(node: Expr) -> bool:
    """Whether a volatile expression is the call itself: no part of it is volatile."""
    inside = substitution.nodes([node.code], in_queries=False)
    return not any(_is_volatile(each) for each in inside)


def _check_rowwise(steps: list[Steps], repeated: dict[int, Expr]) -> None:
    """Raise SqlError if one of these calls is computed after GROUP BY, and is no key of it."""
    grouping = next((each for each in steps if isinstance(each, relations.Aggregate)), None)
    if grouping is None:
        return
    keys = substitution.nodes(grouping.keys, in_queries=False)
    in_keys = {id(node.code) for node in keys if type(node) is Expr}
    above = steps[: steps.index(grouping)]
    stack: list[Any] = [part for step in above for part in parts_of(step)]
    visited: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in visited or type(node) is code.Subquery:
            continue
        visited.add(id(node))
        if type(node) is Expr:
            if id(node.code) in repeated and id(node.code) not in in_keys:
                raise errors.repeated_volatile()
            if node.aggregate and not _has_aggregate(node):
                continue  # an aggregate function, whose operands are computed for each row
        stack += substitution.children(node)


def _in_aggregates(steps: list[Steps], calls: dict[int, Expr]) -> set[int]:
    """Return those of the calls that are computed for each row that an aggregate reads."""
    if not any(isinstance(step, relations.Aggregate) for step in steps):
        return set()
    parts = [part for step in steps for part in parts_of(step)]
    return {
        id(inside.code)
        for node in substitution.nodes(parts, in_queries=False)
        if type(node) is Expr and node.aggregate and not _has_aggregate(node)
        for inside in substitution.nodes([node.code], in_queries=False)
        if type(inside) is Expr and id(inside.code) in calls
    }


def _has_aggregate(node: Expr) -> bool:
    inside = substitution.nodes([node.code], in_queries=False)
    return any(type(each) is Expr and each.aggregate for each in inside)


def _moved(
    select: relations.Rel,
    steps: list[Steps],
    source: relations.Rel,
    calls: dict[int, Expr],
    new_alias: Callable[[str], str],
) -> relations.Rel:
    """Return the SELECT over a query that computes the calls beside the columns of source."""
    names = {key: new_alias("shared") for key in calls}
    computed = relations.items((names[key], call) for key, call in calls.items())
    alias, inner, moved_columns = widened(steps, source, computed, new_alias)
    drawn = new_alias("drawn")
    elements = {key: new_alias("shared") for key in calls}
    fence = relations.Project(
        source=relations.Named(query=inner, alias=drawn),
        items=relations.items(
            (elements[key], _kept(code.ColumnUse(relation=drawn, name=names[key]))) for key in calls
        ),
        keeps_all=True,
    )
    rows = relations.Named(query=fence, alias=alias)

    def replace(node: Any) -> Any:
        if node is source:
            return rows
        if type(node) is Expr and id(node.code) in calls:
            column = code.ColumnUse(relation=alias, name=elements[id(node.code)])
            return dataclasses.replace(node, code=column, is_volatile=False)
        if type(node) is code.ColumnUse and (node.relation, node.name) in moved_columns:
            return code.ColumnUse(relation=alias, name=moved_columns[node.relation, node.name])
        return None

    moved: relations.Rel = substitution.substituted(select, replace)
    return moved


def widened(
    steps: Iterable[Steps],
    source: relations.Rel,
    computed: tuple[relations.ProjectItem, ...],
    new_alias: Callable[[str], str],
) -> tuple[str, relations.Project, dict[tuple[str, str], str]]:
    """Return a query of what steps read of FROM, with computed columns beside.

    The first value is the alias that it is to have, the last one the names of its columns that have
    other names there, by relation and name.
    """
    if isinstance(source, relations.TableScan | relations.Named):
        alias = source.alias or new_alias("shared")
        return alias, relations.Project(source=source, items=computed, keeps_all=True), {}
    aliases = aliases_of(source)
    used = {
        (node.relation, node.name): node
        for node in substitution.nodes(part for step in steps for part in parts_of(step))
        if type(node) is code.ColumnUse and node.relation in aliases
    }
    renamed = {key: f"kept#{number}" for number, key in enumerate(used)}
    kept = relations.items((renamed[key], node) for key, node in used.items())
    inner = relations.Project(source=source, items=(*kept, *computed))
    return new_alias("shared"), inner, renamed


def aliases_of(source: relations.Rel) -> set[str]:
    """Return the aliases of the relations that FROM joins."""
    aliases: set[str] = set()
    stack = [source]
    while stack:
        item = stack.pop()
        match item:
            case relations.Join(left=left, right=right):
                stack += [left, right]
            case relations.Enclosed(source=enclosed):
                stack.append(enclosed)
            case relations.TableScan(alias=alias) | relations.Named(alias=alias):
                aliases.add(alias)
            case relations.Values(alias=alias):
                aliases.add(alias)
    return aliases
