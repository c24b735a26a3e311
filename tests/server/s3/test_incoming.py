"""Bodies on their way in: what is long is taken in steps, so that others are answered meanwhile."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from server import limits, xmltext
from server.auth import callers, chunked
from server.s3 import documents, fields, incoming
from storage import model
from tests.kit import folders
from tests.kit import s3 as kit
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


CONFIGURATIONS = [
    "?acl", "?tagging", "?versioning", "?ownershipControls", "?object-lock",
    "?publicAccessBlock", "/k?acl", "/k?tagging", "/k?retention", "/k?legal-hold", "",
]  # fmt: skip


def test_documents_of_configurations_are_bounded_and_parsed_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def parse(data: bytes) -> xmltext.Element:
        threads.append(threading.get_ident())
        return xmltext.parse(data)

    monkeypatch.setattr(documents, "xmltext", SimpleNamespace(parse=parse))

    async def thread_of_loop() -> int:
        return threading.get_ident()

    def put(target: str, size: int) -> kit.Answer:
        body = b"<Other>" + b" " * (size - 15) + b"</Other>"
        md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        return kit.call(place, "PUT", target, {"content-md5": md5}, body)

    with kit.serve(tmp_path / "data") as place:
        client = kit.client(place)
        client.create_bucket(Bucket="raw", ObjectLockEnabledForBucket=True)
        client.put_object(Bucket="raw", Key="k", Body=b"x")
        loop = place.run(thread_of_loop())
        for target in CONFIGURATIONS:
            threads.clear()
            answer = put(f"/raw{target}", limits.CONFIGURATION_BYTES_MAX)
            assert (answer.status, answer.code[:9]) == (400, "Malformed"), target
            assert len(threads) == 1, target
            assert loop not in threads, target
            answer = put(f"/raw{target}", limits.CONFIGURATION_BYTES_MAX + 1)
            assert (answer.status, answer.code) == (400, "MaxMessageLengthExceeded"), target
            assert len(threads) == 1, target
        # These have a smaller bound of their own, before they are parsed.
        for target in ("?policy", "?cors"):
            answer = put(f"/raw{target}", limits.CONFIGURATION_BYTES_MAX + 1)
            assert (answer.status, answer.code) == (400, "MaxMessageLengthExceeded"), target
