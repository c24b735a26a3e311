"""Columns as `rowtype` entries, as Arrow metadata, and from Arrow types."""

from __future__ import annotations

from typing import Any

import pytest

from sql import outcomes, rowtypes

KEYS = {
    "name", "database", "schema", "table", "nullable", "type", "length", "byteLength",
    "precision", "scale", "collation", "fields", "vectorDimension",
}  # fmt: skip


def column(column_type: Any, **more: Any) -> outcomes.Column:
    return outcomes.Column(name="C", type=column_type, **more)


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (column("fixed"), {"precision": 38, "scale": 0}),
        (column("fixed", precision=10, scale=2), {"precision": 10, "scale": 2}),
        (column("real"), {}),
        (column("text"), {"length": 16777216, "byteLength": 16777216}),
        (column("text", length=10), {"length": 10, "byteLength": 40}),
        (column("text", length=10, byte_length=10), {"length": 10, "byteLength": 10}),
        (column("boolean"), {}),
        (column("date"), {}),
        (column("time"), {"precision": 0, "scale": 9}),
        (column("timestamp_ntz", scale=6), {"precision": 0, "scale": 6}),
        (column("timestamp_ltz", scale=0), {"precision": 0, "scale": 0}),
        (column("timestamp_tz"), {"precision": 0, "scale": 9}),
        (column("binary"), {"length": 8388608, "byteLength": 8388608}),
        (column("binary", length=16), {"length": 16, "byteLength": 16}),
        (column("variant"), {}),
        (column("object"), {}),
        (column("array"), {}),
    ],
    ids=lambda value: value.type if isinstance(value, outcomes.Column) else "",
)
def test_an_entry_has_every_key_and_null_where_it_does_not_apply(
    described: outcomes.Column, expected: dict[str, int]
) -> None:
    (entry,) = rowtypes.rowtype([described])
    assert set(entry) == KEYS
    assert entry["nullable"] is True
    assert entry["type"] == described.type
    measures = ("length", "byteLength", "precision", "scale")
    assert {name: entry[name] for name in measures if entry[name] is not None} == expected


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (column("fixed", precision=10, scale=2),
         {"logicalType": "FIXED", "precision": "10", "scale": "2"}),
        (column("text", length=5), {"logicalType": "TEXT", "charLength": "5", "byteLength": "20"}),
        (column("time", scale=3), {"logicalType": "TIME", "scale": "3"}),
        (column("timestamp_ntz"), {"logicalType": "TIMESTAMP_NTZ", "scale": "9"}),
        (column("timestamp_tz", scale=6),
         {"logicalType": "TIMESTAMP_TZ", "scale": "9", "byteLength": "16"}),
        (column("binary"), {"logicalType": "BINARY", "byteLength": "8388608"}),
        (column("variant"), {"logicalType": "VARIANT"}),
    ],
)  # fmt: skip
def test_arrow_metadata_is_text(described: outcomes.Column, expected: dict[str, str]) -> None:
    assert rowtypes.field_metadata(described) == expected
