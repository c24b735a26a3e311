"""The file that a topic's records are written to, read back by other readers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyarrow import parquet

from pipeline import errors, files, jobs, records, settings, spooling

NEW_YEAR_MS = 1_767_225_600_123
AVRO_SCHEMA = {
    "type": "record", "name": "order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}  # fmt: skip


def load_of(**changes: Any) -> jobs.Load:
    names = ("format", "columns", "avro_schema_file")
    parts = {name: changes.pop(name) for name in names if name in changes}
    source = settings.KafkaSource(topic="orders", bootstrap="broker:9092", **parts)
    options = changes.pop("options", {})
    load = jobs.Load(
        places=(), relation=source, reader=files.reader_of(source, source.format, options),
        table=settings.parse_table("lake.ns.t"), **changes,
    )  # fmt: skip
    return records.prepared(load)


def record(value: bytes | None, offset: int = 7, **changes: Any) -> spooling.KafkaRecord:
    parts = {"partition": 1, "key": b"k", "timestamp_ms": NEW_YEAR_MS, "headers": (), **changes}
    return spooling.KafkaRecord(offset=offset, value=value, **parts)


def spooled(folder: Path, load: jobs.Load, *values: spooling.KafkaRecord) -> spooling.Spool:
    spool = spooling.Spool(load, folder / "spool", "kafka:C/orders")
    for value in values:
        spool.add(value)
    spool.close()
    return spool


ALL = ("key", "topic", "partition", "offset", "timestamp")
OWN = {
    "kafka_key": "k", "kafka_topic": "orders", "kafka_partition": 1, "kafka_offset": 7,
    "kafka_timestamp": "2026-01-01T00:00:00.123Z",
}  # fmt: skip


def test_json_is_one_line_for_each_record_with_the_named_columns_first(tmp_path: Path) -> None:
    values = [b'{"id": 1}', b" { } ", b'{"id":\r\n\r\n{"a": [1,\n2]}}\n', '{"n": "ü\\n"}'.encode()]
    spool = spooled(tmp_path, load_of(columns=ALL), *map(record, values))
    lines = spool.path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {**OWN, "id": 1}, OWN, {**OWN, "id": {"a": [1, 2]}}, {**OWN, "n": "ü\n"},
    ]  # fmt: skip
    plain = spooled(tmp_path, load_of(), record(b'{"id": 1.10}'))
    assert plain.path.read_text() == '{"id": 1.10}\n'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "has no value"),
        (b" \n", "is empty"),
        (b"\xff", "is not UTF-8"),
        (b'{"a": "\0"}', "has a zero byte"),
        (b"[1]", "is not JSON: it is not an object"),
        (b'{"a":', "is not JSON: Expecting value"),
        (b'{"a": "\n"}', "is not JSON: Invalid control character at"),
        (b'{"a": 1} {"a": 2}', "is not JSON: Extra data"),
    ],
)
def test_a_record_that_is_no_row_fails_the_load_or_is_rejected_by_its_offset(
    tmp_path: Path, value: bytes | None, reason: str
) -> None:
    with pytest.raises(errors.BadSource) as caught:
        spooled(tmp_path, load_of(), record(b'{"a": 1}', 6), record(value, 9))
    assert str(caught.value) == (f"orders: partition 1, offset 9 {reason}; nothing was loaded")
    spool = spooled(tmp_path, load_of(on_error="reject"), record(value, 9), record(b'{"a": 1}', 11))
    assert [(row.source, row.line, row.reason) for row in spool.rejected] == [
        ("kafka:C/orders/1", 9, reason)
    ]
    assert spool.path.read_text() == '{"a": 1}\n'
    assert (spool.count, spool.origin(1)) == (1, (1, 11))


@pytest.mark.parametrize("option", [None, "allowSingleQuotes"])
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b'{"id": 1, "kafka_offset": 1}', "kafka_offset"),
        (b'{"KAFKA_Offset": 1, "id": 1}', "KAFKA_Offset"),
        (b'{"id": 1, "kafka\\u005fdeleted": true}', "kafka_deleted"),
        (b'{"id": 1, "kafka_order": 99}', "kafka_order"),
    ],
)
def test_a_value_cannot_take_the_place_of_a_column_of_the_record(
    tmp_path: Path, value: bytes, name: str, option: str | None
) -> None:
    merge = jobs.Merge(key=("id",))
    options = {} if option is None else {option: "true"}
    changes: dict[str, Any] = {"columns": ("offset",), "mode": "merge", "merge": merge}
    reason = f"has a field '{name}', a column that the load writes itself"
    with pytest.raises(errors.BadSource, match=f"orders: partition 1, offset 7 {reason}"):
        spooled(tmp_path, load_of(options=options, **changes), record(value))
    if option is None:
        spool = spooled(tmp_path, load_of(on_error="reject", **changes), record(value))
        assert [row.reason for row in spool.rejected] == [reason]
    harmless = record(b'{"id": 1, "kafka_key": 1, "inner": {"kafka_offset": 1}}')
    assert spooled(tmp_path, load_of(options=options, **changes), harmless).count == 1


def test_names_are_looked_for_in_json_of_spark_alone(tmp_path: Path) -> None:
    load = load_of(columns=("offset",), options={"allowComments": "true"})
    spooled(tmp_path, load, record(b"{'id': 1 /* one */}"))
    for value in [b"{'kafka_offset': 1}", b"{kafka\\u005Foffset /**/ : 1, 'a': 1}"]:
        with pytest.raises(errors.BadSource, match="has a field 'kafka_offset'"):
            spooled(tmp_path, load, record(value))


def test_the_columns_of_a_record_can_be_the_key_of_a_merge(tmp_path: Path) -> None:
    merge = jobs.Merge(key=("KAFKA_key",))
    load = load_of(mode="merge", merge=merge, columns=("key",))
    spool = spooled(tmp_path, load, record(b'{"a": 5}'), record(None))
    lines = [json.loads(line) for line in spool.path.read_text().splitlines()]
    assert lines == [
        {"kafka_key": "k", "kafka_deleted": False, "kafka_order": 0, "a": 5},
        {"kafka_key": "k", "kafka_deleted": True, "kafka_order": 1},
    ]
    with pytest.raises(errors.BadSource, match="has neither a key nor a value"):
        spooled(tmp_path, load, record(None, key=None))


def test_a_schema_of_avro_cannot_take_the_place_of_a_column_of_the_record(tmp_path: Path) -> None:
    schema = tmp_path / "order.avsc"
    fields = [{"name": "Kafka_Offset", "type": "long"}]
    schema.write_text(json.dumps({**AVRO_SCHEMA, "fields": fields}))
    load = load_of(format="avro", avro_schema_file=str(schema), columns=("offset",))
    with pytest.raises(errors.BadArgument, match="--avro-schema has a field 'Kafka_Offset', a"):
        spooled(tmp_path, load)


def test_two_halves_of_an_object_are_not_one_row(tmp_path: Path) -> None:
    halves = [record(b'{"a":', 1), record(b'{"b": 2}}', 2)]
    spool = spooled(tmp_path, load_of(on_error="reject"), *halves)
    assert [row.line for row in spool.rejected] == [1, 2]


def test_a_record_without_a_value_removes_the_row_of_its_key_in_a_merge(tmp_path: Path) -> None:
    merge = jobs.Merge(key=("id",))
    load = load_of(mode="merge", merge=merge)
    assert load.merge == jobs.Merge(
        key=("id",), order_by="kafka_order", delete_flag="kafka_deleted", order_is_stored=False
    )
    keys = [b"17", b"a17", b'{"ID": 17, "more": 1}', b'"17"']
    spool = spooled(tmp_path, load, record(b'{"id": 5}'), *(record(None, key=key) for key in keys))
    lines = [json.loads(line) for line in spool.path.read_text().splitlines()]
    assert [(line["id"], line["kafka_deleted"], line["kafka_order"]) for line in lines] == [
        (5, False, 0), (17, True, 1), ("a17", True, 2), (17, True, 3), ("17", True, 4),
    ]  # fmt: skip
    for key, reason in [
        (None, "has neither a key nor a value"),
        (b"[17]", "has no value, and a key that does not say id"),
        (b'{"other": 1}', "has no value, and a key that does not say id"),
        (b"\xff", "has a key that is not UTF-8"),
    ]:
        with pytest.raises(errors.BadSource, match=reason):
            spooled(tmp_path, load, record(None, key=key))


@pytest.mark.parametrize(
    ("order_by", "changes", "flag"),
    [
        ("changed_at", {}, None),
        ("kafka_offset", {"columns": ("offset",)}, "kafka_deleted"),
        ("offset", {"format": "raw"}, "kafka_deleted"),
        (None, {"format": "csv", "types": {"id": "long"}}, None),
    ],
)
def test_a_record_without_a_value_removes_a_row_only_in_an_order_that_it_has(
    tmp_path: Path, order_by: str | None, changes: dict[str, Any], flag: str | None
) -> None:
    load = load_of(mode="merge", merge=jobs.Merge(key=("id",), order_by=order_by), **changes)
    assert load.merge is not None
    assert load.merge.delete_flag == flag
    if flag is None:
        with pytest.raises(errors.BadSource, match="has no value"):
            spooled(tmp_path, load, record(None))


def test_with_a_delete_flag_of_the_values_a_record_without_a_value_is_no_row(
    tmp_path: Path,
) -> None:
    load = load_of(mode="merge", merge=jobs.Merge(key=("id",), delete_flag="gone"))
    values = [record(b'{"id": 1, "gone": true}', 3, partition=partition) for partition in (1, 0)]
    spool = spooled(tmp_path, load, *values, record(b'{"id": 1, "gone": false}', 4))
    lines = [json.loads(line) for line in spool.path.read_text().splitlines()]
    assert lines == [
        {"kafka_order": number, "id": 1, "gone": gone}
        for number, gone in enumerate([True, True, False])
    ]
    with pytest.raises(errors.BadSource, match="orders: partition 1, offset 5 has no value"):
        spooled(tmp_path, load, record(None, 5))


def test_csv_has_the_schemas_header_and_knows_the_lines_of_its_records(tmp_path: Path) -> None:
    types = {"id": "long", "a name": "string"}
    load = load_of(format="csv", types=types, columns=("key", "offset"), on_error="reject")
    spool = spooled(
        tmp_path, load,
        record(b'1,"two\nlines"\n', 5, key=b'x,"y"'), record(b"2,b,c", 6), record(b"3,c", 8),
        record(b'4,"d', 9), record(b"5,e\n6,f", 10), record(None, 11),
    )  # fmt: skip
    with spool.path.open(newline="") as stream:
        assert list(csv.reader(stream)) == [
            ["kafka_key", "kafka_offset", "id", "a name"],
            ['x,"y"', "5", "1", "two\nlines"], ["k", "8", "3", "c"],
        ]  # fmt: skip
    assert [spool.origin(line) for line in (2, 3, 4)] == [(1, 5), (1, 5), (1, 8)]
    assert [(row.line, row.reason) for row in spool.rejected] == [
        (6, "has 3 columns, the schema has 2"), (9, "is not CSV: unexpected end of data"),
        (10, "has 2 lines of CSV"), (11, "has no value"),
    ]  # fmt: skip


def test_avro_values_become_a_file_that_fastavro_reads(tmp_path: Path) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(AVRO_SCHEMA))
    load = load_of(format="avro", avro_schema_file=str(schema), columns=ALL)
    rows: list[dict[str, Any]] = [{"id": 1, "name": "a"}, {"id": -(2**40), "name": None}]
    values = []
    for row in rows:
        path = tmp_path / "datum"
        with path.open("wb") as stream:
            fastavro.schemaless_writer(stream, AVRO_SCHEMA, row)
        values.append(path.read_bytes())
    spool = spooled(
        tmp_path, load, record(values[0]), record(values[1], 2**40, key=None, timestamp_ms=None)
    )
    with spool.path.open("rb") as stream:
        first, second = fastavro.reader(stream)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first.pop("kafka_timestamp").timestamp() == pytest.approx(NEW_YEAR_MS / 1000)
    own = {name: value for name, value in OWN.items() if name != "kafka_timestamp"}
    assert first == {**own, **rows[0]}
    assert second == {
        **own, "kafka_offset": 2**40, "kafka_key": None, "kafka_timestamp": None, **rows[1],
    }  # fmt: skip


def test_raw_records_are_parquet_with_the_named_parts(tmp_path: Path) -> None:
    whole = spooled(
        tmp_path, load_of(format="raw"),
        record(b"\xff\0", headers=[("h", b"1"), ("h", None)]), record(None, 8, key=None),
    )  # fmt: skip
    first, second = parquet.read_table(whole.path).to_pylist()
    assert list(first) == list(settings.RECORD_COLUMNS)
    assert first.pop("timestamp").timestamp() == pytest.approx(NEW_YEAR_MS / 1000)
    assert first == {
        "key": b"k", "value": b"\xff\0", "topic": "orders", "partition": 1, "offset": 7,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }  # fmt: skip
    assert (second["key"], second["value"], second["offset"]) == (None, None, 8)
    some = spooled(tmp_path, load_of(format="raw", columns=("offset",)), record(b"x"))
    assert parquet.read_table(some.path).to_pylist() == [{"offset": 7}]


@pytest.mark.parametrize(
    "part", [{"value": b"x" * 60}, {"key": b"x" * 60}, {"headers": [("x" * 10, b"x" * 50)]}]
)
def test_raw_records_are_written_once_their_bytes_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: dict[str, Any]
) -> None:
    monkeypatch.setattr(spooling, "BATCH_BYTES", 100)
    parts = {"value": b"", "key": None, **part}
    values = [record(offset=offset, **parts) for offset in range(5)]
    file = parquet.ParquetFile(spooled(tmp_path, load_of(format="raw"), *values).path)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [2, 2, 1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": ("headers",)}, "the column headers of a record is for --format raw"),
        ({"format": "csv"}, "values of CSV have no header; --schema names their columns"),
        ({"format": "avro"}, "--format avro and --avro-schema, the schema of the values, go"),
        ({"avro_schema_file": "x"}, "--format avro and --avro-schema"),
        ({"format": "raw", "on_error": "reject"}, "--on-error reject is for records of json"),
        ({"options": {"multiLine": "true"}}, "--option multiLine is for files"),
        ({"format": "raw", "options": {"sep": ";"}}, "raw records have no options"),
    ],
)
def test_what_does_not_go_with_records_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.BadArgument, match=said):
        load_of(**changes)


@pytest.mark.parametrize("wrong", [b"\x02\x00\x00", b"\x02", b"", b"\x02\x09"])
def test_a_value_that_is_not_one_of_the_avro_schema_is_named(tmp_path: Path, wrong: bytes) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(AVRO_SCHEMA))
    load = load_of(format="avro", avro_schema_file=str(schema))
    right = record(b"\x02\x00", 3)
    spooled(tmp_path, load, right, right).check_avro()
    spool = spooled(tmp_path, load, right, record(wrong, 5), right)
    with pytest.raises(errors.BadSource, match="orders: partition 1, offset 5 is not a value of"):
        spool.check_avro()


@pytest.mark.parametrize("text", ["{", '"long"', '{"type": "record", "name": "r"}', None])
def test_a_schema_of_avro_that_cannot_be_used_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "schema.avsc"
    if text is not None:
        path.write_text(text)
    load = load_of(format="avro", avro_schema_file=str(path))
    assert isinstance(load.relation, settings.KafkaSource)
    with pytest.raises(errors.BadArgument, match="schema"):
        spooling.check(load.relation)
