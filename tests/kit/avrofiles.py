"""Avro container files that no writer makes: any schema, any codec, counts and blocks that lie."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import zstandard

SYNC: Final = b"\x07" * 16


def number(value: int) -> bytes:
    """An Avro int or long."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(level=9, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _deflate,
    "zstandard": zstandard.ZstdCompressor(level=3).compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def container(schema: Any, blocks: Iterable[tuple[int, bytes]], *, codec: str = "null") -> bytes:
    """A file of blocks, each the count of records that it claims and their bytes."""
    head = {"avro.schema": msgspec.json.encode(schema).decode(), "avro.codec": codec}
    encoded = bytearray(b"Obj\x01" + number(len(head)))
    for name, value in head.items():
        encoded += text(name) + text(value)
    encoded += b"\x00" + SYNC
    for count, data in blocks:
        packed = PACK[codec](data)
        encoded += number(count) + number(len(packed)) + packed + SYNC
    return bytes(encoded)


def _field(name: str, type_: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": field_id}


LIST_SCHEMA: Final = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field("manifest_path", "string", 500),
        _field("manifest_length", "long", 501),
        _field("partition_spec_id", "int", 502),
        _field("added_snapshot_id", "long", 503),
    ],
}


def list_record(path: str = "s3://lake/ns/t/metadata/m.avro") -> bytes:
    return text(path) + number(1) + number(0) + number(1)


def nested_names(levels: int) -> Any:
    """A schema of 2 to the power of levels types, each named twice by the one around it."""
    inner: Any = {"type": "record", "name": "r0", "fields": [_field("a", "int", 1)]}
    for level in range(1, levels):
        inner = {
            "type": "record",
            "name": f"r{level}",
            "fields": [_field("a", inner, 2), _field("b", f"r{level - 1}", 3)],
        }
    return inner


def array_of_nulls(block_bytes: int, items: int) -> tuple[Any, bytes]:
    """A schema and one record: an array of so many nulls in each of its blocks."""
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [_field("a", {"type": "array", "items": "null"}, 1)],
    }
    part = number(items)
    return schema, part * (block_bytes // len(part)) + b"\x00"


def hostile_lists() -> dict[str, Callable[[], bytes]]:
    """Manifest lists that cost far more than their size, each made when it is called."""
    record = list_record()
    nulls, null_record = array_of_nulls(60_000, 30_000)
    wide = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            _field(
                "a",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "i",
                        "fields": [_field("n", "int", 2)]
                        + [_field(f"z{n}", "null", 3 + n) for n in range(500)],
                    },
                },
                1,
            )
        ],
    }
    return {
        "400,000 records in 2 KiB of xz": lambda: container(
            LIST_SCHEMA, [(400_000, record * 400_000)], codec="xz"
        ),
        "250 MB in 250 KiB of deflate": lambda: container(
            LIST_SCHEMA, [(1, text("x" * 250_000_000) + number(1) * 3)], codec="deflate"
        ),
        "250 MB in 25 KiB of zstandard": lambda: container(
            LIST_SCHEMA, [(1, text("x" * 250_000_000) + number(1) * 3)], codec="zstandard"
        ),
        "250 MB in bzip2": lambda: container(
            LIST_SCHEMA, [(1, text("x" * 250_000_000) + number(1) * 3)], codec="bzip2"
        ),
        "100,000 records, each claimed twice": lambda: container(
            LIST_SCHEMA, [(200_000, record * 100_000)], codec="deflate"
        ),
        "4 GB of zeros in many blocks": lambda: container(
            LIST_SCHEMA, [(1, bytes(64_000_000))] * 60, codec="zstandard"
        ),
        "names that nest to 2^40 types": lambda: container(nested_names(40), [(1, b"\x02")]),
        "an array of nulls": lambda: container(nulls, [(1, null_record)]),
        "items of one byte and 500 nulls": lambda: container(
            wide, [(1, number(40_000) + b"\x02" * 40_000 + b"\x00")]
        ),
        "3,000 empty blocks": lambda: container(LIST_SCHEMA, [(0, b"")] * 3_000),
        "records of no bytes": lambda: container(
            {"type": "record", "name": "manifest_file", "fields": []}, [(10_000_000, b"")]
        ),
    }
