"""The logical type VARIANT in footers, against PyArrow, DuckDB and every cut of a footer."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql import parquet_footers, variant_columns
from tests.kit import examples

ONE = {"metadata": b"\x11\x00\x00", "value": b"\x0c\x07"}
"""The number 7."""

COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "id": (pa.int64(), 1),
    "v": (variant_columns.STORED, ONE),
    "s": (pa.struct([("v", pa.string()), ("w", pa.list_(pa.int32()))]), {"v": "x", "w": [1]}),
    "m": (pa.map_(pa.string(), pa.struct([("w", pa.int8())])), [("k", {"w": 1})]),
    "w": (variant_columns.STORED, None),
    "d": (pa.decimal128(9, 2), None),
    "t": (pa.timestamp("us", "UTC"), 5),
}


def written(path: Path, rows: int = 3, **options: Any) -> bytes:
    """Write a file of these columns; return its footer."""
    fields = [
        pa.field(name, arrow_type, metadata={"PARQUET:field_id": str(number)})
        for number, (name, (arrow_type, _)) in enumerate(COLUMNS.items(), start=1)
    ]
    schema = pa.schema(fields, metadata={"key": "value"})
    arrays = [pa.array([value] * rows, arrow_type) for arrow_type, value in COLUMNS.values()]
    pq.write_table(pa.table(arrays, schema=schema), path, **options)
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    return data[-8 - length : -8]


def with_footer(path: Path, footer: bytes) -> None:
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    tail = footer + struct.pack("<I", len(footer)) + b"PAR1"
    path.write_bytes(data[: -8 - length] + tail)


def logical_types(path: Path) -> list[str]:
    text = str(pq.read_metadata(path).schema)
    return [line.strip() for line in text.splitlines() if "Variant" in line]


@pytest.mark.parametrize(
    "options", [{}, {"write_page_index": True}, {"store_schema": False}, {"row_group_size": 1}]
)
def test_the_named_columns_get_the_type_and_nothing_else_changes(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "file.parquet"
    footer = written(path, **options)
    before, table = pq.read_metadata(path), pq.read_table(path)
    with_footer(path, parquet_footers.annotated(footer, ["w", "v"]))
    after = pq.read_metadata(path)
    assert logical_types(path) == [
        "optional group field_id=2 v (Variant(1)) {",
        "optional group field_id=5 w (Variant(1)) {",
    ]
    assert (
        str(after.schema).replace(" (Variant(1))", "").splitlines()[1:]
        == str(before.schema).splitlines()[1:]
    )
    groups = [[each.row_group(at).to_dict() for at in range(each.num_row_groups)] for each in (
        before, after,
    )]  # fmt: skip
    assert groups[0] == groups[1]
    assert (after.metadata, after.created_by) == (before.metadata, before.created_by)
    assert pq.read_table(path).equals(table, check_metadata=True)
    rows = duckdb.connect().execute(f"SELECT v::INT, typeof(v), w FROM '{path}'").fetchall()
    assert rows == [(7, "VARIANT", None)] * 3


def test_a_footer_of_no_such_column_and_one_that_has_the_type_are_refused(tmp_path: Path) -> None:
    footer = written(tmp_path / "file.parquet")
    with pytest.raises(parquet_footers.BadFooter, match="does not have"):
        parquet_footers.annotated(footer, ["v", "missing"])
    with pytest.raises(parquet_footers.BadFooter, match="has a logical type"):
        parquet_footers.annotated(parquet_footers.annotated(footer, ["v"]), ["v"])
    with pytest.raises(parquet_footers.BadFooter, match="has a logical type"):
        parquet_footers.annotated(footer, ["t"])
    assert parquet_footers.annotated(footer, []) == footer


def test_every_footer_that_ends_in_its_schema_is_refused(tmp_path: Path) -> None:
    footer = written(tmp_path / "file.parquet", rows=0)
    annotated = parquet_footers.annotated(footer, ["v", "w"])
    refused = 0
    for length in range(len(footer)):
        try:
            cut = parquet_footers.annotated(footer[:length], ["v", "w"])
        except parquet_footers.BadFooter:
            refused = length + 1
        else:
            assert annotated.startswith(cut)
    assert refused > 100  # the schema of these columns alone is longer


@examples.at_most(2_000)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_footer_or_refused(data: bytes) -> None:
    try:
        parquet_footers.annotated(data, ["v"])
    except parquet_footers.BadFooter:
        return


@examples.at_most(2_000)
@given(st.data())
def test_a_footer_whose_bytes_were_changed_is_annotated_or_refused(
    footer: bytes, data: st.DataObject
) -> None:
    changed = bytearray(footer[: len(footer) // 2])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(300, len(changed) - 1)))
        changed[at] = data.draw(st.integers(0, 255))
    try:
        annotated = parquet_footers.annotated(bytes(changed), ["v"])
    except parquet_footers.BadFooter:
        return
    assert len(annotated) == len(changed) + 7


@pytest.fixture(scope="module")
def footer(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return written(tmp_path_factory.mktemp("footer") / "file.parquet")


@pytest.mark.parametrize(
    "data",
    [
        b"\x19\xfc" + b"\xff" * 20,  # a list of more elements than there are bytes
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x1c" * 300,  # structs in structs
        b"\x1b" + b"\x99" * 300,  # maps of maps
        b"\x18\xff\xff\xff\xff\x7f",  # a text beyond the end
        b"\x15" + b"\x80" * 30,  # a number without an end
    ],
)
def test_hostile_footers_are_refused_at_once(data: bytes) -> None:
    with pytest.raises(parquet_footers.BadFooter):
        parquet_footers.annotated(data, ["v"])
