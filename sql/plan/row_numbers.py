"""rule: rows that have a number before they are grouped, for SEQ4() and RANDOM(1) in an aggregate.

The number is a window function over the rows of FROM that WHERE leaves. None can stand inside an
aggregate. So these rows become a query, and the number a column of it.
"""

from __future__ import annotations

from typing import Any, Final

from sql.plan import code, relations, sharing, substitution

NUMBER: Final = "row number"
"""The name of the column."""


def numbered(
    select: relations.Rel, rows: relations.Rel, alias: str, number: code.Part
) -> relations.Rel:
    """Return a SELECT whose rows are a query with the number beside the columns that it reads.

    rows: those that the SELECT groups: FROM, or WHERE over it. alias: of the query. A SELECT that
    reads no number is the same afterwards.
    """
    nodes = substitution.nodes([select])
    if not any(type(node) is code.ColumnUse and node.relation == alias for node in nodes):
        return select
    above = []
    step: Any = select
    while step is not rows:
        above.append(step)
        step = step.source
    _, source = sharing.steps_of(rows)
    aliases = sharing.aliases_of(source)
    used = {
        (node.relation, node.name): node
        for node in substitution.nodes(part for each in above for part in sharing.parts_of(each))
        if type(node) is code.ColumnUse and node.relation in aliases
    }
    renamed = {key: f"kept#{place}" for place, key in enumerate(used)}
    kept = relations.items((renamed[key], node) for key, node in used.items())
    inner = relations.Project(source=rows, items=(*kept, *relations.items([(NUMBER, number)])))
    query = relations.Named(query=inner, alias=alias)

    def replace(node: Any) -> Any:
        if node is rows:
            return query
        if type(node) is code.ColumnUse and (node.relation, node.name) in renamed:
            return code.ColumnUse(relation=alias, name=renamed[node.relation, node.name])
        return None

    result: relations.Rel = substitution.substituted(select, replace)
    return result
