"""rule: what a put or a copy writes to the index, and when it is refused.

Each plan runs inside the writer's transaction. It checks the preconditions, takes over what the
replaced object leaves, and returns the new object with its writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from storage import bodies, conditions, errors, etags, keys, locks, lookups, records, versions
from storage.batch import Delete, Derivation, Put, Reading, Store, Write
from storage.model import (
    ALWAYS,
    Body,
    InlineBody,
    ObjectAttributes,
    ObjectInfo,
    Precondition,
    Received,
    Repeated,
    Segment,
    SegmentBody,
    Versioning,
)

Equal: TypeAlias = tuple[tuple[Segment, ...], Body]
"""The segments of a stored body, and a body that has the same bytes."""


class Unproven(Exception):
    """Two bodies have one length and one CRC, but no digests that prove them equal."""

    def __init__(self, message: str, *, equal: Equal) -> None:
        super().__init__(message)
        self.equal = equal


class NewObject(msgspec.Struct, frozen=True, kw_only=True):
    """A new object, except for the segments of its body."""

    size_bytes: int
    etag: str
    crc64nvme: int
    attributes: ObjectAttributes
    now_ms: int
    random_id: str
    row: str
    body: Received | None
    shared: tuple[Segment, ...]

    def record(
        self,
        segments: tuple[Segment, ...],
        before: records.ObjectRecord | None,
        bucket_row: bytes,
        *,
        versioning: Versioning | None,
    ) -> records.ObjectRecord:
        sequence, version_id = versions.identity(
            before,
            versioning,
            now_ms=self.now_ms,
            random_id=self.random_id,
        )
        return records.ObjectRecord(
            sequence=sequence,
            version_id=version_id,
            size_bytes=self.size_bytes,
            etag=self.etag,
            crc64nvme=self.crc64nvme,
            modified_at_ms=self.now_ms,
            segments=segments,
            attributes=locks.attributes_of_new(bucket_row, self.attributes, now_ms=self.now_ms),
        )


def plan_put(
    reading: Reading,
    bucket: str,
    bucket_id: int,
    bucket_row: bytes,
    key: str,
    encoded: bytes,
    new: NewObject,
    precondition: Precondition,
    equal: Equal | None,
) -> tuple[ObjectInfo, bool, Sequence[Write]]:
    """Check a write; return the object, whether its body is used, and the writes."""
    versioning = records.versioning(bucket_row)
    address, placing = keys.place(reading, Store.OBJECTS, bucket_id, encoded)
    value = reading.get(Store.OBJECTS, address)
    before = None if value is None else records.decode_object(value)
    check_write(precondition, key, before)
    if before is not None and precondition.write_once:
        assert versioning is None, "only table buckets have write-once keys, and no versions"
        return _plan_rewrite(bucket, bucket_row, key, address, before, new, equal)
    change = versions.plan_succession(reading, bucket_id, encoded, address, before, versioning)
    added: tuple[Segment, ...] = new.shared
    naming: tuple[Write, ...] = ()
    segments = new.shared
    if new.body is not None:
        segments, naming = bodies.name_new(new.body.body, row=new.row)
    counting = (
        bodies.recount(reading, added=added, removed=change.removed, now_ms=new.now_ms)
        if added or change.removed
        else ()
    )
    record = new.record(segments, before, bucket_row, versioning=versioning)
    writes: list[Write] = [
        *placing,
        *naming,
        *change.writes,
        *counting,
        Put(store=Store.OBJECTS, key=address, value=records.encode(record)),
        *note_acl(bucket, bucket_row, record.attributes),
    ]
    if before is not None and before.tombstoned_at_ms is not None:
        writes.append(Delete(store=Store.TOMBSTONES, key=address))
    return records.describe(bucket, key, record), True, writes


def note_acl(name: str, bucket_row: bytes, attributes: ObjectAttributes) -> tuple[Put, ...]:
    """Return the write that marks a bucket as one whose objects may have access control lists.

    Empty if the attributes of the new object have none, and after the first one.
    """
    if attributes.acl is None or records.has_acls(bucket_row):
        return ()
    return (Put(store=Store.BUCKETS, key=name.encode(), value=records.with_acls(bucket_row)),)


def _plan_rewrite(
    bucket: str,
    bucket_row: bytes,
    key: str,
    address: bytes,
    before: records.ObjectRecord,
    new: NewObject,
    equal: Equal | None,
) -> tuple[ObjectInfo, bool, Sequence[Write]]:
    """Write to a write-once key: identical bytes stay, and are no longer tombstoned.

    The attributes are the writer's, as in every other write; an identical write leaves the object
    as it is.
    """
    check_same(
        key,
        before,
        size_bytes=new.size_bytes,
        crc64nvme=new.crc64nvme,
        etag=new.etag,
        part_sizes_bytes=new.attributes.part_sizes_bytes,
        body=SegmentBody(segments=new.shared) if new.body is None else new.body.body,
        equal=equal,
    )
    if (before.etag, before.attributes) == (new.etag, new.attributes):
        after = records.with_tombstone(before, None)
    else:
        after = new.record(before.segments, before, bucket_row, versioning=None)
    stored = records.encode(after)
    info = records.object_info(bucket, key, stored)
    if after == before:
        return info, False, ()
    writes: list[Write] = [Put(store=Store.OBJECTS, key=address, value=stored)]
    if before.tombstoned_at_ms is not None:
        writes.append(Delete(store=Store.TOMBSTONES, key=address))
    return info, False, writes


def name_repeating(
    reading: Reading, bucket_id: int, body: Body, repeated: Repeated | None, new: NewObject
) -> tuple[tuple[Segment, ...], tuple[Write, ...]] | None:
    """Return the segments of a body beside the object that it repeats, if that is still there."""
    if repeated is None or not isinstance(body, InlineBody):
        return None
    value = lookups.find(reading, bucket_id, repeated.key)
    if value is None:
        return None
    return bodies.name_repeating(
        reading,
        body.data,
        repeats=repeated.repeats,
        other=records.decode_object(value).segments,
        row=new.row,
        now_ms=new.now_ms,
    )


def check_same(
    key: str,
    before: records.ObjectRecord,
    *,
    size_bytes: int,
    crc64nvme: int,
    etag: str,
    part_sizes_bytes: Sequence[int],
    body: Body,
    equal: Equal | None,
) -> None:
    """Raise ContentDiffers unless a body has the bytes of the object before; Unproven if unknown.

    A different length or CRC proves a difference, but a CRC can be forged. Equality is proved by an
    MD5 of the same bytes, by the same segments, or by an earlier comparison.
    """
    differs = errors.ContentDiffers(
        f"{key!r} exists with other bytes and is write-once", key=key, etag=before.etag
    )
    if (before.size_bytes, before.crc64nvme) != (size_bytes, crc64nvme):
        raise differs
    if body == SegmentBody(segments=before.segments) or (before.segments, body) == equal:
        return
    same = etags.same_bytes(before.etag, before.attributes.part_sizes_bytes, etag, part_sizes_bytes)
    if same is None:
        raise Unproven(str(differs), equal=(before.segments, body))
    if not same:
        raise differs


def check_write(precondition: Precondition, key: str, newest: records.ObjectRecord | None) -> None:
    """Raise NoSuchKey or PreconditionFailed if a write is not allowed.

    newest: the key's newest version; a delete marker is no object.
    """
    if precondition is ALWAYS:
        return
    is_object = newest is not None and not records.is_delete_marker(newest)
    conditions.check_write(
        precondition, key=key, etag=newest.etag if newest is not None and is_object else None
    )


def vacate_after(bucket_id: int, encoded: bytes) -> tuple[Derivation, ...]:
    """Return the derivations that follow every change that may have removed a row of the key."""
    if len(encoded) <= keys.CHUNK_BYTES:
        return ()
    return (lambda reading: keys.vacate(reading, bucket_id, encoded),)
