"""rule: a commit's updates, applied in order: one closed table from name to function.

`apply_parts` returns new metadata for metadata and updates, or raises without any change. The
clock and every id are arguments. Whether a table may have a new location is decided by the catalog;
requirements are checked before.
Source: Iceberg REST specification, TableUpdate; Iceberg spec, Table Metadata Fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from catalog.metadata import (
    attachments,
    errors,
    json_values,
    limits,
    model,
    orders,
    properties,
    requirements,
    schemas,
    snapshots,
    specs,
)
from catalog.metadata.drafts import Draft
from catalog.metadata.json_values import Json
from catalog.metadata.model import TableMetadata

Update: TypeAlias = Callable[[Draft, Json], None]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a commit's updates, and their requirements: decoded JSON, as the client sent it."""

    requirements: Sequence[Json]
    updates: Sequence[Json]


def apply_parts(
    base: TableMetadata | None,
    parts: Sequence[Part],
    *,
    now_ms: int,
    base_location: str | None,
    table_uuid: str | None = None,
    location: str | None = None,
) -> TableMetadata:
    """Return base with the updates of all parts applied as one commit, in order.

    The requirements of each part are checked on the result of the parts before it. Returns base
    itself if no update changed anything. base: None builds a new table from nothing, as for the
    commit of a staged create; then location is used if no update sets one, and table_uuid for any
    table without. base_location: of base's file, for the metadata log. now_ms: Unix milliseconds.
    Raises RequirementFailed, BadRequirement, BadUpdate, or StaleSequenceNumber when a snapshot was
    built on an older state.
    """
    if sum(len(part.updates) for part in parts) > limits.UPDATES_MAX:
        raise errors.BadUpdate(f"A commit has at most {limits.UPDATES_MAX} updates of one table")
    try:
        return _apply_parts(
            base,
            parts,
            now_ms=now_ms,
            base_location=base_location,
            table_uuid=table_uuid,
            location=location,
        )
    except RecursionError:
        raise errors.BadUpdate("Cannot apply updates: they nest too deeply") from None


def _apply_parts(
    base: TableMetadata | None,
    parts: Sequence[Part],
    *,
    now_ms: int,
    base_location: str | None,
    table_uuid: str | None,
    location: str | None,
) -> TableMetadata:
    requirements.check_requirements(base, parts[0].requirements)
    draft = Draft(
        _empty([update for part in parts for update in part.updates]) if base is None else base,
        now_ms=now_ms if base is None else max(now_ms, base.last_updated_ms),
        creating=base is None,
    )
    for index, part in enumerate(parts):
        if index:
            requirements.check_requirements(draft, part.requirements)
        for item in part.updates:
            update = json_values.check_object(item, what="table update")
            _update_of(update)(draft, update)
        if base is None and draft.table_uuid is None:
            draft.table_uuid = table_uuid
    if base is None:
        return _created(draft, location=location)
    if not draft.touched:
        return base
    return _committed(draft, base, base_location, table_uuid)


def _update_of(update: Json) -> Update:
    action = json_values.get_text(update, "action").lower()
    if action in VIEW_UPDATES:
        raise errors.BadUpdate(f"Cannot apply update {action} to a table: it is for views")
    if action not in TABLE_UPDATES:
        raise errors.BadUpdate(f"Cannot apply unknown update: {action}")
    return TABLE_UPDATES[action]


def _empty(updates: Iterable[Any]) -> TableMetadata:
    """The format version of a new table is set by its updates; v1 is allowed."""
    version = properties.FORMAT_VERSION_DEFAULT
    for update in updates:
        if isinstance(update, dict) and update.get("action") == "upgrade-format-version":
            version = json_values.get_int(update, "format-version")
            check_format_version(version)
            break
    return TableMetadata(format_version=version, table_uuid=None, location="")


def check_format_version(version: int) -> None:
    if not 1 <= version <= model.FORMAT_VERSION_MAX:
        raise errors.BadUpdate(
            f"Unsupported format version: v{version} (supported: v{model.FORMAT_VERSION_MAX})"
        )


def _created(draft: Draft, *, location: str | None) -> TableMetadata:
    place = draft.location or (location or "").rstrip("/")
    if draft.table_uuid is None:
        raise errors.BadUpdate("Cannot create a table without a uuid")
    if not place:
        raise errors.BadUpdate("Cannot create a table without a location")
    for missing, what in (
        (draft.schemas.get(draft.current_schema_id) is None, "current schema"),
        (draft.specs.get(draft.default_spec_id) is None, "default partition spec"),
        (draft.orders.get(draft.default_sort_order_id) is None, "default sort order"),
    ):
        if missing:
            raise errors.BadUpdate(f"Cannot create a table without a {what}")
    metadata = draft.finished(
        location=place,
        last_updated_ms=draft.now_ms,
        snapshot_entries=snapshots.log_moves(draft, last_updated_ms=draft.now_ms),
    )
    specs.check_default_spec(metadata)
    orders.check_default_order(metadata)
    return metadata


def _committed(
    draft: Draft, base: TableMetadata, base_location: str | None, table_uuid: str | None
) -> TableMetadata:
    metadata = draft.finished(
        table_uuid=draft.table_uuid or table_uuid,  # v1 tables of old have none
        last_updated_ms=draft.now_ms,
        snapshot_entries=snapshots.log_moves(draft, last_updated_ms=draft.now_ms),
        metadata_entries=_with_previous_file(draft, base, base_location),
    )
    schema_moved = metadata.current_schema_id != base.current_schema_id
    if schema_moved or metadata.default_spec_id != base.default_spec_id:
        specs.check_default_spec(metadata)
    if schema_moved or metadata.default_sort_order_id != base.default_sort_order_id:
        orders.check_default_order(metadata)
    assert metadata.last_column_id >= base.last_column_id
    assert metadata.last_partition_id >= base.last_partition_id
    assert metadata.last_sequence_number >= base.last_sequence_number
    assert metadata.next_row_id >= base.next_row_id
    return metadata


def _with_previous_file(
    draft: Draft, base: TableMetadata, base_location: str | None
) -> model.JsonArray:
    """Return the metadata log with the file that this commit replaces, cut to its bound."""
    if base_location is None:
        return base.metadata_entries
    entries_max = max(
        1,
        properties.whole_number(
            draft.properties,
            properties.PREVIOUS_VERSIONS_MAX,
            properties.PREVIOUS_VERSIONS_MAX_DEFAULT,
        ),
    )
    entry = {"timestamp-ms": base.last_updated_ms, "metadata-file": base_location}
    return base.metadata_entries.with_last(msgspec.json.encode(entry), items_max=entries_max)


# --- other updates ------------------------------------------------------------------------------


def apply_assign_uuid(draft: Draft, update: Json) -> None:
    """Set the uuid of a table without one. A uuid never changes: every client refers to it."""
    uuid = json_values.get_text(update, "uuid")
    own = draft.table_uuid
    if not uuid:
        raise errors.BadUpdate("Cannot set uuid to null")
    if len(uuid) > limits.UUID_CHARACTERS_MAX:
        raise errors.BadUpdate(
            f"A table's uuid is at most {limits.UUID_CHARACTERS_MAX} characters long"
        )
    if own is None or (draft.creating and uuid != own):
        draft.table_uuid = uuid
        draft.touch()
    elif uuid.lower() != own.lower():
        raise errors.BadUpdate(f"Cannot reassign uuid: table has {own}, update gives {uuid}")


def apply_upgrade_format_version(draft: Draft, update: Json) -> None:
    """Upgrade, never downgrade. From v3 on row ids are assigned, starting at 0."""
    version = json_values.get_int(update, "format-version")
    own = draft.format_version
    if version > model.FORMAT_VERSION_MAX:
        raise errors.BadUpdate(
            f"Cannot upgrade table to unsupported format version: v{version}"
            f" (supported: v{model.FORMAT_VERSION_MAX})"
        )
    if version < own:
        raise errors.BadUpdate(f"Cannot downgrade v{own} table to v{version}")
    if version != own:
        draft.format_version = version
        draft.touch()


def apply_set_location(draft: Draft, update: Json) -> None:
    location = json_values.get_text(update, "location").rstrip("/")
    if not location:
        raise errors.BadUpdate("Cannot set an empty location")
    if location != draft.location:
        draft.location = location
        draft.touch()


def apply_set_properties(draft: Draft, update: Json) -> None:
    name = "updates" if "updates" in update else "updated"  # some clients send the older name
    changes = json_values.get_text_map(update, name if name in update else "updates")
    draft.set_properties(properties.storable(changes))


def apply_remove_properties(draft: Draft, update: Json) -> None:
    name = "removals" if "removals" in update else "removed"
    draft.remove_properties(json_values.get_texts(update, name if name in update else "removals"))


TABLE_UPDATES: Mapping[str, Update] = {
    "assign-uuid": apply_assign_uuid,
    "upgrade-format-version": apply_upgrade_format_version,
    "add-schema": schemas.apply_add_schema,
    "set-current-schema": schemas.apply_set_current_schema,
    "remove-schemas": schemas.apply_remove_schemas,
    "add-spec": specs.apply_add_spec,
    "set-default-spec": specs.apply_set_default_spec,
    "remove-partition-specs": specs.apply_remove_partition_specs,
    "add-sort-order": orders.apply_add_sort_order,
    "set-default-sort-order": orders.apply_set_default_sort_order,
    "add-snapshot": snapshots.apply_add_snapshot,
    "set-snapshot-ref": snapshots.apply_set_snapshot_ref,
    "remove-snapshots": snapshots.apply_remove_snapshots,
    "remove-snapshot-ref": snapshots.apply_remove_snapshot_ref,
    "set-location": apply_set_location,
    "set-properties": apply_set_properties,
    "remove-properties": apply_remove_properties,
    "set-statistics": attachments.apply_set_statistics,
    "remove-statistics": attachments.apply_remove_statistics,
    "set-partition-statistics": attachments.apply_set_partition_statistics,
    "remove-partition-statistics": attachments.apply_remove_partition_statistics,
    "add-encryption-key": attachments.apply_add_encryption_key,
    "remove-encryption-key": attachments.apply_remove_encryption_key,
}
VIEW_UPDATES = frozenset({"add-view-version", "set-current-view-version"})
"""The two that only views accept; views share five more with tables (see `views`)."""
