"""createTable: fresh ids one level at a time, spec and order carried over."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.metadata import creation, errors
from tests.kit import metadata as kit

NESTED: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {
            "id": 20,
            "name": "point",
            "required": True,
            "type": {
                "type": "struct",
                "fields": [
                    {"id": 30, "name": "x", "required": True, "type": "double"},
                    {"id": 31, "name": "at", "required": True, "type": "timestamp"},
                ],
            },
        },
        {
            "id": 21,
            "name": "tags",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 40,
                "key": "string",
                "value-id": 41,
                "value-required": False,
                "value": {
                    "type": "list",
                    "element-id": 42,
                    "element-required": True,
                    "element": "int",
                },
            },
        },
        {"id": 22, "name": "id", "required": True, "type": "long"},
    ],
    "identifier-field-ids": [22],
}


def test_create_assigns_column_ids_one_level_at_a_time() -> None:
    metadata = kit.table(schema=NESTED)
    point, tags, id_ = metadata.current_schema()["fields"]
    assert [point["id"], tags["id"], id_["id"]] == [1, 2, 3]
    assert [field["id"] for field in point["type"]["fields"]] == [4, 5]
    assert (tags["type"]["key-id"], tags["type"]["value-id"]) == (6, 7)
    assert tags["type"]["value"]["element-id"] == 8
    assert metadata.current_schema()["identifier-field-ids"] == [3]
    assert metadata.current_schema()["schema-id"] == 0
    assert metadata.last_column_id == 8


def test_create_carries_spec_and_order_over_to_the_new_ids() -> None:
    metadata = kit.table(
        schema=NESTED,
        spec={
            "spec-id": 9,
            "fields": [
                {"source-id": 31, "field-id": 1007, "name": "at_day", "transform": "day"},
                {"source-id": 22, "name": "id_bucket", "transform": "bucket[16]"},
            ],
        },
        order={
            "order-id": 5,
            "fields": [
                {
                    "source-id": 22,
                    "transform": "identity",
                    "direction": "asc",
                    "null-order": "nulls-last",
                }
            ],
        },
    )
    assert metadata.partition_specs == (
        {
            "spec-id": 0,
            "fields": [
                {"source-id": 5, "field-id": 1000, "name": "at_day", "transform": "day"},
                {"source-id": 3, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
            ],
        },
    )
    assert metadata.last_partition_id == 1001
    assert metadata.sort_orders == (
        {
            "order-id": 1,
            "fields": [
                {
                    "source-id": 3,
                    "transform": "identity",
                    "direction": "asc",
                    "null-order": "nulls-last",
                }
            ],
        },
    )
    assert metadata.default_sort_order_id == 1


def test_create_without_spec_and_order_is_unpartitioned_and_unsorted() -> None:
    metadata = kit.table()
    assert metadata.partition_specs == ({"spec-id": 0, "fields": []},)
    assert metadata.last_partition_id == 999
    assert metadata.sort_orders == ({"order-id": 0, "fields": []},)
    assert metadata.default_sort_order_id == 0


@pytest.mark.parametrize(("requested", "version"), [("1", 1), ("2", 2), ("3", 3), (None, 2)])
def test_create_takes_the_format_version_from_the_property_and_never_stores_it(
    requested: str | None, version: int
) -> None:
    properties = (
        {"owner": "ana"} if requested is None else {"owner": "ana", "format-version": requested}
    )
    metadata = creation.new_table(
        schema=kit.SCHEMA,
        location=kit.LOCATION + "/",
        properties=properties,
        table_uuid=kit.UUID,
        now_ms=kit.NOW_MS,
    )
    assert metadata.format_version == version
    assert metadata.properties == {"owner": "ana", "write.parquet.compression-codec": "zstd"}
    assert metadata.location == kit.LOCATION
    assert metadata.last_updated_ms == kit.NOW_MS
    assert metadata.current_snapshot_id is None
    assert metadata.last_sequence_number == 0
    assert metadata.next_row_id == 0
    assert metadata.snapshot_log == []
    assert metadata.metadata_log == []


@pytest.mark.parametrize("requested", ["4", "0", "-1", "two", ""])
def test_create_with_an_unknown_format_version_is_refused(requested: str) -> None:
    with pytest.raises(errors.BadUpdate, match=r"Unsupported format version|Invalid integer"):
        kit.table(properties={"format-version": requested})


@pytest.mark.parametrize(
    ("type_", "version", "message"),
    [
        ("variant", 2, "variant is not supported until v3"),
        ("timestamp_ns", 2, "timestamp_ns is not supported until v3"),
        ("timestamptz_ns", 1, "timestamptz_ns is not supported until v3"),
        ("unknown", 2, "unknown is not supported until v3"),
        ("geometry", 2, "geometry is not supported until v3"),
        ("geography(srid:4269, karney)", 2, "is not supported until v3"),
    ],
)
def test_create_with_a_type_of_a_later_version_is_refused(
    type_: str, version: int, message: str
) -> None:
    schema = {"fields": [{"id": 1, "name": "v", "required": False, "type": type_}]}
    with pytest.raises(errors.BadUpdate, match=message):
        kit.table(schema=schema, version=version)
    assert kit.table(schema=schema, version=3).current_schema()["fields"][0]["type"] == type_


def test_create_with_an_initial_default_needs_v3() -> None:
    field = {"id": 1, "name": "n", "required": True, "type": "int", "initial-default": 7}
    with pytest.raises(errors.BadUpdate) as refused:
        kit.table(schema={"fields": [field]}, version=2)
    assert str(refused.value) == (
        "Invalid schema for v2:\n- Invalid initial default for n: non-null default (7) is not"
        " supported until v3"
    )
    metadata = kit.table(schema={"fields": [field]}, version=3)
    assert metadata.current_schema()["fields"] == [field]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"fields": [{"source-id": 9, "name": "x", "transform": "identity"}]},
            "Cannot find source",
        ),
        (
            {"fields": [{"source-id": 2, "name": "x", "transform": "day"}]},
            "Invalid source type string for transform: day",
        ),
        (
            {"fields": [{"source-id": 2, "name": "id", "transform": "identity"}]},
            "Cannot create identity partition sourced from different field in schema: id",
        ),
        ({"fields": [{"source-id": 2, "name": "", "transform": "void"}]}, "empty partition name"),
        (
            {
                "fields": [
                    {"source-id": 2, "name": "x", "transform": "identity"},
                    {"source-id": 1, "name": "x", "transform": "identity"},
                ]
            },
            "Cannot use partition name more than once: x",
        ),
        ({"fields": [{"source-id": 2, "name": "x", "transform": "zorder"}]}, "Cannot parse trans"),
        ({"fields": [{"source-ids": [1, 2], "name": "x", "transform": "void"}]}, "several source"),
        ({"fields": "x"}, "Cannot parse fields from non-array"),
        ([], "Cannot parse partition spec from a non-object"),
    ],
)
def test_create_with_a_spec_the_schema_cannot_have_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        kit.table(spec=spec)


def test_create_never_changes_what_it_was_given() -> None:
    before = repr(NESTED)
    kit.table(schema=NESTED)
    assert repr(NESTED) == before
