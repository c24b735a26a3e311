"""engine: chunks of Arrow on their way from the child that encodes them into the server's memory.

The rows of a large result are encoded where they are computed, and pass one socket, which is for
chunks alone and blocks on both sides: a child writes a chunk with one call, and a thread of the
server receives it into the memory in which it stays. The socket's buffer is all that is read ahead.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

import pyarrow as pa

from sql import chunk_memory, chunks, encode, limits, outcomes


class Encoder:
    """Cuts the rows of one result into chunks, and encodes them. Mutable.

    The data of one chunk is overwritten by the next.
    """

    def __init__(self, columns: Sequence[outcomes.Column], pool: chunk_memory.Pool) -> None:
        self._columns = columns
        self._pool = pool
        self._cutter = chunks.Cutter(
            inline_bytes_max=limits.CHUNK_BYTES_MAX, inline_rows_max=limits.CHUNK_ROWS_MAX
        )
        self._room = memoryview(b"")

    def add(self, batch: pa.RecordBatch) -> Iterator[outcomes.EncodedRows]:
        """Take one batch; yield the chunks that became full."""
        for group in self._cutter.add(batch):
            yield self._encoded(group)

    def finish(self) -> Iterator[outcomes.EncodedRows]:
        """Yield what is left."""
        for group in self._cutter.finish():
            yield self._encoded(group)

    def _encoded(self, group: Sequence[pa.RecordBatch]) -> outcomes.EncodedRows:
        batch = encode.wire_batch(group, self._columns)
        size_bytes = (
            batch.schema.serialize().size
            + pa.ipc.get_record_batch_size(batch)
            + len(encode.END_OF_STREAM)
        )
        if len(self._room) < size_bytes:
            self._room = self._pool.take(size_bytes + size_bytes // 8)
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(self._room))
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        assert sink.tell() == size_bytes
        return outcomes.EncodedRows(rows=batch.num_rows, data=self._room[:size_bytes])


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
