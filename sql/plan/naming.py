"""rule: columns of joined relations have names of their own, where the engine confuses them.

Above a join, the engine knows a column by its name and its place. Where it moves a filter below
other steps of its plan, a bound that a join or a sort finds while it runs among them, it looks the
column up by its name alone. Of two columns of one name it filters the wrong one, and rows are
missing. So each of them gets its relation's alias before its name, in a query that stands in the
relation's place.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from sql.plan import code, relations, sharing, substitution
from sql.plan.expressions import Expr

Renamed = dict[code.ColumnUse, str]
"""New names of columns."""


def distinct(query: relations.Rel) -> relations.Rel:
    """Return a statement's query in which no two columns that a FROM joins have one name."""
    nodes = list(substitution.nodes([query]))
    joins = [node for node in nodes if type(node) is relations.Join]
    if not joins:
        return query
    columns = [node for node in nodes if type(node) is code.ColumnUse and node.relation]
    used: dict[str, dict[str, None]] = {}
    for column in columns:
        used.setdefault(column.relation, {})[column.name] = None
    kept = _kept(nodes)
    renamed: Renamed = {}
    operands = {id(_bare(each)) for join in joins for each in (join.left, join.right)}
    for join in joins:
        if id(join) in operands:
            continue
        sources = _sources(join)
        aliases = {source.alias for source in sources} - kept
        names = Counter(name for source in sources for name in used.get(source.alias, ()))
        for alias in sorted(aliases):
            for name in used.get(alias, ()):
                if names[name] > 1:
                    column = code.ColumnUse(relation=alias, name=name)
                    renamed[column] = f"{alias}.{name}"
    return _with_names(query, renamed, used) if renamed else query


def _bare(operand: relations.Rel) -> relations.Rel:
    while type(operand) is relations.Enclosed:
        operand = operand.source
    return operand


def _sources(join: relations.Rel) -> list[relations.TableScan | relations.Named]:
    """Return the tables and queries that a FROM joins, those with an alias."""
    sources: list[relations.TableScan | relations.Named] = []
    stack: list[relations.Rel] = [join]
    while stack:
        match stack.pop():
            case relations.Join(left=left, right=right):
                stack += [right, left]
            case relations.Enclosed(source=source):
                stack.append(source)
            case (relations.TableScan() | relations.Named()) as source if source.alias:
                sources.append(source)
    return sources


def _kept(nodes: list[Any]) -> set[str]:
    """Return the aliases whose columns keep their names, as those of a `*` over them do."""
    kept: set[str] = set()
    for node in nodes:
        if type(node) is relations.Unnest:
            kept |= sharing.aliases_of(node.source)
        if type(node) is relations.Project and node.keeps_all:
            _, source = sharing.steps_of(node)
            kept |= sharing.aliases_of(source)
    return kept


def _with_names(
    query: relations.Rel, renamed: Renamed, used: dict[str, dict[str, None]]
) -> relations.Rel:
    def read(node: Any) -> Any:
        if type(node) is code.ColumnUse and node in renamed:
            return code.ColumnUse(relation=node.relation, name=renamed[node])
        if type(node) is relations.ProjectItem and not node.name:
            value = node.value.code if isinstance(node.value, Expr) else node.value
            if type(value) is code.ColumnUse and value in renamed:  # its name is the item's
                new = code.ColumnUse(relation=value.relation, name=renamed[value])
                return relations.ProjectItem(value=new, name=value.name)
        return None

    aliases = {column.relation for column in renamed}

    def wrapped(node: Any) -> Any:
        if type(node) not in (relations.TableScan, relations.Named) or node.alias not in aliases:
            return None
        source = node
        if type(node) is relations.Named:
            inner = substitution.substituted(node.query, wrapped)
            source = relations.Named(query=inner, alias=node.alias)
        columns = [code.ColumnUse(relation="", name=name) for name in sorted(used[node.alias])]
        items = relations.items(
            (
                renamed.get(code.ColumnUse(relation=node.alias, name=column.name), column.name),
                column,
            )
            for column in columns
        )
        return relations.Named(
            query=relations.Project(source=source, items=items), alias=node.alias
        )

    rewritten: relations.Rel = substitution.substituted(
        substitution.substituted(query, read), wrapped
    )
    return rewritten
