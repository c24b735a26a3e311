"""rule: primary, unique and foreign keys of a table: stored, listed, never enforced.

They stand in one table property. A primary key is also Iceberg's identifier fields, if its columns
can be: required, primitive, no floats. Where another engine has changed the identifier fields,
these are the primary key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import datatypes
from sql.dialect import names, operations

PROPERTY: Final = "boathouse.sql.keys"
"""Table property: JSON list of keys."""

KEY_TYPES: Final[tuple[operations.KeyType, ...]] = ("primary", "unique", "foreign")


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """A stored key. columns: field ids. referenced: database, schema and table as stored."""

    type: operations.KeyType
    columns: tuple[int, ...]
    name: str | None = None
    referenced: tuple[str, ...] = ()
    referenced_columns: tuple[str, ...] = ()
    on_update: str = "NO ACTION"
    on_delete: str = "NO ACTION"
    is_reliable: bool = False


def of_definition(key: operations.KeyDefinition, columns: tuple[int, ...]) -> Key:
    """Return a key of a statement as it is stored. Its referenced names are full and as stored."""
    return Key(
        type=key.type,
        columns=columns,
        name=None if key.name is None else key.name.stored,
        referenced=tuple(ident.stored for ident in key.referenced),
        referenced_columns=tuple(ident.stored for ident in key.referenced_columns),
        on_update=key.on_update,
        on_delete=key.on_delete,
        is_reliable=key.is_reliable,
    )


def read(properties: Mapping[str, str], schema: Mapping[str, Any]) -> tuple[Key, ...]:
    """Return a table's keys, the primary key first; those of a damaged property are left out."""
    try:
        stored = [_decoded(item) for item in json.loads(properties.get(PROPERTY, "[]"))]
    except (ValueError, AttributeError, KeyError, TypeError):
        stored = []
    present = {field["id"] for field in schema["fields"]}
    keys = [key for key in stored if key.columns and present.issuperset(key.columns)]
    primary = next((key for key in keys if key.type == "primary"), None)
    others = [key for key in keys if key.type != "primary"]
    own = tuple(schema.get("identifier-field-ids") or ())
    fields = list(schema["fields"])
    own_primary = [] if primary is None else identifiers([primary], fields)
    if own and set(own) != set(own_primary) and present.issuperset(own):
        primary = Key(type="primary", columns=own)
    elif not own and own_primary:
        primary = None
    return (*(() if primary is None else (primary,)), *others)


def _decoded(item: Mapping[str, Any]) -> Key:
    key_type: operations.KeyType = KEY_TYPES[KEY_TYPES.index(item["type"])]
    return Key(
        type=key_type,
        columns=tuple(int(each) for each in item["columns"]),
        name=item.get("name"),
        referenced=tuple(map(str, item.get("referenced", ()))),
        referenced_columns=tuple(map(str, item.get("referenced-columns", ()))),
        on_update=str(item.get("on-update", "NO ACTION")),
        on_delete=str(item.get("on-delete", "NO ACTION")),
        is_reliable=bool(item.get("rely", False)),
    )


def encode(keys: Sequence[Key]) -> str | None:
    """Return the property's text; None without keys."""
    items = []
    for key in keys:
        item: dict[str, Any] = {"type": key.type, "columns": list(key.columns)}
        if key.name is not None:
            item["name"] = key.name
        if key.referenced:
            item["referenced"] = list(key.referenced)
            item["referenced-columns"] = list(key.referenced_columns)
            item["on-update"] = key.on_update
            item["on-delete"] = key.on_delete
        if key.is_reliable:
            item["rely"] = True
        items.append(item)
    return json.dumps(items, separators=(",", ":")) if items else None


def identifiers(keys: Sequence[Key], fields: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the identifier fields that say the primary key; none if they cannot."""
    by_id = {field["id"]: field for field in fields}
    for key in keys:
        if key.type == "primary" and all(_may_identify(by_id[each]) for each in key.columns):
            return list(key.columns)
    return []


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyDescription:
    """A key as listings show it: names as reported. referenced: database, schema and table."""

    type: operations.KeyType
    name: str
    columns: tuple[str, ...]
    referenced: tuple[str, ...]
    referenced_columns: tuple[str, ...]
    on_update: str
    on_delete: str
    is_reliable: bool


def describe(
    properties: Mapping[str, str], schema: Mapping[str, Any], object_uuid: str
) -> tuple[KeyDescription, ...]:
    """Return a table's keys as listings show them. object_uuid: the table's."""
    if PROPERTY not in properties and not schema.get("identifier-field-ids"):
        return ()
    shown = {field["id"]: names.shown(field["name"]) for field in schema["fields"]}
    return tuple(
        KeyDescription(
            type=key.type,
            name=shown_name(key, object_uuid),
            columns=tuple(shown[field_id] for field_id in key.columns),
            referenced=_shown_path(key.referenced),
            referenced_columns=tuple(map(names.shown, key.referenced_columns)),
            on_update=key.on_update,
            on_delete=key.on_delete,
            is_reliable=key.is_reliable,
        )
        for key in read(properties, schema)
    )


def _shown_path(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name of a referenced table as listings show it: its database, schema and name."""
    return tuple(map(names.shown, (names.of_database(path[0]), *path[1:]))) if path else ()


def _may_identify(field: Mapping[str, Any]) -> bool:
    return (
        field["required"]
        and datatypes.is_primitive(field["type"])
        and datatypes.name_of(field["type"]) not in ("float", "double")
    )


def shown_name(key: Key, object_uuid: str) -> str:
    """Return a key's name, or the stable name of one without."""
    if key.name is not None:
        return names.shown(key.name)
    text = f"{object_uuid}/{key.type}/{','.join(map(str, key.columns))}"
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return (
        f"SYS_CONSTRAINT_{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"
    )
