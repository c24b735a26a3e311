"""rule: schemas: validation, comparison, fresh ids, and their updates.

A schema is the JSON object that a client sent, with the id that the table assigns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from catalog import datatypes
from catalog.metadata import defaults, drafts, errors, json_values, limits
from catalog.metadata.drafts import Draft
from catalog.metadata.json_values import Json

DEFAULTS_MIN_FORMAT_VERSION = 3


def check_schema(schema: Any, *, format_version: int) -> Json:
    """Return schema after checking that a table of this format version may have it.

    A default of null is left out, as it means the same as none: Iceberg's Java library fails on
    every schema that spells it, up to its release 1.12.
    Raises BadUpdate with every invalid type or default, or with the first malformed part.
    """
    checked = check_shape(schema)
    problems = []
    has_nulls = False
    for column in datatypes.columns(checked).values():
        type_name = datatypes.name_of(column.type)
        needed = datatypes.MIN_FORMAT_VERSIONS.get(type_name, 1)
        if format_version < needed:
            problems.append(
                f"Invalid type for {column.full_name}: {column.type} is not supported until"
                f" v{needed}"
            )
        if "name" not in column.field:
            continue  # the parts of a list or map have no defaults; `field` is the type around them
        initial = column.field.get("initial-default")
        if initial is not None and format_version < DEFAULTS_MIN_FORMAT_VERSION:
            problems.append(
                f"Invalid initial default for {column.full_name}: non-null default"
                f" ({json_values.shown(initial)}) is not supported until"
                f" v{DEFAULTS_MIN_FORMAT_VERSION}"
            )
        problems += [
            f"Invalid {member.replace('-', ' ')} for {column.full_name}: Cannot parse default as"
            f" a {type_name if isinstance(column.type, dict) else column.type} value:"
            f" {json_values.shown(column.field[member])}"
            for member in defaults.MEMBERS
            if not defaults.is_default(column.type, column.field.get(member))
        ]
        has_nulls = has_nulls or any(column.field.get(name, 0) is None for name in defaults.MEMBERS)
    if problems:
        lines = "\n- ".join(problems)
        raise errors.BadUpdate(f"Invalid schema for v{format_version}:\n- {lines}")
    return defaults.without_nulls(checked) if has_nulls else checked


def check_shape(schema: Any) -> Json:
    """Return schema after checking that its fields are well-formed, distinct. Raises BadUpdate."""
    checked = json_values.check_object(schema, what="schema")
    if checked.get("type", "struct") != "struct":
        raise errors.BadUpdate(
            f"Cannot parse schema: expected a struct, got {json_values.shown(checked['type'])}"
        )
    seen: dict[int, str] = {}
    _check_struct(checked, path=(), seen=seen)
    if checked.get("identifier-field-ids") is not None:
        json_values.get_numbers(checked, "identifier-field-ids", limit=json_values.INT_MAX)
        _check_identifiers(checked)
    return checked


def _check_struct(struct: Json, *, path: tuple[str, ...], seen: dict[int, str]) -> None:
    if len(path) > datatypes.DEPTH_MAX:
        raise errors.BadUpdate(f"Types nest more than {datatypes.DEPTH_MAX} deep")
    names = set()
    for item in json_values.get_list(struct, "fields"):
        field = json_values.check_object(item, what="field")
        name = json_values.get_text(field, "name")
        if name in names:
            raise errors.BadUpdate(f"Invalid schema: multiple fields for name {name}")
        names.add(name)
        _check_id(json_values.get_int(field, "id"), ".".join((*path, name)), seen)
        _check_flag(field, "required")
        if field.get("doc") is not None:
            json_values.get_text(field, "doc")
        _check_type(field.get("type"), path=(*path, name), seen=seen)
        if field["type"] == "unknown" and field["required"]:
            raise errors.BadUpdate(f"Invalid schema: {name} is unknown, so it must be optional")


def _check_type(type_: Any, *, path: tuple[str, ...], seen: dict[int, str]) -> None:
    if type_ is None:
        raise errors.BadUpdate(f"Cannot parse missing field: type of {'.'.join(path)}")
    try:
        type_name = datatypes.name_of(type_)
    except datatypes.InvalidType as error:
        raise errors.BadUpdate(str(error)) from error
    if len(path) > datatypes.DEPTH_MAX:
        raise errors.BadUpdate(f"Types nest more than {datatypes.DEPTH_MAX} deep")
    if type_name == "struct":
        _check_struct(type_, path=path, seen=seen)
    elif type_name == "list":
        _check_part(type_, "element", path=path, seen=seen)
    elif type_name == "map":
        _check_id(json_values.get_int(type_, "key-id"), ".".join((*path, "key")), seen)
        _check_type(type_.get("key"), path=(*path, "key"), seen=seen)
        _check_part(type_, "value", path=path, seen=seen)


def _check_part(type_: Json, part: str, *, path: tuple[str, ...], seen: dict[int, str]) -> None:
    _check_id(json_values.get_int(type_, f"{part}-id"), ".".join((*path, part)), seen)
    _check_flag(type_, f"{part}-required")
    _check_type(type_.get(part), path=(*path, part), seen=seen)


def _check_id(field_id: int, name: str, seen: dict[int, str]) -> None:
    if field_id > datatypes.FIELD_ID_MAX:
        raise errors.BadUpdate(f"Field id {field_id} of {name} is reserved for metadata columns")
    if len(seen) >= limits.FIELDS_MAX:
        raise errors.BadUpdate(f"A schema has at most {limits.FIELDS_MAX} fields")
    if field_id in seen:
        raise errors.BadUpdate(
            f"Multiple entries with same key: {field_id}={seen[field_id]} and {field_id}={name}"
        )
    seen[field_id] = name


def _check_flag(source: Json, name: str) -> None:
    if not isinstance(source.get(name), bool):
        raise errors.BadUpdate(
            f"Cannot parse to a boolean value: {name}: {json_values.shown(source.get(name))}"
        )


def _check_identifiers(schema: Json) -> None:
    columns = datatypes.columns(schema)
    for field_id in schema["identifier-field-ids"]:
        column = columns.get(field_id)
        if column is None:
            raise errors.BadUpdate(
                f"Cannot add fieldId {field_id} as an identifier field: field does not exist"
            )
        problem = _identifier_problem(column, columns)
        if problem is not None:
            raise errors.BadUpdate(
                f"Cannot add field {column.name} as an identifier field: {problem}"
            )


def _identifier_problem(
    column: datatypes.NestedField, columns: dict[int, datatypes.NestedField]
) -> str | None:
    if not datatypes.is_primitive(column.type):
        return "not a primitive type field"
    if not column.required:
        return "not a required field"
    if datatypes.name_of(column.type) in ("float", "double"):
        return "must not be float or double field"
    parent = column.parent
    while parent is not None:
        around = columns[parent]
        if datatypes.name_of(around.type) != "struct":
            return f"must not be nested in {around.full_name}"
        if not around.required:
            return f"must not be nested in an optional field {around.full_name}"
        parent = around.parent
    return None


def highest_field_id(schema: Json) -> int:
    return max(datatypes.columns(schema), default=0)


def identity_of(schema: Json) -> tuple[Any, ...]:
    """Return a hashable value that is equal for schemas that differ in nothing but their ids."""
    return (
        datatypes.canonical_fields(schema["fields"]),
        frozenset(schema.get("identifier-field-ids") or ()),
    )


# --- fresh ids ----------------------------------------------------------------------------------


def with_fresh_ids(schema: Json) -> tuple[Json, dict[int, int]]:
    """Return the checked schema with its fields numbered from 1, and the map old id -> new id.

    One level at a time: all fields of a struct get their ids before the fields nested in them.
    """
    counter = itertools.count(1)
    renumbered: dict[int, int] = {}

    def fresh(old: int) -> int:
        renumbered[old] = next(counter)
        return renumbered[old]

    numbered = {
        **schema,
        "type": "struct",
        "schema-id": 0,
        "fields": _renumber_fields(schema["fields"], fresh),
    }
    if schema.get("identifier-field-ids") is not None:
        numbered["identifier-field-ids"] = [
            renumbered[old] for old in schema["identifier-field-ids"]
        ]
    return numbered, renumbered


def _renumber_fields(fields: Iterable[Json], fresh: Callable[[int], int]) -> list[Json]:
    level = [{**field, "id": fresh(field["id"])} for field in fields]
    return [{**field, "type": _renumber_type(field["type"], fresh)} for field in level]


def _renumber_type(type_: Any, fresh: Callable[[int], int]) -> Any:
    if not isinstance(type_, dict):
        return type_
    if type_["type"] == "struct":
        return {**type_, "fields": _renumber_fields(type_["fields"], fresh)}
    parts = ("element",) if type_["type"] == "list" else ("key", "value")
    ids = {f"{part}-id": fresh(type_[f"{part}-id"]) for part in parts}
    return {**type_, **ids, **{part: _renumber_type(type_[part], fresh) for part in parts}}


# --- updates ------------------------------------------------------------------------------------


def apply_add_schema(draft: Draft, update: Json) -> None:
    """Add a schema, or reuse an identical one; `-1` then refers to it in this request."""
    schema = check_schema(update.get("schema"), format_version=draft.format_version)
    identity = identity_of(schema)
    last_column_id = max(draft.last_column_id, highest_field_id(schema))
    if last_column_id != draft.last_column_id:
        draft.last_column_id = last_column_id
        draft.touch()
    same = draft.schemas.find(identity, identity_of)
    if same is not None:
        draft.last_schema_id = same
        return
    if len(draft.schemas) >= limits.SCHEMAS_MAX:
        raise errors.BadUpdate(
            f"A table has at most {limits.SCHEMAS_MAX} schemas; remove those that no snapshot uses"
        )
    schema_id = json_values.next_id(draft.schemas.highest(default=-1), what="a schema")
    added = {**schema, "type": "struct", "schema-id": schema_id}
    draft.schemas.add(schema_id, added, identity)
    draft.last_schema_id = schema_id
    draft.touch()


def apply_set_current_schema(draft: Draft, update: Json) -> None:
    """Make an existing schema current. Whether spec and order still fit is checked at the end."""
    schema_id = json_values.get_int(update, "schema-id")
    if schema_id == drafts.LAST_ADDED:
        if draft.last_schema_id is None:
            raise errors.BadUpdate("Cannot set last added schema: no schema has been added")
        schema_id = draft.last_schema_id
    if schema_id == draft.current_schema_id:
        return
    if draft.schemas.get(schema_id) is None:
        raise errors.BadUpdate(f"Cannot set current schema to unknown schema: {schema_id}")
    draft.current_schema_id = schema_id
    draft.touch()


def apply_remove_schemas(draft: Draft, update: Json) -> None:
    gone = set(json_values.get_numbers(update, "schema-ids", limit=json_values.INT_MAX))
    if draft.current_schema_id in gone:
        raise errors.BadUpdate("Cannot remove the current schema")
    if draft.schemas.remove(gone):
        draft.touch()
