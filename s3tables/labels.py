"""engine: the tags of table buckets and tables.

A table bucket's tags are among its settings. A table's tags are a separate row under its object
uuid, which is never reused: the tags survive renames, and a table that is dropped and restored has
them again. Every change is computed from the tags at the time of its commit. Policies may test
tags, so a change of tags counts as a change of the bucket's policies: a write that was judged
before it is judged again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog import commit, errors, records
from storage import batch, model, tags
from storage import settings as stored_settings
from storage.buckets import Buckets
from storage.index import Index

BUCKET_SETTING: Final = tags.BUCKET_SETTING

Tags: TypeAlias = dict[str, str]
Change: TypeAlias = Callable[[Tags], Tags]
"""Computes new tags from the old. Pure: it may be called more than once, and may raise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableKey:
    """The table that tags belong to."""

    bucket_id: int
    object_uuid: str

    def encode(self) -> bytes:
        """Return the key of the row in TAGS."""
        return self.bucket_id.to_bytes(4, "big") + uuid.UUID(self.object_uuid).bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """The tags of table buckets and tables."""

    index: Index
    buckets: Buckets

    def of_bucket(self, name: str) -> Tags:
        """Return a table bucket's tags. Raises NoSuchBucket."""
        return _of_settings(self.buckets.get(name).settings)

    async def change_bucket(
        self, bucket: model.BucketInfo, change: Change, *, expects: tuple[batch.Expect, ...] = ()
    ) -> None:
        """Change a bucket's tags in one transaction.

        expects: further rows as they must be. Raises NoSuchBucket, ExpectationFailed and change's
        errors.
        """

        def change_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**settings, BUCKET_SETTING: change(_of_settings(settings))}

        await self.buckets.change(
            bucket.name,
            change_settings,
            bucket_id=bucket.bucket_id,
            expects=expects,
            also=_counted(bucket.bucket_id),
        )

    def of_table(self, key: TableKey) -> Tags:
        """Return a table's tags."""
        return tags.read(self.index, key.encode())

    async def change_table(
        self,
        place: records.Place,
        object_uuid: str,
        change: Change,
        *,
        expects: tuple[batch.Expect, ...] = (),
    ) -> None:
        """Change a table's tags in one transaction.

        expects: further rows as they must be. Raises NoSuchTable, ExpectationFailed and change's
        errors.
        """
        key = TableKey(bucket_id=place.bucket_id, object_uuid=object_uuid)
        missing = errors.NoSuchTable(f"Table does not exist: {object_uuid}")
        held = commit.hold_thing(place, object_uuid, missing=missing)
        expected = batch.Batch(expects=expects)
        changed = batch.merge((self.plan_table(key, change), _counted(place.bucket_id)))
        await self.index.commit(batch.merge((expected, held, changed)))

    def plan_table(self, key: TableKey, change: Change) -> batch.Batch:
        """Return the Batch that changes a table's tags, to merge into a larger one."""
        row_key = key.encode()

        def derive(reading: batch.Reading) -> Sequence[batch.Write]:
            after = change(tags.decode(reading.get(batch.Store.TAGS, row_key)))
            if not after:
                return (batch.Delete(store=batch.Store.TAGS, key=row_key),)
            return (batch.Put(store=batch.Store.TAGS, key=row_key, value=tags.encode(after)),)

        return batch.Batch(derive=(derive,))


def _of_settings(settings: Mapping[str, Any]) -> Tags:
    return dict(settings.get(BUCKET_SETTING, {}))


def _counted(bucket_id: int) -> batch.Batch:
    """Return the Batch that counts a change of tags among those of a bucket's policies."""
    return stored_settings.plan_change(
        stored_settings.bucket_key(bucket_id), stored_settings.count_change
    )
