"""rule: columns that are filled with NULL, where the engine does not take them as constant.

The engine knows that a column of a joined relation is constant: its query gives a literal, or a
condition compares it with one. It believes so above an outer join as well, whose other rows have
NULL there, and above ROLLUP, CUBE and GROUPING SETS, whose rows of fewer keys have. Then it leaves
the column out of a sort, and takes rows as grouped by it that are not: an order is wrong, and
groups stand twice. So below a SELECT that sorts or groups by such columns stands a query that
computes them: `CASE WHEN random() >= 0 THEN column END`. WHERE stays below it, so it meets the
joins as before. The next column has -1 there, then -2: two columns that are equal, as a join may
have them, are no longer known as such, and one of them is NULL alone in rows of fewer keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sql.plan import code, relations, sharing, substitution


def hidden(query: relations.Rel, new_alias: Callable[[str], str]) -> relations.Rel:
    """Return a statement's query in which the engine sees no padded column as a constant key."""
    has_padded = any(
        type(node) is relations.GroupingSets
        or (type(node) is relations.Join and node.side in ("LEFT", "FULL"))
        for node in substitution.nodes([query])
    )
    return _Hiding(new_alias).query(query, {})[0] if has_padded else query


@dataclass(frozen=True, kw_only=True, slots=True)
class _Padded:
    """The columns that may be padded: those of whole relations, and single ones."""

    relations: frozenset[str] = frozenset()
    columns: frozenset[tuple[str, str]] = frozenset()

    def __or__(self, other: _Padded) -> _Padded:
        return _Padded(
            relations=self.relations | other.relations, columns=self.columns | other.columns
        )

    def has(self, column: code.ColumnUse) -> bool:
        return column.relation in self.relations or (column.relation, column.name) in self.columns


NONE = _Padded()
Names = frozenset[str]
"""The padded columns of a query's result."""
Commons = dict[str, Names]
"""Those of the WITH expressions in sight, by the expression's name."""


class _Hiding:
    """One statement's pass. Mutable: it makes aliases."""

    def __init__(self, new_alias: Callable[[str], str]) -> None:
        self._new_alias = new_alias

    def query(self, query: relations.Rel, commons: Commons) -> tuple[relations.Rel, Names]:
        """Return a query with its keys hidden, and the columns of its result that are padded."""
        match query:
            case relations.With():
                return self._with(query, commons)
            case relations.Limit():
                source, padded = self.query(query.source, commons)
                return dataclasses.replace(query, source=source), padded
            case relations.Enclosed():
                source, padded = self.query(query.source, commons)
                return dataclasses.replace(query, source=source), padded
            case relations.SetOp():
                return self._set_operation(query, commons)
            case relations.Sort() if not isinstance(query.source, relations.Project):
                return self._sorted(query, commons)
            case relations.Sort() | relations.Project():
                return self._select(query, commons)
            case relations.Recursive():
                anchor, _ = self.query(query.anchor, commons)
                step, _ = self.query(query.step, commons)
                return relations.Recursive(anchor=anchor, step=step), frozenset()
            case relations.Unnest():
                source, below = self._source(query.source, commons)
                through = {name for _, name in below.columns}
                if below.relations:
                    through.update(query.columns)
                return dataclasses.replace(query, source=source), frozenset(through)
        return query, frozenset()

    def _with(self, query: relations.With, commons: Commons) -> tuple[relations.Rel, Names]:
        commons = dict(commons)
        listed = []
        for common in query.common:
            inner, padded = self.query(common.query, commons)
            inner_names = _names(common.query)
            commons[common.name] = (
                frozenset(
                    column
                    for column, name in zip(common.columns, inner_names, strict=True)
                    if name in padded
                )
                if len(inner_names) == len(common.columns)
                else frozenset(common.columns if padded else ())
            )
            listed.append(dataclasses.replace(common, query=inner))
        inner, padded = self.query(query.query, commons)
        return relations.With(common=tuple(listed), query=inner), padded

    def _set_operation(
        self, query: relations.SetOp, commons: Commons
    ) -> tuple[relations.Rel, Names]:
        names = _names(query)
        branches: list[relations.Rel] = []
        padded: set[str] = set()
        for branch in query.branches:
            rel, own = self.query(branch, commons)
            if not query.word.endswith("ALL"):
                rel, own = self._computed(rel, own), frozenset()
            branches.append(rel)
            padded.update(
                name for name, inner in zip(names, _names(branch), strict=False) if inner in own
            )
        return dataclasses.replace(query, branches=tuple(branches)), frozenset(padded)

    def _sorted(self, query: relations.Sort, commons: Commons) -> tuple[relations.Rel, Names]:
        source, padded = self.query(query.source, commons)
        keys = self._parts(query.keys, commons)
        computed = self._computed(source, padded)
        return relations.Sort(source=computed, keys=keys), frozenset()

    def _computed(self, query: relations.Rel, padded: Names) -> relations.Rel:
        """Return a query whose padded columns are computed."""
        names = _names(query)
        if not padded or not names:
            return query
        alias = self._new_alias("padded")
        items = []
        for number, name in enumerate(names):
            column = code.ColumnUse(relation=alias, name=name)
            items.append((name, _hidden(column, number) if name in padded else column))
        named = relations.Named(query=query, alias=alias)
        return relations.Project(source=named, items=relations.items(items))

    def _source(self, source: relations.Rel, commons: Commons) -> tuple[relations.Rel, _Padded]:
        """Return what stands in FROM, and its padded columns."""
        match source:
            case relations.TableScan(relation=relation, alias=alias):
                names = commons.get(relation, frozenset())
                return source, _Padded(
                    columns=frozenset((alias or relation, name) for name in names)
                )
            case relations.Named(alias=alias):
                query, names = self.query(source.query, commons)
                named = dataclasses.replace(source, query=query)
                return named, _Padded(columns=frozenset((alias, name) for name in names))
            case relations.Enclosed():
                inner, padded = self._source(source.source, commons)
                return relations.Enclosed(source=inner), padded
            case relations.Join():
                left, left_padded = self._source(source.left, commons)
                right, right_padded = self._source(source.right, commons)
                padded = left_padded | right_padded
                if source.side in ("LEFT", "FULL"):
                    padded |= _Padded(relations=frozenset(sharing.aliases_of(source.right)))
                if source.side == "FULL":
                    padded |= _Padded(relations=frozenset(sharing.aliases_of(source.left)))
                conditions = self._parts(source.conditions, commons)
                joined = dataclasses.replace(source, left=left, right=right, conditions=conditions)
                return joined, padded
        return self.query(source, commons)[0], NONE

    def _parts(self, parts: Any, commons: Commons) -> Any:
        """Return parts of steps with the queries inside them gone through."""

        def replace(node: Any) -> Any:
            if type(node) is code.Subquery:
                return dataclasses.replace(node, query=self.query(node.query, commons)[0])
            return None

        return substitution.substituted(parts, replace)

    def _select(self, select: relations.Rel, commons: Commons) -> tuple[relations.Rel, Names]:
        steps, source = sharing.steps_of(select)
        inner, padded = self._source(source, commons)
        rel: relations.Rel = inner
        for step in reversed(steps):
            rel = self._step(step, rel, commons)
        steps, _ = sharing.steps_of(rel)
        left_out = _left_out(steps)
        if padded == NONE and left_out == NONE:
            return rel, frozenset()
        project = next(step for step in steps if isinstance(step, relations.Project))
        if _has_order(steps):
            padded |= left_out
        keys = {
            node
            for node in substitution.nodes(_keys(steps, project))
            if type(node) is code.ColumnUse and padded.has(node)
        }
        padded |= left_out
        names = frozenset(
            _name(item)
            for item in project.items
            if any(
                type(node) is code.ColumnUse and padded.has(node) and node not in keys
                for node in substitution.nodes([item.value])
            )
        )
        if project.keeps_all:
            return rel, names | {name for _, name in padded.columns}
        return (self._over(rel, steps, inner, keys) if keys else rel), names

    def _step(self, step: sharing.Steps, source: relations.Rel, commons: Commons) -> relations.Rel:
        match step:
            case relations.Sort():
                return relations.Sort(source=source, keys=self._parts(step.keys, commons))
            case relations.Project():
                items = self._parts(step.items, commons)
                return dataclasses.replace(step, source=source, items=items)
            case relations.RowFilter():
                condition = self._parts(step.condition, commons)
                return relations.RowFilter(source=source, condition=condition)
            case relations.Aggregate():
                return relations.Aggregate(source=source, keys=self._parts(step.keys, commons))
            case relations.WindowRows():
                return relations.WindowRows(source=source)

    def _over(
        self,
        select: relations.Rel,
        steps: list[sharing.Steps],
        source: relations.Rel,
        keys: set[code.ColumnUse],
    ) -> relations.Rel:
        """Return a SELECT over a query that computes the columns keys beside the others."""
        below = source
        above = list(steps)
        while isinstance(above[-1], relations.RowFilter):  # WHERE
            below = above.pop()
        aliases = sharing.aliases_of(source)
        used = {
            node: f"{node.relation}.{node.name}"
            for node in substitution.nodes(
                part for step in above for part in sharing.parts_of(step)
            )
            if type(node) is code.ColumnUse and node.relation in aliases
        }
        items = relations.items(
            (name, _hidden(column, number) if column in keys else column)
            for number, (column, name) in enumerate(used.items())
        )
        alias = self._new_alias("padded")
        rows = relations.Named(query=relations.Project(source=below, items=items), alias=alias)

        def replace(node: Any) -> Any:
            if node is below:
                return rows
            if type(node) is code.ColumnUse and node in used:
                return code.ColumnUse(relation=alias, name=used[node])
            return None

        over: relations.Rel = substitution.substituted(select, replace)
        return over


def _left_out(steps: Iterable[sharing.Steps]) -> _Padded:
    """Return the columns in keys of GROUP BY that are NULL where a set of keys leaves them out."""
    sets = [
        key
        for step in steps
        if isinstance(step, relations.Aggregate)
        for key in step.keys
        if isinstance(key, relations.GroupingSets)
    ]
    return _Padded(
        columns=frozenset(
            (node.relation, node.name)
            for node in substitution.nodes(sets)
            if type(node) is code.ColumnUse
        )
    )


def _has_order(steps: Iterable[sharing.Steps]) -> bool:
    """Whether a SELECT sorts its rows, in windows too, or makes them distinct."""
    return any(
        isinstance(step, relations.Sort | relations.WindowRows)
        or (isinstance(step, relations.Project) and step.is_distinct)
        for step in steps
    )


def _hidden(column: code.ColumnUse, number: int) -> code.Part:
    always = code.infix(code.call("random"), ">=", -number)
    return code.Case(whens=((always, column),))


def _keys(steps: Iterable[sharing.Steps], project: relations.Project) -> list[Any]:
    """Return what a SELECT sorts and groups by."""
    keys: list[Any] = []
    by_name = {item.name: item.value for item in project.items}
    for step in steps:
        match step:
            case relations.Sort():
                for key in step.keys:
                    keys += [key, *_items_of(key, project, by_name)]
            case relations.Aggregate():
                keys += step.keys
            case relations.Project(is_distinct=True):
                keys += [item.value for item in step.items]
        for node in substitution.nodes(sharing.parts_of(step), in_queries=False):
            match node:
                case code.FunctionUse():
                    keys += [*node.order, *node.within, *(node.arguments * node.is_distinct)]
                case code.Window():
                    keys += [*node.partition, *node.order]
    return keys


def _items_of(
    key: code.SortKey, project: relations.Project, by_name: dict[str, code.Part]
) -> list[code.Part]:
    """Return the items to which a sort key refers: by a number, or by their names."""
    items = []
    for node in substitution.nodes([key]):
        if type(node) is code.Token and node.text.isdecimal():
            number = int(node.text)
            items += [item.value for item in project.items[number - 1 : number]]
        elif type(node) is code.ColumnUse and not node.relation and node.name in by_name:
            items.append(by_name[node.name])
    return items


def _name(item: relations.ProjectItem) -> str:
    if item.name:
        return item.name
    return item.value.name if isinstance(item.value, code.ColumnUse) else ""


def _names(query: relations.Rel) -> list[str]:
    """Return the names of a query's columns; none where they are not in the plan."""
    while True:
        match query:
            case relations.Sort() | relations.Limit() | relations.Enclosed():
                query = query.source
            case relations.With():
                query = query.query
            case relations.SetOp():
                query = query.branches[0]
            case relations.Recursive():
                query = query.anchor
            case relations.Project(keeps_all=False):
                return [_name(item) for item in query.items]
            case _:
                return []
