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
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from storage import (
    bodies,
    checksums,
    conditions,
    errors,
    etags,
    keys,
    locks,
    lookups,
    names,
    pages,
    puts,
    records,
    removals,
    versions,
)
from storage.batch import (
    Batch,
    Check,
    Decided,
    Decision,
    Derivation,
    Expect,
    Lookup,
    OrderedPlan,
    Put,
    Reading,
    Store,
    Write,
    decide_in_order,
)
from storage.blobs import Blobs
from storage.index import Index, ReadView
from storage.model import (
    ALWAYS,
    NULL_VERSION,
    AccessControlList,
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
    SegmentBody,
    VersionPage,
)

DELETE_KEYS_MAX = 1000
HIDDEN_MAX = 1000
"""Tombstones that a listing skips in one turn of the event loop: a millisecond or two."""
READ_BYTES_MAX = 64 << 20
COMPARISONS_MAX = 4
"""Bodies with which one write is compared, byte for byte, before it is refused as a conflict."""

Result = TypeVar("Result")


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
        bucket: lookups.InBucket,
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
        if isinstance(bucket, BucketInfo):
            name, bucket_id = bucket.name, bucket.bucket_id
        else:
            name, bucket_id = bucket, lookups.id_of(reading, bucket)
        if version_id is None:
            value = lookups.find(reading, bucket_id, key)
            if value is None:
                raise lookups.no_such_key(name, key)
        else:
            value = lookups.find_version(reading, bucket_id, key, version_id).value
        if records.has_delete_marker(value):
            raise lookups.delete_marker_error(name, key, value, version_id)
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
        bucket: lookups.InBucket,
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
        decided; a BucketInfo was read from the bucket's record among them. If one has changed,
        ExpectationFailed is raised and the body stays, for another attempt; so it does where the
        outcome is unknown. On any other error it is discarded. Raises NoSuchBucket, InvalidKey,
        PreconditionFailed, NoSuchKey, ContentDiffers, DiskFull, CommitUnknown, IndexClosed.
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
        bucket: lookups.InBucket,
        key: str,
        received: Received,
        *,
        attributes: ObjectAttributes,
        precondition: Precondition = ALWAYS,
        expects: tuple[Expect, ...] = (),
    ) -> asyncio.Future[tuple[ObjectInfo, bool]]:
        """Do what `put` does for a body in memory, in one attempt.

        The future has the object, and whether the body is a new one; or an error of `put`; or
        Unproven, if bytes must be compared first, or TakesLong. Then `put` may be called with the
        same body.
        """
        assert isinstance(received.body, InlineBody), "nothing is to be discarded"
        plan = self._planning(bucket, key, received, attributes, precondition, expects)
        return self._index.start(plan(None))

    def _planning(
        self,
        bucket: lookups.InBucket,
        key: str,
        received: Received,
        attributes: ObjectAttributes,
        precondition: Precondition,
        expects: tuple[Expect, ...],
    ) -> Callable[[puts.Equal | None], Decision[tuple[ObjectInfo, bool]]]:
        """Return what plans a put, given bodies that were compared: the object, and whether its
        body is used."""
        encoded = names.check_key(key)
        judged: bytes | None = None
        others = expects
        if isinstance(bucket, str):
            name, bucket_id = bucket, lookups.id_of(self._index, bucket)
        else:
            name, bucket_id = bucket.name, bucket.bucket_id
            judged, others = _without_bucket(expects, name)
        new = self._new_object(received, attributes)

        def decide(equal: puts.Equal | None) -> Decision[tuple[ObjectInfo, bool]]:
            def put(reading: Reading) -> Decided[tuple[ObjectInfo, bool]]:
                bucket_row = lookups.check_bucket(reading, name, bucket_id, judged=judged)
                info, used, writes = puts.plan_put(
                    reading, name, bucket_id, bucket_row, key, encoded, new, precondition, equal
                )
                # The expected record was just read in this transaction: it need not be read again.
                left = others if bucket_row == judged else expects
                derive = puts.vacate_after(bucket_id, encoded)
                change = Batch(expects=left, writes=tuple(writes), derive=derive)
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
        new = self._new_object(received, attributes, now_ms=now_ms)

        def derive(reading: Reading) -> Sequence[Write]:
            bucket_row = lookups.check_bucket(reading, bucket.name, bucket.bucket_id)
            address, placing = keys.place(reading, Store.OBJECTS, bucket.bucket_id, encoded)
            if reading.get(Store.OBJECTS, address) is not None:
                raise errors.ExpectationFailed(
                    f"{key!r} already exists", store=Store.OBJECTS, key=address
                )
            named = puts.name_repeating(reading, bucket.bucket_id, received.body, repeated, new)
            segments, naming = named or bodies.name_new(received.body, row=new.row)
            versioning = records.versioning(bucket_row)
            record = new.record(segments, None, bucket_row, versioning=versioning)
            put = Put(store=Store.OBJECTS, key=address, value=records.encode(record))
            return (*placing, *naming, put)

        return Batch(derive=(derive,))

    async def copy(
        self,
        source: ObjectInfo,
        bucket: lookups.InBucket,
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
        name, encoded = lookups.name_of(bucket), names.check_key(key)
        bucket_id, now_ms = lookups.id_of(self._index, bucket), self._now_ms()
        locks.check_new(attributes.headers, now_ms=now_ms)
        new = puts.NewObject(
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

        def decide(equal: puts.Equal | None) -> Decision[ObjectInfo]:
            def copy(reading: Reading) -> Decided[ObjectInfo]:
                lookups.check_source(reading, source)
                bucket_row = lookups.check_bucket(reading, name, bucket_id)
                info, _, writes = puts.plan_put(
                    reading, name, bucket_id, bucket_row, key, encoded, new, precondition, equal
                )
                derive = puts.vacate_after(bucket_id, encoded)
                change = Batch(expects=expects, writes=tuple(writes), derive=derive)
                return Decided(result=info, batch=change)

            return copy

        return await decide_once(self._index, self._blobs, key, decide)

    async def delete(
        self,
        bucket: lookups.InBucket,
        key: str,
        *,
        version_id: str | None = None,
        bypass_governance: bool = False,
        owner: str = "",
        judged_owner: str | None = None,
        precondition: Precondition = ALWAYS,
        expects: tuple[Expect, ...] = (),
    ) -> Deleted:
        """Remove an object or the version named; an absent one is ignored.

        Without a version_id a bucket with versions gets a delete marker: when versioning is
        suspended it replaces the null version. bypass_governance, judged_owner: as of a Removal.
        owner: the account of the delete marker. expects: rows on which the removal was decided.
        Raises NoSuchBucket, PreconditionFailed, ObjectLocked, ExpectationFailed.
        """
        removal = removals.Removal(
            key=key,
            version_id=version_id,
            bypass_governance=bypass_governance,
            precondition=precondition,
            judged_owner=judged_owner,
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
        bucket: lookups.InBucket,
        wanted: Sequence[removals.Removal],
        *,
        owner: str = "",
        expects: tuple[Expect, ...] = (),
    ) -> list[Deleted | errors.StorageError]:
        """Do up to DELETE_KEYS_MAX deletions in one transaction; return each one's outcome.

        Each is as in `delete`; an invalid key and a locked version have an error of their own.
        Raises the other errors of `delete`: then nothing is removed.
        """
        assert len(wanted) <= DELETE_KEYS_MAX, "a deletion of many is bounded"
        name, bucket_id = lookups.name_of(bucket), lookups.id_of(self._index, bucket)
        now_ms = self._now_ms()
        refused: dict[int, errors.StorageError] = {}
        plans: list[OrderedPlan[Deleted | errors.StorageError]] = []

        def removing(removal: removals.Removal) -> OrderedPlan[Deleted | errors.StorageError]:
            encoded = names.check_key(removal.key)
            random_id = self._new_id()

            def plan(
                reading: Reading,
            ) -> tuple[Deleted | errors.StorageError, Sequence[Write]]:
                bucket_row = lookups.check_bucket(reading, name, bucket_id)
                try:
                    return removals.plan_delete(
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
                    return locked, ()

            return OrderedPlan(plan=plan, after=puts.vacate_after(bucket_id, encoded))

        for number, removal in enumerate(wanted):
            try:
                plans.append(removing(removal))
            except errors.InvalidKey as error:
                refused[number] = error
        if not plans:
            return list(refused.values())
        # A delete marker takes room.
        frees = not isinstance(bucket, BucketInfo) or bucket.versioning is None
        makes_room = frees or all(removal.version_id is not None for removal in wanted)
        decision = decide_in_order(plans, expects=expects)
        outcomes = await self._index.decide(decision, makes_room=makes_room)
        if not refused:
            return outcomes
        following = iter(outcomes)
        return [
            refused[number] if number in refused else next(following)
            for number in range(len(wanted))
        ]

    def count_segments(
        self, bucket: BucketInfo, wanted: Sequence[tuple[str, str | None]]
    ) -> list[int]:
        """Return how many segments of bodies each deletion releases, as the index is now.

        wanted: keys, each with the version to remove or None. Blocks: a version of 10,000 parts has
        a record of near a million bytes.
        """
        counts = []
        with self._index.view() as view:
            for key, version_id in wanted:
                removed_id = version_id
                if version_id is None and bucket.versioning is not None:
                    # A delete marker replaces the null version at most.
                    removed_id = NULL_VERSION if bucket.versioning == "Suspended" else ""
                if removed_id is None:
                    value = lookups.find(view, bucket.bucket_id, key)
                else:
                    encoded = key.encode("utf-8", "surrogatepass")
                    stored = versions.find(view, bucket.bucket_id, encoded, removed_id)
                    value = None if stored is None else stored.value
                counts.append(0 if value is None else len(records.decode_object(value).segments))
        return counts

    async def tombstone(
        self,
        bucket: lookups.InBucket,
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
        bucket_id = lookups.id_of(self._index, bucket)
        now_ms = self._now_ms()
        hide = removals.derive_tombstone(bucket_id, encoded, by=by, now_ms=now_ms)

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
            same = tuple(each for each in seen if removals.is_unchanged(reading, bucket, each))
            derive = [
                derivation
                for each in same
                for derivation in removals.derive_removal(bucket.bucket_id, each.key, now_ms=now_ms)
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
            same = tuple(each for each in seen if removals.is_unchanged(reading, bucket, each))
            derive = tuple(
                removals.derive_tombstone(bucket.bucket_id, each.key, by=by, now_ms=now_ms)
                for each in same
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
                if (
                    not removals.is_unchanged(reading, bucket, each)
                    or removals.tombstoned_by(reading, bucket, each) != by
                ):
                    continue
                count += 1
                derive.append(removals.derive_no_tombstone(bucket.bucket_id, each.key))
                derive.extend(puts.vacate_after(bucket.bucket_id, each.key))
            return Decided(result=count, batch=Batch(derive=tuple(derive)))

        return await self._index.decide(decide, makes_room=True)

    async def set_tags(
        self,
        bucket: lookups.InBucket,
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
        bucket: lookups.InBucket,
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
        bucket: lookups.InBucket,
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

    async def set_acl(
        self,
        bucket: lookups.InBucket,
        key: str,
        acl: AccessControlList | None,
        *,
        judged: AccessControlList | None,
        version_id: str | None = None,
        expects: tuple[Expect, ...] = (),
    ) -> ObjectInfo:
        """Replace the access control list of an object, or of the version named.

        judged: the list by which the change was allowed. Raises ExpectationFailed if the version
        has another one, or if a row of expects has changed; and the errors of `head`.
        """

        def change(record: records.ObjectRecord) -> records.ObjectRecord:
            if record.attributes.acl != judged:
                raise errors.ExpectationFailed(
                    f"the access control list of {key!r} has changed",
                    store=Store.OBJECTS,
                    key=key.encode(),
                )
            return records.with_acl(record, acl)

        return await self._change_version(bucket, key, version_id, change, expects)

    async def _change_version(
        self,
        bucket: lookups.InBucket,
        key: str,
        version_id: str | None,
        change: Callable[[records.ObjectRecord], records.ObjectRecord],
        expects: tuple[Expect, ...],
    ) -> ObjectInfo:
        """Replace a version's record by change(record), atomically. change may raise."""
        encoded = names.check_key(key)
        name, bucket_id = lookups.name_of(bucket), lookups.id_of(self._index, bucket)

        def plan(reading: Reading) -> tuple[bytes, Sequence[Write]]:
            if version_id is None:
                stored = lookups.newest(reading, bucket_id, encoded)
                if stored is None:
                    raise lookups.no_such_key(name, key)
            else:
                stored = lookups.find_version(reading, bucket_id, key, version_id)
            if records.has_delete_marker(stored.value):
                raise lookups.delete_marker_error(name, key, stored.value, version_id)
            after = change(records.decode_object(stored.value))
            changed = records.encode(after)
            put = Put(store=stored.store, key=stored.row, value=changed)
            if after.attributes.acl is None:
                return changed, (put,)
            bucket_row = lookups.find_bucket(reading, name)
            return changed, (put, *puts.note_acl(name, bucket_row, after.attributes))

        decision = decide_in_order((OrderedPlan(plan=plan),), expects=expects)
        (changed,) = await self._index.decide(decision)
        return records.object_info(name, key, changed)

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
        with self._index.view() as view:
            page, _ = pages.objects_page(
                view,
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
        max_keys = min(max_keys, pages.PAGE_ENTRIES_MAX)
        rows: list[tuple[bytes, bytes]] = []
        common_prefixes: list[bytes] = []
        enter_at = b""
        while True:
            with self._index.view() as view:
                page, paused_at = pages.objects_page(
                    view,
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
            return pages.versions_page(
                view,
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=key_marker,
                version_marker=version_marker,
                max_keys=max_keys,
            )

    def _new_object(
        self, received: Received, attributes: ObjectAttributes, *, now_ms: int | None = None
    ) -> puts.NewObject:
        at_ms = self._now_ms() if now_ms is None else now_ms
        locks.check_new(attributes.headers, now_ms=at_ms)
        random_id = self._new_id()
        digests = received.digests
        return puts.NewObject(
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


def _without_bucket(
    expects: tuple[Expect, ...], name: str
) -> tuple[bytes | None, tuple[Expect, ...]]:
    """Return the record of the bucket that a write expects, None if it expects none, and what it
    expects besides."""
    row_key = name.encode()
    for position, expect in enumerate(expects):
        if expect.store is Store.BUCKETS and expect.key == row_key:
            return expect.value, (*expects[:position], *expects[position + 1 :])
    return None, expects


async def decide_once(
    index: Index,
    blobs: Blobs,
    key: str,
    decide: Callable[[puts.Equal | None], Decision[Result]],
) -> Result:
    """Write to a key that may be write-once; compare the bytes if digests do not decide.

    decide: returns the decision, given a pair of bodies with equal bytes. The decision raises
    Unproven for a pair that it needs compared. Raises ContentDiffers, ExpectationFailed, and the
    decision's errors.
    """
    equal: puts.Equal | None = None
    for _ in range(COMPARISONS_MAX):
        try:
            return await index.decide(decide(equal))
        except puts.Unproven as unproven:
            stored, body = unproven.equal
            if not await blobs.are_equal(SegmentBody(segments=stored), body):
                raise errors.ContentDiffers(str(unproven), key=key) from None
            equal = unproven.equal
    raise errors.ExpectationFailed(
        f"{key!r} changed {COMPARISONS_MAX} times during the comparison of its bytes",
        store=Store.OBJECTS,
        key=key.encode(),
    )
