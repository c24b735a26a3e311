"""engine: the catalog's rows and metadata files: reading, writing Batches, caching metadata.

Every read goes to the index; the cache holds metadata files by location, which are immutable. Every
write is planned on the current rows, and its Batch expects these rows; if one has changed, the
write is planned again. Writers of the same key queue first, because a plan that fails costs as much
as one that succeeds. A plan raises the catalog's errors. An error of the index or the disk becomes
CommitStateUnknown unless it is certain that nothing was written.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import itertools
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from catalog import (
    commit,
    decoding,
    departures,
    errors,
    holds,
    idents,
    locations,
    owners,
    properties,
    records,
)
from catalog.metadata import checks as metadata_checks
from catalog.metadata import contents, defaults
from catalog.metadata import errors as metadata_errors
from catalog.metadata import model as metadata_model
from catalog.mounts import mounted, overlay
from storage import batch, blobs, buckets, index, lookups, model, objects, settings
from storage import errors as storage_errors

ATTEMPTS_MAX: Final = 20
"""How often a write is planned, if other writers keep changing its rows."""

COMMITS_HELD_SECONDS_MAX: Final = 1.0
"""How long a commit waits for a batch of the sweep of tables."""

METADATA_BYTES_MAX: Final = 128 * 1024 * 1024
"""Largest metadata file that is read, unpacked. It is larger than a new one may be, so that tables
of older folders stay readable. Copying it once holds the interpreter for some 50 milliseconds."""
NEW_METADATA_BYTES_MAX: Final = 40 * 1024 * 1024
"""Largest metadata file that a commit or a registration may produce: the cache holds it."""
INLINE_METADATA_BYTES_MAX: Final = 1024 * 1024
VIEW_METADATA_BYTES_MAX: Final = 2 * 1024 * 1024
VIEW_VALUES_MAX: Final = 100_000
"""Largest metadata file of a view, and JSON values of a registered one: decoding takes at most some
tens of milliseconds."""
REPEATED_BYTES_MIN: Final = 64 * 1024
"""Smaller metadata files are written whole: about 150 snapshots."""
SMALL_BYTES: Final = 1024 * 1024
SMALL_VALUES_MAX: Final = 50_000
"""Metadata of up to so many bytes and JSON values is decoded on the event loop, in some 20
milliseconds; larger metadata in a child process."""
SMALL_GZIP_BYTES: Final = 64 * 1024
LARGE_READS_MAX: Final = 2
"""Larger files that are read and decoded at a time; each takes several times its size."""
CACHE_BYTES_MAX: Final = 128 * 1024 * 1024
CACHE_OVERHEAD: Final = 3
"""Memory of decoded metadata, in multiples of its file's size."""

NAMES_AT_ONCE: Final = 2_000
"""Names of a listing that are read between two turns of the event loop."""
NAMES_JUDGED_AT_ONCE: Final = 200
"""Names that policies are evaluated for between two turns of the event loop."""
REFS_ONLY_CACHED_MAX: Final = 64
NAMESPACE_IDS_CACHED_MAX: Final = 100_000
POLICIES_CACHED_MAX: Final = 256
"""Table buckets whose row of settings is cached; a policy is some kilobytes long."""

_POLICIES_CHANGED: Final = object()
"""The result of a decision that was not carried out."""

Result = TypeVar("Result")


class LoadedMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A metadata file. data: its JSON, uncompressed.

    arrays: see `metadata.model.Encoded`; empty for a file that was read and not written here.
    replaces: the location of the file to which the table's pointer led before; None without one.
    """

    location: str
    data: bytes
    table: metadata_model.TableMetadata
    arrays: tuple[tuple[int, int], ...] = ()
    replaces: str | None = None


class Planned(msgspec.Struct, Generic[Result], frozen=True, kw_only=True):
    """A planned write. result: returned once batch is durable. batch None: nothing changes.

    files: bodies already on disk that only this batch names. cached: the metadata files that it
    makes readable, by bucket id.
    """

    result: Result
    batch: batch.Batch | None
    files: tuple[model.Received, ...] = ()
    cached: tuple[tuple[int, LoadedMetadata], ...] = ()


class StoredNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace's row, stored and decoded. key: in POINTERS."""

    namespace: idents.Namespace
    key: bytes
    value: bytes
    row: records.NamespaceRow

    @property
    def holder(self) -> commit.ParentNamespace:
        """The row that a change expects which adds to the namespace."""
        return commit.ParentNamespace(key=self.key, value=self.value)


class StoredPointer(msgspec.Struct, frozen=True, kw_only=True):
    """A table's or view's row, stored and decoded. namespace_id: of its namespace."""

    value: bytes
    pointer: records.Pointer
    namespace_id: int


class CatalogStore:
    """The catalog's rows and metadata files.

    Its only state are caches of immutable values, and holds: the files of changes that wait.
    """

    def __init__(
        self,
        *,
        index: index.Index,
        buckets: buckets.Buckets,
        objects: objects.Objects,
        blobs: blobs.Blobs,
        now_ms: model.NowMs,
        new_id: model.NewId,
        day_ms: int = departures.DAY_MS,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        mounts: mounted.Mounts | None = None,
    ) -> None:
        self.index = index
        self.mounts = mounts
        self.objects = objects
        self.buckets = buckets
        self.now_ms = now_ms
        self.new_id = new_id
        self.day_ms = day_ms
        self.holds = holds.Holds()
        self._blobs = blobs
        # With the index's count of changes before the row was read: no later change, no look.
        self._policies: dict[int, tuple[int, batch.Expect]] = {}
        self._turns = _Turns()
        self._held: asyncio.Event | None = None
        self._holders = 0
        self._cache = _Cache(cache_bytes_max)
        self._decoder = decoding.ChildDecoder()
        self._large_reads = asyncio.Semaphore(LARGE_READS_MAX)
        self._refs_only: OrderedDict[str, tuple[metadata_model.TableMetadata, bytes]] = (
            OrderedDict()
        )
        self._namespace_ids: dict[tuple[int, idents.Namespace], int] = {}
        self._namespaces: dict[tuple[int, int], idents.Namespace] = {}

    # Reading.

    def place(self, table_bucket: str, reading: batch.Lookup | None = None) -> records.Place:
        """Return where the rows of a table bucket are. Raises NoSuchWarehouse.

        reading: a view that is open already.
        """
        mount = None if self.mounts is None else self.mounts.find(table_bucket)
        if mount is not None:
            return mount.place
        try:
            info = self.buckets.get(table_bucket, reading)
        except storage_errors.NoSuchBucket:
            info = None
        if info is None or info.type != "table":
            raise errors.NoSuchWarehouse(f"Warehouse does not exist: {table_bucket}")
        return records.Place(bucket=info)

    def is_mount(self, table_bucket: str) -> bool:
        """Return whether a name is that of a mount."""
        return self.mounts is not None and self.mounts.find(table_bucket) is not None

    def check_stored(self, place: records.Place) -> None:
        """Raise MountReadOnly for the place of a mount: this server stores nothing of it."""
        if overlay.is_mount(place.bucket):
            raise mounted.read_only(place.table_bucket)

    def view(self) -> index.ReadView | overlay.OverlaidView:
        """Open one consistent read of the index, with the names of mounts."""
        return self.index.view() if self.mounts is None else self.mounts.view(self.index.view())

    def bucket(self, table_bucket: str) -> model.BucketInfo:
        """Return a table bucket. Raises NoSuchWarehouse, also for a general bucket."""
        return self.place(table_bucket).bucket

    def namespace_id(
        self, reading: batch.Lookup, place: records.Place, namespace: idents.Namespace
    ) -> int | None:
        """Return the id of a namespace's path; it may have one without existing now."""
        if not namespace:
            return records.ROOT_NAMESPACE_ID
        cached = self._namespace_ids.get((place.bucket_id, namespace))
        if cached is not None:
            return cached
        try:
            key = records.namespace_path_key(place.bucket_id, namespace)
        except UnicodeEncodeError:
            return None
        if len(key) > idents.NAMESPACE_BYTES_MAX + 5:
            return None
        value = reading.get(batch.Store.NAMESPACES, key)
        if value is None:
            return None
        stored_id = records.decode_integer(value)
        if reading.is_committed:  # an uncommitted id may be given to another namespace
            if len(self._namespace_ids) >= NAMESPACE_IDS_CACHED_MAX:
                self._namespace_ids.clear()
            self._namespace_ids[place.bucket_id, namespace] = stored_id
        return stored_id

    def namespace_of(
        self, reading: batch.Lookup, place: records.Place, namespace_id: int
    ) -> idents.Namespace:
        """Return the path of a namespace id, whether the namespace exists now or not."""
        cached = self._namespaces.get((place.bucket_id, namespace_id))
        if cached is not None:
            return cached
        key = records.namespace_id_key(place.bucket_id, namespace_id)
        value = reading.get(batch.Store.NAMESPACES, key)
        if value is None:
            raise errors.IntegrityBroken(f"Namespace id {namespace_id} stands for nothing")
        namespace = records.decode(value, records.NamespacePath).namespace
        if reading.is_committed:
            if len(self._namespaces) >= NAMESPACE_IDS_CACHED_MAX:
                self._namespaces.clear()
            self._namespaces[place.bucket_id, namespace_id] = namespace
        return namespace

    def find_namespace(
        self, reading: batch.Reading, place: records.Place, namespace: idents.Namespace
    ) -> StoredNamespace | None:
        """Return a namespace's row, or None if there is no such namespace."""
        if not namespace:
            return None
        parent_id = self.namespace_id(reading, place, namespace[:-1])
        if parent_id is None or len(namespace[-1]) > idents.NAME_BYTES_MAX:
            return None
        try:
            key = records.pointer_key(place, "namespace", parent_id, namespace[-1])
        except UnicodeEncodeError:
            return None
        if len(key) > _KEY_BYTES_MAX:
            return None
        value = reading.get(batch.Store.POINTERS, key)
        if value is None:
            return None
        row = records.decode(value, records.NamespaceRow)
        return StoredNamespace(namespace=namespace, key=key, value=value, row=row)

    def namespace(
        self, reading: batch.Reading, place: records.Place, namespace: idents.Namespace
    ) -> StoredNamespace:
        """Return a namespace's row. Raises NoSuchNamespace."""
        namespace_row = self.find_namespace(reading, place, namespace)
        if namespace_row is None:
            raise errors.NoSuchNamespace(f"Namespace does not exist: {idents.dotted(namespace)}")
        return namespace_row

    def newest_pointer(
        self, place: records.Place, object_type: records.ObjectType, ident: idents.TableIdent
    ) -> StoredPointer | None:
        """Return what `find_pointer` does, in the newest state, without the cost of a view."""
        if self.mounts is None:
            return self.find_pointer(self.index, place, object_type, ident)
        with self.view() as view:
            return self.find_pointer(view, place, object_type, ident)

    def find_pointer(
        self,
        reading: batch.Lookup,
        place: records.Place,
        object_type: records.ObjectType,
        ident: idents.TableIdent,
    ) -> StoredPointer | None:
        """Return a table's or view's row, or None."""
        namespace_id = self.namespace_id(reading, place, ident.namespace)
        if not namespace_id or len(ident.name) > idents.NAME_BYTES_MAX:
            return None
        try:
            key = records.pointer_key(place, object_type, namespace_id, ident.name)
        except UnicodeEncodeError:
            return None
        if len(key) > _KEY_BYTES_MAX:
            return None
        value = reading.get(batch.Store.POINTERS, key)
        if value is None:
            return None
        pointer = records.decode_pointer(value)
        return StoredPointer(value=value, pointer=pointer, namespace_id=namespace_id)

    def names(
        self,
        reading: batch.Reading,
        place: records.Place,
        object_type: records.ObjectType,
        namespace_id: int,
        *,
        after: str = "",
        limit: int | None = None,
    ) -> list[str]:
        """Return the names of one object type in a namespace, in UTF-8 byte order.

        after: only names after this one. limit: how many at most.
        """
        prefix = records.pointer_range(place, object_type, namespace_id)
        start = prefix + after.encode("utf-8", "replace") + b"\x00" if after else prefix
        if len(start) > _KEY_BYTES_MAX:
            return []
        rows = reading.scan(batch.Store.POINTERS, start, records.stop_after(prefix))
        return [records.name_of(key) for key, _ in itertools.islice(rows, limit)]

    def names_in_steps(
        self,
        table_bucket: str,
        object_type: records.ObjectType,
        namespace: idents.Namespace,
        *,
        after: str = "",
    ) -> Iterator[str]:
        """Yield the names of a namespace after one of them, read while the caller iterates.

        Raises NoSuchWarehouse, NoSuchNamespace, also between two names.
        """
        while True:
            names = self._step(table_bucket, object_type, namespace, after, NAMES_AT_ONCE)
            yield from names
            if len(names) < NAMES_AT_ONCE:
                return
            after = names[-1]

    def _step(
        self,
        table_bucket: str,
        object_type: records.ObjectType,
        namespace: idents.Namespace,
        after: str,
        limit: int,
    ) -> list[str]:
        with self.view() as view:
            place = self.place(table_bucket, view)
            namespace_id = records.ROOT_NAMESPACE_ID
            if namespace:
                namespace_id = self.namespace(view, place, namespace).row.namespace_id
            return self.names(view, place, object_type, namespace_id, after=after, limit=limit)

    async def page(
        self,
        table_bucket: str,
        object_type: records.ObjectType,
        namespace: idents.Namespace,
        *,
        after: str = "",
        limit: int,
        is_shown: Callable[[str], bool] | None = None,
    ) -> list[str]:
        """Return up to limit names of a namespace, read in steps between turns of the event loop.

        is_shown: returns whether a name is listed; by default all are.
        Raises NoSuchWarehouse, NoSuchNamespace.
        """
        listed: list[str] = []
        at_once = NAMES_AT_ONCE if is_shown is None else NAMES_JUDGED_AT_ONCE
        wanted = min(at_once, limit)
        while True:
            names = self._step(table_bucket, object_type, namespace, after, wanted)
            listed += names if is_shown is None else filter(is_shown, names)
            if len(names) < wanted or len(listed) >= limit:
                return listed[:limit]
            after = names[-1]
            # With is_shown, each step reads as many names as one turn may evaluate.
            wanted = min(at_once, limit - len(listed)) if is_shown is None else at_once
            await asyncio.sleep(0)

    def name_of_object(
        self, reading: batch.Reading, place: records.Place, object_uuid: str
    ) -> records.Name | None:
        """Return the present name of the table or view with this uuid, None if it was dropped."""
        try:
            key = records.uuid_key(place, object_uuid)
        except ValueError:
            return None
        value = reading.get(batch.Store.POINTERS, key)
        return None if value is None else records.decode(value, records.Name)

    # Metadata files.

    def cached_metadata(self, location: str, *, place: records.Place) -> LoadedMetadata | None:
        """Return the table metadata that a pointer names, if it is in memory."""
        return self._cache.get(place.bucket_id, location)

    async def fetch_metadata(self, location: str, *, place: records.Place) -> LoadedMetadata:
        """Return the table metadata that a pointer names. Raises MetadataFileMissing.

        place: of the pointer. A large file is decoded in a child process. Raises
        InvalidMetadataFile, InvalidMetadata for a damaged file, DecodingInterrupted.
        """
        cached = self._cache.get(place.bucket_id, location)
        if cached is not None:
            return cached
        info = self._find_file(location, place.table_bucket)
        data = self._read_small(location, info)
        if data is not None:
            loaded = _loaded(location, data, metadata_model.decode(data))
        else:
            async with self._large_reads:
                # Another task that waited for the same file may have cached it.
                cached = self._cache.get(place.bucket_id, location)
                if cached is not None:
                    return cached
                loaded = await self._read_large(location, info, METADATA_BYTES_MAX)
        self._cache.put(place.bucket_id, loaded)
        return loaded

    async def examine_metadata(self, location: str) -> metadata_model.TableMetadata:
        """Return a metadata file's content, read in a thread and not cached.

        For the sweep, which reads every retained file. Raises MetadataFileMissing, InvalidMetadata,
        InvalidMetadataFile, DecodingInterrupted.
        """
        bucket = properties.plain_uri(location).removeprefix("s3://").partition("/")[0]

        def read() -> metadata_model.TableMetadata | model.ObjectInfo:
            info = self._find_file(location, bucket)
            data = self._read_small(location, info)
            return info if data is None else metadata_model.decode(data)

        read_or_large = await asyncio.to_thread(read)
        if isinstance(read_or_large, metadata_model.TableMetadata):
            return read_or_large
        async with self._large_reads:
            return (await self._read_large(location, read_or_large, METADATA_BYTES_MAX)).table

    async def fetch_foreign(
        self, location: str, *, place: records.Place
    ) -> tuple[LoadedMetadata, batch.Batch]:
        """Return checked metadata that a client wrote, and the Batch that expects it unchanged.

        Not from the cache: until a table points to it, the file may change. Raises
        MetadataFileMissing, InvalidMetadataFile, InvalidMetadata, DecodingInterrupted.
        """
        info = self._find_file(location, place.table_bucket)
        if info.size_bytes > NEW_METADATA_BYTES_MAX:
            raise errors.InvalidMetadataFile(
                f"{location} is larger than {NEW_METADATA_BYTES_MAX} bytes"
            )
        data = self._read_small(location, info, NEW_METADATA_BYTES_MAX)
        if data is not None:
            table = metadata_model.decode(data)
            metadata_checks.check_table(table)
            return _loaded(location, data, table), _unchanged(info)
        async with self._large_reads:
            loaded = await self._read_large(location, info, NEW_METADATA_BYTES_MAX, is_foreign=True)
        return loaded, _unchanged(info)

    async def fetch_view(self, location: str, *, place: records.Place) -> bytes:
        """Return the JSON of the view metadata that a pointer names; a large file in a thread.

        Raises MetadataFileMissing.
        """
        info = self._find_file(location, place.table_bucket)
        return await self._fetch_view_info(location, info)

    async def fetch_foreign_view(
        self, location: str, *, place: records.Place
    ) -> tuple[bytes, batch.Batch]:
        """Return view metadata that a client wrote, and the Batch that expects the file unchanged.

        Raises MetadataFileMissing, InvalidMetadataFile for a file that is too large.
        """
        info = self._find_file(location, place.table_bucket)
        if info.size_bytes > VIEW_METADATA_BYTES_MAX:
            raise errors.InvalidMetadataFile(
                f"{location} is larger than {VIEW_METADATA_BYTES_MAX} bytes"
            )
        data = await self._fetch_view_info(location, info)
        if contents.are_many_values(data, VIEW_VALUES_MAX):
            raise errors.InvalidMetadataFile(f"{location} holds more than {VIEW_VALUES_MAX} values")
        return data, _unchanged(info)

    async def _fetch_view_info(self, location: str, info: model.ObjectInfo) -> bytes:
        if info.size_bytes <= SMALL_GZIP_BYTES:
            return self._read_view_info(location, info)
        return await asyncio.to_thread(self._read_view_info, location, info)

    def _read_view_info(self, location: str, info: model.ObjectInfo) -> bytes:
        data = self.objects.read(info, limit_bytes=VIEW_METADATA_BYTES_MAX)
        if is_compressed(location):
            data = _gunzip(data, location, VIEW_METADATA_BYTES_MAX)
        return data

    def _read_small(
        self, location: str, info: model.ObjectInfo, bytes_max: int = METADATA_BYTES_MAX
    ) -> bytes | None:
        """Return a file's JSON if it is small enough for the event loop, else None."""
        compressed = is_compressed(location)
        if info.size_bytes > (SMALL_GZIP_BYTES if compressed else SMALL_BYTES):
            return None
        data = self.objects.read(info, limit_bytes=SMALL_BYTES)
        if compressed:
            unpacked = _gunzip_up_to(data, location, min(SMALL_BYTES, bytes_max))
            if unpacked is None:
                return None
            data = unpacked
        return None if contents.are_many_values(data, SMALL_VALUES_MAX) else data

    async def _read_large(
        self,
        location: str,
        info: model.ObjectInfo,
        bytes_max: int,
        *,
        is_foreign: bool = False,
    ) -> LoadedMetadata:
        def read() -> bytes:
            data = self.objects.read(info, limit_bytes=METADATA_BYTES_MAX)
            return _gunzip(data, location, bytes_max) if is_compressed(location) else data

        data = await asyncio.to_thread(read)
        table = await self._decoder.decode_metadata(data, is_foreign=is_foreign)
        return await asyncio.to_thread(_loaded, location, data, table)

    async def decode_mounted(self, location: str, data: bytes) -> LoadedMetadata:
        """Return checked metadata of a table in another catalog. data: the file's bytes.

        Raises InvalidMetadataFile, InvalidMetadata, DecodingInterrupted.
        """
        if is_compressed(location):
            data = await asyncio.to_thread(_gunzip, data, location, NEW_METADATA_BYTES_MAX)
        if len(data) <= SMALL_BYTES and not contents.are_many_values(data, SMALL_VALUES_MAX):
            table = metadata_model.decode(data)
            metadata_checks.check_table(table)
        elif len(data) > NEW_METADATA_BYTES_MAX:
            raise errors.InvalidMetadataFile(
                f"{location} is larger than {NEW_METADATA_BYTES_MAX} bytes"
            )
        else:
            async with self._large_reads:
                table = await self._decoder.decode_metadata(data, is_foreign=True)
        return await asyncio.to_thread(_loaded, location, data, table)

    async def close(self) -> None:
        """End the child process that decodes large metadata, if there is one."""
        await self._decoder.close()

    async def prepare_refs_only(self, location: str, table: metadata_model.TableMetadata) -> None:
        """Encode and cache the result of `refs_only`; of large metadata in a thread."""
        kept = self._refs_only.get(location)
        large = table.snapshots.size_bytes > SMALL_BYTES
        if large and (kept is None or kept[0] is not table):
            data = await asyncio.to_thread(metadata_model.encode_refs_only, table)
            self._keep_refs_only(location, table, data)

    def refs_only(self, location: str, table: metadata_model.TableMetadata) -> bytes:
        """Return the JSON of metadata with only the snapshots that branches and tags point to."""
        kept = self._refs_only.get(location)
        if kept is not None and kept[0] is table:
            return kept[1]
        data = metadata_model.encode_refs_only(table)
        self._keep_refs_only(location, table, data)
        return data

    def _keep_refs_only(
        self, location: str, table: metadata_model.TableMetadata, data: bytes
    ) -> None:
        self._refs_only[location] = (table, data)
        if len(self._refs_only) > REFS_ONLY_CACHED_MAX:
            self._refs_only.popitem(last=False)

    def read_file(self, location: str, *, table_bucket: str) -> bytes:
        """Return the bytes of a metadata file of this table bucket. Raises MetadataFileMissing."""
        return self.objects.read(
            self._find_file(location, table_bucket), limit_bytes=METADATA_BYTES_MAX
        )

    def _find_file(self, location: str, table_bucket: str) -> model.ObjectInfo:
        key = locations.path_in(location, table_bucket=table_bucket)
        missing = errors.MetadataFileMissing(f"Failed to open input stream for file: {location}")
        if not key:
            raise missing
        try:
            info = self.objects.head(table_bucket, key)
            if info.size_bytes > METADATA_BYTES_MAX:
                raise errors.InvalidMetadataFile(
                    f"{location} is larger than {METADATA_BYTES_MAX} bytes"
                )
            return info
        except (
            storage_errors.NoSuchKey,
            storage_errors.InvalidKey,
            storage_errors.NoSuchBucket,
        ):
            raise missing from None

    def read_object(self, uri: str, *, bytes_max: int) -> bytes:
        """Return the bytes of an object. Raises InvalidCatalogRequest if it does not exist."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        try:
            info = self.objects.head(bucket, key)
            if info.size_bytes > bytes_max:
                raise errors.InvalidCatalogRequest(f"{uri} is larger than {bytes_max} bytes")
            return self.objects.read(info, limit_bytes=bytes_max)
        except (
            storage_errors.NoSuchKey,
            storage_errors.InvalidKey,
            storage_errors.NoSuchBucket,
            storage_errors.InvalidBucketName,
        ):
            raise errors.InvalidCatalogRequest(f"{uri} does not exist") from None

    async def plan_file(
        self,
        location: str,
        data: bytes,
        *,
        bucket: model.BucketInfo,
        owner: str,
        repeated: model.Repeated | None = None,
    ) -> tuple[batch.Batch, tuple[model.Received, ...]]:
        """Return the Batch that names a new metadata file, and its body if it is on disk already.

        data: the file's bytes. repeated: see `Objects.plan_put`.
        """
        key = locations.path_in(location, table_bucket=bucket.name)
        assert key, "a metadata file lies in its table bucket"
        if len(data) > METADATA_BYTES_MAX:
            raise errors.InvalidCatalogRequest(
                f"The metadata would be larger than {METADATA_BYTES_MAX} bytes"
            )
        # The name is used once, so its hash is an ETag that needs no pass over the body. The dash
        # marks it, as for multipart objects, as no MD5 of the body.
        etag = hashlib.blake2b(location.encode(), digest_size=16).hexdigest() + "-1"
        attributes = model.ObjectAttributes(
            headers={"content-type": "application/json"}, owner=owner, etag=etag
        )
        if len(data) <= INLINE_METADATA_BYTES_MAX:
            planned = self.objects.plan_put(
                bucket,
                key,
                data,
                attributes=attributes,
                now_ms=self.now_ms(),
                repeated=repeated,
            )
            return planned, ()
        received = await self._blobs.store(data)
        planned = self.objects.plan_put_received(
            bucket, key, received, attributes=attributes, now_ms=self.now_ms()
        )
        return planned, (received,)

    # Writing.

    async def write(
        self,
        plan: Callable[[], Awaitable[Planned[Result]]],
        *,
        keys: Iterable[bytes],
        place: records.Place,
        further: Sequence[records.Place] = (),
        holds_commits: bool = False,
    ) -> Result:
        """Carry a plan out and return its result, once it is durable.

        plan: called again if a row that it expects, or a policy of the table bucket or of a table
        in it, has changed: so rights that it judges hold in the transaction. keys: the POINTERS
        keys it changes; writers of the same key take turns. place: of the table bucket. further: of
        other table buckets that the plan changes. holds_commits: the plan makes other commits wait
        (`commits_held`), and does not wait itself. Raises what plan raises; CommitFailed after
        ATTEMPTS_MAX plans; DiskFull; CommitStateUnknown if the outcome is unknown.
        """
        for each in (place, *further):
            self.check_stored(each)
        async with self._turns.take(keys):
            for _ in range(ATTEMPTS_MAX):
                policies = [self._expect_policies(each.bucket_id) for each in (place, *further)]
                try:
                    planned = await plan()
                except (errors.CatalogError, metadata_errors.MetadataError):
                    raise  # an error of its own, which every face maps
                except Exception as error:
                    error.add_note(errors.NOTHING_WRITTEN)
                    raise
                if planned.batch is None:
                    return planned.result
                try:
                    if self._held is not None and not holds_commits:
                        await self._let_through()
                    await self.index.commit(batch.expecting(policies, planned.batch))
                except storage_errors.ExpectationFailed:
                    await self._discard(planned.files)
                    continue
                except storage_errors.CommitUnknown as error:
                    # Nothing is removed: the transaction may have become durable.
                    raise errors.CommitStateUnknown(
                        f"Whether the commit became durable is not known: {error}"
                    ) from error
                except Exception:
                    await self._discard(planned.files)
                    raise
                for bucket_id, loaded in planned.cached:
                    self._cache.put(bucket_id, loaded)
                return planned.result
        raise errors.CommitFailed(
            f"Cannot commit: other writers came first {ATTEMPTS_MAX} times in a row"
        )

    async def decide(
        self,
        decision: batch.Decision[Result],
        *,
        place: records.Place,
        judge: owners.Recheck | None = None,
        makes_room: bool = False,
    ) -> Result:
        """Carry out a plan that is made inside the transaction, and return its result.

        Only for plans of microseconds, since the writer thread runs them. judge: called again if a
        policy of the table bucket has changed meanwhile. place: of the table bucket. Raises what
        judge and decision raise; CommitFailed if its idempotency key was used meanwhile; DiskFull;
        CommitStateUnknown.
        """
        self.check_stored(place)
        for _ in range(ATTEMPTS_MAX):
            policies = self._expect_policies(place.bucket_id)
            if judge is not None:
                judge()

            def decide(reading: batch.Reading, policies: batch.Expect = policies) -> Any:
                if reading.get(policies.store, policies.key) != policies.value:
                    return batch.Decided(result=_POLICIES_CHANGED, batch=batch.Batch())
                return decision(reading)

            result = await self._decide(decide, makes_room=makes_room)
            if result is not _POLICIES_CHANGED:
                return cast(Result, result)
        raise errors.CommitFailed(f"Cannot commit: policies changed {ATTEMPTS_MAX} times in a row")

    async def _decide(self, decision: batch.Decision[Any], *, makes_room: bool) -> Any:
        if self._held is not None:
            await self._let_through()
        try:
            return await self.index.decide(decision, makes_room=makes_room)
        except storage_errors.ExpectationFailed as error:
            raise errors.CommitFailed(f"Cannot commit: {error}") from error
        except storage_errors.CommitUnknown as error:
            raise errors.CommitStateUnknown(
                f"Whether the commit became durable is not known: {error}"
            ) from error

    def _expect_policies(self, bucket_id: int) -> batch.Expect:
        """Return what `settings.expect_policies` does; the row is read again only after a change of
        settings."""
        changes = self.index.settings_changes()
        if changes is None:
            return settings.expect_policies(self.index, bucket_id)
        latest = self._policies.get(bucket_id)
        if latest is not None and latest[0] == changes:
            return latest[1]
        expect = settings.expect_policies(self.index, bucket_id)
        if len(self._policies) >= POLICIES_CACHED_MAX:
            self._policies.clear()
        self._policies[bucket_id] = (changes, expect)
        return expect

    @contextlib.contextmanager
    def commits_held(self) -> Iterator[None]:
        """Make new commits wait, each for at most COMMITS_HELD_SECONDS_MAX.

        They wait until no holder is left. Commits that were handed to the index before are still
        committed.
        """
        if self._held is None:
            self._held = asyncio.Event()
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0 and self._held is not None:
                self._held.set()
                self._held = None

    async def _let_through(self) -> None:
        assert self._held is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMMITS_HELD_SECONDS_MAX):
                await self._held.wait()

    async def tombstone(self, table_bucket: str, key: str, *, by: str) -> None:
        """Write the tombstone of a table's file, for the sweep. An absent file is ignored."""
        await self.objects.tombstone(table_bucket, key, by=by)

    async def _discard(self, files: Sequence[model.Received]) -> None:
        for received in files:
            await self._blobs.discard(received)


_KEY_BYTES_MAX = 511


def _loaded(location: str, data: bytes, table: metadata_model.TableMetadata) -> LoadedMetadata:
    """Return a metadata file with its content. Defaults of null that its schemas spell are left out
    of its bytes: Iceberg's Java library cannot read them."""
    if defaults.spells_null(data):
        data = metadata_model.encode(table)
    return LoadedMetadata(location=location, data=data, table=table)


def _unchanged(info: model.ObjectInfo) -> batch.Batch:
    """Return the Batch that writes nothing and expects an object to be unchanged."""

    def check(reading: batch.Reading) -> Sequence[batch.Write]:
        try:
            lookups.check_source(reading, info)
        except storage_errors.SourceGone as gone:
            raise storage_errors.ExpectationFailed(
                str(gone), store=batch.Store.OBJECTS, key=info.key.encode()
            ) from gone
        return ()

    return batch.Batch(derive=(check,))


def find_repeated(
    base: LoadedMetadata | None, encoded: metadata_model.Encoded, *, table_bucket: str
) -> model.Repeated | None:
    """Return what a new metadata file shares with the one before: snapshots and their log.

    A commit on a table with 1,000 snapshots then writes 20 to 50 KB instead of 340: its CPU,
    writer included, goes from 1,490 to 880 us (in process, 16 writers). Here only lengths are
    compared: the transaction compares the bytes with the stored ones (`bodies.name_repeating`).
    """
    if base is None or is_compressed(base.location):
        return None
    if not REPEATED_BYTES_MIN <= len(base.data) <= INLINE_METADATA_BYTES_MAX:
        return None
    repeats = []
    for (other, other_stop), (start, stop) in zip(base.arrays, encoded.arrays, strict=False):
        length = other_stop - other
        if 0 < length <= stop - start:
            repeats.append(model.SharedBytes(start=start, other=other, length=length))
    key = locations.path_in(base.location, table_bucket=table_bucket)
    if not repeats or key is None:
        return None
    return model.Repeated(key=key, repeats=tuple(repeats))


def is_compressed(location: str) -> bool:
    """Return whether a metadata file is gzip, by either form of its name."""
    return location.endswith((".gz.metadata.json", ".metadata.json.gz"))


def compress(data: bytes) -> bytes:
    """Return data as gzip, always the same bytes for the same data."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def _gunzip(data: bytes, location: str, bytes_max: int) -> bytes:
    text = _gunzip_up_to(data, location, bytes_max)
    if text is None:
        raise metadata_errors.InvalidMetadata(f"{location} is cut short, or too large")
    return text


def _gunzip_up_to(data: bytes, location: str, bytes_max: int) -> bytes | None:
    """Return unpacked gzip, None if it is larger than bytes_max or truncated."""
    decompressor = zlib.decompressobj(wbits=31)
    try:
        text = decompressor.decompress(data, bytes_max)
    except zlib.error as error:
        raise metadata_errors.InvalidMetadata(f"{location} is not gzip: {error}") from None
    return text if decompressor.eof else None


class _Turns:
    """A queue per key. A key without waiters takes no memory."""

    def __init__(self) -> None:
        self.locks: dict[bytes, tuple[asyncio.Lock, int]] = {}

    def take(self, keys: Iterable[bytes]) -> _Turn:
        """Return the context that waits for its turn at every key."""
        return _Turn(self.locks, keys)


class _Turn:
    """One writer's turn. A class, because a generator's context costs twice as much per commit."""

    __slots__ = ("_held", "_keys", "_locks")

    def __init__(self, locks: dict[bytes, tuple[asyncio.Lock, int]], keys: Iterable[bytes]) -> None:
        self._locks = locks
        # All writers take their keys in one order, so that two of them never wait for each other.
        self._keys = sorted(set(keys))
        self._held: list[asyncio.Lock] = []

    async def __aenter__(self) -> None:
        for key in self._keys:
            lock, waiting = self._locks.get(key, (None, 0))
            self._locks[key] = (lock or asyncio.Lock(), waiting + 1)
        try:
            for key in self._keys:
                lock = self._locks[key][0]
                await lock.acquire()
                self._held.append(lock)
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        for lock in reversed(self._held):
            lock.release()
        for key in self._keys:
            lock, waiting = self._locks[key]
            if waiting == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, waiting - 1)


class _Cache:
    """Metadata by bucket id and location, up to a bound of bytes, the least recently used first
    to go.

    A file takes the place of the one that it replaces, which few will read again: so the memory of
    a table does not grow with its commits, and the next commit gets the memory of the last one.
    Bucket ids are used once, so a bucket that is created again has no entries here.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: OrderedDict[tuple[int, str], LoadedMetadata] = OrderedDict()

    def get(self, bucket_id: int, location: str) -> LoadedMetadata | None:
        entry = self._entries.get((bucket_id, location))
        if entry is not None:
            self._entries.move_to_end((bucket_id, location))
        return entry

    def put(self, bucket_id: int, loaded: LoadedMetadata) -> None:
        self._drop(bucket_id, loaded.location)
        if loaded.replaces is not None:
            self._drop(bucket_id, loaded.replaces)
        size_bytes = len(loaded.data) * CACHE_OVERHEAD
        if size_bytes > self._bytes_max:
            return
        self._entries[bucket_id, loaded.location] = loaded
        self._bytes += size_bytes
        while self._bytes > self._bytes_max:
            _, dropped = self._entries.popitem(last=False)
            self._bytes -= len(dropped.data) * CACHE_OVERHEAD

    def _drop(self, bucket_id: int, location: str) -> None:
        dropped = self._entries.pop((bucket_id, location), None)
        if dropped is not None:
            self._bytes -= len(dropped.data) * CACHE_OVERHEAD
