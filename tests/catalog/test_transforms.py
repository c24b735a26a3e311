"""Partition transforms: the specification's own values, and PyIceberg's on random ones."""

from __future__ import annotations

import decimal
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record

from catalog import transforms, values
from tests.catalog import test_values
from tests.kit import examples

UUID_BYTES = bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")


@pytest.mark.parametrize(
    ("type_", "value", "hashed"),
    [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", decimal.Decimal("14.20"), -500754589),
        ("date", values.from_json("date", "2017-11-16"), -653330422),
        ("time", values.from_json("time", "22:31:08"), -662762989),
        ("timestamp", values.from_json("timestamp", "2017-11-16T22:31:08"), -2047944441),
        ("timestamp", values.from_json("timestamp", "2017-11-16T22:31:08.000001"), -1207196810),
        ("timestamptz", values.from_json("timestamptz", "2017-11-16T14:31:08-08:00"), -2047944441),
        ("timestamp_ns", values.from_json("timestamp_ns", "2017-11-16T22:31:08.000001001"),
         -1207196810),
        ("string", "iceberg", 1210000089),
        ("uuid", UUID_BYTES, 1488055340),
        ("fixed[4]", b"\x00\x01\x02\x03", -188683207),
        ("binary", b"\x00\x01\x02\x03", -188683207),
    ],
)  # fmt: skip
def test_hash_of_the_specifications_test_values(type_: str, value: Any, hashed: int) -> None:
    type_name = transforms.datatypes.name_of(type_)
    assert transforms.hash_of(type_name, type_, value) == hashed


@pytest.mark.parametrize(
    ("transform", "type_", "value", "result"),
    [
        ("truncate[10]", "int", 1, 0),
        ("truncate[10]", "int", -1, -10),
        ("truncate[50]", "decimal(9,2)", decimal.Decimal("10.65"), decimal.Decimal("10.50")),
        ("truncate[3]", "string", "iceberg", "ice"),
        ("truncate[2]", "string", "𝒳éa", "𝒳é"),
        ("truncate[3]", "binary", b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
        ("year", "date", -1, -1),
        ("year", "date", 0, 0),
        ("month", "date", -1, -1),
        ("month", "date", 31, 1),
        ("day", "timestamp", -1, -1),
        ("hour", "timestamp", -1, -1),
        ("hour", "timestamp_ns", 3_600_000_000_000, 1),
        ("day", "date", 17_486, 17_486),
        ("year", "timestamptz", values.from_json("timestamptz", "2017-11-16T22:31:08Z"), 47),
        ("void", "string", "x", None),
        ("identity", "double", 1.5, 1.5),
        ("year", "date", 2**31 - 1, 5_879_610),
    ],
)
def test_apply_gives_the_specifications_results(
    transform: str, type_: str, value: Any, result: Any
) -> None:
    assert transforms.apply(transforms.parse(transform), type_, value) == result


@pytest.mark.parametrize(
    "transform", ["identity", "void", "year", "month", "day", "hour", "bucket[7]", "truncate[3]"]
)
def test_apply_keeps_null(transform: str) -> None:
    assert transforms.apply(transforms.parse(transform), "date", None) is None


TRANSFORMS = ["identity", "bucket[16]", "bucket[1]", "truncate[3]", "truncate[100]", "year",
              "month", "day", "hour"]  # fmt: skip
# days that PyIceberg's own dates can hold
SANE: dict[str, st.SearchStrategy[Any]] = {
    **test_values.BY_TYPE,
    "date": st.integers(-700_000, 2_900_000),
    "timestamp": st.integers(-(6 * 10**16), 25 * 10**16),
    "timestamptz": st.integers(-(6 * 10**16), 25 * 10**16),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
}


@examples.at_most(500)
@given(st.sampled_from(TRANSFORMS), st.sampled_from(sorted(SANE)), st.data())
def test_apply_is_what_pyiceberg_applies(name: str, type_: str, data: st.DataObject) -> None:
    transform = transforms.parse(name)
    oracle = parse_transform(name)
    oracle_type = test_values.oracle_type(type_)
    takes = transforms.accepts(transform, type_)
    if type_ == "uuid" and name.startswith("bucket"):
        assert takes
    else:
        assert takes == oracle.can_transform(oracle_type)
    if not takes:
        with pytest.raises(transforms.InvalidTransform):
            transforms.apply(transform, type_, data.draw(SANE[type_]))
        return
    value = data.draw(SANE[type_])
    theirs = oracle.transform(oracle_type)(uuid.UUID(bytes=value) if type_ == "uuid" else value)
    if isinstance(theirs, uuid.UUID):
        theirs = theirs.bytes
    ours = transforms.apply(transform, type_, value)
    assert ours == theirs or (ours != ours and theirs != theirs)
    assert str(transforms.result_type(transform, type_)).replace(" ", "") == str(
        oracle.result_type(oracle_type)
    ).replace(" ", "")


@pytest.mark.parametrize("text", ["", "hash", "bucket", "bucket[]", "bucket[0]", "truncate[x]",
                                  "bucket[2147483648]", "identity[3]"])  # fmt: skip
def test_parse_of_an_unknown_transform_is_refused(text: str) -> None:
    with pytest.raises(transforms.InvalidTransform, match="Cannot parse transform"):
        transforms.parse(text)


def test_parse_takes_any_case() -> None:
    assert str(transforms.parse(" Bucket[4] ")) == "bucket[4]"


PATHS: list[tuple[str, str, Any, str]] = [
    ("identity", "string", "a b/c=d+é", "f=a+b%2Fc%3Dd%2B%C3%A9"),
    ("identity", "string", "*-._~", "f=*-._%7E"),
    ("identity", "string", None, "f=null"),
    ("identity", "boolean", True, "f=true"),
    ("identity", "date", 17_486, "f=2017-11-16"),
    ("identity", "int", -5, "f=-5"),
    ("identity", "decimal(9,2)", decimal.Decimal("10.50"), "f=10.50"),
    ("identity", "binary", b"\x00\xff", "f=AP8%3D"),
    ("day", "timestamp", 17_486, "f=2017-11-16"),
    ("month", "date", 574, "f=2017-11"),
    ("month", "date", -1, "f=1969-12"),
    ("year", "date", 47, "f=2017"),
    ("year", "date", -1, "f=1969"),
    ("hour", "timestamp", 419_686, "f=2017-11-16-22"),
    ("hour", "timestamp", -1, "f=1969-12-31-23"),
    ("bucket[8]", "string", 3, "f=3"),
    ("truncate[4]", "string", "abcd", "f=abcd"),
]


@pytest.mark.parametrize(("transform", "type_", "value", "path"), PATHS)
def test_partition_path_is_for_people(transform: str, type_: str, value: Any, path: str) -> None:
    fields = [{"name": "f", "transform": transform, "source-id": 1, "field-id": 1000}]
    types = [transforms.result_type(transforms.parse(transform), type_)]
    assert transforms.partition_path(fields, types, [value]) == path


@pytest.mark.parametrize(
    ("transform", "type_", "value"),
    [
        (transform, type_, value)
        for transform, type_, value, _ in PATHS
        # PyIceberg escapes `~` less and `*` more than Java's URLEncoder, which others follow
        if value != "*-._~"
    ],
)
def test_partition_path_is_pyicebergs(transform: str, type_: str, value: Any) -> None:
    schema = Schema.model_validate(
        {
            "type": "struct",
            "fields": [{"id": 1, "name": "x", "required": False, "type": type_}],
        }
    )
    field = PartitionField(
        source_id=1, field_id=1000, transform=parse_transform(transform), name="f"
    )
    theirs = PartitionSpec(field).partition_to_path(Record(value), schema)
    fields = [{"name": "f", "transform": transform, "source-id": 1, "field-id": 1000}]
    types = [transforms.result_type(transforms.parse(transform), type_)]
    assert transforms.partition_path(fields, types, [value]) == theirs


def test_partition_path_of_several_fields_nests() -> None:
    fields = [
        {"name": "a b", "transform": "identity"},
        {"name": "c", "transform": "bucket[2]"},
    ]
    assert transforms.partition_path(fields, ["string", "int"], ["x", 1]) == "a+b=x/c=1"


@pytest.mark.parametrize(
    ("name", "path"),
    [(".hidden", "%2Ehidden=.x"), ("..", "%2E.=.x"), ("a.b", "a.b=.x"), ("a=b/c", "a%3Db%2Fc=.x")],
)
def test_partition_path_hides_no_folder(name: str, path: str) -> None:
    fields = [{"name": name, "transform": "identity"}]
    assert transforms.partition_path(fields, ["string"], [".x"]) == path
