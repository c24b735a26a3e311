"""engine: a table's files by URI: manifests, manifest lists, and others.

Files are written once, under names with a fresh id, and never changed; they pass the same guard as
clients' files (`catalog.guard`). A file is opened with the proof that its reader may read it
(`catalog.readers`). Does not depend on file formats.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from catalog import errors, locations, readers, unnamed_files
from catalog.mounts import mirror
from server.s3 import guard
from storage import batch, blobs, checksums, model, objects, removals
from storage import errors as storage_errors

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A manifest or manifest list. Larger ones are refused, not read."""

ATTEMPTS_MAX: Final = 20
"""How often the guard rules again on a file after the rows of its ruling have changed."""

_WRITTEN_ONCE: Final = model.Precondition(write_once=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedFile:
    """An existing file that may be read. uri: as in the metadata. Created only by Files.

    is_copy: it is a copy of a mount's file, which may be removed: nothing else names its body.
    """

    uri: str
    info: model.ObjectInfo
    is_copy: bool = False


class Files:
    """Reads and writes files of tables. Stateless."""

    def __init__(
        self,
        *,
        objects: objects.Objects,
        blobs: blobs.Blobs,
        guard: guard.Guard,
        copies: mirror.Mirror | None = None,
    ) -> None:
        self._copies = copies
        self._objects = objects
        self._blobs = blobs
        self._guard = guard

    def open(self, file: readers.ReadableFile) -> OpenedFile:
        """Return a file with its current content. Raises MetadataFileMissing."""
        if file.is_mounted:
            if self._copies is None:
                raise _missing(file.uri)
            return OpenedFile(
                uri=file.uri, info=self._copies.find(file.bucket, file.uri), is_copy=True
            )
        try:
            return OpenedFile(uri=file.uri, info=self._objects.head(file.bucket, file.key))
        except (
            storage_errors.NoSuchKey,
            storage_errors.InvalidKey,
            storage_errors.NoSuchBucket,
            storage_errors.InvalidBucketName,
        ) as error:
            raise _missing(file.uri) from error

    def read(self, file: OpenedFile, byte_range: model.ByteRange | None = None) -> bytes:
        """Return a file's bytes, or byte_range of them. Raises MetadataFileMissing."""
        try:
            return self._objects.read(file.info, byte_range, limit_bytes=FILE_BYTES_MAX)
        except (storage_errors.BodyMissing, storage_errors.SizeLimitExceeded) as error:
            raise _missing(file.uri) from error

    async def receive(self, data: bytes) -> model.Received:
        """Return the body of a file, with its MD5: in memory if it is small, else on disk."""
        return await self._blobs.store(data, digests=frozenset({checksums.MD5}))

    def plan_names(
        self, unnamed: Iterable[unnamed_files.UnnamedFile], *, now_ms: int
    ) -> batch.Batch:
        """Return the Batch that writes and names new files, for the transaction of their commit.

        The guard checks each key as for a client's PUT, and the Batch expects what it ruled on.
        Raises InvalidCatalogRequest for a key that it refuses.
        """
        batches: list[batch.Batch] = []
        for file in unnamed:
            key = _key_of(file.uri, file.table_bucket)
            try:
                ruling = self._guard.at(file.table_bucket, key)
                ruling.check_write()
            except guard.LayoutRefused as refused:
                raise errors.InvalidCatalogRequest(
                    f"Cannot write {file.uri}: {refused}"
                ) from refused
            if ruling.bucket is None:
                raise errors.NoSuchWarehouse(f"Warehouse does not exist: {file.table_bucket}")
            batches.append(batch.Batch(expects=ruling.expects))
            batches.append(
                self._objects.plan_put_received(
                    ruling.bucket,
                    key,
                    file.received,
                    attributes=model.ObjectAttributes(
                        headers={"content-type": file.content_type}, owner=file.owner
                    ),
                    now_ms=now_ms,
                )
            )
        return batch.merge(batches)

    async def name(self, file: unnamed_files.UnnamedFile) -> None:
        """Write and name a file before its commit; raises as `put` does."""
        await self.put(
            file.uri,
            file.received,
            table_bucket=file.table_bucket,
            owner=file.owner,
            content_type=file.content_type,
        )

    async def write(self, uri: str, data: bytes, *, table_bucket: str, owner: str) -> None:
        """Write a new file, durable when this returns. owner: canonical id or ARN of the writer.

        Raises as `put` does.
        """
        received = await self.receive(data)
        await self.put(
            uri,
            received,
            table_bucket=table_bucket,
            owner=owner,
            content_type="application/octet-stream",
        )

    async def put(
        self,
        uri: str,
        received: model.Received,
        *,
        table_bucket: str,
        owner: str,
        content_type: str,
    ) -> None:
        """Name a new file, received with its MD5. A refused body is discarded.

        The guard checks the key as for a client's PUT. Raises InvalidCatalogRequest for a key
        that it refuses, and the errors of `Objects.put`.
        """
        key = _key_of(uri, table_bucket)
        attributes = model.ObjectAttributes(headers={"content-type": content_type}, owner=owner)
        for number in range(1, ATTEMPTS_MAX + 1):
            try:
                ruling = self._guard.at(table_bucket, key)
                ruling.check_write()
            except guard.LayoutRefused as refused:
                await self._blobs.discard(received)
                raise errors.InvalidCatalogRequest(f"Cannot write {uri}: {refused}") from refused
            try:
                await self._objects.put(
                    ruling.bucket or table_bucket,
                    key,
                    received,
                    attributes=attributes,
                    precondition=_WRITTEN_ONCE,
                    expects=ruling.expects,
                )
                return
            except storage_errors.ExpectationFailed:
                if number == ATTEMPTS_MAX:
                    await self._blobs.discard(received)
                    raise

    async def link(self, file: OpenedFile, uri: str, *, table_bucket: str, owner: str) -> None:
        """Name the body of an existing file a second time, as a new file. No byte is copied.

        Raises MetadataFileMissing if the file is gone, InvalidCatalogRequest for one of a mount,
        and as `put` does.
        """
        if file.is_copy:
            raise errors.InvalidCatalogRequest(
                f"{file.uri} is a file of a mount, which only queries read"
            )
        key = _key_of(uri, table_bucket)
        attributes = model.ObjectAttributes(
            headers={"content-type": "application/octet-stream"}, owner=owner
        )
        for number in range(1, ATTEMPTS_MAX + 1):
            try:
                ruling = self._guard.at(table_bucket, key)
                ruling.check_write()
            except guard.LayoutRefused as refused:
                raise errors.InvalidCatalogRequest(f"Cannot write {uri}: {refused}") from refused
            try:
                await self._objects.copy(
                    file.info,
                    ruling.bucket or table_bucket,
                    key,
                    attributes=attributes,
                    precondition=_WRITTEN_ONCE,
                    expects=ruling.expects,
                )
                return
            except storage_errors.SourceGone as error:
                raise _missing(file.uri) from error
            except storage_errors.ExpectationFailed:
                if number == ATTEMPTS_MAX:
                    raise

    async def remove(self, uri: str, *, table_bucket: str) -> None:
        """Remove a file of its writer that no commit names.

        One that cannot be removed is the sweep's: its table bucket may be gone, or the disk full.
        So the removal of other files goes on, and the caller's own error is raised.
        """
        with contextlib.suppress(errors.CatalogError, storage_errors.StorageError):
            await self._objects.delete(table_bucket, _key_of(uri, table_bucket))

    async def remove_all(self, location: str, *, table_bucket: str) -> None:
        """Remove every file below the location of a dropped table that only its session could use.

        Never called for a table whose files others may reference: the sweep frees those.
        """
        prefix = f"{_key_of(location, table_bucket).rstrip('/')}/"
        after: str | None = ""
        while after is not None:
            page = self._objects.list(table_bucket, prefix=prefix, start_after=after)
            after = page.next_after
            if page.objects:
                wanted = [removals.Removal(key=info.key) for info in page.objects]
                await self._objects.delete_many(table_bucket, wanted)


def _key_of(uri: str, table_bucket: str) -> str:
    key = locations.path_in(uri, table_bucket=table_bucket)
    assert key, "a table's files are in its table bucket"
    return key


def _missing(uri: str) -> errors.MetadataFileMissing:
    return errors.MetadataFileMissing(f"Failed to open input stream for file: {uri}")
