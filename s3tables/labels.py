"""engine: what resources are tagged with, one row each in the index.

A row belongs to a bucket's id or a table's object uuid, neither of which is ever given again: it
outlives renames, and a table dropped and brought back has its tags again. A change is decided on
the row as it stands and commits only if it still does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from s3tables import errors
from storage import batch
from storage import errors as storage_errors
from storage.index import Index

ATTEMPTS_MAX: Final = 20
FORMAT: Final = b"\x01"

Tags: TypeAlias = dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceKey:
    """Whose tags: a table bucket's or, with object_uuid, a table's."""

    bucket_id: int
    object_uuid: str | None = None

    def encode(self) -> bytes:
        """Return the key of the row in TAGS."""
        bucket = self.bucket_id.to_bytes(4, "big")
        return bucket if self.object_uuid is None else bucket + uuid.UUID(self.object_uuid).bytes


class TagsRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A resource's tags. A row of TAGS; there is none for a resource without tags."""

    tags: dict[str, str]


class ResourceTags:
    """Tags by resource."""

    def __init__(self, *, index: Index) -> None:
        self._index = index

    def get(self, key: ResourceKey) -> Tags:
        """Return a resource's tags."""
        return _decode(self._index.get(batch.Store.TAGS, key.encode()))

    async def change(self, key: ResourceKey, change: Callable[[Tags], Tags]) -> None:
        """Replace a resource's tags by what change makes of them, in one step.

        change: pure; asked again when another request came first. Raises what it raises, and
        TagsChanged when another request came first every time.
        """
        row_key = key.encode()
        for _ in range(ATTEMPTS_MAX):
            before = self._index.get(batch.Store.TAGS, row_key)
            after = change(_decode(before))
            expect = batch.Expect(store=batch.Store.TAGS, key=row_key, value=before)
            write: batch.Write = batch.Delete(store=batch.Store.TAGS, key=row_key)
            if after:
                write = batch.Put(store=batch.Store.TAGS, key=row_key, value=_encode(after))
            try:
                await self._index.commit(batch.Batch(expects=(expect,), writes=(write,)))
            except storage_errors.ExpectationFailed:
                continue
            return
        raise errors.TagsChanged


def _encode(tags: Tags) -> bytes:
    return FORMAT + msgspec.msgpack.encode(TagsRow(tags=tags))


def _decode(value: bytes | None) -> Tags:
    if value is None:
        return {}
    if value[:1] != FORMAT:
        raise storage_errors.CorruptRecord(f"A TagsRow has the unknown format {value[:1]!r}")
    try:
        return msgspec.msgpack.decode(value[1:], type=TagsRow).tags
    except msgspec.MsgspecError as error:
        raise storage_errors.CorruptRecord(f"A TagsRow cannot be read: {error}") from error
