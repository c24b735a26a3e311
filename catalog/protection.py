"""engine: whether a table or view may be dropped: its own properties may forbid it.

The property is in the metadata, so any engine sets and removes it. The drop that follows expects
the pointer which was read here, so a property that is set meanwhile counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog import commits, departures, errors, idents, records, store
from catalog.metadata import errors as metadata_errors
from catalog.metadata import views as view_rules
from storage import errors as storage_errors

SMALL_VIEW_BYTES = 64 * 1024
"""View metadata up to this size is decoded on the event loop."""


async def check(
    catalog: store.CatalogStore, ident: idents.TableIdent, pointer: records.Pointer
) -> None:
    """Raise Protected if the properties of a table or view forbid to drop it.

    One whose metadata cannot be read is not protected, so that it can be removed.
    """
    if pointer.metadata_location is None:
        return
    try:
        properties = await _properties(catalog, ident, pointer, pointer.metadata_location)
    except (
        errors.MetadataFileMissing,
        errors.InvalidMetadataFile,
        metadata_errors.InvalidMetadata,
        storage_errors.BodyMissing,
    ):
        return
    departures.check_unprotected(properties, f"{pointer.object_type.title()} {ident.dotted()}")


async def _properties(
    catalog: store.CatalogStore,
    ident: idents.TableIdent,
    pointer: records.Pointer,
    location: str,
) -> Mapping[str, str]:
    place = catalog.place(ident.table_bucket)
    if pointer.object_type == "view":
        data = await catalog.fetch_view(location, place=place)
        large = len(data) > SMALL_VIEW_BYTES
        return (await commits.run(view_rules.decode, data, large=large)).properties
    file = catalog.cached_metadata(location, place=place)
    if file is not None:
        return file.table.properties
    return (await catalog.examine_metadata(location)).properties
