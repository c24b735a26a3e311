"""rule: complete validation of table metadata that other writers made, before it is registered.

Decoding checks only the head, because metadata of this catalog needs no second check. Metadata to
be registered is checked completely: every schema, spec and order by its own rules, every ref and
log entry against the snapshots.
"""

from __future__ import annotations

from catalog.metadata import errors, json_values, model, orders, schemas, specs
from catalog.metadata.model import TableMetadata


def check_table(metadata: TableMetadata) -> None:
    """Check all of a table's metadata. Raises InvalidMetadata."""
    try:
        for schema in metadata.schemas:
            schemas.check_shape(schema)
            json_values.get_int(schema, "schema-id")
        for spec in metadata.partition_specs:
            json_values.get_int(spec, "spec-id")
            for field in json_values.get_list(spec, "fields"):
                checked = json_values.check_object(field, what="partition field")
                json_values.get_text(checked, "name")
                json_values.get_int(checked, "field-id")
                json_values.get_text(checked, "transform")
                specs.source_id_of(checked)
        for order in metadata.sort_orders:
            json_values.get_int(order, "order-id")
            for field in json_values.get_list(order, "fields"):
                json_values.check_object(field, what="sort field")
        specs.check_default_spec(metadata)
        orders.check_default_order(metadata)
    except errors.BadUpdate as error:
        raise errors.InvalidMetadata(str(error)) from error
    if metadata.format_version > 1 and not metadata.table_uuid:
        raise errors.InvalidMetadata("table-uuid must exist in format v2")
    model.check_history(metadata)
