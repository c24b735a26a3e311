"""rule: a WITH expression as a query of its own, computed before the one that reads it.

The engine writes a WITH expression into each place that names it. One with RANDOM() would have
other rows in each of them. So it is computed once, and its rows are a relation of the query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from sql.plan import relations, substitution


class NotAlone(Exception):
    """The expression reads what only the query around it has."""


def alone(
    common: relations.Common, visible: Sequence[relations.Common], tables: Collection[str]
) -> relations.Common:
    """Return a WITH expression whose query has what it reads of others in a WITH of its own.

    visible: the other WITH expressions that it may read, in order. tables: the relations that the
    engine will have. Raises NotAlone.
    """
    query, listed = common.query, list(visible)
    if isinstance(query, relations.Recursive):
        listed.append(common)
        scan = relations.TableScan(relation=common.name, alias=common.name)
        query = relations.Project(source=scan, items=relations.columns(common.columns))
    by_name = {each.name: each for each in listed}
    used: set[str] = set()
    defined: set[str] = set()
    read: set[str] = set()
    waiting: list[relations.Rel] = [query]
    while waiting:
        for node in substitution.nodes([waiting.pop()]):
            if type(node) is relations.With:
                defined |= {each.name for each in node.common}
            elif type(node) is relations.TableScan:
                read.add(node.relation)
                if node.relation in by_name and node.relation not in used:
                    used.add(node.relation)
                    waiting.append(by_name[node.relation].query)
    if not read <= used | defined | set(tables):
        raise NotAlone
    own = tuple(each for each in listed if each.name in used)
    if own:
        query = relations.With(common=own, query=query)
    return dataclasses.replace(common, query=query)
