"""rule: Arrow forms that the wire's encoder takes, from those that an engine computes with.

Views become plain strings (a view batch drags its whole buffers along), 256-bit decimals become
128-bit ones, durations become integers of their unit, and nested values become JSON text, keys
sorted, as VARIANT, OBJECT and ARRAY cells are.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return schema as `plain` makes batches; names and order stay."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return batch in the types of plain_schema's answer."""
    arrays = [
        array if array.type == field.type else _plain_array(array, field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind) or pa.types.is_nested(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_decimal256(kind):
        return pa.decimal128(38, min(kind.scale, 37))
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_duration(kind):
        return pa.int64()
    return kind


def _plain_array(array: Any, kind: pa.DataType) -> Any:
    if pa.types.is_nested(array.type):
        return pa.array([_json(value) for value in array.to_pylist()], pa.string())
    return pc.cast(array, kind)


def _json(value: Any) -> str | None:
    if value is None:
        return None
    return json.dumps(value, default=_json_scalar, sort_keys=True, separators=(",", ":"))


def _json_scalar(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return base64.b16encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
