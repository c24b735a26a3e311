"""rule: Iceberg's types as Snowflake's and as Arrow's, and back.

What a declared type says beyond its Iceberg type (a VARCHAR's length, NUMBER(38,0) kept as a long)
stands in one table property, by field id, so that DESCRIBE gives it back and writes enforce it.
Other engines never see it. Source: Iceberg spec, Schemas and Data Types; Appendix A, Parquet.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from catalog import datatypes, values
from sql import errors, outcomes, variant_columns, zoned_kernels
from sql.dialect import shapes, sqltypes

DECLARED = "boathouse.sql.types"
"""Table property: JSON object, field id -> declared type, where the stored type says less."""

FORM = "boathouse.sql.form"
PLAIN = "table"
TRANSIENT = "transient"
"""Table property: `table` if CREATE TABLE made it without the word ICEBERG, `transient` if with the
word TRANSIENT. SHOW says of other tables that they are Iceberg tables, as Snowflake does of those
that name their format."""

QUOTED = "boathouse.sql.quoted"
"""Table property: JSON list of the ids of the columns whose lower-case names stood in double quotes
as they were declared. SQL shows these as they are; others it shows in upper case."""

VARIANTS: Final = "boathouse.sql.variants"
"""Table property: of which type new VARIANT columns are. `variant` is Iceberg's, which a table of
format version 3 may have; `text` is a string of JSON. Without the property they are texts, unless
the table has a column of `variant` already."""

VARIANTS_FORMAT_VERSION: Final = 3

SEMISTRUCTURED: Mapping[str | None, sqltypes.SqlType] = {
    "VARIANT": sqltypes.VARIANT,
    "OBJECT": sqltypes.OBJECT,
    "ARRAY": sqltypes.ARRAY,
}
"""Declared types whose values are stored as JSON text."""

ZONED = "TIMESTAMP_TZ(6)"
"""Declared type whose values are stored as instants in UTC, their offsets in another column
(`sql.offsets`). Its declaration names no digits of a second, so that a write refuses digits below a
microsecond."""

ZONED_CUT = "TIMESTAMP_TZ(6) CUT"
"""The same, of a column whose declaration names six digits: a write cuts those below."""

ZONED_DIGITS = re.compile(r"TIMESTAMP_TZ\(([0-5])\)")
"""The same, with fewer digits."""

UNREAD: Final = frozenset({"unknown", "geometry", "geography"})
"""Iceberg types whose values SQL does not read: a query that names a column of one is refused."""

UNREAD_PARTS: Final = UNREAD | {"variant"}
"""Those that it does not read inside a nested type."""

FIELD_ID = "PARQUET:field_id"
DECLARED_FORM = re.compile(r"(VARCHAR|BINARY|NUMBER)\((\d{1,9})(?:,(\d{1,2}))?\)")
DECLARED_DIGITS = re.compile(r"(TIME|TIMESTAMP_NTZ|TIMESTAMP_LTZ)\(([0-6])\)")
EPOCH_DATE = datetime.date(1970, 1, 1)

# From Iceberg


def sql_type(iceberg_type: Any, declared: str | None = None) -> sqltypes.SqlType:
    """Return the Snowflake type of an Iceberg type; raises SqlError for one that has none."""
    name = datatypes.name_of(iceberg_type)
    interval = _declared_interval(declared, name)
    if interval is not None:
        return interval
    match name:
        case "boolean":
            return sqltypes.BOOLEAN
        case "int":
            return sqltypes.integer(10, sqltypes.INT32_LOW, sqltypes.INT32_HIGH)
        case "long":
            return sqltypes.integer(_declared_precision(declared) or 19)
        case "float" | "double":
            return sqltypes.REAL
        case "decimal":
            precision, scale = datatypes.decimal_of(iceberg_type)
            return sqltypes.number(precision, scale)
        case "date":
            return sqltypes.DATE
        case "time":
            return _with_digits(sqltypes.TIME, declared)
        case "timestamp":
            return _with_digits(sqltypes.TIMESTAMP_NTZ, declared)
        case "timestamptz" if is_zoned(declared):
            return _zoned_type(declared)
        case "timestamptz":
            return _with_digits(sqltypes.TIMESTAMP_LTZ, declared)
        case "timestamp_ns":
            return sqltypes.SqlType(name="timestamp_ntz", scale=9)
        case "timestamptz_ns":
            return sqltypes.SqlType(name="timestamp_ltz", scale=9)
        case "variant":
            return sqltypes.PACKED_VARIANT
        case _ if name in UNREAD:
            return sqltypes.SqlType(name="variant", is_nested=True)
        case "string" if declared in SEMISTRUCTURED:
            return SEMISTRUCTURED[declared]
        case "string":
            return sqltypes.text(_declared_length("VARCHAR", declared))
        case "uuid":
            return sqltypes.SqlType(name="binary", length=16)
        case "fixed":
            return sqltypes.SqlType(name="binary", length=datatypes.fixed_length(iceberg_type))
        case "binary":
            return sqltypes.SqlType(name="binary", length=_declared_length("BINARY", declared))
        case "struct":
            members = {field["name"]: sql_type(field["type"]) for field in iceberg_type["fields"]}
            return sqltypes.structured("struct", members)
        case "list":
            return sqltypes.structured("list", {"element": sql_type(iceberg_type["element"])})
        case "map":
            pair = {word: sql_type(iceberg_type[word]) for word in ("key", "value")}
            return sqltypes.structured("map", pair)
    raise errors.unsupported(f"Iceberg type {name}")


def _with_digits(column_type: sqltypes.SqlType, declared: str | None) -> sqltypes.SqlType:
    """Return a type with the digits of a second that a column was declared with."""
    match = DECLARED_DIGITS.fullmatch(declared or "")
    if match is None or match[1].lower() != column_type.name:
        return column_type
    return sqltypes.declared_digits(column_type, int(match[2]))


def is_zoned(declared: str | None) -> bool:
    """Say whether a declared type is TIMESTAMP_TZ."""
    return declared in (ZONED, ZONED_CUT) or ZONED_DIGITS.fullmatch(declared or "") is not None


def _zoned_type(declared: str | None) -> sqltypes.SqlType:
    """Return the TIMESTAMP_TZ of a declared type."""
    match = ZONED_DIGITS.fullmatch(declared or "")
    if match is not None:
        return sqltypes.declared_digits(sqltypes.TIMESTAMP_TZ, int(match[1]))
    if declared == ZONED_CUT:
        return sqltypes.declared_digits(sqltypes.TIMESTAMP_TZ, sqltypes.MICROSECOND_DIGITS)
    return sqltypes.TIMESTAMP_TZ


def _declared_interval(declared: str | None, stored: str) -> sqltypes.SqlType | None:
    """Return the INTERVAL type that a column was declared with. stored: its Iceberg type's name."""
    interval = sqltypes.interval_of(declared or "")
    if interval is None or datatypes.name_of(iceberg_type(interval)) != stored:
        return None
    return interval


def _declared_length(word: str, declared: str | None) -> int | None:
    match = DECLARED_FORM.fullmatch(declared or "")
    return int(match[2]) if match is not None and match[1] == word else None


def _declared_precision(declared: str | None) -> int | None:
    match = DECLARED_FORM.fullmatch(declared or "")
    return int(match[2]) if match is not None and match[1] == "NUMBER" else None


def declared_types(properties: Mapping[str, str]) -> dict[int, str]:
    """Return the declared types that a table's properties remember; none when they are damaged."""
    try:
        declared = json.loads(properties.get(DECLARED, "{}"))
        return {int(field_id): str(text) for field_id, text in declared.items()}
    except (ValueError, AttributeError):
        return {}


def encoded_types(declared: Mapping[int, str]) -> str | None:
    """Return the property of these declared types; None without any."""
    if not declared:
        return None
    return json.dumps({str(key): text for key, text in declared.items()}, separators=(",", ":"))


def quoted_ids(properties: Mapping[str, str]) -> frozenset[int]:
    """Return the ids of the columns with lower-case names in quotes; none if damaged."""
    try:
        return frozenset(int(field_id) for field_id in json.loads(properties.get(QUOTED, "[]")))
    except (ValueError, TypeError):
        return frozenset()


def quoted_text(field_ids: Iterable[int]) -> str | None:
    """Return the property of the columns with these ids; None without any."""
    listed = sorted(field_ids)
    return json.dumps(listed, separators=(",", ":")) if listed else None


def zoned_ids(fields: Iterable[Mapping[str, Any]], properties: Mapping[str, str]) -> frozenset[int]:
    """Return the ids of those fields of a table that are columns of type TIMESTAMP_TZ.

    Another engine that replaces the table may keep the property and give a column another type.
    """
    declared = declared_types(properties)
    return frozenset(
        field["id"]
        for field in fields
        if field["type"] == "timestamptz" and is_zoned(declared.get(field["id"]))
    )


def zoned_text(expression: str, minutes: str = "") -> str:
    """Return the engine's text of an instant as a value of TIMESTAMP_TZ.

    minutes: the text of its offset; "" for 0. One that is NULL, or of a day or more, is 0. See
    `sql.zoned_kernels` for the form.
    """
    micros = f"arrow_cast(arrow_cast({expression}, 'Int64'), 'Decimal128(38, 0)')"
    scaled = f"{micros} * {zoned_kernels.FACTOR} + {zoned_kernels.MINUTES_OF_DAY}"
    if minutes:
        within = f"{minutes} BETWEEN {1 - zoned_kernels.MINUTES_OF_DAY}"
        within += f" AND {zoned_kernels.MINUTES_OF_DAY - 1}"
        scaled += f" + CASE WHEN {within} THEN {minutes} ELSE 0 END"
    return f"arrow_cast({scaled}, 'Decimal128(38, 0)')"


def shape_columns(
    fields: Iterable[Mapping[str, Any]], properties: Mapping[str, str]
) -> tuple[shapes.ShapeColumn, ...]:
    """Return a table's columns as the binder sees them. fields: those that SQL shows."""
    declared, quoted = declared_types(properties), quoted_ids(properties)
    return tuple(
        shapes.ShapeColumn(
            name=field["name"],
            is_quoted=field["id"] in quoted,
            type=sql_type(field["type"], declared.get(field["id"])),
            nullable=not field["required"],
            unread=unread(field["type"]),
        )
        for field in fields
    )


def is_computable(iceberg_type: Any) -> bool:
    """Say whether SQL can compute with values of an Iceberg type, not just show them."""
    return not isinstance(iceberg_type, dict) and not unread(iceberg_type)


def unread(iceberg_type: Any) -> str:
    """Return the name of the type for which SQL does not read a column; "" if SQL reads it."""
    name = datatypes.name_of(iceberg_type)
    match name:
        case "struct":
            inner = [field["type"] for field in iceberg_type["fields"]]
        case "list":
            inner = [iceberg_type["element"]]
        case "map":
            inner = [iceberg_type["key"], iceberg_type["value"]]
        case _:
            return name if name in UNREAD else ""
    return next(filter(None, map(_unread_part, inner)), "")


def _unread_part(iceberg_type: Any) -> str:
    name = datatypes.name_of(iceberg_type)
    return name if name in UNREAD_PARTS else unread(iceberg_type)


# To Iceberg


def packs_variants(
    properties: Mapping[str, str], fields: Iterable[Mapping[str, Any]], format_version: int
) -> bool:
    """Return whether new VARIANT columns of a table are of Iceberg's `variant`."""
    if format_version < VARIANTS_FORMAT_VERSION:
        return False
    said = properties.get(VARIANTS)
    if said is None:
        return any(field["type"] == "variant" for field in fields)
    return said == "variant"


def new_column_type(column_type: sqltypes.SqlType, *, packs: bool) -> sqltypes.SqlType:
    """Return a new column's type as the table stores it. packs: as `packs_variants` says."""
    return sqltypes.PACKED_VARIANT if packs and column_type == sqltypes.VARIANT else column_type


def iceberg_type(column_type: sqltypes.SqlType) -> str:
    """Return the Iceberg type under which values of a Snowflake type are stored."""
    match column_type.name:
        case "variant" if column_type.is_packed:
            return "variant"
        case "fixed" if column_type.is_integer:
            return "long"
        case "fixed":
            return f"decimal({column_type.precision},{column_type.scale})"
        case "real":
            return "double"
        case "text" | "null":
            return "string"
        case "variant" | "object" | "array" if column_type.is_variant:
            return "string"
        case "boolean" | "date" | "time" | "binary":
            return column_type.name
        case "timestamp_ntz":
            return "timestamp"
        case "timestamp_ltz" | "timestamp_tz":
            return "timestamptz"
        case "interval_year_month":
            return "long"
        case "interval_day_time":
            return "decimal(38,0)"
    raise errors.unsupported(f"a column of type {sqltypes.shown(column_type)}")


def stored_form(column_type: sqltypes.SqlType, new_id: Callable[[], int]) -> Any:
    """Return the Iceberg type of a column that may be structured. new_id: of each field in it."""
    structure = column_type.structure
    if structure is None:
        return iceberg_type(column_type)
    ids = {name: new_id() for name, _ in structure.members}
    forms = {name: stored_form(member, new_id) for name, member in structure.members}
    if structure.word == "struct":
        fields = [
            {"id": field_id, "name": name, "required": False, "type": forms[name]}
            for name, field_id in ids.items()
        ]
        return {"type": "struct", "fields": fields}
    last = "element" if structure.word == "list" else "value"
    form: dict[str, Any] = {"type": structure.word, f"{last}-required": False}
    for name, field_id in ids.items():
        form |= {f"{name}-id": field_id, name: forms[name]}
    return form


def is_assignable(iceberg_type: Any) -> bool:
    """Say whether SQL writes values of an Iceberg type.

    Of nested ones those alone whose parts may all be NULL, and lose nothing when they are written.
    """
    if not isinstance(iceberg_type, dict):
        return iceberg_type != "uuid" and not unread(iceberg_type)
    match iceberg_type["type"]:
        case "struct":
            fields = iceberg_type["fields"]
            inner = [field["type"] for field in fields]
            requires = any(field["required"] for field in fields)
        case "list":
            inner, requires = [iceberg_type["element"]], iceberg_type["element-required"]
        case _:
            inner = [iceberg_type["key"], iceberg_type["value"]]
            requires = iceberg_type["value-required"]
    return not requires and all(
        is_assignable(each) and datatypes.name_of(each) not in ("float", "fixed", "variant")
        for each in inner
    )


def declared_text(column_type: sqltypes.SqlType) -> str | None:
    """Return what must be remembered of a declared type, if its Iceberg type does not say it."""
    if column_type.name in ("null", "interval") or column_type.structure is not None:
        return None
    shown = sqltypes.shown(column_type)
    if column_type.name == "timestamp_tz":
        return ZONED_CUT if column_type.digits == sqltypes.MICROSECOND_DIGITS else shown
    if column_type.name == "fixed" and column_type.is_integer:
        return f"NUMBER({sqltypes.PRECISION_MAX},0)"
    if column_type.name in sqltypes.CLOCKS:
        return shown if sqltypes.names_digits(column_type) else None
    return None if shown == sqltypes.shown(sql_type(iceberg_type(column_type))) else shown


# Arrow


def engine_type(iceberg_type: Any, zone: str) -> pa.DataType:
    """Return the Arrow type in which the engine reads values of a primitive Iceberg type."""
    match datatypes.name_of(iceberg_type):
        case "boolean":
            return pa.bool_()
        case "int" | "long":
            return pa.int64()
        case "float" | "double":
            return pa.float64()
        case "decimal":
            return pa.decimal128(*datatypes.decimal_of(iceberg_type))
        case "date":
            return pa.date32()
        case "time":
            return pa.time64("us")
        case "timestamp":
            return pa.timestamp("us")
        case "timestamptz":
            return pa.timestamp("us", zone)
        case "timestamp_ns":
            return pa.timestamp("ns")
        case "timestamptz_ns":
            return pa.timestamp("ns", zone)
        case "string" | "variant":
            return pa.string_view()
        case "uuid" | "fixed" | "binary":
            return pa.binary()
    raise errors.unsupported(f"Iceberg type {iceberg_type}")


def stored_type(iceberg_type: Any) -> pa.DataType:
    """Return the Arrow type in which values of an Iceberg type are written.

    Nested fields have their ids; none but the keys of maps is required, because Arrow casts no
    optional field to a required one.
    """
    match datatypes.name_of(iceberg_type):
        case "struct":
            return pa.struct(
                [
                    _stored_field(field["name"], field["id"], field["type"])
                    for field in iceberg_type["fields"]
                ]
            )
        case "list":
            element_id = iceberg_type["element-id"]
            return pa.list_(_stored_field("element", element_id, iceberg_type["element"]))
        case "map":
            key = _stored_field("key", iceberg_type["key-id"], iceberg_type["key"])
            value = _stored_field("value", iceberg_type["value-id"], iceberg_type["value"])
            of_map: pa.DataType = pa.map_(key.with_nullable(False), value)  # type: ignore[call-overload]  # stubs want types
            return of_map
        case "int":
            return pa.int32()
        case "float":
            return pa.float32()
        case "timestamptz":
            return pa.timestamp("us", "UTC")
        case "string":
            return pa.string()
        case "variant":
            return variant_columns.STORED
        case "uuid":
            return pa.uuid()
        case "fixed":
            return pa.binary(datatypes.fixed_length(iceberg_type))
    return engine_type(iceberg_type, "UTC")


def _stored_field(name: str, field_id: int, iceberg_type: Any) -> pa.Field[Any]:
    return pa.field(name, stored_type(iceberg_type), metadata={FIELD_ID: str(field_id)})


def write_schema(fields: list[Mapping[str, Any]]) -> pa.Schema:
    """Return the Arrow schema of files with these Iceberg fields, ids as metadata."""
    return pa.schema(
        [
            pa.field(
                field["name"],
                stored_type(field["type"]),
                nullable=not field["required"],
                metadata={FIELD_ID: str(field["id"])},
            )
            for field in fields
        ]
    )


# Values


def literal(iceberg_type: Any, value: values.Value, zone: str) -> str:
    """Return a plain value (see `catalog.values`) of a primitive type in the engine's SQL."""
    target = engine_type(iceberg_type, zone)
    if pa.types.is_boolean(target):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    text = value if isinstance(value, str) else str(value)
    quoted = "'" + text.replace("'", "''") + "'"
    if pa.types.is_string_view(target):
        return quoted
    if pa.types.is_decimal(target):
        return f"arrow_cast({quoted}, 'Decimal128({target.precision}, {target.scale})')"
    if pa.types.is_float64(target):
        return f"arrow_cast({quoted}, 'Float64')"
    assert isinstance(value, int)
    if pa.types.is_date32(target):
        return f"arrow_cast(arrow_cast({value}, 'Int32'), 'Date32')"
    if pa.types.is_time64(target):
        return f"arrow_cast(arrow_cast({value}, 'Int64'), 'Time64(Microsecond)')"
    if pa.types.is_timestamp(target):
        unit = "Nanosecond" if target.unit == "ns" else "Microsecond"
        if target.tz is None:
            return f"arrow_cast(arrow_cast({value}, 'Int64'), 'Timestamp({unit}, None)')"
        instant = f"arrow_cast(arrow_cast({value}, 'Int64'), 'Timestamp({unit}, Some(\"UTC\"))')"
        return f"arrow_cast({instant}, 'Timestamp({unit}, Some(\"{target.tz}\"))')"
    return f"arrow_cast({value}, 'Int64')"


def plain_value(iceberg_type: Any, value: Any) -> values.Value | None:
    """Return a Python value of a condition as `catalog.values` holds the type; None if it cannot.

    iceberg_type: the column's.
    """
    match datatypes.name_of(iceberg_type):
        case "int" | "long" if isinstance(value, int | decimal.Decimal):
            return int(value) if value == int(value) else None
        case "decimal" if isinstance(value, int | decimal.Decimal):
            _, scale = datatypes.decimal_of(iceberg_type)
            number = decimal.Decimal(value)
            exact = number.as_tuple().exponent
            return number if isinstance(exact, int) and -exact <= scale else None
        case "float" | "double" if isinstance(value, float):
            return value
        case "string" if isinstance(value, str):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, datetime.date):
            return (value - EPOCH_DATE).days
        case "timestamp" | "timestamptz" if isinstance(value, datetime.datetime):
            aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            return _micros(aware)
    return None


def _micros(moment: datetime.datetime) -> int:
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def plain_list(array: Any) -> list[Any]:
    """Return an Arrow array's values as `catalog.values` holds them."""
    arrow_type = array.type
    if pa.types.is_date32(arrow_type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(arrow_type) or pa.types.is_time64(arrow_type):
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    return values


def result_type(column: outcomes.Column, arrow_type: pa.DataType) -> outcomes.Column:
    """Return column as its Arrow type makes it, where the binder and the engine differ in scale."""
    if (
        column.type == "fixed"
        and pa.types.is_decimal(arrow_type)
        and arrow_type.scale != column.scale
    ):
        return outcomes.Column(
            name=column.name,
            type="fixed",
            nullable=column.nullable,
            precision=min(arrow_type.precision, sqltypes.PRECISION_MAX),
            scale=arrow_type.scale,
            database=column.database,
            schema=column.schema,
            table=column.table,
        )
    return column
