"""rule: queries of groups below which the engine moves no condition.

The engine moves a condition below an aggregate once it sees that no aggregate takes part in it:
that of a constant column, and of one that it makes a constant, as of `coalesce('x', max(s))`. A
query without keys, or with ROLLUP, CUBE or GROUPING SETS, has a row for no rows, which the
condition then no longer removes. It moves none below a LIMIT, so such a query has one that leaves
out no row. Of its own HAVING, each part that reads no aggregate becomes one that does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from sql.dialect import sqltypes
from sql.plan import code, relations, substitution
from sql.plan.expressions import Expr


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
    return isinstance(step, relations.Aggregate) and have_row_of_no_rows(step.keys)


def have_row_of_no_rows(keys: Sequence[Any]) -> bool:
    """Whether groups by these keys are one group, or several sets, one of which may be of all."""
    return not keys or any(isinstance(key, relations.GroupingSets) for key in keys)


def of_groups(having: Expr) -> Expr:
    """Return a condition of HAVING with an aggregate in each part that AND joins.

    A part with IN (query) or EXISTS stays: the engine has these in no other place.
    """
    part = _of_groups(having)
    if type(part) is Expr:
        return part
    return Expr(code=part, type=having.type, nullable=having.nullable, aggregate=True)


def _of_groups(part: Any) -> Any:
    bare = part.code if type(part) is Expr else part
    if type(bare) is code.Infix and all(word == "AND" for word in bare.operators):
        return dataclasses.replace(bare, operands=tuple(map(_of_groups, bare.operands)))
    if any(_stays(node) for node in substitution.nodes([part], in_queries=False)):
        return part
    # The engine splits AND and CASE and folds NULL; NULLIF is never true where the part is not.
    never = code.infix(count_of_rows(), "<", 0)
    return code.call("nullif", code.call("coalesce", part, code.FALSE), never)


def count_of_rows() -> Expr:
    """Return the number of rows of a group, of which the engine does not know that it is >= 0."""
    count = code.call("count", code.ALL_COLUMNS)
    return Expr(code=count, type=sqltypes.integer(), nullable=False, aggregate=True)


def _stays(node: Any) -> bool:
    """Whether a part with this in it reads an aggregate, or has IN (query) or EXISTS."""
    match node:
        case Expr(aggregate=is_aggregate):
            return is_aggregate
        case code.Prefix(word=word):
            return word == "EXISTS"
        case code.Among(members=members):
            return any(type(each) is code.Subquery for each in members)
    return False
