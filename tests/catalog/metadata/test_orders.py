"""Sort orders: 0 is unsorted for ever, the first real one is 1."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.metadata import errors
from tests.kit import metadata as kit


def field(source_id: int, transform: str = "identity", **more: str) -> dict[str, Any]:
    members = {"direction": "asc", "null-order": "nulls-first", **more}
    return {"source-id": source_id, "transform": transform, **members}


def add(*fields: dict[str, Any], order_id: int = 5) -> dict[str, Any]:
    return {"action": "add-sort-order", "sort-order": {"order-id": order_id, "fields": [*fields]}}


def set_default(order_id: int) -> dict[str, Any]:
    return {"action": "set-default-sort-order", "sort-order-id": order_id}


def test_add_sort_order_first_real_one_is_1_whatever_id_it_came_with() -> None:
    metadata = kit.apply(kit.table(), add(field(1)), set_default(-1))
    assert metadata.sort_orders == (
        {"order-id": 0, "fields": []},
        {"order-id": 1, "fields": [field(1)]},
    )
    assert metadata.default_sort_order_id == 1


def test_add_sort_order_unsorted_is_always_0() -> None:
    base = kit.table(order={"fields": [field(1)]})
    assert [order["order-id"] for order in base.sort_orders] == [1]
    metadata = kit.apply(base, add(order_id=9), set_default(-1))
    assert metadata.sort_orders[1] == {"order-id": 0, "fields": []}
    assert metadata.default_sort_order_id == 0
    assert kit.apply(metadata, add()) is metadata


def test_add_sort_order_identical_reuses_its_id_and_minus_one_means_it() -> None:
    base = kit.apply(kit.table(), add(field(1)), add(field(2)), set_default(-1))
    assert base.default_sort_order_id == 2
    metadata = kit.apply(base, add(field(1)), set_default(-1))
    assert metadata.sort_orders == base.sort_orders
    assert metadata.default_sort_order_id == 1


def test_add_sort_order_that_differs_in_direction_or_nulls_is_another() -> None:
    base = kit.apply(
        kit.table(),
        add(field(1)),
        add(field(1, direction="desc")),
        add(field(1, **{"null-order": "nulls-last"})),
        add(field(1, "bucket[4]")),
    )
    assert [order["order-id"] for order in base.sort_orders] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([field(9)], r"Cannot find source column for sort field: identity\(9\)"),
        ([field(2, "day")], "Invalid source type string for transform: day"),
        ([field(1, "hash")], "Cannot parse transform: hash"),
        ([field(1, direction="up")], "Invalid sort direction: up"),
        ([field(1, **{"null-order": "maybe"})], "Invalid null order: maybe"),
        ([{"source-id": 1, "transform": "identity"}], "Cannot parse missing string: direction"),
        ([7], "Cannot parse sort field from a non-object: 7"),
    ],
)
def test_add_sort_order_the_schema_cannot_have_is_refused(fields: list[Any], message: str) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(kit.table(), add(*fields))


def test_set_default_sort_order_to_an_unknown_or_unadded_one_is_refused() -> None:
    with pytest.raises(errors.BadUpdate, match="unknown order: 3"):
        kit.apply(kit.table(), set_default(3))
    with pytest.raises(
        errors.BadUpdate,
        match=r"^Cannot set last added sort order: no sort order has been added$",
    ):
        kit.apply(kit.table(), set_default(-1))
