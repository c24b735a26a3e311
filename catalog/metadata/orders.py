"""rule: sort orders: validation, comparison, numbering, and their updates.

The unsorted order always has id 0, the first other one 1. Source: Iceberg spec, Sorting.
"""

from __future__ import annotations

from typing import Any

from catalog import datatypes, transforms
from catalog.metadata import drafts, errors, json_values, limits, model, specs
from catalog.metadata.drafts import Draft
from catalog.metadata.json_values import Json

UNSORTED_ID = 0

_DIRECTIONS = ("asc", "desc")
_NULL_ORDERS = ("nulls-first", "nulls-last")


def check_order(order: Any, columns: drafts.Columns) -> Json:
    """Return the sort order after checking it against a schema's columns.

    Raises BadUpdate.
    """
    checked = json_values.check_object(order, what="sort order")
    for item in specs.check_fields(checked, what="sort order"):
        field = json_values.check_object(item, what="sort field")
        direction = json_values.get_text(field, "direction").lower()
        if direction not in _DIRECTIONS:
            raise errors.BadUpdate(f"Invalid sort direction: {direction}")
        null_order = json_values.get_text(field, "null-order").lower()
        if null_order not in _NULL_ORDERS:
            raise errors.BadUpdate(f"Invalid null order: {null_order}")
        _check_source(specs.parse_transform(field), specs.source_id_of(field), columns.by_id)
    return checked


def _check_source(
    transform: transforms.Transform, source_id: int, columns: dict[int, datatypes.NestedField]
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


def identity_of(order: Json) -> tuple[tuple[int, str, str, str], ...]:
    """Return a hashable value that is equal for orders that sort alike."""
    return tuple([_sameness(field) for field in order["fields"]])


def _sameness(field: Json) -> tuple[int, str, str, str]:
    return (
        specs.source_id_of(field),
        str(field["transform"]).strip().lower(),
        field["direction"].lower(),
        field["null-order"].lower(),
    )


# --- updates ------------------------------------------------------------------------------------


def apply_add_sort_order(draft: Draft, update: Json) -> None:
    """Add a sort order, or reuse one that sorts alike; `-1` then refers to it."""
    schema = draft.schema_to_bind()
    if schema is None:
        raise errors.BadUpdate("Cannot add a sort order before a schema is current")
    order = check_order(update.get("sort-order"), draft.columns_of(schema))
    identity = identity_of(order)
    same = draft.orders.find(identity, identity_of)
    if same is not None:
        draft.last_order_id = same
        return
    if len(draft.orders) >= limits.ORDERS_MAX:
        raise errors.BadUpdate(f"A table has at most {limits.ORDERS_MAX} sort orders")
    order_id = UNSORTED_ID
    if order["fields"]:
        order_id = json_values.next_id(draft.orders.highest(default=0), what="a sort order")
    draft.orders.add(order_id, {**order, "order-id": order_id}, identity)
    draft.last_order_id = order_id
    draft.touch()


def apply_set_default_sort_order(draft: Draft, update: Json) -> None:
    order_id = json_values.get_int(update, "sort-order-id")
    if order_id == drafts.LAST_ADDED:
        if draft.last_order_id is None:
            raise errors.BadUpdate("Cannot set last added sort order: no sort order has been added")
        order_id = draft.last_order_id
    if order_id == draft.default_sort_order_id:
        return
    if draft.orders.get(order_id) is None:
        raise errors.BadUpdate(f"Cannot set default sort order to unknown order: {order_id}")
    draft.default_sort_order_id = order_id
    draft.touch()
