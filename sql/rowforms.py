"""rule: converts an engine's Arrow types to those that the encoder accepts.

Views become plain strings (a view batch keeps its whole buffers alive), 256-bit decimals become
128-bit ones, durations become integers of their unit, and nested values become JSON text with
sorted keys, as in VARIANT, OBJECT and ARRAY cells. A map is an object with its keys as names, as
in Snowflake.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import math
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sql import kernelforms, variants


def plain_schema(schema: pa.Schema, *, keeps_nested: bool = False) -> pa.Schema:
    """Return schema as `plain` makes batches; names and order stay.

    keeps_nested: nested values stay nested, with plain strings in them.
    """
    return pa.schema(
        [pa.field(field.name, _plain_type(field.type, keeps_nested)) for field in schema]
    )


def plain(
    batch: pa.RecordBatch,
    schema: pa.Schema,
    variant_columns: Sequence[int] = (),
    *,
    indent: int = variants.INDENT,
) -> pa.RecordBatch:
    """Return batch in the types of plain_schema's answer.

    variant_columns: indexes of columns of canonical text (`sql.variants`). indent: of their values.
    """
    arrays = [
        array if array.type == field.type else _plain_array(array, field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    show = functools.partial(variants.shown, indent=indent)
    for index in variant_columns:
        arrays[index] = kernelforms.per_value(arrays[index], show, pa.string(), lenient=False)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_texts(arrow_type: pa.DataType, text: pa.DataType) -> pa.DataType:
    """Return a type, nested or not, with this one as the type of each text in it."""
    form: Any = arrow_type
    if pa.types.is_string(arrow_type) or pa.types.is_string_view(arrow_type):
        return text
    if pa.types.is_struct(arrow_type):
        return pa.struct([_field_with_texts(field, text) for field in form])
    if pa.types.is_map(arrow_type):
        pair = (form.key_field, form.item_field)
        return pa.map_(*(_field_with_texts(field, text) for field in pair))
    if pa.types.is_list(arrow_type):
        return pa.list_(_field_with_texts(form.value_field, text))
    return arrow_type


def _field_with_texts(field: Any, text: pa.DataType) -> Any:
    return field.with_type(with_texts(field.type, text))


def _plain_type(arrow_type: pa.DataType, keeps_nested: bool) -> pa.DataType:
    if keeps_nested and pa.types.is_nested(arrow_type):
        return with_texts(arrow_type, pa.string())
    if (
        pa.types.is_string_view(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_nested(arrow_type)
    ):
        return pa.string()
    if pa.types.is_binary_view(arrow_type) or pa.types.is_large_binary(arrow_type):
        return pa.binary()
    if pa.types.is_decimal256(arrow_type):
        return pa.decimal128(38, min(arrow_type.scale, 37))
    if pa.types.is_dictionary(arrow_type):
        return _plain_type(arrow_type.value_type, keeps_nested)
    if pa.types.is_duration(arrow_type):
        return pa.int64()
    return arrow_type


def _plain_array(array: Any, arrow_type: pa.DataType) -> Any:
    if pa.types.is_dictionary(array.type) and pa.types.is_nested(array.type.value_type):
        array = array.dictionary_decode()
    if pa.types.is_nested(array.type) and not pa.types.is_nested(arrow_type):
        form = array.type
        return pa.array([_json(form, value) for value in array.to_pylist()], pa.string())
    return pc.cast(array, arrow_type)


def _json(form: pa.DataType, value: Any) -> str | None:
    if value is None:
        return None
    return orjson.dumps(_json_value(form, value), option=JSON).decode()


JSON = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME


def _json_value(form: Any, value: Any) -> Any:
    """Return a value of an Arrow type as what the JSON encoder takes."""
    if value is None:
        return None
    if pa.types.is_struct(form):
        return {field.name: _json_value(field.type, value[field.name]) for field in form}
    if pa.types.is_map(form):
        return {_json_name(key): _json_value(form.item_type, item) for key, item in value}
    if pa.types.is_dictionary(form):
        return _json_value(form.value_type, value)
    if pa.types.is_nested(form):
        listed: Any = form
        return [_json_value(listed.value_type, item) for item in value]
    return _json_scalar(value)


def _json_name(key: Any) -> str:
    """Return a map's key as the name of an object's member."""
    scalar = _json_scalar(key)
    return scalar if isinstance(scalar, str) else orjson.dumps(scalar).decode()


def _json_scalar(value: Any) -> Any:
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else orjson.Fragment(_NOT_FINITE[str(value)])
    if isinstance(value, decimal.Decimal):
        digits = format(value, "f")
        return orjson.Fragment(digits.rstrip("0").rstrip(".") if "." in digits else digits)
    if isinstance(value, bytes):
        return base64.b16encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""As JSON's readers of these drivers take what JSON has no word for."""
