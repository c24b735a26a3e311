"""rule: whether a default of a schema's field is a value of the field's type.

A default is stored in the JSON single-value form, which has one spelling for most values. Readers
parse the defaults together with the schema, so that a default in another form makes the table
unreadable to them. Reads no default of a table that exists: those are checked when a schema comes.
Source: Iceberg spec, Default values; Appendix D, JSON single-value serialization.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any, Final

from catalog import datatypes, values

NULL_ONLY: Final = frozenset({"unknown", "variant", "geometry", "geography"})
"""Types whose default is always null."""

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
    """Return whether a field of a checked type may have a default. value: decoded JSON.

    The default of a struct is null or has no members: each of its fields has a default of its own.
    """
    if value is None:
        return True
    name = datatypes.name_of(type_)
    if name in NULL_ONLY:
        return False
    return value == {} if name == "struct" else _is_value(type_, value)


def _is_value(type_: Any, value: Any) -> bool:
    """Return whether value, which is not null, is the JSON single-value form of a type's value."""
    name = datatypes.name_of(type_)
    if name in NULL_ONLY:
        return False
    if name == "struct":
        return _is_struct(type_, value)
    if name == "list":
        return isinstance(value, list) and _are_values(
            type_["element"], value, required=type_["element-required"]
        )
    if name == "map":
        return _is_map(type_, value)
    return _is_primitive(name, type_, value)


def _are_values(type_: Any, items: list[Any], *, required: bool) -> bool:
    return all(not required if item is None else _is_value(type_, item) for item in items)


def _is_struct(type_: Mapping[str, Any], value: Any) -> bool:
    """Return whether value has the fields of a struct by their ids, and no others."""
    if not isinstance(value, dict):
        return False
    fields = {str(field["id"]): field for field in type_["fields"]}
    if not value.keys() <= fields.keys():
        return False
    return all(
        _are_values(field["type"], [value.get(key)], required=field["required"])
        for key, field in fields.items()
    )


def _is_map(type_: Mapping[str, Any], value: Any) -> bool:
    """Return whether value has the keys and the values of a map, each as an array."""
    if not isinstance(value, dict) or value.keys() != {"keys", "values"}:
        return False
    keys, items = value["keys"], value["values"]
    if not isinstance(keys, list) or not isinstance(items, list) or len(keys) != len(items):
        return False
    return _are_values(type_["key"], keys, required=True) and _are_values(
        type_["value"], items, required=type_["value-required"]
    )


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
