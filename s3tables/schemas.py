"""rule: CreateTable's schema, partition spec and sort order as Iceberg metadata.

AWS has two forms of a schema: `schema`, whose fields are primitive and may omit their ids, and
`schemaV2`, which is Iceberg's own JSON. The catalog validates types, transforms and ids, as for
every other client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from s3tables import errors

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """The schema, spec, order and properties of a new table, in Iceberg's JSON."""

    schema: Json
    partition_spec: Json | None
    sort_order: Json | None
    properties: Mapping[str, str]


def define(iceberg: Mapping[str, Any]) -> Definition:
    """Return the definition in CreateTable's `metadata.iceberg`. Raises BadRequest."""
    forms = [name for name in ("schema", "schemaV2") if name in iceberg]
    if len(forms) != 1:
        raise errors.BadRequest("Exactly one of schema and schemaV2 must be specified.")
    if "schema" in iceberg:
        schema = _schema(iceberg["schema"]["fields"])
    else:
        schema = _schema_v2(iceberg["schemaV2"])
    spec = iceberg.get("partitionSpec")
    order = iceberg.get("writeOrder")
    return Definition(
        schema=schema,
        partition_spec=None if spec is None else _partition_spec(spec),
        sort_order=None if order is None else _sort_order(order),
        properties=iceberg.get("properties", {}),
    )


def _schema(fields: Sequence[Mapping[str, Any]]) -> Json:
    taken = {field["id"] for field in fields if "id" in field}
    free = (number for number in range(1, 2 * len(fields) + 1) if number not in taken)
    return {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {
                "id": field["id"] if "id" in field else next(free),
                "name": field["name"],
                "type": field["type"],
                "required": field.get("required", False),
            }
            for field in fields
        ],
    }


def _schema_v2(schema: Mapping[str, Any]) -> Json:
    metadata_schema: Json = {
        "type": schema["type"],
        "schema-id": schema.get("schemaId", 0),
        "fields": [dict(field) for field in schema["fields"]],
    }
    if "identifierFieldIds" in schema:
        metadata_schema["identifier-field-ids"] = schema["identifierFieldIds"]
    return metadata_schema


def _partition_spec(spec: Mapping[str, Any]) -> Json:
    return {
        "spec-id": spec.get("specId", 0),
        "fields": [
            {
                "source-id": field["sourceId"],
                "transform": field["transform"],
                "name": field["name"],
                **({"field-id": field["fieldId"]} if "fieldId" in field else {}),
            }
            for field in spec["fields"]
        ],
    }


def _sort_order(order: Mapping[str, Any]) -> Json:
    return {
        "order-id": order["orderId"],
        "fields": [
            {
                "source-id": field["sourceId"],
                "transform": field["transform"],
                "direction": field["direction"],
                "null-order": field["nullOrder"],
            }
            for field in order["fields"]
        ],
    }
