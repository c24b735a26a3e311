"""Columns of tables that are kept for later statements, and those that are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sql import limits, tablecolumns
from tests.kit.tablefiles import field

HALF = limits.COLUMNS_HERE_MAX // 2


def struct(count: int) -> dict[str, Any]:
    members = [field(1_000 + number, f"m{number}", "int") for number in range(count)]
    return {"type": "struct", "fields": members}


def of_list(count: int) -> dict[str, Any]:
    return {"type": "list", "element-id": 5, "element": struct(count), "element-required": False}


def of_map(count: int) -> dict[str, Any]:
    inside = {"key": "string", "value": struct(count), "value-required": False}
    return {"type": "map", "key-id": 6, "value-id": 7, **inside}


@pytest.mark.parametrize("nested", [struct, of_list, of_map])
@pytest.mark.parametrize(("count", "is_kept"), [(HALF, True), (2 * HALF + 1, False)])
def test_columns_of_few_members_alone_are_kept(nested: Any, count: int, is_kept: bool) -> None:
    fields = [field(1, "id", "long"), field(2, "s", nested(count))]
    metadata = SimpleNamespace(properties={})
    pointer = SimpleNamespace(object_uuid="u")
    table: Any = SimpleNamespace(
        schema={"type": "struct", "fields": fields},
        fields=fields,
        zoned=frozenset(),
        loaded=SimpleNamespace(metadata=metadata, pointer=pointer),
    )
    columns = tablecolumns.TableColumns()
    first, again = columns.shape_columns(table, {}), columns.shape_columns(table, {})
    assert first == again
    assert (first is again) is is_kept
    encoded = [columns.encoded_schema(table, "UTC") for _ in range(2)]
    assert encoded[0] == encoded[1]
    assert (encoded[0] is encoded[1]) is is_kept
