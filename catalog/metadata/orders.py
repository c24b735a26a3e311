"""rule: sort orders: bound to a schema, compared, numbered; the updates that touch them.

The unsorted order is always 0, the first real one 1. Source: Iceberg spec, Sorting.
"""

from __future__ import annotations

from typing import Any

from catalog import datatypes, transforms
from catalog.metadata import drafts, errors, model, reading, specs
from catalog.metadata.drafts import Draft
from catalog.metadata.reading import Json

UNSORTED_ID = 0

_DIRECTIONS = ("asc", "desc")
_NULL_ORDERS = ("nulls-first", "nulls-last")


def check_order(order: Any, schema: Json) -> Json:
    """Return the sort order, checked to be one the schema can have. Raises BadUpdate."""
    checked = reading.check_object(order, what="sort order")
    columns = datatypes.columns(schema)
    for given in reading.get_list(checked, "fields"):
        field = reading.check_object(given, what="sort field")
        direction = reading.get_text(field, "direction").lower()
        if direction not in _DIRECTIONS:
            raise errors.BadUpdate(f"Invalid sort direction: {direction}")
        null_order = reading.get_text(field, "null-order").lower()
        if null_order not in _NULL_ORDERS:
            raise errors.BadUpdate(f"Invalid null order: {null_order}")
        _check_source(specs.parse_transform(field), specs.source_id_of(field), columns)
    return checked


def _check_source(
    transform: transforms.Transform, source_id: int, columns: dict[int, datatypes.Column]
) -> None:
    source = columns.get(source_id)
    if source is None:
        raise errors.BadUpdate(
            f"Cannot find source column for sort field: {transform}({source_id})"
        )
    if not datatypes.is_primitive(source.type):
        raise errors.BadUpdate(f"Cannot sort by non-primitive source field: {source.type}")
    if not transforms.accepts(transform, source.type):
        raise errors.BadUpdate(f"Invalid source type {source.type} for transform: {transform}")


def check_default_order(metadata: model.TableMetadata) -> None:
    """Check that the default order fits the current schema. Raises BadUpdate."""
    columns = datatypes.columns(metadata.current_schema())
    for field in metadata.default_sort_order()["fields"]:
        _check_source(specs.parse_transform(field), specs.source_id_of(field), columns)


def same_order(one: Json, other: Json) -> bool:
    """Say whether two checked orders sort alike; their ids do not matter."""
    return [_sameness(field) for field in one["fields"]] == [
        _sameness(field) for field in other["fields"]
    ]


def _sameness(field: Json) -> tuple[int, str, str, str]:
    return (
        specs.source_id_of(field),
        str(field["transform"]).strip().lower(),
        field["direction"].lower(),
        field["null-order"].lower(),
    )


# --- updates ------------------------------------------------------------------------------------


def apply_add_sort_order(draft: Draft, update: Json) -> Draft:
    """Add a sort order, or find the one that sorts alike; `-1` then means it."""
    metadata = draft.metadata
    schema = draft.schema_to_bind()
    if schema is None:
        raise errors.BadUpdate("Cannot add a sort order before a schema is current")
    order = check_order(update.get("sort-order"), schema)
    for known in metadata.sort_orders:
        if same_order(known, order):
            return draft.noting(last_order_id=known["order-id"])
    order_id = UNSORTED_ID
    if order["fields"]:
        order_id = max((known["order-id"] for known in metadata.sort_orders), default=0) + 1
    added = {**order, "order-id": order_id}
    return draft.changed(sort_orders=(*metadata.sort_orders, added)).noting(last_order_id=order_id)


def apply_set_default_sort_order(draft: Draft, update: Json) -> Draft:
    order_id = reading.get_int(update, "sort-order-id")
    if order_id == drafts.LAST_ADDED:
        if draft.last_order_id is None:
            raise errors.BadUpdate("Cannot set last added sort order: no sort order has been added")
        order_id = draft.last_order_id
    if order_id == draft.metadata.default_sort_order_id:
        return draft
    if draft.metadata.sort_order(order_id) is None:
        raise errors.BadUpdate(f"Cannot set default sort order to unknown order: {order_id}")
    return draft.changed(default_sort_order_id=order_id)
