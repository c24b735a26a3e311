"""rule: bind values, from the wire's text to typed values.

A request carries `{"1": {"type": "FIXED", "value": "7"}}`; a list as value is an array bind, one
value per row. What cannot be read as its own type is 002049 with the bind's name, never a guess.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sql import errors, limits, outcomes


@dataclass(frozen=True, kw_only=True, slots=True)
class Zoned:
    """A TIMESTAMP_TZ value: nanoseconds since the epoch (UTC), and the offset as written."""

    nanos: int
    offset_minutes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayBind:
    """The values of a large array bind as Arrow, which are freed at once and hold no objects.

    rows: how many. scale: digits behind the point of fixed values, or None if all are 64-bit
    integers. data: an Arrow IPC stream of one column; instants are microseconds in UTC, values of
    TIMESTAMP_TZ decimals of `sql.zoned_kernels`.
    """

    rows: int
    scale: int | None
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """One bind.

    type: the logical type, or None when only NULLs were bound without a type (ANY).
    values: one value, or one per row when is_array. A value is None or, by type: fixed int or
    Decimal; real float; text, variant, object, array str; boolean bool; binary bytes; date
    datetime.date; time int (nanoseconds since midnight); timestamp_ntz, timestamp_ltz int
    (nanoseconds since the epoch); timestamp_tz Zoned. column: instead of the values of an array.
    """

    type: outcomes.LogicalType | None
    values: tuple[Any, ...]
    is_array: bool = False
    column: ArrayBind | None = None

    @property
    def rows(self) -> int:
        """How many values there are."""
        return len(self.values) if self.column is None else self.column.rows

    @property
    def size_bytes(self) -> int:
        """What the values take in memory, about."""
        if self.column is None:
            return len(self.values) * limits.BOUND_VALUE_BYTES
        return len(self.column.data)

    @property
    def value(self) -> Any:
        """The one value of a bind that is no array."""
        assert not self.is_array
        return self.values[0]


def parse(raw: Mapping[str, Any] | None) -> dict[str, Binding]:
    """Return the binds of a request by name ("1", "2", ... for `?` and `:1`, else the name)."""
    if not raw:
        return {}
    if not isinstance(raw, Mapping) or len(raw) > limits.BINDS_MAX:
        raise errors.bad_binding("list", f"must be an object of at most {limits.BINDS_MAX} names")
    binding_by_name = {name: _parse_one(name, item) for name, item in raw.items()}
    rows = max(len(binding.values) for binding in binding_by_name.values())
    if rows * len(binding_by_name) > limits.ARRAY_VALUES_MAX:
        raise errors.bad_binding("list", f"holds more than {limits.ARRAY_VALUES_MAX} values")
    lengths = {len(binding.values) for binding in binding_by_name.values() if binding.is_array}
    if len(lengths) > 1:
        raise errors.bad_binding("list", "holds arrays of different lengths")
    return binding_by_name


def _parse_one(name: str, item: Any) -> Binding:
    if not isinstance(item, Mapping) or not isinstance(item.get("type"), str):
        raise errors.bad_binding(name, "has no type")
    type_name = item["type"].upper()
    if type_name not in READERS:
        raise errors.bad_binding(name, f"has an unknown type {type_name}")
    logical, read = READERS[type_name]
    value = item.get("value")
    is_array = isinstance(value, list)
    cells = value if isinstance(value, list) else (value,)
    try:
        values = tuple(None if cell is None else read(cell) for cell in cells)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        raise errors.bad_binding(name, f"is no {type_name}") from None
    return Binding(type=logical, values=values, is_array=is_array)


def _text(cell: Any) -> str:
    if not isinstance(cell, str):
        raise TypeError
    return cell


def _number(cell: Any) -> int | Decimal:
    text = _text(cell).strip()
    if text.lstrip("+-").isdecimal():
        return int(text) if len(text) <= 40 else _too_wide()
    value = Decimal(text)
    if not value.is_finite() or not -64 < value.adjusted() < 39:
        raise ValueError
    return value


def _too_wide() -> int:
    raise ValueError


def _real(cell: Any) -> float:
    value = float(_text(cell))
    return math.nan if math.isnan(value) else value


def _boolean(cell: Any) -> bool:
    text = _text(cell).strip().lower()
    if text in ("true", "1"):
        return True
    if text in ("false", "0"):
        return False
    raise ValueError


def _date(cell: Any) -> datetime.date:
    # Milliseconds since the epoch; drivers send whole days, but flooring is right for any.
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=int(_text(cell)) // 86_400_000)


def _time(cell: Any) -> int:
    nanos = int(_text(cell))
    if not 0 <= nanos < 86_400_000_000_000:
        raise ValueError
    return nanos


def _instant(cell: Any) -> int:
    nanos = int(_text(cell))
    # Years -9999 to 9999: what a Snowflake timestamp can be, and a bound on the integer.
    if abs(nanos) > 400_000_000_000 * 1_000_000_000:
        raise ValueError
    return nanos


def _zoned(cell: Any) -> Zoned:
    # py5 sends "<ns>", py4 "<ns> <offset minutes + 1440>".
    nanos, _, offset = _text(cell).strip().partition(" ")
    minutes = int(offset) - 1440 if offset else 0
    if not -1440 < minutes < 1440:
        raise ValueError
    return Zoned(nanos=_instant(nanos), offset_minutes=minutes)


READERS: Mapping[str, tuple[outcomes.LogicalType | None, Any]] = {
    "FIXED": ("fixed", _number),
    "REAL": ("real", _real),
    "TEXT": ("text", _text),
    "BOOLEAN": ("boolean", _boolean),
    "BINARY": ("binary", lambda cell: bytes.fromhex(_text(cell))),
    "DATE": ("date", _date),
    "TIME": ("time", _time),
    "TIMESTAMP_NTZ": ("timestamp_ntz", _instant),
    "TIMESTAMP_LTZ": ("timestamp_ltz", _instant),
    "TIMESTAMP_TZ": ("timestamp_tz", _zoned),
    "VARIANT": ("variant", _text),
    "OBJECT": ("object", _text),
    "ARRAY": ("array", _text),
    "ANY": (None, _text),
}
