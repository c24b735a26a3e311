"""rule: whose a location is: the table or view that stands there, or the one that stood there last.

Files outlive the table that wrote them, and so do the rights on them: a location keeps its owner
when the table is dropped or unregistered, under the last name that the table had. The namespace of
that name need not exist any more. Access to the files is decided on the owner, and so is a request
to give the location to another table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from catalog import errors, idents, records
from catalog.metadata import errors as metadata_errors
from storage import batch


class LocationOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The table or view that a location belongs to, under its present or its last name.

    namespace_id: 0 if no name was ever recorded. is_live: whether it stands there now.
    """

    object_uuid: str
    namespace_id: int
    name: str
    is_live: bool


Permit: TypeAlias = Callable[[str, LocationOwner | None], None]
"""Raises unless the caller may have a location for another table. Arguments: the location's path,
and its owner, or None where it only holds files that belong to no table."""


Judge: TypeAlias = Callable[[records.Place, idents.TableIdent, records.Pointer | None], None]
"""Raises unless the caller may change a table. Arguments: its table bucket, its name, and its
pointer, or None where there is none and the caller makes it. It is asked while a write is planned,
on the pointer that the write's transaction then expects: what a name meant earlier does not count.
"""


Undrop: TypeAlias = Callable[
    [records.Place, idents.TableIdent, idents.TableIdent, records.Pointer], None
]
"""Raises unless the caller may restore a dropped table. Arguments: its table bucket, its last name,
the name that it gets, and its pointer. It is called as a Judge is."""


Recheck: TypeAlias = Callable[[], None]
"""Raises unless the caller, who was allowed an operation when it began, is still allowed it."""

FileCheck: TypeAlias = Callable[[str], None]
"""Raises ForeignFileRefused unless the caller may read a file, given by its URI, that metadata
names and that lies outside the table's location.
"""


def unmoved(judge: Judge, planned_on: records.Pointer) -> Judge:
    """Return the check that a table has the metadata on which a change was planned.

    Iceberg has no requirement for properties, so two changes of one property would both succeed,
    and the second would undo the first; nor one for schemas that are not the current one.
    """

    def check(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        judge(place, ident, pointer)
        if pointer is not None and pointer.metadata_location != planned_on.metadata_location:
            raise metadata_errors.RequirementFailed(
                f"Requirement failed: {ident.dotted()} was changed by another writer"
            )

    return check


def owner_of(
    reading: batch.Lookup, place: records.Place, location: records.LocationRow
) -> LocationOwner:
    """Return the owner of a location."""
    object_uuid = location.object_uuid
    value = reading.get(batch.Store.POINTERS, records.uuid_key(place, object_uuid))
    is_live = value is not None
    if value is None:
        value = reading.get(batch.Store.POINTERS, records.gone_key(place, object_uuid))
    if value is None:
        # A staged create has no name but the one it is for.
        return LocationOwner(
            object_uuid=object_uuid,
            namespace_id=location.namespace_id,
            name=location.name,
            is_live=False,
        )
    name = records.decode(value, records.Name)
    return LocationOwner(
        object_uuid=object_uuid, namespace_id=name.namespace_id, name=name.name, is_live=is_live
    )


def expect(
    reading: batch.Lookup, place: records.Place, object_uuid: str
) -> tuple[batch.Expect, ...]:
    """Return the expectation that the owner with this uuid keeps its name, or stays gone."""
    return tuple(
        batch.Expect(
            store=batch.Store.POINTERS, key=key, value=reading.get(batch.Store.POINTERS, key)
        )
        for key in (
            records.uuid_key(place, object_uuid),
            records.gone_key(place, object_uuid),
        )
    )


def refuse(path: str, owner: LocationOwner | None) -> None:
    """Permit nothing: for callers that name no location."""
    raise errors.InvalidLocation(f"Cannot use location {path}: it holds files of another table")
