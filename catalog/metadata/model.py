"""rule: table metadata v1 to v3 as a value: a decoded head, a history that stays JSON text.

The fields that a commit reads (schemas, specs, refs, properties, counters) are decoded. Snapshots
and both logs stay JSON text, with an index by snapshot id that is built at first use, so a commit
on ten thousand snapshots differs from one on ten only in the text that it copies. Unknown fields
survive a round trip, and integers are exact. Nothing here changes a value:
`catalog.metadata.updates` derives new ones.
Source: Iceberg spec, Table Metadata Fields.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from catalog.metadata import defaults, errors, joining
from catalog.metadata.json_values import Json

FORMAT_VERSION_MAX = 3
MAIN_BRANCH = "main"
PARTITION_ID_START = 1000
"""Partition field ids start here; a table without partition fields has 999 as its last one."""

SNAPSHOTS_AT_ONCE = 500
"""Snapshots that are decoded in one call when all are read: some milliseconds."""
SPAN_BITS = 32
SPAN_MASK = (1 << SPAN_BITS) - 1

JOINED_BYTES_MIN = 32 * 1024
"""Snapshots of so many bytes are joined to what is encoded, since the encoder would copy them four
times; encoding the parts apart takes 10 us more."""

LOG_DISORDER_MAX_MS = 60_000
"""How much earlier than its predecessor a log entry may be: writers' clocks differ."""


class _SnapshotId(msgspec.Struct):
    snapshot_id: int = msgspec.field(name="snapshot-id")


class _SequenceNumber(msgspec.Struct):
    sequence_number: Any = msgspec.field(name="sequence-number", default=0)


_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_ids = msgspec.json.Decoder(list[_SnapshotId]).decode
_decode_numbers = msgspec.json.Decoder(list[_SequenceNumber]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_any = msgspec.json.Decoder().decode

_EMPTY_ARRAY = re.compile(rb"\[\s*\]")


class JsonArray:
    """A JSON array of objects that stays text. Immutable. `of` keeps the items it joins."""

    __slots__ = ("_items", "text")

    def __init__(self, text: bytes = b"[]") -> None:
        self.text = text
        self._items: tuple[bytes, ...] | None = None

    def decoded(self) -> list[Json]:
        """Return the items as fresh objects."""
        return _decode_objects(self.text)

    def items(self) -> tuple[bytes, ...]:
        """Return each item's own text."""
        if self._items is None:
            self._items = tuple(bytes(item) for item in _decode_items(self.text))
        return self._items

    def __bool__(self) -> bool:
        return _EMPTY_ARRAY.match(self.text) is None

    @classmethod
    def of(cls, items: Iterable[bytes]) -> JsonArray:
        kept = tuple(items)
        array = cls(b"[" + b",".join(kept) + b"]")
        array._items = kept
        return array

    def with_last(self, item: bytes, *, items_max: int) -> JsonArray:
        """Return a new array with one further item at its end, and the last items_max in all."""
        return JsonArray.of((*self.items(), item)[-items_max:])

    def extended(self, items: Iterable[bytes]) -> JsonArray:
        """Return a new array with further items at its end."""
        added = b",".join(items)
        if not added:
            return self
        if not self:
            return JsonArray(b"[" + added + b"]")
        end = self.text.rindex(b"]")
        return JsonArray(b"".join((memoryview(self.text)[:end], b",", added, b"]")))


class Snapshots:
    """The snapshots of a table in the order they were added, as JSON text. Immutable.

    The text may be in pieces, and may be part of a metadata file: a commit appends to the text of
    the file before, and copies all of it once, into its own file (`encode_file`).

    The index says where each lies in the text, in the order of the text; appending keeps that. A
    place is one number, not a tuple: Python's collector does not look into a dictionary of numbers.
    With a thousand snapshots that was a sixth of the loop's time of a commit.
    """

    __slots__ = ("_pieces", "_spans")

    def __init__(self, text: joining.Part = b"[]") -> None:
        self._pieces: tuple[joining.Part, ...] = (text,)
        self._spans: dict[int, int] | None = None

    @property
    def text(self) -> bytes:
        """The JSON array. A copy, if it is part of a file."""
        whole = self._whole()
        return whole if isinstance(whole, bytes) else joining.joined((whole,))

    @property
    def pieces(self) -> tuple[joining.Part, ...]:
        """The parts of the text, in order."""
        return self._pieces

    @property
    def size_bytes(self) -> int:
        """The length of the text."""
        return sum(map(len, self._pieces))

    def note_file(self, text: memoryview) -> None:
        """Take over the same text as part of a file, instead of the pieces."""
        assert len(text) == self.size_bytes
        self._pieces = (text,)

    def _whole(self) -> joining.Part:
        pieces = self._pieces
        if len(pieces) > 1:
            # One assignment: a thread that reads sees either all pieces or the joined text.
            pieces = self._pieces = (joining.joined(pieces),)
        return pieces[0]

    @classmethod
    def of(cls, items: Mapping[int, bytes]) -> Snapshots:
        """Return snapshots from their texts by id, in that order."""
        snapshots = cls()
        text, snapshots._spans = _join(items.keys(), items.values())
        snapshots._pieces = (text,)
        return snapshots

    def _indexed(self) -> dict[int, int]:
        if self._spans is None:
            try:
                whole = self._whole()
                ids = [entry.snapshot_id for entry in _decode_ids(whole)]
                items = [bytes(item) for item in _decode_items(whole)]
            except msgspec.MsgspecError as error:
                raise errors.InvalidMetadata(f"Cannot parse snapshots: {error}") from error
            text, spans = _join(ids, items)
            if len(spans) != len(ids):
                raise errors.InvalidMetadata("Two snapshots have the same id")
            self._pieces, self._spans = (text,), spans
        return self._spans

    def note_spans(self, parts: Iterable[Iterable[tuple[int, tuple[int, int]]]]) -> None:
        """Take over an index that was built from the same text.

        parts: of (id, (start, stop)) in the order of the text.
        """
        spans: dict[int, int] = {}
        for part in parts:
            spans.update((snapshot_id, _packed(*span)) for snapshot_id, span in part)
        self._spans = spans

    def __len__(self) -> int:
        return len(self._indexed())

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._indexed()

    @property
    def ids(self) -> Collection[int]:
        """Snapshot ids in the order the snapshots were added."""
        return self._indexed().keys()

    def text_of(self, snapshot_id: int) -> bytes | None:
        span = self._indexed().get(snapshot_id)
        return None if span is None else bytes(self._whole()[_slice_of(span)])

    def get(self, snapshot_id: int) -> Json | None:
        text = self.text_of(snapshot_id)
        return None if text is None else _decode_any(text)

    def extended(self, added: Mapping[int, bytes]) -> Snapshots:
        """Return a new value with further snapshots. Their ids must be new."""
        spans = dict(self._indexed())
        start = self.size_bytes - 1
        *pieces, last = self._pieces
        if len(last) > 1:  # the last piece of an extended text is its bracket
            pieces.append(memoryview(last)[:-1])
        for snapshot_id, text in added.items():
            assert snapshot_id not in spans
            if spans:
                pieces.append(b",")
                start += 1
            spans[snapshot_id] = _packed(start, start + len(text))
            start += len(text)
            pieces.append(text)
        pieces.append(b"]")
        extended = Snapshots()
        extended._pieces = tuple(pieces)
        extended._spans = spans
        return extended

    def parts(self) -> Iterator[bytes]:
        """Yield the snapshots as JSON arrays of some hundred each."""
        spans = list(self._indexed().values())
        text = memoryview(self._whole())
        for first in range(0, len(spans), SNAPSHOTS_AT_ONCE):
            some = spans[first : first + SNAPSHOTS_AT_ONCE]
            first_span, last_span = _slice_of(some[0]), _slice_of(some[-1])
            yield b"".join((b"[", text[first_span.start : last_span.stop], b"]"))

    def without(self, snapshot_ids: Collection[int]) -> Snapshots:
        """Return all snapshots but these. What stays together is copied together, as it is."""
        gone = frozenset(snapshot_ids)
        runs: list[tuple[int, int]] = []
        spans: dict[int, int] = {}
        shift, is_within_run = 0, False
        for snapshot_id, span in self._indexed().items():
            if snapshot_id in gone:
                is_within_run = False
                continue
            start, stop = span >> SPAN_BITS, span & SPAN_MASK
            if is_within_run:
                runs[-1] = (runs[-1][0], stop)
            else:
                shift += 1 - start if not runs else runs[-1][1] + 1 - start
                runs.append((start, stop))
                is_within_run = True
            spans[snapshot_id] = _packed(start + shift, stop + shift)
        text = memoryview(self._whole())
        separated = (part for start, stop in runs for part in (b",", text[start:stop]))
        next(separated, None)
        snapshots = Snapshots(joining.joined([b"[", *separated, b"]"]))
        snapshots._spans = spans
        return snapshots

    def only(self, snapshot_ids: Iterable[int]) -> Snapshots:
        """Return the snapshots with these ids, in this order. Each id must exist."""
        spans = self._indexed()
        text = self._whole()
        return Snapshots.of({kept: bytes(text[_slice_of(spans[kept])]) for kept in snapshot_ids})


def _packed(start: int, stop: int) -> int:
    return start << SPAN_BITS | stop


def _slice_of(span: int) -> slice:
    return slice(span >> SPAN_BITS, span & SPAN_MASK)


def _join(ids: Iterable[int], items: Iterable[bytes]) -> tuple[bytes, dict[int, int]]:
    spans = {}
    start = 1
    texts = list(items)
    for snapshot_id, text in zip(ids, texts, strict=True):
        spans[snapshot_id] = _packed(start, start + len(text))
        start += len(text) + 1
    separated = (each for text in texts for each in (b",", text))
    next(separated, None)
    return joining.joined((b"[", *separated, b"]")), spans


class TableMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a table's metadata.

    schemas, partition_specs and sort_orders are decoded JSON in the order of the file. extra holds
    the top-level fields this release does not know, as text. next_row_id is 0 before v3.
    """

    format_version: int
    table_uuid: str | None
    location: str
    last_sequence_number: int = 0
    last_updated_ms: int = 0
    last_column_id: int = 0
    current_schema_id: int = -1
    schemas: tuple[Json, ...] = ()
    default_spec_id: int = -1
    partition_specs: tuple[Json, ...] = ()
    last_partition_id: int = PARTITION_ID_START - 1
    default_sort_order_id: int = -1
    sort_orders: tuple[Json, ...] = ()
    properties: dict[str, str] = {}
    current_snapshot_id: int | None = None
    next_row_id: int = 0
    refs: dict[str, Json] = {}
    encryption_keys: tuple[Json, ...] = ()
    statistics: tuple[Json, ...] = ()
    partition_statistics: tuple[Json, ...] = ()
    snapshots: Snapshots = msgspec.field(default_factory=Snapshots)
    snapshot_entries: JsonArray = msgspec.field(default_factory=JsonArray)
    metadata_entries: JsonArray = msgspec.field(default_factory=JsonArray)
    extra: dict[str, msgspec.Raw] = {}

    @property
    def snapshot_ids(self) -> Collection[int]:
        return self.snapshots.ids

    @property
    def snapshot_log(self) -> list[Json]:
        """Entries {timestamp-ms, snapshot-id}, oldest first: what was current, and since when."""
        return self.snapshot_entries.decoded()

    @property
    def metadata_log(self) -> list[Json]:
        """Entries {timestamp-ms, metadata-file}, oldest first: the files before this one."""
        return self.metadata_entries.decoded()

    def snapshot(self, snapshot_id: int) -> Json | None:
        return self.snapshots.get(snapshot_id)

    def current_snapshot(self) -> Json | None:
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    def schema(self, schema_id: int) -> Json | None:
        return _by_id(self.schemas, "schema-id", schema_id)

    def current_schema(self) -> Json:
        schema = self.schema(self.current_schema_id)
        if schema is None:
            raise errors.InvalidMetadata(f"No schema has the id {self.current_schema_id}")
        return schema

    def spec(self, spec_id: int) -> Json | None:
        return _by_id(self.partition_specs, "spec-id", spec_id)

    def default_spec(self) -> Json:
        spec = self.spec(self.default_spec_id)
        if spec is None:
            raise errors.InvalidMetadata(f"No partition spec has the id {self.default_spec_id}")
        return spec

    def sort_order(self, order_id: int) -> Json | None:
        return _by_id(self.sort_orders, "order-id", order_id)

    def default_sort_order(self) -> Json:
        order = self.sort_order(self.default_sort_order_id)
        if order is None:
            raise errors.InvalidMetadata(f"No sort order has the id {self.default_sort_order_id}")
        return order


def _by_id(items: Iterable[Json], name: str, wanted: int) -> Json | None:
    return next((item for item in items if item.get(name) == wanted), None)


def decode(data: bytes) -> TableMetadata:
    """Return the table metadata in an uncompressed metadata.json.

    A default of null that a schema spells, as one of a registered file may, is left out: see
    `schemas.check_schema`. Raises InvalidMetadata when the head is malformed or names a schema,
    spec or order it lacks. Snapshots and logs are not read here; `check_history` reads them.
    """
    try:
        raw = _decode_fields(data)
        return _from_fields(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise errors.InvalidMetadata(f"Cannot parse table metadata: {error}") from error


def encode(metadata: TableMetadata) -> bytes:
    """Return metadata.json's bytes. Raises InvalidMetadata (see `encode_json`)."""
    return encode_file(metadata).data


class Encoded(msgspec.Struct, frozen=True, kw_only=True):
    """metadata.json.

    arrays: where the items of the snapshots, and of the snapshot log, lie in data, as (start, stop)
    without their brackets: a commit adds to their ends. Empty if there are few snapshots.
    """

    data: bytes
    arrays: tuple[tuple[int, int], ...] = ()


def encode_file(metadata: TableMetadata) -> Encoded:
    """Return metadata.json. Raises InvalidMetadata (see `encode_json`).

    Snapshots in pieces, which no other metadata has yet, then are part of the file, so that their
    text is copied once.
    """
    snapshots = metadata.snapshots
    encoded = _encode(metadata, snapshots)
    if encoded.arrays and len(snapshots.pieces) > 1:
        start, stop = encoded.arrays[0]
        snapshots.note_file(memoryview(encoded.data)[start - 1 : stop + 1])
    return encoded


def encode_refs_only(metadata: TableMetadata) -> bytes:
    """Return metadata.json's bytes with just the snapshots a branch or tag points at.

    Both logs stay whole. Source: REST specification, loadTable, snapshots=refs.
    """
    wanted = {ref["snapshot-id"] for ref in metadata.refs.values()}
    if metadata.current_snapshot_id is not None:
        wanted.add(metadata.current_snapshot_id)
    kept = [snapshot_id for snapshot_id in metadata.snapshots.ids if snapshot_id in wanted]
    return _encode(metadata, metadata.snapshots.only(kept)).data


def check_history(metadata: TableMetadata) -> None:
    """Check what decode does not: that snapshots, refs and logs agree with each other.

    For metadata that a client wrote, before a table is created from it. Raises InvalidMetadata.
    """
    for name, ref in metadata.refs.items():
        if ref["snapshot-id"] not in metadata.snapshots:
            raise errors.InvalidMetadata(
                f"Snapshot for reference {name} does not exist in the existing snapshots list:"
                f" {ref['snapshot-id']}"
            )
    current = metadata.current_snapshot_id
    if current is not None and current not in metadata.snapshots:
        raise errors.InvalidMetadata("Invalid table metadata: Cannot find current version")
    main = metadata.refs.get(MAIN_BRANCH)
    if main is not None and main["snapshot-id"] != current:
        raise errors.InvalidMetadata(
            f"Current snapshot ID does not match main branch ({current} != {main['snapshot-id']})"
        )
    # Decoded in groups: one by one, 20,000 snapshots take a tenth of a second.
    ids = metadata.snapshots.ids
    numbered = (each for part in metadata.snapshots.parts() for each in _decode_numbers(part))
    for snapshot_id, entry in zip(ids, numbered, strict=True):
        sequence_number = entry.sequence_number
        if not isinstance(sequence_number, int):
            raise errors.InvalidMetadata(f"Snapshot {snapshot_id} has no valid sequence number")
        if metadata.format_version > 1 and sequence_number > metadata.last_sequence_number:
            raise errors.InvalidMetadata(
                f"Invalid snapshot with sequence number {sequence_number} greater than last"
                f" sequence number {metadata.last_sequence_number}"
            )
    _check_log(metadata.snapshot_entries, "snapshot-log", "snapshot-id", int)
    _check_log(metadata.metadata_entries, "metadata-log", "metadata-file", str)


def _check_log(entries: JsonArray, log: str, name: str, value_type: type) -> None:
    try:
        decoded = entries.decoded()
    except msgspec.MsgspecError as error:
        raise errors.InvalidMetadata(f"Cannot parse {log}: {error}") from error
    for entry in decoded:
        if not isinstance(entry.get("timestamp-ms"), int) or not isinstance(
            entry.get(name), value_type
        ):
            raise errors.InvalidMetadata(f"Malformed entry in {log}")


# --- the file's form ----------------------------------------------------------------------------


class _Head(msgspec.Struct, rename="kebab", kw_only=True):
    """The decoded fields as a file of any version may hold them."""

    format_version: int
    location: str
    last_updated_ms: int
    last_column_id: int
    table_uuid: str | None = None
    last_sequence_number: int | None = None
    schema: dict[str, Any] | None = None
    schemas: list[dict[str, Any]] | None = None
    current_schema_id: int | None = None
    partition_spec: list[dict[str, Any]] | None = None
    partition_specs: list[dict[str, Any]] | None = None
    default_spec_id: int | None = None
    last_partition_id: int | None = None
    default_sort_order_id: int | None = None
    sort_orders: list[dict[str, Any]] | None = None
    properties: dict[str, str] | None = None
    current_snapshot_id: int | None = None
    next_row_id: int | None = None
    refs: dict[str, dict[str, Any]] | None = None
    encryption_keys: list[dict[str, Any]] | None = None
    statistics: list[dict[str, Any]] | None = None
    partition_statistics: list[dict[str, Any]] | None = None


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
HEAD_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(_Head))
"""Fields that are decoded; all others stay text."""
_LISTS = {
    name.replace("_", "-"): name
    for name in (
        "schemas",
        "partition_specs",
        "sort_orders",
        "encryption_keys",
        "statistics",
        "partition_statistics",
    )
}
LIST_NAMES = frozenset(_LISTS)
"""Fields that are lists of objects without a bound on all of them together."""
_ARRAY_NAMES = frozenset({"snapshots", "snapshot-log", "metadata-log"})


def snapshot_ids_in(text: bytes | memoryview) -> list[int]:
    """Return the ids in an array of snapshots. Raises MsgspecError."""
    return [entry.snapshot_id for entry in _decode_ids(text)]


def decode_pieces(
    raw: Mapping[str, msgspec.Raw], items: Mapping[str, Iterable[bytes]], snapshots: Snapshots
) -> TableMetadata:
    """Return table metadata from its parts, each of which is decoded by itself.

    raw: the texts of all fields but snapshots and items. items: the texts of the items of fields
    in LIST_NAMES. Raises InvalidMetadata.
    """
    try:
        head = _head_of(raw)
        for name, texts in items.items():
            setattr(head, _LISTS[name], [_decode_item(name, text) for text in texts])
        return _from_head(head, raw, snapshots)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise errors.InvalidMetadata(f"Cannot parse table metadata: {error}") from error


def _from_fields(raw: dict[str, msgspec.Raw]) -> TableMetadata:
    return _from_head(_head_of(raw), raw, Snapshots(_array_text(raw, "snapshots")))


def _head_of(raw: Mapping[str, msgspec.Raw]) -> _Head:
    head = _decode_head(
        b"{"
        + b",".join(b'"%s":%s' % (name.encode(), raw[name]) for name in raw if name in HEAD_NAMES)
        + b"}"
    )
    if head.schemas is not None and defaults.spells_null(bytes(raw["schemas"])):
        head.schemas = list(map(defaults.without_nulls, head.schemas))
    elif head.schema is not None and defaults.spells_null(bytes(raw["schema"])):
        head.schema = defaults.without_nulls(head.schema)
    return head


def _decode_item(name: str, text: bytes) -> Json:
    """Return an item of one of the fields in LIST_NAMES."""
    item = _decode_object(text)
    if name == "schemas" and defaults.spells_null(text):
        return cast(Json, defaults.without_nulls(item))
    return item


def _from_head(head: _Head, raw: Mapping[str, msgspec.Raw], snapshots: Snapshots) -> TableMetadata:
    version = head.format_version
    if not 1 <= version <= FORMAT_VERSION_MAX:
        raise errors.InvalidMetadata(f"Cannot read unsupported version {version}")
    if version > 1:
        _check_required(head, version)
    schemas, current_schema_id = _schemas_of(head)
    specs, default_spec_id = _specs_of(head)
    orders, default_order_id = _orders_of(head)
    current = None if head.current_snapshot_id == -1 else head.current_snapshot_id
    return TableMetadata(
        format_version=version,
        table_uuid=head.table_uuid,
        location=head.location,
        last_sequence_number=(head.last_sequence_number or 0) if version > 1 else 0,
        last_updated_ms=head.last_updated_ms,
        last_column_id=head.last_column_id,
        current_schema_id=current_schema_id,
        schemas=schemas,
        default_spec_id=default_spec_id,
        partition_specs=specs,
        last_partition_id=_last_partition_id_of(head, specs),
        default_sort_order_id=default_order_id,
        sort_orders=orders,
        properties=head.properties or {},
        current_snapshot_id=current,
        next_row_id=(head.next_row_id or 0) if version >= 3 else 0,
        refs=_refs_of(head, current),
        encryption_keys=tuple(head.encryption_keys or ()),
        statistics=tuple(head.statistics or ()),
        partition_statistics=tuple(head.partition_statistics or ()),
        snapshots=snapshots,
        snapshot_entries=JsonArray(_array_text(raw, "snapshot-log")),
        metadata_entries=JsonArray(_array_text(raw, "metadata-log")),
        extra={
            name: value.copy()
            for name, value in raw.items()
            if name not in HEAD_NAMES and name not in _ARRAY_NAMES
        },
    )


def _check_required(head: _Head, version: int) -> None:
    required = [
        ("table-uuid", head.table_uuid),
        ("last-sequence-number", head.last_sequence_number),
        ("schemas", head.schemas),
        ("current-schema-id", head.current_schema_id),
        ("partition-specs", head.partition_specs),
        ("default-spec-id", head.default_spec_id),
        ("last-partition-id", head.last_partition_id),
        ("sort-orders", head.sort_orders),
        ("default-sort-order-id", head.default_sort_order_id),
    ]
    if version >= 3:
        required.append(("next-row-id", head.next_row_id))
    for name, value in required:
        if value is None:
            raise errors.InvalidMetadata(f"{name} must exist in format v{version}")


def _schemas_of(head: _Head) -> tuple[tuple[Json, ...], int]:
    if head.schemas is None:
        if head.schema is None:
            raise errors.InvalidMetadata("schema or schemas must exist in format v1")
        schema = {**head.schema, "schema-id": head.schema.get("schema-id", 0)}
        return (schema,), schema["schema-id"]
    current = head.current_schema_id
    if current is None or _by_id(head.schemas, "schema-id", current) is None:
        raise errors.InvalidMetadata(
            f"Cannot find schema with current-schema-id={current} from schemas"
        )
    return tuple(head.schemas), current


def _specs_of(head: _Head) -> tuple[tuple[Json, ...], int]:
    if head.partition_specs is None:
        # v1 before specs had ids: the fields alone, numbered by place
        if head.partition_spec is None:
            raise errors.InvalidMetadata("partition-spec or partition-specs must exist")
        fields = [
            {"field-id": PARTITION_ID_START + position, **field}
            for position, field in enumerate(head.partition_spec)
        ]
        return ({"spec-id": 0, "fields": fields},), 0
    default = head.default_spec_id
    if default is None or _by_id(head.partition_specs, "spec-id", default) is None:
        raise errors.InvalidMetadata(f"Cannot find partition spec with id {default}")
    return tuple(head.partition_specs), default


def _orders_of(head: _Head) -> tuple[tuple[Json, ...], int]:
    if head.sort_orders is None:
        return ({"order-id": 0, "fields": []},), 0
    default = head.default_sort_order_id
    if default is None or _by_id(head.sort_orders, "order-id", default) is None:
        raise errors.InvalidMetadata(f"Cannot find sort order with id {default}")
    return tuple(head.sort_orders), default


def _last_partition_id_of(head: _Head, specs: Iterable[Json]) -> int:
    if head.last_partition_id is not None:
        return head.last_partition_id
    field_ids = [field.get("field-id", 0) for spec in specs for field in spec.get("fields", ())]
    return max(field_ids, default=PARTITION_ID_START - 1)


def _refs_of(head: _Head, current: int | None) -> dict[str, Json]:
    refs = head.refs
    if refs is None:
        return {} if current is None else {MAIN_BRANCH: {"snapshot-id": current, "type": "branch"}}
    for name, ref in refs.items():
        if not isinstance(ref.get("snapshot-id"), int) or ref.get("type") not in ("branch", "tag"):
            raise errors.InvalidMetadata(f"Cannot parse snapshot reference {name}")
    return refs


def _array_text(raw: Mapping[str, msgspec.Raw], name: str) -> bytes:
    text = bytes(raw[name]).strip() if name in raw else b"[]"
    if text == b"null":
        return b"[]"
    if not text.startswith(b"["):
        raise errors.InvalidMetadata(f"Cannot parse {name} from non-array")
    return text


def _encode(metadata: TableMetadata, snapshots: Snapshots) -> Encoded:
    version = metadata.format_version
    fields: dict[str, Any] = {"format-version": version}
    if metadata.table_uuid is not None:
        fields["table-uuid"] = metadata.table_uuid
    fields["location"] = metadata.location
    if version > 1:
        fields["last-sequence-number"] = metadata.last_sequence_number
    fields["last-updated-ms"] = metadata.last_updated_ms
    fields["last-column-id"] = metadata.last_column_id
    if version == 1:  # older readers read only the single ones
        fields["schema"] = metadata.current_schema()
        fields["partition-spec"] = metadata.default_spec()["fields"]
    fields["current-schema-id"] = metadata.current_schema_id
    fields["schemas"] = metadata.schemas
    fields["default-spec-id"] = metadata.default_spec_id
    fields["partition-specs"] = metadata.partition_specs
    fields["last-partition-id"] = metadata.last_partition_id
    fields["default-sort-order-id"] = metadata.default_sort_order_id
    fields["sort-orders"] = metadata.sort_orders
    fields["properties"] = metadata.properties
    if metadata.current_snapshot_id is not None:
        fields["current-snapshot-id"] = metadata.current_snapshot_id
    if version >= 3:
        fields["next-row-id"] = metadata.next_row_id
    if metadata.encryption_keys:
        fields["encryption-keys"] = metadata.encryption_keys
    fields["refs"] = metadata.refs
    between = {
        "statistics": metadata.statistics,
        "partition-statistics": metadata.partition_statistics,
    }
    if snapshots.size_bytes < JOINED_BYTES_MIN:
        fields["snapshots"] = msgspec.Raw(snapshots.text)
        logs = {
            "snapshot-log": msgspec.Raw(metadata.snapshot_entries.text),
            "metadata-log": msgspec.Raw(metadata.metadata_entries.text),
        }
        return Encoded(data=encode_json({**fields, **between, **logs, **metadata.extra}))
    log = metadata.snapshot_entries.text
    before = encode_json(fields)[:-1] + b',"snapshots":'
    middle = b"," + encode_json(between)[1:-1] + b',"snapshot-log":'
    after = b',"metadata-log":' + metadata.metadata_entries.text
    after += b"," + encode_json(metadata.extra)[1:] if metadata.extra else b"}"
    first = len(before)
    second = first + snapshots.size_bytes
    third = second + len(middle)
    return Encoded(
        data=joining.joined((before, *snapshots.pieces, middle, log, after)),
        arrays=((first + 1, second - 1), (third + 1, third + len(log) - 1)),
    )


def encode_json(value: Any) -> bytes:
    """Return value as JSON text. Raises InvalidMetadata for what JSON of 64-bit numbers cannot say.

    Unknown fields are kept as text, so a larger number in one is noticed only here.
    """
    try:
        return msgspec.json.encode(value)
    except (OverflowError, TypeError, ValueError, RecursionError) as error:
        raise errors.InvalidMetadata(f"Cannot write metadata: {error}") from error
