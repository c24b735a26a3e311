"""Local paths of bodies: linked or joined, bounded, disposable."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import errors
from storage.disk import Disk
from storage.links import Links
from storage.model import ByteRange, ObjectInfo
from storage.opening import Storage
from tests.kit import folders

BIG = b"0123456789abcdef" * 10_000


@pytest.fixture
def storage(tmp_path: Path, clock: folders.Clock) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path / "data", clock=clock)
    asyncio.run(folders.make_bucket(opened))
    yield opened
    opened.close()


def put(storage: Storage, key: str, data: bytes) -> ObjectInfo:
    return asyncio.run(folders.put(storage, key, data))


def in_parts(storage: Storage, key: str, *bodies: bytes) -> ObjectInfo:
    """Make an object of several segments, by copying ranges of others as parts."""

    async def make() -> ObjectInfo:
        storage.uploads._part_bytes_min = 1
        upload = await storage.uploads.create("raw", key, attributes=folders.PLAIN)
        named = []
        for number, data in enumerate(bodies, 1):
            received = await storage.blobs.store(data, digests=folders.MD5)
            part = await storage.uploads.put_part("raw", key, upload.upload_id, number, received)
            named.append((number, part.etag))
        return await storage.uploads.complete("raw", key, upload.upload_id, named)

    return asyncio.run(make())


def first_half(storage: Storage, source: ObjectInfo) -> ObjectInfo:
    """Make an object that is the front of another's blob."""

    async def make() -> ObjectInfo:
        upload = await storage.uploads.create("raw", "half", attributes=folders.PLAIN)
        half = ByteRange(start=0, stop=source.size_bytes // 2)
        part = await storage.uploads.copy_part("raw", "half", upload.upload_id, 1, source, half)
        named = [(1, part.etag)]
        return await storage.uploads.complete("raw", "half", upload.upload_id, named)

    return asyncio.run(make())


def test_a_body_that_is_one_blob_is_linked_and_not_copied(storage: Storage) -> None:
    info = put(storage, "k", BIG)
    path = storage.links.path_of(info)
    assert path.read_bytes() == BIG
    blob = storage.blobs.path_of(info.body.segments[0].blob)
    assert path.stat().st_ino == blob.stat().st_ino
    assert storage.links.path_of(info) == path


def test_every_other_body_is_joined_once(storage: Storage) -> None:
    cases = {
        b"": put(storage, "empty", b""),
        b"small": put(storage, "small", b"small"),
        BIG + b"middle" + BIG: in_parts(storage, "parts", BIG, b"middle", BIG),
        BIG[: len(BIG) // 2]: first_half(storage, put(storage, "whole", BIG)),
    }
    for data, info in cases.items():
        path = storage.links.path_of(info)
        assert path.read_bytes() == data
        inode = path.stat().st_ino
        assert storage.links.path_of(info).stat().st_ino == inode


def test_a_link_outlives_the_object(storage: Storage, clock: folders.Clock) -> None:
    path = storage.links.path_of(put(storage, "k", BIG))
    asyncio.run(storage.objects.delete("raw", "k"))
    clock.move(10**9)
    asyncio.run(storage.sweep.once())
    assert path.read_bytes() == BIG


def test_a_directory_holds_every_file_under_its_name(storage: Storage, tmp_path: Path) -> None:
    files = [
        ("a.parquet", put(storage, "1", BIG)),
        ("b.parquet", put(storage, "2", b"small")),
        ("same.parquet", put(storage, "3", BIG)),
    ]
    path = storage.links.directory("table-7", files)
    assert {each.name: each.read_bytes() for each in path.iterdir()} == {
        "a.parquet": BIG, "b.parquet": b"small", "same.parquet": BIG,
    }  # fmt: skip
    assert storage.links.directory("table-7", []) == path
    assert list((tmp_path / "data" / "cache" / "tmp").iterdir()) == []


def test_a_directory_with_a_missing_body_is_not_made(storage: Storage, tmp_path: Path) -> None:
    good, bad = put(storage, "1", BIG), put(storage, "2", BIG + b"2")
    storage.blobs.path_of(bad.body.segments[0].blob).unlink()
    with pytest.raises(errors.BodyMissing):
        storage.links.directory("t", [("a", good), ("b", bad)])
    assert list((tmp_path / "data" / "cache" / "tmp").iterdir()) == []
    assert not (tmp_path / "data" / "cache" / "directories" / "t").exists()
    with pytest.raises(errors.BodyMissing):
        storage.links.path_of(bad)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\x00b", "x" * 256])
def test_a_name_that_is_no_plain_file_name_is_refused(storage: Storage, name: str) -> None:
    info = put(storage, "k", b"x")
    with pytest.raises(ValueError, match="plain"):
        storage.links.directory(name, [])
    with pytest.raises(ValueError, match="plain"):
        storage.links.directory("d", [(name, info)])


def bounded(storage: Storage, tmp_path: Path, clock: folders.Clock) -> Links:
    return Links(
        folder=tmp_path / "data" / "cache",
        blobs=storage.blobs,
        disk=storage.disk,
        now_ms=clock,
        new_id=folders.Ids("links"),
        joined_bytes_max=25,
        linked_max=2,
        directories_max=2,
        idle_ms=1000,
    )


def test_past_its_bounds_the_cache_loses_what_was_idle_longest(
    storage: Storage, tmp_path: Path, clock: folders.Clock
) -> None:
    links = bounded(storage, tmp_path, clock)
    infos = [put(storage, f"{number}", b"%010d" % number) for number in range(5)]
    paths = [links.path_of(info) for info in infos[:2]]
    clock.move(1001)
    assert links.path_of(infos[0]) == paths[0]
    paths.append(links.path_of(infos[2]))
    assert [path.exists() for path in paths] == [True, False, True]
    paths += [links.path_of(info) for info in infos[3:]]
    assert [path.exists() for path in paths] == [True, False, True, True, True], "all in use"
    clock.move(1001)
    assert links.path_of(infos[1]).read_bytes() == b"%010d" % 1
    assert sum(path.exists() for path in paths) == 2


def test_directories_and_links_are_bounded_too(
    storage: Storage, tmp_path: Path, clock: folders.Clock
) -> None:
    links = bounded(storage, tmp_path, clock)
    for number in range(4):
        info = put(storage, f"{number}", BIG + b"%d" % number)
        links.path_of(info)
        links.directory(f"d{number}", [("f", info)])
        clock.move(1001)
    cache = tmp_path / "data" / "cache"
    assert {path.name for path in (cache / "directories").iterdir()} == {"d2", "d3"}
    assert len(list((cache / "linked").iterdir())) == 2


def test_a_folder_that_is_present_is_in_use_and_an_absent_one_is_not_made(
    storage: Storage, tmp_path: Path, clock: folders.Clock
) -> None:
    links = bounded(storage, tmp_path, clock)
    info = put(storage, "a", b"a" * 10)
    assert links.present("first") is None
    first = links.directory("first", [("f", info)])
    second = links.directory("second", [("f", info)])
    clock.move(1001)
    assert links.present("first") == first
    third = links.directory("third", [("f", info)])
    assert [path.exists() for path in (first, second, third)] == [True, False, True]
    assert links.present("second") is None
    assert not second.exists()
    with pytest.raises(ValueError, match="plain"):
        links.present("..")


def test_a_folder_counts_as_absent_while_another_thread_makes_paths(storage: Storage) -> None:
    info = put(storage, "a", b"a")
    folder = storage.links.directory("d", [("f", info)])
    with storage.links._lock:
        assert storage.links.present("d") is None
    assert storage.links.present("d") == folder


def test_a_restart_begins_with_an_empty_cache(tmp_path: Path, clock: folders.Clock) -> None:
    storage = folders.open_folder(tmp_path / "data", clock=clock)
    asyncio.run(folders.make_bucket(storage))
    info = put(storage, "k", BIG)
    storage.links.directory("d", [("f", info), ("g", put(storage, "s", b"small"))])
    storage.close()
    again = folders.open_folder(tmp_path / "data", clock=clock)
    assert list((tmp_path / "data" / "cache").iterdir()) == []
    path = again.links.directory("d", [("f", info)])
    assert hashlib.md5((path / "f").read_bytes()).hexdigest() == info.etag
    again.close()


class FullDisk(Disk):
    """A disk on which nothing new fits below a folder; elsewhere it is as it is."""

    def __init__(self, full: Path) -> None:
        self.full = full

    def make_folder(self, path: Path) -> None:
        if path.is_relative_to(self.full) and not path.exists():
            raise errors.DiskFull("no room")
        super().make_folder(path)

    def link(self, source: Path, target: Path) -> None:
        if target.is_relative_to(self.full):
            raise errors.DiskFull("no room")
        super().link(source, target)


def test_on_a_full_disk_a_spare_cache_serves_paths_and_goes_with_its_owner(
    storage: Storage, clock: folders.Clock, tmp_path: Path
) -> None:
    whole, small = put(storage, "big", BIG), put(storage, "small", b"abc")
    full = Links(
        folder=tmp_path / "full" / "cache",
        blobs=storage.blobs,
        disk=FullDisk(tmp_path / "full"),
        now_ms=clock,
        new_id=lambda: uuid.uuid4().hex,
    )

    folder = full.directory("snapshot", [("0", whole), ("1", small)])
    path = full.path_of(small)

    assert not folder.is_relative_to(tmp_path)
    assert [(folder / name).read_bytes() for name in "01"] == [BIG, b"abc"]
    assert path.read_bytes() == b"abc"
    assert full.directory("snapshot", []) == folder
    full.close()
    assert not folder.exists()
    assert not path.exists()
    assert not (tmp_path / "full").exists()


def test_the_spare_cache_has_a_bound(
    storage: Storage, clock: folders.Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.links.SPARE_BYTES_MAX", 4)
    full = Links(
        folder=tmp_path / "full" / "cache",
        blobs=storage.blobs,
        disk=FullDisk(tmp_path / "full"),
        now_ms=clock,
        new_id=lambda: uuid.uuid4().hex,
    )
    assert full.path_of(put(storage, "a", b"abc")).read_bytes() == b"abc"
    with pytest.raises(errors.DiskFull):
        full.path_of(put(storage, "b", b"def"))
    full.close()
