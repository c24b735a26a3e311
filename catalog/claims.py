"""rule: taking a location for one thing, so that no other can ever be at, inside or around it.

A claim is a Batch: it expects the rows it was decided on, so two claims that meet cannot both go
through. Rows outlive the things they were made for, because files outlive them; a place whose
owner is gone may be asked for by name, but is never handed out by itself.
"""

from __future__ import annotations

from typing import Literal

from catalog import errors, layout, locations, records
from storage import batch


def claim(
    reading: batch.Reading,
    place: records.Place,
    path: str,
    *,
    object_uuid: str,
    kind: Literal["table", "view"],
    namespace_id: int,
    name: str,
    now_ms: int,
    reserved_until_ms: int = 0,
) -> batch.Batch:
    """Return the Batch that gives path to the thing with object_uuid.

    namespace_id, name: of the thing; a staged create of the same name may be taken over.
    reserved_until_ms: not 0 for a staged create. Raises InvalidLocation if path is not free.
    """
    key = records.location_key(place.bucket_id, path)
    value = reading.get(batch.Store.LOCATIONS, key)
    expects = [batch.Expect(store=batch.Store.LOCATIONS, key=key, value=value)]
    if value == records.interior_value():
        raise _overlap(place, path, "other locations lie inside it")
    if value is not None:
        row = records.decode(value, records.LocationRow)
        if row.object_uuid != object_uuid:
            if is_held(reading, place, row, namespace_id=namespace_id, name=name, now_ms=now_ms):
                raise _overlap(place, path, "it is the location of another table or view")
            owner_key = records.uuid_key(place, row.object_uuid)
            expects.append(batch.Expect(store=batch.Store.POINTERS, key=owner_key, value=None))
    own = records.LocationRow(
        object_uuid=object_uuid,
        kind=kind,
        reserved_until_ms=reserved_until_ms,
        namespace_id=namespace_id,
        name=name,
    )
    writes = [batch.Put(store=batch.Store.LOCATIONS, key=key, value=records.encode(own))]
    for above in locations.ancestors(path):
        above_key = records.location_key(place.bucket_id, above)
        above_value = reading.get(batch.Store.LOCATIONS, above_key)
        expects.append(batch.Expect(store=batch.Store.LOCATIONS, key=above_key, value=above_value))
        if above_value is None:
            writes.append(
                batch.Put(
                    store=batch.Store.LOCATIONS, key=above_key, value=records.interior_value()
                )
            )
        elif above_value != records.interior_value():
            owner = records.decode(above_value, records.LocationRow).object_uuid
            if owner != object_uuid:
                raise _overlap(place, path, f"it lies inside the location {above}")
    return batch.Batch(expects=tuple(expects), writes=tuple(writes))


def was_used(reading: batch.Reading, place: records.Place, path: str) -> bool:
    """Say whether path was ever handed out, or has locations inside it."""
    key = records.location_key(place.bucket_id, path)
    return reading.get(batch.Store.LOCATIONS, key) is not None


def find_claimable(
    reading: batch.Reading,
    place: records.Place,
    path: str,
    *,
    namespace_id: int,
    name: str,
    now_ms: int,
) -> records.LocationRow | None:
    """Return the row of a path whose owner is gone, or only staged under this very name."""
    value = reading.get(batch.Store.LOCATIONS, records.location_key(place.bucket_id, path))
    if value is None or value == records.interior_value():
        return None
    row = records.decode(value, records.LocationRow)
    if is_held(reading, place, row, namespace_id=namespace_id, name=name, now_ms=now_ms):
        return None
    return row


def is_held(
    reading: batch.Reading,
    place: records.Place,
    row: records.LocationRow,
    *,
    namespace_id: int,
    name: str,
    now_ms: int,
) -> bool:
    """Say whether a location belongs to something that is there, or staged under another name."""
    owner = reading.get(batch.Store.POINTERS, records.uuid_key(place, row.object_uuid))
    if owner is not None:
        return True
    same = (row.namespace_id, row.name) == (namespace_id, name)
    return row.reserved_until_ms > now_ms and not same


def find_location(
    reading: batch.Reading, bucket_id: int, key: str
) -> tuple[layout.Location, records.LocationRow] | None:
    """Return the longest known location that an object's key lies at or below, and its row."""
    found: dict[str, records.LocationRow] = {}

    def known(path: str) -> layout.Location | None:
        location_key = records.location_key(bucket_id, path)
        if len(location_key) > locations.PATH_BYTES_MAX + 5:
            return None
        value = reading.get(batch.Store.LOCATIONS, location_key)
        if value is None or value == records.interior_value():
            return None
        found[path] = records.decode(value, records.LocationRow)
        return layout.Location(path=path, kind=found[path].kind)

    location = layout.find_location(key, known)
    return None if location is None else (location, found[location.path])


def _overlap(place: records.Place, path: str, reason: str) -> errors.InvalidLocation:
    uri = locations.format_uri(place.table_bucket, path)
    return errors.InvalidLocation(f"Cannot use location {uri}: {reason}")
