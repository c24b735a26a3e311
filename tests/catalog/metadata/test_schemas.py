"""Schemas: what a table may have, when two are one, and the three updates that touch them."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.metadata import errors, schemas
from tests.kit import metadata as kit


def column(field_id: int, name: str, type_: Any = "long", **more: Any) -> dict[str, Any]:
    members = {"id": field_id, "name": name, "required": False, "type": type_}
    return {**members, **{key.replace("_", "-"): value for key, value in more.items()}}


def schema(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": list(fields),
        **{key.replace("_", "-"): value for key, value in more.items()},
    }


def add(schema: Any, **more: Any) -> dict[str, Any]:
    return {"action": "add-schema", "schema": schema, **more}


def set_current(schema_id: int) -> dict[str, Any]:
    return {"action": "set-current-schema", "schema-id": schema_id}


WIDER = schema(*kit.SCHEMA["fields"], column(4, "extra"))


def test_add_schema_takes_the_next_id_and_raises_last_column_id() -> None:
    metadata = kit.apply(kit.table(), add({**WIDER, "schema-id": 77}))
    assert metadata.schemas == (kit.SCHEMA, {**WIDER, "schema-id": 1})
    assert metadata.last_column_id == 4
    assert metadata.current_schema_id == 0


def test_add_schema_computes_last_column_id_whatever_the_request_says() -> None:
    metadata = kit.apply(kit.table(), add(WIDER, **{"last-column-id": 400}))
    assert metadata.last_column_id == 4


def test_add_schema_never_lowers_last_column_id() -> None:
    grown = kit.apply(kit.table(), add(schema(column(90, "far"))))
    metadata = kit.apply(grown, add(schema(column(1, "near"))))
    assert metadata.last_column_id == 90


def test_add_schema_counts_ids_inside_nested_types() -> None:
    nested = schema(
        column(4, "m", {
            "type": "map", "key-id": 11, "key": "string",
            "value-id": 12, "value-required": False, "value": "long",
        })
    )  # fmt: skip
    assert kit.apply(kit.table(), add(nested)).last_column_id == 12


def test_add_schema_identical_reuses_its_id_and_minus_one_means_it() -> None:
    base = kit.apply(kit.table(), add(WIDER), set_current(-1))
    assert base.current_schema_id == 1
    metadata = kit.apply(base, add({**kit.SCHEMA, "schema-id": 5}), set_current(-1))
    assert metadata.schemas == base.schemas
    assert metadata.current_schema_id == 0


def test_add_schema_identical_alone_changes_nothing() -> None:
    base = kit.table()
    assert kit.apply(base, add(kit.SCHEMA)) is base


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (column(1, "a"), column(1, "a"), True),
        (column(1, "a"), column(1, "a", doc=None), True),
        (column(1, "a", "decimal(9,2)"), column(1, "a", "decimal(9, 2)"), True),
        (column(1, "a", "geometry"), column(1, "a", "geometry(OGC:CRS84)"), True),
        (column(1, "a"), column(2, "a"), False),
        (column(1, "a"), column(1, "b"), False),
        (column(1, "a"), column(1, "a", "int"), False),
        (column(1, "a"), column(1, "a", doc="x"), False),
        (column(1, "a"), {**column(1, "a"), "required": True}, False),
        (column(1, "a"), column(1, "a", write_default=1), False),
        (column(1, "a", "boolean", write_default=True), column(1, "a", "boolean"), False),
        (column(1, "a", "fixed[3]"), column(1, "a", "fixed[4]"), False),
    ],
)
def test_identity_of_a_schema_is_all_but_its_id(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    ours, theirs = schema(one, schema_id=1), schema(other, schema_id=2)
    assert (schemas.identity_of(ours) == schemas.identity_of(theirs)) is same


def test_identity_of_a_schema_holds_identifier_fields_as_a_set() -> None:
    fields = [{**column(1, "a"), "required": True}, {**column(2, "b"), "required": True}]
    first, second, one, none = (
        schemas.identity_of(schema(*fields, **more))
        for more in (
            {"identifier_field_ids": [1, 2]},
            {"identifier_field_ids": [2, 1]},
            {"identifier_field_ids": [1]},
            {},
        )
    )
    assert first == second
    assert one != none


def test_set_current_schema_to_an_unknown_id_is_refused() -> None:
    with pytest.raises(errors.BadUpdate, match="Cannot set current schema to unknown schema: 9"):
        kit.apply(kit.table(), set_current(9))


def test_set_current_schema_to_the_last_added_without_one_is_refused() -> None:
    with pytest.raises(
        errors.BadUpdate, match="Cannot set last added schema: no schema has been added"
    ):
        kit.apply(kit.table(), set_current(-1))


def test_set_current_schema_that_loses_a_partition_source_is_refused() -> None:
    spec = {"fields": [{"source-id": 3, "name": "day_month", "transform": "month"}]}
    base = kit.table(spec=spec)
    with pytest.raises(errors.BadUpdate, match="Cannot find source column for partition field"):
        kit.apply(base, add(schema(column(1, "id"))), set_current(-1))


def test_set_current_schema_that_loses_a_sort_source_is_refused() -> None:
    order = {
        "fields": [
            {
                "source-id": 2,
                "transform": "identity",
                "direction": "asc",
                "null-order": "nulls-first",
            }
        ]
    }
    with pytest.raises(errors.BadUpdate, match="Cannot find source column for sort field"):
        kit.apply(kit.table(order=order), add(schema(column(1, "id"))), set_current(-1))


def test_set_current_schema_may_lose_the_source_of_an_older_spec() -> None:
    spec = {"fields": [{"source-id": 3, "name": "day_month", "transform": "month"}]}
    metadata = kit.apply(
        kit.table(spec=spec),
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        add(schema(column(1, "id"))),
        set_current(-1),
    )
    assert (metadata.default_spec_id, metadata.current_schema_id) == (1, 1)


def test_remove_schemas_removes_known_ones_and_ignores_unknown_ones() -> None:
    base = kit.apply(kit.table(), add(WIDER))
    metadata = kit.apply(base, {"action": "remove-schemas", "schema-ids": [1, 50]})
    assert metadata.schemas == (kit.SCHEMA,)
    assert metadata.last_column_id == 4
    assert kit.apply(metadata, {"action": "remove-schemas", "schema-ids": [1]}) is metadata


def test_remove_schemas_of_the_current_one_is_refused() -> None:
    with pytest.raises(errors.BadUpdate, match=r"^Cannot remove the current schema$"):
        kit.apply(kit.table(), {"action": "remove-schemas", "schema-ids": [0]})


def test_add_schema_with_a_later_types_needs_the_format_version() -> None:
    later = schema(*kit.SCHEMA["fields"], column(4, "v", "variant"))
    with pytest.raises(errors.BadUpdate, match="variant is not supported until v3"):
        kit.apply(kit.table(version=2), add(later))
    upgrade = {"action": "upgrade-format-version", "format-version": 3}
    assert kit.apply(kit.table(version=2), upgrade, add(later)).schema(1) is not None


STRUCT = {"type": "struct", "fields": [{**column(2, "b", "string"), "required": True}]}


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        (None, "Cannot parse schema from a non-object"),
        ([], "Cannot parse schema from a non-object"),
        ({"type": "list", "fields": []}, "expected a struct"),
        ({}, "Cannot parse missing list: fields"),
        (schema(column(1, "a"), column(1, "b")), "Multiple entries with same key: 1=a and 1=b"),
        (schema(column(1, "a"), column(2, "a")), "multiple fields for name a"),
        (schema({**column(1, "a"), "id": "1"}), "Cannot parse to an int value: id"),
        (schema({**column(1, "a"), "required": 1}), "Cannot parse to a boolean value: required"),
        (schema(column(1, "a", "int128")), "Cannot parse type string to primitive: int128"),
        (schema(column(1, "a", "decimal(39,0)")), "Decimals with precision larger than 38"),
        (schema(column(1, "a", "decimal(3,4)")), "Decimals with precision"),
        (schema(column(1, "a", "fixed[x]")), "Cannot parse type string"),
        (
            schema(column(1, "a", {"type": "set"})),
            r'Cannot parse type string to primitive: \{"type":"set"\}',
        ),
        (schema(column(1, "a", None)), "Cannot parse missing field: type of a"),
        (schema(column(1, "a", {"type": "list", "element-id": 2})), "element-required"),
        (schema(column(2_147_483_500, "a")), "reserved for metadata columns"),
        (schema({**column(1, "a", "unknown"), "required": True}), "must be optional"),
        (schema(column(1, "a"), identifier_field_ids=[7]), "field does not exist"),
        (schema(column(1, "a"), identifier_field_ids=[1]), "not a required field"),
        (
            schema({**column(1, "a", "double"), "required": True}, identifier_field_ids=[1]),
            "must not be float or double field",
        ),
        (
            schema({**column(1, "a", STRUCT), "required": True}, identifier_field_ids=[1]),
            "not a primitive type field",
        ),
        (
            schema(column(1, "a", STRUCT), identifier_field_ids=[2]),
            "must not be nested in an optional field a",
        ),
        (
            schema(
                {
                    **column(
                        1, "a",
                        {"type": "list", "element-id": 2, "element": "int",
                         "element-required": True},
                    ),
                    "required": True,
                },
                identifier_field_ids=[2],
            ),
            "must not be nested in a",
        ),
    ],
)  # fmt: skip
def test_add_schema_that_is_none_is_refused(addition: Any, message: str) -> None:
    base = kit.table(version=3)
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(base, add(addition))


def test_add_schema_nested_beyond_the_bound_is_refused_before_python_is_in_trouble() -> None:
    deep: Any = "int"
    for level in range(5_000):
        deep = {"type": "list", "element-id": 10 + level, "element": deep, "element-required": True}
    with pytest.raises(errors.BadUpdate, match="nest more than 100 deep"):
        kit.apply(kit.table(), add(schema(column(1, "a", deep))))
