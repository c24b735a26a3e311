"""Frames between server and engine child: large ones are taken in pieces, and none is lost."""

from __future__ import annotations

import asyncio
import contextlib

from sql import frames

SIZE_BYTES = 3 * frames.PIECE_BYTES + 5
PAYLOAD = bytes(number % 251 for number in range(1_000)) * (SIZE_BYTES // 1_000 + 1)
LARGE = PAYLOAD[:SIZE_BYTES]


class Sizes:
    """A reader that notes how much is asked for in one step. Mutable."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.sizes: list[int] = []

    async def readexactly(self, n: int, /) -> bytes:
        self.sizes.append(n)
        return await self._reader.readexactly(n)


def sent(*payloads: bytes) -> bytes:
    return b"".join(
        part
        for each in payloads
        for part in map(bytes, frames.encode(frames.FrameType.BATCH, each))
    )


def test_a_large_payload_is_taken_in_pieces_and_whole() -> None:
    async def main() -> None:
        reader = asyncio.StreamReader(limit=frames.BUFFER_BYTES)
        reader.feed_data(sent(LARGE, b"", b"small"))
        sizes = Sizes(reader)
        incoming = frames.Incoming(sizes)
        payloads = [bytes((await incoming.next())[1]) for _ in range(3)]
        assert payloads == [LARGE, b"", b"small"]
        assert max(sizes.sizes) == frames.PIECE_BYTES

    asyncio.run(main())


def test_cancelling_between_pieces_loses_none() -> None:
    async def main() -> None:
        reader = asyncio.StreamReader(limit=frames.BUFFER_BYTES)
        incoming = frames.Incoming(reader)
        data = sent(LARGE, LARGE[::-1])
        for begin in range(0, len(data), 700_000):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await incoming.next()
                    raise AssertionError("a frame has come before its end")
            reader.feed_data(data[begin : begin + 700_000])
            if begin + 700_000 > frames.HEADER.size + SIZE_BYTES:
                break
        reader.feed_data(data[begin + 700_000 :])
        assert bytes((await incoming.next())[1]) == LARGE
        assert bytes((await incoming.next())[1]) == LARGE[::-1]

    asyncio.run(main())
