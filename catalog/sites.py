"""engine: the location and the name of a new table or view, read free in one view of the index.

Tables and views share one space of names and one of locations. The result holds only for that view;
the Batches that are planned from it expect the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import claims, errors, idents, layout, locations, owners, properties, records, store
from catalog import guard as table_guard
from server.s3 import guard
from storage import batch

REQUESTED_LOCATION: Final = "requested_location"
"""The setting of a table bucket for requests of a location outside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """The location of a new table or view. location: as its metadata will spell it.

    object_uuid: of the table or view; a staged create has one already. claim: takes the location.
    entry: the table that was created there without metadata, and now gets its first.
    """

    holder: store.StoredNamespace
    location: str
    object_uuid: str
    claim: batch.Batch
    entry: store.StoredPointer | None = None


def find_site(
    reading: batch.Reading,
    place: records.Place,
    ident: idents.TableIdent,
    holder: store.StoredNamespace,
    *,
    object_type: idents.PointerType,
    requested: str | None,
    object_uuid: str,
    now_ms: int,
    permit: owners.Permit,
    reserved_until_ms: int = 0,
    base_path: str | None = None,
) -> Site:
    """Return the site of a new table or view: the requested location, or one below its namespace.

    A location that was used before is taken again only if it is requested and permitted.
    base_path: the path instead of one below the namespace; it gets a suffix if it was used.
    Raises InvalidLocation, and what permit raises.
    """
    namespace_id = holder.row.namespace_id
    if requested is not None:
        path = locations.parse_location(requested, table_bucket=place.table_bucket)
        location = requested.rstrip("/")
        row = claims.find_claimable(
            reading, place, path, namespace_id=namespace_id, name=ident.name, now_ms=now_ms
        )
        if row is not None and row.reserved_until_ms > now_ms:
            object_uuid = row.object_uuid
    elif base_path is not None:
        path = base_path
        locations.check_path(path)
        if claims.was_used(reading, place, path):
            path = f"{path}-{object_uuid[: locations.SUFFIX_CHARACTERS]}"
            locations.check_path(path)
        location = locations.format_uri(place.table_bucket, path)
    else:
        parent_path = locations.tables_path(
            ident.namespace, holder.row.properties, table_bucket=place.table_bucket
        )
        path = locations.default_path(parent_path=parent_path, name=ident.name)
        if claims.was_used(reading, place, path):
            suffix = object_uuid[: locations.SUFFIX_CHARACTERS]
            path = locations.default_path(parent_path=parent_path, name=ident.name, suffix=suffix)
        location = locations.format_uri(place.table_bucket, path)
    claim = claims.claim(
        reading,
        place,
        path,
        object_uuid=object_uuid,
        object_type=object_type,
        namespace_id=namespace_id,
        name=ident.name,
        now_ms=now_ms,
        permit=permit if requested is not None else owners.refuse,
        reserved_until_ms=reserved_until_ms,
    )
    return Site(holder=holder, location=location, object_uuid=object_uuid, claim=claim)


def is_overriding(place: records.Place) -> bool:
    """Return whether the server replaces requested locations outside the table bucket."""
    return place.bucket.settings.get(REQUESTED_LOCATION) == "override"


def overrides(place: records.Place, uri: object) -> bool:
    """Return whether the server replaces a requested location.

    A value that is no text is not replaced, but refused later.
    """
    if not is_overriding(place) or not isinstance(uri, str):
        return False
    return locations.path_in(uri, table_bucket=place.table_bucket) is None


def granted(place: records.Place, updates: Sequence[Any]) -> Sequence[Any]:
    """Return the updates of a table or view without requests for locations that are replaced."""
    if not is_overriding(place):
        return updates
    return [
        update
        for update in updates
        if not (
            isinstance(update, dict)
            and str(update.get("action")).lower() == "set-location"
            and overrides(place, update.get("location"))
        )
    ]


def adopt(
    reading: batch.Reading,
    place: records.Place,
    ident: idents.TableIdent,
    holder: store.StoredNamespace,
    *,
    entry: store.StoredPointer,
    requested: str | None,
    now_ms: int,
) -> Site:
    """Return the site of a table that was created without metadata, for its first.

    Its location and object uuid stay. Raises InvalidLocation if another location is requested.
    """
    pointer = entry.pointer
    location = pointer.location if requested is None else requested.rstrip("/")
    if properties.plain_uri(location) != properties.plain_uri(pointer.location):
        raise errors.InvalidLocation(
            f"Cannot use location {requested}: table {ident.dotted()} was made without metadata, at"
            f" {pointer.location}"
        )
    claim = claims.claim(
        reading,
        place,
        locations.parse_location(location, table_bucket=place.table_bucket),
        object_uuid=pointer.object_uuid,
        object_type="table",
        namespace_id=entry.namespace_id,
        name=ident.name,
        now_ms=now_ms,
        permit=owners.refuse,
        standing_uuid=pointer.object_uuid,
    )
    return Site(
        holder=holder,
        location=location,
        object_uuid=pointer.object_uuid,
        claim=claim,
        entry=entry,
    )


def check_named(place: records.Place, location: str) -> None:
    """Raise InvalidMetadataFile unless a file of the table bucket is named like metadata."""
    if not location.endswith(layout.METADATA_SUFFIXES):
        raise errors.InvalidMetadataFile(
            f"{location} is not named like a metadata file (*.metadata.json)"
        )
    if locations.path_in(location, table_bucket=place.table_bucket) is None:
        raise errors.InvalidMetadataFile(f"{location} does not lie in s3://{place.table_bucket}/")


def check_below(
    place: records.Place,
    path: str,
    metadata_location: str,
    *,
    object_type: idents.PointerType,
) -> None:
    """Raise InvalidMetadataFile unless a file lies in the metadata folder below path.

    From the commit on such a file is protected: it is not overwritten, and a DELETE hides it.
    """
    key = locations.path_in(metadata_location, table_bucket=place.table_bucket) or ""
    home = locations.format_uri(place.table_bucket, path)
    if not key.startswith(path + "/"):
        raise errors.InvalidMetadataFile(
            f"{metadata_location} does not lie below the {object_type}'s location {home}"
        )
    check_named(place, metadata_location)
    if table_guard.layout_mode(place.bucket) == "off":
        return
    try:
        verdict = layout.judge(key, location=layout.Location(path=path, object_type=object_type))
    except guard.LayoutRefused as refused:
        raise errors.InvalidMetadataFile(
            f"{metadata_location} is no metadata file of a {object_type} at {home}: {refused}"
        ) from refused
    if verdict.role != "metadata":
        raise errors.InvalidMetadataFile(f"{metadata_location} does not lie in {home}/metadata")


def check_name_free(
    catalog: store.CatalogStore,
    reading: batch.Reading,
    place: records.Place,
    ident: idents.TableIdent,
    *,
    object_type: idents.PointerType,
) -> None:
    """Raise TableAlreadyExists or ViewAlreadyExists if a new table's or view's name is taken."""
    name = ident.dotted()
    same_name = "" if object_type == "table" else " with same name"
    if catalog.find_pointer(reading, place, "table", ident) is not None:
        raise errors.TableAlreadyExists(f"Table{same_name} already exists: {name}")
    same_name = "" if object_type == "view" else " with same name"
    if catalog.find_pointer(reading, place, "view", ident) is not None:
        raise errors.ViewAlreadyExists(f"View{same_name} already exists: {name}")


def check_rename_free(
    catalog: store.CatalogStore,
    reading: batch.Reading,
    place: records.Place,
    source: idents.TableIdent,
    target: idents.TableIdent,
) -> None:
    """Raise TableAlreadyExists or ViewAlreadyExists if target's name is taken."""
    prefix = f"Cannot rename {source.dotted()} to {target.dotted()}."
    if catalog.find_pointer(reading, place, "table", target) is not None:
        raise errors.TableAlreadyExists(f"{prefix} Table already exists")
    if catalog.find_pointer(reading, place, "view", target) is not None:
        raise errors.ViewAlreadyExists(f"{prefix} View already exists")


def hyphenated(new_id: str) -> str:
    """Return 32 hexadecimal digits with the hyphens of a UUID."""
    return f"{new_id[:8]}-{new_id[8:12]}-{new_id[12:16]}-{new_id[16:20]}-{new_id[20:]}"
