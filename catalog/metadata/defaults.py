"""rule: whether a default of a schema's field is a value of the field's type.

A default is stored in the JSON single-value form, which has one spelling for most values. Readers
parse the defaults together with the schema, so that a default in another form makes the table
unreadable to them. Checks no default of a table that exists: those are checked when a schema comes.
Source: Iceberg spec, Default values; Appendix D, JSON single-value serialization.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any, Final

from catalog import datatypes, values

NULL_ONLY: Final = frozenset(
    {"unknown", "variant", "geometry", "geography", "struct", "list", "map"}
)
"""Types whose default is always null.

The specification allows {} for a struct and values for a list and a map. Iceberg's Java library has
no literals of nested types and fails on every schema with such a default, up to its release 1.12.
"""

MEMBERS: Final = ("initial-default", "write-default")

_NULL: Final = re.compile(rb'-default"\s*:\s*null')
_TIME: Final = r"\d{2}:\d{2}:\d{2}(?:\.\d{1,%d})?"
_DATE: Final = r"\d{4}-\d{2}-\d{2}"
_TEXTS: Final[Mapping[str, re.Pattern[str]]] = {
    "date": re.compile(_DATE, re.ASCII),
    "time": re.compile(_TIME % 6, re.ASCII),
    "timestamp": re.compile(f"{_DATE}T{_TIME % 6}", re.ASCII),
    "timestamptz": re.compile(rf"{_DATE}T{_TIME % 6}\+00:00", re.ASCII),
    "timestamp_ns": re.compile(f"{_DATE}T{_TIME % 9}", re.ASCII),
    "timestamptz_ns": re.compile(rf"{_DATE}T{_TIME % 9}\+00:00", re.ASCII),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "fixed": re.compile(r"(?:[0-9a-fA-F]{2})*"),
    "binary": re.compile(r"(?:[0-9a-fA-F]{2})*"),
    "decimal": re.compile(r"-?\d+(?:\.(?P<fraction>\d+))?", re.ASCII),
}
"""The spelling of types whose values are JSON texts, besides string itself."""


def is_default(type_: Any, value: Any) -> bool:
    """Return whether a field of a checked type may have a default. value: decoded JSON."""
    if value is None:
        return True
    name = datatypes.name_of(type_)
    return name not in NULL_ONLY and _is_primitive(name, type_, value)


def _is_primitive(name: str, type_: str, value: Any) -> bool:
    if name == "string":
        return isinstance(value, str)
    pattern = _TEXTS.get(name)
    if pattern is None:
        return not isinstance(value, str) and _is_number(name, type_, value)
    match = pattern.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return False
    if name == "decimal":
        precision, scale = datatypes.decimal_of(type_)
        fraction = match["fraction"] or ""
        digits = value.lstrip("-").replace(".", "").lstrip("0")
        return len(fraction) == scale and len(digits) <= precision
    if name == "fixed":
        return len(value) == 2 * datatypes.fixed_length(type_)
    return _is_readable(type_, value)


def _is_number(name: str, type_: str, value: Any) -> bool:
    """Return whether a value that is no text is a boolean or a number of a type."""
    if not _is_readable(type_, value):
        return False
    if name not in ("float", "double"):
        return True
    try:
        struct.pack("<f" if name == "float" else "<d", value)
    except OverflowError:
        return False
    return math.isfinite(value)


def _is_readable(type_: str, value: Any) -> bool:
    try:
        values.from_json(type_, value)
    except values.InvalidValue:
        return False
    return True


def spells_null(text: bytes) -> bool:
    """Return whether a JSON text may have a default of null; it is never False for one that has."""
    return b"-default" in text and _NULL.search(text) is not None


def without_nulls(type_: Any) -> Any:
    """Return a type without the members of its fields that are defaults of null.

    type_: decoded JSON, not checked: what is no type stays as it is.
    """
    if not isinstance(type_, dict):
        return type_
    parts: dict[str, Any] = {
        part: without_nulls(type_[part]) for part in ("element", "key", "value") if part in type_
    }
    fields = type_.get("fields")
    if isinstance(fields, list):
        parts["fields"] = list(map(_field_without_nulls, fields))
    return {**type_, **parts}


def _field_without_nulls(field: Any) -> Any:
    if not isinstance(field, dict):
        return field
    return {
        name: without_nulls(value) if name == "type" else value
        for name, value in field.items()
        if value is not None or name not in MEMBERS
    }
