"""Chunks that wait."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from sql import shelves
from storage import disk as disks
from storage import model


def shelf(folder: Path, memory_bytes_max: int) -> shelves.Shelf:
    ids = itertools.count()
    return shelves.Shelf(
        folder=folder / "results",
        disk=disks.Disk(),
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
