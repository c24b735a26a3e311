"""rule: reads a multi-table INSERT from sqlglot's tree.

Each INTO clause becomes a query of its own over SOURCE, the relation of the subquery's rows, which
the engine computes once. A clause may compute with the subquery's columns; aggregates, window
functions, subqueries and bind variables in it are refused.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from sql import errors, limits
from sql.dialect import columns, functions, operations

SOURCE: Final = "__source"
REFUSED_PARTS: Final = (exp.Placeholder, exp.Query, exp.Subquery, exp.AggFunc, exp.Window)


def read(tree: exp.MultitableInserts, *, overwrite: bool) -> operations.InsertAll:
    """Return the operation of a multi-table INSERT; raises SqlError."""
    source = tree.args.get("source")
    if not isinstance(source, exp.Query):
        raise errors.unsupported("a multi-table INSERT without a subquery")
    if len(tree.expressions) > limits.INTO_CLAUSES_MAX:
        raise errors.unsupported(
            f"more than {limits.INTO_CLAUSES_MAX} INTO clauses in one multi-table INSERT"
        )
    whens = [each.expression for each in tree.expressions if each.expression is not None]
    is_first = str(tree.args.get("kind")).upper() == "FIRST"
    if is_first and not whens:
        raise errors.unsupported("INSERT FIRST without WHEN")
    clauses, selects = [], []
    when_number: int | None = None
    for each in tree.expressions:
        if each.expression is not None:
            when_number = 1 if when_number is None else when_number + 1
        elif each.args.get("else_"):
            when_number = 0
        clause, select = _clause(each.this)
        for part in (*select.expressions, *([] if each.expression is None else [each.expression])):
            if any(_is_refused(node) for node in part.walk()):
                raise errors.unsupported("this expression in a clause of a multi-table INSERT")
        clauses.append(clause)
        selects.append((select, when_number))
    return operations.InsertAll(
        clauses=tuple(clauses),
        selects=(tuple(selects), whens, is_first),
        source=source,
        overwrite=overwrite,
    )


def select_of(selects: operations.Tree, number: int) -> Any:
    """Return the query of an INTO clause; it is built for each use, since conditions repeat."""
    listed, whens, is_first = selects
    select, when_number = listed[number]
    select = select.copy()
    if when_number is not None:
        select.set("where", exp.Where(this=_condition(whens, when_number, is_first=is_first)))
    return select


def _condition(whens: list[Any], number: int, *, is_first: bool) -> Any:
    """Return when a row goes into a clause. number: of its WHEN, from 1; 0 for ELSE."""
    if number and not is_first:
        return whens[number - 1].copy()
    chosen = exp.Case(
        ifs=[
            exp.If(this=when.copy(), true=exp.Literal.number(index))
            for index, when in enumerate(whens, start=1)
        ],
        default=exp.Literal.number(0),
    )
    return exp.EQ(this=chosen, expression=exp.Literal.number(number))


def _clause(tree: Any) -> tuple[operations.IntoClause, exp.Select]:
    target, values = tree.this, tree.expression
    table = target.this if isinstance(target, exp.Schema) else target
    listed = target.expressions if isinstance(target, exp.Schema) else []
    if not isinstance(table, exp.Table):
        raise errors.unsupported("INTO of this form")
    items: list[Any] = [exp.Star()]
    defaults: tuple[int, ...] = ()
    if values is not None:
        rows = values.expressions if isinstance(values, exp.Values) else []
        if len(rows) != 1:
            raise errors.unsupported("INTO ... VALUES of several rows")
        row = rows[0].expressions if isinstance(rows[0], exp.Tuple) else [rows[0]]
        defaults = tuple(index for index, item in enumerate(row) if columns.is_default(item))
        items = [item.copy() for item in row if not columns.is_default(item)]
        if not items:
            raise errors.unsupported("INTO ... VALUES of nothing but DEFAULT")
    source = exp.Table(this=exp.Identifier(this=SOURCE, quoted=True))
    select = exp.Select(expressions=items, from_=exp.From(this=source))
    clause = operations.IntoClause(
        name=columns.table_name(table),
        columns=tuple(columns.ident(item) for item in listed),
        defaults=defaults,
    )
    return clause, select


def _is_refused(node: Any) -> bool:
    if isinstance(node, exp.Anonymous):
        return functions.is_aggregate(str(node.this))
    return isinstance(node, REFUSED_PARTS)
