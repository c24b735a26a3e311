"""rule: the one row of a SELECT whose items are all constants, as the engine would give it.

Drivers and BI tools ask for `select 1` and `select current_version()` all the time. What the binder
knows the value of already needs no engine; the Arrow types are those that the engine's own answer
has. A value that does not fit its type is left to the engine, whose fault it then is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sql.dialect import sqltypes


def row(
    names: Sequence[str], types: Sequence[sqltypes.SqlType], values: Sequence[Any], *, zone: str
) -> pa.RecordBatch | None:
    """Return the row, or None where only the engine can tell. zone: the session's."""
    arrays = []
    for kind, value in zip(types, values, strict=True):
        arrow = _arrow_type(kind, zone)
        if arrow is None:
            return None
        try:
            arrays.append(pa.array([value], arrow))
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return None
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _arrow_type(kind: sqltypes.SqlType, zone: str) -> pa.DataType | None:
    match kind.kind:
        case "fixed":
            return pa.decimal128(kind.precision, kind.scale) if kind.wide else pa.int64()
        case "real":
            return pa.float64()
        case "text" | "null":
            return pa.string()
        case "boolean":
            return pa.bool_()
        case "date":
            return pa.date32()
        case "time" if kind.scale <= 6:
            return pa.time64("us")
        case "timestamp_ntz" if kind.scale <= 6:
            return pa.timestamp("us")
        case "timestamp_ltz" if kind.scale <= 6:
            return pa.timestamp("us", zone)
        case "binary":
            return pa.binary()
    return None
