"""rule: whether a table bucket may be deleted.

A bucket is empty if it has no namespace and no objects except files of tables that were deleted
with their files. To their owner those files are gone, although only the sweep frees them. So are
those of a dropped view, which no API drops with purge. Files of a table that was dropped without
purge, and files of no table, keep the bucket. For a caller that may not purge, a dropped table
that can still be restored keeps it too (`check_none_restorable`), whichever API dropped it.

Finding out takes long where many tables were deleted, so `check_empty` reads a view, and the
transaction that deletes the bucket only checks that nothing changed since (`check_unchanged`).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from catalog import claims, departures, errors, history, records
from storage import batch, keys
from storage import errors as storage_errors
from storage import model as storage_model
from storage import records as storage_records

LOCATIONS_MAX: Final = 100_000
"""Locations of deleted tables that are examined; a bucket with more has to wait for the sweep."""

NOT_EMPTY: Final = "The table bucket is not empty"


@dataclass(frozen=True, kw_only=True, slots=True)
class Empty:
    """When a bucket was looked at. sequence: of its log. object_changes: as the index counts."""

    sequence: int
    object_changes: int


def read_purges(reading: batch.Reading, bucket: storage_model.BucketInfo) -> Mapping[str, bool]:
    """Return by object uuid whether a deleted table went with its files; True for a view."""
    purges: dict[str, bool] = {}
    place = records.Place(bucket=bucket)
    start = records.bucket_prefix(bucket.bucket_id)
    stop = records.bucket_prefix(bucket.bucket_id + 1)
    for _, value in reading.scan(batch.Store.LOG, start, stop):
        commit = records.decode(value, records.LogRecord)
        for op in commit.ops:
            if op.object_type == "namespace" or op.before is None:
                continue
            dropped = records.decode(op.before, records.Pointer)
            after = None if op.after is None else records.decode(op.after, records.Pointer)
            if after is None or after.object_uuid != dropped.object_uuid:
                is_purged = (
                    op.object_type == "view"
                    or op.summary.get("purge") is True
                    or commit.via == "s3tables"  # DeleteTable by a caller that may not purge
                    or departures.is_discarded(reading, place, dropped.object_uuid)
                )
                purges[dropped.object_uuid] = is_purged
    return purges


def check_none_restorable(
    reading: batch.Reading, bucket: storage_model.BucketInfo, *, now_ms: int
) -> None:
    """Raise DroppedTablesKept if a dropped or unregistered table of the bucket can be restored."""
    prefix = records.dropped_range(records.Place(bucket=bucket))
    for key, value in reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix)):
        row = records.decode(value, records.Dropped)
        until_ms = row.kept_until_ms
        if row.pointer.object_type != "table" or (until_ms is not None and until_ms <= now_ms):
            continue
        kept = (
            "was unregistered and can be registered again"
            if until_ms is None
            else f"was dropped and can be restored until {_minute(until_ms)}"
        )
        raise errors.DroppedTablesKept(
            f"The table {records.dropped_name(key)[1]} {kept}."
            " To delete its table bucket before needs lake:RunMaintenance"
        )


def check_no_namespace(reading: batch.Reading, bucket: storage_model.BucketInfo) -> None:
    """Raise TableBucketNotEmpty if the table bucket has a namespace."""
    place = records.Place(bucket=bucket)
    start = records.pointer_range(place, "namespace", records.ROOT_NAMESPACE_ID)
    for _ in reading.scan(batch.Store.POINTERS, start, records.stop_after(start)):
        raise errors.TableBucketNotEmpty(NOT_EMPTY)


def check_unchanged(
    reading: batch.Reading,
    bucket: storage_model.BucketInfo,
    seen: Empty,
    *,
    object_changes: int,
) -> None:
    """Raise ExpectationFailed unless a table bucket is as it was when it was looked at.

    reading: the transaction that deletes it. object_changes: as counted now. Reads one row.
    """
    sequence = history.last_sequence(reading, bucket.bucket_id)
    if Empty(sequence=sequence, object_changes=object_changes) != seen:
        raise storage_errors.ExpectationFailed(
            "the table bucket has changed", store=batch.Store.BUCKETS, key=bucket.name.encode()
        )


def check_empty(reading: batch.Reading, bucket: storage_model.BucketInfo) -> None:
    """Raise TableBucketNotEmpty if deleting the table bucket would lose a namespace or a file."""
    check_no_namespace(reading, bucket)
    check_no_file(reading, bucket)


def check_no_file(reading: batch.Reading, bucket: storage_model.BucketInfo) -> None:
    """Raise TableBucketNotEmpty if deleting the table bucket would lose a file.

    Only the first file of a deleted table is examined: locations never overlap, so the same answer
    holds for all files below one.
    """
    purges: Mapping[str, bool] | None = None
    passed: bytes | None = b""
    for _ in range(LOCATIONS_MAX):
        key = None if passed is None else _first_shown(reading, bucket.bucket_id, passed)
        if key is None:
            return
        claimed = claims.find_location(reading, bucket.bucket_id, key.decode())
        if claimed is None:
            raise errors.TableBucketNotEmpty(NOT_EMPTY)
        if purges is None:
            purges = read_purges(reading, bucket)
        if not purges.get(claimed[1].object_uuid, False):
            raise errors.TableBucketNotEmpty(NOT_EMPTY)
        below = claimed[0].path.encode() + b"/"
        # An object whose key is the location itself sorts before the keys below the location.
        passed = keys.successor(below) if key.startswith(below) else key + b"\0"
    raise errors.TableBucketNotEmpty(NOT_EMPTY)


def _first_shown(reading: batch.Reading, bucket_id: int, start: bytes) -> bytes | None:
    """Return the first key from start on whose object is not tombstoned."""
    for key, _, value in keys.walk(reading, batch.Store.OBJECTS, bucket_id, start):
        if not storage_records.is_tombstoned(value):
            return key
    return None


def _minute(time_ms: int) -> str:
    """Return the UTC minute of a time, `2026-05-04 12:30 UTC`."""
    moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
