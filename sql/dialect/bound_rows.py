"""rule: the query of an INSERT whose binds are arrays, read as a query over the bound rows.

A driver sends the values of many rows in one request: each placeholder has a list. The statement
inserts what it would insert row by row, so its query must be computed for each row alone. That
holds for VALUES of one row, for a SELECT without FROM, and for a SELECT that has one of these as
its only source, unless it aggregates, orders or counts its rows. A subquery of a table reads what
was there before the statement, and so no row that the statement inserts.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from sql import errors
from sql.dialect import references

CLAUSES: Final = frozenset({"expressions", "from_", "where"})
"""The clauses of a SELECT that say what becomes of one row."""


def over_rows(tree: Any) -> exp.Select:
    """Return an INSERT's query with the SELECT without FROM that reads the bound rows.

    VALUES of one row become such a SELECT. Raises SqlError for a query of another form.
    """
    if not accepts_rows(tree):
        raise errors.unsupported("array binds in a query that does not take one row at a time")
    if isinstance(tree, exp.Values):
        return _of_row(tree)
    query: exp.Select = tree.copy()
    from_ = query.args.get("from_")
    if from_ is not None and isinstance(from_.this, exp.Values):
        values = from_.this
        from_.set("this", exp.Subquery(this=_of_row(values), alias=values.args.get("alias")))
    return query


def accepts_rows(tree: Any) -> bool:
    """Return whether the placeholders of an INSERT's query may have a list of values each."""
    if isinstance(tree, exp.Values):
        return len(tree.expressions) == 1
    source = _source(tree)
    if source is None:
        return False
    waiting: list[tuple[Any, Any]] = [(tree, None)]
    while waiting:
        node, around = waiting.pop()
        if not _is_of_one_row(node, around, tree, source):
            return False
        if isinstance(node, exp.Select | exp.Values):
            around = node
        waiting += [(child, around) for child in node.iter_expressions()]
    return True


def _is_of_one_row(node: Any, around: Any, tree: Any, source: Any) -> bool:
    """Return whether a node leaves the rows of a query apart.

    around: the SELECT or VALUES that the node is in. source: what reads the bound rows.
    """
    if isinstance(node, exp.Placeholder):
        return around is source
    if isinstance(node, exp.Select):
        return node is source or node.args.get("from_") is not None
    if isinstance(node, exp.AggFunc | exp.Window) or _is_aggregate(node):
        return around is not tree and around is not source
    return True


def _source(tree: Any) -> Any:
    """Return the part of a query that reads the bound rows; None for a query of another form."""
    if not _is_plain(tree):
        return None
    from_ = tree.args.get("from_")
    if from_ is None:
        return tree
    source = from_.this
    if isinstance(source, exp.Values):
        is_one = len(source.expressions) == 1 and set(_clauses(source)) <= {"expressions", "alias"}
        return source if is_one else None
    if not isinstance(source, exp.Subquery) or not set(_clauses(source)) <= {"this", "alias"}:
        return None
    is_row = _is_plain(source.this) and source.this.args.get("from_") is None
    return source.this if is_row else None


def _is_plain(tree: Any) -> bool:
    return isinstance(tree, exp.Select) and set(_clauses(tree)) <= CLAUSES


def _clauses(tree: Any) -> list[str]:
    return [name for name, value in tree.args.items() if value]


def _is_aggregate(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in references.AGGREGATES


def _of_row(values: exp.Values) -> exp.Select:
    """Return the one row of VALUES as a SELECT without FROM, with columns named as those are."""
    row = values.copy().expressions[0]
    cells = row.expressions if isinstance(row, exp.Tuple) else [row]
    return exp.Select(
        expressions=[
            exp.Alias(this=cell, alias=exp.to_identifier(f"COLUMN{number}", quoted=True))
            for number, cell in enumerate(cells, start=1)
        ]
    )
