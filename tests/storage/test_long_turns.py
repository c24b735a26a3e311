"""Changes that take the writer long: one at a time, and small writes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from storage import index, lookups
from storage.batch import TakesLong
from storage.disk import Disk
from storage.model import ObjectInfo, Seen
from storage.opening import Storage
from storage.removals import Removal
from storage.uploads import Uploads
from tests.kit import folders

BIG = b"0123456789abcdef" * 10_000
run = folders.run


class CountingDisk(Disk):
    """Counts the transactions of the index."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions = 0

    def transact(self, commit: Callable[[], Any]) -> None:
        self.transactions += 1
        super().transact(commit)


LONG_CHANGES = (
    "delete",
    "delete a version",
    "delete many",
    "copy",
    "replace",
    "replace from memory",
    "replace by a copy",
    "complete",
    "complete over an object",
    "complete without the other parts",
    "send a part again",
    "abort",
    "free",
)


@pytest.mark.parametrize("change", LONG_CHANGES)
def test_each_change_of_many_segments_has_a_transaction_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Sixteen deletions of 10,000 segments each held all other writers for two seconds."""
    disk = CountingDisk()
    storage = folders.open_folder(tmp_path / "data", disk=disk)
    monkeypatch.setattr(index, "LONG_ROWS", 2)
    uploads = Uploads(
        index=storage.index,
        blobs=storage.blobs,
        now_ms=folders.Clock(),
        new_id=folders.Ids("parts"),
        part_bytes_min=0,
    )

    async def upload_of(key: str, count: int) -> tuple[str, list[tuple[int, str]]]:
        upload_id = (await uploads.create("raw", key, attributes=folders.PLAIN)).upload_id
        sent = []
        for number in range(1, count + 1):
            received = await storage.blobs.store(b"part", digests=folders.MD5)
            part = await uploads.put_part("raw", key, upload_id, number, received)
            sent.append((number, part.etag))
        return upload_id, sent

    async def large(key: str) -> ObjectInfo:
        upload_id, sent = await upload_of(key, 4)
        return await uploads.complete("raw", key, upload_id, sent)

    async def change_of(key: str) -> Awaitable[Any]:
        objects_of = storage.objects
        match change:
            case "delete":
                await large(key)
                return objects_of.delete("raw", key)
            case "delete a version":
                await large(key)
                return objects_of.delete("raw", key, version_id="null")
            case "delete many":
                await large(key)
                return objects_of.delete_many("raw", (Removal(key=key),))
            case "copy":
                source = await large(key)
                return objects_of.copy(source, "raw", f"{key}-copy", attributes=folders.PLAIN)
            case "replace":
                await large(key)
                return folders.put(storage, key, BIG)
            case "replace from memory":
                await large(key)
                received = await storage.blobs.store(b"x", digests=folders.MD5)
                started = objects_of.start_put("raw", key, received, attributes=folders.PLAIN)
                with pytest.raises(TakesLong):
                    await started
                return objects_of.put("raw", key, received, attributes=folders.PLAIN)
            case "replace by a copy":
                source = await folders.put(storage, f"{key}-source", b"x")
                await large(key)
                return objects_of.copy(source, "raw", key, attributes=folders.PLAIN)
            case "complete" | "complete over an object":
                if change != "complete":
                    await large(key)
                upload_id, sent = await upload_of(key, 2 if change != "complete" else 4)
                return uploads.complete("raw", key, upload_id, sent)
            case "complete without the other parts":
                upload_id, sent = await upload_of(key, 4)
                return uploads.complete("raw", key, upload_id, sent[:1])
            case "send a part again":
                source = await large(f"{key}-source")
                upload_id, _ = await upload_of(key, 0)
                await uploads.copy_part("raw", key, upload_id, 1, source)
                received = await storage.blobs.store(b"part", digests=folders.MD5)
                return uploads.put_part("raw", key, upload_id, 1, received)
            case "abort":
                upload_id, _ = await upload_of(key, 4)
                return uploads.abort("raw", key, upload_id)
            case _:
                await large(key)
                seen = await storage.blobs.run(lambda: seen_of(key))
                return objects_of.free_seen(bucket, (seen,), check=lambda reading: None)

    def seen_of(key: str) -> Seen:
        with storage.index.view() as view:
            value = lookups.find(view, bucket.bucket_id, key)
        assert value is not None
        return Seen(key=key.encode(), value=value, size_bytes=16, segments=4)

    async def transactions_of(keys: Sequence[str]) -> int:
        changes = [await change_of(key) for key in keys]
        before = disk.transactions
        await asyncio.gather(*changes)
        return disk.transactions - before

    bucket = run(folders.make_bucket(storage))
    assert run(transactions_of(["a", "b", "c", "d"])) >= 4
    storage.close()


def test_a_small_write_comes_between_two_changes_of_many_segments(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "LONG_ROWS", 0)
    some = [run(folders.put(storage, f"k{number}", BIG)) for number in range(4)]
    ended: list[str] = []

    async def note(name: str, work: Awaitable[Any]) -> None:
        await work
        ended.append(name)

    async def race() -> None:
        deletions = [note("delete", storage.objects.delete("raw", info.key)) for info in some]
        await asyncio.gather(*deletions, note("put", folders.put(storage, "small", b"x")))

    run(race())
    assert ended.count("delete") == len(some)
    assert ended.index("put") <= 1


def test_changes_of_many_segments_are_done_in_each_loop(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "LONG_ROWS", 0)
    names = [f"k{number}" for number in range(4)]

    async def delete_all() -> None:
        for name in names:
            await folders.put(storage, name, BIG)
        await asyncio.gather(*(storage.objects.delete("raw", name) for name in names))

    for _ in range(2):
        asyncio.run(delete_all())
    assert storage.objects.list("raw").objects == ()
