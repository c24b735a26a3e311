"""Buckets of very many objects: rows of the index, written without a body for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from storage import keys, lookups, opening, records
from storage.batch import Batch, Put, Store
from tests.kit import folders

ROWS_AT_ONCE = 20_000


def names_of(count: int) -> Iterator[bytes]:
    """Yield keys: one half in a single folder, the other in folders of four, at two levels."""
    for number in range(count // 2):
        yield b"deep/%08d" % number
    for number in range(count // 2):
        yield b"wide/%07d/%d" % divmod(number, 4)


async def make(storage: opening.Storage, bucket: str, count: int) -> None:
    """Create a versioned bucket of count keys of two versions each, whose bodies are empty."""
    info = await folders.make_bucket(storage, bucket)
    await storage.buckets.set_versioning(bucket, "Enabled", bucket_id=info.bucket_id)
    for _ in range(2):
        await folders.put(storage, "0", b"", bucket=bucket)
    with storage.index.view() as view:
        bucket_id = records.bucket_id(lookups.find_bucket(view, bucket))
        ((_, _, newest),) = keys.walk(view, Store.OBJECTS, bucket_id)
        ((_, position, older),) = keys.walk(view, Store.VERSIONS, bucket_id)
        names = names_of(count)
        while some := list(itertools.islice(names, ROWS_AT_ONCE)):
            addresses = [keys.place(view, Store.OBJECTS, bucket_id, name)[0] for name in some]
            objects = [Put(store=Store.OBJECTS, key=each, value=newest) for each in addresses]
            versions = [
                Put(store=Store.VERSIONS, key=each + position, value=older) for each in addresses
            ]
            await storage.index.commit(Batch(writes=(*objects, *versions)))
