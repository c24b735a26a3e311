"""A disk that is really full: a small file system in memory, where we may mount one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import errors
from storage.opening import Storage
from tests.kit import folders, invariants
from tests.kit import small_disk as small_disks

DISK_MIB = 24


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disks.mounted(tmp_path / "disk", mib=DISK_MIB) as place:
        yield place


async def fill(storage: Storage, name: str, size_bytes: int) -> int:
    """Put objects until the disk refuses one; return how many it took."""
    count = 0
    while True:
        try:
            await folders.put(storage, f"{name}{count:04d}", name.encode() * size_bytes)
        except errors.DiskFull:
            return count
        count += 1


def test_a_full_disk_refuses_writes_but_not_deletes(small_disk: Path) -> None:
    storage = folders.open_folder(small_disk / "data", reserve_bytes=4 << 20)

    async def live() -> None:
        await folders.make_bucket(storage)
        large = await fill(storage, "L", 1_000_000)
        assert large >= DISK_MIB - 10
        counts = {
            "L": large,
            "M": await fill(storage, "M", 30_000),
            "S": await fill(storage, "S", 9),
        }
        kept = [info.key for info in storage.objects.list("raw").objects]
        assert kept == [f"{name}{n:04d}" for name in "LMS" for n in range(counts[name])]
        assert folders.get(storage, "L0000") == b"L" * 1_000_000
        for number in range(large):
            await storage.objects.delete("raw", f"L{number:04d}")
        with pytest.raises(errors.DiskFull):
            await folders.put(storage, "still-full", b"x" * 1_000_000)
        while await storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1):
            pass
        storage.index.tend()
        await folders.put(storage, "again", b"x" * 1_000_000)
        invariants.check(storage, small_disk / "data")

    asyncio.run(live())
    before = storage.objects.list("raw")
    storage.close()
    again = folders.open_folder(small_disk / "data", reserve_bytes=4 << 20)
    assert again.objects.list("raw") == before
    invariants.check_recovered(again, small_disk / "data")
    again.close()
