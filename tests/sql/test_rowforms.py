"""What nested Arrow values look like as the text of OBJECT and ARRAY cells."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sql import rowforms

DAY = datetime.date(2024, 2, 29)
MAPS: list[tuple[pa.DataType, pa.DataType, list[tuple[Any, Any]], str]] = [
    (pa.string(), pa.int64(), [("b", 1), ("a", None)], '{"a":null,"b":1}'),
    (pa.int32(), pa.string(), [(2, "x"), (-1, "y")], '{"-1":"y","2":"x"}'),
    (pa.date32(), pa.bool_(), [(DAY, True)], '{"2024-02-29":true}'),
    (pa.decimal128(5, 2), pa.int8(), [(Decimal("1.50"), 7)], '{"1.5":7}'),
    (pa.binary(), pa.float64(), [(b"\x0a\xff", 0.5)], '{"0AFF":0.5}'),
    (pa.bool_(), pa.string(), [(False, "ü")], '{"false":"ü"}'),
    (pa.string(), pa.map_(pa.string(), pa.int64()), [("a", [("b", 1)])], '{"a":{"b":1}}'),
    (pa.string(), pa.list_(pa.map_(pa.int8(), pa.int8())), [("a", [[(1, 2)], []])],
     '{"a":[{"1":2},{}]}'),
    (pa.string(), pa.int64(), [], "{}"),
]  # fmt: skip


def test_values_that_stay_nested_hold_no_views_of_other_rows_texts() -> None:
    """A view batch keeps its whole buffers alive: one row of many would be sent with all."""
    view = pa.string_view()
    struct_type = pa.struct([pa.field("t", view), pa.field("l", pa.list_(pa.map_(view, view)))])
    rows = [{"t": "x" * 10_000, "l": [[("k" * 20, None)], []]}, None, {"t": None, "l": None}]
    batch = pa.RecordBatch.from_arrays([pa.array(rows, struct_type)], names=["s"])
    schema = rowforms.plain_schema(batch.schema, keeps_nested=True)
    plain = rowforms.plain(batch.slice(1), schema)
    assert plain.column(0).to_pylist() == rows[1:]
    assert rowforms.plain(batch, schema).column(0).to_pylist() == rows
    assert "view" not in str(schema.field("s").type)
    assert rowforms.with_texts(schema.field("s").type, view) == struct_type
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(plain)
    assert sink.getvalue().size < 2_000


def texts(values: Any) -> list[str | None]:
    batch = pa.RecordBatch.from_arrays([values], names=["v"])
    schema = rowforms.plain_schema(batch.schema)
    return rowforms.plain(batch, schema).column(0).to_pylist()


@pytest.mark.parametrize(
    ("key", "item", "pairs", "text"), MAPS, ids=[str(case[0]) + case[3] for case in MAPS]
)
def test_a_map_is_an_object_whose_names_are_its_keys(
    key: pa.DataType, item: pa.DataType, pairs: list[tuple[Any, Any]], text: str
) -> None:
    assert texts(pa.array([pairs, None], pa.map_(key, item))) == [text, None]


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda element_type: pa.list_(element_type),
        lambda element_type: pa.large_list(element_type),
        lambda element_type: pa.list_(element_type, 1),
        lambda element_type: pa.list_view(element_type),
    ],
    ids=["list", "large_list", "fixed_size_list", "list_view"],
)
@pytest.mark.parametrize(
    "element_type",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
def test_lists_of_every_layout_are_arrays(wrapped: Any, element_type: pa.DataType) -> None:
    assert texts(pa.array([["ab"], [None], None], wrapped(element_type))) == [
        '["ab"]',
        "[null]",
        None,
    ]


def test_numbers_keep_every_digit() -> None:
    widest = Decimal("12345678901234567890123456789.012345678")
    struct_type = pa.struct([("n", pa.decimal128(38, 9)), ("i", pa.uint64()), ("f", pa.float64())])
    rows = [
        {"n": widest, "i": 2**64 - 1, "f": 0.1},
        {"n": Decimal(100), "i": 0, "f": float("nan")},
    ]

    first, second = texts(pa.array(rows, struct_type))

    assert first is not None
    assert json.loads(first, parse_float=Decimal) == {"f": Decimal("0.1"), **{
        name: rows[0][name] for name in ("n", "i")}}  # fmt: skip
    assert second == '{"f":NaN,"i":0,"n":100}'
