"""The cost of a commit's updates grows with their number, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from catalog.metadata import model, updates
from tests.kit import metadata as kit

FEW = 100
FACTOR = 8
"""Linear costs grow by FACTOR, quadratic ones by its square."""

BASE = kit.with_snapshots(kit.table(), 1)
Make = Callable[[int], dict[str, Any]]


def _add_schema(number: int) -> dict[str, Any]:
    field = {"id": number + 1, "name": f"c{number}", "required": False, "type": "int"}
    fields = [*kit.SCHEMA["fields"], {**field, "id": number + 10}]
    return {"action": "add-schema", "schema": {"type": "struct", "fields": fields}}


def _add_spec(number: int) -> dict[str, Any]:
    field = {"source-id": 1, "name": f"p{number}", "transform": f"bucket[{number + 1}]"}
    return {"action": "add-spec", "spec": {"fields": [field]}}


def _add_order(number: int) -> dict[str, Any]:
    field = {
        "source-id": 1,
        "transform": f"bucket[{number + 1}]",
        "direction": "asc",
        "null-order": "nulls-first",
    }
    return {"action": "add-sort-order", "sort-order": {"fields": [field]}}


def _set_statistics(number: int) -> dict[str, Any]:
    file = {"snapshot-id": number, "statistics-path": "s3://lake/x", "file-size-in-bytes": 1}
    return {"action": "set-partition-statistics", "partition-statistics": file}


MAKERS: dict[str, tuple[model.TableMetadata, Make]] = {
    "add-schema": (BASE, _add_schema),
    "add-spec": (BASE, _add_spec),
    "add-sort-order": (BASE, _add_order),
    "set-properties": (
        BASE,
        lambda number: {"action": "set-properties", "updates": {f"p{number}": "x" * 50}},
    ),
    "remove-properties": (
        kit.table(properties={f"p{number}": "" for number in range(FEW * FACTOR)}),
        lambda number: {"action": "remove-properties", "removals": [f"p{number}"]},
    ),
    "add-snapshot": (BASE, lambda number: kit.add_snapshot(number + 2, number + 2)),
    "set-snapshot-ref": (BASE, lambda number: kit.set_ref(f"b{number}", 1)),
    "remove-snapshots": (
        kit.with_snapshots(kit.table(), FEW * FACTOR + 1),
        lambda number: {"action": "remove-snapshots", "snapshot-ids": [number + 1]},
    ),
    "set-partition-statistics": (BASE, _set_statistics),
}


@pytest.mark.parametrize("action", MAKERS)
def test_many_updates_cost_in_proportion_to_their_number(action: str) -> None:
    base, make = MAKERS[action]

    def cost(count: int) -> float:
        changes = [make(number) for number in range(count)]
        costs = []
        for _ in range(3):
            begun = time.process_time()
            kit.apply_all(base, changes, now_ms=kit.NOW_MS, base_location="s3://lake/m")
            costs.append(time.process_time() - begun)
        return min(costs)

    few, many = cost(FEW), cost(FEW * FACTOR)
    assert many < 3 * FACTOR * few + 0.01


def test_many_changes_of_one_table_cost_in_proportion_to_their_number() -> None:
    def cost(count: int) -> float:
        parts = [
            updates.Part(
                requirements=[{"type": "assert-table-uuid", "uuid": kit.UUID}],
                updates=[{"action": "set-properties", "updates": {f"p{number}": ""}}],
            )
            for number in range(count)
        ]
        costs = []
        for _ in range(3):
            begun = time.process_time()
            updates.apply_parts(BASE, parts, now_ms=kit.NOW_MS, base_location="s3://lake/m")
            costs.append(time.process_time() - begun)
        return min(costs)

    few, many = cost(FEW), cost(FEW * FACTOR)
    assert many < 3 * FACTOR * few + 0.01


def test_requirements_of_a_later_part_see_what_the_parts_before_it_did() -> None:
    parts = [
        updates.Part(requirements=[], updates=[_add_schema(1), _set_current(-1)]),
        updates.Part(
            requirements=[{"type": "assert-current-schema-id", "current-schema-id": 1}],
            updates=[kit.set_ref("dev", 1)],
        ),
        updates.Part(
            requirements=[{"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": 1}],
            updates=[],
        ),
    ]
    metadata = updates.apply_parts(BASE, parts, now_ms=kit.NOW_MS, base_location="s3://lake/m")
    assert metadata.current_schema_id == 1
    assert metadata.refs["dev"]["snapshot-id"] == 1
    assert len(metadata.metadata_log) == len(BASE.metadata_log) + 1


def _set_current(schema_id: int) -> dict[str, Any]:
    return {"action": "set-current-schema", "schema-id": schema_id}
