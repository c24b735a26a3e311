"""rule: the inputs beside a text, binds and session variables, for the dialect and the engine.

A single bind is a constant of the query; array binds are one relation with a row for each value.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from sql import bindings, errors, ipc, kernelforms, limits, zoned_kernels
from sql.dialect import casts, expressions, sqltypes
from sql.plan import code
from sql.plan import expressions as exprs

if TYPE_CHECKING:
    from sql import sessions

BINDS_RELATION: Final = "__binds"


def variable(value: sessions.Variable) -> exprs.Expr:
    """Return a session variable as a constant of its type."""
    sql_type = expressions.BIND_TYPES.get(value.type, sqltypes.TEXT)
    if value.text is None:
        return exprs.null(sql_type)
    if value.type == "fixed":
        return exprs.number(decimal.Decimal(value.text))
    if value.type == "real":
        return exprs.real(float(value.text))
    text = exprs.text(value.text)
    return casts.cast(text, sql_type) if value.type != "text" else text


def variable_text(value: Any) -> str | None:
    """Return a value as it is stored in a session variable; None is NULL."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case decimal.Decimal():
            return f"{value.normalize(kernelforms.DIGITS) if value else 0:f}"
    return str(value)


def bind_column(name: str, binding: bindings.Binding) -> exprs.Expr:
    """Return an array bind as a column of the relation of binds."""
    sql_type = sqltypes.TEXT
    if binding.type == "fixed":
        sql_type = _fixed_type(binding)
    elif binding.type is not None:
        sql_type = expressions.BIND_TYPES.get(binding.type, sqltypes.TEXT)
    return exprs.Expr(code=code.ColumnUse(relation=BINDS_RELATION, name=name), type=sql_type)


def bound_rows(binding_by_name: Mapping[str, bindings.Binding], zone: str) -> pa.Table:
    """Return array binds as the rows that INSERT ... VALUES reads, one for each value."""
    count = max(binding.rows for binding in binding_by_name.values() if binding.is_array)
    return pa.table(
        {name: _arrow(binding, count, zone) for name, binding in binding_by_name.items()}
    )


def read_large(document: bytes) -> dict[str, bindings.Binding]:
    """Return the binds of a request from their JSON, arrays as columns. Raises SqlError.

    Takes seconds and some hundred megabytes for what a request may bind.
    """
    try:
        raw = orjson.loads(document)
    except orjson.JSONDecodeError:
        raise errors.malformed_request("the body is not JSON") from None
    if not isinstance(raw, dict):
        raise errors.malformed_request("bindings is not an object")
    return {name: _packed(binding) for name, binding in bindings.parse(raw).items()}


def _packed(binding: bindings.Binding) -> bindings.Binding:
    if not binding.is_array:
        return binding
    scale = None
    if binding.type == "fixed":
        sql_type = _fixed_type(binding)
        scale = None if sql_type.is_integer else sql_type.scale
    table = pa.table({"": _arrow(binding, binding.rows, "UTC")})
    column = bindings.ArrayBind(rows=binding.rows, scale=scale, data=ipc.encode_rows(table))
    return bindings.Binding(type=binding.type, values=(), is_array=True, column=column)


def _arrow(binding: bindings.Binding, count: int, zone: str) -> Any:
    """Return count values of a bind as a chunked array."""
    if binding.column is not None:
        packed = ipc.read_rows(binding.column.data).column(0)
        is_instant = binding.type == "timestamp_ltz"
        return packed.cast(pa.timestamp("us", zone)) if is_instant else packed
    values = binding.values if binding.is_array else binding.values * count
    sql_type = _fixed_type(binding) if binding.type == "fixed" else None
    # Arrow holds the interpreter for as long as it converts one list.
    at_once = limits.BOUND_VALUES_AT_ONCE
    return pa.chunked_array(
        [
            _bind_array(binding, values[start : start + at_once], sql_type, zone)
            for start in range(0, max(count, 1), at_once)
        ]
    )


def _fixed_type(binding: bindings.Binding) -> sqltypes.SqlType:
    if binding.column is not None:
        scale = binding.column.scale
        return sqltypes.integer() if scale is None else _decimal_type(scale)
    is_integer, scale = True, 0
    for value in binding.values:
        if isinstance(value, decimal.Decimal):
            is_integer = False
            scale = max(scale, -int(value.as_tuple().exponent))
        elif value is not None:
            is_integer = is_integer and sqltypes.INT64_LOW <= value <= sqltypes.INT64_HIGH
    return sqltypes.integer() if is_integer else _decimal_type(min(scale, 37))


def _decimal_type(scale: int) -> sqltypes.SqlType:
    return sqltypes.number(sqltypes.PRECISION_MAX, scale)


def _bind_array(
    binding: bindings.Binding, values: Sequence[Any], sql_type: sqltypes.SqlType | None, zone: str
) -> Any:
    """Return values as an Arrow array. sql_type: of the whole bind, where it is fixed."""
    match binding.type:
        case "fixed":
            assert sql_type is not None
            if sql_type.is_integer:
                return pa.array(values, pa.int64())
            return _decimals(values, pa.decimal128(sql_type.precision, sql_type.scale))
        case "real":
            return pa.array(values, pa.float64())
        case "boolean":
            return pa.array(values, pa.bool_())
        case "date":
            return pa.array(values, pa.date32())
        case "binary":
            return pa.array(values, pa.binary())
        case "time":
            micros = [None if value is None else value // 1000 for value in values]
            return pa.array(micros, pa.int64()).cast(pa.time64("us"))
        case "timestamp_tz":
            micros = [None if value is None else value.nanos // 1000 for value in values]
            minutes = [None if value is None else value.offset_minutes for value in values]
            return zoned_kernels.pack(pa.array(micros, pa.int64()), pa.array(minutes, pa.int64()))
        case "timestamp_ntz" | "timestamp_ltz":
            micros = [None if value is None else int(value) // 1000 for value in values]
            target_zone = None if binding.type == "timestamp_ntz" else zone
            return pa.array(micros, pa.int64()).cast(pa.timestamp("us", target_zone))
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _decimals(values: Sequence[Any], arrow_type: pa.Decimal128Type) -> Any:
    exact = [None if value is None else decimal.Decimal(value) for value in values]
    try:
        return pa.array(exact, arrow_type)
    except pa.ArrowInvalid as error:
        widest = max((value for value in exact if value is not None), key=abs)
        raise errors.number_out_of_range(f"{widest:f}") from error
