"""rule: whether a table bucket may be deleted, read inside the very transaction that deletes it.

A bucket is empty when no namespace stands in it and no object is left but files of tables that
were deleted with their files: to their owner those are gone, though only the sweep frees them.
Files of a table that was merely dropped, and files of nobody, keep a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from catalog import claims, records
from s3tables import errors
from storage import batch, keys
from storage import model as storage_model
from storage import records as storage_records

LOCATIONS_MAX: Final = 100_000
"""Locations of deleted tables that are looked at; a bucket with more has to wait for the sweep."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Purged:
    """What the log said of deleted tables, up to one of its records.

    purges: by object uuid, whether the table was deleted with its files.
    """

    sequence: int
    purges: Mapping[str, bool]


def read_log(
    reading: batch.Reading, bucket: storage_model.BucketInfo, before: Purged | None = None
) -> Purged:
    """Return which tables were deleted with their files. before: what an earlier reading said.

    The whole log takes long, so it is read before the transaction, which reads what came since.
    """
    bucket_id = bucket.bucket_id
    sequence = 0 if before is None else before.sequence
    purges = {} if before is None else dict(before.purges)
    start, stop = records.log_key(bucket_id, sequence + 1), records.bucket_prefix(bucket_id + 1)
    for key, value in reading.scan(batch.Store.LOG, start, stop):
        sequence = records.sequence_of(key)
        for op in records.decode(value, records.LogRecord).ops:
            if op.kind != "namespace" and op.before is not None and op.after is None:
                dropped = records.decode(op.before, records.Pointer)
                purges[dropped.object_uuid] = op.summary.get("purge") is True
    return Purged(sequence=sequence, purges=purges)


def check_no_namespace(reading: batch.Reading, bucket: storage_model.BucketInfo) -> None:
    """Raise BucketNotEmpty if the table bucket has a namespace."""
    place = records.Place(bucket=bucket)
    start = records.pointer_range(place, "namespace", records.ROOT_NAMESPACE_ID)
    for _ in reading.scan(batch.Store.POINTERS, start, records.stop_after(start)):
        raise errors.BucketNotEmpty


def check_empty(
    reading: batch.Reading, bucket: storage_model.BucketInfo, before: Purged | None = None
) -> None:
    """Raise BucketNotEmpty unless nothing is lost when the table bucket is deleted.

    before: of the bucket's log, what was read of it so far.

    Of a deleted table's files the first is looked at and the rest are passed over: locations never
    overlap, so all of them go the same way.
    """
    check_no_namespace(reading, bucket)
    purges: Mapping[str, bool] | None = None
    passed: bytes | None = b""
    for _ in range(LOCATIONS_MAX):
        key = None if passed is None else _first_shown(reading, bucket.bucket_id, passed)
        if key is None:
            return
        found = claims.find_location(reading, bucket.bucket_id, key.decode())
        if found is None:
            raise errors.BucketNotEmpty
        if purges is None:
            purges = read_log(reading, bucket, before).purges
        if not purges.get(found[1].object_uuid, False):
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
