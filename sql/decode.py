"""rule: the rows of a stored result, read back from the cells in which it was encoded.

`sql.encode` wrote them. A VARIANT is read from the JSON that the client got: its dates are texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute

from sql import encode, intervals, outcomes, rowtypes, variants, zoned_kernels
from sql.dialect import sqltypes

pc: Any = pyarrow.compute

MICROSECONDS_DIGITS = 6


def sql_type(column: outcomes.Column) -> sqltypes.SqlType:
    """Return the type of a result's column as a query over the result has it."""
    match column.type:
        case "fixed":
            precision, scale = rowtypes.precision_of(column), rowtypes.scale_of(column)
            if scale == 0 and precision < INT64_DIGITS:
                most = 10**precision - 1
                return sqltypes.integer(precision, -most, most)
            return sqltypes.number(precision, scale)
        case "text" | "binary":
            return sqltypes.SqlType(name=column.type, length=column.length)
        case "time":
            return sqltypes.TIME
        case "timestamp_ntz" | "timestamp_ltz":
            digits = 9 if _is_fine(column) else MICROSECONDS_DIGITS
            return sqltypes.SqlType(name=column.type, scale=digits)
        case "timestamp_tz":
            return sqltypes.TIMESTAMP_TZ
        case "interval_year_month" | "interval_day_time":
            return sqltypes.interval(column.type, column.scale or 0, column.precision or 0)
    return sqltypes.SqlType(name=column.type)


INT64_DIGITS = 19


def _is_fine(column: outcomes.Column) -> bool:
    """Whether a timestamp column has nanoseconds."""
    return rowtypes.scale_of(column) > MICROSECONDS_DIGITS


def arrow_type(column: outcomes.Column, zone: str) -> pa.DataType:
    """Return the engine's Arrow type for a result's column in a session's time zone."""
    kept = sql_type(column)
    match kept.name:
        case "fixed":
            return pa.decimal128(kept.precision, kept.scale) if kept.wide else pa.int64()
        case "timestamp_ntz":
            return pa.timestamp("ns" if kept.scale > MICROSECONDS_DIGITS else "us")
        case "timestamp_ltz":
            return pa.timestamp("ns" if kept.scale > MICROSECONDS_DIGITS else "us", zone)
    return ARROW_TYPES[kept.name]


ARROW_TYPES: Mapping[str, pa.DataType] = {
    "real": pa.float64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "binary": pa.binary(),
    "timestamp_tz": zoned_kernels.PACKED,
    "interval_year_month": pa.int64(),
    "interval_day_time": intervals.NANOS,
    "variant": pa.string(),
    "object": pa.string(),
    "array": pa.string(),
}


def from_arrow(
    data: bytes | memoryview, columns: Sequence[outcomes.Column], schema: pa.Schema
) -> pa.Table:
    """Return the rows of one stream that `encode.arrow_stream` wrote, in the engine's types."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        table = reader.read_all().combine_chunks()
    arrays = [
        _unwired(column, table.column(index).combine_chunks(), schema.field(index).type)
        for index, column in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _unwired(column: outcomes.Column, array: Any, target: Any) -> Any:
    match column.type:
        case "fixed":
            return _number(array, target, rowtypes.scale_of(column))
        case "time":
            nanos = pc.multiply(pc.cast(array, pa.int64()), 10 ** (9 - rowtypes.scale_of(column)))
            return pc.cast(pc.divide(nanos, 1000), target)
        case "timestamp_tz":
            epoch, fraction, shifted = array.flatten()
            micros = pc.divide(pc.cast(fraction, pa.int64()), 1000)
            micros = pc.add(pc.multiply(epoch, 1_000_000), micros)
            minutes = pc.subtract(pc.cast(shifted, pa.int64()), encode.MINUTES_PER_DAY)
            return zoned_kernels.pack(micros, minutes)
        case "timestamp_ntz" | "timestamp_ltz":
            unit = rowtypes.UNIT_DIGITS[target.unit]
            if pa.types.is_struct(array.type):
                epoch, fraction = array.flatten()
                part = pc.divide(pc.cast(fraction, pa.int64()), 10 ** (9 - unit))
                return pc.cast(pc.add(pc.multiply(epoch, 10**unit), part), target)
            return pc.cast(pc.multiply(array, 10 ** (unit - rowtypes.scale_of(column))), target)
    if column.type in sqltypes.SEMISTRUCTURED:
        texts = [None if text is None else variants.parse_json(text) for text in array.to_pylist()]
        return pa.array(texts, target)
    return pc.cast(array, target)


def _number(array: Any, target: pa.DataType, scale: int) -> Any:
    """Return unscaled integers, or decimals, as the numbers that they stand for."""
    if not pa.types.is_integer(array.type):
        return pc.cast(array, target)
    if not pa.types.is_decimal(target):
        return pc.cast(array, target)
    wide = pc.cast(array, pa.decimal128(19, 0))
    scaled = pa.Array.from_buffers(
        pa.decimal128(38, scale), len(wide), wide.buffers(), offset=wide.offset
    )
    return pc.cast(scaled, target)


def from_json(data: bytes, columns: Sequence[outcomes.Column], schema: pa.Schema) -> pa.Table:
    """Return the rows of a JSON list of rows of cells, in the engine's types."""
    rows = orjson.loads(data)
    arrays = [
        _from_cells([row[index] for row in rows], column, schema.field(index).type)
        for index, column in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _from_cells(cells: Sequence[str | None], column: outcomes.Column, target: Any) -> Any:
    if column.type in ("time", "timestamp_ntz", "timestamp_ltz"):
        digits = rowtypes.UNIT_DIGITS[target.unit]
        ticks = [None if cell is None else int(Decimal(cell).scaleb(digits)) for cell in cells]
        return pc.cast(pa.array(ticks, pa.int64()), target)
    if column.type == "timestamp_tz":
        pairs = [(None, None) if cell is None else _zoned_parts(cell) for cell in cells]
        micros = pa.array([pair[0] for pair in pairs], pa.int64())
        minutes = pa.array([pair[1] for pair in pairs], pa.int64())
        return zoned_kernels.pack(micros, minutes)
    read = CELLS[column.type]
    return pa.array([None if cell is None else read(cell) for cell in cells], target)


def _zoned_parts(cell: str) -> tuple[int, int]:
    """Return the microseconds and the offset in minutes of a JSON cell of TIMESTAMP_TZ."""
    seconds, _, shifted = cell.partition(" ")
    micros = Decimal(seconds).scaleb(MICROSECONDS_DIGITS)
    return int(micros), int(shifted) - encode.MINUTES_PER_DAY


CELLS: Mapping[str, Callable[[str], Any]] = {
    "fixed": Decimal,
    "real": float,
    "text": str,
    "boolean": lambda cell: cell == "1",
    "date": int,
    "interval_year_month": int,
    "interval_day_time": int,
    "binary": bytes.fromhex,
    **dict.fromkeys(sqltypes.SEMISTRUCTURED, variants.parse_json),
}
