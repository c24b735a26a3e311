"""rule: the binary encoding of a variant: a dictionary of names, and a value that refers to it.

`read_names` and `parse` read the two byte strings of a value, `encode` writes them. A scalar is
what the caller's function makes of its bytes: a value of VARIANT (`sql.variants`), or the bytes
themselves, so that a value can be taken apart and put together without a change of its types.

Bytes may come from any writer. Reading costs no more than their length, and names that a value
repeats no more than the longest text of a value: parts that overlap are refused.
Source: Parquet format, VariantEncoding.md.
"""

from __future__ import annotations

import datetime
import decimal
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sql import outcomes, variants

Names: TypeAlias = tuple[str, ...]
"""The names of a dictionary, by their ids."""

Node: TypeAlias = Any
"""A dict of nodes by name, a list of nodes, or a scalar."""

ReadScalar: TypeAlias = Callable[[bytes, int, int], Any]
"""Returns the scalar whose header stands at the first index of bytes, and which ends at the
second."""

Unit: TypeAlias = Literal["us", "ns"]

DEPTH_MAX: Final = 254
"""How deeply a value is nested at most: what orjson writes of texts."""

PRIMITIVE, SHORT_TEXT, OBJECT, ARRAY = range(4)
"""The basic types: the two low bits of a value's first byte."""

CONTAINERS: Final = frozenset({OBJECT, ARRAY})

VERSION: Final = 1
SORTED: Final = 0x10
SMALL_MAX: Final = 255
"""The count of a container that has one byte for it."""
SHORT_TEXT_MAX: Final = 63
SCALE_MAX: Final = 38

NULL: Final = b"\x00"
"""The encoding of JSON's null."""
NO_NAMES: Final = b"\x11\x00\x00"
"""A dictionary without names."""


class BadVariant(ValueError):
    """Bytes are no variant, or one that is nested too deeply."""


class UnreadVariant(ValueError):
    """A value that a VARIANT of SQL does not hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Instant:
    """A timestamp in UTC, whose text depends on the session's zone. number: of units since 1970."""

    number: int
    unit: Unit


# Reading


def read_names(metadata: bytes) -> Names:
    """Return the names of a dictionary; raises BadVariant."""
    if not metadata or metadata[0] & 0x0F != VERSION:
        raise BadVariant("its metadata has another version")
    size = (metadata[0] >> 6) + 1
    start = 1 + size
    if len(metadata) < start:
        raise BadVariant("its metadata ends early")
    count = int.from_bytes(metadata[1:start], "little")
    body = start + (count + 1) * size
    if len(metadata) < body:
        raise BadVariant("its metadata ends early")
    offsets = _numbers(metadata, start, count + 1, size)
    names = []
    low = offsets[0]
    for high in offsets[1:]:
        if high < low:
            raise BadVariant("names in its metadata overlap")
        names.append(_text(metadata[body + low : body + high], high - low))
        low = high
    return tuple(names)


def parse(data: bytes, names: Names, scalar: ReadScalar) -> Node:
    """Return the value that bytes hold; raises BadVariant, and what scalar raises."""
    try:
        return _Parser(data, names, scalar).node(0, len(data), 0)
    except RecursionError:
        raise BadVariant(variants.NESTED) from None


class _Parser:
    """Parses one value. It counts the bytes that it has read: those of parts that overlap, and
    names that come again and again, would cost more than the length of the value says."""

    __slots__ = ("_characters_left", "_data", "_left", "_names", "_scalar")

    def __init__(self, data: bytes, names: Names, scalar: ReadScalar) -> None:
        self._data = data
        self._names = names
        self._scalar = scalar
        self._left = len(data)
        self._characters_left = outcomes.TEXT_LENGTH_MAX

    def node(self, at: int, end: int, depth: int) -> Node:
        """Return what stands at an index of the data, and ends before another one."""
        data = self._data
        if at >= end:
            raise BadVariant("it ends early")
        header = data[at]
        basic_type = header & 3
        if basic_type in CONTAINERS:
            if depth >= DEPTH_MAX:
                raise BadVariant(variants.NESTED)
            read = self._object if basic_type == OBJECT else self._array
            return read(at, end, depth + 1)
        if basic_type == SHORT_TEXT:
            stop = at + 1 + (header >> 2)
        else:
            stop = at + _primitive_length(data, at, end)
        if stop > end:
            raise BadVariant("it ends early")
        self._use(stop - at)
        return self._scalar(data, at, stop)

    def _object(self, at: int, end: int, depth: int) -> dict[str, Node]:
        header = self._data[at]
        count, ids_at = self._count(at, end, is_large=bool(header & 0x40))
        id_size, offset_size = (header >> 4 & 3) + 1, (header >> 2 & 3) + 1
        offsets_at = ids_at + count * id_size
        body = offsets_at + (count + 1) * offset_size
        offsets = self._offsets(at, offsets_at, body, end, count, offset_size)
        ids = _numbers(self._data, ids_at, count, id_size)
        stop = body + offsets[-1]
        members: dict[str, Node] = {}
        try:
            for name_id, offset in zip(ids, offsets, strict=False):
                name = self._names[name_id]
                self._characters_left -= len(name)
                if self._characters_left < 0:
                    raise BadVariant("its names are too long")
                members[name] = self.node(body + offset, stop, depth)
        except IndexError:
            raise BadVariant("a name that is not in its metadata") from None
        if len(members) < count:
            raise BadVariant("an object that has a name twice")
        return members

    def _array(self, at: int, end: int, depth: int) -> list[Node]:
        header = self._data[at]
        count, offsets_at = self._count(at, end, is_large=bool(header & 0x10))
        offset_size = (header >> 2 & 3) + 1
        body = offsets_at + (count + 1) * offset_size
        offsets = self._offsets(at, offsets_at, body, end, count, offset_size)
        stop = body + offsets[-1]
        return [self.node(body + offset, stop, depth) for offset in offsets[:-1]]

    def _count(self, at: int, end: int, *, is_large: bool) -> tuple[int, int]:
        """Return the number of a container's parts, and where what follows it stands."""
        start = at + 1
        stop = start + (4 if is_large else 1)
        if stop > end:
            raise BadVariant("it ends early")
        return int.from_bytes(self._data[start:stop], "little"), stop

    def _offsets(
        self, at: int, start: int, body: int, end: int, count: int, size: int
    ) -> Sequence[int]:
        """Return where a container's parts begin, and the last one ends, behind its head."""
        if body > end:
            raise BadVariant("it ends early")
        self._use(body - at)
        offsets = _numbers(self._data, start, count + 1, size)
        if body + offsets[-1] > end:
            raise BadVariant("it ends early")
        return offsets

    def _use(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            raise BadVariant("parts of it overlap")


def _numbers(data: bytes, start: int, count: int, size: int) -> Sequence[int]:
    """Return unsigned numbers of so many bytes each."""
    stop = start + count * size
    if size == 1:
        return data[start:stop]
    if size == 3:
        return [int.from_bytes(data[at : at + 3], "little") for at in range(start, stop, 3)]
    return struct.unpack_from(f"<{count}{'H' if size == 2 else 'I'}", data, start)


def _text(data: bytes, length: int) -> str:
    if len(data) < length:
        raise BadVariant("it ends early")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadVariant("a text that is not UTF-8") from None


def _primitive_length(data: bytes, at: int, end: int) -> int:
    """Return the length of a primitive value with its first byte."""
    number = data[at] >> 2
    if number in (BINARY, TEXT):
        if at + 5 > end:
            raise BadVariant("it ends early")
        return 5 + int.from_bytes(data[at + 1 : at + 5], "little")
    if number >= len(LENGTHS):
        raise UnreadVariant(f"a variant of the primitive type {number}")
    return LENGTHS[number]


LENGTHS: Final = (1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 5, 5, 9, 9, 9, 17)
"""By the numbers of the primitive types; of those with a length of their own the least."""
INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16 = range(3, 11)
DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY, TEXT, TIME = range(11, 18)
TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS, UUID = range(18, 21)


def scalar_bytes(data: bytes, at: int, stop: int) -> bytes:
    """Return the scalar as its own bytes."""
    return data[at:stop]


def scalar_value(data: bytes, at: int, stop: int) -> Any:
    """Return the scalar as a value of VARIANT, a timestamp in UTC as an Instant.

    Raises BadVariant, and UnreadVariant.
    """
    header = data[at]
    if header & 3 == SHORT_TEXT:
        return variants.text_value(_text(data[at + 1 : stop], stop - at - 1))
    return READERS[header >> 2](data[at + 1 : stop])


def _integer(body: bytes) -> int:
    return int.from_bytes(body, "little", signed=True)


def _decimal(body: bytes) -> Any:
    scale = body[0]
    if scale > SCALE_MAX:
        raise BadVariant("a decimal of another scale")
    number = decimal.Decimal(_integer(body[1:])).scaleb(-scale, context=variants.EXACT)
    value = variants.normal_number(number)
    if isinstance(value, variants.Real):
        raise UnreadVariant(f"the number {number:f} in a variant, which has too many digits")
    return value


def _double(body: bytes) -> variants.Real:
    return variants.Real(value=struct.unpack("<d", body)[0])


def _float(body: bytes) -> variants.Real:
    return variants.Real(value=struct.unpack("<f", body)[0])


def _date(body: bytes) -> str:
    return f"{variants.MARK}d{date_text(_integer(body))}"


def _time(body: bytes) -> str:
    micros = _integer(body)
    if not 0 <= micros < DAY_MICROS:
        raise BadVariant("a time outside the day")
    return f"{variants.MARK}t{_clock_text(micros, 'us')}"


def _local(unit: Unit) -> Callable[[bytes], str]:
    def read(body: bytes) -> str:
        return f"{variants.MARK}n{local_text(_integer(body), unit)}"

    return read


def _instant(unit: Unit) -> Callable[[bytes], Instant]:
    def read(body: bytes) -> Instant:
        number = _integer(body)
        if unit == "ns" and number % 1_000 == 0:
            return Instant(number=number // 1_000, unit="us")
        return Instant(number=number, unit=unit)

    return read


def _binary(body: bytes) -> str:
    return f"{variants.MARK}b{body[4:].hex().upper()}"


def _long_text(body: bytes) -> str:
    return variants.text_value(_text(body[4:], len(body) - 4))


def _uuid(body: bytes) -> str:
    digits = body.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


READERS: Final[Mapping[int, Callable[[bytes], Any]]] = {
    0: lambda body: None,
    1: lambda body: True,
    2: lambda body: False,
    INT8: _integer,
    INT16: _integer,
    INT32: _integer,
    INT64: _integer,
    DOUBLE: _double,
    DECIMAL4: _decimal,
    DECIMAL8: _decimal,
    DECIMAL16: _decimal,
    DATE: _date,
    TIMESTAMP: _instant("us"),
    TIMESTAMP_NTZ: _local("us"),
    FLOAT: _float,
    BINARY: _binary,
    TEXT: _long_text,
    TIME: _time,
    TIMESTAMP_NANOS: _instant("ns"),
    TIMESTAMP_NTZ_NANOS: _local("ns"),
    UUID: _uuid,
}

# Dates and times


DAY_MICROS: Final = 86_400_000_000
EPOCH_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()
ERA_YEARS, ERA_DAYS = 400, 146_097


def date_text(days: int) -> str:
    """Return a date in ISO's form, of any year. days: since 1970."""
    eras, ordinal = divmod(days + EPOCH_ORDINAL - 1, ERA_DAYS)
    date = datetime.date.fromordinal(ordinal + 1)
    year = date.year + eras * ERA_YEARS
    return f"{'-' if year < 0 else ''}{abs(year):04}-{date.month:02}-{date.day:02}"


def local_text(number: int, unit: Unit) -> str:
    """Return a timestamp in ISO's form, with nine digits of a second only if it has so many."""
    if unit == "ns" and number % 1_000 == 0:
        number, unit = number // 1_000, "us"
    days, clock = divmod(number, DAY_MICROS * UNITS[unit])
    return f"{date_text(days)} {_clock_text(clock, unit)}"


UNITS: Final = {"us": 1, "ns": 1_000}
"""How many of a unit are one microsecond."""


def _clock_text(number: int, unit: Unit) -> str:
    seconds, fraction = divmod(number, 1_000_000 * UNITS[unit])
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:0{6 if unit == 'us' else 9}}"


def _days(text: str) -> int:
    year, month, day = text.rsplit("-", 2)
    eras, of_era = divmod(int(year) - 1, ERA_YEARS)
    date = datetime.date(of_era + 1, int(month), int(day))
    return date.toordinal() - EPOCH_ORDINAL + eras * ERA_DAYS


def _clock(text: str) -> tuple[int, Unit]:
    """Return a time of day as a number, and its unit."""
    match = CLOCK.fullmatch(text)
    if match is None:  # of a year that Arrow does not show
        raise UnreadVariant(FAR_TIMESTAMP)
    hour, minute, second = (int(match[number]) for number in (1, 2, 3))
    digits = match[4] or ""
    unit: Unit = "us" if len(digits) <= 6 else "ns"
    fraction = int(digits.ljust(6 if unit == "us" else 9, "0"))
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 * UNITS[unit] + fraction, unit


CLOCK: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)(\d\d)?")
FAR_TIMESTAMP: Final = "a timestamp outside the years of a variant"


def offset_micros(text: str) -> int:
    """Return an offset as the text of an instant has it."""
    match = OFFSET.fullmatch(text)
    assert match is not None, text
    minutes = int(match[2]) * 60 + int(match[3])
    micros = (minutes * 60 + int(match[4] or 0)) * 1_000_000
    return -micros if match[1] == "-" else micros


# Writing


WriteScalar: TypeAlias = Callable[[Any], bytes]
"""Returns the bytes of a node that is neither a dict nor a list."""


def encode(value: Node, scalar: WriteScalar) -> tuple[bytes, bytes]:
    """Return the metadata and the bytes of a value; raises BadVariant for one nested too deeply."""
    names: set[str] = set()
    try:
        if isinstance(value, dict | list):
            _gather_names(value, names, 0)
        ordered = sorted(names)
        ids = {name: number for number, name in enumerate(ordered)}
        return _dictionary(ordered), _encoded(value, ids, scalar)
    except RecursionError:
        raise BadVariant(variants.NESTED) from None


def _gather_names(value: dict[str, Node] | list[Node], names: set[str], depth: int) -> None:
    """Add the names of a container to names. depth: how many containers are around it."""
    if depth >= DEPTH_MAX:
        raise BadVariant(variants.NESTED)
    if isinstance(value, dict):
        names.update(value)
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            _gather_names(item, names, depth + 1)


def _dictionary(ordered: Sequence[str]) -> bytes:
    if not ordered:
        return NO_NAMES
    texts = [name.encode() for name in ordered]
    offsets = _ends(texts)
    size = _width(max(offsets[-1], len(texts)))
    head = bytes([VERSION | SORTED | (size - 1) << 6])
    return b"".join(
        (head, len(texts).to_bytes(size, "little"), _packed_numbers(offsets, size), *texts)
    )


def _encoded(value: Node, ids: Mapping[str, int], scalar: WriteScalar) -> bytes:
    if isinstance(value, dict):
        # Members stand in the order of their names, which is that of their ids.
        names = sorted(value)
        parts = [_encoded(value[name], ids, scalar) for name in names]
        offsets, name_ids = _ends(parts), [ids[name] for name in names]
        size, id_size = _width(offsets[-1]), _width(max(name_ids, default=0))
        is_large = len(parts) > SMALL_MAX
        header = OBJECT | (size - 1) << 2 | (id_size - 1) << 4 | is_large << 6
        listed = _packed_numbers(name_ids, id_size)
    elif isinstance(value, list):
        parts = [_encoded(item, ids, scalar) for item in value]
        offsets = _ends(parts)
        size = _width(offsets[-1])
        is_large = len(parts) > SMALL_MAX
        header = ARRAY | (size - 1) << 2 | is_large << 4
        listed = b""
    else:
        return scalar(value)
    count = len(parts).to_bytes(4 if is_large else 1, "little")
    return b"".join((bytes([header]), count, listed, _packed_numbers(offsets, size), *parts))


def _ends(parts: Sequence[bytes]) -> list[int]:
    """Return where each part begins behind the first one, and where the last one ends."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return ends


def _width(number: int) -> int:
    """Return how many bytes a number takes."""
    return max(1, (number.bit_length() + 7) // 8)


def _packed_numbers(numbers: Sequence[int], size: int) -> bytes:
    if size == 1:
        return bytes(numbers)
    return b"".join(number.to_bytes(size, "little") for number in numbers)


def value_bytes(value: Any) -> bytes:
    """Return the bytes of a scalar value of VARIANT.

    A whole number takes the narrowest type that holds it.
    """
    if value is None or value == variants.UNDEFINED:
        return NULL
    if isinstance(value, bool):
        return b"\x04" if value else b"\x08"
    if isinstance(value, str):
        return _marked_bytes(value) if value.startswith(variants.MARK) else text_bytes(value)
    if isinstance(value, variants.Real):
        return primitive(DOUBLE, struct.pack("<d", value.value))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return integer_bytes(value)
    return _decimal_bytes(decimal.Decimal(value))


def primitive(number: int, body: bytes) -> bytes:
    """Return the bytes of a primitive value. number: of its type."""
    return bytes([number << 2]) + body


def integer_bytes(value: int) -> bytes:
    """Return the bytes of a whole number of 64 bits."""
    for number, size in ((INT8, 1), (INT16, 2), (INT32, 4)):
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return primitive(number, value.to_bytes(size, "little", signed=True))
    return primitive(INT64, value.to_bytes(8, "little", signed=True))


def _decimal_bytes(value: decimal.Decimal) -> bytes:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return decimal_bytes(value, max(len(digits) + max(0, exponent), scale), scale)


def decimal_bytes(value: decimal.Decimal, precision: int, scale: int) -> bytes:
    """Return the bytes of a number with so many digits, scale of them after the point.

    Raises BadVariant for a number with more digits than that, which has no room.
    """
    unscaled = int(value.scaleb(scale, context=variants.EXACT))
    for number, size, digits_max in ((DECIMAL4, 4, 9), (DECIMAL8, 8, 18), (DECIMAL16, 16, 38)):
        if precision <= digits_max:
            try:
                body = bytes([scale]) + unscaled.to_bytes(size, "little", signed=True)
            except OverflowError:
                raise BadVariant(f"a number of more than {precision} digits") from None
            return primitive(number, body)
    raise AssertionError(f"a number of {precision} digits")


def text_bytes(text: str) -> bytes:
    """Return the bytes of a text."""
    data = text.encode()
    if len(data) <= SHORT_TEXT_MAX:
        return bytes([SHORT_TEXT | len(data) << 2]) + data
    return primitive(TEXT, len(data).to_bytes(4, "little") + data)


def binary_bytes(data: bytes) -> bytes:
    """Return the bytes of a binary value."""
    return primitive(BINARY, len(data).to_bytes(4, "little") + data)


def moment_bytes(number: int, unit: Unit, *, is_instant: bool) -> bytes:
    """Return the bytes of a timestamp. number: of units since 1970."""
    if unit == "ns":
        type_number = TIMESTAMP_NANOS if is_instant else TIMESTAMP_NTZ_NANOS
    else:
        type_number = TIMESTAMP if is_instant else TIMESTAMP_NTZ
    try:
        return primitive(type_number, number.to_bytes(8, "little", signed=True))
    except OverflowError:
        raise UnreadVariant(FAR_TIMESTAMP) from None


def _marked_bytes(value: str) -> bytes:
    letter, text = value[1], value[2:]
    match letter:
        case "s":
            return text_bytes(text)
        case "f":
            return primitive(DOUBLE, struct.pack("<d", float(text)))
        case "b":
            return binary_bytes(bytes.fromhex(text))
        case "d":
            return primitive(DATE, _days(text).to_bytes(4, "little", signed=True))
        case "t":
            return primitive(TIME, _clock(text)[0].to_bytes(8, "little"))
    day, clock_text, *offset = text.split(" ")
    clock, unit = _clock(clock_text)
    number = _days(day) * DAY_MICROS * UNITS[unit] + clock
    if letter == "l":
        number -= offset_micros(offset[0]) * UNITS[unit]
    return moment_bytes(number, unit, is_instant=letter == "l")
