"""rule: the row of a SELECT of constants, with the engine's types.

Drivers and BI tools often send `select 1` and `select current_version()`. The binder knows these
values, so no engine is needed; the Arrow types are those of the engine. A value that does not fit
its type is left to the engine, which raises its fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sql.dialect import sqltypes


def row(
    names: Sequence[str], types: Sequence[sqltypes.SqlType], values: Sequence[Any], *, zone: str
) -> pa.RecordBatch | None:
    """Return the row, or None if only the engine can compute it. zone: the session's."""
    arrays = []
    for sql_type, value in zip(types, values, strict=True):
        arrow = _arrow_type(sql_type, zone)
        if arrow is None:
            return None
        try:
            arrays.append(pa.array([value], arrow))
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return None
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _arrow_type(sql_type: sqltypes.SqlType, zone: str) -> pa.DataType | None:
    match sql_type.name:
        case "fixed":
            return (
                pa.decimal128(sql_type.precision, sql_type.scale) if sql_type.wide else pa.int64()
            )
        case "real":
            return pa.float64()
        case "text" | "null":
            return pa.string()
        case "boolean":
            return pa.bool_()
        case "date":
            return pa.date32()
        case "time" if sql_type.scale <= 6:
            return pa.time64("us")
        case "timestamp_ntz" if sql_type.scale <= 6:
            return pa.timestamp("us")
        case "timestamp_ltz" if sql_type.scale <= 6:
            return pa.timestamp("us", zone)
        case "binary":
            return pa.binary()
    return None
