"""rule: claims a location for one table or view, so that no other can be at, inside or around it.

A claim is a Batch that expects the rows on which it was decided, so of two overlapping claims only
one commits. Rows outlive their tables, because files do. A location whose owner was dropped can be
claimed by name, by a caller with rights on its files, but is never chosen as a default. The same
holds for a location that has files and never had an owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog import errors, idents, layout, locations, owners, records
from storage import batch, keys
from storage import errors as storage_errors
from storage import records as storage_records

HIDDEN_MAX: Final = 1_000
"""Directory markers and tombstones that are skipped to find a file below a location."""


def claim(
    reading: batch.Reading,
    place: records.Place,
    path: str,
    *,
    object_uuid: str,
    object_type: idents.PointerType,
    namespace_id: int,
    name: str,
    now_ms: int,
    permit: owners.Permit,
    standing_uuid: str | None = None,
    reserved_until_ms: int = 0,
) -> batch.Batch:
    """Return the Batch that gives path to the table or view with object_uuid.

    namespace_id, name: of the table; it may take over a staged create of the same name. permit:
    called for every other owner of the path, and for files there that have none. standing_uuid: of
    the current table, whose own locations need no permission. reserved_until_ms: not 0 for a
    staged create. Raises InvalidLocation if path is not free, and permit's errors.
    """
    key = records.location_key(place.bucket_id, path)
    value = reading.get(batch.Store.LOCATIONS, key)
    expects = [batch.Expect(store=batch.Store.LOCATIONS, key=key, value=value)]
    if value == records.interior_value():
        raise _overlap(place, path, "other locations lie inside it")
    derive: list[batch.Derivation] = []
    is_own = False
    if value is not None:
        row = records.decode(value, records.LocationRow)
        is_own = row.object_uuid == standing_uuid
        if not is_own:
            if not _is_staged_for(row, namespace_id=namespace_id, name=name):
                permit(path, owners.owner_of(reading, place, row))
            if is_held(reading, place, row, namespace_id=namespace_id, name=name, now_ms=now_ms):
                raise _overlap(place, path, "it is the location of another table or view")
            expects.extend(owners.expect(reading, place, row.object_uuid))
    for above in locations.ancestors(path):
        above_key = records.location_key(place.bucket_id, above)
        above_value = reading.get(batch.Store.LOCATIONS, above_key)
        if above_value is None or above_value == records.interior_value():
            derive.append(_enclosing(above_key))
            continue
        row = records.decode(above_value, records.LocationRow)
        if row.object_uuid not in (standing_uuid, object_uuid):
            permit(path, owners.owner_of(reading, place, row))
            raise _overlap(place, path, f"it lies inside the location {above}")
        is_own = True
        expects.append(batch.Expect(store=batch.Store.LOCATIONS, key=above_key, value=above_value))
    if value is None and not is_own:
        if holds_files(reading, place, path):
            permit(path, None)
        else:
            derive.append(_staying_empty(place, path))
    own = records.LocationRow(
        object_uuid=object_uuid,
        object_type=object_type,
        reserved_until_ms=reserved_until_ms,
        namespace_id=namespace_id,
        name=name,
    )
    return batch.Batch(
        expects=tuple(expects),
        writes=(batch.Put(store=batch.Store.LOCATIONS, key=key, value=records.encode(own)),),
        derive=tuple(derive),
    )


def holds_files(reading: batch.Reading, place: records.Place, path: str) -> bool:
    """Return whether path has objects below it besides directory markers and tombstones.

    A path whose first objects are more than HIDDEN_MAX of those counts as holding files.
    """
    prefix = f"{path}/".encode("utf-8", "surrogatepass")
    rows = keys.walk(reading, batch.Store.OBJECTS, place.bucket_id, prefix)
    for number, (key, _, value) in enumerate(rows):
        if not key.startswith(prefix):
            return False
        if number >= HIDDEN_MAX or not (key.endswith(b"/") or storage_records.is_tombstoned(value)):
            return True
    return False


def _enclosing(key: bytes) -> batch.Derivation:
    """Return the derivation that records locations below an ancestor that is not a location."""

    def note(reading: batch.Reading) -> Sequence[batch.Write]:
        value = reading.get(batch.Store.LOCATIONS, key)
        if value == records.interior_value():
            return ()
        if value is not None:
            raise _changed(batch.Store.LOCATIONS, key)
        return (batch.Put(store=batch.Store.LOCATIONS, key=key, value=records.interior_value()),)

    return note


def _staying_empty(place: records.Place, path: str) -> batch.Derivation:
    """Return the derivation that raises if files were written below path, and writes nothing."""

    def check(reading: batch.Reading) -> Sequence[batch.Write]:
        if holds_files(reading, place, path):
            raise _changed(batch.Store.OBJECTS, path.encode("utf-8", "surrogatepass"))
        return ()

    return check


def _changed(store: batch.Store, key: bytes) -> storage_errors.ExpectationFailed:
    return storage_errors.ExpectationFailed(
        f"{store.value} does not have the expected value", store=store, key=key
    )


def was_used(reading: batch.Reading, place: records.Place, path: str) -> bool:
    """Return whether path was ever a location, or has locations or files inside it."""
    key = records.location_key(place.bucket_id, path)
    if reading.get(batch.Store.LOCATIONS, key) is not None:
        return True
    return holds_files(reading, place, path)


def find_claimable(
    reading: batch.Reading,
    place: records.Place,
    path: str,
    *,
    namespace_id: int,
    name: str,
    now_ms: int,
) -> records.LocationRow | None:
    """Return the row of a path whose owner is gone, or that is staged for this very name."""
    value = reading.get(batch.Store.LOCATIONS, records.location_key(place.bucket_id, path))
    if value is None or value == records.interior_value():
        return None
    row = records.decode(value, records.LocationRow)
    if is_held(reading, place, row, namespace_id=namespace_id, name=name, now_ms=now_ms):
        return None
    return row


def read_owner(
    reading: batch.Reading, place: records.Place, path: str
) -> tuple[str | None, batch.Batch]:
    """Return the object uuid that has path as its location, gone or not; None without one.

    The Batch writes nothing and expects that the location keeps this owner.
    """
    key = records.location_key(place.bucket_id, path)
    value = reading.get(batch.Store.LOCATIONS, key)
    seen = batch.Batch(expects=(batch.Expect(store=batch.Store.LOCATIONS, key=key, value=value),))
    if value is None or value == records.interior_value():
        return None, seen
    return records.decode(value, records.LocationRow).object_uuid, seen


def is_held(
    reading: batch.Reading,
    place: records.Place,
    row: records.LocationRow,
    *,
    namespace_id: int,
    name: str,
    now_ms: int,
) -> bool:
    """Return whether a location belongs to an existing table, or is staged for another name."""
    owner = reading.get(batch.Store.POINTERS, records.uuid_key(place, row.object_uuid))
    if owner is not None:
        return True
    is_staged = row.reserved_until_ms > now_ms
    return is_staged and not _is_staged_for(row, namespace_id=namespace_id, name=name)


def _is_staged_for(row: records.LocationRow, *, namespace_id: int, name: str) -> bool:
    """Return whether a location is reserved for this name and was never used otherwise."""
    return row.reserved_until_ms > 0 and (row.namespace_id, row.name) == (namespace_id, name)


def find_location(
    reading: batch.Reading, bucket_id: int, key: str
) -> tuple[layout.Location, records.LocationRow] | None:
    """Return the longest registered location at or above an object's key, and its row."""
    rows_by_path: dict[str, records.LocationRow] = {}

    def location_at(path: str) -> layout.Location | None:
        location_key = records.location_key(bucket_id, path)
        if len(location_key) > locations.PATH_BYTES_MAX + 5:
            return None
        value = reading.get(batch.Store.LOCATIONS, location_key)
        if value is None or value == records.interior_value():
            return None
        rows_by_path[path] = records.decode(value, records.LocationRow)
        return layout.Location(path=path, object_type=rows_by_path[path].object_type)

    location = layout.find_location(key, location_at)
    return None if location is None else (location, rows_by_path[location.path])


def _overlap(place: records.Place, path: str, reason: str) -> errors.InvalidLocation:
    uri = locations.format_uri(place.table_bucket, path)
    return errors.InvalidLocation(f"Cannot use location {uri}: {reason}")
