"""rule: the frames between the serving process and an engine child.

A frame is one byte with its type, eight bytes of length, and the payload. A query, a schema and
batches are sent as they are; a fault as the arguments of `EngineFault`. COLUMNS tells a child how
to encode the rows of its query, which it then sends in chunks, or has no columns: then they stay
batches. The frame of a chunk has the number of its rows and of its bytes, which follow on another
socket (`sql.chunk_sockets`).
"""

from __future__ import annotations

import enum
import struct
from typing import Protocol

import pyarrow as pa

HEADER = struct.Struct(">BQ")
PAYLOAD_BYTES_MAX = 1 << 30
"""One record batch, or one query with its inline rows."""
PIECE_BYTES = 1 << 20
"""How much of a payload is copied in one step: 100 MB at once take some 50 ms."""
BUFFER_BYTES = 4 << 20
"""How much a side reads ahead; beyond it the other side waits."""


class FrameType(enum.IntEnum):
    """The content of a frame."""

    QUERY = 1
    CANCEL = 2
    SCHEMA = 3
    BATCH = 4
    FAULT = 5
    DONE = 6
    COLUMNS = 7
    CHUNK = 8


class ByteReader(Protocol):
    """The method of a stream that frames use."""

    async def readexactly(self, n: int, /) -> bytes: ...


def encode(frame_type: FrameType, payload: bytes | memoryview) -> tuple[bytes, bytes | memoryview]:
    """Return the pieces of a frame, in order."""
    assert len(payload) <= PAYLOAD_BYTES_MAX
    return HEADER.pack(frame_type, len(payload)), payload


class Incoming:
    """The frames of one side, in order. Cancelling `next` loses none."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self._header: tuple[int, int] | None = None
        self._payload = memoryview(b"")
        self._received_bytes = 0

    async def next(self) -> tuple[FrameType, bytes | memoryview]:
        """Return the next frame; raises what the reader raises at its end.

        A large payload is taken in pieces, between which the event loop serves others.
        """
        if self._header is None:
            self._header = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            self._received_bytes = 0
        frame_type, size_bytes = self._header
        assert size_bytes <= PAYLOAD_BYTES_MAX
        payload: bytes | memoryview
        if size_bytes <= PIECE_BYTES:
            payload = await self._reader.readexactly(size_bytes)
        else:
            payload = await self._joined(size_bytes)
        self._header = None
        return FrameType(frame_type), payload

    async def _joined(self, size_bytes: int) -> memoryview:
        if not self._received_bytes:
            self._payload = memoryview(pa.allocate_buffer(size_bytes)).cast("B")
        while left_bytes := size_bytes - self._received_bytes:
            piece = await self._reader.readexactly(min(left_bytes, PIECE_BYTES))
            end = self._received_bytes + len(piece)
            self._payload[self._received_bytes : end] = piece
            self._received_bytes = end
        payload, self._payload = self._payload, memoryview(b"")
        return payload
