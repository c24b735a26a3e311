"""Decoding in a child: the same entries, and a server that outlives the child and any manifest."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pyarrow as pa
import pytest

from catalog import avro, decoding, decoding_child, errors, manifests
from tests.catalog import test_manifests as samples

DATA, WRITTEN = samples.encode(
    [samples.added(samples.data_file(number)) for number in range(1, 40)]
)
OTHER, _ = samples.encode([samples.added(samples.data_file(7))])
MANIFEST = msgspec.structs.replace(WRITTEN, sequence_number=9, first_row_id=100)


async def with_child(work: Any) -> Any:
    decoder = decoding.ChildDecoder(inline_bytes_max=0)
    try:
        return await work(decoder)
    finally:
        await decoder.close()


def test_the_child_gives_the_entries_that_decoding_here_gives() -> None:
    async def work(decoder: decoding.ChildDecoder) -> None:
        expected = manifests.live_entries(DATA, MANIFEST)
        assert decoder.process_id is None  # started at first use
        assert await decoder.decode(DATA, MANIFEST) == expected
        child = decoder.process_id
        assert await asyncio.gather(*(decoder.decode(DATA, MANIFEST) for _ in range(3))) == (
            [expected] * 3
        )
        assert decoder.process_id == child

    asyncio.run(with_child(work))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_child_gets_no_secret_of_the_servers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOATHOUSE_SECRET_KEY", "secret-of-the-test")

    def environment(process_id: int | None) -> bytes:
        return Path(f"/proc/{process_id}/environ").read_bytes()

    async def work(decoder: decoding.ChildDecoder) -> bytes:
        await decoder.decode(DATA, MANIFEST)
        return environment(decoder.process_id)

    assert b"secret-of-the-test" not in asyncio.run(with_child(work))


def test_small_manifests_start_no_child() -> None:
    async def work() -> int | None:
        decoder = decoding.ChildDecoder()
        await decoder.decode(DATA, MANIFEST)
        return decoder.process_id

    assert len(DATA) < decoding.INLINE_BYTES_MAX
    assert asyncio.run(work()) is None


def test_small_manifests_of_an_unpartitioned_table_start_no_child() -> None:
    data, written = samples.encode(
        [samples.added(samples.data_file(number, spec_id=0, partition=())) for number in (1, 2)],
        spec={"spec-id": 0, "fields": []},
    )
    manifest = msgspec.structs.replace(written, sequence_number=9, first_row_id=100)

    async def work() -> tuple[list[manifests.ManifestEntry], int | None]:
        decoder = decoding.ChildDecoder()
        return await decoder.decode(data, manifest), decoder.process_id

    entries, process_id = asyncio.run(work())
    assert process_id is None
    assert entries == manifests.live_entries(data, manifest)
    assert [entry.data_file.partition for entry in entries] == [(), ()]


def with_snappy(data: bytes) -> bytes:
    """Return a deflated file of one block as a file of one snappy block."""
    header, block, _ = data.split(samples.SYNC)
    reader = avro.Block(block)
    count, size_bytes = reader.read_int(), reader.read_int()
    body = zlib.decompress(reader.take(size_bytes), -zlib.MAX_WBITS)
    packed = pa.Codec("snappy").compress(body, asbytes=True) + zlib.crc32(body).to_bytes(4, "big")
    head = bytearray()
    avro.write_int(head, count)
    avro.write_int(head, len(packed))
    named = header.replace(b"\x0edeflate", b"\x0csnappy")
    return named + samples.SYNC + head + packed + samples.SYNC


def test_a_small_snappy_manifest_does_not_import_pyarrow_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = with_snappy(DATA)
    assert len(data) < decoding.INLINE_BYTES_MAX

    async def work() -> tuple[list[manifests.ManifestEntry], bool]:
        decoder = decoding.ChildDecoder()
        try:
            return await decoder.decode(data, MANIFEST), decoder.process_id is not None
        finally:
            await decoder.close()

    expected = manifests.live_entries(DATA, MANIFEST)
    assert asyncio.run(work()) == (expected, False)  # this process has pyarrow
    with monkeypatch.context() as while_imported:  # as `importlib` marks an import that goes on
        while_imported.setattr(pa.__spec__, "_initializing", True, raising=False)
        assert asyncio.run(work()) == (expected, True)
    monkeypatch.delitem(sys.modules, "pyarrow")
    assert asyncio.run(work()) == (expected, True)
    assert "pyarrow" not in sys.modules


def test_a_child_that_cannot_import_pyarrow_refuses_snappy_and_lives_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # its import raises ImportError
    described = msgspec.msgpack.encode(MANIFEST)
    requests = io.BytesIO(
        b"".join(
            decoding_child.REQUEST.pack(decoding_child.Work.MANIFEST, len(described), len(data))
            + described
            + data
            for data in (with_snappy(DATA), DATA)
        )
    )
    answers = io.BytesIO()
    decoding_child.serve(requests, answers)
    answers.seek(0)
    frame, size = decoding_child.ANSWER.unpack(answers.read(decoding_child.ANSWER.size))
    assert frame == decoding_child.Frame.COMPLAINT
    assert b"snappy" in answers.read(size)
    frame, size = decoding_child.ANSWER.unpack(answers.read(decoding_child.ANSWER.size))
    assert frame == decoding_child.Frame.LAST
    assert manifests.unpack_entries(answers.read(size)) == manifests.live_entries(DATA, MANIFEST)


def test_a_broken_manifest_is_refused_and_the_child_lives_on() -> None:
    async def work(decoder: decoding.ChildDecoder) -> None:
        await decoder.decode(DATA, MANIFEST)
        child = decoder.process_id
        with pytest.raises(manifests.InvalidManifest, match="not an Avro container file"):
            await decoder.decode(b"garbage", MANIFEST)
        assert await decoder.decode(DATA, MANIFEST)
        assert decoder.process_id == child

    asyncio.run(with_child(work))


def test_a_child_that_dies_is_replaced() -> None:
    async def work(decoder: decoding.ChildDecoder) -> None:
        await decoder.decode(DATA, MANIFEST)
        child = decoder.process_id
        assert child is not None
        with pytest.raises(errors.DecodingInterrupted, match="try again"):
            await killed_while_it_decodes(decoder, DATA)
        assert await decoder.decode(DATA, MANIFEST)
        assert decoder.process_id != child

    asyncio.run(with_child(work))


async def killed_while_it_decodes(decoder: decoding.ChildDecoder, data: bytes) -> None:
    await decoder.decode(OTHER, MANIFEST)
    child = decoder.process_id
    assert child is not None
    os.kill(child, signal.SIGSTOP)  # it will not have answered when it dies
    is_asked, ask = asyncio.Event(), decoder._ask

    async def ask_and_kill(*request: Any) -> AsyncIterator[tuple[decoding.Frame, bytes]]:
        is_asked.set()  # the request is sent before another task runs
        async for answer in ask(*request):
            yield answer

    with mock.patch.object(decoder, "_ask", ask_and_kill):
        asking = asyncio.create_task(decoder.decode(data, MANIFEST))
        await is_asked.wait()
        os.kill(child, signal.SIGKILL)
        await asking


def test_a_file_that_ends_the_child_twice_is_refused_for_a_while_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(decoder: decoding.ChildDecoder) -> None:
        with pytest.raises(errors.DecodingInterrupted):
            await killed_while_it_decodes(decoder, DATA)
        with pytest.raises(manifests.DecoderDied, match="2 times"):
            await killed_while_it_decodes(decoder, DATA)
        assert await decoder.decode(OTHER, MANIFEST)
        child = decoder.process_id
        with pytest.raises(manifests.DecoderDied, match="2 times"):
            await decoder.decode(DATA, MANIFEST)
        assert decoder.process_id == child, "the child did not see the file again"
        loop = asyncio.get_running_loop()
        later = loop.time() + decoding.DEATHS_KEPT_SECONDS
        monkeypatch.setattr(loop, "time", lambda: later)
        assert await decoder.decode(DATA, MANIFEST)

    asyncio.run(with_child(work))


def test_files_that_end_the_child_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "DEATHS_KEPT_MAX", 1)

    async def work(decoder: decoding.ChildDecoder) -> None:
        for data in (DATA, OTHER + b"x", DATA):  # the second one takes the place of the first
            with pytest.raises(errors.DecodingInterrupted):
                await killed_while_it_decodes(decoder, data)

    asyncio.run(with_child(work))


def test_a_cancelled_question_never_answers_the_next_one() -> None:
    async def work(decoder: decoding.ChildDecoder) -> None:
        await decoder.decode(DATA, MANIFEST)
        asking = asyncio.create_task(decoder.decode(DATA, MANIFEST))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        (entry,) = await decoder.decode(OTHER, MANIFEST)
        assert entry.data_file.file_path == samples.data_file(7).file_path

    asyncio.run(with_child(work))


def test_close_ends_the_child() -> None:
    async def work() -> int:
        decoder = decoding.ChildDecoder(inline_bytes_max=0)
        await decoder.decode(DATA, MANIFEST)
        child = decoder.process_id
        assert child is not None
        await decoder.close()
        return child

    child = asyncio.run(work())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_the_child_serves_until_its_input_ends() -> None:
    described = msgspec.msgpack.encode(MANIFEST)
    size_of = decoding_child.REQUEST.pack
    manifest = decoding_child.Work.MANIFEST
    requests = io.BytesIO(
        b"".join(
            size_of(manifest, len(described), len(data)) + described + data
            for data in (DATA, b"garbage")
        )
    )
    answers = io.BytesIO()
    decoding_child.serve(requests, answers)
    answers.seek(0)
    frame, size = decoding_child.ANSWER.unpack(answers.read(decoding_child.ANSWER.size))
    assert frame == decoding_child.Frame.LAST
    assert manifests.unpack_entries(answers.read(size)) == manifests.live_entries(DATA, MANIFEST)
    frame, size = decoding_child.ANSWER.unpack(answers.read(decoding_child.ANSWER.size))
    assert frame == decoding_child.Frame.COMPLAINT
    assert answers.read(size) == b"not an Avro container file"
    assert answers.read() == b""
