"""engine: writes a stream of record batches as the files of COPY INTO a stage, in a child process.

Rows come as text for CSV, as JSON text for JSON and in their own types for Parquet. A file of text
is closed before it grows beyond its size, one of Parquet after it has, by a batch of rows at most.
Compressed text exceeds it by what the codec has not written yet: by some 40 kB with GZIP, 0.1 MB
with ZSTD, 0.4 MB with BZ2 and 2.4 MB with BROTLI. With partitions a file has rows of one of them
alone; rows come in their order, so one file is open at a time.
"""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sql import engine, limits

BLOCK_BYTES: Final = 64 << 10
"""Text that is compressed before the file's size is looked at again."""
CODECS: Final = {"GZIP": "gzip", "NONE": None, "BZ2": "bz2", "ZSTD": "zstd", "BROTLI": "brotli"}


async def write(
    stream: AsyncIterator[pa.RecordBatch], schema: pa.Schema, order: engine.UnloadOrder
) -> engine.Finished:
    """Write all of stream; return the files in order. Without rows there is no file."""
    files: list[engine.WrittenFile] = []
    current: _File | None = None
    if order.is_partitioned:
        schema = pa.schema(list(schema)[:-1])
    async for batch in stream:
        for folder, rows in _parts(batch) if order.is_partitioned else (("", batch),):
            if current is not None and current.folder != folder:
                files.append(current.close())
                current = None
            parts: Sequence[Any] = ()
            start = 0
            while rows.num_rows and (not parts or start < len(parts)):
                if current is None:
                    if len(files) >= limits.UNLOADED_FILES_MAX:
                        raise engine.EngineFault(
                            "resources",
                            f"more than {limits.UNLOADED_FILES_MAX:,} files of one COPY",
                        )
                    current = _opened(len(files), schema, order)
                    current.folder = folder
                parts = parts or current.parts(rows)
                start = current.write(parts, start)
                is_full = start < len(parts) or current.size_bytes >= order.file_size_bytes
                if is_full and not order.single:
                    files.append(current.close())
                    current = None
    if current is not None:
        files.append(current.close())
    return engine.Finished(rows=sum(file.rows for file in files), files=tuple(files))


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Yield the rows of each partition of a batch. The last column says it, in order."""
    *columns, partitions = batch.columns
    rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(batch.schema)[:-1]))
    start = 0
    runs: Any = pc.call_function("run_end_encode", [partitions.cast(pa.string())])
    for run in runs.run_ends.to_pylist():
        yield partitions[start].as_py(), rows.slice(start, run - start)
        start = run


def _opened(number: int, schema: pa.Schema, order: engine.UnloadOrder) -> _File:
    path = Path(order.directory) / f"part-{number:05d}"
    return _Columns(path, schema, order) if order.form == "parquet" else _Lines(path, order)


class _File:
    """A file that is written. Mutable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.folder: str | None = ""

    @property
    def size_bytes(self) -> int:
        raise NotImplementedError

    def parts(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """Return rows as what `write` takes, of this file and those after it."""
        raise NotImplementedError

    def write(self, parts: Sequence[Any], start: int) -> int:
        """Write parts from start on, until the file is full; return the next one's position."""
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def close(self) -> engine.WrittenFile:
        self.end()
        return engine.WrittenFile(
            path=str(self.path),
            rows=self.rows,
            size_bytes=self.path.stat().st_size,
            folder=self.folder,
        )


class _Columns(_File):
    def __init__(self, path: Path, schema: pa.Schema, order: engine.UnloadOrder) -> None:
        super().__init__(path)
        self._schema = pa.schema(
            [
                pa.field(name, _plain_type(each.type))
                for name, each in zip(order.names, schema, strict=True)
            ]
        )
        self._sink: Any = pa.OSFile(str(path), "wb")
        compression: Any = order.compression
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression=compression)

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def parts(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        return [batch]

    def write(self, parts: Sequence[pa.RecordBatch], start: int) -> int:
        batch = parts[start]
        arrays = [
            column.cast(each.type) for column, each in zip(batch.columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.rows += batch.num_rows
        return start + 1

    def end(self) -> None:
        self._writer.close()
        self._sink.close()


def _plain_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(arrow_type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(arrow_type) else arrow_type


class _Lines(_File):
    def __init__(self, path: Path, order: engine.UnloadOrder) -> None:
        super().__init__(path)
        self._order = order
        self._target = path.open("wb")
        codec = CODECS[order.compression]
        self._sink: Any = self._target
        if codec == "gzip":
            self._sink = gzip.GzipFile(fileobj=self._target, mode="wb", mtime=0)
        elif codec is not None:
            opened: Any = self._target
            named: Any = codec
            self._sink = pa.CompressedOutputStream(pa.PythonFile(opened, mode="w"), named)
        self._specials = tuple(
            each for each in (order.quote, order.escape, order.field, order.record) if each
        )
        if order.header:
            self._sink.write(self._line(order.names, quoted=(True,) * len(order.names)))

    @property
    def size_bytes(self) -> int:
        return self._target.tell()

    def parts(self, batch: pa.RecordBatch) -> Sequence[bytes]:
        columns = [column.to_pylist() for column in batch.columns]
        if self._order.form == "json":
            return [f"{text or 'null'}\n".encode() for text in columns[0]]
        quoted = self._order.quoted
        return [self._line(row, quoted=quoted) for row in zip(*columns, strict=True)]

    def write(self, parts: Sequence[bytes], start: int) -> int:
        if self._order.single:
            end = len(parts)
            self._sink.write(b"".join(parts[start:]))
        else:
            end = self._written(parts, start)
        self.rows += end - start
        return end

    def _written(self, parts: Sequence[bytes], start: int) -> int:
        """Write lines from start on that the file has room for; return the next one's position."""
        most, end = self._order.file_size_bytes, start
        if self._sink is self._target:
            size_bytes = self._target.tell()
            while end < len(parts):
                size_bytes += len(parts[end])
                if size_bytes > most and (self.rows or end > start):
                    break
                end += 1
            self._target.write(b"".join(parts[start:end]))
            return end
        while end < len(parts) and (end == start or self._target.tell() < most):
            first, block_bytes = end, 0
            while end < len(parts) and block_bytes < BLOCK_BYTES:
                block_bytes += len(parts[end])
                end += 1
            self._sink.write(b"".join(parts[first:end]))
        return end

    def _line(self, row: Sequence[str | None], *, quoted: Sequence[bool]) -> bytes:
        fields = [self._field(value, each) for value, each in zip(row, quoted, strict=True)]
        return (self._order.field.join(fields) + self._order.record).encode()

    def _field(self, value: str | None, is_text: bool) -> str:
        order = self._order
        if value is None:
            return order.null
        if order.quote and is_text:
            return order.quote + value.replace(order.quote, order.quote * 2) + order.quote
        if order.escape and any(special in value for special in self._specials):
            value = value.replace(order.escape, order.escape * 2)
            for special in (order.field, order.record):
                if special:
                    value = value.replace(special, order.escape + special)
        return value

    def end(self) -> None:
        if self._sink is not self._target:
            self._sink.close()
        self._target.close()
