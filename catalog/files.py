"""engine: the files of a table by their URI: manifests, manifest lists, and what else lies there.

Files are written once, under names that hold a fresh id, and never again. A file is opened by the
proof that its reader may read it (`catalog.readers`). Knows no format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog import errors, locations, readers
from storage import blobs, model, objects
from storage import errors as storage_errors

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A manifest or manifest list. Larger ones are refused, not read."""

_WRITTEN_ONCE: Final = model.Precondition(write_once=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedFile:
    """A file that is there and may be read. uri: as the metadata names it. Only Files makes one."""

    uri: str
    info: model.ObjectInfo


class Files:
    """Reads and writes files of tables. Stateless."""

    def __init__(self, *, objects: objects.Objects, blobs: blobs.Blobs) -> None:
        self._objects = objects
        self._blobs = blobs

    def open(self, file: readers.ReadableFile) -> OpenedFile:
        """Return a file as it is now. Raises MetadataFileMissing."""
        try:
            return OpenedFile(uri=file.uri, info=self._objects.head(file.bucket, file.key))
        except (
            storage_errors.NoSuchKey,
            storage_errors.InvalidKey,
            storage_errors.NoSuchBucket,
            storage_errors.InvalidBucketName,
        ) as error:
            raise _missing(file.uri) from error

    def read(self, file: OpenedFile) -> bytes:
        """Return a file's bytes. Raises MetadataFileMissing."""
        try:
            return self._objects.read(file.info, limit_bytes=FILE_BYTES_MAX)
        except (storage_errors.BodyMissing, storage_errors.BodyTooLarge) as error:
            raise _missing(file.uri) from error

    async def write(self, uri: str, data: bytes, *, table_bucket: str, owner: str) -> None:
        """Write a new file, durable when this returns. owner: canonical id or ARN of the writer."""
        key = locations.path_in(uri, table_bucket=table_bucket)
        assert key, "a table's files lie in its table bucket"
        receiver = self._blobs.receive(size_hint=len(data), digests=frozenset({"md5"}))
        await receiver.write(data)
        received = await receiver.finish()
        await self._objects.put(
            table_bucket,
            key,
            received,
            attributes=model.ObjectAttributes(
                headers={"content-type": "application/octet-stream"}, owner=owner
            ),
            precondition=_WRITTEN_ONCE,
        )

    async def remove(self, uri: str, *, table_bucket: str) -> None:
        """Remove a file of one's own that no commit came to name."""
        key = locations.path_in(uri, table_bucket=table_bucket)
        assert key, "a table's files lie in its table bucket"
        await self._objects.delete(table_bucket, key)


def _missing(uri: str) -> errors.MetadataFileMissing:
    return errors.MetadataFileMissing(f"Failed to open input stream for file: {uri}")
