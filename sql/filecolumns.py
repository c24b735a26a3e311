"""engine: which columns of a data file are read as a table's columns, matched by field id.

A file without field ids gets them from the table's name mapping. What a file lacks is NULL, the
field's initial default, or the partition's value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from catalog import manifests, transforms, values
from sql import errors, ipc, pinned, tabletypes, variant_columns, zoned_kernels
from sql.dialect import shapes

NAME_MAPPING = "schema.name-mapping.default"
"""The property with names of file columns. Source: Iceberg spec, Column Projection."""


def encoded_schema(
    table: pinned.PinnedTable, zone: str, *, numbered: bool = False, packs: bool = False
) -> bytes:
    """Return the engine's schema of a table, encoded. numbered: with the columns of row numbers.

    packs: columns of `variant` are packed (`sql.variant_columns`).
    """
    zoned, type_of = table.zoned, packed_type if packs else nested_type
    schema = pa.schema(
        [
            pa.field(
                field["name"],
                zoned_kernels.PACKED if field["id"] in zoned else type_of(field["type"], zone),
            )
            for field in table.fields
        ]
    )
    if numbered:
        for name in (shapes.ROW, *(field["name"] for field in pinned.lineage_of(table))):
            schema = schema.append(pa.field(name, pa.int64()))
    return ipc.encode_schema(schema)


UNREAD: Final = "arrow_cast(NULL, 'Utf8View')"
"""What the engine has in the place of values that SQL does not read."""

NO_PACKED: Final = "arrow_cast(NULL, 'Binary')"
"""The packed value of a variant that a file lacks."""


def nested_type(iceberg_type: Any, zone: str) -> pa.DataType:
    """Return the engine's Arrow type of an Iceberg type; nested fields have the table's names."""
    if tabletypes.unread(iceberg_type):
        return pa.string_view()
    if not isinstance(iceberg_type, dict):
        return tabletypes.engine_type(iceberg_type, zone)
    match iceberg_type["type"]:
        case "struct":
            return pa.struct(
                [
                    pa.field(field["name"], nested_type(field["type"], zone))
                    for field in iceberg_type["fields"]
                ]
            )
        case "list":
            return pa.list_(pa.field("element", nested_type(iceberg_type["element"], zone)))
    return pa.map_(nested_type(iceberg_type["key"], zone), nested_type(iceberg_type["value"], zone))


def packed_type(iceberg_type: Any, zone: str) -> pa.DataType:
    """Like `nested_type`, of a relation whose variants are packed."""
    return pa.binary() if iceberg_type == "variant" else nested_type(iceberg_type, zone)


def read_type(iceberg_type: Any, file_column: pa.Field[Any], zone: str) -> pa.DataType:
    """Return the Arrow type in which a file's column is read as an Iceberg type."""
    if not isinstance(iceberg_type, dict):
        if iceberg_type == "int" and file_column.type in WIDER_THAN_INT:
            # The proofs that arithmetic does not overflow rely on 32 bits.
            raise errors.SqlError(
                "091364",
                "58030",
                f"Column {file_column.name} is an int, and a data file has {file_column.type}",
            )
        if iceberg_type == "variant":
            return _group_type(file_column)
        return tabletypes.engine_type(iceberg_type, zone)
    if not _same_form(iceberg_type, file_column.type):
        raise errors.unsupported(
            f"column {file_column.name}, which a file holds as {file_column.type}"
        )
    if not _same_children(iceberg_type, file_column.type):
        raise errors.unsupported(f"column {file_column.name}, whose nested fields were renamed")
    return nested_type(iceberg_type, zone)


def _group_type(file_column: pa.Field[Any]) -> pa.DataType:
    """Return the type in which a file's group of a variant is read; raises SqlError."""
    try:
        return variant_columns.group_type(file_column.type)
    except variant_columns.UnfitColumn:
        raise errors.unsupported(
            f"column {file_column.name} of Iceberg type variant, which a file holds as"
            f" {str(file_column.type)[:TYPE_SHOWN_MAX]}"
        ) from None


TYPE_SHOWN_MAX: Final = 200


def variant_kernel(group: pa.DataType, *, packs: bool) -> str:
    """Return the name of the kernel that reads a file's group of a variant.

    packs: as packed values, else as canonical texts.
    """
    return f"_v_{'packed' if packs else 'of'}_group_{variant_columns.encoded(group)}"


WIDER_THAN_INT: Final = frozenset({pa.int64(), pa.uint32(), pa.uint64()})
"""Types of whole numbers that hold more than Iceberg's int."""


def _is_list(arrow_type: pa.DataType) -> bool:
    """Return whether an Arrow type is a list, in any of Arrow's list layouts."""
    return (
        pa.types.is_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
        or pa.types.is_list_view(arrow_type)
        or pa.types.is_large_list_view(arrow_type)
    )


def _same_form(iceberg_type: Any, arrow_type: Any) -> bool:
    """Return whether a file's column has the same nesting as the table's."""
    if not isinstance(iceberg_type, dict):
        return not pa.types.is_nested(arrow_type)
    if iceberg_type["type"] == "struct" and pa.types.is_struct(arrow_type):
        by_id = {field["id"]: field for field in iceberg_type["fields"]}
        return all(
            _same_form(by_id[_field_id(child)]["type"], child.type)
            for child in (arrow_type.field(index) for index in range(arrow_type.num_fields))
            if _field_id(child) in by_id
        )
    if iceberg_type["type"] == "list" and _is_list(arrow_type):
        return _same_form(iceberg_type["element"], arrow_type.value_type)
    if iceberg_type["type"] == "map" and pa.types.is_map(arrow_type):
        return _same_form(iceberg_type["key"], arrow_type.key_type) and _same_form(
            iceberg_type["value"], arrow_type.item_type
        )
    return False


def _same_children(iceberg_type: Any, arrow_type: Any) -> bool:
    """Return whether a file's nested fields have the table's names, matched by field id.

    The column has the nesting of iceberg_type (`_same_form`).
    """
    if not isinstance(iceberg_type, dict):
        return True
    if iceberg_type["type"] == "struct":
        by_id = {field["id"]: field for field in iceberg_type["fields"]}
        for index in range(arrow_type.num_fields):
            child = arrow_type.field(index)
            field = by_id.get(_field_id(child))
            if field is None:
                if any(other["name"] == child.name for other in iceberg_type["fields"]):
                    return False
            elif field["name"] != child.name or not _same_children(field["type"], child.type):
                return False
        return True
    if iceberg_type["type"] == "list":
        return _same_children(iceberg_type["element"], arrow_type.value_type)
    return _same_children(iceberg_type["key"], arrow_type.key_type) and _same_children(
        iceberg_type["value"], arrow_type.item_type
    )


def absent_nested(field: Mapping[str, Any], read: pa.Schema) -> str:
    """Return an unused column name, for a nested column that the file lacks."""
    if field.get("initial-default") is not None:
        raise errors.unsupported(f"initial default of the nested column {field['name']}")
    name = hidden_name(field["id"])
    while name in read.names:
        name += "_"
    return name


def absent(
    field: Mapping[str, Any], constants: Mapping[int, values.Value | None], zone: str
) -> str:
    """Return the expression for a column of a primitive type that a file lacks."""
    iceberg_type = field["type"]
    value: values.Value | None = None
    if field["id"] in constants:
        value = constants[field["id"]]
    elif field.get("initial-default") is not None:
        value = values.from_json(iceberg_type, field["initial-default"])
    if value is None:
        return f"arrow_cast(NULL, '{_arrow_text(tabletypes.engine_type(iceberg_type, zone))}')"
    return tabletypes.literal(iceberg_type, value, zone)


def _arrow_text(arrow_type: pa.DataType) -> str:
    """Return an Arrow type in the engine's spelling."""
    if pa.types.is_timestamp(arrow_type):
        unit = "Nanosecond" if arrow_type.unit == "ns" else "Microsecond"
        zone = "None" if arrow_type.tz is None else f'Some("{arrow_type.tz}")'
        return f"Timestamp({unit}, {zone})"
    if pa.types.is_decimal(arrow_type):
        return f"Decimal128({arrow_type.precision}, {arrow_type.scale})"
    return ARROW_TEXTS[str(arrow_type)]


ARROW_TEXTS = {
    "bool": "Boolean",
    "int64": "Int64",
    "double": "Float64",
    "date32[day]": "Date32",
    "time64[us]": "Time64(Microsecond)",
    "string_view": "Utf8View",
    "binary": "Binary",
}


def hidden_name(field_id: int) -> str:
    """Return a name for a column that only the query's own text speaks of."""
    return f"__field_{field_id}"


def columns_by_id(footer: pa.Schema, properties: Mapping[str, str]) -> dict[int, pa.Field[Any]]:
    """Return a file's columns by field id. A file without ids gets them from the name mapping."""
    by_id = {field_id: field for field in footer if (field_id := _field_id(field)) is not None}
    if by_id or not len(footer):
        return by_id
    mapping = _name_mapping(properties)
    if not mapping:
        raise errors.unsupported("data files without field ids, and no name mapping")
    return {mapping[field.name]: field for field in footer if field.name in mapping}


def _name_mapping(properties: Mapping[str, str]) -> dict[str, int]:
    try:
        listed = json.loads(properties.get(NAME_MAPPING, "[]"))
        return {
            str(name): int(item["field-id"])
            for item in listed
            if "field-id" in item
            for name in item.get("names", ())
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def _field_id(field: pa.Field[Any]) -> int | None:
    stated = (field.metadata or {}).get(tabletypes.FIELD_ID.encode())
    return None if stated is None else int(stated)


def unique(fields: Sequence[pa.Field[Any]]) -> list[pa.Field[Any]]:
    """Return the fields, of several with one name the last."""
    return list({field.name: field for field in fields}.values())


def partition_constants(
    table: pinned.PinnedTable, file: manifests.DataFile
) -> dict[int, values.Value | None]:
    """Return the values of the columns that a file's partition fixes, by field id."""
    spec = table.loaded.metadata.spec(file.spec_id)
    if spec is None:
        return {}
    return {
        field["source-id"]: value
        for field, value in zip(spec["fields"], file.partition, strict=False)
        if transforms.parse(field["transform"]).name == "identity"
    }
