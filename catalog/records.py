"""rule: the catalog's rows in the index: their keys and their values.

docs/ON_DISK.md describes each of them. A key starts with the 4-byte ids of table bucket, branch and
namespace path, so that it is below 511 bytes for any names; ids are never reused. A value starts
with a byte for its format, followed by MessagePack arrays: a newer release appends members, which
get their defaults in older rows. Commits compare values as bytes to expect unchanged rows, so
encoding is deterministic.
"""

from __future__ import annotations

import functools
import hashlib
import re
import struct
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from catalog import idents
from storage import errors as storage_errors
from storage import model

Departure: TypeAlias = Literal["drop", "unregister"]
ObjectType: TypeAlias = Literal["table", "view", "namespace"]

MAIN_BRANCH: Final = "main"
MAIN_BRANCH_ID: Final = 1
ROOT_NAMESPACE_ID: Final = 0

POINTERS_REMEMBERED: Final = 1024
FORMAT: Final = b"\x01"
"""First byte of every value below."""

_OBJECT_TYPES: Final[Mapping[ObjectType, bytes]] = {"namespace": b"n", "table": b"t", "view": b"v"}
_UUID = b"u"
_GONE = b"g"
_DROPPED = b"d"
_DROPPED_NAMESPACE = b"m"
_INTERIOR = FORMAT + b"interior"

_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_INTEGER = struct.Struct(">I").pack
_LONG = struct.Struct(">Q").pack
_POINTERS = struct.Struct(">IIcI").pack


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One branch of one table bucket: the place of rows."""

    bucket: model.BucketInfo
    branch: str = MAIN_BRANCH
    branch_id: int = MAIN_BRANCH_ID

    @property
    def table_bucket(self) -> str:
        """The table bucket's name."""
        return self.bucket.name

    @property
    def bucket_id(self) -> int:
        """The table bucket's id, which is never reused."""
        return self.bucket.bucket_id

    @property
    def prefix(self) -> bytes:
        """The prefix of all pointer keys of the branch."""
        return _INTEGER(self.bucket.bucket_id) + _INTEGER(self.branch_id)


class Pointer(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The state of a table or view. A row of POINTERS, and `before` and `after` in the log.

    object_uuid: identifies it across renames and branches. table_uuid: Iceberg's, None before the
    first metadata. location: `s3://table_bucket/path`.
    """

    object_type: idents.PointerType
    object_uuid: str
    table_uuid: str | None
    metadata_location: str | None
    location: str
    created_at_ms: int
    created_by: str
    modified_at_ms: int
    modified_by: str


class NamespaceRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A namespace. A row of POINTERS under its parent's id; namespace_id is its own path's."""

    namespace_id: int
    object_uuid: str
    properties: dict[str, str]
    created_at_ms: int
    created_by: str
    modified_at_ms: int
    modified_by: str


class Name(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The current or last name of a table or view, by its object uuid. A row of POINTERS."""

    object_type: idents.PointerType
    namespace_id: int
    name: str


class LastName(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The last name of a table or view that no longer exists. A row of POINTERS.

    dropped_at_ms: in the key of its Dropped row; 0 if it never had one. is_discarded: the row was
    removed on request, so its files are freed as after a purge.
    """

    object_type: idents.PointerType
    namespace_id: int
    name: str
    dropped_at_ms: int = 0
    is_discarded: bool = False


class Dropped(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A dropped or unregistered table or view whose files are kept. A row of POINTERS.

    The sweep keeps what pointer, its last state, references while this row exists. kept_until_ms:
    when the sweep removes the row; None is never.
    """

    pointer: Pointer
    how: Departure
    dropped_at_ms: int
    dropped_by: str
    kept_until_ms: int | None


class DroppedNamespace(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A dropped namespace that can be restored with what was dropped with it. A row of POINTERS.

    namespaces: it and those in it with their paths, parents before their children. objects: type
    and uuid of the tables and views; each has a Dropped row of its own, from the same time, for as
    long as it is kept. kept_until_ms: when the sweep removes the row.
    """

    namespaces: tuple[tuple[tuple[str, ...], NamespaceRow], ...]
    objects: tuple[tuple[idents.PointerType, str], ...]
    dropped_at_ms: int
    dropped_by: str
    kept_until_ms: int


class NamespacePath(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The path of a namespace id. A row of NAMESPACES."""

    namespace: tuple[str, ...]


class LocationRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The owner of a location. A row of LOCATIONS, kept for as long as files may be there.

    reserved_until_ms: 0 once a table or view exists here; before that, a staged create of the table
    with this namespace_id and name reserves the location until then.
    """

    object_uuid: str
    object_type: idents.PointerType
    reserved_until_ms: int = 0
    namespace_id: int = 0
    name: str = ""


class Ref(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A branch and its newest commit. A row of REFS."""

    type: Literal["branch", "tag"]
    branch_id: int
    head: bytes
    state: Literal["live", "trash"] = "live"


class Op(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One changed key of a commit. before and after are whole rows as stored, or None."""

    object_type: ObjectType
    namespace: tuple[str, ...]
    name: str
    before: bytes | None
    after: bytes | None
    summary: dict[str, Any]


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One commit. A row of LOG. ops is the whole difference against the first parent."""

    parents: tuple[bytes, ...]
    branch: str
    author: str
    via: str
    message: str
    time_ms: int
    ops: tuple[Op, ...]


class IdempotencyRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The outcome of a request with an idempotency key. A row of IDEMPOTENCY.

    fingerprint: digest of operation and body. error: (type, message) of a final refusal.
    pointer: the result for a table or view, from which the response is built again.
    reply: JSON, the result of another request, or the metadata of a staged create.
    """

    fingerprint: bytes
    status: int
    expires_at_ms: int
    error: tuple[str, str] | None = None
    pointer: Pointer | None = None
    reply: bytes = b""


class LoadRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One source object that a table has loaded. A row of LOADS."""

    source: str
    etag: str
    snapshot_id: int
    taken_at_ms: int


class UnwrittenLoads(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A load whose rows are not all written yet. A row of LOADS, beside one with those rows.

    load_id: of this load alone. replacing: no other row of the table counts any more.
    """

    load_id: str
    replacing: bool


class SweepRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The result of the latest sweep of a table bucket. A row of JOBS.

    error: why it failed, "" if it did not. problems: the first of the problems_count files that
    could not be read.
    """

    started_at_ms: int
    ended_at_ms: int
    error: str
    problems: tuple[str, ...]
    problems_count: int


class MetricsRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One metrics report of a client, as received. A row of METRICS."""

    received_at_ms: int
    principal: str
    report: bytes


Row = TypeVar("Row", bound=msgspec.Struct)


def encode(row: msgspec.Struct) -> bytes:
    """Return a row's value."""
    return FORMAT + msgspec.msgpack.encode(row)


def decode(value: bytes, row_type: type[Row]) -> Row:
    """Return a row of row_type. Raises CorruptRecord if value is not one."""
    if value[:1] != FORMAT:
        raise storage_errors.CorruptRecord(
            f"A {row_type.__name__} has the unknown format {value[:1]!r}"
        )
    try:
        return msgspec.msgpack.decode(memoryview(value)[1:], type=row_type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise storage_errors.CorruptRecord(
            f"A {row_type.__name__} cannot be read: {error}"
        ) from error


@functools.lru_cache(POINTERS_REMEMBERED)
def decode_pointer(value: bytes) -> Pointer:
    """Return a pointer, as `decode` does. A commit asks for the same one three times."""
    return decode(value, Pointer)


def version_token(pointer: Pointer) -> str:
    """Return the token that changes whenever the pointer does."""
    return hashlib.blake2b(encode(pointer), digest_size=10).hexdigest()


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a hyphenated UUID. Raises ValueError."""
    if _UUID_TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a UUID")
    return bytes.fromhex(text.replace("-", ""))


# Keys of POINTERS.


def pointer_key(place: Place, object_type: ObjectType, namespace_id: int, name: str) -> bytes:
    """Return the key of a table, view or namespace.

    namespace_id: of the namespace that holds it; a namespace's own last level is its name.
    """
    return pointer_range(place, object_type, namespace_id) + name.encode()


def pointer_range(place: Place, object_type: ObjectType, namespace_id: int) -> bytes:
    """Return the prefix of the keys of all tables, views or namespaces in one namespace."""
    return _POINTERS(
        place.bucket.bucket_id, place.branch_id, _OBJECT_TYPES[object_type], namespace_id
    )


def name_of(key: bytes) -> str:
    """Return the name at the end of a pointer's key."""
    return key[13:].decode()


def uuid_key(place: Place, object_uuid: str) -> bytes:
    """Return the key of the current name of the table or view with this uuid."""
    return place.prefix + _UUID + uuid_bytes(object_uuid)


def gone_key(place: Place, object_uuid: str) -> bytes:
    """Return the key of the last name of a table or view with this uuid that no longer exists."""
    return place.prefix + _GONE + uuid_bytes(object_uuid)


def dropped_key(
    place: Place, namespace_id: int, name: str, dropped_at_ms: int, object_uuid: str
) -> bytes:
    """Return the key of a Dropped row, under the last name of its table or view."""
    suffix = _LONG(dropped_at_ms) + uuid_bytes(object_uuid)
    return dropped_range(place, namespace_id, name) + suffix


def dropped_range(place: Place, namespace_id: int | None = None, name: str | None = None) -> bytes:
    """Return the prefix of the keys of Dropped rows: all, or of one namespace or name.

    The rows of one name are in the order in which their tables were dropped.
    """
    prefix = place.prefix + _DROPPED
    if namespace_id is None:
        return prefix
    prefix += _INTEGER(namespace_id)
    return prefix if name is None else prefix + name.encode() + b"\x00"


def dropped_name(key: bytes) -> tuple[int, str]:
    """Return the namespace id and the name in the key of a Dropped row."""
    return int.from_bytes(key[9:13], "big"), key[13:-25].decode()


def dropped_namespace_key(place: Place, row: NamespaceRow, dropped_at_ms: int) -> bytes:
    """Return the key of a DroppedNamespace row."""
    suffix = _LONG(dropped_at_ms) + uuid_bytes(row.object_uuid)
    return dropped_namespace_range(place, row.namespace_id) + suffix


def dropped_namespace_range(place: Place, namespace_id: int | None = None) -> bytes:
    """Return the prefix of the keys of DroppedNamespace rows: all, or of one path in time order."""
    prefix = place.prefix + _DROPPED_NAMESPACE
    return prefix if namespace_id is None else prefix + _INTEGER(namespace_id)


def stop_after(prefix: bytes) -> bytes:
    """Return the first key after all those that start with prefix."""
    return prefix + b"\xff" * (511 - len(prefix))


# Keys of NAMESPACES, LOCATIONS, LOADS, METRICS.


def namespace_path_key(bucket_id: int, namespace: idents.Namespace) -> bytes:
    """Return the key of a namespace path's id."""
    return _INTEGER(bucket_id) + b"p" + idents.format_namespace(namespace).encode()


def namespace_id_key(bucket_id: int, namespace_id: int) -> bytes:
    """Return the key of a namespace id's path."""
    return _INTEGER(bucket_id) + b"i" + _INTEGER(namespace_id)


def namespace_count_key(bucket_id: int) -> bytes:
    """Return the key of the highest namespace id."""
    return _INTEGER(bucket_id) + b"c"


def encode_integer(value: int) -> bytes:
    """Return a 4-byte number, for keys and counters."""
    return _INTEGER(value)


def decode_integer(value: bytes) -> int:
    """Return the number in a counter's value."""
    return int.from_bytes(value, "big")


def location_key(bucket_id: int, path: str) -> bytes:
    """Return the key of a location's row."""
    return _INTEGER(bucket_id) + path.encode("utf-8", "surrogatepass") + b"/"


def interior_value() -> bytes:
    """Return the value of a LOCATIONS row which only records that locations are below its path."""
    return _INTERIOR


def load_key(bucket_id: int, object_uuid: str, source: str, etag: str) -> bytes:
    """Return the key of the row for a source that a table has loaded."""
    digest = hashlib.blake2b(
        source.encode("utf-8", "surrogatepass") + b"\x00" + etag.encode("utf-8", "surrogatepass"),
        digest_size=16,
    ).digest()
    return object_prefix(bucket_id, object_uuid) + digest


def unwritten_loads_key(bucket_id: int, object_uuid: str) -> bytes:
    """Return the key of a table's UnwrittenLoads. It sorts before the table's other LOADS rows."""
    return object_prefix(bucket_id, object_uuid)


def packed_loads_key(bucket_id: int, object_uuid: str) -> bytes:
    """Return the key of the row that holds the rows which UnwrittenLoads is about."""
    return object_prefix(bucket_id, object_uuid) + b"\x00"


def first_load_key(bucket_id: int, object_uuid: str) -> bytes:
    """Return a key behind both of these and before every row of a source."""
    return packed_loads_key(bucket_id, object_uuid) + b"\x00"


def object_prefix(bucket_id: int, object_uuid: str) -> bytes:
    """Return the prefix of one table's LOADS and METRICS rows."""
    return _INTEGER(bucket_id) + uuid_bytes(object_uuid)


def metrics_key(bucket_id: int, object_uuid: str, number: int) -> bytes:
    """Return the key of a table's report with this number."""
    return object_prefix(bucket_id, object_uuid) + _LONG(number)


def sweep_key(bucket_id: int) -> bytes:
    """Return the key in JOBS of the result of a table bucket's latest sweep."""
    return _INTEGER(bucket_id) + b"sweep"


# Keys of LOG, COMMITS, REFS.


def log_key(bucket_id: int, sequence: int) -> bytes:
    """Return the key of a commit in the log; sequence grows by one per commit of the bucket."""
    return _INTEGER(bucket_id) + _LONG(sequence)


def sequence_of(key: bytes) -> int:
    """Return the sequence in a log key."""
    return int.from_bytes(key[4:12], "big")


def bucket_prefix(bucket_id: int) -> bytes:
    """Return the prefix of one table bucket's LOG, COMMITS and REFS rows."""
    return _INTEGER(bucket_id)


def commit_key(bucket_id: int, commit_id: bytes) -> bytes:
    """Return the key of a commit's sequence."""
    return _INTEGER(bucket_id) + commit_id


def ref_key(bucket_id: int, name: str) -> bytes:
    """Return the key of a branch or tag."""
    return _INTEGER(bucket_id) + name.encode()


def encode_sequence(sequence: int) -> bytes:
    """Return the value of a COMMITS row."""
    return _LONG(sequence)


def decode_sequence(value: bytes) -> int:
    """Return the sequence in the value of a COMMITS row."""
    return int.from_bytes(value, "big")


# Keys of IDEMPOTENCY.


def idempotency_key(bucket_id: int, principal: str, key: str) -> bytes:
    """Return the key of the outcome of a principal's request with an idempotency key."""
    owner = hashlib.blake2b(principal.encode(), digest_size=8).digest()
    return b"k" + _INTEGER(bucket_id) + owner + uuid_bytes(key)


def expiry_key(expires_at_ms: int, key: bytes) -> bytes:
    """Return the key that lists an idempotency row by its expiry."""
    return b"t" + _LONG(expires_at_ms) + key


def expired_range(now_ms: int) -> tuple[bytes, bytes]:
    """Return start and stop of the expiry keys of expired rows."""
    return b"t", b"t" + _LONG(now_ms + 1)


def expired_row(key: bytes) -> bytes:
    """Return the key of the idempotency row that an expiry key lists."""
    return key[9:]
