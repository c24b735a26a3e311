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

HEADER = struct.Struct(">BQ")
PAYLOAD_BYTES_MAX = 1 << 30
"""One record batch, or one query with its inline rows."""
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

    async def next(self) -> tuple[FrameType, bytes]:
        """Return the next frame; raises what the reader raises at its end."""
        if self._header is None:
            self._header = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        frame_type, size_bytes = self._header
        assert size_bytes <= PAYLOAD_BYTES_MAX
        payload = await self._reader.readexactly(size_bytes)
        self._header = None
        return FrameType(frame_type), payload
