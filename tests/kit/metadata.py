"""Tables and updates to test the metadata rules with. Every value is plain and fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.metadata import creation, updates
from catalog.metadata.model import TableMetadata

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
LOCATION = "s3://lake/ns/t"
NOW_MS = 1_700_000_000_000

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "day", "required": False, "type": "date"},
    ],
}


def table(
    *,
    version: int = 2,
    schema: Mapping[str, Any] = SCHEMA,
    spec: Mapping[str, Any] | None = None,
    order: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
) -> TableMetadata:
    """A new table of this format version, without the properties every new table gets."""
    return creation.new_table(
        schema=schema,
        partition_spec=spec,
        sort_order=order,
        location=LOCATION,
        properties={"format-version": str(version), **(properties or {})},
        table_uuid=UUID,
        now_ms=NOW_MS,
    )


def apply(
    base: TableMetadata | None,
    *changes: Mapping[str, Any],
    now_ms: int = NOW_MS + 1_000,
    base_location: str | None = None,
) -> TableMetadata:
    """Metadata after changes without requirements."""
    return apply_all(
        base, [dict(change) for change in changes], now_ms=now_ms, base_location=base_location
    )


def apply_all(base: TableMetadata | None, changes: Sequence[Any], **more: Any) -> TableMetadata:
    """Metadata after decoded JSON of any shape, without requirements."""
    part = updates.Part(requirements=(), updates=changes)
    return updates.apply_parts(base, [part], **more)


def add_snapshot(
    snapshot_id: int,
    sequence_number: int | None = None,
    *,
    parent: int | None = None,
    at_ms: int = NOW_MS + 1_000,
    **more: Any,
) -> dict[str, Any]:
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": at_ms,
        "manifest-list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if sequence_number is not None:
        snapshot["sequence-number"] = sequence_number
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    snapshot.update({name.replace("_", "-"): value for name, value in more.items()})
    return {"action": "add-snapshot", "snapshot": snapshot}


def set_ref(
    name: str, snapshot_id: int, *, ref_type: str = "branch", **more: Any
) -> dict[str, Any]:
    extra = {key.replace("_", "-"): value for key, value in more.items()}
    return {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "type": ref_type,
        "snapshot-id": snapshot_id,
        **extra,
    }


def set_main(snapshot_id: int) -> dict[str, Any]:
    return set_ref("main", snapshot_id)


def with_snapshots(base: TableMetadata, count: int) -> TableMetadata:
    """base with snapshots 1 to count, a second apart, each made main in a commit of its own."""
    for number in range(1, count + 1):
        at_ms = NOW_MS + number * 1_000
        row_lineage = {"first_row_id": (number - 1) * 10, "added_rows": 10}
        base = apply(
            base,
            add_snapshot(
                number,
                None if base.format_version == 1 else number,
                parent=number - 1 or None,
                at_ms=at_ms,
                **(row_lineage if base.format_version >= 3 else {}),
            ),
            set_main(number),
            now_ms=at_ms,
            base_location=f"{LOCATION}/metadata/{number - 1:05}.metadata.json",
        )
    return base
