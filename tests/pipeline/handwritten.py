"""Snapshots whose manifests fastavro writes, in the forms of Trino and Flink.

Trino puts the position deletes of all data files of a partition into one file, and its manifest
names no data file. Flink writes equality deletes, of a partition or of the whole table.
"""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import refs, snapshots, update

FIELD_ID = "PARQUET:field_id"
LONG = pa.field("id", pa.int64(), metadata={FIELD_ID: "1"})
TEXT = pa.field("name", pa.string(), metadata={FIELD_ID: "2"})
DELETED_PATH = pa.field("file_path", pa.string(), False, metadata={FIELD_ID: "2147483546"})
DELETED_AT = pa.field("pos", pa.int64(), False, metadata={FIELD_ID: "2147483545"})
DATA, POSITIONS, EQUALITY = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of a snapshot. partition: its value by the field's name, of the spec with this id."""

    uri: str
    content: int
    rows: int
    size_bytes: int
    spec_id: int = 0
    partition: Mapping[str, Any] = field(default_factory=dict)
    equality_ids: Sequence[int] | None = None


def put(s3: Any, table: Any, columns: Sequence[pa.Field], rows: Sequence[Any], **more: Any) -> File:
    """Store a Parquet file below the table. more: of File."""
    sink = io.BytesIO()
    arrays = [pa.array([row[at] for row in rows], one.type) for at, one in enumerate(columns)]
    pq.write_table(pa.table(arrays, schema=pa.schema(columns)), sink)
    uri = _store(s3, table, f"data/{uuid.uuid4().hex}.parquet", sink.getvalue())
    return File(uri=uri, rows=len(rows), size_bytes=len(sink.getvalue()), **more)


def commit(s3: Any, catalog: Any, table: Any, files: Sequence[File], partition: Any = ()) -> None:
    """Add files to a table of format 2 as one snapshot. partition: the Avro fields of the spec."""
    table = catalog.load_table(table.name())
    parent = table.current_snapshot()
    snapshot_id = uuid.uuid4().int >> 66
    number = table.metadata.last_sequence_number + 1
    manifests = []
    if parent is not None:
        with table.io.new_input(parent.manifest_list).open() as stream:
            manifests = list(fastavro.reader(io.BytesIO(stream.read())))
    groups: dict[tuple[int, bool], list[File]] = {}
    for file in files:
        groups.setdefault((file.spec_id, file.content != DATA), []).append(file)
    for (spec_id, is_deletes), group in groups.items():
        body = _manifest(table, group, spec_id, is_deletes, partition, snapshot_id)
        uri = _store(s3, table, f"metadata/{uuid.uuid4().hex}-m0.avro", body)
        rows = sum(file.rows for file in group)
        manifests.append(
            dict(zip(LIST_NAMES, (
                uri, len(body), spec_id, int(is_deletes), number, number, snapshot_id,
                len(group), 0, 0, rows, 0, 0,
            ), strict=True))
        )  # fmt: skip
    sink = io.BytesIO()
    fastavro.writer(sink, LIST, [{name: one[name] for name in LIST_NAMES} for one in manifests])
    uri = _store(s3, table, f"metadata/snap-{snapshot_id}-1-{uuid.uuid4()}.avro", sink.getvalue())
    snapshot = snapshots.Snapshot(
        **{
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": None if parent is None else parent.snapshot_id,
            "sequence-number": number,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": uri,
            "summary": snapshots.Summary(
                operation="append" if all(one.content == DATA for one in files) else "overwrite"
            ),
            "schema-id": 0,
        }
    )
    catalog.commit_table(
        table,
        (),
        (
            update.AddSnapshotUpdate(snapshot=snapshot),
            update.SetSnapshotRefUpdate(
                **{
                    "ref-name": "main",
                    "type": refs.SnapshotRefType.BRANCH,
                    "snapshot-id": snapshot_id,
                }
            ),
        ),
    )


def _store(s3: Any, table: Any, name: str, body: bytes) -> str:
    uri = f"{table.location()}/{name}"
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    return uri


def _manifest(
    table: Any,
    files: Sequence[File],
    spec_id: int,
    is_deletes: bool,
    partition: Any,
    snapshot_id: int,
) -> bytes:
    spec = table.specs()[spec_id]
    sink = io.BytesIO()
    entries = [
        {
            "status": 1,
            "snapshot_id": snapshot_id,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": {
                "content": file.content,
                "file_path": file.uri,
                "file_format": "PARQUET",
                "partition": dict(file.partition),
                "record_count": file.rows,
                "file_size_in_bytes": file.size_bytes,
                "equality_ids": file.equality_ids,
            },
        }
        for file in files
    ]
    fields = "[" + ",".join(one.model_dump_json() for one in spec.fields) + "]"
    fastavro.writer(
        sink,
        _entry(partition if spec.fields else ()),
        entries,
        metadata={
            "schema": table.schema().model_dump_json(),
            "schema-id": "0",
            "partition-spec": fields,
            "partition-spec-id": str(spec_id),
            "format-version": "2",
            "content": "deletes" if is_deletes else "data",
        },
    )
    return sink.getvalue()


def _field(name: str, field_id: int, avro_type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "field-id": field_id, "type": avro_type, **more}


def _entry(partition: Any) -> dict[str, Any]:
    ids = {"type": "array", "items": "int", "element-id": 136}
    data_file = {
        "type": "record",
        "name": "r2",
        "fields": [
            _field("content", 134, "int"),
            _field("file_path", 100, "string"),
            _field("file_format", 101, "string"),
            _field("partition", 102, {"type": "record", "name": "r102", "fields": list(partition)}),
            _field("record_count", 103, "long"),
            _field("file_size_in_bytes", 104, "long"),
            _field("equality_ids", 135, ["null", ids], default=None),
        ],
    }
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field("status", 0, "int"),
            _field("snapshot_id", 1, ["null", "long"], default=None),
            _field("sequence_number", 3, ["null", "long"], default=None),
            _field("file_sequence_number", 4, ["null", "long"], default=None),
            _field("data_file", 2, data_file),
        ],
    }


_LIST_FIELDS = (
    ("manifest_path", 500, "string"),
    ("manifest_length", 501, "long"),
    ("partition_spec_id", 502, "int"),
    ("content", 517, "int"),
    ("sequence_number", 515, "long"),
    ("min_sequence_number", 516, "long"),
    ("added_snapshot_id", 503, "long"),
    ("added_files_count", 504, "int"),
    ("existing_files_count", 505, "int"),
    ("deleted_files_count", 506, "int"),
    ("added_rows_count", 512, "long"),
    ("existing_rows_count", 513, "long"),
    ("deleted_rows_count", 514, "long"),
)
LIST_NAMES = tuple(name for name, _, _ in _LIST_FIELDS)
LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [_field(*one) for one in _LIST_FIELDS],
}
