"""rule: constants of a query of groups, kept where the engine cannot see that they are constant.

The engine moves a condition on a constant below an aggregate. One without keys, or with ROLLUP,
CUBE or GROUPING SETS, has a row for no rows, which the condition then no longer removes. So such a
constant becomes what an aggregate function gives, with the same value.
"""

from __future__ import annotations

import dataclasses

from sql.plan import code, relations, substitution
from sql.plan.expressions import Expr


def hidden(select: relations.Rel) -> relations.Rel:
    """Return a query without constants on which the engine could move a condition around it."""
    if isinstance(select, relations.Sort | relations.Limit):
        source = hidden(select.source)
        return select if source is select.source else dataclasses.replace(select, source=source)
    if not isinstance(select, relations.Project) or not _has_row_of_no_rows(select):
        return select
    items = tuple(
        dataclasses.replace(item, value=_aggregated(item.value))
        if _is_constant(item.value)
        else item
        for item in select.items
    )
    return dataclasses.replace(select, items=items)


def _has_row_of_no_rows(select: relations.Project) -> bool:
    step = select.source
    while isinstance(step, relations.RowFilter | relations.WindowRows):
        step = step.source
    return isinstance(step, relations.Aggregate) and (
        not step.keys or any(isinstance(key, relations.GroupingSets) for key in step.keys)
    )


def _is_constant(value: code.Part) -> bool:
    if not isinstance(value, Expr) or value.aggregate or value.window or value.is_volatile:
        return False
    return not value.type.is_nested and not any(
        isinstance(node, code.ColumnUse | code.Subquery) for node in substitution.nodes([value])
    )


def _aggregated(value: code.Part) -> code.Part:
    # The greatest of no values is NULL.
    return code.call("coalesce", code.call("max", value), value)
