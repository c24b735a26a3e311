"""engine: pointers of tables and views: finding, dropping, restoring, renaming, registering.

A table and a view differ here in their object type and in the error for one that does not exist;
both have one space of names and one of locations. Each change of a pointer is one index transaction
that expects the pointer as it was read. Reads and writes no metadata file.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import (
    claims,
    commit,
    departures,
    errors,
    idents,
    locations,
    owners,
    properties,
    receipts,
    records,
    sites,
    store,
)
from storage import batch

DROPPED_EXAMINED_MAX: Final = 1_000
"""Dropped tables and views of one name among which the newest to restore is looked for, newest
first; those before it were unregistered or are of the other type. By its uuid any is found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedEntry:
    """The row of a dropped table or view, stored and decoded. ident: its last name."""

    ident: idents.TableIdent
    key: bytes
    value: bytes
    dropped: records.Dropped


class Pointers:
    """The pointers of all tables, or of all views. Stateless beside its store."""

    def __init__(self, *, store: store.CatalogStore, object_type: idents.PointerType) -> None:
        self._store = store
        self._object_type = object_type

    def read(self, ident: idents.TableIdent) -> records.Pointer:
        """Return a pointer. Raises NoSuchWarehouse, and NoSuchTable or NoSuchView."""
        with self._store.view() as view:
            return self.entry(view, self._store.place(ident.table_bucket, view), ident).pointer

    def entry(
        self, reading: batch.Reading, place: records.Place, ident: idents.TableIdent
    ) -> store.StoredPointer:
        """Return a pointer's row. Raises NoSuchTable or NoSuchView."""
        entry = self._store.find_pointer(reading, place, self._object_type, ident)
        if entry is not None:
            return entry
        if self._object_type == "view":
            raise errors.NoSuchView(f"View does not exist: {ident.dotted()}")
        raise errors.NoSuchTable(f"Table does not exist: {ident.dotted()}")

    def keys(self, place: records.Place, *pointers: idents.TableIdent) -> list[bytes]:
        """Return the keys for which writers of these pointers queue.

        A namespace without an id has none.
        """
        keys = []
        for ident in pointers:
            namespace_id = self._store.namespace_id(self._store.index, place, ident.namespace)
            if namespace_id:
                name = ident.name.encode("utf-8", "replace").decode()
                keys.append(records.pointer_key(place, self._object_type, namespace_id, name))
        return keys

    async def drop(
        self,
        ident: idents.TableIdent,
        depart: Callable[[records.Place, int], departures.DropPlan],
        *,
        version_token: str | None = None,
        by: str,
        via: str,
        judge: owners.Judge | None,
        receipt: receipts.Receipt | None,
        check: Callable[[records.Pointer], Awaitable[object]],
    ) -> records.Pointer:
        """Remove a pointer, and return it. Its files stay.

        depart: returns what becomes of the files; its arguments are the place and the time. judge,
        check: called with the pointer while the write is planned; check raises if the pointer must
        stay. Raises as `read` does, StaleVersionToken, and what the two raise.
        """

        async def plan() -> store.Planned[records.Pointer]:
            with self._store.index.view() as view:
                place = self._store.place(ident.table_bucket, view)
                entry = self.entry(view, place, ident)
            if judge is not None:
                judge(place, ident, entry.pointer)
            check_token(entry.pointer, version_token)
            await check(entry.pointer)
            now_ms = self._store.now_ms()
            departure = depart(place, departures.dropped_after(entry.pointer, now_ms))
            removed = self.change(
                ident,
                entry.namespace_id,
                before=entry,
                after=None,
                summary=departure.summary,
                leaving=departure.leaving,
            )
            committed = commit.plan(place, [removed], author=by, via=via, time_ms=now_ms)
            note = () if receipt is None else (receipt.plan(pointer=entry.pointer),)
            held = departures.hold_settings(place)
            # A drop leads to freed bytes, so a full disk does not refuse it.
            whole = msgspec.structs.replace(batch.merge((committed, held, *note)), makes_room=True)
            return store.Planned(result=entry.pointer, batch=whole)

        place = self._store.place(ident.table_bucket)
        return await self._store.write(plan, keys=self.keys(place, ident), place=place)

    def dropped(
        self, ident: idents.TableIdent, *, object_uuid: str | None = None
    ) -> records.Dropped:
        """Return what `undrop` would restore. Raises NoSuchWarehouse, NotRestorable."""
        with self._store.index.view() as view:
            place = self._store.place(ident.table_bucket, view)
            return self.find_dropped(view, place, ident, object_uuid=object_uuid).dropped

    def find_dropped(
        self,
        reading: batch.Reading,
        place: records.Place,
        ident: idents.TableIdent,
        *,
        object_uuid: str | None = None,
    ) -> DroppedEntry:
        """Return what was dropped last under a name and can be restored.

        object_uuid: of one of several that had this name. Raises NotRestorable.
        """
        namespace_id = self._store.namespace_id(reading, place, ident.namespace)
        if object_uuid is not None:
            # By its uuid, however many were dropped under the name since.
            entry = self.find_departed(reading, place, object_uuid)
            is_under_name = records.dropped_name(entry.key) == (namespace_id, ident.name)
            if is_under_name and entry.dropped.how == "drop":
                return dataclasses.replace(entry, ident=ident)
            raise errors.NotRestorable(
                f"No dropped {self._object_type} {ident.dotted()} can be restored"
            )
        is_key = (
            namespace_id and len(ident.name.encode("utf-8", "replace")) <= idents.NAME_BYTES_MAX
        )
        if is_key:
            name = ident.name.encode("utf-8", "replace").decode()
            prefix = records.dropped_range(place, namespace_id, name)
            rows = reading.scan(
                batch.Store.POINTERS, prefix, records.stop_after(prefix), reverse=True
            )
            for key, value in itertools.islice(rows, DROPPED_EXAMINED_MAX):
                # A name that ends with NUL is a prefix of the keys of another name.
                if records.dropped_name(key) != (namespace_id, ident.name):
                    continue
                dropped = records.decode(value, records.Dropped)
                if dropped.pointer.object_type != self._object_type or dropped.how != "drop":
                    continue
                return DroppedEntry(key=key, value=value, dropped=dropped, ident=ident)
        raise errors.NotRestorable(
            f"No dropped {self._object_type} {ident.dotted()} can be restored"
        )

    async def undrop(
        self,
        ident: idents.TableIdent,
        *,
        object_uuid: str | None,
        target: idents.TableIdent | None,
        by: str,
        via: str,
        permit: owners.Permit,
        judge: owners.Undrop | None,
        receipt: receipts.Receipt | None,
        check: Callable[[records.Pointer], Awaitable[object]],
    ) -> records.Pointer:
        """Give a dropped pointer its name back, or the name target, and return it.

        The files that it references were kept. It has the location, the settings and the policy
        that it had. permit: called if another table or view took its location since. judge, check:
        as in `drop`. Raises NoSuchWarehouse, NotRestorable, NoSuchNamespace, TableAlreadyExists,
        ViewAlreadyExists, InvalidName, InvalidLocation if another has its location now, and what
        permit raises.
        """
        restored = ident if target is None else target
        assert restored.table_bucket == ident.table_bucket, "a table stays in its table bucket"
        idents.check_name(restored.name, self._object_type)
        place = self._store.place(ident.table_bucket)

        async def plan() -> store.Planned[records.Pointer]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entry = self.find_dropped(view, place, ident, object_uuid=object_uuid)
                old = entry.dropped.pointer
                if judge is not None:
                    judge(place, ident, restored, old)
                holder = self._store.namespace(view, place, restored.namespace)
                sites.check_name_free(
                    self._store, view, place, restored, object_type=self._object_type
                )
                claim = claims.claim(
                    view,
                    place,
                    locations.parse_location(old.location, table_bucket=place.table_bucket),
                    object_uuid=old.object_uuid,
                    object_type=self._object_type,
                    namespace_id=holder.row.namespace_id,
                    name=restored.name,
                    now_ms=now_ms,
                    permit=permit,
                    standing_uuid=old.object_uuid,
                )
            await check(old)
            pointer = msgspec.structs.replace(
                old, modified_at_ms=later(now_ms, old), modified_by=by
            )
            change = self.change(
                restored,
                holder.row.namespace_id,
                before=None,
                after=pointer,
                summary={"operation": "undrop", "from": ident.dotted()},
                holder=holder,
            )
            committed = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
            kept = batch.Expect(store=batch.Store.POINTERS, key=entry.key, value=entry.value)
            note = () if receipt is None else (receipt.plan(pointer=pointer),)
            whole = batch.merge((batch.Batch(expects=(kept,)), claim, committed, *note))
            return store.Planned(result=pointer, batch=whole)

        return await self._store.write(plan, keys=self.keys(place, restored), place=place)

    async def discard(
        self,
        table_bucket: str,
        object_uuid: str,
        *,
        judge: owners.Judge | None,
    ) -> records.Dropped:
        """Give up a dropped or unregistered table or view: its files are freed as after a purge.

        judge: called with its last name and pointer while the write is planned. Raises
        NoSuchWarehouse, NotRestorable.
        """
        place = self._store.place(table_bucket)

        async def plan() -> store.Planned[records.Dropped]:
            with self._store.index.view() as view:
                entry = self.find_departed(view, place, object_uuid)
                last = entry.ident
            if judge is not None:
                judge(place, last, entry.dropped.pointer)
            namespace_id, name = records.dropped_name(entry.key)
            given_up = records.LastName(
                object_type=self._object_type,
                namespace_id=namespace_id,
                name=name,
                is_discarded=True,
            )
            planned = batch.Batch(
                expects=(
                    batch.Expect(store=batch.Store.POINTERS, key=entry.key, value=entry.value),
                ),
                writes=(
                    batch.Delete(store=batch.Store.POINTERS, key=entry.key),
                    batch.Put(
                        store=batch.Store.POINTERS,
                        key=records.gone_key(place, object_uuid),
                        value=records.encode(given_up),
                    ),
                ),
                makes_room=True,
            )
            return store.Planned(result=entry.dropped, batch=planned)

        return await self._store.write(plan, keys=(), place=place)

    def find_departed(
        self, reading: batch.Reading, place: records.Place, object_uuid: str
    ) -> DroppedEntry:
        """Return what is kept of the table or view with a uuid, however it left.

        Raises NotRestorable.
        """
        missing = errors.NotRestorable(f"Nothing is kept of a dropped table {object_uuid}")
        try:
            value = reading.get(batch.Store.POINTERS, records.gone_key(place, object_uuid))
        except ValueError:
            raise missing from None
        last = None if value is None else records.decode(value, records.LastName)
        if last is None or not last.dropped_at_ms or last.object_type != self._object_type:
            raise missing
        key = records.dropped_key(
            place, last.namespace_id, last.name, last.dropped_at_ms, object_uuid
        )
        row = reading.get(batch.Store.POINTERS, key)
        if row is None:
            raise missing
        ident = idents.TableIdent(
            table_bucket=place.table_bucket,
            namespace=self._store.namespace_of(reading, place, last.namespace_id),
            name=last.name,
        )
        dropped = records.decode(row, records.Dropped)
        return DroppedEntry(key=key, value=row, dropped=dropped, ident=ident)

    async def rename(
        self,
        source: idents.TableIdent,
        target: idents.TableIdent,
        *,
        version_token: str | None = None,
        by: str,
        via: str,
        judge: owners.Judge | None,
        receipt: receipts.Receipt | None,
    ) -> records.Pointer:
        """Give a pointer another name, in any namespace of its table bucket. Its files stay.

        judge: called with the pointer while the write is planned. Raises as `read` does,
        NoSuchNamespace, TableAlreadyExists, ViewAlreadyExists, InvalidName, StaleVersionToken.
        """
        idents.check_name(target.name, self._object_type)
        place = self._store.place(source.table_bucket)
        assert source.table_bucket == target.table_bucket, "a rename stays in its table bucket"

        async def plan() -> store.Planned[records.Pointer]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entry = self.entry(view, place, source)
                if judge is not None:
                    judge(place, source, entry.pointer)
                check_token(entry.pointer, version_token)
                holder = self._store.namespace(view, place, target.namespace)
                sites.check_rename_free(self._store, view, place, source, target)
            pointer = msgspec.structs.replace(
                entry.pointer, modified_at_ms=later(now_ms, entry.pointer), modified_by=by
            )
            summary = {"operation": "rename", "from": source.dotted(), "to": target.dotted()}
            changes = (
                self.change(source, entry.namespace_id, before=entry, after=None, summary=summary),
                self.change(
                    target,
                    holder.row.namespace_id,
                    before=None,
                    after=pointer,
                    summary=summary,
                    holder=holder,
                ),
            )
            committed = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
            note = () if receipt is None else (receipt.plan(status=204),)
            return store.Planned(result=pointer, batch=batch.merge((committed, *note)))

        return await self._store.write(plan, keys=self.keys(place, source, target), place=place)

    async def swap(
        self,
        first: idents.TableIdent,
        second: idents.TableIdent,
        *,
        by: str,
        via: str,
        judge: owners.Judge | None,
        receipt: receipts.Receipt | None,
    ) -> None:
        """Exchange the names of two pointers of one table bucket. Their files stay.

        judge: called with each while the write is planned. Raises as `read` does.
        """
        place = self._store.place(first.table_bucket)
        assert first.table_bucket == second.table_bucket, "a swap stays in its table bucket"

        async def plan() -> store.Planned[None]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entries = {ident: self.entry(view, place, ident) for ident in (first, second)}
            if judge is not None:
                for ident, entry in entries.items():
                    judge(place, ident, entry.pointer)
            changes = []
            for ident, other in ((first, second), (second, first)):
                moved = entries[other].pointer
                pointer = msgspec.structs.replace(
                    moved, modified_at_ms=later(now_ms, moved), modified_by=by
                )
                summary = {"operation": "swap", "from": other.dotted(), "to": ident.dotted()}
                changes.append(
                    self.change(
                        ident,
                        entries[ident].namespace_id,
                        before=entries[ident],
                        after=pointer,
                        summary=summary,
                    )
                )
            note = () if receipt is None else (receipt.plan(status=204),)
            if first == second:
                return store.Planned(result=None, batch=batch.merge(note) if note else None)
            committed = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
            return store.Planned(result=None, batch=batch.merge((committed, *note)))

        await self._store.write(plan, keys=self.keys(place, first, second), place=place)

    def plan_registration(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        metadata_location: str,
        *,
        location: str,
        metadata_uuid: str | None,
        holder: store.StoredNamespace,
        before: store.StoredPointer | None,
        departure: departures.DropPlan | None = None,
        new_uuid: str,
        by: str,
        via: str,
        now_ms: int,
        permit: owners.Permit,
        receipt: receipts.Receipt | None,
    ) -> tuple[records.Pointer, batch.Batch]:
        """Return a pointer to a metadata file that a client wrote, and the Batch that writes it.

        location, metadata_uuid: as the file names them. before: a pointer of this name, which gets
        the file. departure: the file belongs to another table, so that before is dropped. new_uuid:
        of a pointer whose location never had an owner, or whose owner has another table
        uuid and can be restored. permit: called for the owner of the location. Raises
        InvalidLocation, and what permit raises.
        """
        path = locations.parse_location(location, table_bucket=place.table_bucket)
        standing = None if before is None or departure is not None else before.pointer
        with self._store.index.view() as view:
            owner_uuid = new_uuid
            if standing is not None:
                owner_uuid = standing.object_uuid
            else:
                row = claims.find_claimable(
                    view,
                    place,
                    path,
                    namespace_id=holder.row.namespace_id,
                    name=ident.name,
                    now_ms=now_ms,
                )
                if (
                    row is not None
                    and row.object_type == self._object_type
                    and self._may_continue(view, place, row.object_uuid, metadata_uuid)
                ):
                    owner_uuid = row.object_uuid
            claim = claims.claim(
                view,
                place,
                path,
                object_uuid=owner_uuid,
                object_type=self._object_type,
                namespace_id=holder.row.namespace_id,
                name=ident.name,
                now_ms=now_ms,
                permit=permit,
                standing_uuid=None if standing is None else standing.object_uuid,
            )
        pointer = self.next(
            standing,
            object_uuid=owner_uuid,
            metadata_uuid=metadata_uuid,
            metadata_location=metadata_location,
            location=location,
            by=by,
            now_ms=now_ms,
        )
        dropping = {} if departure is None else departure.summary
        registered = self.change(
            ident,
            holder.row.namespace_id,
            before=before,
            after=pointer,
            summary={**dropping, "operation": "register"},
            holder=holder,
            leaving=None if departure is None else departure.leaving,
        )
        committed = commit.plan(place, [registered], author=by, via=via, time_ms=now_ms)
        held = () if departure is None else (departures.hold_settings(place),)
        note = () if receipt is None else (receipt.plan(pointer=pointer),)
        return pointer, batch.merge((claim, committed, *held, *note))

    def _may_continue(
        self,
        reading: batch.Reading,
        place: records.Place,
        object_uuid: str,
        metadata_uuid: str | None,
    ) -> bool:
        """Return whether a metadata file may continue the gone owner of its location.

        object_uuid: the owner's. A file of another table or view uuid may not while the owner is
        kept: the commit would end the time in which it can be restored.
        """
        try:
            kept_uuid = self.find_departed(reading, place, object_uuid).dropped.pointer.table_uuid
        except errors.NotRestorable:
            return True
        if kept_uuid is None:
            return True
        return metadata_uuid is not None and metadata_uuid.lower() == kept_uuid.lower()

    def is_of_another(
        self,
        place: records.Place,
        path: str,
        standing: records.Pointer,
        metadata_uuid: str | None,
    ) -> tuple[bool, batch.Batch]:
        """Return whether a metadata file belongs to another table than the one that stands.

        path, metadata_uuid: the location and the table uuid that the file claims. A file belongs to
        the owner of its location. Where a location has none, the uuid in the file says whose it is.
        The Batch expects what was read.
        """
        with self._store.index.view() as view:
            owner_uuid, seen = claims.read_owner(view, place, path)
        if owner_uuid is not None:
            return owner_uuid != standing.object_uuid, seen
        is_same = (
            metadata_uuid is not None
            and standing.table_uuid is not None
            and metadata_uuid.lower() == standing.table_uuid.lower()
        )
        return not is_same, seen

    def plan_move(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        entry: store.StoredPointer,
        location: str,
        *,
        now_ms: int,
        permit: owners.Permit,
    ) -> batch.Batch:
        """Return the claim of an existing table or view on a location that an update names.

        permit: called if another owns the location, or it has files. Raises InvalidLocation, and
        what permit raises.
        """
        object_uuid = entry.pointer.object_uuid
        with self._store.index.view() as view:
            return claims.claim(
                view,
                place,
                locations.parse_location(location, table_bucket=place.table_bucket),
                object_uuid=object_uuid,
                object_type=self._object_type,
                namespace_id=entry.namespace_id,
                name=ident.name,
                now_ms=now_ms,
                permit=permit,
                standing_uuid=object_uuid,
            )

    def next(
        self,
        old: records.Pointer | None,
        *,
        object_uuid: str,
        metadata_uuid: str | None,
        metadata_location: str | None,
        location: str,
        by: str,
        now_ms: int,
    ) -> records.Pointer:
        """Return the pointer after old; None for the first. metadata_uuid: as metadata names it."""
        return records.Pointer(
            object_type=self._object_type,
            object_uuid=object_uuid,
            table_uuid=metadata_uuid,
            metadata_location=metadata_location,
            location=properties.plain_uri(location),
            created_at_ms=now_ms if old is None else old.created_at_ms,
            created_by=by if old is None else old.created_by,
            modified_at_ms=now_ms,
            modified_by=by,
        )

    def change(
        self,
        ident: idents.TableIdent,
        namespace_id: int,
        *,
        before: store.StoredPointer | None,
        after: records.Pointer | None,
        summary: Mapping[str, Any],
        holder: store.StoredNamespace | None = None,
        leaving: departures.Leaving | None = None,
    ) -> commit.Change:
        """Return a pointer's part of a commit. holder: the namespace of a new one."""
        return commit.Change(
            object_type=self._object_type,
            namespace=ident.namespace,
            namespace_id=namespace_id,
            name=ident.name,
            before=None if before is None else before.value,
            after=after,
            holder=None if holder is None else holder.holder,
            summary=summary,
            leaving=leaving,
        )


def later(now_ms: int, before: records.Pointer) -> int:
    """Return a time after a pointer's last change, so that its version token changes with it."""
    return max(now_ms, before.modified_at_ms + 1)


def check_token(pointer: records.Pointer, version_token: str | None) -> None:
    """Raise StaleVersionToken if version_token is that of another pointer; None fits any."""
    if version_token is not None and version_token != records.version_token(pointer):
        raise errors.StaleVersionToken(
            "Provided version token does not match the table version token."
        )
