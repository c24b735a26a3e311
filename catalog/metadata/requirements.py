"""rule: the requirements of a commit on the table's current state.

Nine requirements, one closed table from name to function. A failed one raises RequirementFailed
with the message that Iceberg's clients expect; it never changes anything.
Source: Iceberg REST specification, TableRequirement and ViewRequirement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from catalog.metadata import errors, json_values, limits
from catalog.metadata.json_values import Json


class State(Protocol):
    """The state that requirements check: a table's metadata, or a Draft."""

    @property
    def table_uuid(self) -> str | None: ...
    @property
    def last_column_id(self) -> int: ...
    @property
    def current_schema_id(self) -> int: ...
    @property
    def last_partition_id(self) -> int: ...
    @property
    def default_spec_id(self) -> int: ...
    @property
    def default_sort_order_id(self) -> int: ...
    @property
    def refs(self) -> Mapping[str, Json]: ...


Requirement: TypeAlias = Callable[[State, Json], None]

ASSERT_CREATE = "assert-create"


def asks_create(requirements: Sequence[Json]) -> bool:
    """Return whether the commit creates its table."""
    return any(_type_of(requirement) == ASSERT_CREATE for requirement in requirements)


def check_requirements(base: State | None, requirements: Sequence[Json]) -> None:
    """Check every requirement against base; None means that the table does not exist.

    Raises RequirementFailed, or BadRequirement for one that is malformed or unknown.
    """
    if len(requirements) > limits.REQUIREMENTS_MAX:
        raise errors.BadRequirement(
            f"A commit has at most {limits.REQUIREMENTS_MAX} requirements of one table"
        )
    if asks_create(requirements):
        if len(requirements) > 1:
            raise errors.BadRequirement(
                "Invalid create requirements: assert-create must be the only one"
            )
        if base is not None:
            raise errors.RequirementFailed("Requirement failed: table already exists")
        return
    for requirement in requirements:
        name = _type_of(requirement)
        if name == "assert-view-uuid":
            raise errors.BadRequirement(f"Cannot check requirement {name} of a table")
        if name not in TABLE_REQUIREMENTS:
            raise errors.BadRequirement(f"Cannot check unknown requirement: {name}")
        if base is None:
            raise errors.RequirementFailed("Requirement failed: table does not exist")
        try:
            TABLE_REQUIREMENTS[name](base, requirement)
        except errors.BadUpdate as error:
            raise errors.BadRequirement(str(error)) from error


def _type_of(requirement: object) -> str:
    try:
        return json_values.get_text(
            json_values.check_object(requirement, what="requirement"), "type"
        ).lower()
    except errors.BadUpdate as error:
        raise errors.BadRequirement(str(error)) from error


def assert_table_uuid(base: State, requirement: Json) -> None:
    uuid = json_values.get_text(requirement, "uuid")
    if uuid.lower() != (base.table_uuid or "").lower():
        raise errors.RequirementFailed(
            f"Requirement failed: UUID does not match: expected {base.table_uuid} != {uuid}"
        )


def assert_ref_snapshot_id(base: State, requirement: Json) -> None:
    """A snapshot-id of null, or none, requires that there be no such ref."""
    name = json_values.get_text(requirement, "ref")
    expected = json_values.find_long(requirement, "snapshot-id")
    ref = base.refs.get(name)
    if ref is None:
        if expected is not None:
            raise errors.RequirementFailed(
                f"Requirement failed: branch or tag {name} is missing, expected {expected}"
            )
        return
    if expected is None:
        raise errors.RequirementFailed(
            f"Requirement failed: {ref['type']} {name} was created concurrently"
        )
    if expected != ref["snapshot-id"]:
        raise errors.RequirementFailed(
            f"Requirement failed: {ref['type']} {name} has changed: expected id {expected} !="
            f" {ref['snapshot-id']}"
        )


def assert_last_assigned_field_id(base: State, requirement: Json) -> None:
    expected = json_values.get_int(requirement, "last-assigned-field-id")
    _check_equal("last assigned field id", expected, base.last_column_id)


def assert_current_schema_id(base: State, requirement: Json) -> None:
    expected = json_values.get_int(requirement, "current-schema-id")
    _check_equal("current schema", expected, base.current_schema_id)


def assert_last_assigned_partition_id(base: State, requirement: Json) -> None:
    expected = json_values.get_int(requirement, "last-assigned-partition-id")
    _check_equal("last assigned partition id", expected, base.last_partition_id)


def assert_default_spec_id(base: State, requirement: Json) -> None:
    expected = json_values.get_int(requirement, "default-spec-id")
    _check_equal("default partition spec", expected, base.default_spec_id)


def assert_default_sort_order_id(base: State, requirement: Json) -> None:
    expected = json_values.get_int(requirement, "default-sort-order-id")
    _check_equal("default sort order", expected, base.default_sort_order_id)


def _check_equal(what: str, expected: int, actual: int) -> None:
    if expected != actual:
        raise errors.RequirementFailed(
            f"Requirement failed: {what} changed: expected id {expected} != {actual}"
        )


TABLE_REQUIREMENTS: Mapping[str, Requirement] = {
    "assert-table-uuid": assert_table_uuid,
    "assert-ref-snapshot-id": assert_ref_snapshot_id,
    "assert-last-assigned-field-id": assert_last_assigned_field_id,
    "assert-current-schema-id": assert_current_schema_id,
    "assert-last-assigned-partition-id": assert_last_assigned_partition_id,
    "assert-default-spec-id": assert_default_spec_id,
    "assert-default-sort-order-id": assert_default_sort_order_id,
}
"""Beside these: assert-create, which needs no table, and assert-view-uuid (see `views`)."""
