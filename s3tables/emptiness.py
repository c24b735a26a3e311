"""rule: whether a table bucket may be deleted, read inside the very transaction that deletes it.

A bucket is empty when no namespace stands in it and no object is left but files of tables that
were deleted with their files: to their owner those are gone, though only the sweep frees them.
Files of a table that was merely dropped, and files of nobody, keep a bucket.
"""

from __future__ import annotations

from typing import Final

from catalog import claims, records
from s3tables import errors
from storage import batch, keys
from storage import model as storage_model
from storage import records as storage_records

LOCATIONS_MAX: Final = 100_000
"""Locations of deleted tables that are looked at; a bucket with more has to wait for the sweep."""


def check_empty(reading: batch.Reading, bucket: storage_model.BucketInfo) -> None:
    """Raise BucketNotEmpty unless nothing is lost when the table bucket is deleted.

    Of a deleted table's files the first is looked at and the rest are passed over: locations never
    overlap, so all of them go the same way.
    """
    place = records.Place(bucket=bucket)
    start = records.pointer_range(place, "namespace", records.ROOT_NAMESPACE_ID)
    for _ in reading.scan(batch.Store.POINTERS, start, records.stop_after(start)):
        raise errors.BucketNotEmpty
    purged: frozenset[str] | None = None
    passed: bytes | None = b""
    for _ in range(LOCATIONS_MAX):
        key = None if passed is None else _first_shown(reading, bucket.bucket_id, passed)
        if key is None:
            return
        found = claims.find_location(reading, bucket.bucket_id, key.decode())
        if found is None:
            raise errors.BucketNotEmpty
        if purged is None:
            purged = _purged(reading, bucket.bucket_id)
        if found[1].object_uuid not in purged:
            raise errors.BucketNotEmpty
        below = found[0].path.encode() + b"/"
        # A key that is the location itself lies before the location's neighbours.
        passed = keys.successor(below) if key.startswith(below) else key + b"\0"
    raise errors.BucketNotEmpty


def _first_shown(reading: batch.Reading, bucket_id: int, start: bytes) -> bytes | None:
    """Return the first key from start on whose object is not hidden by a tombstone."""
    for key, _, value in keys.walk(reading, batch.Store.OBJECTS, bucket_id, start):
        if not storage_records.is_tombstoned(value):
            return key
    return None


def _purged(reading: batch.Reading, bucket_id: int) -> frozenset[str]:
    """Return the object uuids of the tables that were deleted with their files, by the log."""
    purged: dict[str, bool] = {}
    start, stop = records.bucket_prefix(bucket_id), records.bucket_prefix(bucket_id + 1)
    for _, value in reading.scan(batch.Store.LOG, start, stop):
        for op in records.decode(value, records.LogRecord).ops:
            if op.kind != "namespace" and op.before is not None and op.after is None:
                dropped = records.decode(op.before, records.Pointer)
                purged[dropped.object_uuid] = op.summary.get("purge") is True
    return frozenset(object_uuid for object_uuid, gone in purged.items() if gone)
