"""rule: PIVOT and UNPIVOT as the queries that they stand for.

PIVOT groups by the columns that it does not name, and aggregates once for each listed value.
UNPIVOT reads its source once, beside the names of its columns, and chooses a column by the name.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from sql import errors, limits
from sql.dialect import columns, formats, names

NAMES = "unpivot names"
"""The alias of the names beside which UNPIVOT reads its source."""


def source(node: Any) -> Any:
    """Return an item of FROM without its PIVOT or UNPIVOT."""
    bare = type(node)(**{name: value for name, value in node.args.items() if name != "pivots"})
    bare.meta.update(node.meta)
    return bare


def everything(bare: Any) -> exp.Select:
    """Return the query of all columns of an item of FROM."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=bare))


def values_query(node: Any, bare: Any) -> Any:
    """Return the query whose rows are the values of IN (ANY) or IN (SELECT ...) of a PIVOT.

    None for listed values. bare: the PIVOT's source.
    """
    pivots: list[exp.Pivot] = node.args["pivots"]
    fields: list[exp.In] = pivots[0].args.get("fields") or []
    if len(pivots) != 1 or pivots[0].args.get("unpivot") or len(fields) != 1:
        return None
    members, column = fields[0].expressions, fields[0].this
    if len(members) != 1:
        return None
    (member,) = members
    if isinstance(member, exp.PivotAny):
        order = member.this
        if order is None:
            order = exp.Order(expressions=[exp.Ordered(this=column.copy())])
        chosen: Any = exp.Select(
            distinct=exp.Distinct(),
            expressions=[column.copy()],
            from_=exp.From(this=bare),
            where=exp.Where(this=exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))),
            order=order.copy(),
        )
    elif isinstance(member, exp.Query):
        chosen = member.copy()
    else:
        return None
    if chosen.args.get("limit") is None:
        most = exp.Literal.number(limits.PIVOTED_MAX + 1)
        chosen.set("limit", exp.Limit(expression=most))
    return chosen


def query(
    node: Any, bare: Any, column_names: Sequence[str], values: Sequence[Any] | None = None
) -> exp.Subquery:
    """Return the query in FROM that a PIVOT or UNPIVOT stands for; raises SqlError.

    bare: its source, whose columns have these names. values: those of `values_query`.
    """
    pivots = node.args["pivots"]
    if len(pivots) > 1:
        raise errors.unsupported("PIVOT or UNPIVOT after another one")
    (pivot,) = pivots
    if len(pivot.args.get("fields") or ()) != 1 or pivot.args.get("group") is not None:
        raise errors.unsupported("PIVOT or UNPIVOT of this form")
    listed = pivot.args["fields"][0].expressions
    if len(listed if values is None else values) > limits.PIVOTED_MAX:
        raise errors.too_complex(f"more than {limits.PIVOTED_MAX} values in PIVOT or UNPIVOT")
    if pivot.args.get("unpivot"):
        built = _unpivot(pivot, bare, column_names)
    else:
        members = [_member(each) for each in listed] if values is None else map(_valued, values)
        built = _pivot(pivot, bare, column_names, list(members))
    return exp.Subquery(this=built, alias=pivot.args.get("alias"))


def _pivot(
    pivot: exp.Pivot,
    bare: Any,
    column_names: Sequence[str],
    members: Sequence[tuple[Any, exp.Identifier]],
) -> exp.Select:
    if len(pivot.expressions) != 1:
        raise errors.unsupported("PIVOT with more than one aggregate")
    (aggregate,) = pivot.expressions
    field = pivot.args["fields"][0]
    if not isinstance(aggregate, exp.Anonymous) or len(aggregate.expressions) != 1:
        raise errors.unsupported("PIVOT with an aggregate of this form")
    (operand,) = aggregate.expressions
    named = [*operand.find_all(exp.Column), *field.this.find_all(exp.Column)]
    used = [columns.ident(column) for column in named]
    kept = _others(column_names, used)
    items: list[Any] = [_column(name) for name in kept]
    default = pivot.args.get("default_on_null")
    for value, name in members:
        counted = exp.Literal.number(1) if isinstance(operand, exp.Star) else operand
        is_value = exp.EQ(this=field.this, expression=value)
        chosen = exp.Case(ifs=[exp.If(this=is_value, true=counted)])
        result: Any = exp.Anonymous(this=aggregate.this, expressions=[chosen])
        if isinstance(default, exp.Expression):
            result = exp.Anonymous(this="COALESCE", expressions=[result, default])
        items.append(exp.Alias(this=result, alias=name))
    group = exp.Group(expressions=[_column(name) for name in kept]) if kept else None
    return exp.Select(expressions=items, from_=exp.From(this=bare), group=group)


def _valued(value: Any) -> tuple[Any, exp.Identifier]:
    """Return a value that a query gave, and the name of its column; NULL is no value."""
    match value:
        case bool():
            return exp.Boolean(this=value), _quoted(str(value).upper())
        case int() | decimal.Decimal():
            number = exp.Literal.number(f"{decimal.Decimal(value).copy_abs():f}")
            return exp.Neg(this=number) if value < 0 else number, _quoted(f"{value:f}")
        case datetime.date():
            text = exp.Literal.string(value.isoformat())
            day = exp.Anonymous(
                this="TO_DATE", expressions=[text, exp.Literal.string(formats.AUTO)]
            )
            return day, _quoted(f"'{value.isoformat()}'")
    return exp.Literal.string(value), _quoted(f"'{value}'")


def _member(member: Any) -> tuple[Any, exp.Identifier]:
    """Return a listed value, and the name of its column: as it is written, or its alias."""
    if isinstance(member, exp.PivotAlias):
        alias = member.args["alias"]
        return member.this, alias if isinstance(alias, exp.Identifier) else _quoted(alias.name)
    if not isinstance(member, exp.Literal | exp.Neg | exp.Boolean | exp.Cast):
        raise errors.unsupported("PIVOT ... IN (ANY) or IN (SELECT ...)")
    if isinstance(member, exp.Literal) and member.is_string:
        return member, _quoted(f"'{member.name}'")
    return member, _quoted(str(member.sql("snowflake")).upper())


def _unpivot(pivot: exp.Pivot, bare: Any, column_names: Sequence[str]) -> exp.Select:
    field = pivot.args["fields"][0]
    if len(pivot.expressions) != 1 or not isinstance(pivot.expressions[0], exp.Identifier):
        raise errors.unsupported("UNPIVOT of this form")
    listed: list[tuple[exp.Column, str]] = []
    for member in field.expressions:
        column = member.this if isinstance(member, exp.PivotAlias) else member
        if not isinstance(column, exp.Column):
            raise errors.unsupported("UNPIVOT of this form")
        name = columns.ident(column).folded
        if isinstance(member, exp.PivotAlias):
            alias = member.args["alias"]
            is_name = isinstance(alias, exp.Identifier)
            name = columns.ident(alias).folded if is_name else str(alias.name)
        listed.append((column, name))
    used = [columns.ident(column) for column, _ in listed]
    own_name = exp.Column(this=exp.to_identifier("COLUMN1"), table=_quoted(NAMES))
    chosen = exp.Case(
        this=own_name,
        ifs=[exp.If(this=exp.Literal.string(name), true=column) for column, name in listed],
    )
    values = exp.Values(
        expressions=[exp.Tuple(expressions=[exp.Literal.string(name)]) for _, name in listed],
        alias=exp.TableAlias(this=_quoted(NAMES)),
    )
    where = None
    if not pivot.args.get("include_nulls"):
        where = exp.Where(this=exp.Not(this=exp.Is(this=chosen, expression=exp.Null())))
    return exp.Select(
        expressions=[
            *(_column(name) for name in _others(column_names, used)),
            exp.Alias(this=own_name, alias=field.this),
            exp.Alias(this=chosen, alias=pivot.expressions[0]),
        ],
        from_=exp.From(this=bare),
        joins=[exp.Join(this=values, kind="CROSS")],
        where=where,
    )


def _others(column_names: Sequence[str], used: Sequence[names.Ident]) -> list[str]:
    """Return the columns that are not used; raises SqlError for a used one that is none."""
    gone = set()
    for ident in used:
        places = names.find_shown(ident, list(column_names))
        if not places:
            raise errors.invalid_identifier(ident.folded)
        gone.update(places)
    return [name for place, name in enumerate(column_names) if place not in gone]


def _column(name: str) -> exp.Column:
    return exp.Column(this=_quoted(name))


def _quoted(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)
