"""The binary encoding of variants, against the values of VARIANT and against garbage."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
import time
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql import variant_encoding, variants
from sql.variant_encoding import BadVariant, Instant, UnreadVariant
from tests.kit import examples

MARK = "\x01"


def decoded(metadata: bytes, value: bytes) -> Any:
    names = variant_encoding.read_names(metadata)
    return variant_encoding.parse(value, names, variant_encoding.scalar_value)


def encoded(value: Any) -> tuple[bytes, bytes]:
    return variant_encoding.encode(value, variant_encoding.value_bytes)


def text_of(value: Any) -> str:
    """Return a canonical text, an instant as the zone UTC shows it."""

    def string_of(part: Any) -> str | None:
        if not isinstance(part, Instant):
            return None
        return f"{MARK}l{variant_encoding.local_text(part.number, part.unit)} +0000"

    return variants.dumps_with(value, string_of)


# Values

dates = st.integers(-2_000_000, 5_000_000).map(lambda days: MARK + "d" + iso(days))
clocks = st.integers(0, 86_400_000_000 - 1).map(
    lambda micros: (
        (
            datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
            + datetime.timedelta(microseconds=micros)
        )
        .time()
        .isoformat("microseconds")
    )
)


def iso(days: int) -> str:
    """Return a date by the calendar's own arithmetic, 400 years at a time."""
    years = 0
    while days < -719_162:
        days, years = days + 146_097, years - 400
    while days > 2_932_896:
        days, years = days - 146_097, years + 400
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=days)
    year = day.year + years
    return f"{'-' if year < 0 else ''}{abs(year):04}-{day.month:02}-{day.day:02}"


moments = st.builds(
    lambda letter, days, clock: (
        f"{MARK}{letter}{iso(days)} {clock}" + (" +0000" if letter == "l" else "")
    ),
    st.sampled_from("nl"),
    st.integers(-2_000_000, 5_000_000),
    clocks,
)
texts = st.text(st.characters(codec="utf-8"), max_size=80).map(variants.text_value)
numbers = st.decimals(allow_nan=False, allow_infinity=False, places=9, max_value=10**28).map(
    variants.normal_number
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda number: variants.normal_number(decimal.Decimal(number))
    ),
    numbers,
    st.integers(1, 9999).map(
        lambda number: variants.normal_number(decimal.Decimal(number).scaleb(-37))
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda each: variants.Real(value=each)),
    st.sampled_from([f"{MARK}fNaN", f"{MARK}finf", f"{MARK}f-inf"]),
    st.binary(max_size=80).map(lambda data: f"{MARK}b{data.hex().upper()}"),
    clocks.map(lambda clock: f"{MARK}t{clock}"),
    texts,
    dates,
    moments,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=12), inner, max_size=6),
    ),
    max_leaves=30,
)


@examples.at_most(600)
@given(values)
def test_a_value_reads_back_as_it_was_written(value: Any) -> None:
    text = variants.dumps(value)
    assert text_of(decoded(*encoded(value))) == text
    # The engine has the text, and writes what it reads from that.
    assert text_of(decoded(*encoded(variants.loads(text)))) == text


@examples.at_most(200)
@given(values)
def test_a_value_that_is_taken_apart_and_put_together_has_the_same_bytes(value: Any) -> None:
    metadata, data = encoded(value)
    names = variant_encoding.read_names(metadata)
    tree = variant_encoding.parse(data, names, variant_encoding.scalar_bytes)
    assert variant_encoding.encode(tree, bytes) == (metadata, data)


def test_containers_of_every_size_of_counts_ids_and_offsets_are_written_and_read() -> None:
    for count in (0, 1, 255, 256, 257, 70_000):
        members = {f"n{number:05}": number for number in range(count)}
        assert decoded(*encoded(members)) == members
        assert decoded(*encoded(list(range(count)))) == list(range(count))
    long_text = "x" * 70_000
    assert decoded(*encoded([long_text] * 300)) == [long_text] * 300


def test_a_long_name_and_names_in_the_order_of_their_bytes_are_kept() -> None:
    members = {"z": 1, "é": 2, "\U0001f600": 3, "\uffff": 4, "n" * 300: 5, "": 6}
    metadata, _ = encoded(members)
    assert variant_encoding.read_names(metadata) == tuple(
        sorted(members, key=lambda name: name.encode())
    )
    assert decoded(*encoded(members)) == members


PRIMITIVES: dict[str, tuple[int, bytes, str]] = {
    # The number of the type, the bytes behind it, and the canonical text.
    "null": (0, b"", "null"),
    "true": (1, b"", "true"),
    "false": (2, b"", "false"),
    "int8": (3, b"\xff", "-1"),
    "int16": (4, b"\x00\x80", "-32768"),
    "int32": (5, struct.pack("<i", 1 << 30), "1073741824"),
    "int64": (6, struct.pack("<q", -(1 << 63)), "-9223372036854775808"),
    "double": (7, struct.pack("<d", 0.1), "0.1e0"),
    "a double that is whole": (7, struct.pack("<d", 2.0), "2.0e0"),
    "infinity": (7, struct.pack("<d", math.inf), '"\\u0001finf"'),
    "decimal4": (8, b"\x02" + struct.pack("<i", -150), "-1.5"),
    "decimal8": (9, b"\x03" + struct.pack("<q", 1000), "1"),
    "decimal16": (
        10,
        b"\x25" + (10**37).to_bytes(16, "little", signed=True),
        "1",
    ),
    "date": (11, struct.pack("<i", -1), '"\\u0001d1969-12-31"'),
    "timestamp": (12, struct.pack("<q", -1), '"\\u0001l1969-12-31 23:59:59.999999 +0000"'),
    "timestamp_ntz": (13, struct.pack("<q", 1), '"\\u0001n1970-01-01 00:00:00.000001"'),
    "float": (14, struct.pack("<f", 0.5), "0.5e0"),
    "binary": (15, struct.pack("<I", 2) + b"\x00\xab", '"\\u0001b00AB"'),
    "string": (16, struct.pack("<I", 2) + "é".encode(), '"é"'),
    "a text like a mark": (16, struct.pack("<I", 2) + b"\x01d", '"\\u0001s\\u0001d"'),
    "time": (17, struct.pack("<q", 3_723_000_004), '"\\u0001t01:02:03.000004"'),
    "timestamp_nanos": (
        18,
        struct.pack("<q", -1),
        '"\\u0001l1969-12-31 23:59:59.999999999 +0000"',
    ),
    "timestamp_ntz_nanos": (
        19,
        struct.pack("<q", 1_001),
        '"\\u0001n1970-01-01 00:00:00.000001001"',
    ),
    "nanoseconds that are whole microseconds": (
        19,
        struct.pack("<q", 1_000),
        '"\\u0001n1970-01-01 00:00:00.000001"',
    ),
    "uuid": (20, uuid.UUID(int=258).bytes, '"00000000-0000-0000-0000-000000000102"'),
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_each_primitive_type_of_the_specification_is_read(name: str) -> None:
    number, body, text = PRIMITIVES[name]
    value = decoded(b"\x01\x00\x00", bytes([number << 2]) + body)
    assert text_of(value) == text


@pytest.mark.parametrize("name", PRIMITIVES)
def test_each_primitive_type_that_ends_early_is_refused(name: str) -> None:
    number, body, _ = PRIMITIVES[name]
    data = bytes([number << 2]) + body
    for length in range(len(data)):
        with pytest.raises(BadVariant, match="ends early"):
            decoded(b"\x01\x00\x00", data[:length])


def test_whole_numbers_take_the_narrowest_type() -> None:
    lengths = {1: 2, -128: 2, 128: 3, 32_767: 3, -32_769: 5, 1 << 31: 9, 1 << 63: 18}
    values = {number: variants.normal_number(decimal.Decimal(number)) for number in lengths}
    assert {number: len(encoded(value)[1]) for number, value in values.items()} == lengths


def test_a_number_that_a_variant_of_sql_cannot_hold_is_refused_by_name() -> None:
    scale_38 = b"\x26" + (10**37 + 1).to_bytes(16, "little")
    with pytest.raises(UnreadVariant, match=r"the number 0\.10+1 in a variant"):
        decoded(b"\x01\x00\x00", bytes([10 << 2]) + scale_38)
    with pytest.raises(UnreadVariant, match="primitive type 40"):
        decoded(b"\x01\x00\x00", bytes([40 << 2]))


def test_a_timestamp_that_arrow_shows_as_no_date_is_refused_by_name() -> None:
    for text in ("l<value out of range: 9223372036854775807> +0000", "n<value out of range: 1>"):
        with pytest.raises(UnreadVariant, match="a timestamp outside the years"):
            encoded(f"{MARK}{text}")


# Damage


HOSTILE = {
    "no metadata": (b"", b"\x00", "ends early|version"),
    "another version": (b"\x02\x00\x00", b"\x00", "version"),
    "metadata without its names": (b"\x01\x05", b"\x00", "ends early"),
    "a huge dictionary": (b"\xc1\xff\xff\xff\xff", b"\x00", "ends early"),
    "names beyond the metadata": (b"\x01\x01\x00\x05ab", b"\x00", "ends early"),
    "names that overlap": (b"\x01\x02\x00\x02\x01ab", b"\x00", "overlap"),
    "a name that is not UTF-8": (b"\x01\x01\x00\x01\xff", b"\x00", "UTF-8"),
    "no value": (b"\x01\x00\x00", b"", "ends early"),
    "a huge array": (b"\x01\x00\x00", b"\x1f\xff\xff\xff\xff", "ends early"),
    "an element behind the array": (b"\x01\x00\x00", b"\x03\x01\x09\x01\x00", "ends early"),
    "an array behind its end": (b"\x01\x00\x00", b"\x03\x01\x00\x09\x00", "ends early"),
    "a name that is not there": (b"\x01\x00\x00", b"\x02\x01\x07\x00\x01\x00", "not in its"),
    "a name twice": (
        b"\x01\x01\x00\x01a",
        b"\x02\x02\x00\x00\x00\x01\x02\x00\x00",
        "a name twice",
    ),
    "elements that overlap": (b"\x01\x00\x00", b"\x03\x03\x00\x00\x00\x01\x00", "overlap"),
    "a text that is not UTF-8": (b"\x01\x00\x00", b"\x05\xff", "UTF-8"),
    "a decimal of another scale": (b"\x01\x00\x00", b"\x20\x27\x00\x00\x00\x00", "scale"),
    "a time of no day": (b"\x01\x00\x00", b"\x44" + b"\xff" * 8, "outside the day"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_damage_is_refused(name: str) -> None:
    metadata, value, words = HOSTILE[name]
    with pytest.raises(BadVariant, match=words):
        decoded(metadata, value)


def nested(depth: int) -> bytes:
    data = b"\x00"
    for _ in range(depth):
        data = b"\x0f\x01" + struct.pack("<II", 0, len(data)) + data
    return data


def test_deep_nesting_is_refused_and_what_is_written_is_not() -> None:
    deep: Any = None
    for _ in range(variant_encoding.DEPTH_MAX):
        deep = [deep]
    assert decoded(*encoded(deep)) == deep
    variants.dumps(deep)
    with pytest.raises(BadVariant, match="nested too deeply"):
        encoded([deep])
    for depth in (variant_encoding.DEPTH_MAX + 1, 5_000):
        with pytest.raises(BadVariant, match="nested too deeply"):
            decoded(b"\x01\x00\x00", nested(depth))


def test_parts_that_are_named_again_and_again_cost_no_more_than_their_bytes() -> None:
    """Each array names its one part 200 times, and so on: 200 to the power of 30 parts."""
    data = b"\x00"
    for _ in range(30):
        offsets = struct.pack("<200I", *[0] * 200) + struct.pack("<I", len(data))
        data = b"\x0f\xc8" + offsets + data
    started = time.process_time()
    with pytest.raises(BadVariant, match="overlap"):
        decoded(b"\x01\x00\x00", data)
    assert time.process_time() - started < 5


def test_a_long_name_that_each_of_many_objects_has_is_refused() -> None:
    name = "n" * 1_000_000
    metadata, one = encoded({name: None})
    ends = [len(one) * number for number in range(201)]
    listed = b"\x0f\xc8" + struct.pack("<201I", *ends) + one * 200
    with pytest.raises(BadVariant, match="names are too long"):
        decoded(metadata, listed)


@pytest.mark.campaign
@examples.at_most(4_000)
@given(values, st.data())
def test_bytes_that_were_changed_give_a_value_or_the_modules_errors(
    value: Any, data: st.DataObject
) -> None:
    metadata, body = (bytearray(each) for each in encoded(value))
    for _ in range(data.draw(st.integers(1, 4))):
        changed = data.draw(st.sampled_from([metadata, body]))
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
            del changed[data.draw(st.integers(1, len(changed))) :]
    check_reads(bytes(metadata), bytes(body))


@examples.at_most(2_000)
@given(st.binary(max_size=60), st.binary(max_size=120))
def test_any_bytes_give_a_value_or_the_modules_errors(metadata: bytes, body: bytes) -> None:
    check_reads(metadata, body)
    check_reads(b"\x01\x02\x00\x01\x02ab", body)


def check_reads(metadata: bytes, body: bytes) -> None:
    try:
        value = decoded(metadata, body)
    except (BadVariant, UnreadVariant):
        return
    text = text_of(value)
    assert len(text) <= 60 * (len(body) + 1) + len(body) * len(metadata)
    try:
        again = decoded(*encoded(variants.loads(text)))
    except UnreadVariant:  # a timestamp in nanoseconds that microseconds cannot name
        return
    assert text_of(again) == text
