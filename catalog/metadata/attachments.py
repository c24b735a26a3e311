"""rule: what hangs on a table beside its snapshots: statistics files and encryption keys.

At most one statistics file and one partition statistics file per snapshot; a new one replaces it.
Source: Iceberg spec, Table Statistics, Partition Statistics, Encryption Keys.
"""

from __future__ import annotations

from catalog.metadata import errors, reading
from catalog.metadata.drafts import Draft
from catalog.metadata.reading import Json

ENCRYPTION_MIN_FORMAT_VERSION = 3


def apply_set_statistics(draft: Draft, update: Json) -> Draft:
    """Set a snapshot's statistics file; the update's own snapshot-id is deprecated, not read."""
    file = reading.get_object(update, "statistics")
    reading.get_long(file, "snapshot-id")
    reading.get_text(file, "statistics-path")
    reading.get_long(file, "file-size-in-bytes")
    reading.get_long(file, "file-footer-size-in-bytes")
    for given in reading.get_list(file, "blob-metadata"):
        blob = reading.check_object(given, what="blob metadata")
        reading.get_text(blob, "type")
        reading.get_long(blob, "snapshot-id")
        reading.get_long(blob, "sequence-number")
        reading.get_numbers(blob, "fields", limit=reading.INT_MAX)
        if blob.get("properties") is not None:
            reading.get_text_map(blob, "properties")
    statistics = _with(draft.metadata.statistics, file)
    return draft if statistics is None else draft.changed(statistics=statistics)


def apply_remove_statistics(draft: Draft, update: Json) -> Draft:
    kept = _without(draft.metadata.statistics, reading.get_long(update, "snapshot-id"))
    return draft if kept is None else draft.changed(statistics=kept)


def apply_set_partition_statistics(draft: Draft, update: Json) -> Draft:
    file = reading.get_object(update, "partition-statistics")
    reading.get_long(file, "snapshot-id")
    reading.get_text(file, "statistics-path")
    reading.get_long(file, "file-size-in-bytes")
    statistics = _with(draft.metadata.partition_statistics, file)
    return draft if statistics is None else draft.changed(partition_statistics=statistics)


def apply_remove_partition_statistics(draft: Draft, update: Json) -> Draft:
    kept = _without(draft.metadata.partition_statistics, reading.get_long(update, "snapshot-id"))
    return draft if kept is None else draft.changed(partition_statistics=kept)


def _with(files: tuple[Json, ...], file: Json) -> tuple[Json, ...] | None:
    """Return files with this one in place of its snapshot's; None when it is there already."""
    if file in files:
        return None
    others = _without(files, file["snapshot-id"])
    return (*(files if others is None else others), file)


def _without(files: tuple[Json, ...], snapshot_id: int) -> tuple[Json, ...] | None:
    kept = tuple(file for file in files if file.get("snapshot-id") != snapshot_id)
    return None if len(kept) == len(files) else kept


def apply_add_encryption_key(draft: Draft, update: Json) -> Draft:
    """Add a key; one whose id is known already changes nothing."""
    key = reading.get_object(update, "encryption-key")
    key_id = reading.get_text(key, "key-id")
    reading.get_text(key, "encrypted-key-metadata")
    reading.find_text(key, "encrypted-by-id")
    if key.get("properties") is not None:
        reading.get_text_map(key, "properties")
    if draft.metadata.format_version < ENCRYPTION_MIN_FORMAT_VERSION:
        raise errors.BadUpdate(
            f"Encryption keys are not supported until v{ENCRYPTION_MIN_FORMAT_VERSION}"
        )
    known = draft.metadata.encryption_keys
    if any(other.get("key-id") == key_id for other in known):
        return draft
    return draft.changed(encryption_keys=(*known, key))


def apply_remove_encryption_key(draft: Draft, update: Json) -> Draft:
    key_id = reading.get_text(update, "key-id")
    known = draft.metadata.encryption_keys
    kept = tuple(key for key in known if key.get("key-id") != key_id)
    return draft if len(kept) == len(known) else draft.changed(encryption_keys=kept)
