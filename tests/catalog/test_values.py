"""Single values: bytes as PyIceberg writes them, JSON as the specification spells it."""

from __future__ import annotations

import decimal
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import conversions
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from catalog import values
from tests.kit import examples

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "date": INTS,
    "time": st.integers(0, values.DAY_MICROS - 1),
    "timestamp": LONGS,
    "timestamptz": LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(),
    "binary": st.binary(),
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "uuid": st.binary(min_size=16, max_size=16),
    "decimal(9, 2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "decimal(38, 10)": st.decimals(-(10**28) + 1, 10**28 - 1, places=10),
}
TYPED = st.sampled_from(sorted(BY_TYPE)).flatmap(
    lambda type_: st.tuples(st.just(type_), BY_TYPE[type_])
)


def oracle_type(type_: str) -> PrimitiveType:
    field = {"id": 1, "name": "x", "required": False, "type": type_}
    schema = Schema.model_validate({"type": "struct", "fields": [field]})
    field_type = schema.fields[0].field_type
    assert isinstance(field_type, PrimitiveType)
    return field_type


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return bool(one == other) and type(one) is type(other)


@examples.at_most(400)
@given(TYPED)
def test_bytes_are_those_pyiceberg_writes_and_read_back(typed: tuple[str, Any]) -> None:
    type_, value = typed
    data = values.to_bytes(type_, value)
    if type_ != "uuid":  # PyIceberg holds uuids as objects
        assert data == conversions.to_bytes(oracle_type(type_), value)
    assert same(values.from_bytes(type_, data), value)


@examples.at_most(300)
@given(TYPED)
def test_json_reads_back(typed: tuple[str, Any]) -> None:
    type_, value = typed
    try:
        spelled = values.to_json(type_, value)
    except values.InvalidValue:
        assert type_ in ("date", "timestamp", "timestamptz", "float", "double")
        return
    assert same(values.from_json(type_, spelled), value)


@pytest.mark.parametrize(
    ("type_", "value", "data"),
    [
        ("boolean", True, b"\x01"),
        ("int", 34, b"\x22\x00\x00\x00"),
        ("long", 34, b"\x22" + bytes(7)),
        ("float", -4.5, b"\x00\x00\x90\xc0"),
        ("double", 6.0, bytes(6) + b"\x18\x40"),
        ("decimal(9,2)", decimal.Decimal("14.20"), b"\x05\x8c"),
        ("decimal(9,2)", decimal.Decimal("-1.28"), b"\x80"),
        ("decimal(9,2)", decimal.Decimal("1.28"), b"\x00\x80"),
        ("decimal(9,2)", decimal.Decimal(0), b"\x00"),
        ("string", "é", b"\xc3\xa9"),
        ("timestamp_ns", 1, b"\x01" + bytes(7)),
    ],
)
def test_to_bytes_spells_known_values(type_: str, value: Any, data: bytes) -> None:
    assert values.to_bytes(type_, value) == data


@pytest.mark.parametrize(
    ("type_", "data", "value"),
    [
        ("long", (-5).to_bytes(4, "little", signed=True), -5),
        ("double", b"\x00\x00\x90\xc0", -4.5),
        ("timestamp", (1).to_bytes(4, "little"), 86_400_000_000),
        ("timestamp_ns", (-1).to_bytes(4, "little", signed=True), -86_400_000_000_000),
        ("boolean", b"\x07", True),
        ("decimal(20,2)", b"\xff\xff\xff\x80", decimal.Decimal("-1.28")),
    ],
)
def test_from_bytes_reads_what_was_written_before_a_promotion(
    type_: str, data: bytes, value: Any
) -> None:
    assert values.from_bytes(type_, data) == value


def test_integers_from_bytes_reads_bounds_of_one_width_at_once() -> None:
    assert values.integers_from_bytes(
        "long", (b"\xfb" + b"\xff" * 7, None, b"\x07" + bytes(7))
    ) == [-5, None, 7]
    assert values.integers_from_bytes("date", (b"\x00\x01\x00\x00", b"\xff" * 4)) == [256, -1]
    assert values.integers_from_bytes("time", (None, None)) == [None, None]
    assert values.integers_from_bytes("int", ()) == []


def test_integers_from_bytes_leaves_bounds_of_other_widths_and_types_to_from_bytes() -> None:
    assert values.integers_from_bytes("long", (bytes(8), bytes(4))) is None  # before a promotion
    assert values.integers_from_bytes("int", (b"",)) is None
    for type_ in ("string", "double", "decimal(9,2)", "boolean", "uuid"):
        assert values.integers_from_bytes(type_, (bytes(8),)) is None


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        ("int", b""),
        ("long", b"123"),
        ("float", b"12345"),
        ("string", b"\xc3"),
        ("uuid", b"short"),
        ("boolean", b""),
        ("decimal(9,2)", b""),
        ("unknown", b""),
        ("geometry", b"123456789012345678901234"),
        ({"type": "list"}, b"1"),
    ],
)
def test_from_bytes_of_something_else_is_refused(type_: Any, data: bytes) -> None:
    with pytest.raises(values.InvalidValue):
        values.from_bytes(type_, data)


@pytest.mark.parametrize(
    ("type_", "spelled", "value"),
    [
        ("date", "2017-11-16", 17_486),
        ("date", "1969-12-31", -1),
        ("time", "22:31:08.123456", 81_068_123_456),
        ("time", "22:31:08", 81_068_000_000),
        ("timestamp", "2017-11-16T22:31:08.123456", 1_510_871_468_123_456),
        ("timestamptz", "2017-11-16T22:31:08.123456+00:00", 1_510_871_468_123_456),
        ("timestamptz", "2017-11-16T14:31:08.123456-08:00", 1_510_871_468_123_456),
        ("timestamptz", "2017-11-16T22:31:08Z", 1_510_871_468_000_000),
        ("timestamp_ns", "2017-11-16T22:31:08.123456789", 1_510_871_468_123_456_789),
        ("timestamptz_ns", "1969-12-31T23:59:59.999999999+00:00", -1),
        ("decimal(9,2)", "14.20", decimal.Decimal("14.20")),
        ("decimal(9,2)", "2E+3", decimal.Decimal(2000)),
        ("uuid", "F79c3e09-677c-4bbd-a479-3f349cb785e7",
         bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
        ("fixed[4]", "000102ff", b"\x00\x01\x02\xff"),
        ("double", 1, 1.0),
        ("long", 2**62, 2**62),
        ("date", 17_486, 17_486),
        ("decimal(9,2)", 14.2, decimal.Decimal("14.2")),
    ],
)  # fmt: skip
def test_from_json_reads_the_single_value_form(type_: str, spelled: Any, value: Any) -> None:
    assert same(values.from_json(type_, spelled), value)


@pytest.mark.parametrize(
    ("type_", "value", "spelled"),
    [
        ("timestamp", 1_510_871_468_123_456, "2017-11-16T22:31:08.123456"),
        ("timestamptz", -1, "1969-12-31T23:59:59.999999+00:00"),
        ("timestamp_ns", 1, "1970-01-01T00:00:00.000000001"),
        ("time", 0, "00:00:00.000000"),
        ("decimal(9,2)", decimal.Decimal("14.2"), "14.20"),
        ("uuid", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"),
         "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("binary", b"\x00\xff", "00ff"),
    ],
)  # fmt: skip
def test_to_json_spells_the_single_value_form(type_: str, value: Any, spelled: Any) -> None:
    assert values.to_json(type_, value) == spelled


@pytest.mark.parametrize(
    ("type_", "given_"),
    [
        ("int", 2**31),
        ("long", 1.5),
        ("long", True),
        ("boolean", 1),
        ("date", "2017-13-01"),
        ("date", "yesterday"),
        ("time", "24:00:00"),
        ("timestamp", "2017-11-16T22:31:08+00:00"),
        ("timestamptz", "2017-11-16T22:31:08"),
        ("timestamp", "2017-11-16"),
        ("decimal(9,2)", "NaN"),
        ("uuid", "f79c3e09677c4bbda4793f349cb785e7"),
        ("binary", "0g"),
        ("string", 5),
        ("long", None),
        ("double", "x"),
        ("double", []),
    ],
)
def test_from_json_of_something_else_is_refused(type_: str, given_: Any) -> None:
    with pytest.raises(values.InvalidValue):
        values.from_json(type_, given_)


def test_to_bytes_never_drops_digits() -> None:
    with pytest.raises(values.InvalidValue, match="more than 2 digits"):
        values.to_bytes("decimal(9,2)", decimal.Decimal("1.005"))
    with pytest.raises(values.InvalidValue):
        values.to_bytes("int", 2**31)
    with pytest.raises(values.InvalidValue):
        values.to_bytes("string", 5)
