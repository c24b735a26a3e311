"""Columns as `rowtype` entries, as Arrow metadata, and from Arrow types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sql import outcomes, rowtypes

KEYS = {
    "name", "database", "schema", "table", "nullable", "type", "length", "byteLength",
    "precision", "scale", "collation", "extTypeName", "fields", "vectorDimension",
}  # fmt: skip


def column(kind: Any, **more: Any) -> outcomes.Column:
    return outcomes.Column(name="C", type=kind, **more)


@pytest.mark.parametrize(
    ("given", "expected"),
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
    given: outcomes.Column, expected: dict[str, int]
) -> None:
    (entry,) = rowtypes.rowtype([given])
    assert set(entry) == KEYS
    assert entry["nullable"] is True
    assert entry["type"] == given.type
    measures = ("length", "byteLength", "precision", "scale")
    assert {name: entry[name] for name in measures if entry[name] is not None} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
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
def test_arrow_metadata_is_text(given: outcomes.Column, expected: dict[str, str]) -> None:
    assert rowtypes.field_metadata(given) == expected


@pytest.mark.parametrize(
    ("arrow", "kind", "measures"),
    [
        (pa.int8(), "fixed", (3, 0)),
        (pa.int16(), "fixed", (5, 0)),
        (pa.int32(), "fixed", (10, 0)),
        (pa.int64(), "fixed", (19, 0)),
        (pa.uint64(), "fixed", (20, 0)),
        (pa.decimal128(12, 4), "fixed", (12, 4)),
        (pa.decimal256(60, 4), "fixed", (38, 4)),
        (pa.float32(), "real", (None, None)),
        (pa.string_view(), "text", (None, None)),
        (pa.null(), "text", (None, None)),
        (pa.bool_(), "boolean", (None, None)),
        (pa.date32(), "date", (None, None)),
        (pa.time64("us"), "time", (None, 6)),
        (pa.timestamp("us"), "timestamp_ntz", (None, 6)),
        (pa.timestamp("ns", "UTC"), "timestamp_ltz", (None, 9)),
        (pa.binary(16), "binary", (None, None)),
        (pa.dictionary(pa.int8(), pa.string()), "text", (None, None)),
        (pa.list_(pa.int64()), "array", (None, None)),
        (pa.struct([("a", pa.int64())]), "object", (None, None)),
    ],
    ids=str,
)
def test_an_arrow_type_has_a_column(
    arrow: pa.DataType, kind: str, measures: tuple[int | None, int | None]
) -> None:
    found = rowtypes.column_of("x", arrow, nullable=False)
    assert (found.name, found.type, found.nullable) == ("x", kind, False)
    assert (found.precision, found.scale) == measures


def test_an_arrow_type_without_a_match_is_refused() -> None:
    with pytest.raises(TypeError, match="duration"):
        rowtypes.column_of("x", pa.duration("s"))
