"""Manifests and lists that cost more than their size: the event loop goes on, memory is bounded."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog import decoding, decoding_child, manifests
from tests.kit import avrofiles, examples, stalls

LAG_SECONDS_MAX = 0.25
GROWTH_BYTES_MAX = 300 * 1024 * 1024
SECONDS_MAX = 30
LISTS = avrofiles.hostile_lists()
FURTHER = {"250 MB in bzip2", "250 MB in 25 KiB of zstandard"}
"""As large as that of deflate, of other codecs: by `make test-all`."""


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def _worst_lag(work: asyncio.Future[object]) -> float:
    """Return by how much the loop came late at worst, without its waits for a processor."""
    worst = 0.0
    while not work.done():
        before, waited = time.monotonic(), stalls.waited_seconds()
        await asyncio.sleep(0.002)
        lag = time.monotonic() - before - 0.002
        worst = max(worst, lag - (stalls.waited_seconds() - waited))
    return worst


@pytest.fixture
def own_heap() -> Iterator[None]:
    """Keep the heap of the test run out of garbage collections: they are no work of the decoder."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.alone
@pytest.mark.usefixtures("own_heap")
@pytest.mark.parametrize("name", examples.further(LISTS, *(set(LISTS) - FURTHER)))
def test_a_hostile_list_holds_neither_the_loop_nor_memory(name: str) -> None:
    data = LISTS[name]()

    async def work() -> tuple[float, float]:
        decoder = decoding.ChildDecoder()
        await decoder.decode_list(avrofiles.container(avrofiles.LIST_SCHEMA, [], codec="xz"))
        try:
            began, before = time.monotonic(), resident_bytes()
            decoding_task = asyncio.ensure_future(decoder.decode_list(data))
            lag = await _worst_lag(decoding_task)
            if decoding_task.exception() is not None:
                assert isinstance(decoding_task.exception(), manifests.InvalidManifest)
            assert resident_bytes() - before < GROWTH_BYTES_MAX
            return lag, time.monotonic() - began
        finally:
            await decoder.close()

    lag, seconds = asyncio.run(work())
    assert lag < LAG_SECONDS_MAX
    assert seconds < SECONDS_MAX


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "bzip2", "xz"])
@pytest.mark.parametrize("count", [1, 3_000])
def test_a_list_is_the_same_decoded_here_and_in_the_child(codec: str, count: int) -> None:
    record = avrofiles.list_record()
    data = avrofiles.container(avrofiles.LIST_SCHEMA, [(count, record * count)], codec=codec)

    async def work() -> tuple[list[manifests.ManifestFile], int | None]:
        decoder = decoding.ChildDecoder()
        try:
            return await decoder.decode_list(data), decoder.process_id
        finally:
            await decoder.close()

    listed, child = asyncio.run(work())
    assert len(listed) == count
    assert listed == manifests.decode_manifest_list(data)
    assert (child is None) == (count == 1 and codec not in ("bzip2", "xz"))


def test_the_childs_memory_is_bounded_by_the_system() -> None:
    async def work() -> str:
        decoder = decoding.ChildDecoder(inline_bytes_max=0)
        try:
            await decoder.decode_list(avrofiles.container(avrofiles.LIST_SCHEMA, []))
            place = Path(f"/proc/{decoder.process_id}/limits")
            return await asyncio.to_thread(place.read_text)
        finally:
            await decoder.close()

    (line,) = [
        line for line in asyncio.run(work()).splitlines() if line.startswith("Max address space")
    ]
    assert line.split()[3:5] == [str(decoding_child.MEMORY_BYTES_MAX)] * 2
