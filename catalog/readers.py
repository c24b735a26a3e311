"""engine: which files a principal may read for a table, and the proof of it.

A table's metadata and manifests name files by their URIs, and clients write them: a URI may name a
file of another table. Whoever may read a table may read the files in the table's own places, which
are its location and its earlier locations. Any other file is read only if the same principal may
GetObject it: the demand is the one that the S3 face makes for that key, so its condition keys are
those of the table that owns the file. `catalog.files` opens a file of a table by a `ReadableFile`
alone, and only the readers of this module make one (kept by tests/test_tidy.py). The one that asks
for no right is `ServerReader`: the server itself, which reads manifests to see what they keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog import access, claims, commits, errors, layout, properties, records, store
from server.access import model
from storage import errors as storage_errors

LOCATIONS_REMEMBERED_MAX: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadableFile:
    """A file that its reader may read, there or not. uri: as the metadata names it."""

    uri: str
    bucket: str
    key: str


class ServerReader:
    """The server itself as the reader, for the sweep alone; what it reads reaches no client."""

    def file(self, uri: str) -> ReadableFile:
        """Return a file that metadata names. Raises MetadataFileMissing if it is no object."""
        return _readable(uri)


class Readers:
    """Makes readers. Stateless beside what it is given."""

    def __init__(self, *, store: store.CatalogStore, access: access.Access) -> None:
        self._store = store
        self._access = access

    def of(self, principal: model.Principal, table: commits.LoadedTable) -> Reader:
        """Return principal as the reader of a table's files. It may read the table itself."""
        return Reader(store=self._store, access=self._access, principal=principal, table=table)


class Reader:
    """A table, as one principal reads its files. For one statement: it remembers permissions."""

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

    def file(self, uri: str) -> ReadableFile:
        """Return a file that the table's metadata names, if the principal may read it.

        Raises ForeignFileRefused, and MetadataFileMissing for a URI that is no object's.
        """
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
        """Say whether `file` would return the file."""
        try:
            self.file(uri)
        except (errors.ForeignFileRefused, errors.MetadataFileMissing):
            return False
        return True

    def _owner(self, bucket: str, key: str) -> tuple[layout.Location, records.LocationRow] | None:
        """Return the location of a table bucket that a key lies at or below, and its row."""
        with self._store.index.view() as view:
            try:
                place = self._store.place(bucket, view)
            except (errors.NoSuchWarehouse, storage_errors.InvalidBucketName):
                return None
            return claims.find_location(view, place.bucket_id, key)

    def _remember(self, prefix: str) -> None:
        """Note that every file of a location may be read: one table owns them all.

        A credential with scopes is judged by each key.
        """
        if self._principal.scopes is None and len(self._readable) < LOCATIONS_REMEMBERED_MAX:
            self._readable.append(prefix)


def _readable(uri: str) -> ReadableFile:
    """Return the file that a URI names, unjudged."""
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
