"""Bodies on their way in: what is long is taken in steps, so that others are answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from server import limits
from server.auth import callers, chunked
from server.s3 import fields, incoming
from storage import model
from tests.kit import folders
from tests.server import requesting


@pytest.mark.parametrize("large", [False, True])
def test_a_large_document_is_parsed_beside_the_event_loop(large: bool) -> None:
    def parse(data: bytes) -> tuple[int, int]:
        return len(data), threading.get_ident()

    size = limits.PARSED_HERE_BYTES_MAX + large
    parsed_bytes, thread = asyncio.run(incoming.parsed(parse, bytes(size)))
    assert parsed_bytes == size
    assert (thread == threading.get_ident()) is not large


def test_a_document_that_is_refused_in_a_thread_is_refused() -> None:
    def refuse(data: bytes) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(incoming.parsed(refuse, bytes(limits.PARSED_HERE_BYTES_MAX + 1)))


def test_a_body_of_tiny_chunks_leaves_others_their_turn(tmp_path: Path) -> None:
    count = 40_000
    framed = b"1\r\nx\r\n" * count + b"0\r\n\r\n"
    turns = folders.Turns()

    async def receive() -> bytes:
        storage = folders.open_folder(tmp_path / "data")
        async with turns:
            received, _ = await incoming.receive(
                storage.blobs,
                requesting.request("PUT", body=framed),
                callers.Caller(
                    principal=requesting.people().root,
                    payload=chunked.Payload(mode="unsigned-trailer", decoded_length=count),
                    credential_id="",
                    signing=callers.Signing(scheme="none"),
                ),
                size_bytes=count,
                integrity=fields.NO_INTEGRITY,
            )
        storage.close()
        assert isinstance(received.body, model.InlineBody)
        return received.body.data

    assert asyncio.run(receive()) == b"x" * count
    assert turns.count >= len(framed) // incoming.FRAMED_STEP_BYTES
