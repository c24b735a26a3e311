"""rule: partition values of Arrow columns, by Iceberg's transforms.

Source: Iceberg spec, Partition Transforms and Appendix B (32-bit hash). NULL stays NULL in every
transform. Results have the transform's own type: int32 for bucket, year, month and hour, date32 for
day, the source's type for identity and truncate.
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

import mmh3
import pyarrow as pa
import pyarrow.compute as pc

PARAMETER = re.compile(r"(bucket|truncate)\[(\d+)\]")


def apply_transform(transform: str, column: pa.Array) -> pa.Array:
    """Return the partition value of each row; raises ValueError for an unknown transform."""
    match = PARAMETER.fullmatch(transform)
    if match is not None:
        width = int(match.group(2))
        return _bucket(column, width) if match.group(1) == "bucket" else _truncate(column, width)
    match transform:
        case "identity":
            return column
        case "void":
            return pa.nulls(len(column), column.type)
        case "year":
            return pc.cast(pc.subtract(pc.year(column), 1970), pa.int32())
        case "month":
            months = pc.add(pc.multiply(pc.subtract(pc.year(column), 1970), 12), pc.month(column))
            return pc.cast(pc.subtract(months, 1), pa.int32())
        case "day":
            return pc.cast(_days(column), pa.date32())
        case "hour":
            micros = pc.cast(_instants(column), pa.int64())
            return pc.cast(_floor_divide(micros, 3_600_000_000), pa.int32())
    raise ValueError(f"unknown partition transform {transform}")


def bucket_of(value: Any, buckets: int) -> int:
    """Return the bucket of one value: int (also date and timestamp units), str, bytes, Decimal."""
    match value:
        case bool():
            raise ValueError("booleans have no bucket")
        case int():
            data = value.to_bytes(8, "little", signed=True)
        case str():
            data = value.encode()
        case bytes():
            data = value
        case decimal.Decimal():
            unscaled = int(value.scaleb(-int(value.as_tuple().exponent)))
            data = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
        case _:
            raise ValueError(f"no bucket for {type(value).__name__}")
    return (mmh3.hash(data) & 0x7FFFFFFF) % buckets


def _bucket(column: pa.Array, buckets: int) -> pa.Array:
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        column = column.cast(pa.int64())
    encoded = column.dictionary_encode()
    found = [
        None if value is None else bucket_of(value, buckets)
        for value in encoded.dictionary.to_pylist()
    ]
    return pa.array(found, pa.int32()).take(encoded.indices)


def _truncate(column: pa.Array, width: int) -> pa.Array:
    kind = column.type
    if pa.types.is_integer(kind):
        remainder = pc.subtract(column, pc.multiply(_floor_divide(column, width), width))
        return pc.cast(pc.subtract(column, remainder), kind)
    if pa.types.is_decimal(kind):
        encoded = column.dictionary_encode()
        found = [_truncate_decimal(value, width) for value in encoded.dictionary.to_pylist()]
        return pa.array(found, kind).take(encoded.indices)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.binary_slice(column, 0, width)
    raise ValueError(f"truncate does not take {kind}")


def _truncate_decimal(value: decimal.Decimal | None, width: int) -> decimal.Decimal | None:
    if value is None:
        return None
    exponent = int(value.as_tuple().exponent)
    unscaled = int(value.scaleb(-exponent))
    return decimal.Decimal(unscaled - unscaled % width).scaleb(exponent)


def _floor_divide(column: pa.Array, by: int) -> pa.Array:
    # Arrow divides towards zero.
    quotient = pc.divide(column, by)
    behind = pc.less(column, pc.multiply(quotient, by))
    return pc.subtract(quotient, pc.cast(behind, quotient.type))


def _instants(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    raise ValueError(f"hour does not take {column.type}")


def _days(column: pa.Array) -> pa.Array:
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    micros = pc.cast(_instants(column), pa.int64())
    return pc.cast(_floor_divide(micros, 86_400_000_000), pa.int32())


def day_of(value: datetime.date) -> int:
    """Return days since the epoch, the day transform of a date."""
    return (value - datetime.date(1970, 1, 1)).days
