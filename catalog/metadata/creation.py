"""rule: the first metadata of a new table.

createTable assigns new column ids, one level at a time, and translates spec and order to them:
schema 0, spec 0, order 0 (unsorted) or 1. Source: Iceberg REST specification, createTable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.metadata import drafts, errors, json_values, model, orders, schemas, specs, updates
from catalog.metadata import properties as property_names
from catalog.metadata.json_values import Json
from catalog.metadata.model import TableMetadata


def new_table(
    *,
    schema: Any,
    partition_spec: Any = None,
    sort_order: Any = None,
    location: str,
    properties: Mapping[str, str] | None = None,
    table_uuid: str,
    now_ms: int,
) -> TableMetadata:
    """Return the metadata of a new, empty table.

    schema, partition_spec, sort_order: decoded JSON as the client sent it. properties: the
    `format-version` among them picks the version (2 if none) and is not stored.
    now_ms: Unix milliseconds. Raises BadUpdate.
    """
    try:
        return _new_table(
            schema=schema,
            partition_spec=partition_spec,
            sort_order=sort_order,
            location=location,
            requested=dict(properties or {}),
            table_uuid=table_uuid,
            now_ms=now_ms,
        )
    except RecursionError:
        raise errors.BadUpdate("Cannot create table: its definition nests too deeply") from None


def _new_table(
    *,
    schema: Any,
    partition_spec: Any,
    sort_order: Any,
    location: str,
    requested: dict[str, str],
    table_uuid: str,
    now_ms: int,
) -> TableMetadata:
    for name in requested:
        json_values.get_text(requested, name)
    drafts.check_properties(
        requested, count=len(requested), characters=drafts.characters_of(requested)
    )
    version = format_version_of(requested)
    checked = schemas.check_schema(schema, format_version=version)
    fresh, renumbered = schemas.with_fresh_ids(checked)
    spec: Json = {"spec-id": 0, "fields": []}
    order: Json = {"order-id": orders.UNSORTED_ID, "fields": []}
    if partition_spec is not None or sort_order is not None:
        columns = drafts.Columns.of(checked)
        if partition_spec is not None:
            spec = _carried_spec(partition_spec, columns, renumbered)
        if sort_order is not None:
            order = _carried_order(sort_order, columns, renumbered)
    last_partition_id = model.PARTITION_ID_START - 1 + len(spec["fields"])
    return TableMetadata(
        format_version=version,
        table_uuid=table_uuid,
        location=location.rstrip("/"),
        last_updated_ms=now_ms,
        last_column_id=len(renumbered),
        current_schema_id=0,
        schemas=(fresh,),
        default_spec_id=0,
        partition_specs=(spec,),
        last_partition_id=last_partition_id,
        default_sort_order_id=order["order-id"],
        sort_orders=(order,),
        properties=stored_properties(requested),
    )


def creating_updates(metadata: TableMetadata) -> list[Json]:
    """Return the updates that build this new table from nothing, for a commit that creates it."""
    return [
        {"action": "assign-uuid", "uuid": metadata.table_uuid},
        {"action": "upgrade-format-version", "format-version": metadata.format_version},
        {"action": "add-schema", "schema": metadata.current_schema()},
        {"action": "set-current-schema", "schema-id": drafts.LAST_ADDED},
        {"action": "add-spec", "spec": metadata.default_spec()},
        {"action": "set-default-spec", "spec-id": drafts.LAST_ADDED},
        {"action": "add-sort-order", "sort-order": metadata.default_sort_order()},
        {"action": "set-default-sort-order", "sort-order-id": drafts.LAST_ADDED},
        {"action": "set-location", "location": metadata.location},
        {"action": "set-properties", "updates": metadata.properties},
    ]


def format_version_of(requested: Mapping[str, str]) -> int:
    """Return the format version in a create request's properties. Raises BadUpdate."""
    version = property_names.whole_number(
        requested, property_names.FORMAT_VERSION, property_names.FORMAT_VERSION_DEFAULT
    )
    updates.check_format_version(version)
    return version


def stored_properties(requested: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a new table: the defaults of new tables, then the requested ones."""
    return {**property_names.CREATE_DEFAULTS, **property_names.storable(requested)}


def _carried_spec(spec: Any, columns: drafts.Columns, renumbered: Mapping[int, int]) -> Json:
    checked = specs.check_spec(spec, columns)
    fields = [
        {
            **_without_sources(field),
            "source-id": _renumbered(specs.source_id_of(field), renumbered),
            "field-id": model.PARTITION_ID_START + position,
        }
        for position, field in enumerate(checked["fields"])
    ]
    return {**checked, "spec-id": 0, "fields": fields}


def _carried_order(order: Any, columns: drafts.Columns, renumbered: Mapping[int, int]) -> Json:
    checked = orders.check_order(order, columns)
    fields = [
        {
            **_without_sources(field),
            "source-id": _renumbered(specs.source_id_of(field), renumbered),
        }
        for field in checked["fields"]
    ]
    order_id = orders.UNSORTED_ID + 1 if fields else orders.UNSORTED_ID
    return {**checked, "order-id": order_id, "fields": fields}


def _without_sources(field: Json) -> Json:
    return {name: value for name, value in field.items() if name != "source-ids"}


def _renumbered(source_id: int, renumbered: Mapping[int, int]) -> int:
    if source_id not in renumbered:
        raise errors.BadUpdate(f"Cannot find source column: {source_id}")
    return renumbered[source_id]
