"""rule: manifests and manifest lists, v1 to v3, as values, decoded by field id.

Fields that an entry omits (sequence numbers, snapshot id, first row id) are inherited from its
manifest's entry in the list: by `inherit`, not by decoding. Column metrics stay packed until they
are used, because they are most of a manifest's size and rarely used. `catalog.manifest_encoding`
writes manifests.
Source: Iceberg spec, Manifests, Manifest Lists, Sequence Number and First Row ID Inheritance.
"""

from __future__ import annotations

import decimal
import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import avro

Json = dict[str, Any]


class InvalidManifest(ValueError):
    """The bytes are not a manifest or manifest list, or use an unsupported feature."""


class BeyondBounds(InvalidManifest):
    """The bytes exceed the bounds of this decoder; another one may accept them."""


class DecoderDied(InvalidManifest):
    """Decoding the bytes has ended the decoding process twice; they may be valid."""


class Content(enum.IntEnum):
    """The content of a content file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestContent(enum.IntEnum):
    """The content of all files in a manifest."""

    DATA = 0
    DELETES = 1


class Status(enum.IntEnum):
    """The change of a file in the manifest's snapshot."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Metrics:
    """Column metrics of a content file, by field id. Immutable.

    None for a whole map, or no entry, means unknown. Bounds are bytes in single-value form. Metrics
    that were packed by another process stay so: unpacked, they take twenty times the memory.
    """

    __slots__ = ("_maps", "_packed")

    def __init__(
        self,
        *,
        column_sizes: Mapping[int, int] | None = None,
        value_counts: Mapping[int, int] | None = None,
        null_value_counts: Mapping[int, int] | None = None,
        nan_value_counts: Mapping[int, int] | None = None,
        lower_bounds: Mapping[int, bytes] | None = None,
        upper_bounds: Mapping[int, bytes] | None = None,
    ) -> None:
        self._packed: bytes | None = None
        self._maps: tuple[Any, ...] | None = (
            column_sizes,
            value_counts,
            null_value_counts,
            nan_value_counts,
            lower_bounds,
            upper_bounds,
        )

    @classmethod
    def unpacked_later(cls, packed: bytes) -> Metrics:
        """Return metrics from the result of `packed`."""
        metrics = cls()
        metrics._packed, metrics._maps = packed, None
        return metrics

    def packed(self) -> bytes:
        """Return the metrics as bytes for another process."""
        return msgspec.msgpack.encode(self.unpacked()) if self._packed is None else self._packed

    @property
    def packed_bytes(self) -> int:
        """How many bytes `unpacked` decodes: none if the maps are at hand."""
        return 0 if self._packed is None else len(self._packed)

    def unpacked(self) -> tuple[Any, ...]:
        """Return the six maps, in the order of the properties below."""
        if self._maps is not None:
            return self._maps
        assert self._packed is not None
        return _unpack_maps(self._packed)

    @property
    def column_sizes(self) -> Mapping[int, int] | None:
        sizes: Mapping[int, int] | None = self.unpacked()[0]
        return sizes

    @property
    def value_counts(self) -> Mapping[int, int] | None:
        counts: Mapping[int, int] | None = self.unpacked()[1]
        return counts

    @property
    def null_value_counts(self) -> Mapping[int, int] | None:
        counts: Mapping[int, int] | None = self.unpacked()[2]
        return counts

    @property
    def nan_value_counts(self) -> Mapping[int, int] | None:
        counts: Mapping[int, int] | None = self.unpacked()[3]
        return counts

    @property
    def lower_bounds(self) -> Mapping[int, bytes] | None:
        bounds: Mapping[int, bytes] | None = self.unpacked()[4]
        return bounds

    @property
    def upper_bounds(self) -> Mapping[int, bytes] | None:
        bounds: Mapping[int, bytes] | None = self.unpacked()[5]
        return bounds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metrics) and self.unpacked() == other.unpacked()

    def __hash__(self) -> int:
        return hash(Metrics)  # hashing maps is slow; files differ by their paths

    def __repr__(self) -> str:
        return f"Metrics{self.unpacked()}"


_unpack_maps = msgspec.msgpack.Decoder(
    tuple[
        dict[int, int] | None,
        dict[int, int] | None,
        dict[int, int] | None,
        dict[int, int] | None,
        dict[int, bytes] | None,
        dict[int, bytes] | None,
    ]
).decode

NO_METRICS: Final = Metrics()


class DataFile(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A data or delete file in a manifest.

    file_path: its URI. file_format: PARQUET, AVRO, ORC or PUFFIN. partition: plain values in the
    order of the spec's fields (see `values`). A deletion vector is a POSITION_DELETES file in
    PUFFIN: record_count is the number of rows it deletes, referenced_data_file their data file, and
    content_offset and content_size_in_bytes its part of the Puffin file.
    """

    file_path: str
    file_format: str
    record_count: int
    file_size_in_bytes: int
    content: Content = Content.DATA
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    metrics: Metrics = NO_METRICS
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def is_deletion_vector(self) -> bool:
        return self.content == Content.POSITION_DELETES and self.file_format == "PUFFIN"


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A file in a manifest. sequence_number: of its data; None until inherited."""

    status: Status
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        return self.status != Status.DELETED


class FieldSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """Bounds of one partition field's values in a manifest. Bounds are bytes."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


UNASSIGNED: Final = -1
"""A sequence number that the commit assigns."""


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A manifest in a manifest list. None as a count means unknown.

    unassigned_rows: for a manifest just written, the number of rows of its data files without row
    ids. It is stored in no file.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None
    unassigned_rows: int | None = None

    @property
    def has_live_files(self) -> bool:
        return self.added_files_count != 0 or self.existing_files_count != 0


# --- reading ------------------------------------------------------------------------------------

_ENTRY_IDS: Mapping[str, int] = {
    "status": 0,
    "snapshot_id": 1,
    "sequence_number": 3,
    "file_sequence_number": 4,
    "data_file": 2,
}
_FILE_IDS: Mapping[str, int] = {
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": 102,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "column_sizes": 108,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
    "key_metadata": 131,
    "split_offsets": 132,
    "equality_ids": 135,
    "sort_order_id": 140,
    "first_row_id": 142,
    "referenced_data_file": 143,
    "content_offset": 144,
    "content_size_in_bytes": 145,
}
_LIST_IDS: Mapping[str, int] = {
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "content": 517,
    "sequence_number": 515,
    "min_sequence_number": 516,
    "added_snapshot_id": 503,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_data_files_count": 504,  # the names before v2
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
    "deleted_rows_count": 514,
    "partitions": 507,
    "key_metadata": 519,
    "first_row_id": 520,
}
_SUMMARY_IDS: Mapping[str, int] = {
    "contains_null": 509,
    "contains_nan": 518,
    "lower_bound": 510,
    "upper_bound": 511,
}
_FORMATS: Mapping[str, str] = {
    spelled: name
    for name in ("PARQUET", "AVRO", "ORC", "PUFFIN")
    for spelled in (name, name.lower())
}
_CONTENTS = tuple(Content)
_STATUSES = tuple(Status)


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestHeader:
    """A manifest's own header. Its schema and spec are those at its writing."""

    format_version: int
    content: ManifestContent
    partition_spec_id: int
    partition_fields: Sequence[Json]


def decode_header(data: bytes) -> ManifestHeader:
    """Return a manifest's header. Raises InvalidManifest."""
    return _header_of(_open(data))


def decode_manifest(
    data: bytes,
    *,
    spec_id: int | None = None,
    isolated: bool = False,
    bounds: avro.Bounds = avro.ISOLATED,
) -> list[ManifestEntry]:
    """Return all entries of a manifest, deleted ones included, as written.

    spec_id: from the manifest list; otherwise the manifest's own header counts. isolated: a broken
    manifest may crash this process, so it is decoded faster. Raises InvalidManifest, BeyondBounds.
    """
    container = _open(data)
    own_spec_id = _header_of(container).partition_spec_id if spec_id is None else spec_id
    order = _partition_order(container)

    def make_file(fields: Mapping[int, Any]) -> DataFile:
        return _data_file(fields, own_spec_id, order)

    adapt = {
        "": avro.Adapter(make=_entry, ids=_ENTRY_IDS),
        "data_file": avro.Adapter(make=make_file, ids=_FILE_IDS),
    }
    return _records(container, adapt, bounds, isolated=isolated)


def decode_manifest_list(
    data: bytes, *, isolated: bool = False, bounds: avro.Bounds = avro.ISOLATED
) -> list[ManifestFile]:
    """Return the manifests of a snapshot. Raises InvalidManifest, BeyondBounds."""
    adapt = {
        "": avro.Adapter(make=_manifest_file, ids=_LIST_IDS),
        "partitions": avro.Adapter(make=_summary, ids=_SUMMARY_IDS),
    }
    return _records(_open(data), adapt, bounds, isolated=isolated)


def _open(data: bytes) -> avro.Container:
    try:
        return avro.Container(data)
    except avro.InvalidAvro as error:
        raise InvalidManifest(str(error)) from error


def _records(
    container: avro.Container,
    adapt: Mapping[str, avro.Adapter],
    bounds: avro.Bounds,
    *,
    isolated: bool,
) -> list[Any]:
    try:
        read = avro.compile_reader(container.schema, adapt, isolated=isolated, plain=bounds.plain)
        return list(container.records(read, bounds))
    except avro.AvroBeyondBounds as error:
        raise BeyondBounds(str(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidManifest(f"cannot read the records: {error!r}") from error


def _header_of(container: avro.Container) -> ManifestHeader:
    try:
        return ManifestHeader(
            format_version=int(container.text("format-version") or 1),
            content=(
                ManifestContent.DELETES
                if container.text("content") == "deletes"
                else ManifestContent.DATA
            ),
            partition_spec_id=int(container.text("partition-spec-id") or 0),
            partition_fields=_spec_fields(container) or [],
        )
    except (ValueError, RecursionError) as error:
        raise InvalidManifest(f"broken manifest header: {error}") from error


def _spec_fields(container: avro.Container) -> list[Json] | None:
    """Return the fields of the header's spec; None if the header has none.

    PyIceberg before 0.7 wrote the whole spec there. Raises ValueError, RecursionError.
    """
    text = container.text("partition-spec")
    if not text:
        return None
    spec = msgspec.json.decode(text)
    return msgspec.convert(spec.get("fields") if isinstance(spec, dict) else spec, list[Json])


def _partition_order(container: avro.Container) -> list[int] | None:
    """Return where the fields of the header's spec are in a written partition, by field id.

    None if they are written in this order, if they are not all written with their ids, or if the
    header has no spec that can be read: some writers leave it out, and the manifest list has its
    id. DuckDB 1.5 writes fields of earlier specs, too, in the partitions of delete files.
    """
    try:
        partition_fields = _spec_fields(container)
        if partition_fields is None:
            return None
        data_file = _field_type(container.schema, "data_file", 2)
        partition = _field_type(data_file, "partition", 102)
        written = [field.get("field-id") for field in partition["fields"]]
        of_spec = [field.get("field-id") for field in partition_fields]
        if written == of_spec or len(of_spec) > len(written):
            return None
        places = {field_id: place for place, field_id in enumerate(written)}
        return None if None in of_spec else [places[field_id] for field_id in of_spec]
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        return None  # of a named type, or broken, which reading the records shows


def _field_type(record: Any, name: str, field_id: int) -> Any:
    """Return the type of a record's field, which is known by its id, or by its name without one."""
    for field in record["fields"]:
        if field.get("field-id") == field_id or (field["name"] == name and "field-id" not in field):
            return field["type"]
    raise LookupError(name)


def _entry(fields: Mapping[int, Any]) -> ManifestEntry:
    return ManifestEntry(
        status=_STATUSES[fields[0]],
        snapshot_id=fields.get(1),
        sequence_number=fields.get(3),
        file_sequence_number=fields.get(4),
        data_file=fields[2],
    )


def _data_file(fields: Mapping[int, Any], spec_id: int, order: Sequence[int] | None) -> DataFile:
    get = fields.get
    partition = get(102) or ()
    if order is not None:
        partition = tuple([partition[index] for index in order])
    split_offsets, equality_ids = get(132), get(135)
    file_format = fields[101]
    return DataFile(
        file_path=fields[100],
        file_format=_FORMATS.get(file_format) or file_format.upper(),
        record_count=fields[103],
        file_size_in_bytes=fields[104],
        content=_CONTENTS[get(134) or 0],
        spec_id=spec_id,
        partition=partition,
        metrics=Metrics(
            column_sizes=get(108),
            value_counts=get(109),
            null_value_counts=get(110),
            nan_value_counts=get(137),
            lower_bounds=get(125),
            upper_bounds=get(128),
        ),
        key_metadata=get(131),
        split_offsets=None if split_offsets is None else tuple(split_offsets),
        equality_ids=None if equality_ids is None else tuple(equality_ids),
        sort_order_id=get(140),
        first_row_id=get(142),
        referenced_data_file=get(143),
        content_offset=get(144),
        content_size_in_bytes=get(145),
    )


def _manifest_file(fields: Mapping[int, Any]) -> ManifestFile:
    get = fields.get
    partitions = get(507)
    return ManifestFile(
        manifest_path=fields[500],
        manifest_length=fields[501],
        partition_spec_id=fields[502],
        content=ManifestContent(get(517) or 0),
        sequence_number=get(515) or 0,
        min_sequence_number=get(516) or 0,
        added_snapshot_id=get(503),
        added_files_count=get(504),
        existing_files_count=get(505),
        deleted_files_count=get(506),
        added_rows_count=get(512),
        existing_rows_count=get(513),
        deleted_rows_count=get(514),
        partitions=None if partitions is None else tuple(partitions),
        key_metadata=get(519),
        first_row_id=get(520),
    )


def _summary(fields: Mapping[int, Any]) -> FieldSummary:
    get = fields.get
    return FieldSummary(
        contains_null=fields[509],
        contains_nan=get(518),
        lower_bound=get(510),
        upper_bound=get(511),
    )


def inherit(entries: Iterable[ManifestEntry], manifest: ManifestFile) -> list[ManifestEntry]:
    """Return entries with the fields that they inherit from their manifest's entry in the list.

    An added file inherits its sequence numbers, in v1 always 0. Every live data file without a
    first row id gets one, if the manifest has one.
    """
    inherited = []
    next_row_id = manifest.first_row_id if manifest.content == ManifestContent.DATA else None
    for entry in entries:
        data_file = entry.data_file
        if (
            next_row_id is not None
            and data_file.first_row_id is None
            and entry.status != Status.DELETED
        ):
            data_file = msgspec.structs.replace(data_file, first_row_id=next_row_id)
            next_row_id += data_file.record_count
        sequence_number, file_sequence_number = entry.sequence_number, entry.file_sequence_number
        if entry.status == Status.ADDED or manifest.sequence_number == 0:
            if sequence_number is None:
                sequence_number = manifest.sequence_number
            if file_sequence_number is None:
                file_sequence_number = manifest.sequence_number
        inherited.append(
            ManifestEntry(
                status=entry.status,
                snapshot_id=(
                    manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
                ),
                sequence_number=sequence_number,
                file_sequence_number=file_sequence_number,
                data_file=data_file,
            )
        )
    return inherited


def live_entries(
    data: bytes,
    manifest: ManifestFile,
    *,
    isolated: bool = False,
    bounds: avro.Bounds = avro.ISOLATED,
) -> list[ManifestEntry]:
    """Return the live entries of a manifest with all inherited fields.

    Raises InvalidManifest, BeyondBounds.
    """
    decoded = decode_manifest(
        data, spec_id=manifest.partition_spec_id, isolated=isolated, bounds=bounds
    )
    return [entry for entry in inherit(decoded, manifest) if entry.is_live]


# --- between processes --------------------------------------------------------------------------


def pack_entries(entries: Sequence[ManifestEntry]) -> bytes:
    """Return entries as bytes for another process; `unpack_entries` decodes them cheaply."""
    decimals = sorted(
        {
            position
            for entry in entries
            for position, value in enumerate(entry.data_file.partition)
            if isinstance(value, decimal.Decimal)
        }
    )
    return msgspec.msgpack.encode((decimals, entries), enc_hook=_pack_metrics)


def unpack_entries(data: bytes) -> list[ManifestEntry]:
    decimals, entries = _unpack_entries(data)
    return [_with_decimals(entry, decimals) for entry in entries] if decimals else entries


def pack_manifests(listed: Sequence[ManifestFile]) -> bytes:
    """Return manifests as bytes for another process."""
    return msgspec.msgpack.encode(listed)


unpack_manifests: Final = msgspec.msgpack.Decoder(list[ManifestFile]).decode


def _pack_metrics(value: Any) -> bytes:
    assert isinstance(value, Metrics)
    return value.packed()


def _unpack_metrics(value_type: type, packed: Any) -> Metrics:
    return Metrics.unpacked_later(packed)


_unpack_entries = msgspec.msgpack.Decoder(
    tuple[list[int], list[ManifestEntry]], dec_hook=_unpack_metrics
).decode


def _with_decimals(entry: ManifestEntry, positions: Sequence[int]) -> ManifestEntry:
    """Restore decimals, which are packed as text; only their position identifies them."""
    partition = list(entry.data_file.partition)
    for position in positions:
        if partition[position] is not None:
            partition[position] = decimal.Decimal(partition[position])
    data_file = msgspec.structs.replace(entry.data_file, partition=tuple(partition))
    return msgspec.structs.replace(entry, data_file=data_file)
