"""rule: a scalar subquery compares columns, not what is computed of them, with rows around it.

The engine makes a join of a scalar subquery whose WHERE compares a column of its own with a row
around it, as `u.a = t.a` does. It has no form for `upper(u.a) = upper(t.a)`, nor for the instants
by which values of TIMESTAMP_TZ are compared. So what is computed there of the subquery's own
columns becomes a column of a query in its FROM.

It makes one of EXISTS too, and compares the rows after it has computed window functions over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sql.plan import code, predicates, relations, sharing, substitution
from sql.plan.expressions import Expr


def keyed(select: relations.Rel, new_alias: Callable[[str], str]) -> relations.Rel:
    """Return a subquery whose equations with rows around it have a column on its own side.

    select: Sort or Project, and the steps below it; another one is returned as it is.
    """
    steps, source = sharing.steps_of(select)
    if not steps or type(steps[-1]) is not relations.RowFilter:
        return select
    where = steps[-1].condition
    own = sharing.aliases_of(source)
    sides = [side for each in conjuncts(where) for side in _own_sides(each, own)]
    if not sides:
        return select
    names = {id(side): new_alias("key") for side in sides}
    computed = relations.items((names[id(side)], side) for side in sides)
    alias, inner, renamed = sharing.widened(steps, source, computed, new_alias)
    rows = relations.Named(query=inner, alias=alias)

    def as_column(node: Any) -> Any:
        if id(node) in names:
            return code.ColumnUse(relation=alias, name=names[id(node)])
        return None

    def moved(node: Any) -> Any:
        if node is source:
            return rows
        if node is where:
            return substitution.substituted(substitution.substituted(where, as_column), renaming)
        return renaming(node)

    def renaming(node: Any) -> Any:
        if type(node) is code.ColumnUse and (node.relation, node.name) in renamed:
            return code.ColumnUse(relation=alias, name=renamed[node.relation, node.name])
        return None

    changed: relations.Rel = substitution.substituted(select, moved)
    return changed


def windows_are_apart(select: relations.Rel) -> bool:
    """Whether the windows of QUALIFY have the rows of one row around the subquery each.

    The engine filters by the rows around it last. So each window must be partitioned by the columns
    that are equal to theirs.
    """
    while isinstance(select, relations.Limit):
        select = select.source
    steps, source = sharing.steps_of(select)
    conditions = [
        step.condition
        for step in steps
        if type(step) is relations.RowFilter and type(step.source) is relations.WindowRows
    ]
    windows = [
        node.over
        for node in substitution.nodes(conditions, in_queries=False)
        if type(node) is code.FunctionUse and node.over is not None
    ]
    if not windows:
        return True
    if any(type(step) is relations.Aggregate for step in steps):
        return False
    own = sharing.aliases_of(source)
    keys = set()
    where = steps[-1].condition if type(steps[-1]) is relations.RowFilter else code.TRUE
    for part in predicates.conjuncts(where):
        read = _relations([part]) - _aliases([part])
        if not read <= own and not read.isdisjoint(own):
            keys.add(_equal_column(part, own))
    partitions = [{bare(part) for part in window.partition} for window in windows]
    return all(keys <= partition for partition in partitions)


def _equal_column(condition: Any, own: set[str]) -> code.ColumnUse | None:
    """Return the own column that a condition equates with a row around it, None if it does not."""
    comparison = bare(condition)
    while type(comparison) is code.Infix and len(comparison.operands) == 1:
        comparison = bare(comparison.operands[0])
    if type(comparison) is not code.Infix or comparison.operators != ("=",):
        return None
    left, right = comparison.operands
    for side, other in ((left, right), (right, left)):
        column = bare(side)
        if type(column) is code.ColumnUse and column.relation in own:
            return column if _relations([other]).isdisjoint(own) else None
    return None


def conjuncts(condition: Any) -> Iterable[code.Infix]:
    """Yield those of the conditions joined by AND that are comparisons of two operands."""
    stack = [condition]
    while stack:
        part = bare(stack.pop())
        if type(part) is not code.Infix:
            continue
        if all(word == "AND" for word in part.operators):
            stack += part.operands
        elif len(part.operands) == 2:
            yield part


def _own_sides(comparison: code.Infix, own: set[str]) -> Iterable[Any]:
    """Yield the side of an equation that is computed of own columns, if the other one is not."""
    if comparison.operators != ("=",):
        return
    left, right = comparison.operands
    for side, other in ((left, right), (right, left)):
        if type(bare(side)) is code.ColumnUse or _is_volatile(side):
            continue
        relations_of_side = _relations([side])
        if relations_of_side and relations_of_side <= own and not _relations([other]) <= own:
            yield side


def _relations(plan: Iterable[Any]) -> set[str]:
    """Return the aliases of the relations whose columns a plan reads."""
    return {node.relation for node in substitution.nodes(plan) if type(node) is code.ColumnUse}


def _is_volatile(part: Any) -> bool:
    return type(part) is Expr and part.is_volatile


def bare(part: Any) -> Any:
    """Return the code of an expression."""
    while type(part) is Expr:
        part = part.code
    return part


def _aliases(plan: Iterable[Any]) -> set[str]:
    """Return the aliases of the tables and queries that the queries in a plan read."""
    sources = (relations.TableScan, relations.Named)
    return {node.alias for node in substitution.nodes(plan) if type(node) in sources}
