"""Avro files of stages, and text that is compressed with Brotli."""

from __future__ import annotations

import bz2
import datetime
import decimal
import io
import json
import lzma
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sql import staged_avro
from tests.kit import local_sql
from tests.sql import test_staging as staging

AT = datetime.datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=datetime.UTC)
CLOCK = datetime.datetime.fromisoformat("1969-12-31T23:59:59.250")
ID = uuid.UUID(int=5)
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "trip",
    "namespace": "lake",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                  "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "ratio", "type": "double"},
        {"name": "ok", "type": "boolean"},
        {"name": "raw", "type": {"type": "fixed", "name": "pair", "size": 2}},
        {"name": "other", "type": "pair"},
        {"name": "colour", "type": {"type": "enum", "name": "c", "symbols": ["RED", "BLUE"]}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": ["null", "int"]}},
    ],
}  # fmt: skip


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": None if number % 2 else f"n{number}",
        "fare": decimal.Decimal(number) / 4,
        "day": datetime.date(2024, 2, 29),
        "at": AT,
        "clock": CLOCK,
        "ratio": number / 8,
        "ok": number > 1,
        "raw": b"\x01\xff",
        "other": b"ab",
        "colour": "BLUE",
        "key": ID,
        "tags": ["a", "b"],
        "more": {"x": 1, "y": None},
    }


def avro(records: list[Any], schema: Any = SCHEMA, codec: str = "null") -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records, codec=codec, sync_interval=200)
    return sink.getvalue()


def test_copy_of_avro_loads_columns_by_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "CREATE TABLE t (id int, NAME varchar, fare number(9,2), day date, at timestamp_ltz,"
            " clock timestamp_ntz, ratio float, ok boolean, raw binary, colour varchar,"
            " key varchar, tags array, more object, absent int)"
        )
        await local.run("CREATE STAGE s FILE_FORMAT = (TYPE = AVRO)")
        await local_sql.put_file(local, "@s", "a.avro", avro([record(1), record(2)]))
        await local.rows("COPY INTO t FROM @s MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE")
        assert await local.rows(
            "SELECT id, name, fare, day, at::timestamp_ntz, clock, ratio, ok, raw, colour, key,"
            " tags[1]::varchar, more:x::int, typeof(more:y), absent FROM t ORDER BY id"
        ) == [
            (
                number,
                None if number == 1 else "n2",
                decimal.Decimal(number) / 4,
                datetime.date(2024, 2, 29),
                AT.replace(tzinfo=None),
                CLOCK,
                number / 8,
                number > 1,
                b"\x01\xff",
                "BLUE",
                str(ID),
                "b",
                1,
                "NULL_VALUE",
                None,
            )
            for number in (1, 2)
        ]

    staging.run(tmp_path, work)


def test_a_query_and_a_transformation_read_members_of_avro_records(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE FILE FORMAT a TYPE = AVRO")
        await local_sql.put_file(local, "@~", "a.avro", avro([record(1), record(2)]))
        rows = await local.rows(
            "SELECT $1:id::int, $1:tags[0]::varchar, METADATA$FILE_ROW_NUMBER"
            " FROM @~ (FILE_FORMAT => 'a') ORDER BY 1"
        )
        assert rows == [(1, "a", 1), (2, "a", 2)]
        await local.run("CREATE TABLE v (doc variant)")
        await local.rows("COPY INTO v FROM @~ FILE_FORMAT = (FORMAT_NAME = 'a')")
        assert await local.rows("SELECT doc:fare::number(9,2) FROM v ORDER BY 1") == [
            (decimal.Decimal("0.25"),),
            (decimal.Decimal("0.50"),),
        ]
        await local.run("CREATE TABLE n (id int, fare number(9,2))")
        await local.rows(
            "COPY INTO n FROM (SELECT $1:id, $1:fare * 2 FROM @~) FILE_FORMAT = (FORMAT_NAME = 'a')"
        )
        assert await local.one("SELECT SUM(fare) FROM n") == decimal.Decimal("1.50")

    staging.run(tmp_path, work)


def test_infer_schema_of_avro_has_the_types_of_its_schema(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE FILE FORMAT a TYPE = AVRO")
        await local_sql.put_file(local, "@~", "a.avro", avro([]))
        rows = await local.rows(
            "SELECT column_name, type, nullable FROM TABLE(INFER_SCHEMA(LOCATION => '@~',"
            " FILE_FORMAT => 'a')) ORDER BY order_id"
        )
        assert rows == [
            ("id", "NUMBER(19, 0)", False),
            ("name", "TEXT", True),
            ("fare", "NUMBER(9, 2)", False),
            ("day", "DATE", False),
            ("at", "TIMESTAMP_LTZ", False),
            ("clock", "TIMESTAMP_NTZ", False),
            ("ratio", "REAL", False),
            ("ok", "BOOLEAN", False),
            ("raw", "BINARY", False),
            ("other", "BINARY", False),
            ("colour", "TEXT", False),
            ("key", "TEXT", False),
            ("tags", "VARIANT", False),
            ("more", "VARIANT", False),
        ]

    staging.run(tmp_path, work)


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda body: zlib.compress(body, wbits=-15),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda body: pa.compress(body, codec="zstd", asbytes=True),
    "snappy": lambda body: (
        pa.compress(body, codec="snappy", asbytes=True) + zlib.crc32(body).to_bytes(4, "big")
    ),
}


@pytest.mark.parametrize("codec", CODECS)
def test_all_records_of_many_blocks_are_read_with_each_codec(codec: str) -> None:
    schema = fastavro.parse_schema(SCHEMA)
    data = with_schema(SCHEMA, codec)
    for start in range(0, 500, 50):
        body = io.BytesIO()
        for number in range(start, start + 50):
            fastavro.schemaless_writer(body, schema, record(number))
        packed = CODECS[codec](body.getvalue())
        data += _long(50) + _long(len(packed)) + packed + b"s" * 16
    texts = list(staged_avro.documents(io.BytesIO(data)))
    assert [json.loads(text)["id"] for text in texts] == list(range(500))


def _long(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


NESTED: dict[str, Any] = {"type": "record", "name": "node", "fields": [
    {"name": "next", "type": ["null", "node"]}]}  # fmt: skip


def deep_chain() -> list[Any]:
    """Types of which each holds the one before: no text is nested, but values are."""
    chain: list[Any] = [{"type": "record", "name": "t0", "fields": []}]
    for number in range(1, 80):
        members = [{"name": "m", "type": f"t{number - 1}"}]
        chain.append({"type": "record", "name": f"t{number}", "fields": members})
    return chain


def doubling() -> list[Any]:
    """Types of which each holds the one before twice: a value of the last has 2 ** 40 members."""
    chain: list[Any] = [{"type": "record", "name": "t0", "fields": []}]
    for number in range(1, 41):
        members = [{"name": name, "type": f"t{number - 1}"} for name in "ab"]
        chain.append({"type": "record", "name": f"t{number}", "fields": members})
    return chain


def with_schema(schema: Any, codec: str = "null") -> bytes:
    """Return the header of a file whose schema is any JSON."""
    head = b"Obj\x01" + _long(2)
    for name, value in (("avro.schema", json.dumps(schema)), ("avro.codec", codec)):
        for text in (name, value):
            head += _long(len(text)) + text.encode()
    return head + b"\x00" + b"s" * 16


BROKEN = {
    "empty": b"",
    "text": b"id,name\n1,x\n",
    "cut": avro([record(1), record(2)])[:-7],
    "header": avro([record(1)])[:20],
    "recursive": avro([{"next": {"next": None}}], NESTED),
    "chain": with_schema(deep_chain()),
    "nested": with_schema(json.loads("[" * 400 + "]" * 400)),
    "doubling": with_schema(doubling()) + _long(1) + _long(1) + _long(40) + b"s" * 16,
    "nulls": with_schema({"type": "array", "items": "null"})
    + _long(1) + _long(5) + _long(1 << 25) + _long(0) + b"s" * 16,
    "hollow": with_schema({"type": "array", "items": {"type": {"type": "record", "name": "r",
        "fields": [{"name": "f", "type": {"type": "fixed", "name": "x", "size": 0}}]}}})
    + _long(1) + _long(5) + _long(1 << 25) + _long(0) + b"s" * 16,
    "no schema": b"Obj\x01\x00" + b"s" * 16,
    "undefined": with_schema({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": "nowhere"}]}),
    "many": with_schema("null") + _long(1 << 40) + _long(0) + b"s" * 16,
    "long": with_schema("string") + _long(1) + _long(1 << 50) + b"s" * 16,
    "claim": with_schema("string") + _long(1) + _long(6) + _long(1 << 40)[:6] + b"s" * 16,
    "rest": with_schema("long") + _long(1) + _long(2) + b"\x02\x04" + b"s" * 16,
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_avro_file_is_the_one_error(name: str) -> None:
    with pytest.raises(staged_avro.BadAvro):
        list(staged_avro.documents(io.BytesIO(BROKEN[name])))


@pytest.mark.parametrize("position", range(0, 700, 23))
def test_a_changed_byte_gives_records_or_the_one_error(position: int) -> None:
    data = bytearray(avro([record(1), record(2), record(3)], codec="deflate"))
    data[position % len(data)] ^= 0x55
    try:
        list(staged_avro.documents(io.BytesIO(bytes(data))))
        staged_avro.columns(io.BytesIO(bytes(data)))
    except staged_avro.BadAvro:
        pass


def test_a_damaged_avro_file_is_named_and_nothing_is_loaded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a variant)")
        await local_sql.put_file(local, "@%t", "good.avro", avro([record(1)]))
        await local_sql.put_file(local, "@%t", "bad.avro", BROKEN["cut"])
        form = "FILE_FORMAT = (TYPE = AVRO)"
        fault = await staging.refused(local, f"COPY INTO t {form}")
        assert (fault.code, "bad.avro" in fault.message) == ("100069", True)
        assert await local.one("SELECT COUNT(*) FROM t") == 0
        rows = await local.rows(f"COPY INTO t {form} ON_ERROR = SKIP_FILE")
        assert [row[:2] for row in rows] == [("bad.avro", "LOAD_FAILED"), ("good.avro", "LOADED")]

    staging.run(tmp_path, work)


def test_avro_is_not_unloaded_and_says_so(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        fault = await staging.refused(
            local, "COPY INTO @~ FROM (SELECT 1 AS a) FILE_FORMAT = (TYPE = AVRO)"
        )
        assert (fault.code, "AVRO" in fault.message) == ("000002", True)

    staging.run(tmp_path, work)


def test_text_of_brotli_is_unloaded_and_loaded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s FILE_FORMAT = (TYPE = CSV COMPRESSION = BROTLI)")
        await local.rows("COPY INTO @s FROM (SELECT 1 AS a, 'x' AS b)")
        (listed,) = await local.rows("LIST @s")
        assert listed[0] == "s/data_0_0_0.csv.br"
        await local.run("CREATE TABLE t (a int, b varchar)")
        await local.rows("COPY INTO t FROM @s")
        assert await local.rows("SELECT * FROM t") == [(1, "x")]
        await local_sql.put_file(local, "@%t", "a.json.br", b"{}")
        fault = await staging.refused(
            local, "COPY INTO t FROM @%t FILE_FORMAT = (TYPE = CSV COMPRESSION = BROTLI)"
        )
        assert fault.code == "100064"

    staging.run(tmp_path, work)
