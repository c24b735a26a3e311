"""rule: what a scalar subquery reads of rows around it alone is computed around it.

The engine makes a join of a scalar subquery whose WHERE compares its own columns with a row around
it. It has no form for a condition on the row around it alone, nor for columns of that row beside
an aggregate. So

    (select t.c + max(u.a) from u where u.b = t.b and t.c > 1)

becomes

    case when t.c > 1 then t.c + (select max(u.a) from u where u.b = t.b)
    else t.c + (select max(u.a) from u where false) end

as an aggregate without GROUP BY has one row, whatever its WHERE lets through. Each aggregate beside
an outer column or a query reads FROM for itself. So several of them are refused over rows that may
be others when they are read again.

For a row without matches the engine takes a HAVING or DISTINCT above the aggregate as having no
row to judge. So a HAVING becomes a condition of the value, and DISTINCT of one row goes. It then
computes the value of no rows, but only of what still has an aggregate once it has folded
constants, unlike `count(*) * 0`. So what is computed of aggregates gets one that it cannot fold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sql import errors
from sql.plan import code, emit, opaque, predicates, relations, sharing, substitution
from sql.plan.expressions import Expr


@dataclass(frozen=True, kw_only=True, slots=True)
class OneGroup:
    """A query that aggregates all rows to one. having: None if it has that row in every case."""

    group: relations.Aggregate
    items: tuple[relations.ProjectItem, ...]
    having: code.Part | None

    def project(self, *values: code.Part) -> relations.Project:
        """Return the row, or NULL in each column where HAVING is not true.

        values: what to select instead of the query's own items.
        """
        items = tuple(relations.ProjectItem(value=value) for value in values) or self.items
        if self.having is not None:
            items = tuple(
                dataclasses.replace(item, value=code.case([(self.having, item.value)]))
                for item in items
            )
        return relations.Project(source=self.group, items=items)


def one_group(query: relations.Rel) -> OneGroup | None:
    """Return a query that aggregates without GROUP BY; None for another one.

    DISTINCT, ORDER BY and a LIMIT that is not 0 leave its row as it is.
    """
    while isinstance(query, relations.Sort | relations.Limit):
        if isinstance(query, relations.Limit) and (query.count == 0 or query.offset):
            return None
        query = query.source
    match query:
        case relations.Project(
            source=relations.Aggregate(keys=()) as group, items=items, keeps_all=False
        ):
            return OneGroup(group=group, items=items, having=None)
        case relations.Project(
            source=relations.RowFilter(
                source=relations.Aggregate(keys=()) as group, condition=having
            ),
            items=items,
            keeps_all=False,
        ):
            return OneGroup(group=group, items=items, having=having)
    return None


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
    group = one_group(select)
    if group is not None:
        select = group.project()
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
    is_apart = bool(_reads(item.value) & outer) or _has_query(item.value)
    if functions is None or not (gate or is_apart):
        return subquery(select)
    if len(functions) > 1 and is_apart and not is_repeatable([source, *kept], common):
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

        if not is_apart:
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


def unfolded(select: relations.Rel) -> relations.Rel:
    """Return a scalar subquery with a value that the engine does not fold to a constant.

    select: compared with rows around it. Only what is computed of aggregates is changed.
    """
    match select:
        case relations.Project(source=relations.Aggregate(keys=()), items=(item,)):
            functions = aggregates(item.value, set())
            if functions is None or id(item.value) in functions:
                return select
            value = code.case([(code.infix(opaque.count_of_rows(), ">=", 0), item.value)])
            return dataclasses.replace(select, items=(dataclasses.replace(item, value=value),))
    return select


def completed(value: code.Code, common: tuple[relations.Common, ...]) -> code.Code:
    """Return a value in which each query that reads one of these has them as its WITH.

    A query that stood beside an aggregate has left the subquery that began with the WITH.
    """
    names = {each.name for each in common}

    def as_query(node: Any) -> Any:
        if type(node) is not code.Subquery:
            return None
        query = node.query
        if isinstance(query, relations.With) and query.common is common:
            return node
        scans = (each for each in substitution.nodes([query]) if type(each) is relations.TableScan)
        if all(scan.relation not in names for scan in scans):
            return node
        own, rest = relations.without_common(query)
        return code.Subquery(query=relations.with_common(common + own, rest))

    return _bare(substitution.substituted(value, as_query))


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

    Those of a query in the value are its own. None if one reads columns of outer or a query.
    """
    functions: set[int] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is code.Subquery:
            continue
        if type(node) is Expr and node.aggregate and not _has_aggregate(node):
            if _reads(node) & outer or _has_query(node):
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
