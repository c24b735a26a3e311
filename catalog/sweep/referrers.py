"""engine: tables of other table buckets that reference files of a table bucket.

Deleting a table bucket frees all its files, also those that a table of another bucket names. So the
deletion looks first: it marks the other buckets as the sweep does (`catalog.sweep.marking`), and is
refused at the first file of the bucket that exists and that retained metadata names. Its
transaction refuses if any table bucket has a commit after that mark; then the newer commits are
read and it is planned again. A bucket without objects loses no file, and nothing is marked. Files
that only a damaged metadata file or manifest names are not seen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from catalog import decoding, errors, files, idents, records, store
from catalog.sweep import marking, reach
from storage import batch, keys, model
from storage import errors as storage_errors

ABSENT_MAX: Final = 1_000
"""Files of the bucket that other metadata names and that do not exist: each look looks for them
again. With more, each look marks anew."""
WAITING_FROM: Final = 2
"""From this look on other commits wait for the deletion, so that steady commits do not starve it.
"""


class Referrers:
    """Looks for tables of other table buckets that reference files of one, one mark at a time."""

    def __init__(
        self,
        *,
        store: store.CatalogStore,
        files: files.Files,
        new_decoder: Callable[[], decoding.ChildDecoder] = decoding.ChildDecoder,
    ) -> None:
        self._store = store
        self._files = files
        self._new_decoder = new_decoder
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def looking(self, bucket: model.BucketInfo) -> AsyncIterator[Look]:
        """Yield the looks of one deletion of a table bucket, and end what they need."""
        decoder = self._new_decoder()
        try:
            async with contextlib.AsyncExitStack() as stack:
                yield Look(
                    store=self._store,
                    files=self._files,
                    decoder=decoder,
                    bucket=bucket,
                    turn=self._turn,
                    stack=stack,
                )
        finally:
            await decoder.close()


class Look:
    """The looks of one deletion. Mutable: the mark of the first one is read on.

    turn: held from the first mark on. stack: ends when the deletion does.
    """

    def __init__(
        self,
        *,
        store: store.CatalogStore,
        files: files.Files,
        decoder: decoding.ManifestDecoder,
        bucket: model.BucketInfo,
        turn: asyncio.Lock,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._store = store
        self._files = files
        self._decoder = decoder
        self._bucket = bucket
        self._turn = turn
        self._stack = stack
        self._mark: marking.Mark | None = None
        self._absent: dict[str, marking.Referrer] = {}
        self._number = 0

    @property
    def has_marked(self) -> bool:
        """Whether the bucket has objects, so that the other buckets were marked."""
        return self._mark is not None

    async def hold(self) -> batch.Batch:
        """Return the Batch that writes nothing and expects that no other table has a file here.

        Raises FilesReferenced, and DecodingInterrupted if a file of another bucket was not decoded
        for want of time or memory. Committing it raises ExpectationFailed if an object of the
        bucket has changed since, or a table bucket has a commit that was not read; then call this
        again.
        """
        # Counted before the objects are looked at.
        changes = self._store.index.object_changes(self._bucket.bucket_id)
        mark = await self._read_on() if self._has_objects() else None

        def check(reading: batch.Reading) -> Sequence[batch.Write]:
            if self._store.index.object_changes(self._bucket.bucket_id) != changes:
                raise storage_errors.ExpectationFailed(
                    "an object of the table bucket has changed",
                    store=batch.Store.BUCKETS,
                    key=self._bucket.name.encode(),
                )
            if mark is not None:
                try:
                    mark.check(reading)
                except marking.Moved:
                    raise storage_errors.ExpectationFailed(
                        "a table bucket has a newer commit", store=batch.Store.REFS, key=b""
                    ) from None
            return ()

        return batch.Batch(derive=(check,), makes_room=mark is not None)

    async def _read_on(self) -> marking.Mark:
        """Return the mark of the other buckets up to their newest commits."""
        self._number += 1
        if self._number == WAITING_FROM:
            self._stack.enter_context(self._store.commits_held())
        mark = self._mark
        if mark is None:
            await self._stack.enter_async_context(self._turn)
        if mark is None or len(self._absent) >= ABSENT_MAX:
            self._absent.clear()
            mark = marking.Mark(
                store=self._store,
                files=self._files,
                decoder=self._decoder,
                logs={},
                salt=bytes.fromhex(self._store.new_id()),
                day_ms=self._store.day_ms,
                watch=self._refuse,
                passed_over=self._bucket.bucket_id,
            )
            await mark.run(now_ms=self._store.now_ms())
            self._mark = mark
        else:  # a file that did not exist may be there now
            for key, owner in self._absent.items():
                self._check_absent(key, owner)
        await mark.catch_up()
        if mark.interruption is not None:
            raise mark.interruption
        return mark

    def _has_objects(self) -> bool:
        """Return whether the bucket has an object, hidden ones included."""
        with self._store.index.view() as view:
            walked = keys.walk(view, batch.Store.OBJECTS, self._bucket.bucket_id)
            return next(walked, None) is not None

    def _refuse(self, uri: str, owner: marking.Referrer) -> None:
        """Raise FilesReferenced if a file that a table of another bucket names lies here."""
        if self._bucket.name not in uri:
            return
        for name, key in reach.targets_of(uri):
            if name == self._bucket.name:
                self._check_absent(key, owner)
                if len(self._absent) < ABSENT_MAX:
                    self._absent[key] = owner

    def _check_absent(self, key: str, owner: marking.Referrer) -> None:
        if self._exists(key):
            name = self._bucket.name
            raise errors.FilesReferenced(
                f"The table bucket {name} has files of {self._words(owner)}, such as"
                f" s3://{name}/{key}. Purge that table, or rewrite its rows and wait until"
                " its older states are no longer kept"
            )

    def _exists(self, key: str) -> bool:
        try:
            self._store.objects.head(self._bucket.name, key)
        except storage_errors.StorageError:
            return False
        return True

    def _words(self, owner: marking.Referrer) -> str:
        """Return the words for a table of another bucket, under its present or last name.

        A bucket of another account is not named: the caller may not see it.
        """
        for bucket in self._store.buckets.list():
            if bucket.bucket_id != owner.bucket_id:
                continue
            if bucket.owner != self._bucket.owner:
                return "a table in a table bucket of another account"
            place = records.Place(bucket=bucket)
            with self._store.index.view() as view:
                name = self._store.name_of_object(view, place, owner.object_uuid)
                if name is not None:
                    return f"the table {self._dotted(view, place, name)} of {bucket.name}"
                value = view.get(batch.Store.POINTERS, records.gone_key(place, owner.object_uuid))
                if value is not None:
                    last = records.decode(value, records.LastName)
                    return f"the dropped table {self._dotted(view, place, last)} of {bucket.name}"
        return f"the table with the object uuid {owner.object_uuid}"

    def _dotted(
        self, reading: batch.Reading, place: records.Place, name: records.Name | records.LastName
    ) -> str:
        namespace = self._store.namespace_of(reading, place, name.namespace_id)
        return f"{idents.dotted(namespace)}.{name.name}"
