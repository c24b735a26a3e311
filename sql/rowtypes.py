"""rule: the protocol's descriptions of result columns: `rowtype` and Arrow field metadata.

Drivers crash on an absent key, so every key is always present, null if it does not apply.
`sql.encode` encodes the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sql import outcomes

FRACTION_DIGITS = 9
"""Digits of the second if a column has none."""

NUMBER_PRECISION = 38

TEMPORAL = frozenset({"time", "timestamp_ntz", "timestamp_ltz", "timestamp_tz"})


def scale_of(column: outcomes.Column) -> int:
    """Return the decimals of a fixed column, or the digits of the second of a temporal one."""
    if column.type in TEMPORAL:
        return FRACTION_DIGITS if column.scale is None else column.scale
    return column.scale or 0


def precision_of(column: outcomes.Column) -> int:
    """Return the digits of a fixed column."""
    return NUMBER_PRECISION if column.precision is None else column.precision


def text_lengths(column: outcomes.Column) -> tuple[int, int]:
    """Return the length in characters and in bytes of a text column."""
    length = outcomes.TEXT_LENGTH_MAX if column.length is None else column.length
    longest = min(4 * length, outcomes.TEXT_LENGTH_MAX)
    return length, longest if column.byte_length is None else column.byte_length


def binary_length(column: outcomes.Column) -> int:
    """Return the length in bytes of a binary column."""
    return outcomes.BINARY_LENGTH_MAX if column.length is None else column.length


def rowtype(columns: Sequence[outcomes.Column]) -> list[dict[str, Any]]:
    """Return the answer's `rowtype`."""
    return [_entry(column) for column in columns]


def _entry(column: outcomes.Column) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": column.name,
        "database": column.database,
        "schema": column.schema,
        "table": column.table,
        "nullable": column.nullable,
        "type": column.type,
        "length": None,
        "byteLength": None,
        "precision": None,
        "scale": None,
        "collation": None,
        "fields": None,
        "vectorDimension": None,
    }
    match column.type:
        case "fixed":
            entry["precision"], entry["scale"] = precision_of(column), scale_of(column)
        case "text":
            entry["length"], entry["byteLength"] = text_lengths(column)
        case "binary":
            entry["length"] = entry["byteLength"] = binary_length(column)
        case "time" | "timestamp_ntz" | "timestamp_ltz" | "timestamp_tz":
            entry["precision"], entry["scale"] = 0, scale_of(column)
        case "interval_year_month" | "interval_day_time":
            entry["precision"], entry["scale"] = column.precision, column.scale
        case _:
            pass
    return entry


def field_metadata(column: outcomes.Column) -> dict[str, str]:
    """Return the metadata of the column's Arrow field; without it drivers crash."""
    metadata = {"logicalType": column.type.upper()}
    match column.type:
        case "fixed":
            metadata["precision"] = str(precision_of(column))
            metadata["scale"] = str(scale_of(column))
        case "text":
            length, byte_length = text_lengths(column)
            metadata["charLength"], metadata["byteLength"] = str(length), str(byte_length)
        case "binary":
            metadata["byteLength"] = str(binary_length(column))
        case "time" | "timestamp_ntz":
            metadata["scale"] = str(scale_of(column))
        case "timestamp_ltz":
            metadata["scale"] = str(FRACTION_DIGITS)  # the scale of {epoch, fraction}
        case "timestamp_tz":
            # Three fields, nanoseconds: the only form that every driver reads.
            metadata["scale"], metadata["byteLength"] = str(FRACTION_DIGITS), "16"
        case "interval_year_month" | "interval_day_time":
            metadata["precision"], metadata["scale"] = str(column.precision), str(column.scale)
        case _:
            pass
    return metadata


UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Arrow's units of time as digits of the second."""
