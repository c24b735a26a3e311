"""rule: partition values of Arrow columns, by Iceberg's transforms.

Dates and times are computed as whole columns; buckets and truncations, whose rules are in
`catalog.transforms`, once per distinct value. NULL stays NULL in every transform. Results have the
transform's own type: int32 for bucket, year, month and hour, date32 for day, the source's type for
identity, truncate and void.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog import transforms, values
from sql import tabletypes

HOUR_MICROS = 3_600_000_000


def apply_transform(transform: str, source_type: Any, column: Any) -> Any:
    """Return the partition value of each row of an Arrow array.

    source_type: the column's Iceberg type. Raises InvalidTransform.
    """
    parsed = transforms.parse(transform)
    if not transforms.accepts(parsed, source_type):
        raise transforms.InvalidTransform(f"{transform} does not take {source_type}")
    match parsed.name:
        case "identity":
            return column
        case "void":
            return pa.nulls(len(column), column.type)
        case "year":
            return pc.cast(pc.subtract(pc.year(column), 1970), pa.int32())
        case "month":
            years = pc.multiply(pc.subtract(pc.year(column), 1970), 12)
            return pc.cast(pc.subtract(pc.add(years, pc.month(column)), 1), pa.int32())
        case "day" if pa.types.is_date32(column.type):
            return column
        case "day":
            return (
                _floor_divide(_micros(column), values.DAY_MICROS).cast(pa.int32()).cast(pa.date32())
            )
        case "hour":
            return _floor_divide(_micros(column), HOUR_MICROS).cast(pa.int32())
    return _per_value(parsed, source_type, column)


def _per_value(transform: transforms.Transform, source_type: Any, column: Any) -> Any:
    encoded = column.dictionary_encode()
    results = [
        transforms.apply(transform, source_type, value)
        for value in tabletypes.plain_list(encoded.dictionary)
    ]
    result = pa.int32() if transform.name == "bucket" else column.type
    return pa.array(results, result).take(encoded.indices)


def _micros(column: Any) -> Any:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())


def _floor_divide(column: Any, by: int) -> Any:
    # Arrow divides towards zero.
    quotient = pc.divide(column, by)
    behind = pc.less(column, pc.multiply(quotient, by))
    return pc.subtract(quotient, pc.cast(behind, pa.int64()))
