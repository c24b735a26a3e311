"""engine: general and table buckets, which share one name space.

A bucket's id is never used again, so a name that is deleted and created again starts empty at once;
the sweep frees the old bucket's rows if the deletion discards them. Access and the meaning of
`settings` are decided above this floor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from storage import bodies, errors, keys, lifecycle, locks, lookups, names, records
from storage.batch import (
    Batch,
    Decided,
    Delete,
    Expect,
    Lookup,
    Put,
    Reading,
    Store,
    Write,
    merge,
)
from storage.index import Index
from storage.model import BucketInfo, BucketType, NowMs, Versioning

SettingsChange: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
SettingsCheck: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Raises if a change that was allowed before is not allowed by the settings of a bucket."""

DECODED_MAX = 1024
DECODED_BYTES_MAX = 8 << 20
"""The records that are kept decoded. One is large if its bucket has a policy and CORS rules."""
LISTED_HERE_MAX = 500
"""Decoded in some milliseconds; a listing of more buckets is for a thread, off the event loop."""
HIDDEN_OWNER = "hidden"
NEXT_BUCKET = b"next_bucket"
_ID = struct.Struct(">I")


class Buckets:
    """The buckets of a data folder. A record is decoded once."""

    def __init__(self, *, index: Index, now_ms: NowMs) -> None:
        self._index = index
        self._now_ms = now_ms
        self._reserved: Mapping[str, str] = {}
        # Keyed by the record, which holds the id: it belongs to one name for ever.
        self._decoded: dict[bytes, BucketInfo] = {}
        self._decoded_bytes = 0
        # With the index's count of changes before the record was read: no later change, no look.
        # None is kept while a change is being committed.
        self._newest: dict[str, tuple[int, tuple[BucketInfo, bytes]]] = {}

    def reserve(self, owners: Mapping[str, str]) -> None:
        """Refuse to create buckets of these names from now on. owners: by name."""
        self._reserved = dict(owners)

    def get(self, name: str, reading: Lookup | None = None) -> BucketInfo:
        """Return a bucket. reading: an open view to read from, or None for the newest committed
        state, which is read again only after a change. Raises NoSuchBucket."""
        if reading is not None:
            return self.read(name, reading)[0]
        return self.read_newest(name)[0]

    def read_newest(self, name: str) -> tuple[BucketInfo, bytes]:
        """Return a bucket and its record in the newest committed state, which is read again only
        after a change. Raises NoSuchBucket."""
        changes = self._index.bucket_changes()
        if changes is None:
            return self.read(name, self._index)
        newest = self._newest.get(name)
        if newest is not None and newest[0] == changes:
            return newest[1]
        record = self.read(name, self._index)
        if len(self._newest) >= DECODED_MAX:
            self._newest.clear()
        self._newest[name] = (changes, record)
        return record

    def read(self, name: str, reading: Lookup) -> tuple[BucketInfo, bytes]:
        """Return a bucket and its record, for a commit to expect. Raises NoSuchBucket."""
        value = lookups.find_bucket(reading, name)
        info = self._decoded.get(value)
        if info is None:
            info = records.bucket_info(name, value)
            self._decoded_bytes += len(value)
            if len(self._decoded) >= DECODED_MAX or self._decoded_bytes > DECODED_BYTES_MAX:
                self._decoded.clear()
                self._decoded_bytes = len(value)
            self._decoded[value] = info
        return info, value

    def are_many(self) -> bool:
        """Return whether there are more than LISTED_HERE_MAX buckets. Decodes nothing."""
        with self._index.view() as view:
            return view.count(Store.BUCKETS) > LISTED_HERE_MAX

    def list(self, reading: Reading | None = None, *, hidden: bool = False) -> list[BucketInfo]:
        """Return all buckets by name. reading: an open view to read from. hidden: those too."""
        if reading is None:
            with self._index.view() as view:
                return self.list(view, hidden=hidden)
        return [
            records.bucket_info(name, value)
            for name, value in (
                (key.decode(), value) for key, value in reading.scan(Store.BUCKETS, b"")
            )
            if hidden or not names.is_hidden(name)
        ]

    def having(self, setting: str) -> Sequence[BucketInfo]:
        """Return the buckets that have a setting, by name, but hidden ones.

        setting: ASCII. Only records that contain its bytes are decoded, so that looking at many
        buckets does not hold the event loop.
        """
        named = setting.encode("ascii")
        with self._index.view() as view:
            infos = [
                records.bucket_info(key.decode(), value)
                for key, value in view.scan(Store.BUCKETS, b"")
                if named in value
            ]
        return [
            info for info in infos if setting in info.settings and not names.is_hidden(info.name)
        ]

    async def create_hidden(self, suffix: str, *, region: str) -> BucketInfo:
        """Create a hidden table bucket; its name ends with suffix. Raises BucketAlreadyExists.

        Its owner is no account, so that no listing by owner has it.
        """
        name = names.hidden(suffix)
        return await self._create(name, bucket_type="table", owner=HIDDEN_OWNER, region=region)

    async def create(
        self,
        name: str,
        *,
        bucket_type: BucketType,
        owner: str,
        region: str,
        settings: Mapping[str, Any] | None = None,
        object_lock: bool = False,
    ) -> BucketInfo:
        """Create a bucket. Raises InvalidBucketName, or BucketAlreadyExists with its owner.

        object_lock: its versions can be locked; versioning is enabled with it.
        """
        names.check_bucket_name(name, bucket_type)
        if name in self._reserved:
            raise errors.BucketAlreadyExists(
                f"the name {name!r} is taken by a mount",
                name=name,
                owner=self._reserved[name],
                type="table",
            )
        return await self._create(
            name,
            bucket_type=bucket_type,
            owner=owner,
            region=region,
            settings=settings,
            object_lock=object_lock,
        )

    async def _create(
        self,
        name: str,
        *,
        bucket_type: BucketType,
        owner: str,
        region: str,
        settings: Mapping[str, Any] | None = None,
        object_lock: bool = False,
    ) -> BucketInfo:
        created_at_ms = self._now_ms()

        def decide(reading: Reading) -> Decided[bytes]:
            existing = reading.get(Store.BUCKETS, name.encode())
            if existing is not None:
                record = records.decode_bucket(existing)
                raise errors.BucketAlreadyExists(
                    f"the bucket {name!r} already exists",
                    name=name,
                    owner=record.owner,
                    type=record.type,
                )
            value, creation = plan_row(
                reading,
                name,
                records.BucketRecord(
                    bucket_id=next_bucket_id(reading),
                    type=bucket_type,
                    owner=owner,
                    region=region,
                    created_at_ms=created_at_ms,
                    settings=dict(settings or {}),
                ),
                object_lock=object_lock,
            )
            return Decided(result=value, batch=creation)

        return records.bucket_info(name, await self._index.decide(decide))

    async def update(self, name: str, settings: Mapping[str, Any]) -> BucketInfo:
        """Replace all of a bucket's settings. Raises NoSuchBucket.

        To change some of the settings use `change`, which keeps concurrent changes of the others.
        """
        return await self.change(name, lambda _: settings)

    async def change(
        self,
        name: str,
        change: SettingsChange,
        *,
        bucket_id: int | None = None,
        check: SettingsCheck | None = None,
        expects: tuple[Expect, ...] = (),
        also: Batch | None = None,
    ) -> BucketInfo:
        """Replace a bucket's settings by change(settings), atomically. Raises NoSuchBucket.

        change: pure; it may refuse by raising, and may be called more than once. bucket_id: the
        expected id, so that another bucket of the same name is not changed. check: is called with
        the settings in the transaction that changes them. expects: further rows as they must be;
        raises ExpectationFailed. also: committed with the change.
        """

        def decide(reading: Reading) -> Decided[bytes]:
            before = lookups.find_bucket(reading, name)
            record = _record_of(name, before, bucket_id, check)
            changed = msgspec.structs.replace(record, settings=dict(change(record.settings)))
            value = records.encode_bucket(
                changed,
                records.versioning(before),
                object_lock=records.has_object_lock(before),
                acls=records.has_acls(before),
            )
            put = Put(store=Store.BUCKETS, key=name.encode(), value=value)
            changing = Batch(expects=expects, writes=(put,))
            return Decided(
                result=value, batch=merge((changing, *(() if also is None else (also,))))
            )

        return records.bucket_info(name, await self._index.decide(decide))

    async def set_versioning(
        self,
        name: str,
        versioning: Versioning,
        *,
        bucket_id: int,
        check: SettingsCheck | None = None,
    ) -> BucketInfo:
        """Enable or suspend a bucket's versioning, for all writes from here on.

        bucket_id, check: as for `change`. Raises NoSuchBucket, InvalidBucketState.
        """

        def decide(reading: Reading) -> Decided[bytes]:
            before = lookups.find_bucket(reading, name)
            record = _record_of(name, before, bucket_id, check)
            object_lock = records.has_object_lock(before)
            if object_lock and versioning != "Enabled":
                raise errors.InvalidBucketState(
                    "An Object Lock configuration is present on this bucket, so the versioning "
                    "state cannot be changed.",
                    name=name,
                )
            value = records.encode_bucket(
                record, versioning, object_lock=object_lock, acls=records.has_acls(before)
            )
            put = Put(store=Store.BUCKETS, key=name.encode(), value=value)
            return Decided(result=value, batch=Batch(writes=(put,)))

        return records.bucket_info(name, await self._index.decide(decide))

    async def set_object_lock(
        self,
        name: str,
        default: locks.DefaultRetention | None,
        *,
        bucket_id: int,
        check: SettingsCheck | None = None,
    ) -> BucketInfo:
        """Turn object lock on, for ever, and set the retention of new versions.

        bucket_id, check: as for `change`. Raises NoSuchBucket, and InvalidBucketState unless
        versioning is enabled.
        """

        def decide(reading: Reading) -> Decided[bytes]:
            before = lookups.find_bucket(reading, name)
            record = _record_of(name, before, bucket_id, check)
            if records.versioning(before) != "Enabled":
                raise errors.InvalidBucketState(
                    "Versioning must be 'Enabled' on the bucket to apply a Object Lock "
                    "configuration",
                    name=name,
                )
            kept = {
                each: value
                for each, value in record.settings.items()
                if each != locks.DEFAULT_RETENTION
            }
            settings = {**kept, **locks.settings_of(default)}
            changed = msgspec.structs.replace(record, settings=settings)
            value = records.encode_bucket(
                changed, "Enabled", object_lock=True, acls=records.has_acls(before)
            )
            put = Put(store=Store.BUCKETS, key=name.encode(), value=value)
            return Decided(result=value, batch=Batch(writes=(put,)))

        return records.bucket_info(name, await self._index.decide(decide))

    async def set_lifecycle(
        self,
        name: str,
        rules: Sequence[lifecycle.LifecycleRule],
        *,
        bucket_id: int,
        check: SettingsCheck | None = None,
        transition_minimum: str = lifecycle.MINIMUM,
    ) -> BucketInfo:
        """Replace a bucket's lifecycle rules; an empty sequence removes them.

        The rules have a row of their own, because they may be long: the bucket's record, which
        every write reads, has their digest. bucket_id, check: as for `change`. Raises NoSuchBucket.
        """
        row = lifecycle_key(bucket_id)
        record = records.encode(
            records.LifecycleRecord(rules=tuple(rules), transition_minimum=transition_minimum)
        )

        def decide(reading: Reading) -> Decided[bytes]:
            before = lookups.find_bucket(reading, name)
            stored = _record_of(name, before, bucket_id, check)
            settings = {
                each: value for each, value in stored.settings.items() if each != lifecycle.SETTING
            }
            change: Write = Delete(store=Store.LIFECYCLES, key=row)
            if rules:
                settings[lifecycle.SETTING] = lifecycle.digest(record)
                change = Put(store=Store.LIFECYCLES, key=row, value=record)
            value = records.encode_bucket(
                msgspec.structs.replace(stored, settings=settings),
                records.versioning(before),
                object_lock=records.has_object_lock(before),
                acls=records.has_acls(before),
            )
            put = Put(store=Store.BUCKETS, key=name.encode(), value=value)
            return Decided(result=value, batch=Batch(writes=(put, change)))

        return records.bucket_info(name, await self._index.decide(decide))

    def lifecycle_of(self, bucket: BucketInfo, reading: Lookup | None = None) -> bytes | None:
        """Return the record of a bucket's lifecycle rules, or None if it has none."""
        if lifecycle.SETTING not in bucket.settings:
            return None
        lookup = self._index if reading is None else reading
        return lookup.get(Store.LIFECYCLES, lifecycle_key(bucket.bucket_id))

    async def delete(
        self, name: str, *, discard: bool = False, bucket_id: int | None = None
    ) -> None:
        """Delete a bucket. Raises NoSuchBucket, and BucketNotEmpty unless discard is set.

        Delete markers count as content. Tombstoned objects and unfinished uploads do not; they are
        deleted too.
        """
        await self._index.commit(self.plan_delete(name, discard=discard, bucket_id=bucket_id))

    def plan_delete(
        self, name: str, *, discard: bool = False, bucket_id: int | None = None
    ) -> Batch:
        """Return the Batch that deletes a bucket, to merge into a larger one.

        bucket_id: as for `change`.
        """
        released_at_ms = self._now_ms()

        def derive(reading: Reading) -> Sequence[Write]:
            record = _record_of(name, lookups.find_bucket(reading, name), bucket_id)
            if not discard and any(
                not records.is_tombstoned(value)
                for _, _, value in keys.walk(reading, Store.OBJECTS, record.bucket_id)
            ):
                raise errors.BucketNotEmpty(f"the bucket {name!r} is not empty", name=name)
            return (
                Delete(store=Store.BUCKETS, key=name.encode()),
                bodies.released("bucket", str(record.bucket_id), released_at_ms),
            )

        return Batch(derive=(derive,), makes_room=True)


def next_bucket_id(reading: Lookup) -> int:
    """Return the id that the next bucket gets."""
    counted = reading.get(Store.META, NEXT_BUCKET)
    return 1 if counted is None else int(_ID.unpack(counted)[0])


def plan_row(
    reading: Lookup, name: str, record: records.BucketRecord, *, object_lock: bool = False
) -> tuple[bytes, Batch]:
    """Return the row of a new bucket, and the Batch that writes it.

    record: with the id of `next_bucket_id`. The Batch expects that no other bucket gets the id, and
    that the name has the bucket, or none, that it has in reading: a bucket of that name is
    replaced, and its rows are for the caller to release.
    """
    value = records.encode_bucket(
        record, "Enabled" if object_lock else None, object_lock=object_lock
    )
    key, counted = name.encode(), reading.get(Store.META, NEXT_BUCKET)
    creation = Batch(
        expects=(
            Expect(store=Store.META, key=NEXT_BUCKET, value=counted),
            Expect(store=Store.BUCKETS, key=key, value=reading.get(Store.BUCKETS, key)),
        ),
        writes=(
            Put(store=Store.META, key=NEXT_BUCKET, value=_ID.pack(record.bucket_id + 1)),
            Put(store=Store.BUCKETS, key=key, value=value),
        ),
    )
    return value, creation


def lifecycle_key(bucket_id: int) -> bytes:
    """Return the key of a bucket's row in Store.LIFECYCLES."""
    return _ID.pack(bucket_id)


def _record_of(
    name: str, value: bytes, bucket_id: int | None, check: SettingsCheck | None = None
) -> records.BucketRecord:
    """Return a bucket's record. Raises NoSuchBucket if bucket_id is given and differs, and what
    check raises."""
    record = records.decode_bucket(value)
    if bucket_id is not None and record.bucket_id != bucket_id:
        raise errors.NoSuchBucket(f"the bucket {name!r} was deleted", name=name)
    if check is not None:
        check(record.settings)
    return record
