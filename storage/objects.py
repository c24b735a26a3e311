"""engine: objects: put, read, copy, delete, tombstone, list.

Reads are synchronous and take microseconds: one lookup in the index, which never waits for a
writer. Every write is checked and applied inside the writer's transaction, so a precondition holds
at the moment the object becomes visible, and of two writers exactly one wins. A caller whose
decision depends on other rows passes them as `expects`, so that they hold at that moment as well.
The sweep frees the bodies of overwritten objects.

An object in a table bucket may be tombstoned: hidden from listings, still served, until the sweep
of tables deletes it. The caller decides which key may be written or deleted.
"""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import msgspec

from storage import (
    bodies,
    buckets,
    checksums,
    conditions,
    errors,
    etags,
    keys,
    listing,
    locks,
    names,
    records,
    versions,
)
from storage.batch import (
    Batch,
    Check,
    Decided,
    Decision,
    Delete,
    Derivation,
    Entering,
    Expect,
    Lookup,
    Put,
    Reading,
    Store,
    Write,
)
from storage.blobs import Blobs
from storage.index import Index, ReadView
from storage.model import (
    ALWAYS,
    NULL_VERSION,
    Body,
    BucketInfo,
    ByteRange,
    Deleted,
    FileSlice,
    InlineBody,
    ListedPage,
    ListPage,
    NewId,
    NowMs,
    ObjectAttributes,
    ObjectInfo,
    Precondition,
    Received,
    Repeated,
    Seen,
    Segment,
    SegmentBody,
    Versioning,
    VersionPage,
)

PAGE_ENTRIES_MAX = 1000
DELETE_KEYS_MAX = 1000
HIDDEN_MAX = 1000
"""Tombstones that a listing skips in one turn of the event loop: a millisecond or two."""
READ_BYTES_MAX = 64 << 20
COMPARISONS_MAX = 4
"""Bodies with which one write is compared, byte for byte, before it is refused as a conflict."""
_value: Final = operator.itemgetter(1)
"""The value of a row, for whole pages of them."""

InBucket: TypeAlias = str | BucketInfo
"""A bucket's name, or a bucket that was looked up before, which saves a lookup."""

Equal: TypeAlias = tuple[tuple[Segment, ...], Body]
"""The segments of a stored body, and a body that has the same bytes."""


Result = TypeVar("Result")


class Unproven(Exception):
    """Two bodies have one length and one CRC, but no digests that prove them equal."""

    def __init__(self, message: str, *, equal: Equal) -> None:
        super().__init__(message)
        self.equal = equal


@dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """A deleted object that is still served: when it was deleted, and by which principal."""

    key: str
    at_ms: int
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """One deletion. version_id: the version to remove; None removes or hides the object.

    bypass_governance: the caller may remove a version in spite of its GOVERNANCE retention.
    precondition: judged on that version, or on the newest.
    """

    key: str
    version_id: str | None = None
    bypass_governance: bool = False
    precondition: Precondition = ALWAYS


class Objects:
    """The objects of a data folder's buckets."""

    def __init__(self, *, index: Index, blobs: Blobs, now_ms: NowMs, new_id: NewId) -> None:
        self._index = index
        self._blobs = blobs
        self._now_ms = now_ms
        self._new_id = new_id

    def view(self) -> ReadView:
        """Open a view for several reads of one request; keep it short."""
        return self._index.view()

    def head(
        self,
        bucket: InBucket,
        key: str,
        *,
        version_id: str | None = None,
        reading: Reading | None = None,
    ) -> ObjectInfo:
        """Return an object's newest version, or the one named, tombstoned or not.

        reading: an open view to read from. Raises NoSuchBucket; NoSuchKey, or KeyDeleted if the
        newest version is a delete marker; and for version_id NoSuchVersion, IsDeleteMarker.
        """
        if reading is None:
            with self._index.view() as view:
                return self.head(bucket, key, version_id=version_id, reading=view)
        name, bucket_id = name_of(bucket), id_of(reading, bucket)
        if version_id is None:
            value = find(reading, bucket_id, key)
            if value is None:
                raise _no_such_key(name, key)
        else:
            value = _find_version(reading, bucket_id, key, version_id).value
        if records.has_delete_marker(value):
            raise _is_delete_marker(name, key, value, version_id)
        return records.object_info(name, key, value)

    def pieces(
        self,
        info: ObjectInfo,
        byte_range: ByteRange | None = None,
        *,
        reading: Lookup | None = None,
    ) -> tuple[bytes | FileSlice, ...]:
        """Return an object's bytes, or byte_range of them: bytes in memory, or slices of files.

        reading: an open view to read from. The sweep keeps files for a minute after the object's
        end. A longer read needs `Blobs.hold`. Raises BodyMissing.
        """
        return self._blobs.slices(info.body, byte_range, reading=reading)

    def read(
        self,
        info: ObjectInfo,
        byte_range: ByteRange | None = None,
        *,
        limit_bytes: int = READ_BYTES_MAX,
    ) -> bytes:
        """Return the bytes of a small object; blocks. Raises SizeLimitExceeded, BodyMissing."""
        size_bytes = info.size_bytes if byte_range is None else byte_range.stop - byte_range.start
        if size_bytes > limit_bytes:
            raise errors.SizeLimitExceeded(
                f"{info.key!r} has {size_bytes} bytes, more than {limit_bytes}",
                size_bytes=size_bytes,
                limit_bytes=limit_bytes,
            )
        return self._blobs.read(info.body, byte_range)

    async def put(
        self,
        bucket: InBucket,
        key: str,
        received: Received,
        *,
        attributes: ObjectAttributes,
        precondition: Precondition = ALWAYS,
        expects: tuple[Expect, ...] = (),
    ) -> ObjectInfo:
        """Name a received body and return the object.

        received: holds an MD5 unless attributes have an ETag. A write-once key with the same bytes
        keeps them and takes the attributes. expects: rows on which the permission to write was
        decided. If one has changed, ExpectationFailed is raised and the body stays, for another
        attempt; on any other error the body is discarded. Raises NoSuchBucket,
        InvalidKey, PreconditionFailed, NoSuchKey, ContentDiffers, DiskFull.
        """
        try:
            plan = self._planning(bucket, key, received, attributes, precondition, expects)
            info, used = await decide_once(self._index, self._blobs, key, plan)
        except (errors.CommitUnknown, errors.IndexClosed, errors.ExpectationFailed):
            raise
        except Exception:
            await self._blobs.discard(received)
            raise
        if not used:
            await self._blobs.discard(received)
        return info

    def start_put(
        self,
        bucket: InBucket,
        key: str,
        received: Received,
        *,
        attributes: ObjectAttributes,
        precondition: Precondition = ALWAYS,
        expects: tuple[Expect, ...] = (),
    ) -> asyncio.Future[tuple[ObjectInfo, bool]]:
        """Do what `put` does for a body in memory, in one attempt.

        The future has the object, and whether the body is a new one; or an error of `put`, or
        Unproven, if bytes must be compared first. Then `put` may be called with the same body.
        """
        assert isinstance(received.body, InlineBody), "nothing is to be discarded"
        plan = self._planning(bucket, key, received, attributes, precondition, expects)
        return self._index.start(plan(None))

    def _planning(
        self,
        bucket: InBucket,
        key: str,
        received: Received,
        attributes: ObjectAttributes,
        precondition: Precondition,
        expects: tuple[Expect, ...],
    ) -> Callable[[Equal | None], Decision[tuple[ObjectInfo, bool]]]:
        """Return what plans a put, given bodies that were compared: the object, and whether its
        body is used."""
        name, encoded = name_of(bucket), names.check_key(key)
        bucket_id = id_of(self._index, bucket)
        born = self._born(received, attributes)

        def decide(equal: Equal | None) -> Decision[tuple[ObjectInfo, bool]]:
            def put(reading: Reading) -> Decided[tuple[ObjectInfo, bool]]:
                bucket_row = check_bucket(reading, name, bucket_id)
                info, used, writes = _plan_put(
                    reading, name, bucket_id, bucket_row, key, encoded, born, precondition, equal
                )
                derive = _tidy(bucket_id, encoded)
                change = Batch(expects=expects, writes=tuple(writes), derive=derive)
                return Decided(result=(info, used), batch=change)

            return put

        return decide

    def plan_put(
        self,
        bucket: BucketInfo,
        key: str,
        data: bytes,
        *,
        attributes: ObjectAttributes,
        now_ms: int,
        repeated: Repeated | None = None,
    ) -> Batch:
        """Return the Batch that puts a small body at a key that must be absent.

        For commits that write an object and other rows in one transaction. data: at most 1 MiB.
        repeated: an object that already holds much of data; that part is stored once, as long as
        the object is there when the Batch is written. The commit raises ExpectationFailed if the
        key exists, NoSuchBucket if the bucket was deleted.
        """
        received = Received(
            body=InlineBody(data=data),
            size_bytes=len(data),
            digests=checksums.digest(data, () if attributes.etag else (checksums.MD5,)),
        )
        return self.plan_put_received(
            bucket, key, received, attributes=attributes, now_ms=now_ms, repeated=repeated
        )

    def plan_put_received(
        self,
        bucket: BucketInfo,
        key: str,
        received: Received,
        *,
        attributes: ObjectAttributes,
        now_ms: int,
        repeated: Repeated | None = None,
    ) -> Batch:
        """Return the Batch of `plan_put` for a body of any size that was received before.

        If the Batch is refused, its committer discards the body.
        """
        encoded = names.check_key(key)
        born = self._born(received, attributes, now_ms=now_ms)

        def derive(reading: Reading) -> Sequence[Write]:
            bucket_row = check_bucket(reading, bucket.name, bucket.bucket_id)
            address, placing = keys.place(reading, Store.OBJECTS, bucket.bucket_id, encoded)
            if reading.get(Store.OBJECTS, address) is not None:
                raise errors.ExpectationFailed(
                    f"{key!r} already exists", store=Store.OBJECTS, key=address
                )
            named = _name_repeating(reading, bucket.bucket_id, received.body, repeated, born)
            segments, naming = named or bodies.name_new(received.body, row=born.row)
            record = born.record(segments, None, bucket_row)
            put = Put(store=Store.OBJECTS, key=address, value=records.encode(record))
            return (*placing, *naming, put)

        return Batch(derive=(derive,))

    async def copy(
        self,
        source: ObjectInfo,
        bucket: InBucket,
        key: str,
        *,
        attributes: ObjectAttributes,
        precondition: Precondition = ALWAYS,
        expects: tuple[Expect, ...] = (),
    ) -> ObjectInfo:
        """Name a stored body a second time and return the new object. No byte is copied.

        The ETag is attributes' or the source's. Raises SourceGone if the source was overwritten
        or removed, ExpectationFailed, and the errors of `put`.
        """
        name, encoded = name_of(bucket), names.check_key(key)
        bucket_id, now_ms = id_of(self._index, bucket), self._now_ms()
        locks.check_new(attributes.headers, now_ms=now_ms)
        born = _Born(
            size_bytes=source.size_bytes,
            etag=attributes.etag or source.etag,
            crc64nvme=source.crc64nvme,
            attributes=attributes,
            now_ms=now_ms,
            random_id=self._new_id(),
            row="",
            body=None,
            shared=source.body.segments,
        )

        def decide(equal: Equal | None) -> Decision[ObjectInfo]:
            def copy(reading: Reading) -> Decided[ObjectInfo]:
                check_source(reading, source)
                bucket_row = check_bucket(reading, name, bucket_id)
                info, _, writes = _plan_put(
                    reading, name, bucket_id, bucket_row, key, encoded, born, precondition, equal
                )
                derive = _tidy(bucket_id, encoded)
                change = Batch(expects=expects, writes=tuple(writes), derive=derive)
                return Decided(result=info, batch=change)

            return copy

        return await decide_once(self._index, self._blobs, key, decide)

    async def delete(
        self,
        bucket: InBucket,
        key: str,
        *,
        version_id: str | None = None,
        bypass_governance: bool = False,
        owner: str = "",
        precondition: Precondition = ALWAYS,
        expects: tuple[Expect, ...] = (),
    ) -> Deleted:
        """Remove an object or the version named; an absent one is ignored.

        Without a version_id a bucket with versions gets a delete marker: when versioning is
        suspended it replaces the null version. bypass_governance: as of a Removal. owner: the
        account of the delete marker. expects: rows on which the removal was decided. Raises
        NoSuchBucket, PreconditionFailed, ObjectLocked, ExpectationFailed.
        """
        removal = Removal(
            key=key,
            version_id=version_id,
            bypass_governance=bypass_governance,
            precondition=precondition,
        )
        outcome = await self.delete_many(
            bucket,
            (removal,),
            owner=owner,
            expects=expects,
        )
        deleted = outcome[0]
        if isinstance(deleted, errors.StorageError):
            raise deleted
        return deleted

    async def delete_many(
        self,
        bucket: InBucket,
        wanted: Sequence[Removal],
        *,
        owner: str = "",
        expects: tuple[Expect, ...] = (),
    ) -> list[Deleted | errors.StorageError]:
        """Do up to DELETE_KEYS_MAX deletions in one transaction; return each one's outcome.

        Each is as in `delete`; an invalid key and a locked version have an error of their own.
        Raises the other errors of `delete`: then nothing is removed.
        """
        assert len(wanted) <= DELETE_KEYS_MAX, "a deletion of many is bounded"
        name, bucket_id = name_of(bucket), id_of(self._index, bucket)
        now_ms = self._now_ms()
        outcome: list[Deleted | errors.StorageError] = []
        derive: list[Derivation] = []

        def plan(number: int, removal: Removal) -> tuple[Derivation, ...]:
            encoded = names.check_key(removal.key)
            random_id = self._new_id()

            def derive(reading: Reading) -> Sequence[Write]:
                bucket_row = check_bucket(reading, name, bucket_id)
                try:
                    outcome[number], writes = _plan_delete(
                        reading,
                        bucket_id,
                        bucket_row,
                        encoded,
                        removal,
                        now_ms=now_ms,
                        random_id=random_id,
                        owner=owner,
                    )
                except errors.ObjectLocked as locked:
                    outcome[number] = locked
                    return ()
                return writes

            return (derive, *_tidy(bucket_id, encoded))

        for number, removal in enumerate(wanted):
            outcome.append(Deleted())
            try:
                derive.extend(plan(number, removal))
            except errors.InvalidKey as error:
                outcome[number] = error
        # A delete marker takes room.
        frees = not isinstance(bucket, BucketInfo) or bucket.versioning is None
        makes_room = frees or all(removal.version_id is not None for removal in wanted)
        if derive:
            await self._index.commit(
                Batch(expects=expects, derive=tuple(derive), makes_room=makes_room)
            )
        return outcome

    async def tombstone(
        self,
        bucket: InBucket,
        key: str,
        *,
        by: str,
        precondition: Precondition = ALWAYS,
        expects: tuple[Expect, ...] = (),
    ) -> None:
        """Hide an object from listings; it is still served. An absent one is ignored.

        expects: rows on which the deletion was decided. Raises NoSuchBucket, PreconditionFailed,
        ExpectationFailed.
        """
        encoded = names.check_key(key)
        bucket_id = id_of(self._index, bucket)
        now_ms = self._now_ms()
        hide = _hiding(bucket_id, encoded, by=by, now_ms=now_ms)

        def derive(reading: Reading) -> Sequence[Write]:
            address = keys.locate(reading, bucket_id, encoded)
            value = None if address is None else reading.get(Store.OBJECTS, address)
            record = None if value is None else records.decode_object(value)
            conditions.check_write(
                precondition, key=key, etag=None if record is None else record.etag
            )
            return hide(reading)

        await self._index.commit(Batch(expects=expects, derive=(derive,), makes_room=True))

    async def free_seen(
        self, bucket: BucketInfo, seen: Sequence[Seen], *, check: Check
    ) -> tuple[Seen, ...]:
        """Remove the objects whose rows are still the ones in `seen`, and return those.

        For the sweep of tables. check: runs first inside the transaction and may refuse the whole
        removal by raising.
        """
        assert len(seen) <= DELETE_KEYS_MAX, "a deletion of many is bounded"
        now_ms = self._now_ms()

        def decide(reading: Reading) -> Decided[tuple[Seen, ...]]:
            check(reading)
            same = tuple(each for each in seen if _is_same(reading, bucket, each))
            derive = [
                derivation
                for each in same
                for derivation in _freeing(bucket.bucket_id, each.key, now_ms=now_ms)
            ]
            return Decided(result=same, batch=Batch(derive=tuple(derive)))

        return await self._index.decide(decide, makes_room=True)

    async def hide_seen(
        self, bucket: BucketInfo, seen: Sequence[Seen], *, by: str, check: Check
    ) -> tuple[Seen, ...]:
        """Write tombstones for objects whose rows are still the ones in `seen`; see `free_seen`."""
        assert len(seen) <= DELETE_KEYS_MAX, "a change of many is bounded"
        now_ms = self._now_ms()

        def decide(reading: Reading) -> Decided[tuple[Seen, ...]]:
            check(reading)
            same = tuple(each for each in seen if _is_same(reading, bucket, each))
            derive = tuple(
                _hiding(bucket.bucket_id, each.key, by=by, now_ms=now_ms) for each in same
            )
            return Decided(result=same, batch=Batch(derive=derive))

        return await self._index.decide(decide, makes_room=True)

    async def show_hidden(self, bucket: BucketInfo, seen: Sequence[Seen], *, by: str) -> int:
        """Remove the tombstones that `by` wrote, where the row is still the one in `seen`."""
        assert len(seen) <= DELETE_KEYS_MAX, "a change of many is bounded"

        def decide(reading: Reading) -> Decided[int]:
            derive: list[Derivation] = []
            count = 0
            for each in seen:
                if not _is_same(reading, bucket, each) or _hidden_by(reading, bucket, each) != by:
                    continue
                count += 1
                derive.append(_showing(bucket.bucket_id, each.key))
                derive.extend(_tidy(bucket.bucket_id, each.key))
            return Decided(result=count, batch=Batch(derive=tuple(derive)))

        return await self._index.decide(decide, makes_room=True)

    async def set_tags(
        self,
        bucket: InBucket,
        key: str,
        tags: Mapping[str, str],
        *,
        version_id: str | None = None,
        expects: tuple[Expect, ...] = (),
    ) -> ObjectInfo:
        """Replace the tags of an object, or of the version named; nothing else changes.

        Returns the changed version. expects: rows on which the change was decided. Raises
        ExpectationFailed, and the errors of `head`.
        """
        return await self._change_version(
            bucket, key, version_id, lambda record: records.with_tags(record, tags), expects
        )

    async def set_retention(
        self,
        bucket: InBucket,
        key: str,
        retention: locks.VersionRetention | None,
        *,
        version_id: str | None = None,
        bypass_governance: bool = False,
        expects: tuple[Expect, ...] = (),
    ) -> ObjectInfo:
        """Set or remove the retention of an object's newest version, or of the one named.

        bypass_governance: the caller may change a GOVERNANCE retention. expects: as for `set_tags`.
        Raises ObjectLocked, RetentionInPast, ExpectationFailed, and the errors of `head`.
        """
        now_ms = self._now_ms()
        return await self._change_version(
            bucket,
            key,
            version_id,
            lambda record: locks.with_retention(
                record, retention, now_ms=now_ms, bypass=bypass_governance
            ),
            expects,
        )

    async def set_legal_hold(
        self,
        bucket: InBucket,
        key: str,
        legal_hold: bool,
        *,
        version_id: str | None = None,
        expects: tuple[Expect, ...] = (),
    ) -> ObjectInfo:
        """Turn the legal hold of a version on or off; see `set_retention`."""
        return await self._change_version(
            bucket,
            key,
            version_id,
            lambda record: locks.with_legal_hold(record, legal_hold),
            expects,
        )

    async def _change_version(
        self,
        bucket: InBucket,
        key: str,
        version_id: str | None,
        change: Callable[[records.ObjectRecord], records.ObjectRecord],
        expects: tuple[Expect, ...],
    ) -> ObjectInfo:
        """Replace a version's record by change(record), atomically. change may raise."""
        encoded = names.check_key(key)
        name, bucket_id = name_of(bucket), id_of(self._index, bucket)
        changed = b""

        def derive(reading: Reading) -> Sequence[Write]:
            nonlocal changed
            if version_id is None:
                stored = _newest(reading, bucket_id, encoded)
                if stored is None:
                    raise _no_such_key(name, key)
            else:
                stored = _find_version(reading, bucket_id, key, version_id)
            if records.has_delete_marker(stored.value):
                raise _is_delete_marker(name, key, stored.value, version_id)
            changed = records.encode(change(records.decode_object(stored.value)))
            return (Put(store=stored.store, key=stored.row, value=changed),)

        await self._index.commit(Batch(expects=expects, derive=(derive,)))
        return records.object_info(name, key, changed)

    async def restore(self, bucket: str, key: str) -> None:
        """Remove an object's tombstone. Raises NoSuchBucket, NoSuchKey."""
        encoded = names.check_key(key)
        bucket_id = id_of(self._index, bucket)

        def derive(reading: Reading) -> Sequence[Write]:
            address = keys.locate(reading, bucket_id, encoded)
            value = None if address is None else reading.get(Store.OBJECTS, address)
            if address is None or value is None:
                raise _no_such_key(bucket, key)
            shown = records.with_tombstone(records.decode_object(value), None)
            return (
                Put(store=Store.OBJECTS, key=address, value=records.encode(shown)),
                Delete(store=Store.TOMBSTONES, key=address),
            )

        await self._index.commit(Batch(derive=(derive, *_tidy(bucket_id, encoded))))

    def tombstones(
        self, bucket: str, *, prefix: str = "", start_after: str = "", max_keys: int = 1000
    ) -> tuple[Tombstone, ...]:
        """Return a bucket's tombstones in byte order of their keys, at most max_keys of them."""
        with self._index.view() as view:
            bucket_id = records.bucket_id(buckets.find(view, bucket))

            page = listing.page(
                _Rows(view, Store.TOMBSTONES, bucket_id),
                prefix=prefix.encode(),
                delimiter=b"",
                start_after=start_after.encode(),
                entries_max=min(max_keys, PAGE_ENTRIES_MAX),
            )
        tombstones = []
        for key, value in page.rows:
            record = records.decode_tombstone(value)
            tombstones.append(Tombstone(key=key.decode(), at_ms=record.at_ms, by=record.by))
        return tuple(tombstones)

    def list(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        start_after: str = "",
        max_keys: int = 1000,
        include_tombstoned: bool = False,
    ) -> ListPage:
        """Return one page of a bucket's objects in UTF-8 byte order. Raises NoSuchBucket.

        Skips all tombstones at once; on an event loop use `list_patiently`.
        """
        page, _ = self._list(
            bucket,
            prefix=prefix,
            delimiter=delimiter,
            start_after=start_after,
            max_keys=max_keys,
            hidden_max=None,
            include_tombstoned=include_tombstoned,
        )
        return ListPage(
            objects=tuple(
                [records.object_info(bucket, key.decode(), value) for key, value in page.rows]
            ),
            common_prefixes=tuple([each.decode() for each in page.common_prefixes]),
            next_after=None if page.next_after is None else page.next_after.decode(),
        )

    async def list_patiently(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        start_after: str = "",
        max_keys: int = 1000,
    ) -> ListedPage:
        """Return the page of `list`, as ListedObjects.

        Yields to the event loop after HIDDEN_MAX tombstones. The page is then no longer of one
        moment, and a full page that ends before tombstones has a next_after without a look at the
        keys after them.
        """
        max_keys = min(max_keys, PAGE_ENTRIES_MAX)
        rows: list[tuple[bytes, bytes]] = []
        common_prefixes: list[bytes] = []
        enter_at = b""
        while True:
            page, paused_at = self._list(
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                start_after=start_after,
                max_keys=max_keys - len(rows) - len(common_prefixes),
                enter_at=enter_at,
                hidden_max=HIDDEN_MAX,
            )
            rows += page.rows
            common_prefixes += page.common_prefixes
            next_after = page.next_after
            if paused_at is None or len(rows) + len(common_prefixes) >= max_keys:
                break
            enter_at = paused_at
            await asyncio.sleep(0)
        if paused_at is not None:
            next_after = max([key for key, _ in rows[-1:]] + common_prefixes[-1:])
        return ListedPage(
            objects=tuple(rows),
            common_prefixes=tuple([each.decode() for each in common_prefixes]),
            next_after=None if next_after is None else next_after.decode(),
        )

    def list_versions(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        key_marker: str = "",
        version_marker: str = "",
        max_keys: int = 1000,
    ) -> VersionPage:
        """Return one page of a bucket's versions and delete markers, by key, then newest first.

        Starts after key_marker; with version_marker, which is a version id or a marker of an
        earlier page, after that version of that key. Raises NoSuchBucket.
        """
        with self._index.view() as view:
            bucket_id = records.bucket_id(buckets.find(view, bucket))
            page = listing.page(
                versions.VersionRows(view, bucket_id),
                prefix=versions.entry_of(prefix),
                delimiter=versions.entry_of(delimiter),
                start_after=versions.entry_behind(view, bucket_id, key_marker, version_marker),
                entries_max=min(max_keys, PAGE_ENTRIES_MAX),
                end_mark=keys.END,
            )
        listed = tuple(
            [
                records.listed_version(versions.key_of(entry), value, is_latest=newest)
                for entry, (value, newest) in page.rows
            ]
        )
        next_after = None
        if page.next_after is not None:
            marker = versions.marker_of(page.next_after)
            if marker and listed[-1].version_id != NULL_VERSION:
                marker = listed[-1].version_id
            next_after = versions.key_of(page.next_after), marker
        return VersionPage(
            versions=listed,
            common_prefixes=tuple([versions.key_of(each) for each in page.common_prefixes]),
            next_after=next_after,
        )

    def _list(
        self,
        bucket: str,
        *,
        prefix: str,
        delimiter: str,
        start_after: str,
        max_keys: int,
        hidden_max: int | None,
        enter_at: bytes = b"",
        include_tombstoned: bool = False,
    ) -> tuple[listing.Page[bytes], bytes | None]:
        """Return a page of records, and the key where it stopped after hidden_max tombstones."""
        prefix_bytes = prefix.encode("utf-8", "surrogatepass")
        with self._index.view() as view:
            bucket_id = records.bucket_id(buckets.find(view, bucket))
            hidden = records.has_delete_marker if include_tombstoned else records.is_hidden
            rows = _ShownRows(view, Store.OBJECTS, bucket_id, hidden, hidden_max)
            page = listing.page(
                rows,
                prefix=prefix_bytes,
                delimiter=delimiter.encode("utf-8", "surrogatepass"),
                start_after=start_after.encode("utf-8", "surrogatepass"),
                entries_max=min(max_keys, PAGE_ENTRIES_MAX),
                enter_at=enter_at,
            )
        paused_at = rows.paused_at
        if paused_at is not None and not paused_at.startswith(prefix_bytes):
            paused_at = None  # it stopped after the prefix, where the listing ends
        return page, paused_at

    def _born(
        self, received: Received, attributes: ObjectAttributes, *, now_ms: int | None = None
    ) -> _Born:
        at_ms = self._now_ms() if now_ms is None else now_ms
        locks.check_new(attributes.headers, now_ms=at_ms)
        random_id = self._new_id()
        digests = received.digests
        return _Born(
            size_bytes=received.size_bytes,
            etag=attributes.etag or etags.of_digest(digests[checksums.MD5]),
            crc64nvme=int.from_bytes(digests[checksums.CRC64NVME], "big"),
            attributes=attributes,
            now_ms=at_ms,
            random_id=random_id,
            row=bodies.row_name(at_ms, random_id),
            body=received,
            shared=(),
        )


class _Rows:
    """A bucket's rows of one store, by S3 key, as a listing walks them."""

    paused_at: bytes | None = None

    def __init__(self, view: Entering, store: Store, bucket_id: int) -> None:
        self._view = view
        self._store = store
        self._bucket_id = bucket_id

    def walk(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, _, value in keys.walk(self._view, self._store, self._bucket_id, start):
            yield key, value

    def first(self, start: bytes) -> tuple[bytes, bytes] | None:
        row = keys.first(self._view, self._store, self._bucket_id, start)
        return None if row is None else (row[0], row[2])

    def take(self, start: bytes, stop: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        rows = keys.take(self._view, self._store, self._bucket_id, start, stop, count)
        if rows is None or not self._are_shown(rows):
            return list(itertools.islice(self.walk(start), count))
        return rows

    def _are_shown(self, rows: Sequence[tuple[bytes, bytes]]) -> bool:
        """Say whether walk yields each of these rows."""
        return True


class _ShownRows(_Rows):
    """The rows without those that is_hidden: tombstoned objects and delete markers.

    Mutable: paused_at is the key at which the walk stopped after hidden_max hidden rows; None means
    that it skips all.
    """

    def __init__(
        self,
        view: Entering,
        store: Store,
        bucket_id: int,
        is_hidden: Callable[[bytes], bool],
        hidden_max: int | None,
    ) -> None:
        super().__init__(view, store, bucket_id)
        self._is_hidden = is_hidden
        self._hidden_left = -1 if hidden_max is None else hidden_max

    def walk(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        hidden = self._is_hidden
        for key, _, value in keys.walk(self._view, self._store, self._bucket_id, start):
            if not hidden(value):
                yield key, value
            elif self._hidden_left == 0:
                self.paused_at = key
                return
            else:
                self._hidden_left -= 1

    def first(self, start: bytes) -> tuple[bytes, bytes] | None:
        row = super().first(start)
        if row is None or not self._is_hidden(row[1]):
            return row
        return next(self.walk(row[0]), None)

    def _are_shown(self, rows: Sequence[tuple[bytes, bytes]]) -> bool:
        if not records.any_flagged(map(_value, rows)):
            return True
        return not any(map(self._is_hidden, map(_value, rows)))


class _Born(msgspec.Struct, frozen=True, kw_only=True):
    """A new object, except for the segments of its body."""

    size_bytes: int
    etag: str
    crc64nvme: int
    attributes: ObjectAttributes
    now_ms: int
    random_id: str
    row: str
    body: Received | None
    shared: tuple[Segment, ...]

    def record(
        self,
        segments: tuple[Segment, ...],
        before: records.ObjectRecord | None,
        bucket_row: bytes,
    ) -> records.ObjectRecord:
        sequence, version_id = versions.identity(
            before,
            records.versioning(bucket_row),
            now_ms=self.now_ms,
            random_id=self.random_id,
        )
        return records.ObjectRecord(
            sequence=sequence,
            version_id=version_id,
            size_bytes=self.size_bytes,
            etag=self.etag,
            crc64nvme=self.crc64nvme,
            modified_at_ms=self.now_ms,
            segments=segments,
            attributes=locks.attributes_of_new(bucket_row, self.attributes, now_ms=self.now_ms),
        )


def _name_repeating(
    reading: Reading, bucket_id: int, body: Body, repeated: Repeated | None, born: _Born
) -> tuple[tuple[Segment, ...], tuple[Write, ...]] | None:
    """Return the segments of a body beside the object that it repeats, if that is still there."""
    if repeated is None or not isinstance(body, InlineBody):
        return None
    value = find(reading, bucket_id, repeated.key)
    if value is None:
        return None
    return bodies.name_repeating(
        reading,
        body.data,
        repeats=repeated.repeats,
        other=records.decode_object(value).segments,
        row=born.row,
        now_ms=born.now_ms,
    )


async def decide_once(
    index: Index, blobs: Blobs, key: str, decide: Callable[[Equal | None], Decision[Result]]
) -> Result:
    """Write to a key that may be write-once; compare the bytes if digests do not decide.

    decide: returns the decision, given a pair of bodies with equal bytes. The decision raises
    Unproven for a pair that it needs compared. Raises ContentDiffers, ExpectationFailed, and the
    decision's errors.
    """
    equal: Equal | None = None
    for _ in range(COMPARISONS_MAX):
        try:
            return await index.decide(decide(equal))
        except Unproven as unproven:
            stored, body = unproven.equal
            if not await blobs.are_equal(SegmentBody(segments=stored), body):
                raise errors.ContentDiffers(str(unproven), key=key) from None
            equal = unproven.equal
    raise errors.ExpectationFailed(
        f"{key!r} changed {COMPARISONS_MAX} times during the comparison of its bytes",
        store=Store.OBJECTS,
        key=key.encode(),
    )


def check_same(
    key: str,
    before: records.ObjectRecord,
    *,
    size_bytes: int,
    crc64nvme: int,
    etag: str,
    part_sizes_bytes: Sequence[int],
    body: Body,
    equal: Equal | None,
) -> None:
    """Raise ContentDiffers unless a body has the bytes of the object before; Unproven if unknown.

    A different length or CRC proves a difference, but a CRC can be forged. Equality is proved by an
    MD5 of the same bytes, by the same segments, or by an earlier comparison.
    """
    differs = errors.ContentDiffers(
        f"{key!r} exists with other bytes and is write-once", key=key, etag=before.etag
    )
    if (before.size_bytes, before.crc64nvme) != (size_bytes, crc64nvme):
        raise differs
    if body == SegmentBody(segments=before.segments) or (before.segments, body) == equal:
        return
    same = etags.same_bytes(before.etag, before.attributes.part_sizes_bytes, etag, part_sizes_bytes)
    if same is None:
        raise Unproven(str(differs), equal=(before.segments, body))
    if not same:
        raise differs


def name_of(bucket: InBucket) -> str:
    """Return a bucket's name."""
    return bucket if isinstance(bucket, str) else bucket.name


def id_of(reading: Lookup, bucket: InBucket) -> int:
    """Return a bucket's id, looked up if only the name is given. Raises NoSuchBucket."""
    if isinstance(bucket, str):
        return records.bucket_id(buckets.find(reading, bucket))
    return bucket.bucket_id


def find(reading: Reading, bucket_id: int, key: str) -> bytes | None:
    """Return the record of a key's newest version, or None; also None for an invalid key."""
    encoded = key.encode("utf-8", "surrogatepass")
    if not 1 <= len(encoded) <= keys.KEY_BYTES_MAX:
        return None
    address = keys.locate(reading, bucket_id, encoded)
    return None if address is None else reading.get(Store.OBJECTS, address)


def check_bucket(reading: Reading, name: str, bucket_id: int) -> bytes:
    """Return a bucket's record. Raises NoSuchBucket unless name still has that id."""
    value = buckets.find(reading, name)
    if records.bucket_id(value) != bucket_id:
        raise errors.NoSuchBucket(f"the bucket {name!r} was deleted", name=name)
    return value


def check_source(reading: Reading, source: ObjectInfo) -> None:
    """Raise SourceGone unless the source of a copy still has the body that was read."""
    try:
        bucket_id = records.bucket_id(buckets.find(reading, source.bucket))
    except errors.NoSuchBucket:
        bucket_id = 0
    encoded = source.key.encode("utf-8", "surrogatepass")
    stored = versions.find(reading, bucket_id, encoded, source.version_id)
    if stored is None or records.decode_object(stored.value).segments != source.body.segments:
        raise errors.SourceGone(
            f"{source.key!r} was overwritten or removed during the copy", key=source.key
        )


def _plan_delete(
    reading: Reading,
    bucket_id: int,
    bucket_row: bytes,
    encoded: bytes,
    removal: Removal,
    *,
    now_ms: int,
    random_id: str,
    owner: str,
) -> tuple[Deleted, Sequence[Write]]:
    """Check a deletion; return its outcome and the writes."""
    version_id, versioning = removal.version_id, records.versioning(bucket_row)
    if version_id is not None:
        stored = versions.find(reading, bucket_id, encoded, version_id)
    else:
        stored = _newest(reading, bucket_id, encoded)
    if removal.precondition is not ALWAYS:
        judged = None if stored is None else records.decode_object(stored.value)
        check_write(removal.precondition, removal.key, judged)
    if version_id is None and versioning is not None:
        return _plan_delete_marker(
            reading,
            bucket_id,
            versioning,
            encoded,
            stored,
            now_ms=now_ms,
            random_id=random_id,
            owner=owner,
        )
    if stored is None:
        return Deleted(version_id=version_id), ()
    if records.has_object_lock(bucket_row):
        record = records.decode_object(stored.value)
        locks.check_removal(record, now_ms=now_ms, bypass=removal.bypass_governance)
    is_delete_marker = records.has_delete_marker(stored.value)
    deleted = Deleted(version_id=version_id, is_delete_marker=is_delete_marker)
    return deleted, _plan_removal(reading, stored, versioning, now_ms=now_ms)


def _plan_delete_marker(
    reading: Reading,
    bucket_id: int,
    versioning: Versioning,
    encoded: bytes,
    newest: versions.Stored | None,
    *,
    now_ms: int,
    random_id: str,
    owner: str,
) -> tuple[Deleted, Sequence[Write]]:
    """Return the outcome and the writes of a deletion that writes a delete marker."""
    before = None if newest is None else records.decode_object(newest.value)
    marker = versions.delete_marker(
        before,
        versioning,
        now_ms=now_ms,
        random_id=random_id,
        owner=owner,
    )
    address, placing = keys.place(reading, Store.OBJECTS, bucket_id, encoded)
    change = versions.plan_succession(reading, bucket_id, encoded, address, before, versioning)
    deleted = Deleted(version_id=marker.version_id, is_delete_marker=True)
    return deleted, (
        *placing,
        *change.writes,
        *bodies.recount(reading, added=(), removed=change.removed, now_ms=now_ms),
        Put(store=Store.OBJECTS, key=address, value=records.encode(marker)),
    )


def _plan_removal(
    reading: Reading, stored: versions.Stored, versioning: Versioning | None, *, now_ms: int
) -> Sequence[Write]:
    """Return the writes that remove a version, and the tombstone of a tombstoned object."""
    change = versions.plan_removal(reading, stored, versioning)
    writes = list(change.writes)
    if records.is_tombstoned(stored.value):
        writes.append(Delete(store=Store.TOMBSTONES, key=stored.address))
    writes.extend(bodies.recount(reading, added=(), removed=change.removed, now_ms=now_ms))
    return writes


def _freeing(bucket_id: int, encoded: bytes, *, now_ms: int) -> tuple[Derivation, ...]:
    """Return the derivations that remove an object of a table bucket, which has no versions."""

    def derive(reading: Reading) -> Sequence[Write]:
        stored = _newest(reading, bucket_id, encoded)
        return () if stored is None else _plan_removal(reading, stored, None, now_ms=now_ms)

    return (derive, *_tidy(bucket_id, encoded))


def _newest(reading: Reading, bucket_id: int, encoded: bytes) -> versions.Stored | None:
    """Return the newest version of a key, a delete marker too."""
    address = keys.locate(reading, bucket_id, encoded)
    value = None if address is None else reading.get(Store.OBJECTS, address)
    if address is None or value is None:
        return None
    return versions.Stored(address=address, row=address, value=value, newest=True)


def _is_same(reading: Reading, bucket: BucketInfo, seen: Seen) -> bool:
    """Return whether an object's row is the one in `seen`."""
    address = keys.locate(reading, bucket.bucket_id, seen.key)
    return address is not None and reading.get(Store.OBJECTS, address) == seen.value


def _hidden_by(reading: Reading, bucket: BucketInfo, seen: Seen) -> str | None:
    """Return the principal that wrote an object's tombstone."""
    address = keys.locate(reading, bucket.bucket_id, seen.key)
    value = None if address is None else reading.get(Store.TOMBSTONES, address)
    return None if value is None else records.decode_tombstone(value).by


def _hiding(bucket_id: int, encoded: bytes, *, by: str, now_ms: int) -> Derivation:
    """Return the derivation that writes a tombstone for an object that has none."""

    def derive(reading: Reading) -> Sequence[Write]:
        address = keys.locate(reading, bucket_id, encoded)
        value = None if address is None else reading.get(Store.OBJECTS, address)
        record = None if value is None else records.decode_object(value)
        if address is None or record is None or record.tombstoned_at_ms is not None:
            return ()
        hidden = records.with_tombstone(record, now_ms)
        _, placing = keys.place(reading, Store.TOMBSTONES, bucket_id, encoded)
        tombstone = records.TombstoneRecord(at_ms=now_ms, by=by)
        return (
            *placing,
            Put(store=Store.OBJECTS, key=address, value=records.encode(hidden)),
            Put(store=Store.TOMBSTONES, key=address, value=records.encode(tombstone)),
        )

    return derive


def _showing(bucket_id: int, encoded: bytes) -> Derivation:
    """Return the derivation that removes an object's tombstone."""

    def derive(reading: Reading) -> Sequence[Write]:
        address = keys.locate(reading, bucket_id, encoded)
        value = None if address is None else reading.get(Store.OBJECTS, address)
        if address is None or value is None:
            return ()
        shown = records.with_tombstone(records.decode_object(value), None)
        return (
            Put(store=Store.OBJECTS, key=address, value=records.encode(shown)),
            Delete(store=Store.TOMBSTONES, key=address),
        )

    return derive


def _tidy(bucket_id: int, encoded: bytes) -> tuple[Derivation, ...]:
    """Return the derivations that follow every change that may have removed a row of the key."""
    if len(encoded) <= keys.CHUNK_BYTES:
        return ()
    return (lambda reading: keys.vacate(reading, bucket_id, encoded),)


def _plan_put(
    reading: Reading,
    bucket: str,
    bucket_id: int,
    bucket_row: bytes,
    key: str,
    encoded: bytes,
    born: _Born,
    precondition: Precondition,
    equal: Equal | None,
) -> tuple[ObjectInfo, bool, Sequence[Write]]:
    """Check a write; return the object, whether its body is used, and the writes."""
    versioning = records.versioning(bucket_row)
    address, placing = keys.place(reading, Store.OBJECTS, bucket_id, encoded)
    value = reading.get(Store.OBJECTS, address)
    before = None if value is None else records.decode_object(value)
    check_write(precondition, key, before)
    if before is not None and precondition.write_once:
        assert versioning is None, "only table buckets have write-once keys, and no versions"
        return _plan_rewrite(bucket, bucket_row, key, address, before, born, equal)
    change = versions.plan_succession(reading, bucket_id, encoded, address, before, versioning)
    added: tuple[Segment, ...] = born.shared
    naming: tuple[Write, ...] = ()
    segments = born.shared
    if born.body is not None:
        segments, naming = bodies.name_new(born.body.body, row=born.row)
    counting = (
        bodies.recount(reading, added=added, removed=change.removed, now_ms=born.now_ms)
        if added or change.removed
        else ()
    )
    record = born.record(segments, before, bucket_row)
    writes: list[Write] = [
        *placing,
        *naming,
        *change.writes,
        *counting,
        Put(store=Store.OBJECTS, key=address, value=records.encode(record)),
    ]
    if before is not None and before.tombstoned_at_ms is not None:
        writes.append(Delete(store=Store.TOMBSTONES, key=address))
    return records.describe(bucket, key, record), True, writes


def _plan_rewrite(
    bucket: str,
    bucket_row: bytes,
    key: str,
    address: bytes,
    before: records.ObjectRecord,
    born: _Born,
    equal: Equal | None,
) -> tuple[ObjectInfo, bool, Sequence[Write]]:
    """Write to a write-once key: identical bytes stay, and are no longer tombstoned.

    The attributes are the writer's, as in every other write; an identical write leaves the object
    as it is.
    """
    check_same(
        key,
        before,
        size_bytes=born.size_bytes,
        crc64nvme=born.crc64nvme,
        etag=born.etag,
        part_sizes_bytes=born.attributes.part_sizes_bytes,
        body=SegmentBody(segments=born.shared) if born.body is None else born.body.body,
        equal=equal,
    )
    if (before.etag, before.attributes) == (born.etag, born.attributes):
        after = records.with_tombstone(before, None)
    else:
        after = born.record(before.segments, before, bucket_row)
    stored = records.encode(after)
    info = records.object_info(bucket, key, stored)
    if after == before:
        return info, False, ()
    writes: list[Write] = [Put(store=Store.OBJECTS, key=address, value=stored)]
    if before.tombstoned_at_ms is not None:
        writes.append(Delete(store=Store.TOMBSTONES, key=address))
    return info, False, writes


def check_write(precondition: Precondition, key: str, newest: records.ObjectRecord | None) -> None:
    """Raise NoSuchKey or PreconditionFailed if a write is not allowed.

    newest: the key's newest version; a delete marker is no object.
    """
    is_object = newest is not None and not records.is_delete_marker(newest)
    conditions.check_write(
        precondition, key=key, etag=newest.etag if newest is not None and is_object else None
    )


def _find_version(reading: Reading, bucket_id: int, key: str, version_id: str) -> versions.Stored:
    """Return a version, a delete marker too. Raises NoSuchVersion."""
    encoded = key.encode("utf-8", "surrogatepass")
    stored = versions.find(reading, bucket_id, encoded, version_id)
    if stored is None:
        raise errors.NoSuchVersion(
            f"{key!r} has no version {version_id!r}", key=key, version_id=version_id
        )
    return stored


def _is_delete_marker(
    bucket: str, key: str, value: bytes, version_id: str | None
) -> errors.StorageError:
    """Return the error of reading a delete marker. version_id: None if it is the newest version."""
    record = records.decode_object(value)
    if version_id is None:
        return errors.KeyDeleted(
            f"{key!r} was deleted", bucket=bucket, key=key, version_id=record.version_id
        )
    return errors.IsDeleteMarker(
        f"the version {version_id!r} of {key!r} is a delete marker",
        bucket=bucket,
        key=key,
        version_id=version_id,
        modified_at_ms=record.modified_at_ms,
    )


def _no_such_key(bucket: str, key: str) -> errors.NoSuchKey:
    return errors.NoSuchKey(f"{key!r} does not exist", bucket=bucket, key=key)
