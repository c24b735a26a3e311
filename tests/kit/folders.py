"""A data folder opened by itself, with a clock and ids that tests can foresee."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from storage import batch, keys, lookups, model, opening, records
from storage.disk import Disk
from tests.kit import intakes

Result = TypeVar("Result")
START_MS = 1_700_000_000_000
MD5 = frozenset({"md5"})
PLAIN = model.ObjectAttributes()


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.time_ms = now_ms

    def __call__(self) -> int:
        return self.time_ms

    def move(self, ms: int) -> None:
        self.time_ms += ms


class Ids:
    """Ids that look random and are the same in every run."""

    def __init__(self, seed: str = "") -> None:
        self.seed = seed
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return hashlib.blake2b(f"{self.seed}{self.count}".encode(), digest_size=16).hexdigest()


def open_folder(
    path: Path,
    *,
    disk: Disk | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    **options: Any,
) -> opening.Storage:
    """Open a data folder with a small map, so that tests are cheap."""
    settings: Mapping[str, Any] = {
        "map_size_bytes": 1 << 30,
        "reserve_bytes": 64 << 10,
        **options,
    }
    return opening.open_storage(
        path,
        disk=disk or Disk(),
        now_ms=clock or Clock(),
        new_id=ids or Ids(str(path)),
        **settings,
    )


def run(work: Awaitable[Result]) -> Result:
    """Wait for work in an event loop of its own."""

    async def wait() -> Result:
        return await work

    return asyncio.run(wait())


class Turns:
    """Counts the turns that others get on the event loop while a block runs."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._take())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _take(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


async def make_bucket(storage: opening.Storage, name: str = "raw") -> model.BucketInfo:
    """Make a general bucket."""
    return await storage.buckets.create(name, bucket_type="general", owner="root", region="here")


async def put(
    storage: opening.Storage,
    key: str,
    data: bytes,
    *,
    bucket: str = "raw",
    attributes: model.ObjectAttributes = PLAIN,
    precondition: model.Precondition = model.ALWAYS,
) -> model.ObjectInfo:
    """Put a whole body."""
    received = await storage.blobs.store(data, digests=MD5)
    return await storage.objects.put(
        bucket, key, received, attributes=attributes, precondition=precondition
    )


async def store_by_process(storage: opening.Storage, data: bytes) -> model.Received:
    """Receive a whole body as another process does, in a thread with this storage's disk."""
    async with intakes.receivers_of(storage.disk) as receivers:
        receiver = storage.blobs.receive(size_hint=len(data), digests=MD5)
        try:
            with intakes.sending(receivers, data) as sent:
                assert await receiver.write_from(sent.intake) == len(data)
            return await receiver.finish()
        except BaseException:
            await receiver.abort()
            raise


def get(storage: opening.Storage, key: str, *, bucket: str = "raw") -> bytes:
    """Return a whole body."""
    return storage.objects.read(storage.objects.head(bucket, key))


class Tombstone(NamedTuple):
    """One row of the store of tombstones."""

    key: str
    at_ms: int
    by: str


def tombstones(storage: opening.Storage, bucket: str = "raw") -> list[Tombstone]:
    """Return the tombstones of a bucket, in byte order of their keys."""
    bucket_id = storage.buckets.get(bucket).bucket_id
    with storage.index.view() as view:
        rows = [
            (key.decode(), records.decode_tombstone(value))
            for key, _, value in keys.walk(view, batch.Store.TOMBSTONES, bucket_id)
        ]
    return [Tombstone(key, record.at_ms, record.by) for key, record in rows]


async def remove_tombstone(
    storage: opening.Storage, key: str, *, bucket: str = "raw", by: str = "me"
) -> int:
    """Show a hidden object again, as the sweep of tables does; return how many are shown."""
    info = storage.buckets.get(bucket)
    with storage.index.view() as view:
        value = lookups.find(view, info.bucket_id, key)
    assert value is not None, "the object exists"
    record = records.decode_object(value)
    seen = model.Seen(
        key=key.encode(),
        value=value,
        size_bytes=record.size_bytes,
        segments=len(record.segments),
    )
    return await storage.objects.show_hidden(info, (seen,), by=by)


def blob_files(path: Path) -> set[str]:
    """Return the names of all blob files of a data folder."""
    return {file.name for file in files_of(path / "blobs")}


def files_of(path: Path) -> list[Path]:
    """Return all files below a folder; `rglob` takes ten times as long."""
    return [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
