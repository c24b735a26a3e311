"""rule: partition transforms: their types, and their results for values.

Values are plain, as in `catalog.values`. A partition's path is for readers only: it is never
parsed. Source: Iceberg spec, Partition Transforms; Appendix B (hashes).
"""

from __future__ import annotations

import base64
import datetime
import decimal
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mmh3

from catalog import datatypes, values
from catalog.metadata import json_values
from catalog.values import Value

_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d{1,10})\]")
_PLAIN = frozenset({"identity", "void", "year", "month", "day", "hour"})
_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATED = _TIMESTAMPS | {"date"}
_SOURCES = {
    "identity": datatypes.PRIMITIVES - {"geometry", "geography"},
    "bucket": _DATED | {"int", "long", "decimal", "time", "string", "uuid", "fixed", "binary"},
    "truncate": frozenset({"int", "long", "decimal", "string", "binary"}),
    "year": _DATED,
    "month": _DATED,
    "day": _DATED,
    "hour": _TIMESTAMPS,
}


class InvalidTransform(ValueError):
    """The text is not a partition transform."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transform:
    """name: identity, bucket, truncate, year, ..., void. width: of bucket and truncate."""

    name: str
    width: int | None = None

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}[{self.width}]"


def parse(text: str) -> Transform:
    """Return the transform with this text in a spec or sort order. Raises InvalidTransform."""
    spelled = text.strip().lower()
    if spelled in _PLAIN:
        return Transform(name=spelled)
    match = _WITH_WIDTH.fullmatch(spelled)
    if match is None or not 0 < int(match[2]) < 2**31:
        raise InvalidTransform(f"Cannot parse transform: {text}")
    return Transform(name=match[1], width=int(match[2]))


def accepts(transform: Transform, type_: Any) -> bool:
    """Return whether the transform accepts values of this type."""
    return transform.name == "void" or datatypes.name_of(type_) in _SOURCES[transform.name]


def result_type(transform: Transform, type_: Any) -> Any:
    """Return the type of the transform's results for a source of this type."""
    if transform.name in ("identity", "truncate", "void"):
        return type_
    return "date" if transform.name == "day" else "int"


# --- values -------------------------------------------------------------------------------------

_UNITS = {
    "timestamp": 1_000_000,
    "timestamptz": 1_000_000,
    "timestamp_ns": 1_000_000_000,
    "timestamptz_ns": 1_000_000_000,
}


def apply(transform: Transform, type_: Any, value: Value | None) -> Value | None:
    """Return the partition value of a source value of this type; null stays null.

    Raises InvalidTransform if the transform does not accept the type.
    """
    if value is None or transform.name == "void":
        return None
    if not accepts(transform, type_):
        shown = type_ if isinstance(type_, str) else json_values.shown(type_)
        raise InvalidTransform(f"{transform} does not accept {shown}")
    type_name = datatypes.name_of(type_)
    if transform.name == "identity":
        return value
    if transform.name == "bucket":
        assert transform.width is not None
        return (hash_of(type_name, type_, value) & 0x7FFF_FFFF) % transform.width
    if transform.name == "truncate":
        assert transform.width is not None
        return _truncate(type_name, type_, value, transform.width)
    assert isinstance(value, int)
    return _time_part(transform.name, type_name, value)


def hash_of(type_name: str, type_: Any, value: Any) -> int:
    """Return the 32-bit hash of a value, signed."""
    if type_name == "decimal":
        data = values.unscaled_bytes(values.unscaled(value, datatypes.decimal_of(type_)[1]))
    elif isinstance(value, str):
        data = value.encode()
    elif isinstance(value, bytes):
        data = value
    else:
        micros = value // 1_000 if type_name.endswith("_ns") else value
        data = int(micros).to_bytes(8, "little", signed=True)
    return mmh3.hash(data, 0)


def _truncate(type_name: str, type_: Any, value: Any, width: int) -> Value:
    if type_name == "decimal":
        scale = datatypes.decimal_of(type_)[1]
        number = values.unscaled(value, scale)
        return values.decimal_from(number - number % width, scale)
    if isinstance(value, int):
        return value - value % width
    assert isinstance(value, str | bytes)
    return value[:width]


def _time_part(name: str, type_name: str, value: int) -> int:
    if type_name == "date":
        days = value
    else:
        units = _UNITS[type_name]
        if name == "hour":
            return value // (3_600 * units)
        days = value // (86_400 * units)
    if name == "day":
        return days
    year, month = _year_and_month(days)
    return year - 1970 if name == "year" else (year - 1970) * 12 + month - 1


def _year_and_month(days: int) -> tuple[int, int]:
    """Return the civil year and month of a day, also beyond the years of Python's dates."""
    # 400 Gregorian years are always 146,097 days: shift into the span of datetime
    cycles, rest = divmod(days, 146_097)
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=rest)
    return day.year + 400 * cycles, day.month


# --- paths --------------------------------------------------------------------------------------


def partition_path(
    fields: Sequence[Mapping[str, Any]], types: Sequence[Any], partition: Sequence[Value | None]
) -> str:
    """Return the path of a partition's files below the data folder: `day=2024-02-29/id_bucket=3`.

    fields: the spec's, decoded JSON. types: of the partition's values. Names and values are escaped
    like Iceberg's Java writers do; a leading dot is escaped too, so that no folder is hidden.
    """
    return "/".join(
        f"{_escape_name(field['name'])}={_escape(human(parse(field['transform']), type_, value))}"
        for field, type_, value in zip(fields, types, partition, strict=True)
    )


def _escape_name(name: str) -> str:
    escaped = _escape(name)
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped


def _escape(text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")


def human(transform: Transform, type_: Any, value: Value | None) -> str:
    """Return a partition value as readable text."""
    if value is None:
        return "null"
    if transform.name in ("year", "month", "hour") and isinstance(value, int):
        return _human_time(transform.name, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes) and datatypes.name_of(type_) != "uuid":
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    try:
        spelled = values.to_json(type_, value)
    except values.InvalidValue:
        spelled = value
    return str(spelled)


def _human_time(name: str, value: int) -> str:
    if name == "year":
        return f"{1970 + value:04d}"
    if name == "month":
        years, months = divmod(value, 12)
        return f"{1970 + years:04d}-{months + 1:02d}"
    days, hours = divmod(value, 24)
    year, month = _year_and_month(days)
    first = datetime.date(1970, 1, 1) + datetime.timedelta(days=days % 146_097)
    return f"{year:04d}-{month:02d}-{first.day:02d}-{hours:02d}"
