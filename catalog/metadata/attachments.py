"""rule: a table's statistics files and encryption keys.

At most one statistics file and one partition statistics file per snapshot; a new one replaces it.
Source: Iceberg spec, Table Statistics, Partition Statistics, Encryption Keys.
"""

from __future__ import annotations

import base64

from catalog.metadata import errors, json_values
from catalog.metadata.drafts import Draft
from catalog.metadata.json_values import Json

ENCRYPTION_MIN_FORMAT_VERSION = 3


def apply_set_statistics(draft: Draft, update: Json) -> None:
    """Set a snapshot's statistics file; the update's own snapshot-id is deprecated and ignored."""
    file = json_values.get_object(update, "statistics")
    json_values.get_long(file, "snapshot-id")
    json_values.get_text(file, "statistics-path")
    json_values.get_long(file, "file-size-in-bytes")
    json_values.get_long(file, "file-footer-size-in-bytes")
    for item in json_values.get_list(file, "blob-metadata"):
        blob = json_values.check_object(item, what="blob metadata")
        json_values.get_text(blob, "type")
        json_values.get_long(blob, "snapshot-id")
        json_values.get_long(blob, "sequence-number")
        json_values.get_numbers(blob, "fields", limit=json_values.INT_MAX)
        if blob.get("properties") is not None:
            json_values.get_text_map(blob, "properties")
    if draft.statistics.put(file):
        draft.touch()


def apply_remove_statistics(draft: Draft, update: Json) -> None:
    if draft.statistics.remove(json_values.get_long(update, "snapshot-id")):
        draft.touch()


def apply_set_partition_statistics(draft: Draft, update: Json) -> None:
    file = json_values.get_object(update, "partition-statistics")
    json_values.get_long(file, "snapshot-id")
    json_values.get_text(file, "statistics-path")
    json_values.get_long(file, "file-size-in-bytes")
    if draft.partition_statistics.put(file):
        draft.touch()


def apply_remove_partition_statistics(draft: Draft, update: Json) -> None:
    if draft.partition_statistics.remove(json_values.get_long(update, "snapshot-id")):
        draft.touch()


def apply_add_encryption_key(draft: Draft, update: Json) -> None:
    """Add a key; an existing id changes nothing."""
    key = json_values.get_object(update, "encryption-key")
    key_id = json_values.get_text(key, "key-id")
    _check_base64(json_values.get_text(key, "encrypted-key-metadata"))
    json_values.find_text(key, "encrypted-by-id")
    if key.get("properties") is not None:
        json_values.get_text_map(key, "properties")
    if draft.format_version < ENCRYPTION_MIN_FORMAT_VERSION:
        raise errors.BadUpdate(
            f"Encryption keys are not supported until v{ENCRYPTION_MIN_FORMAT_VERSION}"
        )
    if key_id not in draft.encryption_keys:
        draft.add_key(key_id, key)


def _check_base64(text: str) -> None:
    """Raise BadUpdate unless text is base64, with its padding or without, as Java decodes it."""
    padded = text if "=" in text else text + "=" * (-len(text) % 4)
    try:
        base64.b64decode(padded, validate=True)
    except ValueError:
        raise errors.BadUpdate(
            f"Cannot parse encrypted-key-metadata as base64: {json_values.shown(text)}"
        ) from None


def apply_remove_encryption_key(draft: Draft, update: Json) -> None:
    draft.remove_key(json_values.get_text(update, "key-id"))
