"""engine: which files a principal may read for a table, and the proof of it.

A table's metadata and manifests name files by URI, and clients write them: a URI may name a file of
another table. A reader of a table may read the files in the table's own current and earlier
locations. Any other file is read only if the same principal has the right to GetObject it: the
demand is the S3 face's for that key, so its condition keys are those of the table that owns the
file. `catalog.files` opens a table's file only by a `ReadableFile`, which only the readers of this
module make (kept by tests/test_tidy.py). `ServerReader` checks no rights: with it the server reads
manifests for the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from catalog import access, claims, commits, errors, layout, properties, records, store
from server.access import model
from storage import errors as storage_errors

LOCATIONS_REMEMBERED_MAX: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadableFile:
    """A file that its reader may read, whether it exists or not. uri: as in the metadata.

    is_mounted: it is a file of the mount `bucket`, of which there is a copy if it was brought.
    """

    uri: str
    bucket: str
    key: str
    is_mounted: bool = False


class ServerReader:
    """The server itself as the reader, for the sweep only; no client sees what it reads."""

    is_mounted = False

    async def bring(self, uris: Iterable[str]) -> None:
        """Never called: the sweep reads no mounts."""
        raise AssertionError("the sweep reads no mounts")

    def file(self, uri: str) -> ReadableFile:
        """Return a file that metadata names. Raises MetadataFileMissing for a foreign URI."""
        return _readable(uri)


class Readers:
    """Makes readers. Stateless except for its services."""

    def __init__(self, *, store: store.CatalogStore, access: access.Access) -> None:
        self._store = store
        self._access = access

    def of(self, principal: model.Principal, table: commits.LoadedTable) -> Reader:
        """Return principal as the reader of a table's files. It may read the table."""
        return Reader(store=self._store, access=self._access, principal=principal, table=table)


class Reader:
    """A principal as the reader of a table's files, for one statement. It caches permissions."""

    def __init__(
        self,
        *,
        store: store.CatalogStore,
        access: access.Access,
        principal: model.Principal,
        table: commits.LoadedTable,
    ) -> None:
        self.table = table
        self._store = store
        self._access = access
        self._principal = principal
        self._readable: list[str] = []
        mounts = store.mounts
        self._mount = None if mounts is None else mounts.find(table.ident.table_bucket)

    @property
    def is_mounted(self) -> bool:
        """Whether the table is of another catalog; then `bring` copies files before `file`."""
        return self._mount is not None

    async def bring(self, uris: Iterable[str]) -> None:
        """Copy files of a mounted table that are to be read.

        Raises MetadataFileMissing, MountUnavailable, DiskFull.
        """
        if self._mount is not None:
            await self._mount.bring(self.table.ident, uris)

    def file(self, uri: str) -> ReadableFile:
        """Return a file that the table's metadata names, if the principal may read it.

        Raises ForeignFileRefused, and MetadataFileMissing for a URI that is not an object's. What
        a mounted table may name is decided where the file is copied from.
        """
        if self._mount is not None:
            bucket = self.table.ident.table_bucket
            return ReadableFile(uri=uri, bucket=bucket, key=uri, is_mounted=True)
        file = _readable(uri)
        bucket, key = file.bucket, file.key
        path = f"{bucket}/{key}"
        if not any(path.startswith(prefix) for prefix in self._readable):
            owner = self._owner(bucket, key)
            if owner is None or owner[1].object_uuid != self.table.pointer.object_uuid:
                self._access.check_file(self._principal, uri, table=self.table.ident)
            if owner is not None:
                self._remember(f"{bucket}/{owner[0].path}/")
        return file

    def may_read(self, uri: str) -> bool:
        """Return whether `file` would return the file."""
        try:
            self.file(uri)
        except (errors.ForeignFileRefused, errors.MetadataFileMissing):
            return False
        return True

    def _owner(self, bucket: str, key: str) -> tuple[layout.Location, records.LocationRow] | None:
        """Return the location at or above a key of a table bucket, and its row."""
        with self._store.index.view() as view:
            try:
                place = self._store.place(bucket, view)
            except (errors.NoSuchWarehouse, storage_errors.InvalidBucketName):
                return None
            return claims.find_location(view, place.bucket_id, key)

    def _remember(self, prefix: str) -> None:
        """Record that every file of a location may be read: one table owns them all.

        For a credential with scopes every key is checked.
        """
        if self._principal.scopes is None and len(self._readable) < LOCATIONS_REMEMBERED_MAX:
            self._readable.append(prefix)


def _readable(uri: str) -> ReadableFile:
    """Return the file of a URI, without a check."""
    scheme, _, path = uri.partition("://")
    bucket, _, key = path.partition("/")
    if scheme not in properties.SCHEMES or not bucket or not key or not _is_encodable(uri):
        raise errors.MetadataFileMissing(f"Failed to open input stream for file: {uri}")
    return ReadableFile(uri=uri, bucket=bucket, key=key)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
