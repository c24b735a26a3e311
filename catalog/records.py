"""rule: the catalog's rows in the index: their keys and their values.

docs/ON_DISK.md describes every one. A key starts with the 4-byte ids of table bucket and branch and
of the namespace's path, so that it stays below 511 bytes whatever the names are; ids are never used
twice. A value starts with a byte that names its format, then MessagePack arrays: a newer release
appends members, an older row lacks them and gets their defaults. Values are compared as bytes when
a commit expects a row to be unchanged, so encoding is deterministic.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from catalog import idents
from storage import errors as storage_errors
from storage import model

Kind: TypeAlias = Literal["table", "view", "namespace"]

MAIN_BRANCH: Final = "main"
MAIN_BRANCH_ID: Final = 1
ROOT_NAMESPACE_ID: Final = 0

FORMAT: Final = b"\x01"
"""First byte of every value below."""

_KINDS: Final[Mapping[Kind, bytes]] = {"namespace": b"n", "table": b"t", "view": b"v"}
_UUID = b"u"
_GONE = b"g"
_INTERIOR = FORMAT + b"interior"

_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_INTEGER = struct.Struct(">I").pack
_LONG = struct.Struct(">Q").pack
_POINTERS = struct.Struct(">IIcI").pack


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One branch of one table bucket: where rows are read and written."""

    bucket: model.BucketInfo
    branch: str = MAIN_BRANCH
    branch_id: int = MAIN_BRANCH_ID

    @property
    def table_bucket(self) -> str:
        """The table bucket's name."""
        return self.bucket.name

    @property
    def bucket_id(self) -> int:
        """The table bucket's id, which is never used twice."""
        return self.bucket.bucket_id

    @property
    def prefix(self) -> bytes:
        """What every pointer of the branch starts with."""
        return _INTEGER(self.bucket.bucket_id) + _INTEGER(self.branch_id)


class Pointer(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Where a table or view stands. A row of POINTERS, and `before` and `after` in the log.

    object_uuid: the thing across renames and branches. table_uuid: Iceberg's, None before the first
    metadata. location: `s3://table_bucket/path`.
    """

    kind: Literal["table", "view"]
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
    """Where the thing with an object uuid stands, or stood last. A row of POINTERS."""

    kind: Literal["table", "view"]
    namespace_id: int
    name: str


class NamespacePath(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a namespace id stands for. A row of NAMESPACES."""

    namespace: tuple[str, ...]


class LocationRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Who owns a location. A row of LOCATIONS, kept for as long as files may lie there.

    reserved_until_ms: 0 once a table or view stands here; before, a staged create of the thing
    named by namespace_id and name holds the place until then.
    """

    object_uuid: str
    kind: Literal["table", "view"]
    reserved_until_ms: int = 0
    namespace_id: int = 0
    name: str = ""


class Ref(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A branch and its newest commit. A row of REFS."""

    kind: Literal["branch", "tag"]
    branch_id: int
    head: bytes
    state: Literal["live", "trash"] = "live"


class Op(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One changed key of a commit. before and after are whole rows as stored, or None."""

    kind: Kind
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
    """What a request with an idempotency key came to. A row of IDEMPOTENCY.

    fingerprint: digest of operation and body. error: (type, message) of a final refusal.
    pointer: the result of a request on a table or view, whose reply is made anew from it.
    reply: JSON, the result of another request, or the metadata of a staged create.
    """

    fingerprint: bytes
    status: int
    expires_at_ms: int
    error: tuple[str, str] | None = None
    pointer: Pointer | None = None
    reply: bytes = b""


class LoadRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One source object that a table has taken in. A row of LOADS."""

    source: str
    etag: str
    snapshot_id: int
    taken_at_ms: int


class MetricsRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One metrics report of a client, as it came. A row of METRICS."""

    received_at_ms: int
    principal: str
    report: bytes


Row = TypeVar("Row", bound=msgspec.Struct)


def encode(row: msgspec.Struct) -> bytes:
    """Return a row's value."""
    return FORMAT + msgspec.msgpack.encode(row)


def decode(value: bytes, kind: type[Row]) -> Row:
    """Return a row of this kind. Raises CorruptRecord if value is not one."""
    if value[:1] != FORMAT:
        raise storage_errors.CorruptRecord(
            f"A {kind.__name__} has the unknown format {value[:1]!r}"
        )
    try:
        return msgspec.msgpack.decode(memoryview(value)[1:], type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise storage_errors.CorruptRecord(f"A {kind.__name__} cannot be read: {error}") from error


def version_token(pointer: Pointer) -> str:
    """Return the token that changes whenever the pointer does."""
    return hashlib.blake2b(encode(pointer), digest_size=10).hexdigest()


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a hyphenated UUID. Raises ValueError."""
    if _UUID_TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a UUID")
    return bytes.fromhex(text.replace("-", ""))


# Keys of POINTERS.


def pointer_key(place: Place, kind: Kind, namespace_id: int, name: str) -> bytes:
    """Return the key of a table, view or namespace.

    namespace_id: of the namespace that holds it; a namespace's own last level is its name.
    """
    return pointer_range(place, kind, namespace_id) + name.encode()


def pointer_range(place: Place, kind: Kind, namespace_id: int) -> bytes:
    """Return what the keys of all things of a kind in one namespace start with."""
    return _POINTERS(place.bucket.bucket_id, place.branch_id, _KINDS[kind], namespace_id)


def name_of(key: bytes) -> str:
    """Return the name at the end of a pointer's key."""
    return key[13:].decode()


def uuid_key(place: Place, object_uuid: str) -> bytes:
    """Return the key under which the thing with this uuid says where it stands."""
    return place.prefix + _UUID + uuid_bytes(object_uuid)


def gone_key(place: Place, object_uuid: str) -> bytes:
    """Return the key that holds the last name of a thing with this uuid that stands no more."""
    return place.prefix + _GONE + uuid_bytes(object_uuid)


def stop_after(prefix: bytes) -> bytes:
    """Return the first key after all those that start with prefix."""
    return prefix + b"\xff" * (511 - len(prefix))


# Keys of NAMESPACES, LOCATIONS, LOADS, METRICS.


def namespace_path_key(bucket_id: int, namespace: idents.Namespace) -> bytes:
    """Return the key that holds the id of a namespace path."""
    return _INTEGER(bucket_id) + b"p" + idents.format_namespace(namespace).encode()


def namespace_id_key(bucket_id: int, namespace_id: int) -> bytes:
    """Return the key that holds the path of a namespace id."""
    return _INTEGER(bucket_id) + b"i" + _INTEGER(namespace_id)


def namespace_count_key(bucket_id: int) -> bytes:
    """Return the key that holds the highest namespace id handed out."""
    return _INTEGER(bucket_id) + b"c"


def encode_integer(value: int) -> bytes:
    """Return a 4-byte number as keys and counters hold it."""
    return _INTEGER(value)


def decode_integer(value: bytes) -> int:
    """Return the number in a counter's value."""
    return int.from_bytes(value, "big")


def location_key(bucket_id: int, path: str) -> bytes:
    """Return the key of a location's row."""
    return _INTEGER(bucket_id) + path.encode("utf-8", "surrogatepass") + b"/"


def interior_value() -> bytes:
    """Return the value of a LOCATIONS row that only says: locations lie below this path."""
    return _INTERIOR


def load_key(bucket_id: int, object_uuid: str, source: str, etag: str) -> bytes:
    """Return the key under which a table remembers having taken in a source."""
    digest = hashlib.blake2b(
        source.encode("utf-8", "surrogatepass") + b"\x00" + etag.encode("utf-8", "surrogatepass"),
        digest_size=16,
    ).digest()
    return object_prefix(bucket_id, object_uuid) + digest


def object_prefix(bucket_id: int, object_uuid: str) -> bytes:
    """Return what the LOADS and METRICS rows of one table start with."""
    return _INTEGER(bucket_id) + uuid_bytes(object_uuid)


def metrics_key(bucket_id: int, object_uuid: str, number: int) -> bytes:
    """Return the key of a table's report number so and so."""
    return object_prefix(bucket_id, object_uuid) + _LONG(number)


# Keys of LOG, COMMITS, REFS.


def log_key(bucket_id: int, sequence: int) -> bytes:
    """Return the key of a commit in the log; sequence grows by one per commit of the bucket."""
    return _INTEGER(bucket_id) + _LONG(sequence)


def sequence_of(key: bytes) -> int:
    """Return the sequence in a log key."""
    return int.from_bytes(key[4:12], "big")


def bucket_prefix(bucket_id: int) -> bytes:
    """Return what the keys of LOG, COMMITS and REFS of one table bucket start with."""
    return _INTEGER(bucket_id)


def commit_key(bucket_id: int, commit_id: bytes) -> bytes:
    """Return the key that holds the sequence of a commit."""
    return _INTEGER(bucket_id) + commit_id


def ref_key(bucket_id: int, name: str) -> bytes:
    """Return the key of a branch or tag."""
    return _INTEGER(bucket_id) + name.encode()


def encode_sequence(sequence: int) -> bytes:
    """Return the value of a COMMITS row."""
    return _LONG(sequence)


# Keys of IDEMPOTENCY.


def idempotency_key(bucket_id: int, principal: str, key: str) -> bytes:
    """Return the key of what a principal's request with an idempotency key came to."""
    owner = hashlib.blake2b(principal.encode(), digest_size=8).digest()
    return b"k" + _INTEGER(bucket_id) + owner + uuid_bytes(key)


def expiry_key(expires_at_ms: int, key: bytes) -> bytes:
    """Return the key that lists an idempotency row by the time it may go."""
    return b"t" + _LONG(expires_at_ms) + key


def expired_range(now_ms: int) -> tuple[bytes, bytes]:
    """Return start and stop of the expiry keys of rows that have ended by now."""
    return b"t", b"t" + _LONG(now_ms + 1)


def expired_row(key: bytes) -> bytes:
    """Return the key of the idempotency row that an expiry key lists."""
    return key[9:]
