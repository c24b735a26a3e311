"""Local copies of files of mounts: one copy for all who need it, bounded, without remains."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from catalog import errors
from catalog.mounts import mirror
from storage.opening import Storage
from tests.kit import folders


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path / "data", clock=folders.Clock())
    yield opened
    opened.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def make(storage: Storage, bytes_max: int = 1000) -> mirror.Mirror:
    numbers = iter(range(10_000))
    return mirror.Mirror(
        blobs=storage.blobs,
        disk=storage.disk,
        scratch=storage.path / "tmp",
        new_id=lambda: f"{next(numbers):032x}",
        bytes_max=bytes_max,
    )


def copying(counts: dict[str, int], size_bytes: int = 400) -> Callable[[str], mirror.Copy]:
    lock = threading.Lock()

    def of(uri: str) -> mirror.Copy:
        def copy(write: Callable[[bytes], None], bytes_max: int) -> int:
            with lock:
                counts[uri] = counts.get(uri, 0) + 1
            if "broken" in uri:
                write(b"part")
                raise errors.MountUnavailable(f"{uri} broke off")
            write(uri.encode().ljust(size_bytes, b"."))
            return size_bytes

        return copy

    return of


def remains(storage: Storage) -> list[Path]:
    folders_of_bodies = (storage.path / "tmp", storage.path / "blobs")
    return [path for each in folders_of_bodies for path in each.rglob("*") if path.is_file()]


def test_callers_that_need_one_file_at_once_wait_for_one_copy(
    storage: Storage, pool: ThreadPoolExecutor
) -> None:
    counts: dict[str, int] = {}
    copies = make(storage)

    async def run() -> None:
        wanted = [copies.bring("m", ["a", "b", "a"], copying(counts), pool) for _ in range(10)]
        await asyncio.gather(*wanted)

    asyncio.run(run())
    assert counts == {"a": 1, "b": 1}
    assert storage.objects.read(copies.find("m", "a")).startswith(b"a....")
    with pytest.raises(errors.MetadataFileMissing):
        copies.find("another mount", "a")


def test_a_copy_that_breaks_off_leaves_nothing_and_is_tried_again(
    storage: Storage, pool: ThreadPoolExecutor
) -> None:
    counts: dict[str, int] = {}
    copies = make(storage)
    for _ in range(2):
        with pytest.raises(errors.MountUnavailable, match="broke off"):
            asyncio.run(copies.bring("m", ["broken"], copying(counts), pool))
    assert counts == {"broken": 2}
    assert remains(storage) == []


def test_after_a_failure_no_further_files_are_begun(
    storage: Storage, pool: ThreadPoolExecutor
) -> None:
    counts: dict[str, int] = {}
    uris = ["broken", *(str(number) for number in range(200))]
    with pytest.raises(errors.MountUnavailable):
        asyncio.run(make(storage).bring("m", uris, copying(counts, 1), pool))
    assert len(counts) == mirror.FILES_AT_ONCE


def test_the_copies_unused_for_longest_make_room_but_none_that_a_query_may_link_now(
    storage: Storage, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: dict[str, int] = {}
    copies = make(storage)
    asyncio.run(copies.bring("m", ["a", "b"], copying(counts), pool))
    with pytest.raises(errors.MountUnavailable, match="raise mount_cache_mib"):
        asyncio.run(copies.bring("m", ["c"], copying(counts), pool))
    copies.find("m", "a")
    monkeypatch.setattr(mirror, "KEPT_SECONDS", -1)
    asyncio.run(copies.bring("m", ["c"], copying(counts), pool))
    assert copies.find("m", "a").size_bytes == copies.find("m", "c").size_bytes == 400
    with pytest.raises(errors.MetadataFileMissing):
        copies.find("m", "b")
    assert len(remains(storage)) == 2
    copies.close()
    assert remains(storage) == []
