"""rule: encodes manifests and manifest lists, v1 to v3, as the specification defines them.

Source: Iceberg spec, Manifests, Manifest Lists, First Row ID Assignment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from catalog import avro, datatypes, manifests, transforms, values

Json = dict[str, Any]

BLOCK_SIZE_DEFAULT: Final = 64 * 1024 * 1024
"""v1 requires a block size on every file, which no reader uses."""


def partition_types(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the type of each partition field's values. A dropped source has type unknown."""
    columns = datatypes.columns(schema) if spec["fields"] else {}
    types = []
    for field in spec["fields"]:
        source_id = field["source-id"] if "source-id" in field else field["source-ids"][0]
        source = columns.get(source_id)
        types.append(
            transforms.result_type(
                transforms.parse(field["transform"]), "unknown" if source is None else source.type
            )
        )
    return tuple(types)


def encode_manifest(
    entries: Sequence[manifests.ManifestEntry],
    *,
    path: str,
    schema: Mapping[str, Any],
    spec: Mapping[str, Any],
    format_version: int,
    content: manifests.ManifestContent,
    snapshot_id: int,
    sync: bytes,
) -> tuple[bytes, manifests.ManifestFile]:
    """Return a manifest's bytes, and its entry for a manifest list.

    entries: added ones with sequence numbers None inherit them; all others must have theirs.
    path: of the manifest. schema, spec: decoded JSON with their ids; every file's partition fits
    the spec. sync: 16 bytes that do not occur by chance (a fresh id).
    """
    types = partition_types(spec, schema)
    for entry in entries:
        _check_entry(entry, content, types)
    metadata = {
        "schema": msgspec.json.encode(schema).decode(),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": msgspec.json.encode(spec["fields"]).decode(),
        "partition-spec-id": str(spec["spec-id"]),
        "format-version": str(format_version),
        "content": "deletes" if content == manifests.ManifestContent.DELETES else "data",
    }
    partition_names = _partition_names(spec)
    try:
        data = avro.encode_file(
            _entry_schema(spec, types, partition_names, format_version),
            [_entry_record(entry, partition_names, snapshot_id) for entry in entries],
            metadata,
            sync=sync,
        )
    except (avro.InvalidAvro, values.InvalidValue, OverflowError) as error:
        raise manifests.InvalidManifest(f"cannot write the manifest: {error}") from error
    file = _summarise(
        entries,
        path=path,
        length=len(data),
        spec_id=spec["spec-id"],
        types=types,
        content=content,
        snapshot_id=snapshot_id,
    )
    return data, file


def _check_entry(
    entry: manifests.ManifestEntry, content: manifests.ManifestContent, types: Sequence[Any]
) -> None:
    file = entry.data_file
    is_data = file.content == manifests.Content.DATA
    assert is_data == (content == manifests.ManifestContent.DATA), (
        "a manifest has either data or deletes"
    )
    assert len(file.partition) == len(types), "a file's partition fits its manifest's spec"
    assert entry.status == manifests.Status.ADDED or entry.sequence_number is not None
    assert is_data or file.first_row_id is None, "delete files have no row ids"
    if file.is_deletion_vector:
        assert file.referenced_data_file is not None
        assert file.content_offset is not None
        assert file.content_size_in_bytes is not None


def _entry_record(
    entry: manifests.ManifestEntry, partition_names: Sequence[str], snapshot_id: int
) -> Mapping[str, Any]:
    file = entry.data_file
    metrics = file.metrics
    return {
        "status": int(entry.status),
        "snapshot_id": snapshot_id if entry.snapshot_id is None else entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": {
            "content": int(file.content),
            "file_path": file.file_path,
            "file_format": file.file_format,
            "partition": dict(zip(partition_names, file.partition, strict=True)),
            "record_count": file.record_count,
            "file_size_in_bytes": file.file_size_in_bytes,
            "block_size_in_bytes": BLOCK_SIZE_DEFAULT,
            "column_sizes": metrics.column_sizes,
            "value_counts": metrics.value_counts,
            "null_value_counts": metrics.null_value_counts,
            "nan_value_counts": metrics.nan_value_counts,
            "lower_bounds": metrics.lower_bounds,
            "upper_bounds": metrics.upper_bounds,
            "key_metadata": file.key_metadata,
            "split_offsets": file.split_offsets,
            "equality_ids": file.equality_ids,
            "sort_order_id": file.sort_order_id,
            "first_row_id": file.first_row_id,
            "referenced_data_file": file.referenced_data_file,
            "content_offset": file.content_offset,
            "content_size_in_bytes": file.content_size_in_bytes,
        },
    }


def _summarise(
    entries: Sequence[manifests.ManifestEntry],
    *,
    path: str,
    length: int,
    spec_id: int,
    types: Sequence[Any],
    content: manifests.ManifestContent,
    snapshot_id: int,
) -> manifests.ManifestFile:
    files = dict.fromkeys(manifests.Status, 0)
    rows = dict.fromkeys(manifests.Status, 0)
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    sequence_numbers = [
        entry.sequence_number
        for entry in entries
        if entry.is_live and entry.sequence_number is not None
    ]
    return manifests.ManifestFile(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=spec_id,
        content=content,
        sequence_number=manifests.UNASSIGNED,
        # an entry that inherits the commit's number is newer than all that have one
        min_sequence_number=min(sequence_numbers) if sequence_numbers else manifests.UNASSIGNED,
        added_snapshot_id=snapshot_id,
        added_files_count=files[manifests.Status.ADDED],
        existing_files_count=files[manifests.Status.EXISTING],
        deleted_files_count=files[manifests.Status.DELETED],
        added_rows_count=rows[manifests.Status.ADDED],
        existing_rows_count=rows[manifests.Status.EXISTING],
        deleted_rows_count=rows[manifests.Status.DELETED],
        partitions=partition_summaries(types, [entry.data_file.partition for entry in entries]),
        unassigned_rows=sum(
            entry.data_file.record_count
            for entry in entries
            if entry.is_live and entry.data_file.first_row_id is None
        ),
    )


def partition_summaries(
    types: Sequence[Any], partitions: Sequence[tuple[Any, ...]]
) -> tuple[manifests.FieldSummary, ...]:
    """Return a manifest list's summary of these values for each partition field."""
    summaries = []
    for position, type_ in enumerate(types):
        field_values = [partition[position] for partition in partitions]
        is_float = datatypes.name_of(type_) in ("float", "double")
        nan = [
            value for value in field_values if is_float and value is not None and math.isnan(value)
        ]
        rest = [
            value
            for value in field_values
            if value is not None and not (is_float and math.isnan(value))
        ]
        key = _total_order if is_float else None
        summaries.append(
            manifests.FieldSummary(
                contains_null=any(value is None for value in field_values),
                contains_nan=bool(nan) if is_float else None,
                lower_bound=values.to_bytes(type_, min(rest, key=key)) if rest else None,
                upper_bound=values.to_bytes(type_, max(rest, key=key)) if rest else None,
            )
        )
    return tuple(summaries)


def _total_order(value: float) -> tuple[float, float]:
    """Order -0.0 before 0.0 in bounds."""
    return value, math.copysign(1.0, value)


def encode_manifest_list(
    files: Sequence[manifests.ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    sync: bytes,
) -> tuple[bytes, int]:
    """Return a manifest list's bytes, and the number of row ids that it assigns.

    New manifests (sequence number UNASSIGNED) get this commit's sequence number. In v3 every data
    manifest without a first row id gets one, starting at first_row_id.
    manifest without a first row id gets one, from first_row_id on.
    """
    next_row_id = first_row_id or 0
    records = []
    for manifest in files:
        row_id = manifest.first_row_id
        if (
            format_version >= 3
            and row_id is None
            and manifest.content == manifests.ManifestContent.DATA
        ):
            row_id = next_row_id
            next_row_id += _rows_to_assign(manifest)
        records.append(_list_record(manifest, sequence_number, row_id))
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "sequence-number": str(sequence_number),
        "format-version": str(format_version),
    }
    if format_version >= 3:
        metadata["first-row-id"] = str(first_row_id)
    data = avro.encode_file(_list_schema(format_version), records, metadata, sync=sync)
    return data, next_row_id - (first_row_id or 0)


def _rows_to_assign(manifest: manifests.ManifestFile) -> int:
    if manifest.unassigned_rows is not None:
        return manifest.unassigned_rows
    if manifest.added_rows_count is None or manifest.existing_rows_count is None:
        raise manifests.InvalidManifest(f"{manifest.manifest_path} has no row count")
    return manifest.added_rows_count + manifest.existing_rows_count


def _list_record(
    manifest: manifests.ManifestFile, sequence_number: int, first_row_id: int | None
) -> Mapping[str, Any]:
    is_new = manifest.sequence_number == manifests.UNASSIGNED
    oldest = manifest.min_sequence_number
    partitions = None
    if manifest.partitions is not None:
        partitions = [
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": summary.lower_bound,
                "upper_bound": summary.upper_bound,
            }
            for summary in manifest.partitions
        ]
    return {
        "manifest_path": manifest.manifest_path,
        "manifest_length": manifest.manifest_length,
        "partition_spec_id": manifest.partition_spec_id,
        "content": int(manifest.content),
        "sequence_number": sequence_number if is_new else manifest.sequence_number,
        "min_sequence_number": sequence_number if oldest == manifests.UNASSIGNED else oldest,
        "added_snapshot_id": manifest.added_snapshot_id,
        "added_files_count": manifest.added_files_count,
        "existing_files_count": manifest.existing_files_count,
        "deleted_files_count": manifest.deleted_files_count,
        "added_rows_count": manifest.added_rows_count,
        "existing_rows_count": manifest.existing_rows_count,
        "deleted_rows_count": manifest.deleted_rows_count,
        "partitions": partitions,
        "key_metadata": manifest.key_metadata,
        "first_row_id": first_row_id,
    }


# --- Avro schemas -------------------------------------------------------------------------------


def _required(name: str, field_id: int, type_: Any) -> Json:
    return {"name": name, "type": type_, "field-id": field_id}


def _optional(name: str, field_id: int, type_: Any) -> Json:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": field_id}


def _map(key_id: int, value_id: int, value: str) -> Json:
    return {
        "type": "array",
        "logicalType": "map",
        "items": {
            "type": "record",
            "name": f"k{key_id}_v{value_id}",
            "fields": [_required("key", key_id, "int"), _required("value", value_id, value)],
        },
    }


def _list(element_id: int, element: str) -> Json:
    return {"type": "array", "items": element, "element-id": element_id}


def _entry_schema(
    spec: Mapping[str, Any], types: Sequence[Any], names: Sequence[str], format_version: int
) -> Json:
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [
            _partition_field(name, field, type_)
            for name, field, type_ in zip(names, spec["fields"], types, strict=True)
        ],
    }
    file_fields = [
        _required("file_path", 100, "string"),
        _required("file_format", 101, "string"),
        _required("partition", 102, partition),
        _required("record_count", 103, "long"),
        _required("file_size_in_bytes", 104, "long"),
        _optional("column_sizes", 108, _map(117, 118, "long")),
        _optional("value_counts", 109, _map(119, 120, "long")),
        _optional("null_value_counts", 110, _map(121, 122, "long")),
        _optional("nan_value_counts", 137, _map(138, 139, "long")),
        _optional("lower_bounds", 125, _map(126, 127, "bytes")),
        _optional("upper_bounds", 128, _map(129, 130, "bytes")),
        _optional("key_metadata", 131, "bytes"),
        _optional("split_offsets", 132, _list(133, "long")),
    ]
    if format_version == 1:
        file_fields.insert(5, _required("block_size_in_bytes", 105, "long"))
        file_fields.append(_optional("sort_order_id", 140, "int"))
        entry_fields = [_required("status", 0, "int"), _required("snapshot_id", 1, "long")]
    else:
        file_fields.insert(0, _required("content", 134, "int"))
        file_fields.append(_optional("equality_ids", 135, _list(136, "int")))
        file_fields.append(_optional("sort_order_id", 140, "int"))
        entry_fields = [
            _required("status", 0, "int"),
            _optional("snapshot_id", 1, "long"),
            _optional("sequence_number", 3, "long"),
            _optional("file_sequence_number", 4, "long"),
        ]
    if format_version >= 3:
        file_fields.append(_optional("first_row_id", 142, "long"))
    if format_version >= 2:
        file_fields.append(_optional("referenced_data_file", 143, "string"))
    if format_version >= 3:
        file_fields.append(_optional("content_offset", 144, "long"))
        file_fields.append(_optional("content_size_in_bytes", 145, "long"))
    data_file = {"type": "record", "name": "r2", "fields": file_fields}
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [*entry_fields, _required("data_file", 2, data_file)],
    }


def _partition_field(name: str, field: Mapping[str, Any], type_: Any) -> Json:
    avro_field = _optional(name, field["field-id"], _avro_type(type_, field["field-id"]))
    if name != field["name"]:
        avro_field["iceberg-field-name"] = field["name"]
    return avro_field


def _avro_type(type_: Any, field_id: int) -> Any:
    type_name = datatypes.name_of(type_)
    if type_name in ("boolean", "int", "long", "float", "double", "string"):
        return type_name
    if type_name in _LOGICAL:
        return _LOGICAL[type_name]
    if type_name == "uuid":
        return {"type": "fixed", "name": f"uuid_{field_id}", "size": 16, "logicalType": "uuid"}
    if type_name == "fixed":
        size = datatypes.fixed_length(type_)
        return {"type": "fixed", "name": f"fixed_{field_id}_{size}", "size": size}
    if type_name == "decimal":
        precision, scale = datatypes.decimal_of(type_)
        return {
            "type": "fixed",
            "name": f"decimal_{field_id}_{precision}_{scale}",
            "size": _decimal_size(precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    if type_name == "unknown":
        return "int"  # a void field whose source was dropped: always null
    return "bytes"


_LOGICAL: Mapping[str, Json] = {
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}


def _decimal_size(precision: int) -> int:
    """Return the number of bytes for every number with this many digits, and its negative."""
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1


_NAME_START = re.compile(r"[A-Za-z_]")
_NAME_REST = re.compile(r"[^A-Za-z0-9_]")


def _partition_names(spec: Mapping[str, Any]) -> list[str]:
    """Return each partition field's name in a form that Avro allows."""
    return [_avro_name(field["name"]) for field in spec["fields"]]


def _avro_name(name: str) -> str:
    safe_name = _NAME_REST.sub(lambda match: f"_x{ord(match[0]):X}", name)
    if _NAME_START.match(name):
        return safe_name
    return f"_{safe_name}" if name[0].isdigit() and name[0].isascii() else safe_name


def _list_schema(format_version: int) -> Json:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _required("contains_null", 509, "boolean"),
            _optional("contains_nan", 518, "boolean"),
            _optional("lower_bound", 510, "bytes"),
            _optional("upper_bound", 511, "bytes"),
        ],
    }
    fields = [
        _required("manifest_path", 500, "string"),
        _required("manifest_length", 501, "long"),
        _required("partition_spec_id", 502, "int"),
    ]
    counts = [
        ("added_files_count", 504, "int"),
        ("existing_files_count", 505, "int"),
        ("deleted_files_count", 506, "int"),
        ("added_rows_count", 512, "long"),
        ("existing_rows_count", 513, "long"),
        ("deleted_rows_count", 514, "long"),
    ]
    if format_version == 1:
        fields.append(_required("added_snapshot_id", 503, "long"))
        fields += [_optional(name, field_id, type_) for name, field_id, type_ in counts]
    else:
        fields += [
            _required("content", 517, "int"),
            _required("sequence_number", 515, "long"),
            _required("min_sequence_number", 516, "long"),
            _required("added_snapshot_id", 503, "long"),
        ]
        fields += [_required(name, field_id, type_) for name, field_id, type_ in counts]
    partitions = {"type": "array", "items": summary, "element-id": 508}
    fields += [_optional("partitions", 507, partitions), _optional("key_metadata", 519, "bytes")]
    if format_version >= 3:
        fields.append(_optional("first_row_id", 520, "long"))
    return {"type": "record", "name": "manifest_file", "fields": fields}
