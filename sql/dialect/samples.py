"""rule: SAMPLE and TABLESAMPLE: random rows of an item of FROM.

BERNOULLI and ROW keep each row with a probability of its own. SYSTEM and BLOCK do so too: their
blocks have one row. A number of rows keeps so many. With a seed, a row's contents decide, and its
number among equal rows, so that the same table has the same sample.
"""

from __future__ import annotations

import dataclasses
import decimal
from typing import Any

from sqlglot import exp

from sql import errors
from sql.dialect import casts, expressions, sqltypes
from sql.dialect.scopes import FromItem, QueryScope
from sql.plan import code, relations
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

ROWS_MAX = 1_000_000
METHODS = frozenset({"BERNOULLI", "ROW", "SYSTEM", "BLOCK"})
SEED_MAX = 2_147_483_647
CONTENTS, NUMBER, ORDER = "sample#contents", "sample#number", "sample#order"
"""Columns: a row's contents as text, its number among equal rows, its place in the draw."""


def bind(
    sample: exp.TableSample,
    source: FromItem,
    scope: QueryScope,
    rel: relations.Rel,
    alias: str,
    *,
    is_stored: bool,
) -> relations.Rel:
    """Return a sample of rel, an item of FROM, under the item's alias; raises SqlError.

    source: the item in its scope. is_stored: it is a table. A condition on a sample of a number of
    rows may not exclude files of the table, so the sample's columns have no origin.
    """
    method = sample.args.get("method")
    word = "BERNOULLI" if method is None else str(method.name).upper()
    refused = ("expressions", "bucket_numerator", "bucket_denominator", "bucket_field")
    if word not in METHODS or any(sample.args.get(name) for name in refused):
        raise errors.unsupported(f"SAMPLE {word}")
    seed = _seed(sample.args.get("seed"), scope)
    count = sample.args.get("size")
    if count is not None:
        if word in ("SYSTEM", "BLOCK") or seed is not None:
            raise errors.unsupported("SAMPLE of a number of rows with a seed or by SYSTEM")
        return _so_many(_number(count, scope, ROWS_MAX), source, scope, rel, alias)
    share = _number(sample.args.get("percent"), scope, 100)
    if share is None or share == 100:
        return rel
    fraction = exprs.real(float(share / 100))
    if seed is None:
        chosen = scope.binder.written(code.infix(_random(), "<", fraction))
        return _rows_of(relations.RowFilter(source=rel, condition=chosen), alias)
    if not is_stored:
        raise errors.unsupported("SAMPLE with a seed of a query")
    return _by_contents(seed, fraction, source, scope, rel, alias)


def _rows_of(rel: relations.Rel, alias: str, *items: relations.ProjectItem) -> relations.Named:
    """Return the rows of rel, with more columns, under the same alias."""
    query = relations.Project(source=rel, items=items, keeps_all=True)
    return relations.Named(query=query, alias=alias)


def _random() -> Expr:
    return Expr(code=code.call("random"), type=sqltypes.REAL, nullable=False, is_volatile=True)


def _so_many(
    count: decimal.Decimal | None,
    source: FromItem,
    scope: QueryScope,
    rel: relations.Rel,
    alias: str,
) -> relations.Rel:
    source.columns = [
        dataclasses.replace(column, bound=dataclasses.replace(column.bound, origin=None))
        for column in source.columns
    ]
    if count is None:
        return rel
    source.rows = int(count) if source.rows is None else min(source.rows, int(count))
    # The order is a column: the engine fails on a sort by a volatile call if no column is read.
    draw = relations.ProjectItem(name=ORDER, value=scope.binder.written(_random()))
    drawn = relations.Project(source=_rows_of(rel, alias, draw), keeps_all=True)
    key = code.SortKey(key=code.ColumnUse(relation="", name=ORDER), direction="")
    first = relations.Limit(source=relations.Sort(source=drawn, keys=(key,)), count=int(count))
    return relations.Named(query=first, alias=alias)


def _by_contents(
    seed: int,
    fraction: Expr,
    source: FromItem,
    scope: QueryScope,
    rel: relations.Rel,
    alias: str,
) -> relations.Rel:
    if any(column.bound.type.is_nested for column in source.columns):
        raise errors.unsupported("SAMPLE with a seed of a table with nested columns")
    columns = [casts.unread(column.bound) for column in source.columns]
    contents = code.call("concat_ws", "\x1f", *map(_as_text, columns))
    number = code.FunctionUse(
        name="row_number", arguments=(), over=code.Window(partition=tuple(columns))
    )
    items = relations.items([(CONTENTS, contents), (NUMBER, number)])
    numbered = _rows_of(relations.WindowRows(source=rel), alias, *items)
    unit = code.kernel(
        "_unit_of",
        code.exactly(code.ColumnUse(relation=alias, name=CONTENTS), sqltypes.TEXT),
        code.exactly(code.ColumnUse(relation=alias, name=NUMBER), sqltypes.integer()),
        seed,
    )
    chosen = code.infix(unit, "<", fraction)
    return _rows_of(relations.RowFilter(source=numbered, condition=chosen), alias)


def _as_text(column: Expr) -> code.Part:
    """Return a text of a stored column's value that no parameter of the session changes."""
    value: code.Part = column
    if column.type.name == "binary":
        value = code.call("encode", column, "hex")
    elif column.type.is_temporal or column.type.name == "time":
        value = code.arrow(code.arrow(column, _whole_name(column.type)), "Int64")
    return code.call("coalesce", code.arrow(value, "Utf8"), "\x00")


def _whole_name(sql_type: sqltypes.SqlType) -> str:
    """Return the type of as many bytes as a date, a time or a timestamp has."""
    return "Int32" if sql_type.name == "date" else "Int64"


def _number(node: Any, scope: QueryScope, most: int) -> decimal.Decimal | None:
    """Return a size of a sample; None while the statement is only described."""
    value = expressions.bind(node, scope).literal
    if value is None and scope.environment.binds is None:
        return None
    if isinstance(value, str):  # drivers bind numbers as text
        try:
            value = decimal.Decimal(value)
        except decimal.InvalidOperation:
            raise _invalid(value) from None
        if not value.is_finite():
            raise _invalid(value)
    is_number = isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most or (most == ROWS_MAX and value != int(value)):
        raise _invalid(value)
    return decimal.Decimal(str(value))


def _seed(node: Any, scope: QueryScope) -> int | None:
    if node is None:
        return None
    value = expressions.bind(node, scope).literal
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SEED_MAX:
        raise _invalid(value)
    return value


def _invalid(value: Any) -> errors.SqlError:
    shown = value if isinstance(value, int | float | str | decimal.Decimal) else "?"
    return errors.SqlError(
        "001008",
        "22023",
        f"SQL compilation error:\ninvalid value [{str(shown)[:100]}] for parameter 'SAMPLE'",
        phase="COMPILATION",
    )
