"""Manifests and manifest lists: ours read by PyIceberg, PyIceberg's read by us, v1 to v3."""

from __future__ import annotations

import decimal
import io
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from pyiceberg import manifest as pyiceberg_manifest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from catalog import manifest_encoding, manifests
from catalog.manifests import (
    Content,
    DataFile,
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Metrics,
    Status,
)

SYNC = bytes(range(16))
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 3,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "day", "required": False, "type": "date"},
        {"id": 4, "name": "price", "required": False, "type": "decimal(9, 2)"},
        {"id": 5, "name": "ratio", "required": False, "type": "double"},
        {"id": 6, "name": "at", "required": False, "type": "timestamptz"},
        {"id": 7, "name": "key", "required": False, "type": "uuid"},
        {"id": 8, "name": "code", "required": False, "type": "fixed[3]"},
    ],
}
SPEC: dict[str, Any] = {
    "spec-id": 2,
    "fields": [
        {"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"},
        {"source-id": 3, "field-id": 1001, "name": "day_month", "transform": "month"},
        {"source-id": 4, "field-id": 1002, "name": "price", "transform": "identity"},
        {"source-id": 5, "field-id": 1003, "name": "ratio", "transform": "identity"},
        {"source-id": 1, "field-id": 1004, "name": "id_bucket", "transform": "bucket[8]"},
    ],
}
PARTITION = ("a", 574, decimal.Decimal("-10.50"), 1.9, 3)
METRICS = Metrics(
    column_sizes={1: 100, 2: 2**40},
    value_counts={1: 10, 2: 10},
    null_value_counts={1: 0, 2: 3},
    nan_value_counts={},
    lower_bounds={1: struct.pack("<q", -5), 2: b"a"},
    upper_bounds={1: struct.pack("<q", 2**62), 2: "é".encode()},
)


def data_file(number: int = 1, **more: Any) -> DataFile:
    fields: dict[str, Any] = {
        "file_path": f"s3://lake/ns/t/data/{number}.parquet",
        "file_format": "PARQUET",
        "record_count": 10 * number,
        "file_size_in_bytes": 1_000 + number,
        "spec_id": 2,
        "partition": PARTITION,
        "metrics": METRICS,
        "split_offsets": (4, 500),
        "sort_order_id": 0,
    }
    return DataFile(**{**fields, **more})


def added(file: DataFile) -> ManifestEntry:
    return ManifestEntry(
        status=Status.ADDED,
        snapshot_id=77,
        sequence_number=None,
        file_sequence_number=None,
        data_file=file,
    )


def existing(file: DataFile, sequence_number: int = 4, status: Status = Status.EXISTING) -> Any:
    return ManifestEntry(
        status=status,
        snapshot_id=70,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
        data_file=file,
    )


def encode(
    entries: list[ManifestEntry],
    *,
    version: int = 2,
    content: ManifestContent = ManifestContent.DATA,
    spec: dict[str, Any] = SPEC,
    schema: dict[str, Any] = SCHEMA,
    path: str = "s3://lake/ns/t/metadata/m.avro",
) -> tuple[bytes, ManifestFile]:
    return manifest_encoding.encode_manifest(
        entries,
        path=path,
        schema=schema,
        spec=spec,
        format_version=version,
        content=content,
        snapshot_id=77,
        sync=SYNC,
    )


def encode_list(files: list[ManifestFile], *, version: int = 2, **more: Any) -> tuple[bytes, int]:
    options: dict[str, Any] = {
        "format_version": version,
        "snapshot_id": 77,
        "parent_snapshot_id": 70,
        "sequence_number": 9,
        "sync": SYNC,
    }
    return manifest_encoding.encode_manifest_list(files, **{**options, **more})


def without_v3(file: DataFile, version: int) -> DataFile:
    return file if version >= 3 else msgspec.structs.replace(file, first_row_id=None)


# --- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_encode_manifest_then_decode_gives_the_entries(version: int) -> None:
    entries = [
        added(data_file(1)),
        existing(without_v3(data_file(2, first_row_id=500), version)),
        existing(without_v3(data_file(3, first_row_id=600), version), status=Status.DELETED),
        added(data_file(4, partition=(None,) * 5, metrics=Metrics(), split_offsets=None)),
    ]
    data, _ = encode(entries, version=version)
    assert manifests.decode_manifest(data) == entries


def test_encode_manifest_v1_keeps_what_v1_knows() -> None:
    data, file = encode([added(data_file(1))], version=1)
    (entry,) = manifests.decode_manifest(data)
    assert entry == added(data_file(1))
    (record,) = list(fastavro.reader(io.BytesIO(data)))
    assert record["data_file"]["block_size_in_bytes"] == 64 * 1024 * 1024
    assert "content" not in record["data_file"]
    assert "sequence_number" not in record
    data, _ = encode_list([file], version=1, sequence_number=0)
    (read,) = manifests.decode_manifest_list(data)
    assert (read.sequence_number, read.min_sequence_number) == (0, 0)
    assert manifests.inherit([entry], read)[0].sequence_number == 0


def test_encode_manifest_of_deletes_keeps_all_three_kinds() -> None:
    position = data_file(
        1,
        content=Content.POSITION_DELETES,
        referenced_data_file="s3://lake/ns/t/data/7.parquet",
        sort_order_id=None,
    )
    equality = data_file(2, content=Content.EQUALITY_DELETES, equality_ids=(1, 2))
    vector = data_file(
        3,
        content=Content.POSITION_DELETES,
        file_format="PUFFIN",
        referenced_data_file="s3://lake/ns/t/data/8.parquet",
        content_offset=4,
        content_size_in_bytes=44,
        split_offsets=None,
    )
    entries = [added(equality), added(vector), existing(position)]
    data, file = encode(entries, version=3, content=ManifestContent.DELETES)
    assert manifests.decode_manifest(data) == entries
    assert manifests.decode_header(data).content == ManifestContent.DELETES
    assert file.content == ManifestContent.DELETES
    assert vector.is_deletion_vector
    assert not position.is_deletion_vector
    data, row_ids = encode_list([file], version=3, first_row_id=100)
    (listed,) = manifests.decode_manifest_list(data)
    assert (listed.first_row_id, row_ids) == (None, 0)


def test_encode_manifest_header_says_what_the_specification_wants() -> None:
    data, _ = encode([added(data_file(1))])
    header = dict(fastavro.reader(io.BytesIO(data)).metadata)
    assert json.loads(header["schema"]) == SCHEMA
    assert json.loads(header["partition-spec"]) == SPEC["fields"]
    assert {
        name: header[name]
        for name in ("schema-id", "partition-spec-id", "format-version", "content")
    } == {"schema-id": "3", "partition-spec-id": "2", "format-version": "2", "content": "data"}
    decoded = manifests.decode_header(data)
    assert (decoded.format_version, decoded.partition_spec_id) == (2, 2)
    assert decoded.partition_fields == SPEC["fields"]


def test_encode_manifest_counts_files_and_rows_and_summarises_partitions() -> None:
    entries = [
        added(data_file(1, partition=("b", 5, None, float("nan"), 1))),
        added(data_file(2, partition=("a", None, decimal.Decimal("2.00"), -0.0, 1))),
        existing(data_file(3, partition=("é", -7, decimal.Decimal("-3.00"), 0.0, 7))),
        existing(data_file(4, partition=("c", 5, None, None, 2)), 3, Status.DELETED),
    ]
    data, file = encode(entries)
    assert file == ManifestFile(
        manifest_path="s3://lake/ns/t/metadata/m.avro",
        manifest_length=len(data),
        partition_spec_id=2,
        sequence_number=manifests.UNASSIGNED,
        min_sequence_number=4,
        added_snapshot_id=77,
        added_files_count=2,
        existing_files_count=1,
        deleted_files_count=1,
        added_rows_count=30,
        existing_rows_count=30,
        deleted_rows_count=40,
        partitions=(
            FieldSummary(contains_null=False, lower_bound=b"a", upper_bound="é".encode()),
            FieldSummary(
                contains_null=True,
                lower_bound=struct.pack("<i", -7),
                upper_bound=struct.pack("<i", 5),
            ),
            FieldSummary(
                contains_null=True,
                lower_bound=(-300).to_bytes(2, "big", signed=True),
                upper_bound=(200).to_bytes(2, "big", signed=True),
            ),
            FieldSummary(
                contains_null=True,
                contains_nan=True,
                lower_bound=struct.pack("<d", -0.0),
                upper_bound=struct.pack("<d", 0.0),
            ),
            FieldSummary(
                contains_null=False,
                lower_bound=struct.pack("<i", 1),
                upper_bound=struct.pack("<i", 7),
            ),
        ),
        unassigned_rows=60,
    )


def test_encode_manifest_list_then_decode_gives_the_manifests() -> None:
    _, new = encode([added(data_file(1))])
    old = msgspec.structs.replace(
        new, sequence_number=5, min_sequence_number=2, manifest_path="s3://lake/old.avro"
    )
    data, row_ids = encode_list([new, old])
    assert row_ids == 0
    assert manifests.decode_manifest_list(data) == [
        msgspec.structs.replace(
            new, sequence_number=9, min_sequence_number=9, unassigned_rows=None
        ),
        msgspec.structs.replace(old, unassigned_rows=None),
    ]
    header = dict(fastavro.reader(io.BytesIO(data)).metadata)
    assert {
        name: header[name]
        for name in ("snapshot-id", "parent-snapshot-id", "sequence-number", "format-version")
    } == {
        "snapshot-id": "77",
        "parent-snapshot-id": "70",
        "sequence-number": "9",
        "format-version": "2",
    }


def test_encode_manifest_list_v3_hands_out_row_ids_as_the_specifications_example_does() -> None:
    def listed(name: str, new: int, old: int, first: int | None = None) -> ManifestFile:
        return ManifestFile(
            manifest_path=name,
            manifest_length=1,
            partition_spec_id=0,
            sequence_number=1,
            added_rows_count=new,
            existing_rows_count=old,
            added_files_count=1,
            existing_files_count=1,
            deleted_files_count=0,
            deleted_rows_count=0,
            added_snapshot_id=1,
            first_row_id=first,
        )

    data, row_ids = encode_list(
        [
            listed("existing", 75, 0, 925),
            listed("added1", 100, 25),
            listed("added2", 0, 100),
            listed("added3", 125, 25),
        ],
        version=3,
        first_row_id=1_000,
    )
    read = manifests.decode_manifest_list(data)
    assert [one.first_row_id for one in read] == [925, 1_000, 1_125, 1_225]
    assert row_ids == 375


# --- inheritance --------------------------------------------------------------------------------


def test_inherit_gives_added_files_the_manifests_numbers() -> None:
    manifest = ManifestFile(
        manifest_path="m",
        manifest_length=1,
        partition_spec_id=2,
        sequence_number=9,
        added_snapshot_id=77,
    )
    bare = msgspec.structs.replace(added(data_file(1)), snapshot_id=None)
    own = msgspec.structs.replace(added(data_file(2)), sequence_number=3)
    first, second, third = manifests.inherit([bare, own, existing(data_file(3))], manifest)
    assert (first.snapshot_id, first.sequence_number, first.file_sequence_number) == (77, 9, 9)
    assert (second.sequence_number, second.file_sequence_number) == (3, 9)
    assert third == existing(data_file(3))


def test_inherit_gives_row_ids_as_the_specifications_example_does() -> None:
    manifest = ManifestFile(
        manifest_path="m",
        manifest_length=1,
        partition_spec_id=2,
        sequence_number=9,
        first_row_id=1_000,
    )
    entries = [
        existing(data_file(1, record_count=25, first_row_id=800)),
        added(data_file(2, record_count=50)),
        existing(data_file(5, record_count=7), status=Status.DELETED),
        added(data_file(3, record_count=50)),
        existing(data_file(4, record_count=10)),
    ]
    inherited = manifests.inherit(entries, manifest)
    assert [one.data_file.first_row_id for one in inherited] == [800, 1_000, None, 1_050, 1_100]


def test_inherit_gives_delete_files_no_row_ids() -> None:
    manifest = ManifestFile(
        manifest_path="m",
        manifest_length=1,
        partition_spec_id=2,
        content=ManifestContent.DELETES,
        sequence_number=9,
        first_row_id=1_000,
    )
    entry = added(data_file(1, content=Content.EQUALITY_DELETES, equality_ids=(1,)))
    assert manifests.inherit([entry], manifest)[0].data_file.first_row_id is None


# --- between processes --------------------------------------------------------------------------


def test_packed_entries_unpack_to_the_same() -> None:
    entries = [
        added(data_file(1, key_metadata=b"\x00k", first_row_id=3)),
        existing(data_file(2, partition=(None, None, None, None, None))),
        existing(data_file(3, partition=("x", 1, decimal.Decimal("0.10"), float("inf"), 0))),
    ]
    unpacked = manifests.unpack_entries(manifests.pack_entries(entries))
    assert unpacked == entries
    assert unpacked[0].data_file.metrics.upper_bounds == METRICS.upper_bounds
    assert manifests.pack_entries(unpacked) == manifests.pack_entries(entries)


# --- PyIceberg ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_we_write(version: int, tmp_path: Path) -> None:
    if version == 1:
        entries = [added(data_file(1)), added(data_file(2))]
    else:
        entries = [added(data_file(1)), existing(data_file(2)), added(data_file(3))]
    data, file = encode(entries, version=version, path=f"file://{tmp_path}/m.avro")
    (tmp_path / "m.avro").write_bytes(data)
    listed, _ = encode_list(
        [file],
        version=version,
        first_row_id=0 if version >= 3 else None,
        sequence_number=0 if version == 1 else 9,
    )
    (tmp_path / "l.avro").write_bytes(listed)
    io_ = PyArrowFileIO()
    (read,) = pyiceberg_manifest.read_manifest_list(io_.new_input(f"file://{tmp_path}/l.avro"))
    assert read.manifest_length == len(data)
    assert read.added_files_count == sum(one.status == Status.ADDED for one in entries)
    assert read.partitions is not None
    assert read.partitions[0].lower_bound == b"a"
    read_entries = read.fetch_manifest_entry(io_)
    assert [one.data_file.file_path for one in read_entries] == [
        one.data_file.file_path for one in entries
    ]
    theirs, ours = read_entries[0].data_file, entries[0].data_file
    assert theirs.file_format.value == "PARQUET"
    assert theirs.record_count == ours.record_count
    assert theirs.column_sizes == METRICS.column_sizes
    assert theirs.null_value_counts == METRICS.null_value_counts
    assert theirs.lower_bounds == METRICS.lower_bounds
    assert theirs.upper_bounds == METRICS.upper_bounds
    assert theirs.split_offsets == [4, 500]
    assert [theirs.partition[place] for place in (0, 1, 2, 4)] == ["a", 574, PARTITION[2], 3]
    assert read_entries[0].sequence_number == (0 if version == 1 else 9)
    assert read_entries[0].snapshot_id == 77


@pytest.mark.parametrize("version", [1, 2])
def test_we_read_what_pyiceberg_writes(version: int, tmp_path: Path) -> None:
    schema = Schema.model_validate(SCHEMA)
    spec = PartitionSpec.model_validate(SPEC)
    io_ = PyArrowFileIO()
    file = pyiceberg_manifest.DataFile.from_args(
        content=pyiceberg_manifest.DataFileContent.DATA,
        file_path="s3://lake/ns/t/data/1.parquet",
        file_format=pyiceberg_manifest.FileFormat.PARQUET,
        partition=Record(*PARTITION),
        record_count=10,
        file_size_in_bytes=1_001,
        column_sizes=METRICS.column_sizes,
        value_counts=METRICS.value_counts,
        null_value_counts=METRICS.null_value_counts,
        nan_value_counts=METRICS.nan_value_counts,
        lower_bounds=METRICS.lower_bounds,
        upper_bounds=METRICS.upper_bounds,
        split_offsets=[4, 500],
        sort_order_id=0,
    )
    path = f"file://{tmp_path}/m.avro"
    with pyiceberg_manifest.write_manifest(
        version, spec, schema, io_.new_output(path), 77, "deflate"
    ) as writer:
        writer.add_entry(
            pyiceberg_manifest.ManifestEntry.from_args(
                status=pyiceberg_manifest.ManifestEntryStatus.ADDED, snapshot_id=77, data_file=file
            )
        )
    with pyiceberg_manifest.write_manifest_list(
        version, io_.new_output(f"file://{tmp_path}/l.avro"), 77, 70, 9, "deflate"
    ) as lister:
        lister.add_manifests([writer.to_manifest_file()])
    (listed,) = manifests.decode_manifest_list((tmp_path / "l.avro").read_bytes())
    assert listed.manifest_path == path
    assert (listed.added_files_count, listed.added_rows_count) == (1, 10)
    assert listed.partition_spec_id == 2
    (entry,) = manifests.decode_manifest((tmp_path / "m.avro").read_bytes())
    (entry,) = manifests.inherit([entry], listed)
    assert entry.data_file == data_file(1)
    assert entry.snapshot_id == 77
    assert entry.sequence_number == (0 if version == 1 else 9)


# --- other writers ------------------------------------------------------------------------------


def test_decode_manifest_list_takes_names_where_there_are_no_field_ids() -> None:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string"},
            {"name": "manifest_length", "type": "long"},
            {"name": "partition_spec_id", "type": "int"},
            {"name": "added_data_files_count", "type": ["null", "int"]},
            {"name": "unheard_of", "type": "string"},
        ],
    }
    buffer = io.BytesIO()
    fastavro.writer(
        buffer,
        schema,
        [
            {
                "manifest_path": "m",
                "manifest_length": 5,
                "partition_spec_id": 1,
                "added_data_files_count": 3,
                "unheard_of": "x",
            }
        ],
    )
    assert manifests.decode_manifest_list(buffer.getvalue()) == [
        ManifestFile(manifest_path="m", manifest_length=5, partition_spec_id=1, added_files_count=3)
    ]


def test_partition_fields_with_names_avro_forbids_are_written_and_read() -> None:
    spec = {
        "spec-id": 0,
        "fields": [
            {"source-id": 2, "field-id": 1000, "name": "1st day/é", "transform": "identity"}
        ],
    }
    file = data_file(1, spec_id=0, partition=("v",))
    data, _ = encode([added(file)], spec=spec)
    assert manifests.decode_manifest(data)[0].data_file.partition == ("v",)
    schema = fastavro.reader(io.BytesIO(data)).writer_schema
    (data_file_type,) = [f["type"] for f in schema["fields"] if f["name"] == "data_file"]
    (partition,) = [f["type"] for f in data_file_type["fields"] if f["name"] == "partition"]
    (field,) = partition["fields"]
    assert (field["name"], field["iceberg-field-name"]) == ("_1st_x20day_x2F_xE9", "1st day/é")


def with_header_spec(data: bytes, fields: Any) -> bytes:
    """A manifest again, whose header has a spec of these fields."""
    return with_header_text(data, json.dumps(fields))


def with_header_text(data: bytes, text: str | None) -> bytes:
    reader = fastavro.reader(io.BytesIO(data))
    buffer = io.BytesIO()
    metadata = {"partition-spec-id": "2", "content": "data"}
    if text is not None:
        metadata["partition-spec"] = text
    fastavro.writer(buffer, reader.writer_schema, list(reader), metadata=metadata)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        # DuckDB 1.5 writes the fields of earlier specs, too, in the partitions of delete files.
        ([3], (1.9,)),
        ([1, 4], (574, 3)),
        ([4, 0], (3, "a")),
        ([0, 1, 2, 3, 4], PARTITION),
        ([], ()),
    ],
)
def test_a_partition_has_the_fields_of_its_spec_by_their_ids(
    chosen: list[int], expected: tuple[Any, ...]
) -> None:
    data, _ = encode([added(data_file(1)), added(data_file(2))])
    data = with_header_spec(data, [SPEC["fields"][index] for index in chosen])
    for entry in manifests.decode_manifest(data):
        assert entry.data_file.partition == expected


@pytest.mark.parametrize(
    "fields",
    [
        [{"source-id": 1, "name": "id", "transform": "identity"}],
        [{"source-id": 1, "field-id": 2000, "name": "other", "transform": "identity"}],
        [{"field-id": [1000]}],
        [{"field-id": 1000}] * 100_000,
        {"spec-id": 2, "fields": SPEC["fields"]},
    ],
    ids=["without an id", "not written", "no number", "very many", "a whole spec"],
)
def test_a_partition_whose_header_does_not_name_its_fields_is_read_as_written(fields: Any) -> None:
    data, _ = encode([added(data_file(1))])
    (entry,) = manifests.decode_manifest(with_header_spec(data, fields))
    assert entry.data_file.partition == PARTITION


def test_a_header_of_pyiceberg_before_0_7_names_the_fields_of_its_spec() -> None:
    data, _ = encode([added(data_file(1))])
    spec = {"spec-id": 2, "fields": [SPEC["fields"][3]]}
    (entry,) = manifests.decode_manifest(with_header_spec(data, spec))
    assert entry.data_file.partition == (1.9,)
    assert manifests.decode_header(with_header_spec(data, spec)).partition_fields == spec["fields"]


@pytest.mark.parametrize(
    "text",
    [None, "", "null", "[1000]", "{}", "garbage", "[" * 200_000, '[{"a":' + "[" * 200_000],
    ids=["none", "empty", "null", "numbers", "no fields", "no JSON", "deep", "deep in a field"],
)
def test_a_manifest_whose_header_has_no_spec_is_read_by_the_id_of_its_list(
    text: str | None,
) -> None:
    data, _ = encode([added(data_file(1))])
    written = with_header_text(data, text)
    (entry,) = manifests.decode_manifest(written, spec_id=2)
    assert (entry.data_file.partition, entry.data_file.spec_id) == (PARTITION, 2)
    if text:
        with pytest.raises(manifests.InvalidManifest, match="broken manifest header"):
            manifests.decode_manifest(written)


def test_a_partition_field_whose_source_is_gone_is_written_as_null() -> None:
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 99, "field-id": 1000, "name": "gone", "transform": "void"}],
    }
    data, _ = encode([added(data_file(1, spec_id=0, partition=(None,)))], spec=spec)
    assert manifests.decode_manifest(data)[0].data_file.partition == (None,)


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"PAR1", encode([added(data_file(1))])[0][:-20]])
def test_decode_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(manifests.InvalidManifest):
        manifests.decode_manifest(data)
    with pytest.raises(manifests.InvalidManifest):
        manifests.decode_manifest_list(data)


def test_decode_of_a_list_as_a_manifest_and_of_a_manifest_as_a_list_is_refused() -> None:
    data, file = encode([added(data_file(1))])
    with pytest.raises(manifests.InvalidManifest):
        manifests.decode_manifest_list(data)
    with pytest.raises(manifests.InvalidManifest):
        manifests.decode_manifest(encode_list([file])[0])


def test_encode_manifest_of_a_value_that_is_none_of_its_type_is_refused() -> None:
    wrong = ("a", 574, decimal.Decimal("1.005"), 1.9, 3)
    with pytest.raises(manifests.InvalidManifest, match="more than 2 digits"):
        encode([added(data_file(1, partition=wrong))])
