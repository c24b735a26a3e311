"""rule: the index's records, byte for byte; every record has a format version.

A record is one byte of format version, one byte of flags, and a MessagePack array. New fields go to
the array's end with a default, so that older records can be read; a shape that cannot be extended
gets a new version number and a decoder beside the old one, which stays for ever. The flags give a
listing what it needs of an object without decoding. docs/ON_DISK.md describes each record, and
tests/storage/test_records.py has their exact bytes.

Never reads the index: bytes in, values out. A record that cannot be decoded raises CorruptRecord.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from storage import errors, lifecycle
from storage.model import (
    AccessControlList,
    BucketInfo,
    BucketType,
    ChecksumType,
    ListedObject,
    ListedVersion,
    ObjectAttributes,
    ObjectInfo,
    Segment,
    SegmentBody,
    Versioning,
)

VERSION = 1
HEAD_BYTES = 2
FLAG_TOMBSTONED = 1
"""Flag of an object that listings hide and only the sweep may remove."""
FLAG_DELETE_MARKER = 2
"""Flag of a version that is a delete marker."""
FLAG_ACL = 4
"""Flag of an object that has an access control list: a listing shows its own owner."""
FLAGS_HIDDEN = FLAG_TOMBSTONED | FLAG_DELETE_MARKER
"""Flags of what a listing of objects does not show."""

FLAGS_VERSIONING = 3
"""Flags of a bucket: a write reads the bucket's versioning without decoding the record."""
FLAG_OBJECT_LOCK = 4
"""Flag of a bucket whose versions may be locked."""
FLAG_ACLS = 8
"""Flag of a bucket of which an object has, or had, an access control list."""
FLAG_ACLS_KNOWN = 16
"""Flag of every bucket's row since releases have access control lists; see `decode_bucket`."""
OWNERSHIP_CONTROLS = "ownership_controls"
OWNER_ENFORCED = "BucketOwnerEnforced"
BUCKET_ACL = "acl"
"""Settings of a bucket that are about access control lists: its ownership controls, the value under
which no list counts, and its own list."""
_FLAG_OF_VERSIONING: Mapping[Versioning | None, int] = {None: 0, "Enabled": 1, "Suspended": 2}
_VERSIONING_OF_FLAG: Mapping[int, Versioning | None] = {0: None, 1: "Enabled", 2: "Suspended"}

INFOS_REMEMBERED = 4096
INFO_BYTES_REMEMBERED_MAX = 1024
"""How many objects are remembered, and the longest record of one."""

_VERSION_BYTE = bytes((VERSION,))


class ObjectRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Store.OBJECTS: the newest version of a key. Store.VERSIONS: an older one.

    sequence: orders the versions of a key, greater is newer. etag: "" for a delete marker, which
    has no body. upload_id: of the multipart upload that completed as this object, so that a
    repeated completion is recognised.
    """

    sequence: int
    version_id: str
    size_bytes: int
    etag: str
    crc64nvme: int
    modified_at_ms: int
    segments: tuple[Segment, ...]
    attributes: ObjectAttributes
    tombstoned_at_ms: int | None = None
    upload_id: str | None = None


class _ListedAttributes(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The fields of ObjectAttributes that a listing shows."""

    headers: msgspec.Raw
    user_metadata: msgspec.Raw
    checksums: dict[str, str]
    checksum_type: ChecksumType
    tags: msgspec.Raw
    storage_class: str


class _ListedRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The fields of an ObjectRecord that a listing shows."""

    sequence: int
    version_id: msgspec.Raw
    size_bytes: int
    etag: str
    crc64nvme: int
    modified_at_ms: int
    segments: msgspec.Raw
    attributes: _ListedAttributes


class _Sequence(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The first field of an ObjectRecord; the others are skipped."""

    sequence: int


class BucketRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.BUCKETS: settings is the faces' own JSON. The flags hold the bucket's versioning."""

    bucket_id: int
    type: BucketType
    owner: str
    region: str
    created_at_ms: int
    settings: dict[str, Any]


class _BucketId(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The first field of a BucketRecord; the others are skipped."""

    bucket_id: int


class BlobRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.BLOBS: references to a blob. A blob in the index has a row from two on."""

    references: int
    size_bytes: int


class UploadRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.UPLOADS: an unfinished multipart upload."""

    initiated_at_ms: int
    attributes: ObjectAttributes
    checksum_algorithm: str | None
    checksum_type: ChecksumType


class PartRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.PARTS: one part of an upload."""

    etag: str
    size_bytes: int
    crc64nvme: int
    modified_at_ms: int
    segments: tuple[Segment, ...]
    checksums: dict[str, str]


class TombstoneRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.TOMBSTONES: the principal that deleted an object, and when."""

    at_ms: int
    by: str


class SettingsRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.SETTINGS: settings of a table, or the policy of a table bucket, as the faces' JSON."""

    settings: dict[str, Any]


class ReleasedRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.RELEASED: an item that no record names, to be freed once its readers are done.

    what: "file" (a blob), "row" (a blob in the index) or "bucket" (all rows of a deleted bucket,
    named by its id in decimal).
    """

    what: str
    name: str


class LifecycleRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Store.LIFECYCLES: a bucket's lifecycle rules, in the order in which they were put.

    transition_minimum: S3's name for the least size of what transitions move.
    """

    rules: tuple[lifecycle.LifecycleRule, ...]
    transition_minimum: str = lifecycle.MINIMUM


Record = TypeVar("Record", bound=msgspec.Struct)

_flags = operator.itemgetter(1)
_encoder = msgspec.msgpack.Encoder()
_objects = msgspec.msgpack.Decoder(ObjectRecord)
_listed = msgspec.msgpack.Decoder(_ListedRecord)
_sequences = msgspec.msgpack.Decoder(_Sequence)
_buckets = msgspec.msgpack.Decoder(BucketRecord)
_bucket_ids = msgspec.msgpack.Decoder(_BucketId)
_blobs = msgspec.msgpack.Decoder(BlobRecord)
_uploads = msgspec.msgpack.Decoder(UploadRecord)
_parts = msgspec.msgpack.Decoder(PartRecord)
_tombstones = msgspec.msgpack.Decoder(TombstoneRecord)
_releases = msgspec.msgpack.Decoder(ReleasedRecord)
_settings = msgspec.msgpack.Decoder(SettingsRecord)
_lifecycles = msgspec.msgpack.Decoder(LifecycleRecord)


def encode(record: msgspec.Struct) -> bytes:
    """Return the record's bytes, flags included; for a bucket's record see `encode_bucket`."""
    flags = 0
    if isinstance(record, ObjectRecord):
        if record.tombstoned_at_ms is not None:
            flags = FLAG_TOMBSTONED
        if is_delete_marker(record):
            flags |= FLAG_DELETE_MARKER
        if record.attributes.acl is not None:
            flags |= FLAG_ACL
    return bytes((VERSION, flags)) + _encoder.encode(record)


def encode_bucket(
    record: BucketRecord,
    versioning: Versioning | None,
    *,
    object_lock: bool,
    acls: bool = False,
) -> bytes:
    """Return the bytes of a bucket's record. acls: an object of it may have an ACL."""
    flags = _FLAG_OF_VERSIONING[versioning] | FLAG_ACLS_KNOWN
    if object_lock:
        flags |= FLAG_OBJECT_LOCK
    if acls:
        flags |= FLAG_ACLS
    return bytes((VERSION, flags)) + _encoder.encode(record)


def with_acls(value: bytes) -> bytes:
    """Return a bucket's record with the flag that its objects may have ACLs."""
    return bytes((value[0], value[1] | FLAG_ACLS)) + value[HEAD_BYTES:]


def decode_object(value: bytes) -> ObjectRecord:
    """Return an object's record."""
    return _decode(_objects, value)


def decode_bucket(value: bytes) -> BucketRecord:
    """Return a bucket's record.

    A general bucket of a release without access control lists gets the ownership controls under
    which none counts: its owner has never agreed to lists. The next change of it stores them.
    """
    record = _decode(_buckets, value)
    if value[1] & (FLAG_ACLS_KNOWN | FLAG_ACLS) or record.type != "general":
        return record
    if OWNERSHIP_CONTROLS in record.settings or BUCKET_ACL in record.settings:
        return record
    settings = {**record.settings, OWNERSHIP_CONTROLS: OWNER_ENFORCED}
    return msgspec.structs.replace(record, settings=settings)


def decode_blob(value: bytes) -> BlobRecord:
    """Return a blob's record."""
    return _decode(_blobs, value)


def decode_upload(value: bytes) -> UploadRecord:
    """Return an upload's record."""
    return _decode(_uploads, value)


def decode_part(value: bytes) -> PartRecord:
    """Return a part's record."""
    return _decode(_parts, value)


def decode_tombstone(value: bytes) -> TombstoneRecord:
    """Return a tombstone's record."""
    return _decode(_tombstones, value)


def decode_released(value: bytes) -> ReleasedRecord:
    """Return the record of something released."""
    return _decode(_releases, value)


def decode_settings(value: bytes) -> SettingsRecord:
    """Return the settings of a table, or the policy of a table bucket."""
    return _decode(_settings, value)


def decode_lifecycle(value: bytes) -> LifecycleRecord:
    """Return the record of a bucket's lifecycle rules."""
    return _decode(_lifecycles, value)


def is_tombstoned(value: bytes) -> bool:
    """Return whether an object's record is tombstoned, without decoding it."""
    return value[1] & FLAG_TOMBSTONED != 0


def is_hidden(value: bytes) -> bool:
    """Return whether a listing of objects leaves out an object's record, without decoding it."""
    return value[1] & FLAGS_HIDDEN != 0


def has_delete_marker(value: bytes) -> bool:
    """Return whether a version's record is a delete marker, without decoding it."""
    return value[1] & FLAG_DELETE_MARKER != 0


def is_delete_marker(record: ObjectRecord) -> bool:
    """Return whether a version is a delete marker."""
    return not record.etag


def sequence(value: bytes) -> int:
    """Return the sequence in a version's record, without decoding the rest."""
    return _decode(_sequences, value).sequence


def versioning(value: bytes) -> Versioning | None:
    """Return the versioning in a bucket's record, without decoding it."""
    return _VERSIONING_OF_FLAG[value[1] & FLAGS_VERSIONING]


def any_flagged(values: Iterable[bytes]) -> bool:
    """Return whether one of some records has a flag, without decoding them."""
    return any(map(_flags, values))


def has_object_lock(value: bytes) -> bool:
    """Return whether a bucket's record says that versions may be locked, without decoding it."""
    return value[1] & FLAG_OBJECT_LOCK != 0


def has_acls(value: bytes) -> bool:
    """Return whether an object of a bucket may have an ACL, by the bucket's record."""
    return value[1] & FLAG_ACLS != 0


def acl_owner(value: bytes) -> str | None:
    """Return the canonical id of the owner in an object's record; None for the bucket's owner."""
    if value[1] & FLAG_ACL == 0:
        return None
    acl = decode_object(value).attributes.acl
    return None if acl is None else acl.owner


def with_tombstone(record: ObjectRecord, tombstoned_at_ms: int | None) -> ObjectRecord:
    """Return the record tombstoned at that time, or not tombstoned."""
    return msgspec.structs.replace(record, tombstoned_at_ms=tombstoned_at_ms)


def with_segments(record: ObjectRecord, segments: tuple[Segment, ...]) -> ObjectRecord:
    """Return the record with other segments of the same bytes."""
    return msgspec.structs.replace(record, segments=segments)


def with_tags(record: ObjectRecord, tags: Mapping[str, str]) -> ObjectRecord:
    """Return the record with other tags."""
    return with_attributes(record, msgspec.structs.replace(record.attributes, tags=dict(tags)))


def with_acl(record: ObjectRecord, acl: AccessControlList | None) -> ObjectRecord:
    """Return the record with another access control list, or with none."""
    return with_attributes(record, msgspec.structs.replace(record.attributes, acl=acl))


def with_attributes(record: ObjectRecord, attributes: ObjectAttributes) -> ObjectRecord:
    """Return the record with other attributes."""
    return msgspec.structs.replace(record, attributes=attributes)


def bucket_id(value: bytes) -> int:
    """Return the id in a bucket's record, without decoding the rest."""
    return _decode(_bucket_ids, value).bucket_id


def object_info(bucket: str, key: str, value: bytes) -> ObjectInfo:
    """Return the object that a record describes.

    Objects are read again, so the same record gives the same value for as long as it is remembered.
    """
    if len(value) > INFO_BYTES_REMEMBERED_MAX:
        return _object_info(bucket, key, value)
    return _remembered_info(bucket, key, value)


def _object_info(bucket: str, key: str, value: bytes) -> ObjectInfo:
    return describe(bucket, key, decode_object(value))


def describe(bucket: str, key: str, record: ObjectRecord) -> ObjectInfo:
    """Return the object of a record that was just made or decoded."""
    return ObjectInfo(
        bucket=bucket,
        key=key,
        version_id=record.version_id,
        size_bytes=record.size_bytes,
        etag=record.etag,
        crc64nvme=record.crc64nvme,
        modified_at_ms=record.modified_at_ms,
        attributes=record.attributes,
        body=SegmentBody(segments=record.segments),
        tombstoned_at_ms=record.tombstoned_at_ms,
    )


_remembered_info = functools.lru_cache(INFOS_REMEMBERED)(_object_info)


def listed_object(value: bytes) -> ListedObject:
    """Return what a listing says of an object, without decoding the rest."""
    record = _decode(_listed, value)
    attributes = record.attributes
    return ListedObject(
        size_bytes=record.size_bytes,
        etag=record.etag,
        modified_at_ms=record.modified_at_ms,
        storage_class=attributes.storage_class,
        checksum_algorithms=tuple(attributes.checksums),
        checksum_type=attributes.checksum_type,
    )


def listed_version(key: str, value: bytes, *, is_latest: bool) -> ListedVersion:
    """Return what a listing of versions says of a version."""
    record = decode_object(value)
    attributes = record.attributes
    return ListedVersion(
        key=key,
        version_id=record.version_id,
        is_latest=is_latest,
        is_delete_marker=is_delete_marker(record),
        size_bytes=record.size_bytes,
        etag=record.etag,
        modified_at_ms=record.modified_at_ms,
        storage_class=attributes.storage_class,
        checksum_algorithms=tuple(attributes.checksums),
        checksum_type=attributes.checksum_type,
        owner=None if attributes.acl is None else attributes.acl.owner,
    )


def bucket_info(name: str, value: bytes) -> BucketInfo:
    """Return the bucket that a record describes."""
    record = decode_bucket(value)
    settings: Mapping[str, Any] = record.settings
    return BucketInfo(
        name=name,
        bucket_id=record.bucket_id,
        type=record.type,
        owner=record.owner,
        region=record.region,
        created_at_ms=record.created_at_ms,
        settings=settings,
        versioning=versioning(value),
        object_lock=has_object_lock(value),
        has_acls=has_acls(value),
    )


def _decode(decoder: msgspec.msgpack.Decoder[Record], value: bytes) -> Record:
    if value[:1] != _VERSION_BYTE:
        raise errors.CorruptRecord(
            f"a stored record has format version {value[:1].hex() or 'none'}, "
            f"this release reads up to {VERSION:02x}"
        )
    try:
        return decoder.decode(value[HEAD_BYTES:])  # a copy, but cheaper than a view of so little
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise errors.CorruptRecord(f"a stored record cannot be read: {error}") from error
