"""rule: what a scalar subquery reads of rows around it alone is computed around it.

The engine makes a join of a scalar subquery whose WHERE compares its own columns with a row around
it. It has no form for a condition on the row around it alone, nor for columns of that row beside
an aggregate. So

    (select t.c + max(u.a) from u where u.b = t.b and t.c > 1)

becomes

    case when t.c > 1 then t.c + (select max(u.a) from u where u.b = t.b)
    else t.c + (select max(u.a) from u where false) end

as an aggregate without GROUP BY has one row, whatever its WHERE lets through. Each aggregate beside
an outer column reads FROM for itself. So several of them are refused over rows that may be others
when they are read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sql import errors
from sql.plan import code, emit, opaque, predicates, relations, sharing, substitution
from sql.plan.expressions import Expr


def computed(
    select: relations.Rel,
    outer: set[str],
    common: Mapping[str, relations.Rel],
    subquery: Callable[[relations.Rel], code.Code],
) -> code.Code:
    """Return the code of a scalar subquery that reads columns of relations around it.

    select: the query. outer: the aliases of these relations. common: the queries of WITH
    by name. subquery: returns the code of a query that reads none of their columns, or reads them
    in comparisons with its own alone. Raises SqlError for several aggregates of rows that differ
    each time they are read.
    """
    steps, source = sharing.steps_of(select)
    match steps:
        case [relations.Project(items=(item,), is_distinct=False), *rest]:
            pass
        case _:
            return subquery(select)
    where = rest[-1] if rest and isinstance(rest[-1], relations.RowFilter) else None
    if where is not None:
        rest.pop()
    if not rest and isinstance(source, relations.OneRow) and not _has_query((item, where)):
        if where is None:
            return _bare(item.value)
        return code.case([(where.condition, item.value)])
    if not (len(rest) == 1 and isinstance(rest[0], relations.Aggregate) and not rest[0].keys):
        return subquery(select)
    parts = [] if where is None else predicates.conjuncts(where.condition)
    gate = [part for part in parts if _reads_only(part, outer)]
    kept = [part for part in parts if not _reads_only(part, outer)]
    if any(_is_volatile(part) for part in gate):
        return subquery(select)
    functions = aggregates(item.value, outer)
    if functions is None or not (gate or _reads(item.value) & outer):
        return subquery(select)
    if (
        len(functions) > 1
        and _reads(item.value) & outer
        and not is_repeatable([source, *kept], common)
    ):
        raise errors.subquery_unsupported()

    def of_rows(conditions: list[code.Part]) -> code.Code:
        below: relations.Rel = source
        if conditions:
            below = relations.RowFilter(source=source, condition=code.joined(conditions, "AND"))
        grouped = relations.Aggregate(source=below)
        is_correlated = any(_reads(condition) & outer for condition in conditions)

        def of_aggregate(value: code.Part) -> code.Code:
            only = relations.ProjectItem(value=value, name=item.name)
            query: relations.Rel = relations.Project(source=grouped, items=(only,))
            return subquery(query if is_correlated else opaque.closed(query))

        if not _reads(item.value) & outer:
            return of_aggregate(item.value)

        def as_query(node: Any) -> Any:
            if id(node) not in functions:
                return None
            return dataclasses.replace(node, code=of_aggregate(node), aggregate=False)

        return _bare(substitution.substituted(item.value, as_query))

    value = of_rows(kept)
    if not gate:
        return value
    return code.case([(code.joined(gate, "AND"), value)], of_rows([code.FALSE]))


def is_repeatable(plan: Iterable[Any], common: Mapping[str, relations.Rel]) -> bool:
    """Whether rows are the same ones each time that they are read.

    They are not where a volatile call, a LIMIT or a window's order may choose among them. common:
    the queries of WITH by name.
    """
    unread = dict(common)
    plans = [tuple(plan)]
    while plans:
        for node in substitution.nodes(plans.pop()):
            match node:
                case Expr(is_volatile=True) | relations.WindowRows():
                    return False
                case relations.Limit(count=count, offset=offset):
                    if offset or count != relations.ALL_ROWS:
                        return False
                case relations.TableScan(relation=name) if name in unread:
                    plans.append((unread.pop(name),))
    return True


def aggregates(value: Any, outer: set[str]) -> set[int] | None:
    """Return the aggregate functions in a value, by id.

    None if one reads columns of outer, or if a query stands in the value.
    """
    functions: set[int] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is code.Subquery:
            return None
        if type(node) is Expr and node.aggregate and not _has_aggregate(node):
            if _reads(node) & outer:
                return None
            functions.add(id(node))
            continue
        stack += substitution.children(node)
    return functions


def _has_aggregate(node: Expr) -> bool:
    inside = substitution.nodes([node.code], in_queries=False)
    return any(type(each) is Expr and each.aggregate for each in inside)


def _reads(part: Any) -> set[str]:
    return set(emit.relations_of(part))


def _reads_only(part: Any, outer: set[str]) -> bool:
    """Whether a condition reads columns of outer alone, at least one, and no query."""
    read = _reads(part)
    return bool(read) and read <= outer and not _has_query(part)


def _has_query(part: Any) -> bool:
    return any(type(node) is code.Subquery for node in substitution.nodes([part]))


def _is_volatile(part: Any) -> bool:
    return any(type(node) is Expr and node.is_volatile for node in substitution.nodes([part]))


def _bare(part: code.Part) -> code.Code:
    while isinstance(part, Expr):
        part = part.code
    return part
