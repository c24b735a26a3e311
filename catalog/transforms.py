"""rule: partition transforms: their names, and which types they take and give.

Source: Iceberg spec, Partition Transforms; Appendix B (hashes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from catalog import datatypes

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
    """The text names no partition transform."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transform:
    """name: identity, bucket, truncate, year, month, day, hour or void; width of the two with."""

    name: str
    width: int | None = None

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}[{self.width}]"


def parse(text: str) -> Transform:
    """Return the transform that a spec or sort order spells so. Raises InvalidTransform."""
    spelled = text.strip().lower()
    if spelled in _PLAIN:
        return Transform(name=spelled)
    match = _WITH_WIDTH.fullmatch(spelled)
    if match is None or not 0 < int(match[2]) < 2**31:
        raise InvalidTransform(f"Cannot parse transform: {text}")
    return Transform(name=match[1], width=int(match[2]))


def accepts(transform: Transform, type_: Any) -> bool:
    """Say whether the transform takes values of this type."""
    return transform.name == "void" or datatypes.kind_of(type_) in _SOURCES[transform.name]


def result_type(transform: Transform, type_: Any) -> Any:
    """Return the type of the transform's results for a source of this type."""
    if transform.name in ("identity", "truncate", "void"):
        return type_
    return "date" if transform.name == "day" else "int"
