"""rule: single values of Iceberg's types: as bytes of bounds, as JSON, as Python values.

In Python a value is plain: bool, int (also date in days, time in microseconds, timestamps in micro-
or nanoseconds, all since midnight or 1970-01-01), float, Decimal, str, and bytes (also uuid). Plain
values of one type compare in the type's order; text by code point, which is UTF-8 byte order.
Source: Iceberg spec, Appendix D.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

from catalog import datatypes

Value: TypeAlias = bool | int | float | decimal.Decimal | str | bytes

EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
DAY_MICROS = 86_400_000_000

_WIDTHS = {
    "int": 4,
    "long": 8,
    "date": 4,
    "time": 8,
    "timestamp": 8,
    "timestamptz": 8,
    "timestamp_ns": 8,
    "timestamptz_ns": 8,
}
_TIMESTAMP_UNITS = {
    "timestamp": 1_000_000,
    "timestamptz": 1_000_000,
    "timestamp_ns": 1_000_000_000,
    "timestamptz_ns": 1_000_000_000,
}
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_ZONE = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

# values have at most 38 digits; the context must not round them
_EXACT = decimal.Context(prec=200)


class InvalidValue(ValueError):
    """Bytes, JSON or a Python value that is not a value of the type."""


def from_bytes(type_: Any, data: bytes) -> Value:
    """Return the value of a bound's bytes.

    Bounds of a column whose type was promoted may have the older, shorter form.
    Raises InvalidValue, also for types without such a form.
    """
    type_name = datatypes.name_of(type_)
    try:
        if type_name in _WIDTHS:
            return _integer(type_name, data)
        if type_name in ("float", "double"):
            return float(struct.unpack("<f" if len(data) == 4 else "<d", data)[0])
        if type_name == "string":
            return data.decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise InvalidValue(f"{len(data)} bytes are no {type_name}: {error}") from error
    if type_name == "boolean" and len(data) == 1:
        return data != b"\x00"
    if type_name == "decimal" and data:
        _, scale = datatypes.decimal_of(type_)
        return decimal_from(int.from_bytes(data, "big", signed=True), scale)
    if type_name in ("fixed", "binary") or (type_name == "uuid" and len(data) == 16):
        return data
    raise InvalidValue(f"{len(data)} bytes are no {type_name}")


def integers_from_bytes(type_: Any, bounds: Sequence[bytes | None]) -> list[Value | None] | None:
    """Return `from_bytes` for each bound of a type of whole numbers, decoded at once.

    None if some bound has not the type's own width, or the values are no whole numbers.
    """
    width = _WIDTHS.get(datatypes.name_of(type_))
    if width is None:
        return None
    present = [data for data in bounds if data is not None]
    if any(len(data) != width for data in present):
        return None
    code = {4: "i", 8: "q"}[width]
    numbers = struct.unpack(f"<{len(present)}{code}", b"".join(present))
    if len(present) == len(bounds):
        return list(numbers)
    remaining = iter(numbers)
    return [None if data is None else next(remaining) for data in bounds]


def _integer(type_name: str, data: bytes) -> int:
    if len(data) not in (4, 8):
        raise InvalidValue(f"{len(data)} bytes are no {type_name}")
    number = int.from_bytes(data, "little", signed=True)
    if len(data) == 4 and type_name in _TIMESTAMP_UNITS:  # was a date
        return number * 86_400 * _TIMESTAMP_UNITS[type_name]
    return number


def to_bytes(type_: Any, value: Value) -> bytes:
    """Return a value as a bound's bytes. Raises InvalidValue."""
    type_name = datatypes.name_of(type_)
    try:
        if type_name in _WIDTHS:
            return int(value).to_bytes(_WIDTHS[type_name], "little", signed=True)
        if type_name == "float":
            return struct.pack("<f", value)
        if type_name == "double":
            return struct.pack("<d", value)
        if type_name == "string" and isinstance(value, str):
            return value.encode()
        if type_name == "boolean":
            return b"\x01" if value else b"\x00"
        if type_name == "decimal":
            return unscaled_bytes(unscaled(value, datatypes.decimal_of(type_)[1]))
        if type_name in ("uuid", "fixed", "binary") and isinstance(value, bytes):
            return value
    except (struct.error, OverflowError, UnicodeEncodeError, TypeError) as error:
        raise InvalidValue(f"{value!r} is no {type_name}: {error}") from error
    raise InvalidValue(f"{value!r} is no {type_name}")


def decimal_from(number: int, scale: int) -> decimal.Decimal:
    """Return the decimal of an unscaled integer."""
    return decimal.Decimal(number).scaleb(-scale, _EXACT)


def unscaled(value: Any, scale: int) -> int:
    """Return a decimal as an unscaled integer. Raises InvalidValue if digits are lost."""
    try:
        scaled = decimal.Decimal(value).scaleb(scale, _EXACT)
        whole = scaled.to_integral_value(rounding=decimal.ROUND_HALF_EVEN, context=_EXACT)
    except (decimal.InvalidOperation, TypeError, ValueError) as error:
        raise InvalidValue(f"{value!r} is no decimal") from error
    if not scaled.is_finite() or whole != scaled:
        raise InvalidValue(f"{value!r} has more than {scale} digits after the point")
    return int(whole)


def unscaled_bytes(number: int) -> bytes:
    """Return an integer in two's complement, big-endian, in as few bytes as possible."""
    length = (number + (number < 0)).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


# --- JSON ---------------------------------------------------------------------------------------


def from_json(type_: Any, spelling: Any) -> Value:
    """Return the value of its JSON single-value form. Raises InvalidValue."""
    type_name = datatypes.name_of(type_)
    try:
        if type_name == "boolean" and isinstance(spelling, bool):
            return spelling
        if isinstance(spelling, bool):
            raise InvalidValue(f"{spelling!r} is no {type_name}")
        if type_name in ("int", "long") and isinstance(spelling, int):
            return _in_range(type_name, spelling)
        if type_name in ("float", "double") and isinstance(spelling, int | float):
            return float(spelling)
        if not isinstance(spelling, str):
            return _from_json_number(type_name, spelling)
        return _from_json_text(type_name, type_, spelling)
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"{spelling!r} is no {type_name}: {error}") from error


def _from_json_number(type_name: str, spelling: Any) -> Value:
    """Some clients send dates and times as their stored numbers."""
    if isinstance(spelling, int) and type_name in _WIDTHS:
        return _in_range(type_name, spelling)
    if isinstance(spelling, int | float) and type_name == "decimal":
        return decimal.Decimal(str(spelling))
    raise InvalidValue(f"{spelling!r} is no {type_name}")


def _in_range(type_name: str, number: int) -> int:
    bits = _WIDTHS[type_name] * 8 - 1
    if not -(2**bits) <= number < 2**bits:
        raise InvalidValue(f"{number} is no {type_name}")
    return number


def _from_json_text(type_name: str, type_: Any, text: str) -> Value:
    if type_name == "string":
        return text
    if type_name == "date":
        return datetime.date.fromisoformat(text).toordinal() - EPOCH_ORDINAL
    if type_name == "time":
        return _time_of(text, units=1_000_000)
    if type_name in _TIMESTAMP_UNITS:
        return _timestamp_of(text, units=_TIMESTAMP_UNITS[type_name], zoned="tz" in type_name)
    if type_name == "decimal":
        value = decimal.Decimal(text)
        if not value.is_finite():
            raise InvalidValue(f"{text!r} is no decimal")
        return value
    if type_name == "uuid" and _UUID.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    if type_name in ("fixed", "binary"):
        return bytes.fromhex(text)
    if type_name in ("float", "double"):
        return float(text)
    raise InvalidValue(f"{text!r} is no {type_name}")


def _time_of(text: str, *, units: int) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{text!r} is no time of day")
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise InvalidValue(f"{text!r} is no time of day")
    nanos = int((match[4] or "").ljust(9, "0"))
    return (hours * 3600 + minutes * 60 + seconds) * units + nanos * units // 1_000_000_000


def _timestamp_of(text: str, *, units: int, zoned: bool) -> int:
    zone = _ZONE.search(text[10:])
    if (zone is not None) is not zoned:
        raise InvalidValue(f"{text!r} has {'no ' if zoned else 'a '}zone offset")
    offset_seconds = 0
    clock = text[11:]
    if zone is not None:
        clock = clock[: -len(zone[1])]
        if zone[1] != "Z":
            digits = zone[1][1:].replace(":", "")
            offset_seconds = (int(digits[:2]) * 60 + int(digits[2:])) * 60
            if zone[1][0] == "-":
                offset_seconds = -offset_seconds
    if len(text) < 11 or text[10] not in "T ":
        raise InvalidValue(f"{text!r} is no timestamp")
    days = datetime.date.fromisoformat(text[:10]).toordinal() - EPOCH_ORDINAL
    return (days * 86_400 - offset_seconds) * units + _time_of(clock, units=units)


def to_json(type_: Any, value: Value) -> Any:
    """Return a value in its JSON single-value form. Raises InvalidValue."""
    type_name = datatypes.name_of(type_)
    if type_name == "decimal":
        return _decimal_text(value, datatypes.decimal_of(type_)[1])
    if isinstance(value, bytes):
        text = value.hex()
        if type_name == "uuid":
            return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return text
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer_to_json(type_name, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidValue(f"{value} has no JSON form")
    return value


def _decimal_text(value: Any, scale: int) -> str:
    return format(decimal_from(unscaled(value, scale), scale), "f")


def _integer_to_json(type_name: str, value: int) -> Any:
    try:
        if type_name == "date":
            return datetime.date.fromordinal(value + EPOCH_ORDINAL).isoformat()
        if type_name == "time":
            return _clock_text(value, units=1_000_000)
        if type_name in _TIMESTAMP_UNITS:
            units = _TIMESTAMP_UNITS[type_name]
            days, rest = divmod(value, 86_400 * units)
            day = datetime.date.fromordinal(days + EPOCH_ORDINAL).isoformat()
            return f"{day}T{_clock_text(rest, units=units)}{'+00:00' if 'tz' in type_name else ''}"
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"{value} is no {type_name} that ISO-8601 can say") from error
    return value


def _clock_text(value: int, *, units: int) -> str:
    seconds, fraction = divmod(value, units)
    digits = len(str(units)) - 1
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"
