"""rule: Iceberg's types in their JSON form, and the columns of a schema.

A type is a text (`long`, `decimal(9,2)`) or an object (struct, list, map), as in metadata; there is
no other form of it here. Reads types, never values.
Source: Iceberg spec, Schemas and Data Types; Appendix C.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.metadata import json_values

DEPTH_MAX = 100
"""How deeply types may nest. The bound keeps recursion far from Python's own limit."""

FIELD_ID_MAX = 2**31 - 1 - 200
"""Higher ids belong to metadata columns (`_file`, `_pos`, ...)."""

PRIMITIVES = frozenset(
    {
        "unknown", "boolean", "int", "long", "float", "double", "decimal", "date", "time",
        "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "string", "uuid", "fixed",
        "binary", "geometry", "geography",
    }
)  # fmt: skip

MIN_FORMAT_VERSIONS: Mapping[str, int] = {
    "unknown": 3,
    "variant": 3,
    "timestamp_ns": 3,
    "timestamptz_ns": 3,
    "geometry": 3,
    "geography": 3,
}

_PLAIN = PRIMITIVES - {"decimal", "fixed"} | {"variant"}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_GEOSPATIAL = re.compile(r"(geometry|geography)\s*\(([^()]*)\)", re.IGNORECASE)

DECIMAL_PRECISION_MAX = 38


class InvalidType(ValueError):
    """The JSON value is not an Iceberg type."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NestedField:
    """One field of a schema, at any depth.

    path: names from the root; a list's element is `element`, a map's parts `key` and `value`.
    parent: id of the field whose type holds this one; None at the root.
    """

    field_id: int
    name: str
    path: tuple[str, ...]
    type: Any
    required: bool
    parent: int | None
    field: Mapping[str, Any]

    @property
    def full_name(self) -> str:
        return ".".join(self.path)


def name_of(type_: Any) -> str:
    """Return the type's bare name: `decimal` for `decimal(9,2)`, `struct` for an object of it.

    Raises InvalidType.
    """
    if isinstance(type_, str):
        text = type_.strip()
        name = text.lower()
        if name in _PLAIN:
            return name
        if name.startswith("decimal"):
            decimal_of(name)
            return "decimal"
        if name.startswith("fixed"):
            fixed_length(name)
            return "fixed"
        if match := _GEOSPATIAL.fullmatch(text):
            return match[1].lower()
    elif isinstance(type_, dict) and type_.get("type") in ("struct", "list", "map"):
        return str(type_["type"])
    shown = type_ if isinstance(type_, str) else json_values.shown(type_)
    raise InvalidType(f"Cannot parse type string to primitive: {shown}")


def is_primitive(type_: Any) -> bool:
    return name_of(type_) in PRIMITIVES


def decimal_of(type_: str) -> tuple[int, int]:
    """Return precision and scale of a decimal type. Raises InvalidType."""
    match = _DECIMAL.fullmatch(type_.strip().lower())
    if match is None:
        raise InvalidType(f"Cannot parse type string to primitive: {type_}")
    precision, scale = int(match[1]), int(match[2])
    if not 1 <= precision <= DECIMAL_PRECISION_MAX or scale > precision:
        raise InvalidType(
            f"Decimals with precision larger than {DECIMAL_PRECISION_MAX} or a scale beyond their"
            f" precision are not supported: {type_}"
        )
    return precision, scale


def fixed_length(type_: str) -> int:
    """Return the length in bytes of a fixed type. Raises InvalidType."""
    match = _FIXED.fullmatch(type_.strip().lower())
    if match is None:
        raise InvalidType(f"Cannot parse type string to primitive: {type_}")
    return int(match[1])


def canonical(type_: Any) -> Any:
    """Return a hashable form that is equal for all spellings of one type."""
    name = name_of(type_)
    if name == "struct":
        return ("struct", canonical_fields(type_["fields"]))
    if name == "list":
        return (
            "list",
            type_["element-id"],
            bool(type_["element-required"]),
            canonical(type_["element"]),
        )
    if name == "map":
        return (
            "map",
            type_["key-id"],
            canonical(type_["key"]),
            type_["value-id"],
            bool(type_["value-required"]),
            canonical(type_["value"]),
        )
    if name == "decimal":
        return ("decimal", *decimal_of(type_))
    if name == "fixed":
        return ("fixed", fixed_length(type_))
    if name in ("geometry", "geography"):
        return _canonical_geospatial(type_)
    return name


def canonical_fields(fields: list[Mapping[str, Any]]) -> tuple[Any, ...]:
    """Return a hashable form of a struct's fields: ids, names, types, docs and defaults."""
    return tuple(
        (
            field["id"],
            field["name"],
            bool(field["required"]),
            canonical(field["type"]),
            field.get("doc"),
            _canonical_value(field.get("initial-default")),
            _canonical_value(field.get("write-default")),
        )
        for field in fields
    )


def columns(schema: Mapping[str, Any]) -> dict[int, NestedField]:
    """Return every field of a checked schema by id, parents before children."""
    return {column.field_id: column for column in walk(schema)}


def walk(
    struct: Mapping[str, Any], *, path: tuple[str, ...] = (), parent: int | None = None
) -> Iterator[NestedField]:
    """Yield the fields of a struct and all nested ones, parents before children."""
    for field in struct["fields"]:
        column = NestedField(
            field_id=field["id"],
            name=field["name"],
            path=(*path, field["name"]),
            type=field["type"],
            required=field["required"],
            parent=parent,
            field=field,
        )
        yield column
        yield from _inside(column)


def _inside(column: NestedField) -> Iterator[NestedField]:
    type_ = column.type
    if not isinstance(type_, dict):
        return
    if type_["type"] == "struct":
        yield from walk(type_, path=column.path, parent=column.field_id)
        return
    for part in ("element",) if type_["type"] == "list" else ("key", "value"):
        inner = NestedField(
            field_id=type_[f"{part}-id"],
            name=part,
            path=(*column.path, part),
            type=type_[part],
            required=True if part == "key" else type_[f"{part}-required"],
            parent=column.field_id,
            field=type_,
        )
        yield inner
        yield from _inside(inner)


def _canonical_geospatial(type_: str) -> tuple[str, ...]:
    name = name_of(type_)
    match = _GEOSPATIAL.fullmatch(type_.strip())
    parameters = [part.strip() for part in match[2].split(",")] if match else []
    crs = parameters[0] if parameters and parameters[0] else "OGC:CRS84"
    if name == "geometry":
        return (name, crs)
    algorithm = parameters[1].lower() if len(parameters) > 1 and parameters[1] else "spherical"
    return (name, crs, algorithm)


def _canonical_value(value: Any) -> Any:
    """Make JSON values of defaults hashable, and keep true distinct from 1."""
    if isinstance(value, dict):
        return tuple(sorted((key, _canonical_value(item)) for key, item in value.items()))
    if isinstance(value, list):
        return tuple(_canonical_value(item) for item in value)
    return (type(value).__name__, value)
