"""rule: encodes an engine's Arrow batches or Python values as the protocol's Arrow and JSON cells.

A wrong cell does not fail a request: it crashes the driver that reads it. So each type has exactly
one encoding, which every driver reads, and all of an engine's types are converted to it. The caller
chooses the format.

Arrow: NUMBER travels as its unscaled value in int64 when all of the stream's values fit, else as
decimal128; times and timestamps as integers in units of their scale; nanosecond timestamps and
TIMESTAMP_LTZ as {epoch, fraction}, the epoch floored; zoned ones with a third field. JSON: cells
are text or null.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias, assert_never

import orjson
import pyarrow as pa
import pyarrow.compute

from sql import outcomes, rowtypes, zoned_kernels

Arrow: TypeAlias = Any
"""A pyarrow array; pyarrow's stubs lack too many types and functions for a stricter type."""

pc: Any = pyarrow.compute

INT64_DIGITS = 18
"""A NUMBER of so many digits always fits int64."""

INTERVAL_DIGITS, SHORT_INTERVAL_DIGITS = 9, 5
"""Digits of the leading field of an interval of days and times: the most, and those of 64 bits."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
EPOCH_DATE = datetime.date(1970, 1, 1)
DIGITS_OF_ANY_NUMBER = Context(prec=100)
MINUTES_PER_DAY = 1440
"""What is added to a zone offset, so that it is never negative on the wire."""
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""What ends a stream of Arrow IPC: a continuation, and a length of 0."""
STEP_CELLS_MAX = 20_000
STEP_BYTES_MAX = 1 << 20
"""What is encoded as JSON by one call."""
BASE64_BYTES_AT_ONCE = 192 << 10
"""A multiple of three, so that base64 has no padding between parts."""


# Arrow


def arrow_stream(batches: Sequence[pa.RecordBatch], columns: Sequence[outcomes.Column]) -> bytes:
    """Return one IPC stream of all rows of batches, or b"" when there are none.

    The columns of the batches are those of columns, by position.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return b""
    batch = wire_batch(filled, columns)
    # What a stream's writer makes, but each part in memory of its own size: a writer's grows.
    return b"".join((batch.schema.serialize(), batch.serialize(), END_OF_STREAM))


def wire_batch(
    batches: Sequence[pa.RecordBatch], columns: Sequence[outcomes.Column]
) -> pa.RecordBatch:
    """Return the rows of batches, of which there are some, as one batch in the wire's types."""
    arrays, fields = [], []
    for index, column in enumerate(columns):
        array = wire_array(column, [batch.column(index) for batch in batches])
        arrays.append(array)
        fields.append(
            pa.field(column.name, array.type, True, metadata=rowtypes.field_metadata(column))
        )
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def wire_array(column: outcomes.Column, parts: Sequence[Arrow]) -> Arrow:
    """Return parts, end to end, in the wire's Arrow type for column."""
    array = _joined(parts)
    match column.type:
        case "fixed":
            return _fixed(column, array)
        case "real":
            return _cast(array, pa.float64())
        case "text" | "variant" | "object" | "array":
            return _cast(array, pa.string())
        case "boolean":
            return _cast(array, pa.bool_())
        case "date":
            return _cast(array, pa.date32())
        case "binary":
            return _cast(array, pa.binary())
        case "time":
            nanos = _cast(_cast(array, pa.time64("ns")), pa.int64())
            scale = rowtypes.scale_of(column)
            ticks = _rescaled(nanos, 9, scale)
            # The Go driver reads no wider integers up to milliseconds, and no narrower ones beyond.
            return pc.cast(ticks, pa.int32()) if scale <= 3 else ticks
        case "timestamp_ntz":
            ticks, digits = _ticks(array)
            scale = rowtypes.scale_of(column)
            if scale < rowtypes.FRACTION_DIGITS:
                return _rescaled(ticks, digits, scale)
            return _split_instant(ticks, digits, ())
        case "timestamp_ltz":
            # The Python driver reads the shorter form one hour off in summer time.
            ticks, digits = _ticks(array)
            scale = min(digits, rowtypes.scale_of(column))
            return _split_instant(_rescaled(ticks, digits, scale), scale, ())
        case "timestamp_tz":
            return _zoned(array)
        case "interval_year_month":
            return _cast(array, pa.int64())
        case "interval_day_time":
            wide = _cast(array, pa.decimal128(rowtypes.NUMBER_PRECISION, 0))
            # Drivers read 16 bytes where the leading field may have more than five digits.
            is_short = (column.precision or INTERVAL_DIGITS) <= SHORT_INTERVAL_DIGITS
            return _cast(wide, pa.int64()) if is_short else wide
        case _:
            assert_never(column.type)


def _joined(parts: Sequence[Arrow]) -> Arrow:
    plain = [_plain(part) for part in parts]
    return plain[0] if len(plain) == 1 else pa.concat_arrays(plain)


def _plain(array: Arrow) -> Arrow:
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    return array


def _cast(array: Arrow, target: pa.DataType) -> Arrow:
    if array.type.equals(target):
        return array
    if pa.types.is_null(array.type):
        nulls: Any = pa.nulls
        return nulls(len(array), target)
    return array.cast(target)


def _fixed(column: outcomes.Column, array: Arrow) -> Arrow:
    scale, precision = rowtypes.scale_of(column), rowtypes.precision_of(column)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int64())
    if pa.types.is_integer(array.type):
        if scale == 0 and not pa.types.is_uint64(array.type):
            return _cast(array, pa.int64())
        array = array.cast(pa.decimal128(20, 0))
    if not pa.types.is_decimal(array.type):
        raise TypeError(f"a NUMBER column holds {array.type}")
    wide = _cast(array, pa.decimal128(rowtypes.NUMBER_PRECISION, scale))
    low, fits = _low_words(wide)
    if precision <= INT64_DIGITS or fits:
        return low
    return wide


def _low_words(array: Arrow) -> tuple[Arrow, bool]:
    """Return the unscaled values of a decimal128 array as int64, and whether all of them fit."""
    words = pa.Array.from_buffers(
        pa.int64(), 2 * len(array), [None, array.buffers()[1]], offset=2 * array.offset
    )
    pairs = pa.FixedSizeListArray.from_arrays(words, 2)
    low, high = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    valid = array.is_valid()
    sign = pc.negate(pc.cast(pc.less(low, 0), pa.int64()))
    extends = pc.or_(pc.equal(high, sign), pc.invert(valid))
    fits = pc.all(extends, min_count=0).as_py()
    return (low if array.null_count == 0 else _nulled(low, valid)), bool(fits)


def _nulled(array: Arrow, valid: Arrow) -> Arrow:
    return pc.if_else(valid, array, pa.scalar(None, array.type))


def _ticks(array: Arrow) -> tuple[Arrow, int]:
    """Return a timestamp array as int64, and the digits of the second that one tick is."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int64()), rowtypes.FRACTION_DIGITS
    if not pa.types.is_timestamp(array.type):
        raise TypeError(f"a timestamp column holds {array.type}")
    return array.cast(pa.int64()), rowtypes.UNIT_DIGITS[array.type.unit]


def _rescaled(ticks: Arrow, digits: int, scale: int) -> Arrow:
    """Return ticks of 10^-digits seconds in 10^-scale seconds; what is lost is floored away."""
    if scale >= digits:
        return pc.multiply_checked(ticks, 10 ** (scale - digits)) if scale > digits else ticks
    return _floor_divide(ticks, 10 ** (digits - scale))


def _floor_divide(ticks: Arrow, divisor: int) -> Arrow:
    quotient = pc.divide(ticks, divisor)  # rounds towards zero
    above = pc.greater(pc.multiply(quotient, divisor), ticks)
    return pc.subtract(quotient, pc.cast(above, pa.int64()))


def _split_instant(ticks: Arrow, digits: int, more: Sequence[tuple[str, Arrow]]) -> Arrow:
    per_second = 10**digits
    epoch = _floor_divide(ticks, per_second) if digits else ticks
    rest = pc.subtract(ticks, pc.multiply(epoch, per_second))
    fraction = pc.cast(pc.multiply(rest, 10 ** (9 - digits)), pa.int32())
    named = [("epoch", epoch), ("fraction", fraction), *more]
    return pa.StructArray.from_arrays(
        [array for _, array in named],
        fields=[pa.field(name, array.type) for name, array in named],
        mask=pc.is_null(ticks),
    )


def _zoned(array: Arrow) -> Arrow:
    if pa.types.is_decimal(array.type):
        instants, offsets = zoned_kernels.unpack(array)
        instant = instants.cast(pa.timestamp("us"))
        minutes = pc.cast(pc.add(offsets, MINUTES_PER_DAY), pa.int32())
    elif pa.types.is_struct(array.type):
        # flatten, unlike field, lets a NULL of the struct show in its children.
        instant, offset = array.flatten()
        minutes = pc.add(pc.cast(offset, pa.int32()), pa.scalar(MINUTES_PER_DAY, pa.int32()))
    else:
        instant = array
        minutes = pa.repeat(pa.scalar(MINUTES_PER_DAY, pa.int32()), len(array))
    ticks, digits = _ticks(instant)
    return _split_instant(ticks, digits, (("timezone", _nulled(minutes, ticks.is_valid())),))


# JSON


def json_rows(
    batches: Iterable[pa.RecordBatch], columns: Sequence[outcomes.Column]
) -> list[list[str | None]]:
    """Return the rows of batches as JSON cells."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return []
    cells = [
        _cells_of(column, [batch.column(index) for batch in filled])
        for index, column in enumerate(columns)
    ]
    return [list(row) for row in zip(*cells, strict=True)]


def json_cells(
    rows: Iterable[Sequence[Any]], columns: Sequence[outcomes.Column]
) -> list[list[str | None]]:
    """Return rows of Python values (`Outcome.rows`) as JSON cells."""
    return [
        [cell_of_value(column, value) for column, value in zip(columns, row, strict=True)]
        for row in rows
    ]


def json_list(rows: Sequence[Sequence[str | None]]) -> bytes:
    """Return rows of cells as JSON text: a list of lists."""
    return orjson.dumps(rows)


def json_chunk(rows: bytes) -> bytes:
    """Return a JSON chunk from a list's text: rows joined by commas, without the outer brackets."""
    return rows[1:-1]


def json_text(batches: Iterable[pa.RecordBatch], columns: Sequence[outcomes.Column]) -> bytes:
    """Return the rows of batches as JSON text, joined by commas, without outer brackets.

    One call of a library keeps the interpreter from other threads until it returns, so the rows are
    encoded in steps. Only the copy of their bytes into one text, at the end, is a single call.
    """
    steps = _steps(batches, max(1, STEP_CELLS_MAX // max(1, len(columns))))
    return b",".join([json_chunk(json_list(json_rows([step], columns))) for step in steps])


def _steps(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in parts of some bytes, or of one row."""
    for batch in batches:
        if not batch.num_rows:
            continue
        fitting = STEP_BYTES_MAX * batch.num_rows // max(1, batch.nbytes)
        rows = max(1, min(rows_max, fitting))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def base64_json(data: bytes) -> bytes:
    """Return bytes as a JSON text in base64, encoded in steps as `json_text` does."""
    view = memoryview(data)
    starts = range(0, len(view), BASE64_BYTES_AT_ONCE)
    parts = [base64.b64encode(view[start : start + BASE64_BYTES_AT_ONCE]) for start in starts]
    return b"".join([b'"', *parts, b'"'])


def _cells_of(column: outcomes.Column, parts: Sequence[Arrow]) -> list[str | None]:
    scale = rowtypes.scale_of(column)
    array = wire_array(column, parts)
    if column.type == "date":  # as numbers: Python's dates end with the year 9999
        array = array.cast(pa.int32())
    values: list[Any] = array.to_pylist()
    match column.type:
        case "fixed":
            return [None if value is None else _unscaled_cell(value, scale) for value in values]
        case "real":
            return [None if value is None else _real_cell(value) for value in values]
        case "text" | "variant" | "object" | "array":
            return values
        case "boolean":
            return [None if value is None else "1" if value else "0" for value in values]
        case "date":
            return [None if value is None else str(value) for value in values]
        case "timestamp_ntz" | "timestamp_ltz" if pa.types.is_struct(array.type):
            return [
                None if value is None else seconds_cell(_joined_nanos(value), scale)
                for value in values
            ]
        case "time" | "timestamp_ntz" | "timestamp_ltz":
            factor = 10 ** (9 - scale)
            return [
                None if value is None else seconds_cell(value * factor, scale) for value in values
            ]
        case "timestamp_tz":
            return [None if value is None else _zoned_cell(value, scale) for value in values]
        case "interval_year_month" | "interval_day_time":
            return [None if value is None else str(int(value)) for value in values]
        case "binary":
            return [None if value is None else value.hex().upper() for value in values]
        case _:
            assert_never(column.type)


def cell_of_value(column: outcomes.Column, value: Any) -> str | None:
    """Return one Python value as a JSON cell."""
    if value is None:
        return None
    scale = rowtypes.scale_of(column)
    match column.type:
        case "fixed":
            step = Decimal(1).scaleb(-scale)
            return format(Decimal(value).quantize(step, context=DIGITS_OF_ANY_NUMBER), "f")
        case "real":
            return _real_cell(float(value))
        case "text" | "variant" | "object" | "array":
            return str(value)
        case "boolean":
            return "1" if value else "0"
        case "date":
            return str((value - EPOCH_DATE).days)
        case "time":
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return seconds_cell((seconds * 1_000_000 + value.microsecond) * 1_000, scale)
        case "timestamp_ntz" | "timestamp_ltz":
            return seconds_cell(_nanos(value), scale)
        case "timestamp_tz":
            offset = value.utcoffset() or datetime.timedelta()
            minutes = offset // datetime.timedelta(minutes=1)
            return f"{seconds_cell(_nanos(value), scale)} {minutes + MINUTES_PER_DAY}"
        case "interval_year_month" | "interval_day_time":
            return str(int(value))
        case "binary":
            return bytes(value).hex().upper()
        case _:
            assert_never(column.type)


def seconds_cell(nanos: int, scale: int) -> str:
    """Return nanoseconds as seconds with exactly scale digits, floored to scale.

    Sign and magnitude, because every driver reads `-1.5` as minus one and a half.
    """
    ticks = nanos // 10 ** (9 - scale)
    sign = "-" if ticks < 0 else ""
    whole, part = divmod(abs(ticks), 10**scale)
    return f"{sign}{whole}.{part:0{scale}d}" if scale else f"{sign}{whole}"


def _nanos(value: datetime.datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return ((aware - EPOCH) // datetime.timedelta(microseconds=1)) * 1_000


def _unscaled_cell(value: int | Decimal, scale: int) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if not scale:
        return str(value)
    sign = "-" if value < 0 else ""
    whole, part = divmod(abs(value), 10**scale)
    return f"{sign}{whole}.{part:0{scale}d}"


def _real_cell(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value)


def _zoned_cell(value: dict[str, int], scale: int) -> str:
    return f"{seconds_cell(_joined_nanos(value), scale)} {value['timezone']}"


def _joined_nanos(value: dict[str, int]) -> int:
    return value["epoch"] * 1_000_000_000 + value["fraction"]
