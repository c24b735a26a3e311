"""Avro containers: read as fastavro writes them and the other way round; garbage is refused."""

from __future__ import annotations

import decimal
import io
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import avro
from tests.kit import examples

SYNC = bytes(range(16))
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "i", "type": "int", "field-id": 1},
        {"name": "l", "type": ["null", "long"], "default": None, "field-id": 2},
        {"name": "t", "type": ["null", "string"], "default": None, "field-id": 3},
        {"name": "b", "type": "bytes", "field-id": 4},
        {"name": "x", "type": "boolean", "field-id": 5},
        {"name": "f", "type": "float", "field-id": 6},
        {"name": "d", "type": "double", "field-id": 7},
        {"name": "z", "type": {"type": "fixed", "name": "fx", "size": 3}, "field-id": 8},
        {
            "name": "n",
            "type": {
                "type": "fixed",
                "name": "dec",
                "size": 5,
                "logicalType": "decimal",
                "precision": 9,
                "scale": 2,
            },
            "field-id": 9,
        },
        {"name": "a", "type": ["null", {"type": "array", "items": "long"}], "field-id": 10},
        {
            "name": "m",
            "type": [
                "null",
                {
                    "type": "array",
                    "logicalType": "map",
                    "items": {
                        "type": "record",
                        "name": "k1_v2",
                        "fields": [
                            {"name": "key", "type": "int", "field-id": 21},
                            {"name": "value", "type": "bytes", "field-id": 22},
                        ],
                    },
                },
            ],
            "field-id": 11,
        },
        {
            "name": "c",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "k3_v4",
                    "fields": [
                        {"name": "key", "type": "int", "field-id": 23},
                        {"name": "value", "type": "long", "field-id": 24},
                    ],
                },
            },
            "field-id": 12,
        },
    ],
}
ROWS = st.fixed_dictionaries(
    {
        "i": st.integers(-(2**31), 2**31 - 1),
        "l": st.none() | st.integers(-(2**63), 2**63 - 1),
        "t": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "b": st.binary(),
        "x": st.booleans(),
        "f": st.floats(width=32, allow_nan=False),
        "d": st.floats(allow_nan=False),
        "z": st.binary(min_size=3, max_size=3),
        "n": st.decimals(-9_999_999, 9_999_999, places=2),
        "a": st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        "m": st.none() | st.dictionaries(st.integers(0, 2**31 - 1), st.binary(), max_size=4),
        "c": st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**62), max_size=4),
    }
)


BYTES_MAX = 1_000_000


def read(data: bytes, *, isolated: bool = False) -> list[dict[str, Any]]:
    container = avro.Container(data)
    by_id = {field["field-id"]: field["name"] for field in SCHEMA["fields"]}
    adapter = avro.Adapter(
        make=lambda values: {by_id[field_id]: value for field_id, value in values.items()}, ids={}
    )
    reader = avro.compile_reader(container.schema, {"": adapter}, isolated=isolated)
    return list(container.records(reader, avro.ISOLATED))


def for_fastavro(row: dict[str, Any]) -> dict[str, Any]:
    pairs = {
        name: None if row[name] is None else [{"key": k, "value": v} for k, v in row[name].items()]
        for name in ("m", "c")
    }
    return {**row, **pairs}


def written_by_fastavro(rows: list[dict[str, Any]], codec: str) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, SCHEMA, [for_fastavro(row) for row in rows], codec=codec)
    return buffer.getvalue()


@examples.at_most(60)
@given(st.lists(ROWS, max_size=5))
def test_what_is_written_reads_back_and_fastavro_reads_it_too(rows: list[dict[str, Any]]) -> None:
    data = avro.encode_file(SCHEMA, rows, {"own": "é"}, sync=SYNC)
    assert read(data) == rows
    assert read(data, isolated=True) == rows
    assert avro.Container(data).text("own") == "é"
    assert list(fastavro.reader(io.BytesIO(data))) == [for_fastavro(row) for row in rows]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(ROWS, min_size=1, max_size=5),
    st.sampled_from(["null", "deflate", "bzip2", "xz"]),
)
def test_what_fastavro_writes_is_read(rows: list[dict[str, Any]], codec: str) -> None:
    assert read(written_by_fastavro(rows, codec)) == rows


@pytest.mark.parametrize(
    ("key", "value", "entries"),
    [
        ({"type": "int"}, {"type": "bytes"}, {1: b"a", 2147483546: b""}),
        ({"type": "int"}, {"type": "long"}, {1: 5, 3: -1}),
        ("int", {"type": "bytes"}, {1: b"a"}),
    ],
)
def test_a_map_is_one_however_its_primitive_types_are_spelled(
    key: Any, value: Any, entries: dict[int, Any]
) -> None:
    # DuckDB spells them as objects.
    pairs = {
        "type": "record",
        "name": "k126_v127",
        "fields": [
            {"name": "key", "type": key, "field-id": 126},
            {"name": "value", "type": value, "field-id": 127},
        ],
    }
    bounds = {"type": "array", "logicalType": "map", "items": pairs}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "bounds", "type": ["null", bounds], "field-id": 125}],
    }
    rows: list[dict[str, Any]] = [
        {"bounds": [{"key": number, "value": each} for number, each in entries.items()]},
        {"bounds": None},
    ]
    plain = avro.encode_file(schema, [{"bounds": entries}, {"bounds": None}], {}, sync=SYNC)
    assert list(fastavro.reader(io.BytesIO(plain))) == rows
    adapter = avro.Adapter(make=lambda values: values[125], ids={})
    for isolated in (False, True):
        container = avro.Container(plain)
        assert container.schema["fields"] == schema["fields"]
        reader = avro.compile_reader(container.schema, {"": adapter}, isolated=isolated)
        assert list(container.records(reader, avro.ISOLATED)) == [entries, None]


def test_many_records_are_written_in_several_blocks() -> None:
    row = {"i": 1, "l": None, "t": "x" * 100, "b": b"", "x": True, "f": 0.0, "d": 0.0, "z": b"abc",
           "n": decimal.Decimal("1.00"), "a": None, "m": None, "c": {}}  # fmt: skip
    data = avro.encode_file(SCHEMA, [row] * 5_000, {}, sync=SYNC)
    assert data.count(SYNC) > 5
    assert len(read(data)) == 5_000


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=30).map(b"".join))
def test_snappy_blocks_are_read(body: bytes) -> None:
    packed = pa.Codec("snappy").compress(body, asbytes=True)
    checksum = zlib.crc32(body).to_bytes(4, "big")
    assert avro.decompress("snappy", packed + checksum, BYTES_MAX) == body
    with pytest.raises(avro.InvalidAvro):
        avro.decompress("snappy", packed + bytes([checksum[0] ^ 1]) + checksum[1:], BYTES_MAX)
    if body:
        with pytest.raises(avro.AvroBeyondBounds):
            avro.decompress("snappy", packed + checksum, len(body) - 1)


@settings(max_examples=20, deadline=None)
@given(st.binary())
def test_zstandard_blocks_are_read(body: bytes) -> None:
    packed = zstandard.ZstdCompressor().compress(body)
    assert avro.decompress("zstandard", packed, BYTES_MAX) == body
    with pytest.raises(avro.InvalidAvro):
        avro.decompress("zstandard", b"x" + packed, BYTES_MAX)


def test_an_unknown_codec_is_refused() -> None:
    data = avro.encode_file(SCHEMA, [], {"avro.codec": "brotli"}, sync=SYNC)
    with pytest.raises(avro.InvalidAvro, match="unknown Avro codec brotli"):
        read(data)


def test_a_header_whose_schema_nests_too_deeply_is_refused() -> None:
    head = fastavro.schema.parse_schema({"type": "map", "values": "bytes"})
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, head, {"avro.schema": b"[" * 200_000})
    with pytest.raises(avro.InvalidAvro, match="broken Avro header"):
        avro.Container(avro.MAGIC + buffer.getvalue() + SYNC)


def test_a_schema_that_holds_itself_is_refused() -> None:
    schema = {
        "type": "record",
        "name": "loop",
        "fields": [{"name": "next", "type": ["null", "loop"]}],
    }
    with pytest.raises(avro.InvalidAvro, match="nests too deeply"):
        avro.compile_reader(schema, {})


EMPTY: dict[str, Any] = {"type": "record", "name": "empty", "fields": []}
ITEM: dict[str, Any] = {"type": "record", "name": "item", "fields": [{"name": "e", "type": EMPTY}]}


@pytest.mark.parametrize(
    "field_types",
    [
        [EMPTY],
        ["long", EMPTY, "empty"],
        ["long", {**EMPTY, "name": "a"}, {**EMPTY, "name": "b"}],
        ["long", {"type": "array", "items": EMPTY}],
        ["long", {"type": "array", "items": ITEM}],
        ["long", {"type": "map", "values": EMPTY}],
        ["long", ["null", EMPTY]],
        ["long", {"type": EMPTY}],
        ["long", {"type": "record", "name": "outer", "fields": [{"name": "i", "type": ITEM}]}],
    ],
    ids=["alone", "named", "two", "array", "array of holders", "map", "union", "wrapped", "nested"],
)
def test_records_of_no_bytes_are_not_plain_where_they_may_be_many(field_types: list[Any]) -> None:
    fields = [{"name": f"f{at}", "type": each} for at, each in enumerate(field_types)]
    schema = {"type": "record", "name": "r", "fields": fields}
    with pytest.raises(avro.AvroBeyondBounds):
        avro.compile_reader(schema, {}, plain=True)
    avro.compile_reader(schema, {})


def test_a_record_of_no_bytes_beside_a_field_with_bytes_is_plain() -> None:
    fields = [{"name": "n", "type": "long"}, {"name": "e", "type": EMPTY}]
    schema = {"type": "record", "name": "r", "fields": fields}
    block = bytearray()
    avro.write_int(block, 7)
    read_record = avro.compile_reader(schema, {}, plain=True)
    assert read_record(avro.Block(bytes(block))) == (7, ())


def test_a_length_beyond_its_block_never_reads_on() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "b", "type": "bytes", "field-id": 1}],
    }
    for claimed in (3, 100, 2**31, 2**62):
        block = bytearray()
        avro.write_int(block, claimed)
        block += b"ab"
        with pytest.raises(avro.InvalidAvro, match="bytes are needed of 2"):
            avro.compile_reader(schema, {})(avro.Block(bytes(block)))


@pytest.mark.parametrize("size", [0, 1, 50, 51, 300])
def test_a_map_of_integers_is_the_same_read_one_by_one_and_at_once(size: int) -> None:
    pair = [
        {"name": "key", "type": "int", "field-id": 1},
        {"name": "value", "type": "long", "field-id": 2},
    ]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {
                "name": "counts",
                "type": {"type": "array", "items": {"type": "record", "name": "p", "fields": pair}},
                "field-id": 3,
            },
            {"name": "after", "type": "long", "field-id": 4},
        ],
    }
    counts = {key: (-1) ** key * 3**key % (1 << 62) for key in range(size)}
    row = {"counts": [{"key": k, "value": v} for k, v in counts.items()], "after": 77}
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [row, row])
    container = avro.Container(buffer.getvalue())
    for isolated in (False, True):
        adapter = avro.Adapter(make=lambda values: (values[3], values[4]), ids={})
        reader = avro.compile_reader(container.schema, {"": adapter}, isolated=isolated)
        assert list(container.records(reader, avro.ISOLATED)) == [(counts, 77)] * 2


def test_small_maps_of_integers_make_no_array(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = [
        {"name": "key", "type": "int", "field-id": 1},
        {"name": "value", "type": "long", "field-id": 2},
    ]
    schema = {"type": "array", "items": {"type": "record", "name": "k1_v2", "fields": pair}}
    read_map = avro.compile_reader(schema, {})
    monkeypatch.setattr(avro, "array", None)
    assert read_map(avro.Block(b"\x04" + b"\x02\x0a" + b"\x04\x0e" + b"\x00")) == {1: 5, 2: 7}


@pytest.mark.parametrize("value", ["bytes", "long"])
def test_a_map_beyond_its_block_never_reads_on(value: str) -> None:
    pair = [
        {"name": "key", "type": "int", "field-id": 1},
        {"name": "value", "type": value, "field-id": 2},
    ]
    schema = {"type": "array", "items": {"type": "record", "name": "k1_v2", "fields": pair}}
    read_map = avro.compile_reader(schema, {})
    for block in (
        b"\x04" + b"\x02\x7e" + b"a" * 10,  # a value longer than what is left
        b"\x04" + b"\xff" * 9,  # an integer without an end
        b"\x7e" + b"\x02\x02",  # more pairs than bytes
        b"\x02" + b"\x80" * 12,
    ):
        with pytest.raises((avro.InvalidAvro, IndexError, EOFError)):
            _read_one(read_map, block)


def _read_one(read_map: avro.Read, data: bytes) -> None:
    block = avro.Block(data)
    read_map(block)
    block.check()


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(avro.InvalidAvro):
        avro.encode_file({"type": "record", "name": "r", "fields": [
            {"name": "i", "type": "int", "field-id": 1}]}, [{"i": "x"}], {}, sync=SYNC)  # fmt: skip


GOOD = avro.encode_file(
    SCHEMA,
    [
        {"i": 1, "l": 2, "t": "x", "b": b"b", "x": True, "f": 0.5, "d": 0.5, "z": b"abc",
         "n": decimal.Decimal("1.00"), "a": [1, 2], "m": {1: b"1"}, "c": {1: 2, 3: 4}},
    ] * 3,
    {},
    sync=SYNC,
)  # fmt: skip


def uncompressed() -> bytes:
    return written_by_fastavro(read(GOOD), "null")


@examples.at_most(400)
@given(st.data())
def test_garbage_gives_records_or_the_modules_one_error(data: st.DataObject) -> None:
    broken = bytearray(data.draw(st.sampled_from([GOOD, uncompressed()])))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(broken) - 1))
        change = data.draw(st.sampled_from(["change", "cut", "insert"]))
        if change == "change":
            broken[place] = data.draw(st.integers(0, 255))
        elif change == "cut" and len(broken) > 10:
            del broken[place : place + data.draw(st.integers(1, 40))]
        else:
            broken[place:place] = data.draw(st.binary(max_size=12))
        if not broken:
            return
    try:
        container = avro.Container(bytes(broken))
        list(container.records(avro.compile_reader(container.schema, {}), avro.ISOLATED))
    except avro.InvalidAvro:
        pass
