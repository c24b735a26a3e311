"""engine: writes a stream of record batches as Parquet files with Iceberg's field ids.

Rows are checked before they are written (NOT NULL, lengths), split by partition, and gathered into
row groups. A file is closed when it has reached its size, and when too many partitions are open at
once. Files stay in their own directory until a commit takes them; a failed write leaves its files
there, for the owner of the directory to remove.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sql import (
    engine,
    errors,
    ipc,
    limits,
    parquet_footers,
    partitioning,
    variant_columns,
    zoned_kernels,
)
from sql.dialect import sqltypes

ROW_GROUP_ROWS = 1 << 20


async def write(stream: AsyncIterator[pa.RecordBatch], order: engine.Write) -> engine.Finished:
    """Write all of stream; return the files in the order in which they were finished."""
    files = _Files(order)
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    async for batch in stream:
        checked = _checked(batch, order, files.schema)
        held.append(checked)
        held_bytes += checked.nbytes
        if held_bytes >= limits.GATHERED_BYTES:
            files.add(pa.Table.from_batches(held, schema=files.schema))
            held, held_bytes = [], 0
    if held:
        files.add(pa.Table.from_batches(held, schema=files.schema))
    return files.finish()


def _checked(batch: Any, order: engine.Write, schema: pa.Schema) -> pa.RecordBatch:
    arrays, minutes = [], []
    for number, (column, check) in enumerate(zip(batch.columns, order.checks, strict=True)):
        field = schema.field(number)
        if check.required and column.null_count:
            raise engine.EngineFault("value", check.name, "100072")
        array = _without_views(column)
        if check.is_packed:
            array = variant_columns.unpacked(array)
        if check.length_max is not None:
            _check_length(array, check, exact=pa.types.is_fixed_size_binary(field.type))
        if number in order.offsets:
            array, offsets = zoned_kernels.unpack(array.cast(zoned_kernels.PACKED))
            minutes.append(offsets)
        elif pa.types.is_decimal(array.type) and pa.types.is_timestamp(field.type):
            array = _instants(array)
        cast = array if array.type == field.type else _cast(array, field.type)
        arrays.append(cast)
    for offsets, field in zip(minutes, list(schema)[len(arrays) :], strict=True):
        arrays.append((offsets if field.nullable else offsets.fill_null(0)).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _without_views(array: Any) -> Any:
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_binary_view(array.type) else array


def _cast(array: Any, arrow_type: pa.DataType) -> Any:
    try:
        if pa.types.is_integer(array.type) and pa.types.is_decimal(arrow_type):
            array = _as_decimal(array, arrow_type.scale)
        if isinstance(arrow_type, pa.BaseExtensionType):
            array = pc.cast(array, arrow_type.storage_type)
        cast = pc.cast(array, arrow_type)
    except pa.ArrowInvalid as error:
        if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(arrow_type):
            raise engine.EngineFault("value", "digits below a microsecond", "000002") from error
        raise engine.EngineFault("value", _worst(array, error), "100039") from error
    if pa.types.is_float32(arrow_type):
        _check_float(array, cast)
    return cast


def _instants(array: Any) -> Any:
    """Return the instants of values of TIMESTAMP_TZ, in a table that has no column of offsets.

    Raises the fault of a value whose offset is not 0: the table needs such a column.
    """
    micros, minutes = zoned_kernels.unpack(array.cast(zoned_kernels.PACKED))
    if any(pc.unique(minutes).to_pylist()):
        raise engine.EngineFault("value", "the offset of a TIMESTAMP_TZ", engine.OFFSET)
    return micros.cast(pa.timestamp("us", "UTC"))


INTEGER_DIGITS = 20
"""Digits of the widest integer, an unsigned one of 64 bits."""


def _as_decimal(array: Any, scale: int) -> Any:
    """Return integers as decimals that hold each of them.

    Arrow refuses to cast integers to a decimal that could not hold the widest of their type,
    whatever the values are; from a decimal to a narrower one it looks at the values.
    """
    precision = INTEGER_DIGITS + scale
    wide = pa.decimal128 if precision <= sqltypes.PRECISION_MAX else pa.decimal256
    return pc.cast(array, wide(precision, scale))


def _check_float(array: Any, cast: Any) -> None:
    """Raise the fault of a finite value that a 32-bit float cannot hold; a cast makes it infinite.

    Source: IEEE 754, conversion of formats.
    """
    lost = pc.and_(pc.is_inf(cast), pc.invert(pc.is_inf(array)))
    if pc.any(lost).as_py():
        raise engine.EngineFault("value", str(array.filter(lost)[0].as_py()), "100039")


def _worst(array: Any, error: pa.ArrowInvalid) -> str:
    if pa.types.is_integer(array.type) or pa.types.is_decimal(array.type):
        ends: Any = pc.min_max(array).as_py()
        return str(max(ends.values(), key=abs))
    return str(error)


def _check_length(array: Any, check: engine.ColumnConstraint, *, exact: bool) -> None:
    """Raise the fault of a text or of bytes that are too long, or, where exact, too short."""
    measure = pc.binary_length if pa.types.is_binary(array.type) else pc.utf8_length
    lengths = measure(array)
    ends: Any = pc.min_max(lengths).as_py()
    if ends["max"] is None or check.length_max is None:
        return
    if ends["max"] > check.length_max:
        raise engine.EngineFault("value", _shown(array, lengths, ends["max"]), "100078")
    if exact and ends["min"] < check.length_max:
        raise engine.EngineFault(
            "value",
            f"{_shown(array, lengths, ends['min'])}|{check.name}|{check.length_max}",
            errors.TOO_SHORT,
        )


def _shown(array: Any, lengths: Any, length: int) -> str:
    value = array[pc.index(lengths, length).as_py()].as_py()
    return (value.hex().upper() if isinstance(value, bytes) else str(value))[:100]


class _Files:
    """Open and finished files, by partition."""

    def __init__(self, order: engine.Write) -> None:
        self._order = order
        self.schema = pa.ipc.read_schema(pa.py_buffer(order.schema))
        self._open: OrderedDict[bytes, _File] = OrderedDict()
        self._finished: list[engine.WrittenFile] = []
        self._started = 0

    def add(self, table: pa.Table) -> None:
        for partition, rows in self._split(table):
            file = self._file(partition)
            file.write(rows)
            if file.size_bytes >= self._order.file_size_bytes:
                self._close(partition)

    def finish(self) -> engine.Finished:
        for partition in list(self._open):
            self._close(partition)
        return engine.Finished(
            rows=sum(file.rows for file in self._finished), files=tuple(self._finished)
        )

    def _split(self, table: pa.Table) -> list[tuple[bytes, pa.Table]]:
        if not self._order.partition:
            return [(b"", table)]
        values = {
            field.name: partitioning.apply_transform(
                field.transform,
                field.source_type,
                _stored(table.column(field.column).combine_chunks()),
            )
            for field in self._order.partition
        }
        code: Any = pa.array([0] * table.num_rows, pa.int64())
        for array in values.values():
            encoded = array.dictionary_encode(null_encoding="encode")
            code = pc.add(
                pc.multiply(code, len(encoded.dictionary)), pc.cast(encoded.indices, pa.int64())
            )
            code = code.dictionary_encode().indices.cast(pa.int64())
        order = pc.sort_indices(code)
        sorted_rows, sorted_code = table.take(order), code.take(order)
        sorted_values = pa.table({name: array.take(order) for name, array in values.items()})
        parts = []
        start = 0
        for end in _run_ends(sorted_code):
            partition = ipc.encode_rows(sorted_values.slice(start, 1))
            parts.append((partition, sorted_rows.slice(start, end - start)))
            start = end
        return parts

    def _file(self, partition: bytes) -> _File:
        file = self._open.get(partition)
        if file is None:
            while len(self._open) >= limits.OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            path = Path(self._order.directory) / f"part-{self._started:05d}.parquet"
            self._started += 1
            variants = [check.is_packed for check in self._order.checks]
            names = frozenset(itertools.compress(self.schema.names, variants))
            file = _File(path, self.schema, self._order.compression, variants=names)
            self._open[partition] = file
        self._open.move_to_end(partition)
        return file

    def _close(self, partition: bytes) -> None:
        file = self._open.pop(partition)
        file.close()
        self._finished.append(
            engine.WrittenFile(
                path=str(file.path),
                rows=file.rows,
                size_bytes=file.path.stat().st_size,
                partition=partition,
            )
        )


def _stored(array: Any) -> Any:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _run_ends(codes: Any) -> list[int]:
    """Return where each run of equal codes ends; codes are sorted and not empty."""
    changes = pc.indices_nonzero(pc.not_equal(codes[1:], codes[:-1])).to_pylist()
    return [*(change + 1 for change in changes), len(codes)]


class _File:
    """A file that is being written. variants: the names of its columns of the type VARIANT."""

    def __init__(
        self, path: Path, schema: pa.Schema, compression: Any, *, variants: Collection[str]
    ) -> None:
        self.path = path
        self.rows = 0
        self._variants = variants
        self._sink: Any = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=compression,
            write_page_index=True,
            store_schema=False,
        )

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self.rows += rows.num_rows

    def close(self) -> None:
        self._writer.close()
        self._sink.close()
        if self._variants:
            self._annotate()

    def _annotate(self) -> None:
        """Write the footer again, with the type of the columns that hold variants."""
        with self.path.open("r+b") as stream:
            start, old = read_footer(stream)
            _, magic = TAIL.unpack(stream.read(TAIL.size))
            footer = parquet_footers.annotated(old, self._variants)
            stream.seek(start)
            stream.write(footer + TAIL.pack(len(footer), magic))


TAIL: Final = struct.Struct("<I4s")
"""The end of a Parquet file: the length of its footer, and four letters."""


def read_footer(stream: BinaryIO) -> tuple[int, bytes]:
    """Return where the footer of a Parquet file begins, and its bytes; the stream is behind it."""
    stream.seek(-TAIL.size, os.SEEK_END)
    length, _ = TAIL.unpack(stream.read(TAIL.size))
    start = stream.seek(-TAIL.size - length, os.SEEK_END)
    return start, stream.read(length)
