"""engine: chunks of Arrow on their way from the child that encodes them into the server's memory.

The rows of a large result are encoded where they are computed, and pass one socket, which is for
chunks alone and blocks on both sides: a child sends a chunk from the memory of its columns, and a
thread of the server receives it into the memory in which it stays. The socket's buffer is all that
is read ahead.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from sql import chunk_memory, chunks, encode, limits, outcomes

Part: TypeAlias = bytes | pa.Buffer

PART_BYTES_MIN = 64 << 10
"""Smaller parts of a stream are copied into one with those beside them: each costs the socket."""
PARTS_AT_ONCE = 256
"""Systems take some 1,000 in one call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedChunk:
    """Rows as `sql.encode.arrow_stream` encodes them. parts: of the stream, in order."""

    rows: int
    parts: Sequence[Part]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.parts))


class Encoder:
    """Cuts the rows of one result into chunks, and encodes them. Mutable."""

    def __init__(self, columns: Sequence[outcomes.Column]) -> None:
        self._columns = columns
        self._cutter = chunks.Cutter(
            inline_bytes_max=limits.CHUNK_BYTES_MAX, inline_rows_max=limits.CHUNK_ROWS_MAX
        )

    def add(self, batch: pa.RecordBatch) -> Iterator[EncodedChunk]:
        """Take one batch; yield the chunks that became full."""
        for group in self._cutter.add(batch):
            yield self._encoded(group)

    def finish(self) -> Iterator[EncodedChunk]:
        """Yield what is left."""
        for group in self._cutter.finish():
            yield self._encoded(group)

    def _encoded(self, group: Sequence[pa.RecordBatch]) -> EncodedChunk:
        batch = encode.wire_batch(group, self._columns)
        sink = _Parts()
        with (
            pa.PythonFile(sink) as file,
            pa.ipc.new_stream(file, batch.schema) as writer,
        ):
            writer.write_batch(batch)
        return EncodedChunk(rows=batch.num_rows, parts=sink.parts)


class _Parts(io.RawIOBase):
    """A file that has what is written to it, the memory of large buffers itself. Mutable."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._small: list[Part] = []
        self._size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        size_bytes = len(part)
        self._size_bytes += size_bytes
        if size_bytes < PART_BYTES_MIN:
            self._small.append(part)
        else:
            self.flush()
            self.parts.append(part)
        return size_bytes

    def tell(self) -> int:
        return self._size_bytes

    def flush(self) -> None:
        if self._small:
            self.parts.append(b"".join(self._small))
            self._small.clear()


def send(connection: socket.socket, parts: Sequence[Part]) -> None:
    """Send all parts. Blocks. Raises OSError."""
    left = [memoryview(part) for part in parts]
    first = 0
    while first < len(left):
        count = connection.sendmsg(left[first : first + PARTS_AT_ONCE])
        while first < len(left) and count >= len(left[first]):
            count -= len(left[first])
            first += 1
        if count:
            left[first] = left[first][count:]


def receive(connection: socket.socket, size_bytes: int, pool: chunk_memory.Pool) -> memoryview:
    """Return the next bytes from the socket. Blocks. Raises ConnectionError at its end."""
    received = left = pool.take(size_bytes)
    while left:
        try:
            count = connection.recv_into(left, 0, socket.MSG_WAITALL)
        except OSError as error:  # among others of a socket that was closed meanwhile
            raise ConnectionAbortedError("the socket is closed") from error
        if not count:
            raise ConnectionResetError("the child has closed its side")
        left = left[count:]
    return received.toreadonly()
