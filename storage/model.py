"""rule: the values that storage takes and returns.

All are frozen. Times are Unix milliseconds, sizes bytes, keys text whose UTF-8 form is 1 to 1,024
bytes long. Nothing here opens a file: a `FileSlice` only names a part of one.

ObjectInfo and its parts are msgspec Structs, because a page of a listing makes a thousand of each,
and a frozen dataclass costs five times as much. They hold plain values without cycles, so the
garbage collector need not track them. They are built, compared and matched like dataclasses;
`msgspec.structs.replace` makes a changed copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

NowMs: TypeAlias = Callable[[], int]
"""A clock: Unix milliseconds."""

NewId: TypeAlias = Callable[[], str]
"""A source of unique names: 32 lower-case hexadecimal digits, never the same twice."""

BucketType: TypeAlias = Literal["general", "table"]

ChecksumType: TypeAlias = Literal["FULL_OBJECT", "COMPOSITE"]

Versioning: TypeAlias = Literal["Enabled", "Suspended"]
"""Whether writes to a bucket keep the versions before them. A bucket has neither value until its
first change of it."""

NULL_VERSION = "null"
"""The version id of an object that was written while versioning was not enabled (S3's own word)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketInfo:
    """A bucket, general or table. bucket_id is never reused; settings is the faces' own JSON.

    versioning: None in a bucket that was never versioned. object_lock: it stays on. has_acls: an
    object of the bucket may have an access control list of its own; it stays on too.
    """

    name: str
    bucket_id: int
    type: BucketType
    owner: str
    region: str
    created_at_ms: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    versioning: Versioning | None = None
    object_lock: bool = False
    has_acls: bool = False


class Segment(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """length bytes of a blob, from offset on.

    blob: 32 hexadecimal digits. indexed: the blob is a row of the index, not a file.
    """

    blob: str
    offset: int
    length: int
    indexed: bool = False


class InlineBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body received but not yet stored, small enough for the index."""

    data: bytes


class SegmentBody(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A body made of blobs, in order; the empty body has no segment."""

    segments: tuple[Segment, ...]


Body: TypeAlias = InlineBody | SegmentBody


class SharedBytes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """length bytes of a new body, from start on, that are those of another body from `other` on."""

    start: int
    other: int
    length: int


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """Which bytes of a new body the object at key, in the same bucket, should hold already.

    The transaction compares the bytes and stores what differs. repeats: in order.
    """

    key: str
    repeats: tuple[SharedBytes, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSlice:
    """length bytes of the immutable file at path, from offset on."""

    path: Path
    offset: int
    length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteRange:
    """A half-open slice [start, stop) of a body; 0 <= start < stop <= size."""

    start: int
    stop: int


class Grant(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One grant of an access control list. grantee: a canonical id, or the URI of a group.

    permission: READ, WRITE, READ_ACP, WRITE_ACP or FULL_CONTROL.
    """

    grantee: str
    permission: str


class AccessControlList(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Who owns an object, and the permissions that its owner has granted.

    owner: the owner's canonical id. account: the owner's account; "" for an anonymous writer.
    """

    owner: str
    account: str
    grants: tuple[Grant, ...]


class ObjectAttributes(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The attributes that a writer gives an object.

    headers: stored response headers by lower-case name (content-type, cache-control, ...).
    user_metadata: x-amz-meta-* by lower-case name without that prefix.
    checksums: algorithm (of `storage.checksums`) -> base64 text as S3 shows it.
    checksum_type: FULL_OBJECT or COMPOSITE. tags: object tags. etag: None means the body's MD5.
    part_sizes_bytes: sizes of the parts of a multipart object, in order; empty otherwise.
    part_checksums: the parts' raw digests by the one algorithm of checksums, joined in order; empty
    if they are unknown.
    acl: None for a private object of the bucket's owner.
    """

    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    user_metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    checksums: Mapping[str, str] = msgspec.field(default_factory=dict)
    checksum_type: ChecksumType = "FULL_OBJECT"
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    storage_class: str = "STANDARD"
    owner: str = ""
    etag: str | None = None
    part_sizes_bytes: tuple[int, ...] = ()
    part_checksums: bytes = b""
    acl: AccessControlList | None = None


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One version of an object. etag is bare (no quotes); crc64nvme is the body's, an integer."""

    bucket: str
    key: str
    version_id: str
    size_bytes: int
    etag: str
    crc64nvme: int
    modified_at_ms: int
    attributes: ObjectAttributes
    body: SegmentBody
    tombstoned_at_ms: int | None = None


class Deleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of a deletion.

    version_id: of the delete marker that was written, or the version id that was asked for; None
    where an object of a bucket without versions was removed. is_delete_marker: a delete marker was
    written or removed.
    """

    version_id: str | None = None
    is_delete_marker: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object's row, as a walk read it. key: UTF-8. value: the row. segments: of its body."""

    key: bytes
    value: bytes
    size_bytes: int
    segments: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Precondition:
    """The condition that must hold at the moment a write becomes visible.

    if_match, if_none_match: lists of bare ETags, or ("*",); empty means no condition.
    write_once: an existing key accepts only identical bytes, which then stay where they are; the
    attributes become the writer's. Length, CRC64NVME and MD5 are compared, and the bytes
    themselves if the two have no MD5 of the same bytes.
    """

    if_match: tuple[str, ...] = ()
    if_none_match: tuple[str, ...] = ()
    write_once: bool = False


ALWAYS = Precondition()
"""No condition."""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A body that is durable but not yet named. digests: algorithm -> raw digest bytes."""

    body: Body
    size_bytes: int
    digests: Mapping[str, bytes]


class ListedObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object in a listing, without its key. checksum_algorithms: those of
    ObjectAttributes.checksums."""

    size_bytes: int
    etag: str
    modified_at_ms: int
    storage_class: str
    checksum_algorithms: tuple[str, ...]
    checksum_type: ChecksumType


class ListedVersion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A version in a listing of versions. A delete marker has size 0 and no ETag.

    owner: the canonical id of its owner; None for the bucket's.
    """

    key: str
    version_id: str
    is_latest: bool
    is_delete_marker: bool
    size_bytes: int
    etag: str
    modified_at_ms: int
    storage_class: str
    checksum_algorithms: tuple[str, ...]
    checksum_type: ChecksumType
    owner: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionPage:
    """One page of a bucket's versions, by key, then newest first.

    next_after: the key and the version marker after which the next page starts; the marker of a
    common prefix is "".
    """

    versions: tuple[ListedVersion, ...]
    common_prefixes: tuple[str, ...]
    next_after: tuple[str, str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPage:
    """A ListPage whose objects are keys in UTF-8 with their records, of which
    `records.listed_object` reads what a listing shows."""

    objects: tuple[tuple[bytes, bytes], ...]
    common_prefixes: tuple[str, ...]
    next_after: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListPage:
    """One page of a listing, in UTF-8 byte order of the keys.

    objects and common_prefixes together hold at most max_keys entries. next_after is the key or
    common prefix after which the next page starts, or None on the last page.
    """

    objects: tuple[ObjectInfo, ...]
    common_prefixes: tuple[str, ...]
    next_after: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PartInfo:
    """One part of an upload. etag is bare; checksums are base64 text by algorithm."""

    part_number: int
    etag: str
    size_bytes: int
    crc64nvme: int
    modified_at_ms: int
    checksums: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PartPage:
    """One page of an upload's parts; next_after is the part number the next page starts after."""

    parts: tuple[PartInfo, ...]
    next_after: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadInfo:
    """An unfinished multipart upload. checksum_algorithm None: the client named none."""

    bucket: str
    key: str
    upload_id: str
    initiated_at_ms: int
    attributes: ObjectAttributes
    checksum_algorithm: str | None
    checksum_type: ChecksumType


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPage:
    """One page of a bucket's uploads, by key, then by id; next_after is (key, upload id)."""

    uploads: tuple[UploadInfo, ...]
    common_prefixes: tuple[str, ...]
    next_after: tuple[str, str] | None
