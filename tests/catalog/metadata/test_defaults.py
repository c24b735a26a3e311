"""Defaults of fields: the values of their types, in the one form that readers parse.

Valid and invalid forms of primitive types are those of the Iceberg specification, Appendix D, and
PyIceberg reads each valid one of a type whose defaults it knows. Nested types have none.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg import schema as pyiceberg_schema
from pyiceberg.conversions import to_json

from catalog.metadata import errors, json_values, schemas

FIELD = {"id": 2, "name": "b", "required": True, "type": "string"}
STRUCT = {"type": "struct", "fields": [FIELD]}
INTS = {"type": "list", "element-id": 2, "element": "int", "element-required": False}
WORDS = {
    "type": "map", "key-id": 2, "key": "string",
    "value-id": 3, "value": "date", "value-required": False,
}  # fmt: skip

VALID = [
    ("boolean", True), ("int", -(2**31)), ("int", 2**31 - 1), ("long", 2**40), ("float", 1),
    ("float", 1.5), ("double", -1e300), ("decimal(9,2)", "14.20"), ("decimal(4,2)", "-14.20"),
    ("decimal(3,0)", "999"), ("date", "2017-11-16"), ("time", "22:31:08.123456"),
    ("time", "22:31:08"), ("timestamp", "2017-11-16T22:31:08.123456"),
    ("timestamptz", "2017-11-16T22:31:08.123456+00:00"), ("string", "foo"), ("string", ""),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"), ("fixed[4]", "000102ff"),
    ("binary", "000102ff"), ("binary", ""),
]  # fmt: skip
"""Primitive types and defaults in the JSON single-value form, as the specification spells them."""

VALID_BEYOND_PYICEBERG = [
    ("timestamp_ns", "2017-11-16T22:31:08.123456789"),
    ("timestamptz_ns", "2017-11-16T22:31:08.123456789+00:00"),
]  # fmt: skip

NULL_ONLY = [STRUCT, INTS, WORDS, "variant", "unknown", "geometry"]

INVALID = [
    ("boolean", 1), ("boolean", "true"), ("int", "x"), ("int", 2**40), ("int", 1.5), ("int", True),
    ("int", [1]), ("int", {}), ("long", 2**63), ("long", "7"), ("float", "1.5"), ("float", 1e39),
    ("double", "NaN"), ("double", True), ("decimal(9,2)", 14.2), ("decimal(9,2)", "14.2"),
    ("decimal(3,2)", "14.20"), ("decimal(9,2)", "1e2"), ("decimal(9,2)", "x"), ("date", "zzz"),
    ("date", 17_000), ("date", "20171116"), ("date", "2017-02-30"), ("date", "2017-W01-1"),
    ("time", "25:00:00"), ("time", 5), ("time", "22:31:08.1234567"),
    ("timestamp", "2017-11-16 22:31:08"), ("timestamp", "2017-11-16T22:31:08+00:00"),
    ("timestamp", 1), ("timestamptz", "2017-11-16T22:31:08"),
    ("timestamptz", "2017-11-16T22:31:08+01:00"), ("timestamptz", "2017-11-16T22:31:08Z"),
    ("string", 1), ("string", ["a"]), ("uuid", "f79c3e09677c4bbda4793f349cb785e7"), ("uuid", 1),
    ("fixed[4]", "0001"), ("fixed[4]", "0001 02ff"), ("binary", "0"), ("binary", "zz"),
    ("binary", [1]), ("unknown", 1), ("variant", {"a": 1}), ("variant", "x"),
    ("geometry", "POINT (1 2)"), ("geography", "POINT (1 2)"), (STRUCT, {"2": "x"}), (STRUCT, {}),
    (STRUCT, "x"), (INTS, 1), (INTS, [1]), (INTS, []), (WORDS, {"keys": ["a"], "values": [None]}),
    (WORDS, {"keys": [], "values": []}), (WORDS, {}),
]  # fmt: skip
"""Java reads only null as a default of a struct, list or map: `SchemaParser` fails on these."""

MEMBERS = ("initial-default", "write-default")


def schema(member: str, type_: Any, value: Any) -> dict[str, Any]:
    field = {"id": 1, "name": "d", "required": False, "type": type_, member: value}
    return {"type": "struct", "schema-id": 0, "fields": [field]}


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize(("type_", "value"), [*VALID, *VALID_BEYOND_PYICEBERG])
def test_a_default_of_its_fields_type_is_taken_as_it_came(
    type_: Any, value: Any, member: str
) -> None:
    checked = schemas.check_schema(schema(member, type_, value), format_version=3)
    assert checked["fields"][0][member] == value


@pytest.mark.parametrize("type_", [*NULL_ONLY, "int", "string"])
def test_a_default_of_null_is_left_out_at_every_depth(type_: Any) -> None:
    """Java makes a literal of each default that is there, and has none of null."""
    field = {"id": 7, "name": "f", "required": False, "type": type_}
    nulls: dict[str, Any] = dict.fromkeys(MEMBERS)

    def within(field: dict[str, Any], **more: Any) -> dict[str, Any]:
        struct = {"type": "struct", "fields": [field]}
        listed = {"type": "list", "element-id": 11, "element": struct, "element-required": False}
        mapped = {
            "type": "map", "key-id": 12, "key": "int", "value-id": 13, "value": listed,
            "value-required": False,
        }  # fmt: skip
        outer = {"id": 14, "name": "d", "required": False, "type": mapped, **more}
        valued = {"id": 15, "name": "e", "required": False, "type": "int", "write-default": 0}
        return {"type": "struct", "schema-id": 0, "fields": [outer, valued]}

    sent = within({**field, **nulls}, **nulls)
    copy = json.loads(json.dumps(sent))
    assert schemas.check_schema(sent, format_version=3) == within(field)
    assert sent == copy


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize(("type_", "value"), VALID)
def test_pyiceberg_reads_a_default_that_is_taken(type_: Any, value: Any, member: str) -> None:
    read = pyiceberg_schema.Schema.model_validate(schema(member, type_, value))
    (field,) = read.fields
    default = field.initial_default if member == "initial-default" else field.write_default
    assert default is not None
    written = to_json(field.field_type, default)
    # PyIceberg writes a fraction of a second, and more of its digits, where there are none.
    assert written == value or str(written).removesuffix(".000000") == value


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize(("type_", "value"), INVALID)
def test_a_default_that_is_no_value_of_its_fields_type_is_refused(
    type_: Any, value: Any, member: str
) -> None:
    with pytest.raises(errors.BadUpdate) as caught:
        schemas.check_schema(schema(member, type_, value), format_version=3)
    what = type_ if isinstance(type_, str) else type_["type"]
    assert str(caught.value) == (
        f"Invalid schema for v3:\n- Invalid {member.replace('-', ' ')} for d: Cannot parse default"
        f" as a {what} value: {json_values.shown(value)}"
    )


def test_a_default_inside_a_struct_is_checked_and_named_by_its_path() -> None:
    inner = {**STRUCT, "fields": [{**FIELD, "write-default": 1}]}
    with pytest.raises(errors.BadUpdate, match=r"Invalid write default for d\.b: "):
        schemas.check_schema(schema("doc", inner, None), format_version=3)


def test_a_default_for_writes_is_checked_in_every_format_version() -> None:
    with pytest.raises(errors.BadUpdate, match="Invalid write default for d"):
        schemas.check_schema(schema("write-default", "int", "x"), format_version=1)
