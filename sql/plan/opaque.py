"""rule: queries of groups below which the engine moves no condition.

The engine moves a condition below an aggregate once it sees that no aggregate takes part in it:
that of a constant column, and of one that it makes a constant, as of `coalesce('x', max(s))`. A
query without keys, or with ROLLUP, CUBE or GROUPING SETS, has a row for no rows, which the
condition then no longer removes. It moves none below a LIMIT, so such a query has one that leaves
out no row.
"""

from __future__ import annotations

from sql.plan import relations


def closed(select: relations.Rel) -> relations.Rel:
    """Return a query below which the engine moves no condition that would then keep a row."""
    project = select.source if isinstance(select, relations.Sort) else select
    if isinstance(project, relations.Project) and _has_row_of_no_rows(project):
        return relations.Limit(source=select, count=relations.ALL_ROWS)
    return select


def _has_row_of_no_rows(select: relations.Project) -> bool:
    step = select.source
    while isinstance(step, relations.RowFilter | relations.WindowRows):
        step = step.source
    return isinstance(step, relations.Aggregate) and (
        not step.keys or any(isinstance(key, relations.GroupingSets) for key in step.keys)
    )
