"""rule: keys of CLUSTER BY, as the transforms of Iceberg's sort orders, and back.

An expression is a key where one of Iceberg's transforms orders rows as it does; others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlglot import exp

from sql import errors
from sql.dialect import names, operations

IDENTITY: Final = "identity"
TRUNCATE: Final = re.compile(r"truncate\[(\d+)\]")

PARTS: Final = {"YEAR": "year", "MONTH": "month", "DAY": "day", "HOUR": "hour"}
"""Parts that DATE_TRUNC cuts at, and the transforms that order as it does."""

WRITTEN: Final = {
    IDENTITY: "{}",
    "day": "TO_DATE({})",
    **{PARTS[part]: f"DATE_TRUNC('{part}', {{}})" for part in ("YEAR", "MONTH", "HOUR")},
}

CLOCKS: Final = ("timestamp", "timestamptz")
SOURCES: Final = {
    "year": ("date", *CLOCKS),
    "month": ("date", *CLOCKS),
    "day": ("date", *CLOCKS),
    "hour": CLOCKS,
}
"""Of each transform of times, the Iceberg types that SQL sorts by it."""


def key(node: Any, text: str) -> operations.ClusterKey:
    """Return the key that an expression is; raises SqlError for another. text: the expression's."""
    match node:
        case exp.Identifier() | exp.Column():
            return IDENTITY, _ident(node, text)
        case exp.Cast(this=exp.Column() as column) if node.to.is_type("date"):
            return "day", _ident(column, text)
        case exp.Anonymous():
            return _called(str(node.this).upper(), list(node.expressions), text)
    raise _refusal(text)


def _called(name: str, parts: list[Any], text: str) -> operations.ClusterKey:
    match name, parts:
        case (("TO_DATE" | "DATE"), [exp.Column() as column]):
            return "day", _ident(column, text)
        case "YEAR", [exp.Column() as column]:
            return "year", _ident(column, text)
        case "DATE_TRUNC", [part, exp.Column() as column] if part.name.upper() in PARTS:
            return PARTS[part.name.upper()], _ident(column, text)
        case (("SUBSTR" | "SUBSTRING"), [exp.Column() as column, start, length]) if _is(start, "1"):
            return f"truncate[{_length(length, text)}]", _ident(column, text)
        case "LEFT", [exp.Column() as column, length]:
            return f"truncate[{_length(length, text)}]", _ident(column, text)
    raise _refusal(text)


def _is(node: Any, digits: str) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name == digits


def _length(node: Any, text: str) -> int:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
    if not is_number or not 1 <= int(node.name) < 1 << 31:
        raise _refusal(text)
    return int(node.name)


def _ident(node: Any, text: str) -> names.Ident:
    if isinstance(node, exp.Column):
        if node.args.get("table"):
            raise _refusal(text)
        node = node.this
    if not isinstance(node, exp.Identifier):
        raise _refusal(text)
    return names.Ident(text=str(node.this), quoted=bool(node.args.get("quoted")))


def _refusal(text: str) -> errors.SqlError:
    return errors.unsupported(f"CLUSTER BY {text}")


def sort_fields(listed: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the fields of a sort order by transforms of columns.

    Raises SqlError for a transform that a column's type does not have.
    """
    order = []
    for transform, field in listed:
        if transform != IDENTITY and not sorts(transform, field["type"]):
            shown = written(transform, names.shown(field["name"]))
            raise errors.unsupported(f"CLUSTER BY {shown} of this type")
        order.append(
            {
                "source-id": field["id"],
                "transform": transform,
                "direction": "asc",
                "null-order": "nulls-last",
            }
        )
    return order


def sorts(transform: str, iceberg_type: Any) -> bool:
    """Return whether SQL sorts values of an Iceberg type by a transform that computes something."""
    if TRUNCATE.fullmatch(transform):
        return bool(iceberg_type == "string")
    return iceberg_type in SOURCES.get(transform, ())


def written(transform: str, column: str) -> str:
    """Return a key as CLUSTER BY has it; "" for a transform that SQL does not know."""
    match = TRUNCATE.fullmatch(transform)
    if match is not None:
        return f"SUBSTRING({column}, 1, {match[1]})"
    form = WRITTEN.get(transform)
    return "" if form is None else form.format(column)


def sort_value(transform: str, iceberg_type: str, column: str) -> str:
    """Return the engine's text of what rows are sorted by. column: the engine's name of it.

    Times of TIMESTAMP_LTZ count in UTC, as Iceberg's transforms count them.
    """
    match = TRUNCATE.fullmatch(transform)
    if match is not None:
        return f"left({column}, {match[1]})"
    if transform == IDENTITY or (transform == "day" and iceberg_type == "date"):
        return column
    if iceberg_type != "date":
        column = f"arrow_cast(arrow_cast({column}, 'Int64'), 'Timestamp(Microsecond, None)')"
    match transform:
        case "year":
            return f"date_part('year', {column})"
        case "month":
            return f"(date_part('year', {column}) * 12 + date_part('month', {column}))"
        case "day":
            return f"arrow_cast({column}, 'Date32')"
    return f"date_trunc('hour', {column})"
