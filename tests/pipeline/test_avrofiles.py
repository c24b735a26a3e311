"""Avro files as sources: their types, schemas that change from file to file, and broken files."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pytest

from pipeline import errors
from tests.pipeline.lake import Lake, Raw


def avro(fields: Sequence[dict[str, Any]], *rows: dict[str, Any], codec: str = "deflate") -> bytes:
    body = io.BytesIO()
    schema = {"type": "record", "name": "row", "fields": list(fields)}
    fastavro.writer(body, fastavro.parse_schema(schema), rows, codec=codec)
    return body.getvalue()


def optional(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


@pytest.mark.spark
def test_every_logical_type_of_avro_arrives_as_its_iceberg_type(lake: Lake, raw: Raw) -> None:
    moment = datetime.datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=datetime.UTC)
    fields = [
        optional("i", "int"),
        optional("l", "long"),
        optional("f", "float"),
        optional("d", "double"),
        optional("b", "boolean"),
        optional("s", "string"),
        optional("day", {"type": "int", "logicalType": "date"}),
        optional("at", {"type": "long", "logicalType": "timestamp-micros"}),
        optional("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        optional("e", {"type": "enum", "name": "colour", "symbols": ["red", "blue"]}),
        optional("many", {"type": "array", "items": "string"}),
        optional("inner", {"type": "record", "name": "inner", "fields": [optional("x", "int")]}),
    ]
    row = {
        "i": 1, "l": 2**40, "f": 0.5, "d": 0.25, "b": True, "s": "a", "day": moment.date(),
        "at": moment, "price": decimal.Decimal("12.34"), "e": "blue", "many": ["x", "y"],
        "inner": {"x": 7},
    }  # fmt: skip
    raw.put("in/1.avro", avro(fields, row, dict.fromkeys(row)))
    done = lake.ingest(raw, "avro.types", format="avro")
    assert (done.engine, done.rows, done.sources) == ("spark", 2, 1)
    table = lake.catalog.load_table("avro.types")
    assert {field.name: str(field.field_type) for field in table.schema().fields} == {
        "i": "int", "l": "long", "f": "float", "d": "double", "b": "boolean", "s": "string",
        "day": "date", "at": "timestamptz", "price": "decimal(9, 2)", "e": "string",
        "many": "list<string>", "inner": "struct<14: x: optional int>",
    }  # fmt: skip
    stored = sorted(table.scan().to_arrow().to_pylist(), key=lambda one: one["i"] is None)
    assert stored == [row, dict.fromkeys(row)]


@pytest.mark.spark
@pytest.mark.smoke
def test_avro_files_whose_schemas_differ_are_one_table_with_the_wider_types(
    lake: Lake, raw: Raw
) -> None:
    inner = {"type": "record", "name": "inner", "fields": [optional("x", "int")]}
    wider = {
        "type": "record",
        "name": "inner",
        "fields": [optional("y", "int"), optional("x", "long")],
    }
    raw.put(
        "in/1.avro",
        avro([optional("id", "int"), optional("inner", inner)], {"id": 1, "inner": {"x": 1}}),
    )
    raw.put(
        "in/2.avro",
        avro([optional("late", "string"), optional("id", "long")], {"id": 2**40, "late": "b"}),
    )
    raw.put(
        "in/3.avro",
        avro(
            [optional("id", "int"), optional("inner", wider)],
            {"id": 3, "inner": {"x": 2**40, "y": 5}},
        ),
    )
    raw.put("in/4.avro", b"")
    assert lake.ingest(raw, "avro.evolving", format="avro").rows == 3
    rows = lake.catalog.load_table("avro.evolving").scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "inner": {"x": 1, "y": None}, "late": None},
        {"id": 3, "inner": {"x": 2**40, "y": 5}, "late": None},
        {"id": 2**40, "inner": None, "late": "b"},
    ]
    raw.put("in/5.avro", avro([optional("new", "double")], {"new": 1.5}))
    again = lake.ingest(raw, "avro.evolving", format="avro")
    assert (again.rows, again.skipped, again.columns_added) == (1, 4, ("new",))


@pytest.mark.spark
def test_names_of_avro_files_that_differ_only_in_case_are_one_column(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.avro", avro([optional("id", "int"), optional("n", "string")], {"id": 1}))
    raw.put("in/2.avro", avro([optional("ID", "long")], {"ID": 2**40}))
    assert lake.ingest(raw, "avro.spelled", format="avro").rows == 2
    rows = lake.catalog.load_table("avro.spelled").scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "n": None},
        {"id": 2**40, "n": None},
    ]


@pytest.mark.spark
def test_avro_files_whose_types_no_column_holds_are_refused_by_file_and_column(
    lake: Lake, raw: Raw
) -> None:
    raw.put("in/1.avro", avro([optional("id", "int")], {"id": 1}))
    raw.put("in/2.avro", avro([optional("id", "string")], {"id": "x"}))
    with pytest.raises(errors.BadSource, match=r"in/2\.avro: column 'id' has the type string"):
        lake.ingest(raw, "avro.refused", format="avro")
    assert not lake.catalog.table_exists("avro.refused")


def head(schema: str) -> bytes:
    """The head of an Avro file with a schema."""

    def sized(data: bytes) -> bytes:
        number, size = b"", len(data) << 1
        while size > 127:
            number += bytes([size & 127 | 128])
            size >>= 7
        return number + bytes([size]) + data

    return b"Obj\x01\x02" + sized(b"avro.schema") + sized(schema.encode()) + b"\x00" + b"s" * 16


TWICE = json.dumps(
    {
        "type": "record",
        "name": "a",
        "fields": [{"name": "x", "type": {"type": "record", "name": "a", "fields": []}}],
    }
)
DEEP = '{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000


@pytest.mark.spark
@pytest.mark.parametrize(
    "body",
    [
        b"id,n\n1,2\n",
        b"Obj\x01",
        b"Obj\x01\x02\x16avro.schema\x02{",
        head(TWICE),
        head(DEEP),
    ],
    ids=["text", "magic", "cut", "twice", "deep"],
)
def test_a_file_that_is_no_avro_file_is_refused_by_its_name(
    lake: Lake, raw: Raw, body: bytes
) -> None:
    raw.put("in/1.avro", avro([optional("id", "int")], {"id": 1}))
    raw.put("in/2.avro", body)
    with pytest.raises(errors.BadSource, match=r"in/2\.avro is not an Avro file"):
        lake.ingest(raw, "avro.refused", format="avro")
