"""Data files out of Parquet footers: ids, counts, and bounds that enclose every value."""

from __future__ import annotations

import datetime
import decimal
import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import parquet_stats, values
from tests.kit import examples

UTC = datetime.UTC


def schema_of(*columns: tuple[int, str, Any]) -> dict[str, Any]:
    return {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": field_id, "name": name, "required": False, "type": type_}
            for field_id, name, type_ in columns
        ],
    }


def field(name: str, type_: pa.DataType, field_id: int | None) -> pa.Field[Any]:
    metadata = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    return pa.field(name, type_, metadata=metadata)


def footer_of(
    columns: list[tuple[pa.Field[Any], list[Any]]], **options: Any
) -> tuple[pq.FileMetaData, int]:
    table = pa.Table.from_arrays(
        [pa.array(cells, type=one.type) for one, cells in columns],
        schema=pa.schema([one for one, _ in columns]),
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return pq.read_metadata(io.BytesIO(buffer.getvalue())), len(buffer.getvalue())


def metrics_of(type_: Any, arrow: pa.DataType, cells: list[Any], **options: Any) -> Any:
    footer, _ = footer_of([(field("c", arrow, 7), cells)], **options)
    properties = options.pop("properties", {})
    return parquet_stats.metrics_of(
        footer, schema=schema_of((7, "c", type_)), properties=properties
    )


CASES: list[tuple[str, pa.DataType, list[Any], Any, Any]] = [
    ("long", pa.int64(), [5, -3, None], -3, 5),
    ("long", pa.int32(), [5, -3], -3, 5),
    ("long", pa.uint32(), [1, 4_294_967_295], 1, 4_294_967_295),
    ("int", pa.int16(), [1, 2], 1, 2),
    ("double", pa.float64(), [1.5, math.nan, -2.0], -2.0, 1.5),
    ("double", pa.float32(), [1.5], 1.5, 1.5),
    ("float", pa.float32(), [0.0], -0.0, 0.0),
    ("boolean", pa.bool_(), [True, False], False, True),
    ("string", pa.string(), ["b", "é", None], "b", "é"),
    ("string", pa.large_string(), ["b"], "b", "b"),
    ("binary", pa.binary(), [b"\x00", b"\xff"], b"\x00", b"\xff"),
    ("fixed[2]", pa.binary(2), [b"ab", b"\xff\x00"], b"ab", b"\xff\x00"),
    ("uuid", pa.binary(16), [bytes(16), b"\xff" * 16], bytes(16), b"\xff" * 16),
    ("date", pa.date32(), [datetime.date(1960, 1, 1), datetime.date(2020, 1, 1)], -3653, 18262),
    ("time", pa.time64("us"), [datetime.time(1, 2, 3)], 3_723_000_000, 3_723_000_000),
    ("time", pa.time32("ms"), [datetime.time(1, 2, 3)], 3_723_000_000, 3_723_000_000),
    ("timestamp", pa.timestamp("us"), [datetime.datetime(1970, 1, 2)], 86_400_000_000,  # noqa: DTZ001
     86_400_000_000),
    ("timestamp", pa.timestamp("ms"), [datetime.datetime(1970, 1, 2)], 86_400_000_000,  # noqa: DTZ001
     86_400_000_000),
    ("timestamptz", pa.timestamp("us", "UTC"), [datetime.datetime(1970, 1, 2, tzinfo=UTC)],
     86_400_000_000, 86_400_000_000),
    ("timestamp_ns", pa.timestamp("us"), [datetime.datetime(1970, 1, 2)],  # noqa: DTZ001
     86_400_000_000_000, 86_400_000_000_000),
    ("decimal(9,2)", pa.decimal128(9, 2), [decimal.Decimal("1.25"), decimal.Decimal("-3.50")],
     decimal.Decimal("-3.50"), decimal.Decimal("1.25")),
    ("decimal(30,2)", pa.decimal128(30, 2), [decimal.Decimal("1.25"), decimal.Decimal("-3.50")],
     decimal.Decimal("-3.50"), decimal.Decimal("1.25")),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "arrow", "cells", "low", "high"), CASES)
def test_bounds_are_the_single_value_form_of_the_tables_type(
    type_: str, arrow: pa.DataType, cells: list[Any], low: Any, high: Any
) -> None:
    metrics = metrics_of(type_, arrow, cells)
    assert metrics.lower_bounds == {7: values.to_bytes(type_, low)}
    assert metrics.upper_bounds == {7: values.to_bytes(type_, high)}
    assert metrics.value_counts == {7: len(cells)}
    assert metrics.null_value_counts == {7: cells.count(None)}
    assert metrics.nan_value_counts == {}


def test_decimals_stored_as_integers_have_bounds_too() -> None:
    cells = [decimal.Decimal("1.25"), decimal.Decimal("-3.50")]
    metrics = metrics_of("decimal(9,2)", pa.decimal128(9, 2), cells, store_decimal_as_integer=True)
    assert metrics.lower_bounds == {7: values.to_bytes("decimal(9,2)", cells[1])}


def test_nanoseconds_are_rounded_outwards() -> None:
    arrow = pa.timestamp("ns")
    table = pa.table({"c": pa.array([1_001, 2_001], type=pa.int64()).cast(arrow)})
    table = table.cast(pa.schema([field("c", arrow, 7)]))
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    footer = pq.read_metadata(io.BytesIO(buffer.getvalue()))
    metrics = parquet_stats.metrics_of(
        footer, schema=schema_of((7, "c", "timestamp")), properties={}
    )
    assert metrics.lower_bounds == {7: values.to_bytes("timestamp", 1)}
    assert metrics.upper_bounds == {7: values.to_bytes("timestamp", 3)}


@pytest.mark.parametrize(
    ("type_", "arrow", "cells"),
    [
        ("long", pa.int64(), [None, None]),
        ("double", pa.float64(), [math.nan]),
        ("date", pa.int64(), [5]),
        ("time", pa.int64(), [5]),
        ("string", pa.int32(), [5]),
    ],
)
def test_no_bound_is_claimed_where_there_is_none(
    type_: str, arrow: pa.DataType, cells: list[Any]
) -> None:
    metrics = metrics_of(type_, arrow, cells)
    if type_ == "date":
        assert metrics.lower_bounds == {7: values.to_bytes("date", 5)}
        return
    assert (metrics.lower_bounds, metrics.upper_bounds) == ({}, {})


def test_row_groups_are_taken_together() -> None:
    footer, size = footer_of(
        [(field("c", pa.int64(), 7), [5, 6, None, None, -9, 3])], row_group_size=2
    )
    file = parquet_stats.data_file(
        footer,
        path="s3://lake/t/data/f.parquet",
        size_bytes=size,
        schema=schema_of((7, "c", "long")),
        spec_id=3,
        partition=("p",),
        sort_order_id=1,
    )
    assert footer.num_row_groups == 3
    assert (file.record_count, file.file_size_in_bytes) == (6, size)
    assert (file.spec_id, file.partition, file.sort_order_id) == (3, ("p",), 1)
    assert file.file_format == "PARQUET"
    assert file.metrics.null_value_counts == {7: 2}
    assert file.metrics.lower_bounds == {7: values.to_bytes("long", -9)}
    assert file.metrics.upper_bounds == {7: values.to_bytes("long", 6)}
    assert file.split_offsets is not None
    assert len(file.split_offsets) == 3
    assert list(file.split_offsets) == sorted(file.split_offsets)
    assert file.split_offsets[0] == 4


def test_statistics_missing_from_the_footer_are_not_made_up() -> None:
    metrics = metrics_of("long", pa.int64(), [1, 2], write_statistics=False)
    assert metrics.value_counts == {7: 2}
    assert (metrics.null_value_counts, metrics.lower_bounds) == ({}, {})


NESTED = schema_of(
    (1, "s", {"type": "struct", "fields": [
        {"id": 2, "name": "x", "required": False, "type": "long"}]}),
    (3, "l", {"type": "list", "element-id": 4, "element": "int", "element-required": False}),
    (5, "m", {"type": "map", "key-id": 6, "key": "string", "value-id": 7, "value": "int",
              "value-required": False}),
)  # fmt: skip


@pytest.mark.parametrize("with_ids", [True, False])
def test_nested_columns_are_known_by_id_or_by_name(with_ids: bool) -> None:
    def inner(name: str, type_: pa.DataType, field_id: int) -> pa.Field[Any]:
        return field(name, type_, field_id if with_ids else None)

    columns: list[tuple[pa.Field[Any], list[Any]]] = [
        (pa.field("s", pa.struct([inner("x", pa.int64(), 2)])), [{"x": 5}, None]),
        (pa.field("l", pa.list_(inner("element", pa.int32(), 4))), [[1, 2, 3], None]),
        (
            pa.field(
                "m",
                pa.map_(
                    inner("key", pa.string(), 6).with_nullable(False), inner("value", pa.int32(), 7)
                ),
            ),
            [[("a", 1)], None],
        ),
    ]
    footer, _ = footer_of(columns)
    metrics = parquet_stats.metrics_of(footer, schema=NESTED, properties={})
    assert sorted(metrics.column_sizes or {}) == [2, 4, 6, 7]
    assert metrics.value_counts == {2: 2}
    assert metrics.null_value_counts == {2: 1}
    assert metrics.lower_bounds == {2: values.to_bytes("long", 5)}


def test_columns_the_table_does_not_have_are_left_out() -> None:
    footer, _ = footer_of([(field("c", pa.int64(), 7), [1]), (field("gone", pa.int64(), 99), [2])])
    metrics = parquet_stats.metrics_of(footer, schema=schema_of((7, "c", "long")), properties={})
    assert metrics.value_counts == {7: 1}


@pytest.mark.parametrize(
    ("mode", "counts", "lower"),
    [
        ("none", None, None),
        ("counts", 1, None),
        ("truncate(3)", 1, b"abc"),
        ("full", 1, b"abcdefghijklmnopqrstuvwxyz"),
        ("TRUNCATE(2)", 1, b"ab"),
        ("nonsense", 1, b"abcdefghijklmnop"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_the_tables_properties_say_how_much_is_kept(
    mode: str, counts: int | None, lower: bytes | None, own: bool
) -> None:
    name = parquet_stats.METRICS_COLUMN_PREFIX + "c" if own else parquet_stats.METRICS_DEFAULT
    footer, _ = footer_of([(field("c", pa.string(), 7), ["abcdefghijklmnopqrstuvwxyz"])])
    metrics = parquet_stats.metrics_of(
        footer, schema=schema_of((7, "c", "string")), properties={name: mode}
    )
    assert (metrics.value_counts or {}).get(7) == counts
    assert (metrics.lower_bounds or {}).get(7) == lower


def test_beyond_a_hundred_columns_metrics_are_kept_only_on_request() -> None:
    schema = schema_of(*((number, f"c{number}", "long") for number in range(1, 121)))
    modes = parquet_stats.modes_of(schema, {})
    assert sorted(modes) == list(range(1, 101))
    modes_by_id = parquet_stats.modes_of(
        schema, {parquet_stats.METRICS_COLUMN_PREFIX + "c120": "full"}
    )
    assert 120 in modes_by_id
    assert len(parquet_stats.modes_of(schema, {parquet_stats.METRICS_DEFAULT: "counts"})) == 120
    assert len(parquet_stats.modes_of(schema, {parquet_stats.METRICS_COLUMNS_MAX: "5"})) == 5


@examples.at_most(200)
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.binary(), st.integers(1, 4))
def test_cut_bounds_enclose_the_value(value: str | bytes, width: int) -> None:
    low, high = parquet_stats.cut_down(value, width), parquet_stats.cut_up(value, width)
    assert low <= value
    assert len(low) <= width
    if high is None:
        top = b"\xff" if isinstance(value, bytes) else "\U0010ffff"
        assert value[:width] == top * width
    else:
        assert high >= value
        assert len(high) <= width
        if isinstance(high, str):
            high.encode()
