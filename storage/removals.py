"""rule: what the removal of an object writes: deletions, delete markers and tombstones.

Each function runs inside the writer's transaction. A tombstone hides an object of a table bucket
from listings; the object is still served until the sweep of tables removes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from storage import bodies, errors, keys, locks, lookups, puts, records, versions
from storage.batch import Delete, Derivation, Put, Reading, Store, Write
from storage.model import ALWAYS, BucketInfo, Deleted, Precondition, Seen, Versioning

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """One deletion. version_id: the version to remove; None removes or hides the object.

    bypass_governance: the caller may remove a version in spite of its GOVERNANCE retention.
    precondition: judged on that version, or on the newest. judged_owner: the canonical id of the
    owner that the access control list of that version named when the removal was allowed, "" for
    none; None if the removal does not depend on it.
    """

    key: str
    version_id: str | None = None
    bypass_governance: bool = False
    precondition: Precondition = ALWAYS
    judged_owner: str | None = None


def plan_delete(
    reading: Reading,
    bucket_id: int,
    bucket_row: bytes,
    encoded: bytes,
    removal: Removal,
    *,
    now_ms: int,
    random_id: str,
    owner: str,
) -> tuple[Deleted, Sequence[Write]]:
    """Check a deletion; return its outcome and the writes.

    Raises ExpectationFailed if the version has another owner than the judged one.
    """
    version_id, versioning = removal.version_id, records.versioning(bucket_row)
    if version_id is not None:
        stored = versions.find(reading, bucket_id, encoded, version_id)
    else:
        stored = lookups.newest(reading, bucket_id, encoded)
    if removal.judged_owner is not None and removal.judged_owner != _owner_id(stored):
        raise errors.ExpectationFailed(
            f"the owner of {removal.key!r} has changed",
            store=Store.OBJECTS,
            key=removal.key.encode(),
        )
    if removal.precondition is not ALWAYS:
        judged = None if stored is None else records.decode_object(stored.value)
        puts.check_write(removal.precondition, removal.key, judged)
    if version_id is None and versioning is not None:
        return _plan_delete_marker(
            reading,
            bucket_id,
            versioning,
            encoded,
            stored,
            now_ms=now_ms,
            random_id=random_id,
            owner=owner,
        )
    if stored is None:
        return Deleted(version_id=version_id), ()
    if records.has_object_lock(bucket_row):
        record = records.decode_object(stored.value)
        locks.check_removal(record, now_ms=now_ms, bypass=removal.bypass_governance)
    is_delete_marker = records.has_delete_marker(stored.value)
    deleted = Deleted(version_id=version_id, is_delete_marker=is_delete_marker)
    return deleted, _plan_removal(reading, stored, versioning, now_ms=now_ms)


def _owner_id(stored: versions.Stored | None) -> str:
    """Return the canonical id of a version's owner, "" if no access control list names one."""
    acl = None if stored is None else records.decode_object(stored.value).attributes.acl
    return "" if acl is None else acl.owner


def _plan_delete_marker(
    reading: Reading,
    bucket_id: int,
    versioning: Versioning,
    encoded: bytes,
    newest: versions.Stored | None,
    *,
    now_ms: int,
    random_id: str,
    owner: str,
) -> tuple[Deleted, Sequence[Write]]:
    """Return the outcome and the writes of a deletion that writes a delete marker."""
    before = None if newest is None else records.decode_object(newest.value)
    marker = versions.delete_marker(
        before,
        versioning,
        now_ms=now_ms,
        random_id=random_id,
        owner=owner,
    )
    address, placing = keys.place(reading, Store.OBJECTS, bucket_id, encoded)
    change = versions.plan_succession(reading, bucket_id, encoded, address, before, versioning)
    deleted = Deleted(version_id=marker.version_id, is_delete_marker=True)
    return deleted, (
        *placing,
        *change.writes,
        *bodies.recount(reading, added=(), removed=change.removed, now_ms=now_ms),
        Put(store=Store.OBJECTS, key=address, value=records.encode(marker)),
    )


def _plan_removal(
    reading: Reading, stored: versions.Stored, versioning: Versioning | None, *, now_ms: int
) -> Sequence[Write]:
    """Return the writes that remove a version, and the tombstone of a tombstoned object."""
    change = versions.plan_removal(reading, stored, versioning)
    writes = list(change.writes)
    if records.is_tombstoned(stored.value):
        writes.append(Delete(store=Store.TOMBSTONES, key=stored.address))
    writes.extend(bodies.recount(reading, added=(), removed=change.removed, now_ms=now_ms))
    return writes


def derive_removal(bucket_id: int, encoded: bytes, *, now_ms: int) -> tuple[Derivation, ...]:
    """Return the derivations that remove an object of a table bucket, which has no versions."""

    def derive(reading: Reading) -> Sequence[Write]:
        stored = lookups.newest(reading, bucket_id, encoded)
        return () if stored is None else _plan_removal(reading, stored, None, now_ms=now_ms)

    return (derive, *puts.vacate_after(bucket_id, encoded))


def derive_tombstone(bucket_id: int, encoded: bytes, *, by: str, now_ms: int) -> Derivation:
    """Return the derivation that writes a tombstone for an object that has none."""

    def derive(reading: Reading) -> Sequence[Write]:
        address = keys.locate(reading, bucket_id, encoded)
        value = None if address is None else reading.get(Store.OBJECTS, address)
        record = None if value is None else records.decode_object(value)
        if address is None or record is None or record.tombstoned_at_ms is not None:
            return ()
        hidden = records.with_tombstone(record, now_ms)
        _, placing = keys.place(reading, Store.TOMBSTONES, bucket_id, encoded)
        tombstone = records.TombstoneRecord(at_ms=now_ms, by=by)
        return (
            *placing,
            Put(store=Store.OBJECTS, key=address, value=records.encode(hidden)),
            Put(store=Store.TOMBSTONES, key=address, value=records.encode(tombstone)),
        )

    return derive


def derive_no_tombstone(bucket_id: int, encoded: bytes) -> Derivation:
    """Return the derivation that removes an object's tombstone."""

    def derive(reading: Reading) -> Sequence[Write]:
        address = keys.locate(reading, bucket_id, encoded)
        value = None if address is None else reading.get(Store.OBJECTS, address)
        if address is None or value is None:
            return ()
        shown = records.with_tombstone(records.decode_object(value), None)
        return (
            Put(store=Store.OBJECTS, key=address, value=records.encode(shown)),
            Delete(store=Store.TOMBSTONES, key=address),
        )

    return derive


def portions(
    some: Sequence[Item], segments: Sequence[int], *, count_max: int, segments_max: int
) -> Iterator[Sequence[Item]]:
    """Yield items in order, as many together as may be removed at once: one, or more with at most
    segments_max segments. segments: of each item's body."""
    start = total = 0
    for number, added in enumerate(segments):
        total += added
        if number > start and (number - start == count_max or total > segments_max):
            yield some[start:number]
            start, total = number, added
    if some:
        yield some[start:]


def is_unchanged(reading: Reading, bucket: BucketInfo, seen: Seen) -> bool:
    """Return whether an object's row is the one in `seen`."""
    address = keys.locate(reading, bucket.bucket_id, seen.key)
    return address is not None and reading.get(Store.OBJECTS, address) == seen.value


def tombstoned_by(reading: Reading, bucket: BucketInfo, seen: Seen) -> str | None:
    """Return the principal that wrote an object's tombstone."""
    address = keys.locate(reading, bucket.bucket_id, seen.key)
    value = None if address is None else reading.get(Store.TOMBSTONES, address)
    return None if value is None else records.decode_tombstone(value).by
