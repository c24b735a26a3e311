"""Partition specs: ids from 1000 that never change hands, reuse, and the three updates."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.metadata import errors
from tests.kit import metadata as kit


def field(source_id: int, transform: str, name: str, field_id: int | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"source-id": source_id, "transform": transform, "name": name}
    return metadata if field_id is None else {**metadata, "field-id": field_id}


def add(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"action": "add-spec", "spec": {"fields": list(fields), **more}}


def set_default(spec_id: int) -> dict[str, Any]:
    return {"action": "set-default-spec", "spec-id": spec_id}


MONTH = field(3, "month", "day_month")
BUCKET = field(1, "bucket[8]", "id_bucket")


@pytest.fixture
def base() -> Any:
    return kit.table(spec={"fields": [MONTH]})


def test_add_spec_takes_the_next_id_and_numbers_unbound_fields(base: Any) -> None:
    metadata = kit.apply(base, add(BUCKET, **{"spec-id": 44}))
    assert metadata.spec(1) == {"spec-id": 1, "fields": [{**BUCKET, "field-id": 1001}]}
    assert metadata.last_partition_id == 1001
    assert metadata.default_spec_id == 0


def test_add_spec_gives_a_known_pair_of_source_and_transform_its_old_id(base: Any) -> None:
    metadata = kit.apply(base, add(BUCKET, field(3, "month", "renamed")))
    assert metadata.spec(1) == {
        "spec-id": 1,
        "fields": [{**BUCKET, "field-id": 1001}, field(3, "month", "renamed", 1000)],
    }


def test_add_spec_keeps_the_field_ids_it_was_given(base: Any) -> None:
    metadata = kit.apply(base, add({**MONTH, "field-id": 1000}, {**BUCKET, "field-id": 1005}))
    assert [one["field-id"] for one in metadata.spec(1)["fields"]] == [1000, 1005]
    assert metadata.last_partition_id == 1005
    later = kit.apply(metadata, add(field(2, "truncate[4]", "short")))
    assert later.spec(2)["fields"][0]["field-id"] == 1006


def test_add_spec_identical_reuses_its_id_and_minus_one_means_it(base: Any) -> None:
    grown = kit.apply(base, add(BUCKET), set_default(-1))
    assert grown.default_spec_id == 1
    metadata = kit.apply(grown, add({**MONTH, "field-id": 1000}), set_default(-1))
    assert metadata.partition_specs == grown.partition_specs
    assert metadata.default_spec_id == 0
    assert kit.apply(base, add(MONTH)) is base


def test_add_spec_ids_are_never_reused_after_removal(base: Any) -> None:
    grown = kit.apply(base, add(BUCKET))
    removed = kit.apply(grown, {"action": "remove-partition-specs", "spec-ids": [1]})
    assert removed.last_partition_id == 1001
    metadata = kit.apply(removed, add(field(2, "identity", "name")))
    assert metadata.spec(1)["fields"][0]["field-id"] == 1002


def test_add_spec_with_the_field_id_of_another_pair_is_refused(base: Any) -> None:
    with pytest.raises(
        errors.BadUpdate, match=r"Partition field id 1000 already belongs to month\(3\)"
    ):
        kit.apply(base, add({**BUCKET, "field-id": 1000}))


def test_add_spec_may_void_a_field_and_bring_it_back(base: Any) -> None:
    voided = kit.apply(base, add(field(3, "void", "day_month", 1000)), set_default(-1))
    assert voided.default_spec_id == 1
    metadata = kit.apply(voided, add({**MONTH, "field-id": 1000}), set_default(-1))
    assert metadata.default_spec_id == 0


def test_add_spec_void_may_name_a_column_that_is_gone() -> None:
    metadata = kit.apply(kit.table(), add(field(99, "void", "gone", 1000)), set_default(-1))
    assert metadata.default_spec()["fields"][0]["source-id"] == 99


@pytest.mark.parametrize("ids", [[1001], [1000, 1002], [1001, 1000], [999]])
def test_add_spec_v1_needs_sequential_ids(ids: list[int]) -> None:
    fields = [{**BUCKET, "field-id": ids[0]}]
    if len(ids) > 1:
        fields.append(field(2, "identity", "name", ids[1]))
    with pytest.raises(errors.BadUpdate, match="sequential IDs that are required in v1"):
        kit.apply(kit.table(version=1), add(*fields))


def test_add_spec_v1_numbers_by_place() -> None:
    base = kit.table(version=1, spec={"fields": [MONTH]})
    metadata = kit.apply(base, add(field(3, "void", "day_month"), BUCKET))
    assert [one["field-id"] for one in metadata.spec(1)["fields"]] == [1000, 1001]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([field(9, "identity", "x")], r"Cannot find source column .* x: identity\(9\)"),
        ([field(2, "hour", "x")], "Invalid source type string for transform: hour"),
        ([field(1, "bucket[0]", "x")], r"Cannot parse transform: bucket\[0\]"),
        ([field(1, "truncate[-1]", "x")], "Cannot parse transform"),
        ([field(1, "identity", "name")], "sourced from different field in schema: name"),
        ([field(1, "identity", "x", 999)], "Partition field ids start at 1000: 999"),
        (
            [field(1, "identity", "x", 1007), field(2, "identity", "y", 1007)],
            "used more than once",
        ),
        ([{"name": "x", "transform": "void"}], "Cannot parse missing int: source-id"),
        ([{"source-id": 1, "transform": "void"}], "Cannot parse missing string: name"),
        ([{"source-id": 1, "name": "x"}], "Cannot parse missing string: transform"),
        (["x"], "Cannot parse partition field from a non-object"),
    ],
)
def test_add_spec_the_schema_cannot_have_is_refused(fields: list[Any], message: str) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(kit.table(), add(*fields))


def test_add_spec_by_a_field_inside_a_list_is_refused() -> None:
    schema = {
        "fields": [
            {
                "id": 1,
                "name": "l",
                "required": False,
                "type": {
                    "type": "list",
                    "element-id": 2,
                    "element": "int",
                    "element-required": True,
                },
            }
        ]
    }
    with pytest.raises(errors.BadUpdate, match="Invalid partition field parent: list"):
        kit.apply(kit.table(schema=schema), add(field(2, "identity", "x")))
    with pytest.raises(errors.BadUpdate, match="Cannot partition by non-primitive source field"):
        kit.apply(kit.table(schema=schema), add(field(1, "identity", "x")))


def test_set_default_spec_to_an_unknown_id_is_refused(base: Any) -> None:
    with pytest.raises(errors.BadUpdate, match="unknown spec: 3"):
        kit.apply(base, set_default(3))


def test_set_default_spec_to_the_last_added_without_one_is_refused(base: Any) -> None:
    with pytest.raises(
        errors.BadUpdate, match=r"^Cannot set last added spec: no spec has been added$"
    ):
        kit.apply(base, set_default(-1))


def test_remove_partition_specs_removes_known_ones_and_ignores_unknown_ones(base: Any) -> None:
    grown = kit.apply(base, add(BUCKET))
    metadata = kit.apply(grown, {"action": "remove-partition-specs", "spec-ids": [1, 9]})
    assert metadata.partition_specs == base.partition_specs
    assert kit.apply(metadata, {"action": "remove-partition-specs", "spec-ids": [1]}) is metadata


def test_remove_partition_specs_of_the_default_one_is_refused(base: Any) -> None:
    with pytest.raises(errors.BadUpdate, match=r"^Cannot remove the default partition spec$"):
        kit.apply(base, {"action": "remove-partition-specs", "spec-ids": [0]})
