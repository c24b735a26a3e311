"""Chunks that wait."""

from __future__ import annotations

import asyncio
import functools
import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sql import chunk_memory, shelves
from storage import disk as disks
from storage import errors, model


def shelf(folder: Path, memory_bytes_max: int, disk: disks.Disk | None = None) -> shelves.Shelf:
    ids = itertools.count()
    return shelves.Shelf(
        folder=folder / "results",
        disk=disk or disks.Disk(),
        new_id=lambda: f"{next(ids):032x}",
        memory_bytes_max=memory_bytes_max,
    )


def test_memory_comes_first_and_files_after_and_both_are_given_back(tmp_path: Path) -> None:
    async def story() -> None:
        small = shelf(tmp_path, 10)
        first, second = await small.keep(b"123456"), await small.keep(b"abcdef")
        assert first.piece == b"123456"
        assert isinstance(second.piece, model.FileSlice)
        assert second.piece.path.read_bytes() == b"abcdef"
        assert (second.piece.offset, second.piece.length) == (0, 6)
        assert (first.size_bytes, small.memory_bytes) == (6, 6)
        third = await small.keep(b"1234")
        assert third.piece == b"1234"
        del first
        assert small.memory_bytes == 4
        path = second.piece.path
        again = second
        del second
        assert path.exists()
        del again
        assert not path.exists()

    asyncio.run(story())


def test_what_an_earlier_process_left_is_removed(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "old").write_bytes(b"x")
        kept = await shelf(tmp_path, 0).keep(b"new")
        names = [path.name for path in (tmp_path / "results").iterdir()]
        assert isinstance(kept.piece, model.FileSlice)
        assert names == [kept.piece.path.name]

    asyncio.run(story())


PAGES = 4 << 20
"""The memory that a chunk of five bytes less takes."""


def mapped(number: int) -> memoryview:
    """As much memory as a worker's large chunk has, which does not end with a page."""
    data = chunk_memory.Pool(free_bytes_max=0).take(PAGES - 5)
    data[:] = bytes([number]) * len(data)
    return data.toreadonly()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - threads and finalizers make it true
            await asyncio.sleep(0.001)


def is_in_file(chunk: shelves.ShelvedBytes) -> bool:
    return isinstance(chunk.piece, model.FileSlice)


def test_fetched_chunks_move_to_files_in_their_order_and_new_ones_have_the_memory(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        small = shelf(tmp_path, 5 * PAGES)
        chunks = [await small.keep(mapped(number)) for number in range(5)]
        assert not any(map(is_in_file, chunks))
        for number in (3, 1, 3):
            small.note_fetched(chunks[number])
        await until(lambda: is_in_file(chunks[3]))
        assert [is_in_file(chunk) for chunk in chunks] == [False, True, False, True, False]
        await until(lambda: small.memory_bytes == 3 * PAGES)
        for number in (1, 3):
            piece = chunks[number].piece
            assert isinstance(piece, model.FileSlice)
            assert (piece.offset, piece.length) == (0, PAGES - 5)
            assert piece.path.read_bytes() == bytes([number]) * (PAGES - 5)
        more = [await small.keep(mapped(9)) for _ in range(2)]
        assert not any(map(is_in_file, more))
        assert is_in_file(await small.keep(mapped(9)))
        # One of three gives way: two are half of the memory.
        del more
        small.note_fetched(chunks[0])
        small.note_fetched(chunks[2])
        await until(lambda: is_in_file(chunks[0]))
        await until(lambda: small.memory_bytes == 2 * PAGES)
        assert not is_in_file(chunks[2])
        chunks.clear()
        assert list((tmp_path / "results").iterdir()) == []
        assert small.memory_bytes == 0

    asyncio.run(story())


def test_memory_counts_until_it_is_free_although_its_chunk_was_moved_or_dropped(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        small = shelf(tmp_path, PAGES)
        kept = await small.keep(mapped(1))
        assert isinstance(kept.piece, memoryview)
        sending = kept.piece[100:]
        small.note_fetched(kept)
        await until(functools.partial(is_in_file, kept))
        assert sending == bytes([1]) * (PAGES - 105)
        assert small.memory_bytes == PAGES
        del kept
        assert small.memory_bytes == PAGES
        assert is_in_file(await small.keep(mapped(2)))
        del sending
        assert small.memory_bytes == 0

    asyncio.run(story())


def test_memory_that_is_freed_while_other_memory_is_counted_counts_as_well(tmp_path: Path) -> None:
    small = shelf(tmp_path, 5 * PAGES)
    chunks = [asyncio.run(small.keep(mapped(number))) for number in range(2)]

    lines = itertools.count(1)

    def free_another(frame: Any, event: str, argument: object) -> Any:
        is_line = event == "line" and frame.f_code is shelves.Shelf._count.__code__
        if is_line and next(lines) == 2:  # the first takes the lock
            chunks.pop()
        return free_another

    def free() -> None:
        sys.settrace(free_another)  # as a collection of garbage does at any line
        del chunks[1:]

    thread = threading.Thread(target=free, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert (chunks, small.memory_bytes) == ([], 0)


def test_a_chunk_that_is_dropped_while_it_moves_leaves_no_file(tmp_path: Path) -> None:
    async def story() -> None:
        small = shelf(tmp_path, PAGES)
        kept = await small.keep(mapped(1))
        small.note_fetched(kept)
        await asyncio.sleep(0)
        del kept
        await until(lambda: small.memory_bytes == 0)
        await until(lambda: not any((tmp_path / "results").iterdir()))

    asyncio.run(story())


def test_a_chunk_stays_in_memory_when_the_disk_has_no_room(tmp_path: Path) -> None:
    class FullDisk(disks.Disk):
        writes = 0

        def write_past_cache(self, descriptor: int, data: bytes | memoryview) -> None:
            self.writes += 1
            raise errors.DiskFull("full")

        def has_tried(self, times: int) -> bool:
            return self.writes == times

    async def story() -> None:
        disk = FullDisk()
        small = shelf(tmp_path, PAGES, disk)
        kept = await small.keep(mapped(1))
        for times in (1, 2):
            small.note_fetched(kept)
            await until(functools.partial(disk.has_tried, times))
            await until(lambda: not any((tmp_path / "results").iterdir()))
            assert kept.piece == bytes([1]) * (PAGES - 5)
            assert small.memory_bytes == PAGES
            await asyncio.sleep(0)

    asyncio.run(story())


def test_chunks_that_are_small_or_were_encoded_here_stay_in_memory(tmp_path: Path) -> None:
    async def story() -> None:
        small = shelf(tmp_path, 10)
        kept = await small.keep(b"12345678")
        small.note_fetched(kept)
        await asyncio.sleep(0.05)
        assert kept.piece == b"12345678"

    asyncio.run(story())
