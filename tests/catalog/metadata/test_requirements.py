"""The requirements of a commit: each passes, fails with its exact sentence, or is malformed."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.metadata import errors, requirements
from tests.kit import metadata as kit

ORDER = {
    "fields": [
        {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    ]
}
SPEC = {"fields": [{"source-id": 3, "name": "day_month", "transform": "month"}]}


@pytest.fixture(scope="module")
def base() -> Any:
    metadata = kit.with_snapshots(kit.table(spec=SPEC, order=ORDER), 2)
    return kit.apply(metadata, kit.set_ref("v1", 1, ref_type="tag"))


PASSING: list[dict[str, Any]] = [
    {"type": "assert-table-uuid", "uuid": kit.UUID},
    {"type": "assert-table-uuid", "uuid": kit.UUID.upper()},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
    {"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": 1},
    {"type": "assert-ref-snapshot-id", "ref": "new", "snapshot-id": None},
    {"type": "assert-ref-snapshot-id", "ref": "new"},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
]

FAILING: list[tuple[dict[str, Any], str]] = [
    (
        {"type": "assert-table-uuid", "uuid": "0c12d441"},
        f"Requirement failed: UUID does not match: expected {kit.UUID} != 0c12d441",
    ),
    (
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        "Requirement failed: branch main has changed: expected id 1 != 2",
    ),
    (
        {"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": 2},
        "Requirement failed: tag v1 has changed: expected id 2 != 1",
    ),
    (
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        "Requirement failed: branch main was created concurrently",
    ),
    (
        {"type": "assert-ref-snapshot-id", "ref": "v1"},
        "Requirement failed: tag v1 was created concurrently",
    ),
    (
        {"type": "assert-ref-snapshot-id", "ref": "x", "snapshot-id": 7},
        "Requirement failed: branch or tag x is missing, expected 7",
    ),
    (
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        "Requirement failed: last assigned field id changed: expected id 2 != 3",
    ),
    (
        {"type": "assert-current-schema-id", "current-schema-id": 1},
        "Requirement failed: current schema changed: expected id 1 != 0",
    ),
    (
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
        "Requirement failed: last assigned partition id changed: expected id 999 != 1000",
    ),
    (
        {"type": "assert-default-spec-id", "default-spec-id": 1},
        "Requirement failed: default partition spec changed: expected id 1 != 0",
    ),
    (
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
        "Requirement failed: default sort order changed: expected id 0 != 1",
    ),
    ({"type": "assert-create"}, "Requirement failed: table already exists"),
]


@pytest.mark.parametrize("requirement", PASSING, ids=lambda one: str(one))
def test_requirement_that_holds_passes(base: Any, requirement: dict[str, Any]) -> None:
    requirements.check_requirements(base, [requirement])


@pytest.mark.parametrize(("requirement", "text"), FAILING, ids=lambda one: str(one)[:60])
def test_requirement_that_does_not_hold_fails_with_its_sentence(
    base: Any, requirement: dict[str, Any], text: str
) -> None:
    with pytest.raises(errors.RequirementFailed) as failed:
        requirements.check_requirements(base, [requirement])
    assert str(failed.value) == text


def test_every_requirement_is_tested_both_ways() -> None:
    types = {*requirements.TABLE_REQUIREMENTS, "assert-create"}
    assert {one["type"] for one, _ in FAILING} == types
    assert {one["type"] for one in PASSING} == types - {"assert-create"}
    assert len(types | {"assert-view-uuid"}) == 9


def test_assert_create_passes_when_the_table_is_absent() -> None:
    requirements.check_requirements(None, [{"type": "assert-create"}])


def test_assert_create_beside_another_requirement_is_refused(base: Any) -> None:
    for table in (None, base):
        with pytest.raises(errors.BadRequirement, match="must be the only one"):
            requirements.check_requirements(
                table, [{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": kit.UUID}]
            )


def test_the_first_failing_requirement_speaks(base: Any) -> None:
    with pytest.raises(errors.RequirementFailed, match="current schema changed"):
        requirements.check_requirements(
            base,
            [
                {"type": "assert-table-uuid", "uuid": kit.UUID},
                {"type": "assert-current-schema-id", "current-schema-id": 4},
                {"type": "assert-default-spec-id", "default-spec-id": 4},
            ],
        )


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-everything"},
        {"type": "assert-view-uuid", "uuid": kit.UUID},
        {"type": 5},
        {},
        "assert-create",
        None,
        {"type": "assert-table-uuid"},
        {"type": "assert-ref-snapshot-id", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": "1"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": True},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2**63},
        {"type": "assert-current-schema-id", "current-schema-id": 0.0},
        {"type": "assert-default-spec-id", "default-spec-id": 2**31},
    ],
)
def test_malformed_or_unknown_requirement_is_refused(base: Any, requirement: Any) -> None:
    with pytest.raises(errors.BadRequirement):
        requirements.check_requirements(base, [requirement])
